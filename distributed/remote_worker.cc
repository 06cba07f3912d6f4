#include "distributed/remote_worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/peers/worker_protocol.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// What must get through for the peer's sake, but nobody waits for: said again until the peer's life ends, or
// this time is over.
constexpr absl::Duration kNoticeTimeout = absl::Minutes(5);
// The peer reports a step that ran out of time itself, with more detail than the transport could give.
constexpr absl::Duration kDeadlineSlack = absl::Seconds(5);

PeerCallOptions Notice(const Environment& environment) {
  return {
      .deadline = environment.Now() + kNoticeTimeout, .outlives_silence = true, .retry_for = kNoticeTimeout};
}

// Whether nothing of this part can run before it has a tensor of that task: all of it depends on one, but for
// what only names or holds a value.
bool NeedsTensorsOf(const DeviceName& task, const std::vector<std::unique_ptr<Graph>>& graphs) {
  bool receives = false;
  for (const auto& graph : graphs) {
    std::vector<bool> depends(graph->num_nodes());
    // Edges go from lower to higher ids but in loops: as often as something is found.
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (const auto& node : graph->nodes()) {
        if (depends[node->id()]) continue;
        bool is_late = false;
        if (node->op_name() == kRecvOp) {
          const absl::StatusOr<DeviceName> from = DeviceName::Parse(node->attr<std::string>("send_device"));
          is_late = from.ok() && from->IsSameTask(task);
        }
        for (const Output& input : node->inputs()) is_late = is_late || depends[input.node->id()];
        for (const Node* input : node->control_inputs()) is_late = is_late || depends[input->id()];
        if (is_late) receives = has_changed = depends[node->id()] = true;
      }
    }
    for (const auto& node : graph->nodes()) {
      const bool is_source = node->num_inputs() == 0 && node->control_inputs().empty();
      const bool is_name = node->num_outputs() == 1 && node->output_type(0) == DType::kResource;
      const bool is_value = node->op_name() == "Const" || node->op_name() == kArgOp;
      if (!depends[node->id()] && !(is_source && (is_name || is_value))) return false;
    }
  }
  return receives;
}

// Gives what the reply brings: tensors to this task's own part of the step, then the results.
absl::Status TakeReply(const PeerReply& reply, LocalWorker& local, const std::string& from,
                       const RunPartitionCall& call) {
  WireReader reader(reply.header());
  if (call.applied_updates != nullptr) *call.applied_updates = std::string(reader.String());
  WEIR_ASSIGN_OR_RETURN(RunReply answer, DecodeRunReply(&reader, reply.frame.payloads));
  if (answer.results.size() != call.results.size())
    return absl::InternalError("the peer's reply has another number of results");
  for (const EdgeTensor& entry : answer.last) {
    WEIR_RETURN_IF_ERROR(
        local.Receive(call.plan, call.step_id, entry.edge, entry.turn, entry.tensor, entry.is_dead, from));
  }
  std::move(answer.results.begin(), answer.results.end(), call.results.begin());
  return absl::OkStatus();
}

}  // namespace

RemoteWorker::RemoteWorker(Peers& peers, TaskName peer, TensorPusher& pusher, LocalWorker& local)
    : peers_(peers),
      peer_(std::move(peer)),
      task_{.job = peer_.job, .replica = 0, .task = peer_.index},
      pusher_(pusher),
      local_(local) {}

RemoteWorker::~RemoteWorker() = default;

absl::StatusOr<std::vector<DeviceAttributes>> RemoteWorker::ListDevices(absl::Time deadline) {
  WEIR_ASSIGN_OR_RETURN(const PeerReply reply,
                        peers_.CallAndWait(peer_, kListDevicesMethod, "", {},
                                           {.deadline = deadline, .wait_for_ready = true, .any_life = true}));
  WireReader reader(reply.header());
  return DecodeDevices(&reader);
}

absl::Status RemoteWorker::RegisterPartition(PartitionSpec spec, absl::Time deadline) {
  if (spec.num_late_args + spec.num_late_results > 0) {
    return absl::UnimplementedError(
        absl::StrCat("a partial run is fed and fetched from at the session's own task, and ",
                     task_.ToString(), " is not in this process"));
  }
  if (NeedsTensorsOf(local_.task(), spec.graphs)) {
    absl::MutexLock lock(&mutex_);
    need_tensors_first_.insert(spec.plan);
  }
  WireWriter writer;
  std::vector<Payload> payloads;
  WEIR_RETURN_IF_ERROR(EncodePartition(spec, &writer, &payloads));
  return peers_
      .CallAndWait(peer_, kRegisterPartitionMethod, writer.Take(), std::move(payloads),
                   {.deadline = deadline})
      .status();
}

bool RemoteWorker::NeedsTensorsFirst(PlanId plan) const {
  {
    absl::MutexLock lock(&mutex_);
    if (!need_tensors_first_.contains(plan)) return false;
  }
  // Whether this task has the part that they come from.
  return !absl::IsNotFound(local_.CheckSender(plan, /*edge=*/-1, /*sender=*/""));
}

void RemoteWorker::RunPartition(const RunPartitionCall& call, Done done) {
  const StepKey key(call.plan, call.step_id);
  {
    absl::MutexLock lock(&running_->mutex);
    running_->calls[key] = nullptr;
  }
  done = [running = running_, key, done = std::move(done)](const absl::Status& status) {
    {
      absl::MutexLock lock(&running->mutex);
      running->calls.erase(key);
    }
    done(status);
  };
  if (!NeedsTensorsFirst(call.plan)) return Begin(call, {}, std::move(done));
  // This task's own part comes after this one (StepPlan), and flushes.
  pusher_.BeginAtFlush(call.plan, call.step_id, peer_,
                       [this, &call, done = std::move(done)](absl::StatusOr<std::vector<EdgeTensor>> first) {
                         if (!first.ok()) return done(first.status());
                         Begin(call, *first, done);
                       });
}

void RemoteWorker::Begin(const RunPartitionCall& call, const std::vector<EdgeTensor>& first, Done done) {
  WireWriter writer;
  std::vector<Payload> payloads;
  if (absl::Status encoded = EncodeRunRequest(call, peers_.environment().Now(), first, &writer, &payloads);
      !encoded.ok())
    return done(encoded);
  const StepKey key(call.plan, call.step_id);
  PeerCallOptions options;
  options.deadline = call.deadline + kDeadlineSlack;
  options.needs_lease = true;
  options.names_link = true;
  auto handle = peers_.Call(
      peer_, kRunPartitionMethod, writer.Take(), std::move(payloads), options,
      [this, &call, done = std::move(done)](absl::StatusOr<PeerReply> reply) {
        done(reply.ok() ? TakeReply(*reply, local_, peer_.ToDevicePrefix(), call) : reply.status());
      });
  absl::MutexLock lock(&running_->mutex);
  if (auto it = running_->calls.find(key); it != running_->calls.end()) it->second = std::move(handle);
}

void RemoteWorker::CancelStep(PlanId plan, int64_t step_id, const absl::Status& reason) {
  WireWriter writer;
  EncodeCancel(plan, step_id, reason, &writer);
  pusher_.GiveUp(plan, step_id, peer_, reason);
  peers_.Call(peer_, kCancelStepMethod, writer.Take(), {}, Notice(peers_.environment()),
              [](absl::StatusOr<PeerReply>) {});
  const StepKey key(plan, step_id);
  {
    absl::MutexLock lock(&running_->mutex);
    if (!running_->calls.contains(key)) return;
  }
  peers_.timers().At(peers_.environment().Now() + kCancelGrace, [running = running_, key, reason] {
    std::shared_ptr<Peers::Handle> call;
    {
      absl::MutexLock lock(&running->mutex);
      if (auto it = running->calls.find(key); it != running->calls.end()) call = it->second;
    }
    if (call) call->Cancel(reason);
  });
}

void RemoteWorker::DeregisterPartition(PlanId plan) {
  {
    absl::MutexLock lock(&mutex_);
    need_tensors_first_.erase(plan);
  }
  WireWriter writer;
  writer.Fixed64(plan);
  peers_.Call(peer_, kDeregisterPartitionMethod, writer.Take(), {}, Notice(peers_.environment()),
              [](absl::StatusOr<PeerReply>) {});
}

void RemoteWorker::EndSession(SessionId session) {
  WireWriter writer;
  writer.Fixed64(session);
  peers_.Call(peer_, kEndSessionMethod, writer.Take(), {}, Notice(peers_.environment()),
              [](absl::StatusOr<PeerReply>) {});
}

absl::Status RemoteWorker::BeginRestore(uint64_t id, absl::Time deadline) {
  WireWriter writer;
  writer.Fixed64(id);
  return peers_.CallAndWait(peer_, kBeginRestoreMethod, writer.Take(), {}, {.deadline = deadline}).status();
}

absl::Status RemoteWorker::EndRestore(uint64_t id, absl::string_view applied_updates, absl::Time deadline) {
  WireWriter writer;
  writer.Fixed64(id);
  writer.String(applied_updates);
  return peers_.CallAndWait(peer_, kEndRestoreMethod, writer.Take(), {}, {.deadline = deadline}).status();
}

absl::Status RemoteWorker::ResetContainers(absl::Span<const std::string> containers, absl::Time deadline) {
  WireWriter writer;
  writer.Unsigned(containers.size());
  for (const std::string& container : containers) writer.String(container);
  return peers_.CallAndWait(peer_, kResetContainersMethod, writer.Take(), {}, {.deadline = deadline})
      .status();
}

}  // namespace weir
