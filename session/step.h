// A step that was started: whoever started it may wait for it, or be told when it has ended.
//
// Shared: it lives on until it has ended. Thread safety: all methods.
#pragma once

#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/types/tensor.h"
#include "kernels/environment.h"

namespace weir {

class Step {
 public:
  using Results = absl::StatusOr<std::vector<Tensor>>;
  using Done = std::function<void(const Results&)>;

  virtual ~Step() = default;

  // Calls `done` once with the fetches when the step has ended: on the thread that ended it, or at once. Such
  // calls never nest: one that comes while another runs on the thread follows it. `done` must not wait.
  virtual void OnDone(Done done) = 0;
  // Waits. FailedPrecondition on a thread that is running a step: it must not wait.
  virtual Results Await() = 0;
  // Ends the step early, everywhere. Does not wait.
  virtual void Cancel(const absl::Status& reason) = 0;
};

// For implementations of Step: runs `call` now, or after the one that is running on this thread.
void CallUnnested(std::function<void()> call);

// For callers that wait: what `start` lets its argument be told. Not inside a RunScope.
Step::Results AwaitResults(Environment& environment, absl::FunctionRef<void(Step::Done done)> start);

}  // namespace weir
