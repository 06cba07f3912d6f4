#include "distributed/collectives/peer_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/long_wait.h"
#include "kernels/notice.h"
#include "kernels/threads.h"

namespace weir {
namespace {

constexpr char kPrefix[] = "/weir.Collective/";
constexpr char kPartMethod[] = "/weir.Collective/Part";
constexpr char kEndGenerationMethod[] = "/weir.Collective/End";
constexpr char kFinishMethod[] = "/weir.Collective/Finish";
constexpr char kLeaveGroupMethod[] = "/weir.Collective/Leave";

constexpr absl::Duration kReportEvery = LongWait::kSilence;
// How often it is looked whether collectives wait for long.
constexpr absl::Duration kLookEvery = absl::Seconds(2);
// How often one who waits looks whether it shall give up.
constexpr absl::Duration kGlance = absl::Milliseconds(500);
// How long a broken connection to another rank is tried again, and how long somebody is told of an end.
constexpr absl::Duration kRetryFor = absl::Seconds(3);
constexpr absl::Duration kNoticeTime = absl::Seconds(30);
// Of what a rank says when it leaves: the others may have left before, and nobody can be reached then.
constexpr absl::Duration kFarewellRetry = absl::Milliseconds(200);
// How long rank 0 stays at its end for ranks that do not end: a launcher may be starting them again.
constexpr absl::Duration kLastStay = absl::Seconds(30);
// How often it says to them meanwhile that it is done, and how long each such call lasts.
constexpr absl::Duration kSayAgainEvery = absl::Seconds(2);

int IndexOf(const std::vector<TaskName>& tasks, const TaskName& task) {
  const auto it = std::find(tasks.begin(), tasks.end(), task);
  return it == tasks.end() ? -1 : static_cast<int>(it - tasks.begin());
}

std::vector<std::string> Names(const std::vector<TaskName>& tasks) {
  std::vector<std::string> names;
  for (const TaskName& task : tasks) names.push_back(task.ToString());
  return names;
}

}  // namespace

PeerGroup::PeerGroup(std::vector<TaskName> ranks, const std::vector<std::string>& hosts, Peers& peers)
    : tasks_(std::move(ranks)),
      peers_(peers),
      rank_(IndexOf(tasks_, peers.membership().self())),
      group_(new RankGroup(rank_, Names(tasks_), *this, peers.environment(), HalfOfMemory(),
                           RanksPerHost(hosts))),
      memory_(
          static_cast<int>(tasks_.size()),
          [this](int from, uint64_t generation, const absl::StatusOr<std::string>& written) {
            TakeFromMemory(from, generation, written);
          },
          [this](int to, uint64_t generation) { TellOfMemory(to, generation); }) {
  LookAtWaitsLater();
}

void PeerGroup::LookAtWaitsLater() {
  peers_.timers().At(peers_.environment().Now() + kLookEvery, [this, alive = alive_] {
    absl::MutexLock lock(&alive->mutex);
    if (!alive->is_over) ReportWaits();
  });
}

PeerGroup::~PeerGroup() {
  {
    absl::MutexLock lock(&alive_->mutex);
    alive_->is_over = true;
  }
  Shutdown(absl::CancelledError("this task is shutting down"));
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return num_parts_ + num_ends_ + num_farewells_ == 0;
  };
  AwaitAloud(peers_.environment(), mutex_, absl::Condition(&is_idle),
             [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
               return absl::StrCat(group_->NameOf(rank_), " leaves its group, and waits for the answers to ",
                                   num_parts_, " parts of collectives, ", num_ends_, " ends and ",
                                   num_farewells_, " farewells");
             });
}

void PeerGroup::Shutdown(const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    is_leaving_ = true;
  }
  group_->End(reason);
}

int PeerGroup::RankOf(const TaskName& task) const { return IndexOf(tasks_, task); }

bool PeerGroup::Handles(absl::string_view method) { return absl::StartsWith(method, kPrefix); }

absl::Status PeerGroup::Admit(const Envelope& envelope) {
  return peers_.membership().Admit(envelope.sender, envelope.sender_incarnation, envelope.addressee,
                                   envelope.last_loss);
}

void PeerGroup::Reply(IncomingCall& call, const absl::Status& status, std::string body) const {
  call.Reply(EncodeReply(peers_.membership().incarnation(), status, std::move(body)));
}

void PeerGroup::Handle(std::shared_ptr<IncomingCall> call) {
  WireReader reader(call->request().header);
  const Envelope envelope = Envelope::DecodeFrom(&reader);
  absl::Status admitted =
      reader.ok() ? Admit(envelope)
                  : absl::InvalidArgumentError(absl::StrCat(call->method(), ": the request has no envelope"));
  const int rank = RankOf(envelope.sender);
  if (admitted.ok() && (rank < 0 || rank == rank_)) {
    admitted = absl::InvalidArgumentError(absl::StrCat(envelope.sender.ToString(), " is no other rank of ",
                                                       tasks_[rank_].ToString(), "'s group"));
  }
  if (!admitted.ok()) return Reply(*call, admitted);
  const absl::string_view method = call->method();
  if (method == kPartMethod) return TakePart(rank, reader, call);
  if (method == kFormMethod) return TakeJoin(rank, envelope.sender_incarnation, reader, call);
  if (method == kEndGenerationMethod) return TakeEnd(rank, reader, call);
  if (method == kFinishMethod) return TakeFinish(rank, reader, call);
  if (method == kLeaveGroupMethod) return TakeLeave(rank, reader, call);
  if (method == kOfferMemoryMethod) return TakeOffer(rank, reader, call);
  if (method == kReadMemoryMethod) return TakeNoticeOfMemory(rank, reader, call);
  Reply(*call, absl::UnimplementedError(absl::StrCat("this server does not know the method ", method)));
}

Payload PeerGroup::Place(absl::string_view method, absl::string_view header, size_t index, size_t num_bytes) {
  if (method != kPartMethod || index != 0) return Payload();
  WireReader reader(header);
  const Envelope envelope = Envelope::DecodeFrom(&reader);
  // What has no place is looked at again by Handle, which says why.
  if (!reader.ok() || RankOf(envelope.sender) < 0) return Payload();
  if (!Admit(envelope).ok()) return Payload();
  const absl::StatusOr<CollectiveMessage> message = CollectiveMessage::DecodeFrom(&reader);
  return message.ok() ? group_->Place(RankOf(envelope.sender), *message, num_bytes) : Payload();
}

void PeerGroup::TakePart(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call) {
  absl::StatusOr<CollectiveMessage> message = CollectiveMessage::DecodeFrom(&reader);
  std::vector<Payload> payloads = std::exchange(call->request().payloads, {});
  if (message.ok() && payloads.size() != 1) {
    message = absl::InvalidArgumentError(
        absl::StrCat("a part of a collective came with ", payloads.size(), " payloads"));
  }
  if (!message.ok()) return Reply(*call, message.status());
  call->Compute([this, rank, call, message = *std::move(message), bytes = std::move(payloads[0])]() mutable {
    RunScope scope;
    group_->Receive(rank, std::move(message), std::move(bytes),
                    [this, call](const absl::Status& status) { Reply(*call, status); });
  });
}

void PeerGroup::Send(int to, CollectiveMessage message, Payload bytes, Done done) {
  if (SendThroughMemory(to, message, bytes)) return done(absl::OkStatus());
  {
    absl::MutexLock lock(&mutex_);
    ++num_parts_;
  }
  WireWriter writer;
  message.EncodeTo(&writer);
  peers_.Call(tasks_[to], kPartMethod, writer.Take(), {std::move(bytes)}, {.retry_for = kRetryFor},
              [this, done = std::move(done)](absl::StatusOr<PeerReply> reply) mutable {
                RunScope scope;
                std::exchange(done, nullptr)(reply.status());
                absl::MutexLock lock(&mutex_);
                --num_parts_;
              });
}

void PeerGroup::Tell(int rank, const char* method, std::string body, const TellOptions& options,
                     int64_t* num_under_way, std::set<int>* told) {
  {
    absl::MutexLock lock(&mutex_);
    ++*num_under_way;
  }
  peers_.Call(tasks_[rank], method, std::move(body), {},
              {.deadline = peers_.environment().Now() + options.time, .retry_for = options.retry_for},
              [this, rank, num_under_way, told](const absl::StatusOr<PeerReply>& reply) {
                absl::MutexLock lock(&mutex_);
                --*num_under_way;
                if (told != nullptr && reply.ok()) told->insert(rank);
              });
}

void PeerGroup::OnEnd(uint64_t generation, const absl::Status& reason) {
  memory_.OnEnd(generation);
  {
    absl::MutexLock lock(&mutex_);
    if (is_leaving_) return;  // Leave says it
  }
  WireWriter writer;
  writer.Fixed64(generation);
  writer.StatusValue(reason);
  const std::string body = writer.Take();
  for (int rank = 0; rank < static_cast<int>(tasks_.size()); ++rank) {
    if (rank != rank_ && (rank_ == 0 || rank == 0))
      Tell(rank, kEndGenerationMethod, body, {kNoticeTime, kNoticeTime}, &num_ends_);
  }
}

void PeerGroup::TakeEnd(int, WireReader& reader, const std::shared_ptr<IncomingCall>& call) {
  const uint64_t generation = reader.Fixed64();
  const absl::Status reason = reader.StatusValue();
  absl::Status status = reader.Finish("the end of a group");
  if (status.ok() && reason.ok()) status = absl::InvalidArgumentError("the end of a group without a reason");
  Reply(*call, status);
  RunScope scope;
  if (status.ok()) group_->EndGeneration(generation, reason);
}

void PeerGroup::OnLoss(const TaskName& task, Incarnation life, const absl::Status& reason) {
  const int rank = RankOf(task);
  if (rank < 0) return;
  std::map<int, Join> dropped;
  bool ends = false;
  uint64_t generation = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto joined = joined_.find(rank);
    if (joined != joined_.end() && joined->second.life == life) dropped.insert(joined_.extract(joined));
    generation = begun_.generation;
    ends = generation != 0 && life >= begun_.lives[rank] && !left_.contains(rank);
  }
  // It may only have been silent, and asks again.
  Refuse(dropped, absl::UnavailableError(reason.message()));
  if (!ends) return;
  memory_.ReadAll(rank, generation);
  group_->EndGeneration(generation, absl::AbortedError(absl::StrCat("rank ", rank, ", ", reason.message())));
}

void PeerGroup::AwaitNone(const int64_t* num_under_way, absl::Duration time) {
  absl::MutexLock lock(&mutex_);
  const auto is_idle = [num_under_way] { return *num_under_way == 0; };
  peers_.environment().Await(mutex_, absl::Condition(&is_idle), peers_.environment().Now() + time);
}

absl::Status PeerGroup::Finish(absl::Time deadline, absl::FunctionRef<bool()> gives_up) {
  const uint64_t generation = group_->generation();
  if (generation == 0) return group_->status();
  AwaitNone(&num_parts_, kDelivery);
  if (rank_ == 0) {
    absl::MutexLock lock(&mutex_);
    is_done_ = true;
    finished_[0] = generation;
  }
  WireWriter writer;
  writer.Fixed64(generation);
  const std::string body = writer.Take();
  for (int rank = 0; rank < static_cast<int>(tasks_.size()); ++rank) {
    if (rank != rank_) Tell(rank, kFinishMethod, body, {kRetryFor, kNoticeTime}, &num_farewells_);
  }
  if (rank_ != 0) return AwaitFinishOfFirst(generation, deadline, gives_up);
  AwaitNone(&num_farewells_, kDelivery);
  return absl::OkStatus();
}

absl::Status PeerGroup::AwaitFinishOfFirst(uint64_t generation, absl::Time deadline,
                                           absl::FunctionRef<bool()> gives_up) {
  Environment& environment = peers_.environment();
  const absl::Time begin = environment.Now();
  absl::Time next_report = begin + kReportEvery;
  absl::MutexLock lock(&mutex_);
  // Nobody leaves before rank 0 is done.
  const auto is_over = [this, generation]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    const auto first = finished_.find(0);
    // What rank 0 has said may be lost, and that its task is done be heard from others.
    return (first != finished_.end() && first->second == generation) || !left_.empty() || is_leaving_ ||
           peers_.membership().state(tasks_[0]) == Membership::State::kDone;
  };
  while (!environment.Await(mutex_, absl::Condition(&is_over),
                            std::min(deadline, environment.Now() + kGlance))) {
    if (group_->generation() != generation) return group_->status();
    if (gives_up()) return absl::CancelledError("stopped while waiting for rank 0 to end training");
    const absl::Time now = environment.Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(group_->NameOf(0), " has not ended training within ",
                       absl::FormatDuration(absl::Trunc(now - begin, absl::Seconds(1))), " after ",
                       group_->NameOf(rank_), " had: it may be gone, with what it had not saved"));
    }
    if (now < next_report) continue;
    next_report = now + kReportEvery;
    PrintNotice(absl::StrCat(group_->NameOf(rank_), " has done its last step, and waits for ",
                             group_->NameOf(0), " to save and end training (",
                             absl::FormatDuration(absl::Trunc(deadline - now, absl::Seconds(1))), " left)"));
  }
  return is_leaving_ ? absl::CancelledError("this task is shutting down") : absl::OkStatus();
}

void PeerGroup::TakeFinish(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call) {
  const uint64_t generation = reader.Fixed64();
  const absl::Status status = reader.Finish("a rank's end");
  if (!status.ok()) return Reply(*call, status);
  {
    absl::MutexLock lock(&mutex_);
    finished_[rank] = generation;
  }
  RunScope scope;
  // It leaves when it is answered: what waits for it here must have heard by then why it is in vain.
  memory_.ReadAllThen(rank, generation, [this, rank, generation, call] {
    group_->OnFinish(rank, generation);
    Reply(*call, absl::OkStatus());
  });
}

void PeerGroup::Leave(const absl::Status& outcome, absl::Duration farewell) {
  const uint64_t generation = group_->generation();
  std::map<int, Join> refused;
  absl::Status why;
  bool has_finished = false;
  {
    absl::MutexLock lock(&mutex_);
    has_finished = outcome.ok() && finished_.contains(0) && rank_ == 0;
    is_leaving_ = true;
    is_done_ = outcome.ok();
    refused = std::exchange(joined_, {});
    why = OwnLeaveLocked();
  }
  Refuse(refused, why);
  // Those of a generation that is over are of no use to anybody.
  if (outcome.ok() && generation != 0) AwaitNone(&num_parts_, kDelivery);
  WireWriter writer;
  writer.Fixed64(generation);
  if (!outcome.ok()) {
    writer.StatusValue(
        absl::AbortedError(absl::StrCat(group_->NameOf(rank_), " has failed: ", outcome.message())));
  }
  const std::string body = writer.Take();
  for (int rank = 0; rank < static_cast<int>(tasks_.size()); ++rank) {
    if (rank == rank_) continue;
    Tell(rank, outcome.ok() ? kLeaveGroupMethod : kEndGenerationMethod, body, {kFarewellRetry, kNoticeTime},
         &num_farewells_, &told_);
  }
  AwaitNone(&num_farewells_, farewell);
  if (has_finished) AwaitOthers();
  group_->End(absl::CancelledError("this task has left the group"));
}

std::vector<int> PeerGroup::MissingAtTheEndLocked() const {
  const auto of = [this](int rank) ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    const auto found = finished_.find(rank);
    return found != finished_.end() ? found->second : 0;
  };
  std::vector<int> missing;
  for (int rank = 1; rank < static_cast<int>(tasks_.size()); ++rank) {
    const bool is_done = of(rank) == of(0) && told_.contains(rank);
    const Membership::State state = peers_.membership().state(tasks_[rank]);
    const bool ends = state == Membership::State::kDone || state == Membership::State::kLeft ||
                      peers_.membership().is_leaving(tasks_[rank]);
    if (!is_done && !ends && !left_.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

void PeerGroup::AwaitOthers() {
  Environment& environment = peers_.environment();
  const absl::Time deadline = environment.Now() + kLastStay;
  absl::Time next_word = environment.Now() + kSayAgainEvery;
  LongWait wait(environment, deadline);
  while (environment.Now() < deadline) {
    std::vector<int> missing;
    {
      absl::MutexLock lock(&mutex_);
      const auto all_end = [this]()
                               ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return MissingAtTheEndLocked().empty(); };
      if (environment.Await(mutex_, absl::Condition(&all_end),
                            std::min(deadline, environment.Now() + kGlance))) {
        return;
      }
      missing = MissingAtTheEndLocked();
    }
    if (environment.Now() >= next_word) {
      next_word = environment.Now() + kSayAgainEvery;
      SayAgain(missing);
    }
    wait.Say([&] {
      const auto append_name = [this](std::string* text, int rank) { text->append(group_->NameOf(rank)); };
      return absl::StrCat(group_->NameOf(0), " has ended training, and stays to say so to ",
                          absl::StrJoin(missing, ", ", append_name),
                          ", lost in the last step or still in it");
    });
  }
}

void PeerGroup::SayAgain(const std::vector<int>& ranks) {
  WireWriter writer;
  std::vector<int> told;
  {
    absl::MutexLock lock(&mutex_);
    writer.Fixed64(finished_[0]);
    // One in a later life asks for the group itself, and hears more then (TakeJoin).
    for (const int rank : ranks) {
      if (peers_.membership().incarnation_of(tasks_[rank]) == begun_.lives[rank]) told.push_back(rank);
    }
  }
  const std::string body = writer.Take();
  for (const int rank : told) {
    Tell(rank, kFinishMethod, body, {kFarewellRetry, kSayAgainEvery}, &num_farewells_);
    Tell(rank, kLeaveGroupMethod, body, {kFarewellRetry, kSayAgainEvery}, &num_farewells_, &told_);
  }
}

void PeerGroup::TakeLeave(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call) {
  const uint64_t generation = reader.Fixed64();
  const absl::Status status = reader.Finish("a rank's leave");
  Reply(*call, status);
  if (!status.ok()) return;
  {
    absl::MutexLock lock(&mutex_);
    left_[rank] = generation;
  }
  RunScope scope;
  memory_.ReadAllThen(rank, generation, [this, rank, generation] { group_->OnLeave(rank, generation); });
}

void PeerGroup::ReportWaits() {
  group_->TellOverdue();
  group_->EndVainProxies(peers_.environment().Now());
  for (const std::string& line : group_->TakeWords(kLookEvery)) PrintNotice(line);
  LookAtWaitsLater();
}

}  // namespace weir
