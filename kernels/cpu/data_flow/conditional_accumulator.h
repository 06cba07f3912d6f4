// Gradients of one variable that are collected until enough of them are there, in TensorFlow's semantics: the
// resource behind ConditionalAccumulator, SparseConditionalAccumulator and ResourceConditionalAccumulator.
//
// It has a global step. A gradient that was computed for an earlier one (local_step) is dropped without a
// word. A taker waits until there are as many gradients as it asks for, gets the mean or the sum of all, and
// adds one to the global step. Takers wait in one line; nobody holds a thread while it waits. A taker whose
// step is cancelled ends with Cancelled and takes nothing.
//
// Memory: one sum, and the one gradient that is just added to it.
//
// Thread safety: all methods. A taker that waits keeps the accumulator alive.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/allocator.h"
#include "graph/types/resource_handle.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/data_flow/gradient_sum.h"
#include "kernels/thread_pool.h"
#include "kernels/threads.h"

namespace weir {

class ConditionalAccumulator final : public Resource {
 public:
  static constexpr char kTypeName[] = "ConditionalAccumulator";

  struct Spec {
    std::string name;
    DType dtype = DType::kFloat32;
    PartialShape shape;
    bool is_sparse = false;
    GradientSum::Reduction reduction = GradientSum::Reduction::kMean;
  };
  // The step that takes. Borrowed until `done` is called; `threads` may be null outside of a step.
  struct Caller {
    Cancellation& cancellation;
    Allocator& allocator;
    ThreadPool& adding;
    Threads* threads = nullptr;
  };
  using Done = std::function<void(absl::StatusOr<StagedGradient>)>;

  explicit ConditionalAccumulator(Spec spec);

  // InvalidArgument for a gradient that does not fit, unless it is dropped; ResourceExhausted.
  absl::Status Apply(const Caller& caller, int64_t local_step, const StagedGradient& gradient);
  // InvalidArgument when `num_required` is less than 1; ResourceExhausted.
  void Take(const Caller& caller, int64_t num_required, Done done);
  // Also to a smaller one, as in TensorFlow.
  void SetGlobalStep(int64_t global_step);

  int64_t num_accumulated() const;
  const Spec& spec() const { return spec_; }
  // InvalidArgument, naming what differs, unless it is the accumulator that `spec` asks for.
  absl::Status CheckIsA(const Spec& spec) const;
  std::string ToString() const override;

 private:
  struct Taker {
    Taker(const Caller& caller, int64_t num_required, Done done)
        : caller(caller), num_required(num_required), done(std::move(done)) {}

    const Caller caller;
    const int64_t num_required;
    const Done done;
    bool is_over = false;
    uint64_t on_cancel = 0;
    absl::StatusOr<StagedGradient> result = StagedGradient();
  };
  using TakerRef = std::shared_ptr<Taker>;

  // Serves the first of the line, and the next, while there are enough gradients.
  void Serve(std::vector<TakerRef>* over) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnCancel(const TakerRef& taker, const absl::Status& reason);
  void ServeAndFinish();
  static void Finish(const std::vector<TakerRef>& over);

  const Spec spec_;
  mutable absl::Mutex mutex_;
  GradientSum sum_ ABSL_GUARDED_BY(mutex_);
  int64_t global_step_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<TakerRef> takers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
