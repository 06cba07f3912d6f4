// How a worker's steps send tensors to other workers. Implemented by distributed/ over a transport.
//
// Thread safety: all methods. One message per (step, destination) is the aim: Send only collects, and a
// message leaves at Flush, when the partition has nothing left to run, or when what is collected grows large.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "graph/types/device_name.h"
#include "graph/types/tensor.h"
#include "session/worker.h"

namespace weir {

class TensorSender {
 public:
  virtual ~TensorSender() = default;

  // Takes a share of the tensor's buffer. `turn`: which of the edge's tensors it is (received_edges.h).
  // `destination` is a task. An error later than this call (the peer is
  // gone) must reach the step as LocalWorker::CancelStep.
  virtual absl::Status Send(PlanId plan, int64_t step_id, int edge, int64_t turn,
                            const DeviceName& destination, const Tensor& tensor, bool is_dead) = 0;

  // Sends what was collected for the step.
  virtual void Flush(PlanId plan, int64_t step_id) = 0;

  // The same when the step's part on this worker is over: nothing more will be collected, and what it has for
  // who runs the step may go with the answer to it.
  virtual void FlushLast(PlanId plan, int64_t step_id) { Flush(plan, step_id); }

  // Drops what was collected for the step.
  virtual void Discard(PlanId plan, int64_t step_id) = 0;

  // The step has failed or was cancelled, and nobody reads its tensors any more: drops also what waits to be
  // sent. What leaves already goes on. Must not compute: the step's thread may be anywhere.
  virtual void Withdraw(PlanId plan, int64_t step_id) = 0;
};

}  // namespace weir
