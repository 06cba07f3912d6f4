// A worker: owns the devices of one task and runs partitions on them. The seam between one process and many.
//
// LocalWorker (session/local_worker.h) runs partitions in this process, RemoteWorker
// (distributed/remote_worker.h) is its client over a transport, and a WorkerService exposes a LocalWorker
// there. Session knows only this interface.
//
// Thread safety: all methods. Calls that take a deadline return by then (plus the time to send a message).
//
// Progress: no call waits for a step. RunPartition is answered by the call's deadline, or as soon after it as
// the kernels that run return, whether or not anybody cancels it.
//
// Steps and tensors: a step runs one registered plan's partitions on several workers at once. Each worker
// gets one RunPartition per step. Tensors between workers travel by push (session/tensor_sender.h), matched
// by (plan, step, edge); one may arrive before the worker's own RunPartition does.
//
// Partial runs: a step may be given arguments, and give results, while it runs. These late arguments and
// results are edges of the plan whose other end is the caller. They belong to the task of the session, whose
// worker must be in this process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/types/device_name.h"
#include "graph/types/tensor.h"
#include "kernels/device.h"
#include "session/executor/logical_step.h"

namespace weir {

class FileSystem;  // kernels/formats/file_system.h
class StepOwners;  // session/step_owners.h
class StepTrace;   // session/step_trace.h

// Names a plan on every worker that has a part in it. Chosen by the Session at random, so that sessions of
// many clients never collide and ids of an old process mean nothing to a new one.
using PlanId = uint64_t;

// Names a session on the workers it uses, chosen at random likewise. 0: the plan belongs to none.
using SessionId = uint64_t;

// The part of a plan that one worker runs: one graph per device, every node assigned to that device.
// Arguments and results (_Arg, _Retval) are numbered from 0 over all graphs of the worker.
struct PartitionSpec {
  PlanId plan = 0;
  // The incarnation that the worker's first device had when the session asked; 0: any. What the session knows
  // of a worker that has started anew is wrong: its variables are gone.
  uint64_t first_device = 0;
  SessionId session =
      0;                // whose nodes go on where its other plans' steps left them (kernels/session_state.h)
  int num_edges = 0;    // of the whole plan
  int num_args = 0;     // of this worker's part
  int num_results = 0;  // of this worker's part
  // Of the session's own worker in a partial run: the last of the edges are the late arguments, then the late
  // results.
  int num_late_args = 0;
  int num_late_results = 0;
  std::vector<std::unique_ptr<Graph>> graphs;
  // What its nodes may read and write; null: all files of the worker's machine. Not sent to other tasks.
  std::shared_ptr<FileSystem> files;
};

// One step of one worker. Spans and what they refer to must stay valid until `done` has been called.
struct RunPartitionCall {
  PlanId plan = 0;
  int64_t step_id = 0;  // unique within the plan; increases
  // Steps of the plan below this one are over for their owner: it has their answers, or has given them up.
  // What comes late for one of them is dropped.
  int64_t over_below = 0;
  // Of a step that may be tried again: an update that an earlier attempt has applied is left out.
  LogicalStep logical_step;
  absl::Time deadline = absl::InfiniteFuture();
  absl::Span<const Tensor> args;
  absl::Span<Tensor> results;  // set when done is called with OK
  // Told of each late result once, one at a time, on a thread of the steps. Never after `done`; before a
  // `done` with OK, of every one. is_dead: it was not computed, because its branch was not taken.
  std::function<void(int result, const Tensor& tensor, bool is_dead)> on_late_result;
  // Set for a step that reads variables to save them: it runs at a moment at which no update is under way,
  // and this becomes what had been applied by then (executor/update_ledger.h). Stays empty where that cannot
  // be known, because a part of the step waits.
  std::string* applied_updates = nullptr;
  // Set for a step that is traced: what the worker's devices did is added before `done` is called. Workers
  // outside of this process add nothing.
  StepTrace* trace = nullptr;
};

class Worker {
 public:
  using Done = std::function<void(absl::Status)>;

  virtual ~Worker() = default;

  // The task it stands for: "/job:worker/replica:0/task:0".
  virtual const DeviceName& task() const = 0;

  // Possible errors: Unavailable (the task cannot be reached), DeadlineExceeded.
  virtual absl::StatusOr<std::vector<DeviceAttributes>> ListDevices(absl::Time deadline) = 0;

  // Compiles the partitions. A second registration of the same plan id is an error.
  // Possible errors: InvalidArgument (a node does not fit its kernel), NotFound (no kernel, no such device),
  // AlreadyExists, Unavailable, DeadlineExceeded, Aborted (the worker has started anew: first_device).
  virtual absl::Status RegisterPartition(PartitionSpec spec, absl::Time deadline) = 0;

  // Runs the step; `done` is called exactly once, from any thread, possibly before this returns.
  // Possible errors: the first error of a kernel, with node and device; NotFound (the plan is not registered
  // here: the task has restarted); Cancelled or the reason given to CancelStep; DeadlineExceeded, naming what
  // was awaited; Unavailable (the task was lost); Aborted (the step's owner has said that it is over; those
  // of executor/update_ledger.h).
  virtual void RunPartition(const RunPartitionCall& call, Done done) = 0;

  // Gives a running step a late argument; dropped when the step is over. May compute before it returns. Each
  // argument comes once.
  // Possible errors: NotFound (the plan is not registered here), InvalidArgument (no such argument),
  // Unimplemented (the worker is not in this process).
  virtual absl::Status FeedStep(PlanId, int64_t /*step_id*/, int /*arg*/, const Tensor&) {
    return absl::UnimplementedError(absl::StrCat(
        task().ToString(), " cannot be fed while a step runs: only a worker of this process can"));
  }

  // Ends a step early; its RunPartition is done soon after, with `reason`. Unknown steps are remembered, so
  // that one that starts late ends at once. Does not wait.
  virtual void CancelStep(PlanId plan, int64_t step_id, const absl::Status& reason) = 0;

  // Forgets the plan; running steps of it are cancelled. Unknown plans are OK. Does not wait.
  virtual void DeregisterPartition(PlanId plan) = 0;

  // Forgets what the session's nodes have kept between steps. Its plans are deregistered first. Unknown
  // sessions are OK. Does not wait.
  virtual void EndSession(SessionId session) = 0;

  // Before the variables of the task are set to other values, and after (executor/update_ledger.h): what was
  // applied to those before counts as not applied. Between both steps that may be tried again are refused
  // with Aborted, until a later life of the task that restores is there: that task may be lost and not come
  // back, but one that was only silent ends its restore. `id` names the restore; ids of a process increase.
  // `applied_updates` (RunPartitionCall), of any workers: what the new values contain. Possible errors:
  // Unavailable, DeadlineExceeded; of the second, Aborted: the worker knows nothing of it (it has started
  // anew, or a later life of the task that restores is there, or another restore has begun since), and
  // InvalidArgument for applied_updates that no worker has given.
  virtual absl::Status BeginRestore(uint64_t /*id*/, absl::Time /*deadline*/) { return absl::OkStatus(); }
  virtual absl::Status EndRestore(uint64_t /*id*/, absl::string_view /*applied_updates*/,
                                  absl::Time /*deadline*/) {
    return absl::OkStatus();
  }

  // What steps that may be tried again have applied here (UpdateLedger::Capture). Empty: the worker is not in
  // this process.
  virtual std::string AppliedUpdates() { return ""; }

  // Where steps are owned by sessions of the process that the worker is in; null for a worker elsewhere.
  virtual StepOwners* owners() { return nullptr; }

  // Drops the resources of the containers (all of the default one for an empty list).
  virtual absl::Status ResetContainers(absl::Span<const std::string> containers, absl::Time deadline) = 0;
};

}  // namespace weir
