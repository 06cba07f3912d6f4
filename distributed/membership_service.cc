#include "distributed/membership_service.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/job_outline.h"
#include "distributed/task_config.h"
#include "distributed/transport/call_errors.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"

namespace weir {
namespace {

// What the answer to a report needs, when the authority has looked for the task.
constexpr absl::Duration kAnswerTime = absl::Milliseconds(500);
constexpr size_t kMaxShownAddress = 300;
constexpr size_t kMaxVersions = 16;

JoinRequest RequestOf(const Envelope& envelope, const JoinCall& call) {
  return {envelope.sender,    envelope.sender_incarnation,
          call.highest_known, call.known_authority,
          call.age,           call.process,
          call.address};
}

// Whether that process may have answered a heartbeat.
bool MayBe(const PeerReply& reply, uint64_t process) {
  if (reply.header().empty()) return true;  // of a version that does not say it
  WireReader reader(reply.header());
  const absl::StatusOr<uint64_t> other = DecodeHeartbeatReply(&reader);
  return other.ok() && (*other == process || *other == 0 || process == 0);
}

// Peers::LinkCheck.
void CheckLink(Peers& peers, const TaskName& peer, Incarnation life, std::function<void(std::string)> then) {
  const Membership& membership = peers.membership();
  const TaskName& self = membership.self();
  const TaskName authority = membership.authority();
  const std::string broken = absl::StrCat(self.ToString(), " -> ", peer.ToString(), " is broken)");
  if (membership.is_authority()) {
    const absl::Duration silence = membership.environment().SteadyNow() - membership.last_heard(peer);
    const bool is_heard = membership.state(peer) == MemberState::kAlive && silence < membership.lease() / 2;
    return then(is_heard ? absl::StrCat(" (", self.ToString(), " still hears from it: the link ", broken)
                         : "");
  }
  if (peer == authority) return then("");
  WireWriter writer;
  EncodeReport(peer, life, &writer);
  PeerCallOptions options;
  options.deadline = peers.environment().Now() + Probes::kLongest + kAnswerTime;
  options.retry_for = absl::ZeroDuration();
  peers.Call(
      authority, kReportMethod, writer.Take(), {}, options,
      [then = std::move(then), reaches = absl::StrCat(" (", authority.ToString(), " reaches it: the link ",
                                                      broken)](const absl::StatusOr<PeerReply>& reply) {
        bool is_there = false;
        if (reply.ok()) {
          WireReader reader(reply->header());
          is_there = DecodeReportReply(&reader).value_or(false);
        }
        then(is_there ? reaches : "");
      });
}

}  // namespace

MembershipService::MembershipService(Membership& membership, Peers& peers, Probes& probes, uint64_t process,
                                     RefusedCalls* refused)
    : membership_(membership),
      peers_(peers),
      probes_(probes),
      process_(process),
      refused_(refused),
      authority_(membership) {
  peers_.SetLinkCheck(
      [&peers](const TaskName& peer, Incarnation life, std::function<void(std::string)> then) {
        CheckLink(peers, peer, life, std::move(then));
      });
  membership_.SetViewListener([this, alive = alive_] {
    absl::MutexLock lock(&alive->mutex);
    if (!alive->is_over) OnNews();
  });
  membership_.SetOfficeListener([this, alive = alive_](bool is_authority) {
    absl::MutexLock lock(&alive->mutex);
    if (!alive->is_over && !is_authority) DropHeld("this task is not the authority any more");
  });
}

MembershipService::~MembershipService() {
  Shutdown();
  peers_.SetLinkCheck(nullptr);
  const auto nobody_joins = [this]() ABSL_SHARED_LOCKS_REQUIRED(alive_->mutex) {
    return alive_->num_joining == 0;
  };
  absl::MutexLock lock(&alive_->mutex);
  alive_->is_over = true;
  peers_.environment().Await(alive_->mutex, absl::Condition(&nobody_joins), absl::InfiniteFuture());
}

bool MembershipService::Handles(absl::string_view method) {
  for (const char* known :
       {kJoinMethod, kHeartbeatMethod, kWatchMethod, kReportMethod, kJobDoneMethod, kLeaveMethod}) {
    if (method == known) return true;
  }
  return false;
}

Frame MembershipService::MakeReply(const absl::Status& status, std::string body) const {
  return EncodeReply(membership_.incarnation(), status, std::move(body));
}

void MembershipService::Reply(const Request& request, const absl::Status& status, std::string body) const {
  request.call->Reply(MakeReply(status, std::move(body)));
}

void MembershipService::Handle(std::shared_ptr<IncomingCall> call) {
  Request request{std::move(call)};
  request.reader = WireReader(request.call->request().header);
  Envelope& envelope = request.envelope;
  envelope = Envelope::DecodeFrom(&request.reader);
  const absl::string_view method = request.call->method();
  if (!request.reader.ok()) {
    return Reply(request, absl::InvalidArgumentError(absl::StrCat(method, ": the request has no envelope")));
  }
  {
    absl::MutexLock lock(&mutex_);
    ++num_requests_;
  }
  // Before Admit: who asks for a life has none.
  if (method == kJoinMethod) return Join(request);
  const absl::Status admitted =
      membership_.Admit(envelope.sender, envelope.sender_incarnation, envelope.addressee, envelope.last_loss);
  if (!admitted.ok() && membership_.MayBeGuest(admitted, envelope.sender, envelope.last_loss)) {
    // Beside the frame, where it is tried again (Peers).
    return request.call->Reply(absl::UnavailableError(admitted.message()));
  }
  if (!admitted.ok()) return Reply(request, admitted);
  if (method == kWatchMethod) return Watch(request);
  if (method == kReportMethod) return Report(request);
  if (method == kHeartbeatMethod) {
    WireWriter reply;
    EncodeHeartbeatReply(process_, &reply);
    return Reply(request, absl::OkStatus(), reply.Take());
  }
  if (method != kJobDoneMethod && method != kLeaveMethod) {
    return Reply(request,
                 absl::UnimplementedError(absl::StrCat("this server does not know the method ", method)));
  }
  std::string failure;
  if (method == kLeaveMethod) {
    failure = std::string(request.reader.String());
    if (const absl::Status whole = request.reader.Finish("a farewell"); !whole.ok()) {
      return Reply(request, whole);
    }
  }
  // The reply goes first: this task may leave as soon as it knows that the last worker is done.
  Reply(request, absl::OkStatus());
  (void)(method == kJobDoneMethod
             ? membership_.OnDone(envelope.sender, envelope.sender_incarnation)
             : membership_.OnLeave(envelope.sender, envelope.sender_incarnation, failure));
  absl::MutexLock lock(&mutex_);  // GiveLastView looks again
}

absl::Status MembershipService::CheckAuthority(const Envelope& envelope, absl::string_view what) const {
  if (membership_.HoldsOffice()) return absl::OkStatus();
  if (membership_.is_elected()) {
    const TaskName authority = membership_.authority();
    return absl::UnavailableError(absl::StrCat(membership_.self().ToString(), " is not the authority now; ",
                                               authority.job.empty() || authority == membership_.self()
                                                   ? "nobody is, as far as it knows"
                                                   : absl::StrCat(authority.ToString(), " is")));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      envelope.sender.ToString(), " asks ", membership_.self().ToString(), what,
      membership_.authority().ToString(), " does that: the tasks were given different cluster specs"));
}

void MembershipService::Refuse(const Request& request, const absl::Status& why) {
  if (absl::IsUnavailable(why)) return Reply(request, why);
  if (refused_ != nullptr)
    refused_->Count(Refusal::kCluster, request.envelope.sender.ToString(), why.message());
  Reply(request, why);
}

void MembershipService::Join(Request& request) {
  const Envelope& envelope = request.envelope;
  if (const absl::Status is_mine = CheckAuthority(envelope, " to let it join the cluster, but here ");
      !is_mine.ok()) {
    return Refuse(request, is_mine);
  }
  const absl::StatusOr<JoinCall> call = DecodeJoin(&request.reader);
  if (!call.ok()) return Reply(request, call.status());
  if (const absl::Status is_ours = CheckJoin(envelope.sender, *call); !is_ours.ok()) {
    return Refuse(request, is_ours);
  }
  // Not of one that says that it is elsewhere: a guest, or a task behind another address (NoteDifferences).
  const bool is_seed = membership_.IsSeed(envelope.sender);
  const bool is_at_address = is_seed && call->address == peers_.AddressOf(envelope.sender);
  // Nobody would find it if it is not behind another address: it shall not end the process that is found.
  const bool may_be_stray = is_seed && !is_at_address && !call->address.empty() &&
                            envelope.sender_incarnation == 0 &&
                            membership_.state(envelope.sender) == Membership::State::kAlive;
  if (may_be_stray || (is_at_address && authority_.MayBeReplaced(RequestOf(envelope, *call))))
    return LookAndJoin(request, *call);
  Join(request, *call);
  if (is_at_address && authority_.BeginLook(RequestOf(envelope, *call))) {
    LookForHolder(RequestOf(envelope, *call));
  }
  const bool knows_later = !membership_.is_elected() && call->known_authority > membership_.incarnation();
  if (membership_.names_are_proven() && knows_later) LookForSuccessor();
}

void MembershipService::Join(const Request& request, const JoinCall& call) {
  const Envelope& envelope = request.envelope;
  const absl::StatusOr<Incarnation> life = authority_.Join(RequestOf(envelope, call));
  if (absl::IsInvalidArgument(life.status())) return Refuse(request, life.status());
  if (!life.ok()) return Reply(request, life.status());
  if (envelope.sender_incarnation != 0) {
    // Only the task itself can say it of a life that is heard here.
    for (const auto& [task, done] : call.done) membership_.OnReportedDone(envelope.sender, task, done);
    NoteKnown(envelope.sender, call.view);
  }
  if (envelope.sender_incarnation == 0) NoteDifferences(envelope.sender, call);
  WireWriter reply;
  EncodeJoinReply({.life = *life, .view = membership_.ViewSince(call.view)}, &reply);
  Reply(request, absl::OkStatus(), reply.Take());
}

void MembershipService::LookAndJoin(const Request& request, const JoinCall& call) {
  const TaskName task = request.envelope.sender;
  bool is_refused = false;
  {
    absl::MutexLock lock(&mutex_);
    std::vector<Joining>& joining = joining_[task];
    is_refused = joining.size() >= kMostJoining;
    if (!is_refused) joining.push_back({request, call, peers_.environment().SteadyNow()});
    if (!is_refused && joining.size() > 1) return;
  }
  if (is_refused) {
    return Reply(request,
                 absl::UnavailableError(absl::StrCat(kMostJoining, " processes ask to be ", task.ToString(),
                                                     ": this one is to ask again")));
  }
  CallAddress(task, request.call->deadline(),
              [this, task](const absl::StatusOr<PeerReply>& reply) { OnLooked(task, reply); });
}

void MembershipService::CallAddress(const TaskName& task, absl::Time deadline,
                                    std::function<void(const absl::StatusOr<PeerReply>& reply)> then) {
  PeerCallOptions options;
  options.deadline = std::min(deadline, peers_.environment().Now() + Probes::kLongest);
  options.any_life = true;
  options.anew = true;
  options.may_end_this_life = false;  // it may not know yet that this authority was started after the last
  options.retry_for = absl::ZeroDuration();
  peers_.Call(task, kHeartbeatMethod, "", {}, options,
              [alive = alive_, then = std::move(then)](const absl::StatusOr<PeerReply>& reply) {
                {
                  absl::MutexLock lock(&alive->mutex);
                  if (alive->is_over) return;
                  ++alive->num_joining;
                }
                then(reply);
                absl::MutexLock lock(&alive->mutex);
                --alive->num_joining;
              });
}

void MembershipService::LookForHolder(const JoinRequest& holder) {
  CallAddress(holder.task, absl::InfiniteFuture(), [this, holder](const absl::StatusOr<PeerReply>& reply) {
    Authority::Found found = Authority::Found::kUnknown;
    if (reply.ok()) {
      found = MayBe(*reply, holder.process) ? Authority::Found::kIt : Authority::Found::kAnother;
    } else if (IsConnectionRefused(reply.status())) {
      found = Authority::Found::kNobody;
    }
    authority_.EndLook(holder, found);
  });
}

void MembershipService::OnLooked(const TaskName& task, const absl::StatusOr<PeerReply>& looked) {
  std::vector<Joining> joining;
  {
    absl::MutexLock lock(&mutex_);
    joining = std::move(joining_.extract(task).mapped());
  }
  for (Joining& one : joining) {
    one.call.age += peers_.environment().SteadyNow() - one.since;
    OnLooked(one.request, one.call, looked);
  }
}

void MembershipService::OnLooked(const Request& request, const JoinCall& call,
                                 const absl::StatusOr<PeerReply>& looked) {
  if (looked.ok() && looked->life == 0 && MayBe(*looked, call.process)) return Join(request, call);
  // Whoever was heard, or nobody: not where a message was lost.
  const bool is_refused = !looked.ok() && IsConnectionRefused(looked.status());
  if (looked.ok() || is_refused) {
    const absl::Status replaced = authority_.CheckReplaced(RequestOf(request.envelope, call));
    if (!replaced.ok()) return Reply(request, replaced);
  }
  const TaskName& task = request.envelope.sender;
  const std::string expected = peers_.AddressOf(task);
  const std::string place = absl::StrCat(task.ToString(), " at ", expected);
  const std::string elsewhere =
      call.address.empty() || call.address == expected
          ? ""
          : absl::StrCat(", where the others look for it, and this one says that it is at ",
                         call.address.substr(0, kMaxShownAddress));
  Reply(request,
        absl::UnavailableError(
            looked.ok() ? absl::StrCat("another process is ", place, elsewhere, ": this one is to ask again")
                        : absl::StrCat(membership_.self().ToString(), " cannot ask ", place,
                                       " whether another process is it: ",
                                       is_refused ? "nobody listens there" : looked.status().message())));
}

absl::Status MembershipService::CheckJoin(const TaskName& task, const JoinCall& call) const {
  WEIR_RETURN_IF_ERROR(CheckSpoken(task, call.spoken, membership_.self()));
  if (!IsTrainingJob(task.job)) return absl::OkStatus();
  return CheckOutline(task, call.outline, membership_.self(), membership_.cluster());
}

void MembershipService::NoteDifferences(const TaskName& task, const JoinCall& call) {
  const TaskName& self = membership_.self();
  std::vector<std::string> others;
  const std::string expected = peers_.AddressOf(task);
  if (membership_.IsSeed(task) && call.address != expected) {  // a guest says itself where it is
    others.push_back(absl::StrCat(task.ToString(), " at ", call.address.substr(0, kMaxShownAddress),
                                  ", while that of ", self.ToString(), " has it at ", expected,
                                  ", where the others look for it"));
  }
  const std::string ps = DescribeOtherAddresses(call.outline, self, membership_.cluster());
  if (!ps.empty()) others.push_back(ps);
  const std::string text = absl::StrJoin(others, "; ");
  const std::string version = DescribeOtherVersion(task, call.spoken, self);
  bool is_new = false, is_new_version = false;
  {
    absl::MutexLock lock(&mutex_);
    if (addresses_.size() > 2 * Guests::kMaxGuests) addresses_.clear();
    is_new = !text.empty() && std::exchange(addresses_[task], text) != text;
    is_new_version =
        !version.empty() && versions_.size() < kMaxVersions && versions_.insert(call.spoken.version).second;
  }
  if (is_new) {
    PrintNotice(
        absl::StrCat(self.ToString(), ": ", task.ToString(), " joins, whose cluster spec has ", text));
  }
  if (is_new_version) PrintNotice(absl::StrCat(self.ToString(), ": ", version));
}

void MembershipService::NoteKnown(const TaskName& task, const ViewNumber& known) {
  const auto is_gone = [this](const auto& entry) {
    return membership_.state(entry.first) != Membership::State::kAlive;
  };
  absl::MutexLock lock(&mutex_);
  // Names come and go, too.
  if (known_.size() > 2 * Guests::kMaxGuests) std::erase_if(known_, is_gone);
  known_[task] = known;
}

// What comes back counts as a sign of life of this task (Membership::OnSignOfLife). One call at a time.
void MembershipService::LookForSuccessor() {
  {
    absl::MutexLock lock(&mutex_);
    if (is_shut_down_ || std::exchange(is_looking_for_successor_, true)) return;
  }
  PeerCallOptions options;
  options.deadline = peers_.environment().Now() + Probes::kLongest;
  options.any_life = true;
  options.retry_for = absl::ZeroDuration();
  peers_.Call(membership_.self(), kHeartbeatMethod, "", {}, options,
              [this, alive = alive_](const absl::StatusOr<PeerReply>&) {
                absl::MutexLock still_there(&alive->mutex);
                if (alive->is_over) return;
                absl::MutexLock lock(&mutex_);
                is_looking_for_successor_ = false;
              });
}

void MembershipService::Watch(Request& request) {
  const absl::StatusOr<ViewNumber> known = DecodeWatch(&request.reader);
  absl::Status status = known.status();
  if (status.ok()) status = CheckAuthority(request.envelope, " to say who is alive, but here ");
  if (!status.ok()) return Reply(request, status);
  NoteKnown(request.envelope.sender, *known);
  if (!membership_.HasNewsFor(*known)) return Hold(request, *known);
  WireWriter reply;
  EncodeView(membership_.ViewSince(*known), &reply);
  Reply(request, absl::OkStatus(), reply.Take());
}

void MembershipService::Hold(const Request& request, const ViewNumber& known) {
  const TaskName& task = request.envelope.sender;
  Held held{request.call, 0, request.envelope.sender_incarnation, known};
  std::shared_ptr<IncomingCall> refused;
  {
    absl::MutexLock lock(&mutex_);
    held.number = next_held_++;
    if (is_shut_down_) {
      refused = request.call;
    } else {
      refused = std::exchange(held_[task], held).call;
    }
  }
  if (refused != nullptr) refused->Reply(MakeReply(absl::CancelledError("this call is not held any more")));
  if (refused == request.call) return;
  request.call->OnCancel([this, alive = alive_, task, number = held.number] {
    absl::MutexLock lock(&alive->mutex);
    if (!alive->is_over) OnGivenUp(task, number);
  });
  // Somebody may have been lost since.
  if (membership_.HasNewsFor(known)) OnNews();
}

void MembershipService::OnGivenUp(const TaskName& task, uint64_t number) {
  Held held;  // destroyed without the lock
  {
    absl::MutexLock lock(&mutex_);
    const auto found = held_.find(task);
    if (is_shut_down_ || found == held_.end() || found->second.number != number) return;
    held = std::move(found->second);
    held_.erase(found);
  }
  probes_.Look(task, held.life, nullptr);
}

void MembershipService::Report(Request& request) {
  const auto reported = DecodeReport(&request.reader);
  absl::Status status = reported.status();
  if (status.ok()) status = CheckAuthority(request.envelope, " to look for another task, but here ");
  if (!status.ok()) return Reply(request, status);
  probes_.Look(reported->first, reported->second,
               [call = request.call, life = membership_.incarnation()](Probes::Finding finding) {
                 WireWriter reply;
                 EncodeReportReply(finding == Probes::Finding::kThere, &reply);
                 call->Reply(EncodeReply(life, absl::OkStatus(), reply.Take()));
               });
}

void MembershipService::OnNews() {
  absl::Time at;
  {
    absl::MutexLock lock(&mutex_);
    if (is_shut_down_ || std::exchange(will_publish_, true)) return;
    at = next_publish_;
  }
  peers_.timers().At(at, [this, alive = alive_] {
    absl::MutexLock lock(&alive->mutex);
    if (!alive->is_over) Publish();
  });
}

void MembershipService::Publish() {
  std::vector<Held> answered;
  {
    absl::MutexLock lock(&mutex_);
    will_publish_ = false;
    next_publish_ = peers_.environment().Now() + kPause;
    for (auto it = held_.begin(); it != held_.end();) {
      if (membership_.HasNewsFor(it->second.known)) {
        answered.push_back(std::move(it->second));
        it = held_.erase(it);
      } else {
        ++it;
      }
    }
  }
  // Most of them know the same view.
  std::map<ViewNumber, std::string> bodies;
  for (const Held& held : answered) {
    std::string& body = bodies[held.known];
    if (body.empty()) {
      WireWriter writer;
      EncodeView(membership_.ViewSince(held.known), &writer);
      body = writer.Take();
    }
    held.call->Reply(MakeReply(absl::OkStatus(), body));
  }
}

void MembershipService::GiveLastView(absl::Duration patience) {
  Publish();
  const ViewNumber last = membership_.last_loss();
  const auto all_know = [this, &last]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    std::vector<TaskName> tasks = membership_.AliveServers();
    // Replicas have no ps: without it they would find the authority lost.
    if (tasks.empty()) tasks = membership_.RunningTasks();
    for (const TaskName& task : tasks) {
      if (task == membership_.self()) continue;
      const auto known = known_.find(task);
      if (known == known_.end() || known->second < last) return false;
    }
    return true;
  };
  absl::MutexLock lock(&mutex_);
  peers_.environment().Await(mutex_, absl::Condition(&all_know), peers_.environment().Now() + patience);
}

void MembershipService::Shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    is_shut_down_ = true;
  }
  DropHeld("this task is shutting down");
}

void MembershipService::DropHeld(absl::string_view why) {
  std::map<TaskName, Held> dropped;
  {
    absl::MutexLock lock(&mutex_);
    dropped = std::exchange(held_, {});
    known_.clear();
  }
  for (const auto& [task, held] : dropped) {
    held.call->Reply(MakeReply(absl::UnavailableError(why)));
  }
}

int64_t MembershipService::num_requests() const {
  absl::MutexLock lock(&mutex_);
  return num_requests_;
}

}  // namespace weir
