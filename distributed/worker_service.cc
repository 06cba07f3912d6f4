#include "distributed/worker_service.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/plan_errors.h"
#include "graph/types/status_macros.h"
#include "kernels/threads.h"

namespace weir {

// A request after its envelope.
struct WorkerService::Request {
  std::shared_ptr<IncomingCall> call;
  Envelope envelope;
  WireReader reader{""};

  const std::vector<Payload>& payloads() const { return call->request().payloads; }
};

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
      inbound_(limits.inbound, membership.environment()),
      pieces_([this](const Envelope& sender, const TensorPiece& piece, std::shared_ptr<void> held) {
        return KeepForStep(sender, piece, std::move(held));
      }),
      failures_(peers) {}

WorkerService::~WorkerService() = default;

void WorkerService::Handle(std::shared_ptr<IncomingCall> call) {
  Request request{std::move(call)};
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
  if (method == kPushTensorsMethod) return PushTensors(request);
  if (method == kPushPieceMethod) return PushPiece(request);
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

void WorkerService::Reply(const Request& request, const absl::Status& status, std::string body,
                          std::vector<Payload> payloads) {
  request.call->Reply(MakeReply(status, std::move(body), std::move(payloads)));
}

void WorkerService::ListDevices(Request& request) {
  absl::StatusOr<std::vector<DeviceAttributes>> devices = worker_.ListDevices(request.call->deadline());
  WireWriter writer;
  if (devices.ok()) EncodeDevices(*devices, &writer);
  Reply(request, devices.status(), writer.Take());
}

void WorkerService::RegisterPartition(Request& request) {
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
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share share, use_.Take(owner.sender, owner.sender_incarnation,
                                                        {.bytes = num_bytes}, absl::StrCat("plan ", plan)));
  taken->of_graphs.push_back(std::move(share));
  taken->num_bytes += num_bytes;
  return absl::OkStatus();
}

absl::Status WorkerService::TakePlan(const Request& request, const PartitionSpec& spec, int64_t tensor_bytes,
                                     PeerUse::Share* plan, PeerUse::Share* session) {
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
  return IsLost(owner) || IsDeregistered({owner.sender_incarnation, plan});
}

bool WorkerService::IsLost(const Envelope& owner) const {
  return membership_.incarnation_of(owner.sender) != owner.sender_incarnation ||
         membership_.state(owner.sender) != Membership::State::kAlive;
}

bool WorkerService::IsDeregistered(const std::pair<Incarnation, PlanId>& plan) const {
  return std::find(deregistered_.begin(), deregistered_.end(), plan) != deregistered_.end();
}

absl::StatusOr<Frame> WorkerService::BeginStep(const Request& request, const RunRequest& run,
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

void WorkerService::RunPartition(Request& request) {
  absl::StatusOr<RunRequest> run =
      DecodeRunRequest(&request.reader, request.payloads(), peers_.environment().Now());
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

void WorkerService::CancelStep(Request& request) {
  absl::StatusOr<CancelRequest> cancel = DecodeCancel(&request.reader);
  absl::Status status = cancel.status();
  if (status.ok()) status = CheckOwner(request.envelope, cancel->plan);
  if (status.ok() && HasPlan(cancel->plan)) {
    CancelBeforeItBegins(*cancel);
    worker_.CancelStep(cancel->plan, cancel->step_id, cancel->reason);
  }
  Reply(request, status);
}

void WorkerService::FailOwnStep(Request& request) {
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

void WorkerService::DeregisterPartition(Request& request) {
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

void WorkerService::EndSession(Request& request) {
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

void WorkerService::BeginRestore(Request& request) {
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

void WorkerService::EndRestore(Request& request) {
  const uint64_t id = request.reader.Fixed64();
  const std::string applied_updates(request.reader.String());
  absl::Status status = request.reader.Finish("the end of a restore");
  if (status.ok()) status = worker_.EndRestore(id, applied_updates, request.call->deadline());
  Reply(request, status);
}

void WorkerService::ResetContainers(Request& request) {
  const size_t count = request.reader.Count();
  std::vector<std::string> containers;
  for (size_t i = 0; i < count && request.reader.ok(); ++i) containers.emplace_back(request.reader.String());
  if (absl::Status read = request.reader.Finish("a list of containers"); !read.ok())
    return Reply(request, read);
  request.call->Compute([this, request, containers = std::move(containers)] {  // frees what is in them
    Reply(request, worker_.ResetContainers(containers, request.call->deadline()));
  });
}

void WorkerService::PushTensors(Request& request) {
  absl::StatusOr<PushRequest> push = DecodePush(&request.reader, request.payloads());
  if (!push.ok()) return ReplyToPush(request, push.status(), 0);
  const Incarnation sender = request.envelope.sender_incarnation;
  const uint64_t number = push->message.number;
  const absl::StatusOr<DeliveredMessages::State> state = pushes_.Begin(sender, push->message);
  if (!state.ok()) return ReplyToPush(request, state.status(), 0);
  switch (*state) {
    case DeliveredMessages::State::kNew:
      break;
    case DeliveredMessages::State::kUnderWay:
      // Beside the frame, where it is tried again (Peers).
      return request.call->Reply(
          absl::UnavailableError("the same tensors are just being delivered, which may yet fail"));
    case DeliveredMessages::State::kDelivered:
      return ReplyToPush(request, absl::OkStatus(), 0);
  }
  int64_t num_bytes = 0;
  for (const EdgeTensor& entry : push->entries) num_bytes += static_cast<int64_t>(entry.tensor.num_bytes());
  absl::StatusOr<InboundBudget::Arrival> arrival = inbound_.Arrive(sender, num_bytes);
  if (!arrival.ok()) {
    pushes_.End(sender, number, false);
    return request.call->Reply(arrival.status());  // beside the frame, too
  }
  ForgetMessagesIfOver(request.envelope);
  absl::StatusOr<PeerUse::Share> share =
      use_.Take(request.envelope.sender, sender,
                {.bytes = static_cast<int64_t>(request.call->request().num_wire_bytes())},
                absl::StrCat("a push for step ", push->step_id));
  if (!share.ok()) {
    pushes_.End(sender, number, false);
    *arrival = InboundBudget::Arrival();
    return ReplyToPush(request, share.status(), num_bytes);
  }
  auto held = std::make_shared<PeerUse::Share>(*std::move(share));
  request.call->request().payloads.clear();  // so that a kernel may reuse a tensor's buffer
  request.call->Compute([this, sender, number, num_bytes, request, push = *std::move(push),
                         held = std::move(held), arrival = *std::move(arrival)]() mutable {
    RunScope scope;  // the answer goes before what the tensors make runnable: the sender may have lent them
    const absl::Status status = Deliver(request.envelope.sender, std::move(push), std::move(held));
    pushes_.End(sender, number, status.ok());
    arrival = InboundBudget::Arrival();
    ReplyToPush(request, status, num_bytes);
  });
}

void WorkerService::ReplyToPush(const Request& request, const absl::Status& status, int64_t num_bytes,
                                WireWriter reply) {
  inbound_.Answer(request.envelope.sender_incarnation, num_bytes).EncodeTo(&reply);
  Reply(request, status, reply.Take());
}

absl::Status WorkerService::Deliver(const TaskName& sender, PushRequest push, std::shared_ptr<void> held) {
  RunScope scope;  // what waits for the first tensor must not run before the last is delivered
  const std::string from = sender.ToDevicePrefix();
  absl::Status status = HoldForEntries(push, from, std::move(held));
  for (EdgeTensor& entry : push.entries) {
    if (!status.ok()) break;
    const Tensor tensor = std::exchange(entry.tensor, Tensor());
    status = worker_.Receive(push.plan, push.step_id, entry.edge, entry.turn, tensor, entry.is_dead, from);
  }
  return absl::IsNotFound(status) ? UnknownPlan(push.plan, membership_.self()) : status;
}

// Until the step is over, which may never begin; for tensors in loops until they have been received: there
// may be any number of them in a step.
absl::Status WorkerService::HoldForEntries(const PushRequest& push, const std::string& from,
                                           std::shared_ptr<void> held) {
  if (held == nullptr) return absl::OkStatus();
  bool is_held = false;
  for (const EdgeTensor& entry : push.entries) {
    if (entry.turn == kOnlyTurn && std::exchange(is_held, true)) continue;
    WEIR_RETURN_IF_ERROR(worker_.CheckSender(push.plan, entry.edge, from));
    WEIR_RETURN_IF_ERROR(worker_.Hold(push.plan, push.step_id, entry.edge, entry.turn, held).status());
  }
  return absl::OkStatus();
}

absl::Status WorkerService::CheckSender(const Envelope& envelope, const TensorPiece& piece) const {
  const absl::Status status = worker_.CheckSender(piece.plan, piece.edge, envelope.sender.ToDevicePrefix());
  return absl::IsNotFound(status) ? UnknownPlan(piece.plan, membership_.self()) : status;
}

Payload WorkerService::Place(absl::string_view method, absl::string_view header, size_t index,
                             size_t num_bytes) {
  if (method != kPushPieceMethod || index != 0) return Payload();
  WireReader reader(header);
  const Envelope envelope = Envelope::DecodeFrom(&reader);
  // What has no place is looked at again by Handle, which says why.
  if (!reader.ok() || !Admit(envelope).ok()) return Payload();
  const absl::StatusOr<TensorPiece> piece = DecodePiece(&reader);
  if (!piece.ok() || !CheckSender(envelope, *piece).ok()) return Payload();
  return pieces_.Place(envelope, *piece, num_bytes);
}

absl::StatusOr<bool> WorkerService::KeepForStep(const Envelope& sender, const TensorPiece& piece,
                                                std::shared_ptr<void> held) {
  WEIR_ASSIGN_OR_RETURN(PeerUse::Share share,
                        use_.Take(sender.sender, sender.sender_incarnation, {.bytes = piece.tensor_bytes()},
                                  absl::StrCat("a tensor for step ", piece.step_id)));
  const auto both =
      std::make_shared<std::pair<std::shared_ptr<void>, PeerUse::Share>>(std::move(held), std::move(share));
  return worker_.Hold(piece.plan, piece.step_id, piece.edge, piece.turn, both);
}

void WorkerService::PushPiece(Request& request) {
  std::vector<Payload> payloads = std::exchange(request.call->request().payloads, {});
  absl::StatusOr<TensorPiece> piece = DecodePiece(&request.reader);
  if (piece.ok() && payloads.size() != 1) {
    piece = absl::InvalidArgumentError(
        absl::StrCat("a piece of a tensor came with ", payloads.size(), " payloads"));
  }
  int64_t num_bytes = 0;
  for (const Payload& payload : payloads) num_bytes += static_cast<int64_t>(payload.num_bytes());
  absl::Status status = piece.status();
  if (status.ok()) status = CheckSender(request.envelope, *piece);
  if (!status.ok()) return ReplyToPush(request, status, num_bytes);
  const Incarnation from = request.envelope.sender_incarnation;
  absl::StatusOr<InboundBudget::Arrival> arrival = inbound_.Arrive(from, num_bytes);
  if (!arrival.ok()) return request.call->Reply(arrival.status());  // beside the frame
  absl::StatusOr<TensorAssembler::Added> added =
      pieces_.Add(request.envelope, *piece, std::move(payloads[0]));
  *arrival = InboundBudget::Arrival();
  ForgetMessagesIfOver(request.envelope);
  if (!added.ok()) {
    const bool is_unknown = absl::IsNotFound(added.status());
    return ReplyToPush(request, is_unknown ? UnknownPlan(piece->plan, membership_.self()) : added.status(),
                       num_bytes);
  }
  if (added->is_on_its_way) {
    // Beside the frame, where it is tried again (Peers).
    return request.call->Reply(
        absl::UnavailableError("another copy of this piece is on its way, and may yet break off"));
  }
  // Before the delivery, which may compute for long: the sender has room for the next piece.
  WireWriter reply;
  EncodePieceReply(added->is_wanted, &reply);
  ReplyToPush(request, absl::OkStatus(), num_bytes, std::move(reply));
  if (!added->whole.is_valid()) return;
  PushRequest push{{}, piece->plan, piece->step_id, {}};
  push.entries.push_back({piece->edge, false, std::move(added->whole), piece->turn});
  request.call->Compute([this, sender = request.envelope.sender, plan = piece->plan, step_id = piece->step_id,
                         push = std::move(push)]() mutable {
    if (absl::Status status = Deliver(sender, std::move(push)); !status.ok()) {
      FailStep(plan, step_id, status);
    }
  });
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

void WorkerService::ForgetMessagesOf(Incarnation sender) {
  pushes_.Forget(sender);
  pieces_.Forget(sender);
  inbound_.Forget(sender);
}

void WorkerService::ForgetMessagesIfOver(const Envelope& sender) {
  // OnLoss comes after membership has changed its mind: whichever is later finds what was noted.
  if (IsLost(sender)) ForgetMessagesOf(sender.sender_incarnation);
}

void WorkerService::OnLoss(const TaskName& task, Incarnation incarnation, const absl::Status& reason) {
  ForgetMessagesOf(incarnation);
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
