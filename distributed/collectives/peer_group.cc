#include "distributed/collectives/peer_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "kernels/threads.h"

namespace weir {
namespace {

constexpr char kPrefix[] = "/weir.Collective/";
constexpr char kFormMethod[] = "/weir.Collective/Form";
constexpr char kPartMethod[] = "/weir.Collective/Part";
constexpr char kEndGenerationMethod[] = "/weir.Collective/End";
constexpr char kLeaveGroupMethod[] = "/weir.Collective/Leave";

constexpr absl::Duration kReportEvery = absl::Seconds(10);
constexpr absl::Duration kPause = absl::Milliseconds(100);
// How long a broken connection to another rank is tried again, and how long somebody is told of an end.
constexpr absl::Duration kRetryFor = absl::Seconds(3);
constexpr absl::Duration kNoticeTime = absl::Seconds(30);
// Of what a rank says when it leaves: the others may have left before, and nobody can be reached then.
constexpr absl::Duration kFarewellRetry = absl::Milliseconds(200);

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

PeerGroup::PeerGroup(std::vector<TaskName> ranks, Peers& peers)
    : tasks_(std::move(ranks)),
      peers_(peers),
      rank_(IndexOf(tasks_, peers.membership().self())),
      group_(new RankGroup(rank_, Names(tasks_), *this, peers.environment())) {
  peers_.timers().At(peers_.environment().Now() + kReportEvery, [this, alive = alive_] {
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
  const auto is_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_under_way_ == 0; };
  peers_.environment().Await(mutex_, absl::Condition(&is_idle));
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

void PeerGroup::Reply(IncomingCall& call, const absl::Status& status, std::string body) const {
  WireWriter writer;
  EncodeReplyStatus(peers_.membership().incarnation(), status, &writer);
  Frame frame;
  frame.header = writer.Take() + body;
  call.Reply(std::move(frame));
}

void PeerGroup::Handle(std::shared_ptr<IncomingCall> call) {
  WireReader reader(call->request().header);
  const Envelope envelope = Envelope::DecodeFrom(&reader);
  absl::Status admitted =
      reader.ok() ? peers_.membership().OnSignOfLife(envelope.sender, envelope.sender_incarnation)
                  : absl::InvalidArgumentError(absl::StrCat(call->method(), ": the request has no envelope"));
  if (admitted.ok()) admitted = peers_.membership().CheckAddressee(envelope.addressee);
  const int rank = RankOf(envelope.sender);
  if (admitted.ok() && (rank < 0 || rank == rank_)) {
    admitted = absl::InvalidArgumentError(absl::StrCat(envelope.sender.ToString(), " is no other rank of ",
                                                       tasks_[rank_].ToString(), "'s group"));
  }
  if (!admitted.ok()) return Reply(*call, admitted);
  const absl::string_view method = call->method();
  if (method == kPartMethod) return TakePart(rank, reader, call);
  if (method == kFormMethod) return TakeJoin(rank, reader, call);
  if (method == kEndGenerationMethod) return TakeEnd(rank, reader, call);
  if (method == kLeaveGroupMethod) return TakeLeave(rank, reader, call);
  Reply(*call, absl::UnimplementedError(absl::StrCat("this server does not know the method ", method)));
}

Payload PeerGroup::Place(absl::string_view method, absl::string_view header, size_t index, size_t num_bytes) {
  if (method != kPartMethod || index != 0) return Payload();
  WireReader reader(header);
  const Envelope envelope = Envelope::DecodeFrom(&reader);
  // What has no place is looked at again by Handle, which says why.
  if (!reader.ok() || RankOf(envelope.sender) < 0) return Payload();
  if (!peers_.membership().OnSignOfLife(envelope.sender, envelope.sender_incarnation).ok()) return Payload();
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
  {
    absl::MutexLock lock(&mutex_);
    ++num_under_way_;
  }
  WireWriter writer;
  message.EncodeTo(&writer);
  peers_.Call(tasks_[to], kPartMethod, writer.Take(), {std::move(bytes)}, {.retry_for = kRetryFor},
              [this, done = std::move(done)](absl::StatusOr<PeerReply> reply) mutable {
                RunScope scope;
                std::exchange(done, nullptr)(reply.status());
                absl::MutexLock lock(&mutex_);
                --num_under_way_;
              });
}

void PeerGroup::Tell(int rank, const char* method, std::string body, absl::Duration retry_for) {
  {
    absl::MutexLock lock(&mutex_);
    ++num_under_way_;
  }
  peers_.Call(tasks_[rank], method, std::move(body), {},
              {.deadline = peers_.environment().Now() + kNoticeTime, .retry_for = retry_for},
              [this](absl::StatusOr<PeerReply>) {
                absl::MutexLock lock(&mutex_);
                --num_under_way_;
              });
}

void PeerGroup::OnEnd(uint64_t generation, const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (is_leaving_) return;  // Leave says it
  }
  WireWriter writer;
  writer.Fixed64(generation);
  writer.StatusValue(reason);
  const std::string body = writer.Take();
  for (int rank = 0; rank < static_cast<int>(tasks_.size()); ++rank) {
    if (rank != rank_ && (rank_ == 0 || rank == 0)) Tell(rank, kEndGenerationMethod, body, kNoticeTime);
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

void PeerGroup::OnLoss(const TaskName& task, const absl::Status& reason) {
  const int rank = RankOf(task);
  if (rank < 0) return;
  {
    absl::MutexLock lock(&mutex_);
    joined_.erase(rank);
    if (left_.count(rank) > 0) return;
  }
  group_->End(absl::AbortedError(absl::StrCat(group_->NameOf(rank), " was lost: ", reason.message())));
}

absl::Status PeerGroup::Form(absl::Time deadline) {
  group_->End(absl::AbortedError(absl::StrCat(group_->NameOf(rank_), " forms the group anew")));
  if (tasks_.size() == 1) {
    group_->Begin(peers_.environment().Random() | 1);
    return absl::OkStatus();
  }
  return rank_ == 0 ? FormAsFirst(deadline) : AskFirst(deadline);
}

std::vector<std::string> PeerGroup::MissingLocked() const {
  std::vector<std::string> missing;
  for (int rank = 0; rank < static_cast<int>(tasks_.size()); ++rank) {
    if (joined_.count(rank) == 0) missing.push_back(group_->NameOf(rank));
  }
  return missing;
}

absl::Status PeerGroup::LeftLocked() const {
  if (left_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(group_->NameOf(*left_.begin()),
                   " is done, so the group cannot be formed anew: every rank must run as many "
                   "steps as the others"));
}

uint64_t PeerGroup::AnswerIfAllHaveJoined() {
  std::map<int, Join> joined;
  uint64_t generation = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (joined_.size() < tasks_.size()) return 0;
    joined = std::exchange(joined_, {});
    is_answering_ = true;
    generation = peers_.environment().Random() | 1;
    answered_generation_ = generation;
    answered_.clear();
    for (const auto& [rank, join] : joined) answered_[rank] = join.attempt;
  }
  group_->Begin(generation);  // first: the others may send at once
  {
    absl::MutexLock lock(&mutex_);
    is_answering_ = false;
  }
  WireWriter writer;
  writer.Fixed64(generation);
  const std::string body = writer.Take();
  for (const auto& [rank, join] : joined) {
    if (join.call != nullptr) Reply(*join.call, absl::OkStatus(), body);
  }
  return generation;
}

absl::Status PeerGroup::FormAsFirst(absl::Time deadline) {
  {
    absl::MutexLock lock(&mutex_);
    joined_[0] = Join{peers_.environment().Random(), nullptr};
  }
  AnswerIfAllHaveJoined();
  absl::Status status;
  std::vector<Join> refused;
  {
    absl::MutexLock lock(&mutex_);
    // Joins that come are answered by those who bring them.
    const auto is_over = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return !is_answering_ && (joined_.count(0) == 0 || !left_.empty() || is_leaving_);
    };
    const absl::Time begin = peers_.environment().Now();
    while (!peers_.environment().Await(mutex_, absl::Condition(&is_over),
                                       std::min(deadline, peers_.environment().Now() + kReportEvery))) {
      const std::string awaited = absl::StrJoin(MissingLocked(), ", ");
      const absl::Time now = peers_.environment().Now();
      if (now >= deadline) {
        status = absl::DeadlineExceededError(
            absl::StrCat(group_->NameOf(0), " has waited in vain for ", awaited, " to form the group"));
        break;
      }
      PrintNotice(absl::StrCat(group_->NameOf(0), " waits for ", awaited, " to form the group of ",
                               tasks_.size(), " ranks, for ",
                               absl::FormatDuration(absl::Trunc(now - begin, absl::Seconds(1)))));
    }
    if (joined_.count(0) == 0) return absl::OkStatus();
    if (status.ok()) {
      status = is_leaving_ ? absl::CancelledError("this task is shutting down") : LeftLocked();
    }
    for (auto& [rank, join] : joined_) refused.push_back(join);
    joined_.clear();
  }
  for (const Join& join : refused) {
    if (join.call != nullptr) Reply(*join.call, status);
  }
  return status;
}

void PeerGroup::TakeJoin(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call) {
  const uint64_t attempt = reader.Fixed64();
  absl::Status status = reader.Finish("a rank's question for the group");
  if (status.ok() && rank_ != 0) {
    status = absl::InvalidArgumentError(
        absl::StrCat(tasks_[rank_].ToString(), " is rank ", rank_, ": groups are formed by rank 0"));
  }
  if (!status.ok()) return Reply(*call, status);
  uint64_t answer = 0, current = 0;
  std::shared_ptr<IncomingCall> superseded;
  {
    absl::MutexLock lock(&mutex_);
    current = group_->generation();
    // The answer was lost, and the question came again.
    const auto answered = answered_.find(rank);
    if (answered != answered_.end() && answered->second == attempt && answered_generation_ == current) {
      answer = answered_generation_;
    } else {
      left_.erase(rank);
      superseded = std::exchange(joined_[rank], Join{attempt, call}).call;
    }
  }
  if (answer != 0) {
    WireWriter writer;
    writer.Fixed64(answer);
    return Reply(*call, absl::OkStatus(), writer.Take());
  }
  if (superseded != nullptr) Reply(*superseded, absl::UnavailableError("asked again"));
  RunScope scope;
  // Not one that has begun since: it is the answer to this question.
  group_->EndGeneration(current,
                        absl::AbortedError(absl::StrCat(group_->NameOf(rank), " forms the group anew")));
  AnswerIfAllHaveJoined();
}

absl::Status PeerGroup::AskFirst(absl::Time deadline) {
  const uint64_t attempt = peers_.environment().Random();
  while (true) {
    WireWriter writer;
    writer.Fixed64(attempt);
    const absl::StatusOr<PeerReply> reply =
        peers_.CallAndWait(tasks_[0], kFormMethod, writer.Take(), {},
                           {.deadline = deadline, .wait_for_ready = true, .any_life = true});
    if (reply.ok()) {
      WireReader reader(reply->header());
      const uint64_t generation = reader.Fixed64();
      WEIR_RETURN_IF_ERROR(reader.Finish("rank 0's answer"));
      group_->Begin(generation);
      return absl::OkStatus();
    }
    // Rank 0 may be restarting.
    const bool is_worth_it = absl::IsUnavailable(reply.status()) || absl::IsAborted(reply.status());
    absl::MutexLock lock(&mutex_);
    if (!is_worth_it || is_leaving_ || peers_.environment().Now() + kPause >= deadline) return reply.status();
    peers_.environment().Await(mutex_, absl::Condition(&is_leaving_), peers_.environment().Now() + kPause);
  }
}

void PeerGroup::Leave(const absl::Status& outcome, absl::Time deadline) {
  const uint64_t generation = group_->generation();
  const auto wait = [&] {
    absl::MutexLock lock(&mutex_);
    is_leaving_ = true;
    const auto is_idle = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_under_way_ == 0; };
    peers_.environment().Await(mutex_, absl::Condition(&is_idle), deadline);
  };
  if (outcome.ok()) wait();
  WireWriter writer;
  writer.Fixed64(generation);
  if (!outcome.ok()) {
    writer.StatusValue(
        absl::AbortedError(absl::StrCat(group_->NameOf(rank_), " has failed: ", outcome.message())));
  }
  const std::string body = writer.Take();
  for (int rank = 0; rank < static_cast<int>(tasks_.size()); ++rank) {
    if (rank != rank_)
      Tell(rank, outcome.ok() ? kLeaveGroupMethod : kEndGenerationMethod, body, kFarewellRetry);
  }
  wait();
  group_->End(absl::CancelledError("this task has left the group"));
}

void PeerGroup::TakeLeave(int rank, WireReader& reader, const std::shared_ptr<IncomingCall>& call) {
  const uint64_t generation = reader.Fixed64();
  const absl::Status status = reader.Finish("a rank's leave");
  Reply(*call, status);
  if (!status.ok()) return;
  {
    absl::MutexLock lock(&mutex_);
    left_.insert(rank);
    joined_.erase(rank);
  }
  RunScope scope;
  group_->OnLeave(rank, generation);
}

void PeerGroup::ReportWaits() {
  for (const std::string& line : group_->DescribeWaits(kReportEvery)) {
    PrintNotice(line);
  }
  peers_.timers().At(peers_.environment().Now() + kReportEvery, [this, alive = alive_] {
    absl::MutexLock lock(&alive->mutex);
    if (!alive->is_over) ReportWaits();
  });
}

}  // namespace weir
