// Computes the constants of one step while it is compiled (graph/rewrite/constant_folding.h), within bounds.
//
// A graph may come from a client, and its constants may be as many, and take as long, as it likes. The
// tensors that the kernels make here have kMaxBytes together, with those that stay as constants. A kernel
// that waits or takes long sees a Cancellation at the deadline and when the session is closed. What goes
// beyond is an error here, after which the node is left to its step, where its device's memory and the step's
// deadline count.
//
// Thread safety: Evaluate on one thread at a time; Cancel from any. Tensors may outlive this.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/types/tensor.h"
#include "kernels/cancellation.h"
#include "kernels/device.h"
#include "kernels/environment.h"
#include "kernels/kernel_registry.h"
#include "kernels/session_state.h"
#include "kernels/thread_pool.h"
#include "kernels/timers.h"

namespace weir {

class Folding {
 public:
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;

  // Borrows all but `deadline`. Kernels run on the thread that calls Evaluate.
  Folding(const KernelRegistry& kernels, ThreadPool& threads, Environment& environment, absl::Time deadline);

  // The outputs of a node. ResourceExhausted beyond kMaxBytes; DeadlineExceeded from the deadline on; the
  // reason of Cancel after it; PermissionDenied when the kernel opens a file; else the kernel's error.
  absl::StatusOr<std::vector<Tensor>> Evaluate(const Node& node, absl::Span<const Tensor> inputs);

  // Ends the kernel that runs, and lets no further one begin.
  void Cancel(absl::Status reason) { cancellation_.Cancel(std::move(reason)); }

 private:
  void EndAtDeadline();

  const KernelRegistry& kernels_;
  Environment& environment_;
  const absl::Time deadline_;
  const std::unique_ptr<Device> device_;
  std::unique_ptr<SessionState> state_;  // null before the first node
  Cancellation cancellation_;
  std::unique_ptr<Timers> timers_;  // null likewise; goes first, as it cancels
};

}  // namespace weir
