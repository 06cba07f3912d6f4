#include "distributed/worker_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/plan_errors.h"
#include "graph/types/status_macros.h"

namespace weir {

// A step asked for by a peer: running, or over with its answer kept.
struct WorkerService::Step {
  TaskName owner;
  RunRequest request;
  std::vector<Tensor> results;
  std::string applied_updates;
  RunPartitionCall call;
  // Guarded by the service's mutex.
  bool has_begun = false;
  absl::Status cancelled;  // before it has begun
  bool is_over = false;
  std::vector<std::shared_ptr<IncomingCall>> waiting;
  Frame answer;
  PeerUse::Share share;
  std::vector<PeerUse::Share> objects;  // what the strings and handles among its arguments take
};

namespace {

// Copies, so that a kept answer does not pin the buffers of variables.
std::vector<Payload> CopyOf(const std::vector<Payload>& payloads) {
  std::vector<Payload> copies;
  for (const Payload& payload : payloads) copies.push_back(Payload::OfString(std::string(payload.bytes())));
  return copies;
}

}  // namespace

WorkerService::WorkerService(LocalWorker& worker, const OpRegistry& ops, Membership& membership, Peers& peers,
                             TensorPusher& pusher, std::shared_ptr<FileSystem> files,
                             const PeerLimits& limits)
    : worker_(worker),
      ops_(ops),
      membership_(membership),
      peers_(peers),
      pusher_(pusher),
      files_(std::move(files)),
      use_(limits),
      inbox_(worker, membership, use_, limits.inbound,
             [this](PlanId plan, int64_t step_id, const absl::Status& reason) {
               FailStep(plan, step_id, reason);
             }),
      failures_(peers) {}

WorkerService::~WorkerService() = default;

void WorkerService::Handle(std::shared_ptr<IncomingCall> call) {
  WorkerRequest request{std::move(call)};
  request.reader = WireReader(request.call->request().header);
  request.envelope = Envelope::DecodeFrom(&request.reader);
  const absl::string_view method = request.call->method();
  if (!request.reader.ok()) {
    return Reply(request, absl::InvalidArgumentError(absl::StrCat(method, ": the request has no envelope")));
  }
  if (absl::Status admitted = Admit(request.envelope); !admitted.ok()) {
    if (membership_.MayBeGuest(admitted, request.envelope.sender, request.envelope.last_loss)) {
      // Beside the frame, where it is tried again (Peers).
      return request.call->Reply(absl::UnavailableError(admitted.message()));
    }
    return Reply(request, admitted);
  }
  if (method == kRunPartitionMethod) return RunPartition(request);
  if (method == kPushTensorsMethod) return inbox_.Push(request);
  if (method == kPushPieceMethod) return inbox_.PushPiece(request);
  if (method == kCancelStepMethod) return CancelStep(request);
  if (method == kRegisterPartitionMethod) {
    return request.call->Compute([this, request]() mutable { RegisterPartition(request); });
  }
  if (method == kFailStepMethod) return FailOwnStep(request);
  if (method == kDeregisterPartitionMethod) return DeregisterPartition(request);
  if (method == kEndSessionMethod) return EndSession(request);
  if (method == kListDevicesMethod) return ListDevices(request);
  if (method == kBeginRestoreMethod) return BeginRestore(request);
  if (method == kEndRestoreMethod) return EndRestore(request);
  if (method == kResetContainersMethod) return ResetContainers(request);
  Reply(request, absl::UnimplementedError(absl::StrCat("this server does not know the method ", method)));
}

absl::Status WorkerService::Admit(const Envelope& envelope) {
  return membership_.Admit(envelope.sender, envelope.sender_incarnation, envelope.addressee,
                           envelope.last_loss);
}

Frame WorkerService::MakeReply(const absl::Status& status, std::string body,
                               std::vector<Payload> payloads) const {
  return EncodeReply(membership_.incarnation(), status, std::move(body), std::move(payloads));
}

void WorkerService::Reply(const WorkerRequest& request, const absl::Status& status, std::string body,
                          std::vector<Payload> payloads) {
  request.call->Reply(MakeReply(status, std::move(body), std::move(payloads)));
}

void WorkerService::ListDevices(WorkerRequest& request) {
  absl::StatusOr<std::vector<DeviceAttributes>> devices = worker_.ListDevices(request.call->deadline());
  WireWriter writer;
  if (devices.ok()) EncodeDevices(*devices, &writer);
  Reply(request, devices.status(), writer.Take());
}

void WorkerService::RegisterPartition(WorkerRequest& request) {
  TensorShares tensors;
  absl::StatusOr<PartitionSpec> spec =
      DecodePartition(&request.reader, request.payloads(), ops_, [&](PlanId plan, int64_t num_bytes) {
        return TakeTensors(request.envelope, plan, num_bytes, &tensors);
      });
  if (!spec.ok()) return Reply(request, spec.status());
  spec->files = files_;
  const PlanId id = spec->plan;
  const std::pair<Incarnation, PlanId> key = {request.envelope.sender_incarnation, id};
  PeerUse::Share plan_share, session_share;
  {
    absl::MutexLock lock(&mutex_);
    // The connection broke before the first answer arrived, or the request came twice.
    const auto known = plans_.find(id);
    if (known != plans_.end() && known->second.owner_incarnation == key.first) {
      return Reply(request, absl::OkStatus());
    }
    if (IsDeregistered(key)) return Reply(request, DeregisteredPlan(id, membership_.self()));
    if (const auto found = registering_.find(key); found != registering_.end()) {
      if (found->second.size() >= kMaxWaiting) return Reply(request, AskedTooOften("plan", id));
      found->second.push_back(request.call);
      return;
    }
    const absl::Status taken = TakePlan(request, *spec, tensors.num_bytes, &plan_share, &session_share);
    if (!taken.ok()) return Reply(request, taken);
    registering_[key].push_back(request.call);
  }
  GiveUpRestoreOfEarlierLife();  // whose owner may be the later one
  const int num_args = spec->num_args, num_results = spec->num_results;
  const SessionId session = spec->session;
  absl::Status registered = worker_.RegisterPartition(*std::move(spec), request.call->deadline(), key.first);
  std::vector<std::shared_ptr<IncomingCall>> waiting;
  bool drops_it = false, is_sessions_last = false;
  {
    absl::MutexLock lock(&mutex_);
    const bool is_orphan = IsOrphan(request.envelope, id);
    if (session != 0 && !is_orphan) {
      sessions_.try_emplace({session, key.first}, Owner{request.envelope.sender, std::move(session_share)});
    }
    is_sessions_last = session != 0 && !sessions_.contains({session, key.first});
    drops_it = is_orphan && registered.ok();
    if (drops_it) {
      registered = absl::AbortedError(absl::StrCat("plan ", id, " was dropped by ",
                                                   membership_.self().ToString(), " while it was compiled"));
    }
    if (registered.ok()) {
      Plan& plan = plans_[id];
      plan.owner = request.envelope.sender;
      plan.owner_incarnation = key.first;
      plan.num_args = num_args;
      plan.num_results = num_results;
      plan.share = std::move(plan_share);
      plan.tensors = std::move(tensors);
    }
    waiting = std::move(registering_[key]);
    registering_.erase(key);
  }
  if (drops_it) worker_.DeregisterPartition(id);
  if (is_sessions_last) worker_.EndSession(session, key.first);
  for (const auto& call : waiting) call->Reply(MakeReply(registered));
}

absl::Status WorkerService::TakeTensors(const Envelope& owner, PlanId plan, int64_t num_bytes,
                                        TensorShares* taken) {
  WEIR_RETURN_IF_ERROR(use_.TakeBytes(owner.sender, owner.sender_incarnation, num_bytes,
                                      absl::StrCat("plan ", plan), &taken->of_graphs));
  taken->num_bytes += num_bytes;
  return absl::OkStatus();
}

absl::Status WorkerService::TakePlan(const WorkerRequest& request, const PartitionSpec& spec,
                                     int64_t tensor_bytes, PeerUse::Share* plan, PeerUse::Share* session) {
  const Envelope& owner = request.envelope;
  const auto wire_bytes = static_cast<int64_t>(request.call->request().num_wire_bytes());
  const PeerUse::Amount amount = {.plans = 1,
                                  .edges = int64_t{spec.num_edges} + spec.num_args + spec.num_results,
                                  .bytes = std::max<int64_t>(0, wire_bytes - tensor_bytes)};
  WEIR_ASSIGN_OR_RETURN(
      *plan, use_.Take(owner.sender, owner.sender_incarnation, amount, absl::StrCat("plan ", spec.plan)));
  if (spec.session == 0 || sessions_.contains({spec.session, owner.sender_incarnation})) {
    return absl::OkStatus();
  }
  WEIR_ASSIGN_OR_RETURN(*session, use_.Take(owner.sender, owner.sender_incarnation, {.sessions = 1},
                                            absl::StrCat("session ", spec.session)));
  return absl::OkStatus();
}

bool WorkerService::IsOrphan(const Envelope& owner, PlanId plan) {
  // OnLoss comes after membership has changed its mind, and takes the lock: it finds what is registered now.
  return !membership_.IsAlive(owner.sender, owner.sender_incarnation) ||
         IsDeregistered({owner.sender_incarnation, plan});
}

bool WorkerService::IsDeregistered(const std::pair<Incarnation, PlanId>& plan) const {
  return std::find(deregistered_.begin(), deregistered_.end(), plan) != deregistered_.end();
}

absl::StatusOr<Frame> WorkerService::BeginStep(const WorkerRequest& request, const RunRequest& run,
                                               std::shared_ptr<Step>* step) {
  std::vector<std::shared_ptr<Step>> forgotten;  // freed without the lock
  absl::MutexLock lock(&mutex_);
  auto it = plans_.find(run.plan);
  if (it == plans_.end()) return UnknownPlan(run.plan, membership_.self());
  Plan& plan = it->second;
  if (static_cast<int>(run.args.size()) != plan.num_args || run.num_results != plan.num_results) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan ", run.plan, " takes ", plan.num_args, " arguments and gives ", plan.num_results,
                     " results, a step came with ", run.args.size(), " and ", run.num_results));
  }
  if (run.over_below > plan.over_below) ForgetAnswers(plan, run.over_below, &forgotten);
  if (run.step_id < plan.over_below && !plan.steps.contains(run.step_id)) {
    return absl::AbortedError(absl::StrCat("step ", run.step_id,
                                           " comes too late: its owner has said that those ", "below ",
                                           plan.over_below, " are over"));
  }
  if (run.step_id <= plan.newest_forgotten && !plan.steps.contains(run.step_id)) {
    return absl::AbortedError(absl::StrCat("step ", run.step_id,
                                           " comes too late: it may have been run, and step ",
                                           plan.newest_forgotten, " is over and forgotten"));
  }
  if (const auto known = plan.steps.find(run.step_id); known != plan.steps.end()) {
    if (known->second->is_over) return known->second->answer;
    if (known->second->waiting.size() >= kMaxWaiting) return AskedTooOften("step", run.step_id);
    known->second->waiting.push_back(request.call);
    return Frame();
  }
  const auto num_bytes = static_cast<int64_t>(request.call->request().num_wire_bytes());
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share share,
                        use_.Take(plan.owner, plan.owner_incarnation, {.steps = 1, .bytes = num_bytes},
                                  absl::StrCat("step ", run.step_id)));
  *step = plan.steps[run.step_id] = std::make_shared<Step>();
  (*step)->share = std::move(share);
  (*step)->waiting.push_back(request.call);
  return Frame();
}

void WorkerService::RunPartition(WorkerRequest& request) {
  std::vector<PeerUse::Share> objects;
  const auto take = [&](int64_t num_bytes) {
    return use_.TakeBytes(request.envelope.sender, request.envelope.sender_incarnation, num_bytes,
                          "the arguments of a step", &objects);
  };
  absl::StatusOr<RunRequest> run =
      DecodeRunRequest(&request.reader, request.payloads(), peers_.environment().Now(), take);
  if (!run.ok()) return Reply(request, run.status());
  const PlanId plan_id = run->plan;
  const int64_t step_id = run->step_id;
  if (absl::Status owned = CheckOwner(request.envelope, plan_id); !owned.ok()) return Reply(request, owned);
  std::shared_ptr<Step> step;
  absl::StatusOr<Frame> answer = BeginStep(request, *run, &step);
  if (!answer.ok()) return Reply(request, answer.status());
  if (!answer->header.empty()) return request.call->Reply(*std::move(answer));
  if (step == nullptr) return;  // it runs already and will answer this request too
  request.call->request().payloads.clear();
  step->owner = request.envelope.sender;
  step->objects = std::move(objects);
  step->request = *std::move(run);
  step->results.resize(step->request.num_results);
  step->call = {.plan = plan_id,
                .step_id = step_id,
                .over_below = step->request.over_below,
                .logical_step = step->request.logical_step,
                .deadline = step->request.deadline,
                .args = step->request.args,
                .results = absl::MakeSpan(step->results),
                .applied_updates = step->request.wants_applied_updates ? &step->applied_updates : nullptr};
  request.call->Compute([this, step] { RunStep(step); });
}

void WorkerService::RunStep(const std::shared_ptr<Step>& step) {
  const PlanId plan_id = step->call.plan;
  const int64_t step_id = step->call.step_id;
  absl::Status cancelled;
  {
    absl::MutexLock lock(&mutex_);
    step->has_begun = true;
    cancelled = step->cancelled;
  }
  if (cancelled.ok()) cancelled = DeliverFirst(*step);
  if (!cancelled.ok()) return OnStepDone(plan_id, step_id, step, cancelled);
  pusher_.AnswerWith(plan_id, step_id, step->owner);
  worker_.RunPartition(step->call, [this, plan_id, step_id, step](absl::Status status) {
    // The plan may have gone since BeginStep. A kernel's own NotFound leaves it registered.
    if (absl::IsNotFound(status) && !HasPlan(plan_id)) status = UnknownPlan(plan_id, membership_.self());
    OnStepDone(plan_id, step_id, step, status);
  });
}

// Before the step begins, so that it finds them.
absl::Status WorkerService::DeliverFirst(Step& step) {
  const std::string from = step.owner.ToDevicePrefix();
  for (const EdgeTensor& entry : std::exchange(step.request.first, {})) {
    absl::Status status = worker_.Receive(step.call.plan, step.call.step_id, entry.edge, entry.turn,
                                          entry.tensor, entry.is_dead, from);
    if (status.ok()) continue;
    if (absl::IsNotFound(status)) status = UnknownPlan(step.call.plan, membership_.self());
    worker_.CancelStep(step.call.plan, step.call.step_id, status);
    return status;
  }
  return absl::OkStatus();
}

void WorkerService::OnStepDone(PlanId plan_id, int64_t step_id, const std::shared_ptr<Step>& step,
                               const absl::Status& status) {
  WireWriter writer;
  std::vector<Payload> payloads;
  absl::Status outcome = status;
  if (step->request.wants_applied_updates) writer.String(step->applied_updates);
  const std::vector<EdgeTensor> last = pusher_.TakeAnswer(plan_id, step_id);
  if (outcome.ok()) outcome = EncodeRunReply(last, step->results, &writer, &payloads);
  if (!outcome.ok()) payloads.clear();
  Frame answer = MakeReply(outcome, outcome.ok() ? writer.Take() : "", std::move(payloads));
  Frame kept = answer.num_wire_bytes() <= kMaxKeptBytes
                   ? Frame{answer.header, CopyOf(answer.payloads)}
                   : MakeReply(absl::AbortedError(absl::StrCat(
                                   "step ", step_id, " was run, but its results of ", answer.num_wire_bytes(),
                                   " bytes were lost with the connection")),
                               "", {});
  std::vector<std::shared_ptr<IncomingCall>> waiting;
  std::shared_ptr<Step> forgotten;
  {
    absl::MutexLock lock(&mutex_);
    step->is_over = true;
    step->answer = std::move(kept);
    waiting.swap(step->waiting);
    if (auto plan = plans_.find(plan_id); plan != plans_.end()) {
      KeepAnswer(plan->second, step_id, step, &forgotten);
    }
  }
  step->request.args.clear();
  step->results.clear();
  for (const auto& call : waiting) call->Reply(answer);
}

void WorkerService::KeepAnswer(Plan& plan, int64_t step_id, const std::shared_ptr<Step>& step,
                               std::shared_ptr<Step>* forgotten) {
  step->share = PeerUse::Share();
  step->objects.clear();
  // The plan that it was a step of may have been dropped, and another one be registered under the same id.
  const auto known = plan.steps.find(step_id);
  if (known == plan.steps.end() || known->second != step) return;
  absl::StatusOr<PeerUse::Share> kept =
      use_.Take(plan.owner, plan.owner_incarnation,
                {.bytes = static_cast<int64_t>(sizeof(Step) + step->answer.num_wire_bytes())}, "an answer");
  int64_t oldest_id = step_id;
  if (kept.ok()) {
    step->share = *std::move(kept);
    plan.finished.push_back(step_id);
    if (plan.finished.size() <= kKeptAnswers) return;
    oldest_id = plan.finished.front();
    plan.finished.pop_front();
  }
  plan.newest_forgotten = std::max(plan.newest_forgotten, oldest_id);
  *forgotten = std::move(plan.steps.extract(oldest_id).mapped());
}

void WorkerService::ForgetAnswers(Plan& plan, int64_t over_below,
                                  std::vector<std::shared_ptr<Step>>* forgotten) {
  plan.over_below = over_below;
  while (!plan.finished.empty() && plan.finished.front() < over_below) {
    forgotten->push_back(std::move(plan.steps.extract(plan.finished.front()).mapped()));
    plan.finished.pop_front();
  }
}

absl::Status WorkerService::CheckOwner(const Envelope& envelope, PlanId plan) const {
  absl::MutexLock lock(&mutex_);
  const auto found = plans_.find(plan);
  if (found == plans_.end()) return absl::OkStatus();
  const Plan& known = found->second;
  if (known.owner == envelope.sender && known.owner_incarnation == envelope.sender_incarnation) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("plan ", plan, " on ", membership_.self().ToString(),
                                                  " is of ", known.owner.ToString(), ", not of ",
                                                  envelope.sender.ToString()));
}

void WorkerService::CancelStep(WorkerRequest& request) {
  absl::StatusOr<CancelRequest> cancel = DecodeCancel(&request.reader);
  absl::Status status = cancel.status();
  if (status.ok()) status = CheckOwner(request.envelope, cancel->plan);
  if (status.ok() && HasPlan(cancel->plan)) {
    CancelBeforeItBegins(*cancel);
    worker_.CancelStep(cancel->plan, cancel->step_id, cancel->reason);
  }
  Reply(request, status);
}

void WorkerService::FailOwnStep(WorkerRequest& request) {
  absl::StatusOr<CancelRequest> failure = DecodeCancel(&request.reader);
  Reply(request, failure.status());  // first: cancelling may compute
  if (!failure.ok()) return;
  const TaskName& sender = request.envelope.sender;
  DeviceName by;
  by.job = sender.job;
  by.replica = 0;
  by.task = sender.index;
  worker_.owners()->FailStep(failure->plan, failure->step_id, by, failure->reason);
}

void WorkerService::CancelBeforeItBegins(const CancelRequest& cancel) {
  absl::MutexLock lock(&mutex_);
  auto plan = plans_.find(cancel.plan);
  if (plan == plans_.end()) return;
  auto step = plan->second.steps.find(cancel.step_id);
  if (step != plan->second.steps.end() && !step->second->has_begun) step->second->cancelled = cancel.reason;
}

void WorkerService::DeregisterPartition(WorkerRequest& request) {
  const PlanId plan = request.reader.Fixed64();
  absl::Status status = request.reader.Finish("a deregistration");
  if (status.ok()) status = CheckOwner(request.envelope, plan);
  if (status.ok()) {
    bool had_it = false;
    {
      absl::MutexLock lock(&mutex_);
      had_it = plans_.erase(plan) > 0;
      deregistered_.emplace_back(request.envelope.sender_incarnation, plan);
      if (deregistered_.size() > kRememberedPlans) deregistered_.pop_front();
    }
    if (had_it) worker_.DeregisterPartition(plan);
  }
  Reply(request, status);
}

void WorkerService::EndSession(WorkerRequest& request) {
  const SessionId session = request.reader.Fixed64();
  const absl::Status status = request.reader.Finish("the end of a session");
  if (status.ok()) {
    {
      absl::MutexLock lock(&mutex_);
      sessions_.erase({session, request.envelope.sender_incarnation});
    }
    worker_.EndSession(session, request.envelope.sender_incarnation);
  }
  Reply(request, status);
}

void WorkerService::BeginRestore(WorkerRequest& request) {
  const uint64_t id = request.reader.Fixed64();
  if (absl::Status status = request.reader.Finish("a restore"); !status.ok()) return Reply(request, status);
  request.call->Compute([this, id, request] {  // waits for updates that are just applied
    const Incarnation owner = request.envelope.sender_incarnation;
    const absl::Status begun = restorer_.Begin(membership_, request.envelope.sender, owner,
                                               [&] { worker_.BeginRestore(id, owner); });
    GiveUpRestoreOfEarlierLife();
    Reply(request, begun);
  });
}

void WorkerService::GiveUpRestoreOfEarlierLife() {
  if (const Incarnation life = restorer_.LifeThatIsOver(membership_); life != 0) worker_.GiveUpRestore(life);
}

void WorkerService::EndRestore(WorkerRequest& request) {
  const uint64_t id = request.reader.Fixed64();
  const std::string applied_updates(request.reader.String());
  absl::Status status = request.reader.Finish("the end of a restore");
  if (status.ok()) status = worker_.EndRestore(id, applied_updates, request.call->deadline());
  Reply(request, status);
}

void WorkerService::ResetContainers(WorkerRequest& request) {
  const size_t count = request.reader.Count();
  std::vector<std::string> containers;
  for (size_t i = 0; i < count && request.reader.ok(); ++i) containers.emplace_back(request.reader.String());
  if (absl::Status read = request.reader.Finish("a list of containers"); !read.ok())
    return Reply(request, read);
  request.call->Compute([this, request, containers = std::move(containers)] {  // frees what is in them
    Reply(request, worker_.ResetContainers(containers, request.call->deadline()));
  });
}

Payload WorkerService::Place(absl::string_view method, absl::string_view header, size_t index,
                             size_t num_bytes) {
  if (method != kPushPieceMethod || index != 0) return Payload();
  WireReader reader(header);
  const Envelope envelope = Envelope::DecodeFrom(&reader);
  // What is not admitted is looked at again by Handle, which says why.
  if (!reader.ok() || !Admit(envelope).ok()) return Payload();
  return inbox_.Place(envelope, &reader, num_bytes);
}

void WorkerService::FailStep(PlanId plan, int64_t step_id, const absl::Status& reason) {
  worker_.CancelStep(plan, step_id, reason);
  if (worker_.owners()->FailStep(plan, step_id, worker_.task(), reason)) return;
  std::optional<TaskName> owner;
  {
    absl::MutexLock lock(&mutex_);
    // One that OnLoss drops meanwhile is remembered by then.
    const auto it = plans_.find(plan);
    owner = it != plans_.end() ? it->second.owner : failures_.OwnerOf(plan);
  }
  if (owner) failures_.Tell(*owner, plan, step_id, reason);
}

void WorkerService::OnLoss(const TaskName& task, Incarnation incarnation, const absl::Status& reason) {
  inbox_.Forget(incarnation);
  std::vector<PlanId> orphans;
  std::vector<SessionId> orphaned_sessions;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, plan] : plans_) {
      if (plan.owner == task && plan.owner_incarnation == incarnation) orphans.push_back(id);
    }
    for (const PlanId id : orphans) {
      if (!reason.ok()) failures_.RememberOwner(id, task);
      plans_.erase(id);
    }
    for (const auto& [session, owner] : sessions_) {
      if (owner.task == task && session.second == incarnation) orphaned_sessions.push_back(session.first);
    }
    for (const SessionId id : orphaned_sessions) sessions_.erase({id, incarnation});
  }
  std::sort(orphans.begin(), orphans.end());
  std::sort(orphaned_sessions.begin(), orphaned_sessions.end());
  const std::string why =
      reason.ok() ? absl::StrCat(task.ToString(), " is done") : std::string(reason.message());
  for (const PlanId id : orphans) {
    // An owner that lives, and was only silent for too long, recovers from Aborted.
    worker_.DropPartition(id, absl::AbortedError(absl::StrCat("plan ", id, " was dropped by ",
                                                              membership_.self().ToString(), ": ", why)));
  }
  for (const SessionId id : orphaned_sessions) worker_.EndSession(id, incarnation);
  GiveUpRestoreOfEarlierLife();
}

bool WorkerService::HasPlan(PlanId plan) const {
  absl::MutexLock lock(&mutex_);
  return plans_.contains(plan);
}

int WorkerService::num_plans() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(plans_.size());
}

}  // namespace weir
