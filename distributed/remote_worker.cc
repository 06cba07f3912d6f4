#include "distributed/remote_worker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/peers/worker_protocol.h"
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

absl::Status TakeResults(const PeerReply& reply, absl::Span<Tensor> results, std::string* applied_updates) {
  WireReader reader(reply.header());
  if (applied_updates != nullptr) *applied_updates = std::string(reader.String());
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, DecodeTensors(&reader, reply.frame.payloads));
  if (tensors.size() != results.size())
    return absl::InternalError("the peer's reply has another number of results");
  std::move(tensors.begin(), tensors.end(), results.begin());
  return absl::OkStatus();
}

}  // namespace

RemoteWorker::RemoteWorker(Peers& peers, TaskName peer)
    : peers_(peers), peer_(std::move(peer)), task_{.job = peer_.job, .replica = 0, .task = peer_.index} {}

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
  WireWriter writer;
  std::vector<Payload> payloads;
  WEIR_RETURN_IF_ERROR(EncodePartition(spec, &writer, &payloads));
  return peers_
      .CallAndWait(peer_, kRegisterPartitionMethod, writer.Take(), std::move(payloads),
                   {.deadline = deadline})
      .status();
}

void RemoteWorker::RunPartition(const RunPartitionCall& call, Done done) {
  WireWriter writer;
  std::vector<Payload> payloads;
  if (absl::Status encoded = EncodeRunRequest(call, peers_.environment().Now(), &writer, &payloads);
      !encoded.ok())
    return done(encoded);
  const StepKey key(call.plan, call.step_id);
  PeerCallOptions options;
  options.deadline = call.deadline + kDeadlineSlack;
  options.needs_lease = true;
  options.names_link = true;
  {
    absl::MutexLock lock(&running_->mutex);
    running_->calls[key] = nullptr;
  }
  auto handle = peers_.Call(peer_, kRunPartitionMethod, writer.Take(), std::move(payloads), options,
                            [running = running_, key, results = call.results, applied = call.applied_updates,
                             done = std::move(done)](absl::StatusOr<PeerReply> reply) {
                              {
                                absl::MutexLock lock(&running->mutex);
                                running->calls.erase(key);
                              }
                              done(reply.ok() ? TakeResults(*reply, results, applied) : reply.status());
                            });
  absl::MutexLock lock(&running_->mutex);
  if (auto it = running_->calls.find(key); it != running_->calls.end()) it->second = std::move(handle);
}

void RemoteWorker::CancelStep(PlanId plan, int64_t step_id, const absl::Status& reason) {
  WireWriter writer;
  EncodeCancel(plan, step_id, reason, &writer);
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
