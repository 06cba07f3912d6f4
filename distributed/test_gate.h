// For tests: the op PassGate, whose kernel computes until the test lets it end. The gate's address is its
// input.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/server.h"
#include "graph/graph.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
#include "kernels/device_kernels.h"
#include "ops/register_ops.h"
#include "session/worker.h"

namespace weir {

class Gate {
 public:
  void Pass() {
    absl::MutexLock lock(&mutex_);
    ++num_callers_;
    mutex_.Await(absl::Condition(&is_open_));
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    is_open_ = true;
  }
  void AwaitCaller() {
    absl::MutexLock lock(&mutex_);
    const auto has_caller = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_callers_ > 0; };
    mutex_.Await(absl::Condition(&has_caller));
  }
  // Whether so many kernels have come in time.
  bool AwaitCallers(int count, absl::Duration patience) {
    absl::MutexLock lock(&mutex_);
    const auto have_come = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_callers_ >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&have_come), patience);
  }
  Tensor address() { return Tensor::Scalar(reinterpret_cast<int64_t>(this)); }

 private:
  absl::Mutex mutex_;
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
  int num_callers_ ABSL_GUARDED_BY(mutex_) = 0;
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

// Plan 5 of the ps, for messages that a test writes itself: a node that computes until the gate is open.
inline PartitionSpec PlanWithGate(const OpRegistry& ops, Gate& gate) {
  const DeviceName device = DeviceName::Parse("/job:ps/replica:0/task:0/device:CPU:0").value();
  auto graph = std::make_unique<Graph>(ops);
  Node* address =
      graph
          ->AddNode(
              {.op = "Const", .name = "gate", .attrs = {{"value", gate.address()}, {"dtype", DType::kInt64}}})
          .value();
  graph->SetAssignedDevice(address, device);
  graph->SetAssignedDevice(
      graph->AddNode({.op = "PassGate", .name = "pass", .inputs = {address->output(0)}}).value(), device);
  PartitionSpec spec;
  spec.plan = 5;
  spec.graphs.push_back(std::move(graph));
  return spec;
}

}  // namespace weir
