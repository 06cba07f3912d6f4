// For tests: the op PassGate, whose kernel computes until the test lets it end. The gate's address is its
// input.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "distributed/server.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
#include "kernels/device_kernels.h"
#include "ops/register_ops.h"

namespace weir {

class Gate {
 public:
  void Pass() {
    absl::MutexLock lock(&mutex_);
    has_caller_ = true;
    mutex_.Await(absl::Condition(&is_open_));
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    is_open_ = true;
  }
  void AwaitCaller() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&has_caller_));
  }
  Tensor address() { return Tensor::Scalar(reinterpret_cast<int64_t>(this)); }

 private:
  absl::Mutex mutex_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_caller_ ABSL_GUARDED_BY(mutex_) = false;
};

inline absl::Status PassGate(KernelContext& context) {
  reinterpret_cast<Gate*>(context.input(0).scalar<int64_t>())->Pass();
  WEIR_ASSIGN_OR_RETURN(Tensor * passed, context.AllocateOutput(0, Shape()));
  passed->flat<float>()[0] = 1;
  return absl::OkStatus();
}

// The standard ops and PassGate, which servers of these options have then. `ops` must outlive them.
inline absl::Status AddPassGate(OpRegistry& ops, ServerOptions* options) {
  WEIR_RETURN_IF_ERROR(RegisterStandardOps(ops));
  WEIR_RETURN_IF_ERROR(ops.Register({.name = "PassGate",
                                     .summary = "Computes until the test opens the gate.",
                                     .inputs = {"gate: int64"},
                                     .outputs = {"passed: float"},
                                     .is_stateful = true,
                                     .infer_shapes = UnknownShape,
                                     .gradient = NotDifferentiable}));
  options->ops = &ops;
  options->register_kernels = [](KernelRegistry& registry, absl::string_view device_type) {
    DeviceKernels(registry, device_type).Add<&PassGate>("PassGate");
  };
  return absl::OkStatus();
}

}  // namespace weir
