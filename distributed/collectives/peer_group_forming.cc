// How the ranks of a PeerGroup find one another: what rank 0 waits for and answers, and what the others ask
// it.
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/collectives/peer_group.h"
#include "graph/types/status_macros.h"
#include "kernels/long_wait.h"
#include "kernels/notice.h"
#include "kernels/threads.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

constexpr absl::Duration kReportEvery = LongWait::kSilence;
// Before rank 0 is asked again.
constexpr absl::Duration kPause = absl::Milliseconds(100);
// How often rank 0 tells those who wait for it whom it waits for.
constexpr absl::Duration kTellEvery = absl::Seconds(5);
// How often one who waits looks whether it shall give up.
constexpr absl::Duration kGlance = absl::Milliseconds(500);
// Between two looks of rank 0 whether it has joined the cluster.
constexpr absl::Duration kBriefly = absl::Milliseconds(20);

}  // namespace

absl::Status PeerGroup::Form(absl::Time deadline, absl::FunctionRef<bool()> gives_up) {
  group_->End(absl::AbortedError(absl::StrCat(group_->NameOf(rank_), " forms the group anew")));
  if (tasks_.size() == 1) {
    group_->Begin(peers_.environment().Random() | 1);
    return absl::OkStatus();
  }
  return rank_ == 0 ? FormAsFirst(deadline, gives_up) : AskFirst(deadline, gives_up);
}

std::vector<std::string> PeerGroup::MissingLocked() const {
  std::vector<std::string> missing;
  for (int rank = 0; rank < static_cast<int>(tasks_.size()); ++rank) {
    if (joined_.count(rank) > 0) continue;
    // It has ended since, or is about to.
    if (const auto refused = refused_.find(rank); refused != refused_.end()) {
      missing.push_back(absl::StrCat(group_->NameOf(rank), ", which was refused: ", refused->second));
      continue;
    }
    const Membership::State state = peers_.membership().state(tasks_[rank]);
    missing.push_back(
        absl::StrCat(group_->NameOf(rank), state == Membership::State::kLost      ? ", which was lost"
                                           : state == Membership::State::kLeft    ? ", which has left"
                                           : state == Membership::State::kUnknown ? ", which has never come"
                                                                                  : ""));
  }
  return missing;
}

absl::Status PeerGroup::LeftLocked() const {
  if (left_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(group_->NameOf(left_.begin()->first),
                   " is done, so the group cannot be formed anew: every rank must run as many "
                   "steps as the others"));
}

absl::Status PeerGroup::OwnLeaveLocked() const {
  if (!is_done_) return absl::UnavailableError(absl::StrCat(group_->NameOf(rank_), " has failed"));
  return absl::OutOfRangeError(
      absl::StrCat(group_->NameOf(rank_), " is done, so the group cannot be formed anew"));
}

void PeerGroup::AnswerIfAllHaveJoined() {
  std::map<int, Join> joined;
  Formed formed;
  {
    absl::MutexLock lock(&mutex_);
    if (joined_.size() < tasks_.size()) return;
    joined = std::exchange(joined_, {});
    is_answering_ = true;
    formed.generation = peers_.environment().Random() | 1;
    answered_.clear();
    for (const auto& [rank, join] : joined) {
      answered_[rank] = join.attempt;
      formed.lives.push_back(join.life);
    }
    answer_ = formed;
    begun_ = formed;  // a rank that is lost from now on ends it, also before it has begun
  }
  BeginGeneration(formed);  // first: the others may send at once
  std::vector<Join> repeated;
  std::optional<int> asks_anew;
  {
    absl::MutexLock lock(&mutex_);
    is_answering_ = false;
    // Who has asked meanwhile has found no generation that it could end.
    for (auto it = joined_.begin(); it != joined_.end();) {
      if (it->second.attempt == answered_[it->first]) {
        repeated.push_back(std::move(it->second));
        it = joined_.erase(it);
      } else {
        asks_anew = (it++)->first;
      }
    }
  }
  const std::string body = EncodeFormed(formed);
  for (const auto& [rank, join] : joined) {
    if (join.call != nullptr) Reply(*join.call, absl::OkStatus(), body);
  }
  for (const Join& join : repeated) Reply(*join.call, absl::OkStatus(), body);
  RunScope scope;
  if (asks_anew) EndForOneThatAsks(formed.generation, *asks_anew);
}

void PeerGroup::EndForOneThatAsks(uint64_t generation, int rank) {
  group_->EndGeneration(generation,
                        absl::AbortedError(absl::StrCat(group_->NameOf(rank), " forms the group anew")));
}

std::string PeerGroup::EncodeFormed(const Formed& formed) {
  WireWriter writer;
  writer.Fixed64(formed.generation);
  for (const Incarnation life : formed.lives) writer.Fixed64(life);
  return writer.Take();
}

absl::StatusOr<PeerGroup::Formed> PeerGroup::DecodeFormed(WireReader& reader) const {
  Formed formed;
  formed.generation = reader.Fixed64();
  for (size_t rank = 0; rank < tasks_.size(); ++rank) formed.lives.push_back(reader.Fixed64());
  WEIR_RETURN_IF_ERROR(reader.Finish("rank 0's answer"));
  return formed;
}

void PeerGroup::BeginGeneration(const Formed& formed) {
  const uint64_t generation = formed.generation;
  const auto keep_those_of = [generation](std::map<int, uint64_t>& ranks) {
    for (auto it = ranks.begin(); it != ranks.end();) {
      it = it->second == generation ? std::next(it) : ranks.erase(it);
    }
    return ranks;
  };
  std::map<int, uint64_t> finished, gone;
  {
    absl::MutexLock lock(&mutex_);
    finished = keep_those_of(finished_);
    gone = keep_those_of(left_);
    begun_ = formed;
  }
  memory_.KeepOnly(generation);
  group_->Begin(generation);
  OfferMemory(generation);
  for (const auto& [rank, of] : finished) group_->OnFinish(rank, generation);
  for (const auto& [rank, of] : gone) group_->OnLeave(rank, generation);
}

void PeerGroup::Refuse(const std::map<int, Join>& joined, const absl::Status& why) const {
  for (const auto& [rank, join] : joined) {
    if (join.call != nullptr) Reply(*join.call, why);
  }
}

absl::Status PeerGroup::AwaitOwnLife(absl::Time deadline, absl::FunctionRef<bool()> gives_up) {
  Environment& environment = peers_.environment();
  absl::Time next_report = environment.Now() + kReportEvery, next_word = environment.Now() + kTellEvery;
  while (peers_.membership().incarnation() == 0) {
    const absl::Time now = environment.Now();
    const std::string why = peers_.WhyItWaits();
    if (gives_up()) return absl::UnavailableError(absl::StrCat("stopped while ", why));
    if (now >= deadline) return absl::DeadlineExceededError(why);
    if (now >= next_report) {
      next_report = now + kReportEvery;
      PrintNotice(why);
    }
    absl::MutexLock lock(&mutex_);
    if (now >= next_word) {
      next_word = now + kTellEvery;
      TellThoseWhoWait(why);
    }
    if (environment.Await(mutex_, absl::Condition(&is_leaving_), environment.Now() + kBriefly)) {
      return absl::CancelledError("this task is shutting down");
    }
  }
  return absl::OkStatus();
}

absl::Status PeerGroup::FormAsFirst(absl::Time deadline, absl::FunctionRef<bool()> gives_up) {
  // The others hear it by its answer. The authority loses nobody who was never heard.
  absl::Status status = AwaitOwnLife(deadline, gives_up);
  if (status.ok()) {
    {
      absl::MutexLock lock(&mutex_);
      is_done_ = false;
      joined_[0] = Join{peers_.environment().Random(), peers_.membership().incarnation(), nullptr};
    }
    AnswerIfAllHaveJoined();
  }
  std::map<int, Join> refused;
  {
    absl::MutexLock lock(&mutex_);
    if (status.ok()) status = AwaitJoins(deadline, gives_up);
    if (status.ok()) return status;
    refused = std::exchange(joined_, {});
  }
  // One that gives up does not speak for the others: they ask again.
  Refuse(refused, absl::IsDeadlineExceeded(status) ? absl::UnavailableError(status.message()) : status);
  return status;
}

absl::Status PeerGroup::AwaitJoins(absl::Time deadline, absl::FunctionRef<bool()> gives_up) {
  Environment& environment = peers_.environment();
  // Joins that come are answered by those who bring them.
  const auto is_over = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !is_answering_ && (joined_.count(0) == 0 || !left_.empty() || is_leaving_);
  };
  const absl::Time begin = environment.Now();
  absl::Time next_report = begin + kReportEvery, next_word = begin + kTellEvery;
  while (!environment.Await(mutex_, absl::Condition(&is_over),
                            std::min(deadline, environment.Now() + kGlance))) {
    const std::string awaited = absl::StrJoin(MissingLocked(), ", ");
    const absl::Time now = environment.Now();
    if (gives_up()) return absl::UnavailableError(absl::StrCat("stopped while waiting for ", awaited));
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(group_->NameOf(0), " has waited in vain to form the group, for ", awaited));
    }
    if (now >= next_word) {
      next_word = now + kTellEvery;
      TellThoseWhoWait(absl::StrCat(group_->NameOf(0), " waits to form the group, for ", awaited));
    }
    if (now < next_report) continue;
    next_report = now + kReportEvery;
    PrintNotice(absl::StrCat(
        group_->NameOf(0), " has waited ", absl::FormatDuration(absl::Trunc(now - begin, absl::Seconds(1))),
        " to form the group of ", tasks_.size(), " ranks (",
        absl::FormatDuration(absl::Trunc(deadline - now, absl::Seconds(1))), " left), for ", awaited));
  }
  if (joined_.count(0) == 0) return absl::OkStatus();
  return is_leaving_ ? absl::CancelledError("this task is shutting down") : LeftLocked();
}

void PeerGroup::TellThoseWhoWait(std::string why) {
  std::map<int, Join> told = std::exchange(joined_, {});
  joined_.insert(told.extract(0));
  peers_.timers().At(absl::InfinitePast(), [this, alive = alive_, told = std::move(told),
                                            why = absl::UnavailableError(std::move(why))] {
    absl::MutexLock lock(&alive->mutex);
    if (!alive->is_over) Refuse(told, why);
  });
}

void PeerGroup::TellOfMismatch(int rank, const absl::Status& mismatch) {
  {
    absl::MutexLock lock(&mutex_);
    refused_[rank] = std::string(mismatch.message());
    const absl::Time now = peers_.environment().SteadyNow();
    if (now < next_mismatch_notice_) return;
    next_mismatch_notice_ = now + kReportEvery;
  }
  PrintNotice(mismatch.message());
}

void PeerGroup::TakeJoin(int rank, Incarnation life, WireReader& reader,
                         const std::shared_ptr<IncomingCall>& call) {
  const uint64_t attempt = reader.Fixed64(), size = reader.Unsigned();
  absl::Status status = reader.Finish("a rank's question for the group");
  if (status.ok() && size != tasks_.size()) {
    status = absl::InvalidArgumentError(absl::StrCat(group_->NameOf(rank), " counts ", size, " ranks, ",
                                                     group_->NameOf(rank_), " counts ", tasks_.size(),
                                                     ": the tasks were given different cluster specs"));
    TellOfMismatch(rank, status);
  }
  if (status.ok() && rank_ != 0) {
    status = absl::InvalidArgumentError(
        absl::StrCat(tasks_[rank_].ToString(), " is rank ", rank_, ": groups are formed by rank 0"));
  }
  if (!status.ok()) return Reply(*call, status);
  Formed answer;
  uint64_t current = 0;
  std::shared_ptr<IncomingCall> superseded;
  {
    absl::MutexLock lock(&mutex_);
    current = group_->generation();
    // The answer was lost, and the question came again.
    const auto answered = answered_.find(rank);
    if (answered != answered_.end() && answered->second == attempt && answer_.generation == current) {
      answer = answer_;
    } else {
      left_.erase(rank);
      refused_.erase(rank);
      status = is_leaving_ || is_done_ ? OwnLeaveLocked() : LeftLocked();
      if (status.ok()) superseded = std::exchange(joined_[rank], Join{attempt, life, call}).call;
    }
  }
  if (!status.ok()) return Reply(*call, status);
  if (answer.generation != 0) return Reply(*call, absl::OkStatus(), EncodeFormed(answer));
  if (superseded != nullptr) Reply(*superseded, absl::UnavailableError("asked again"));
  RunScope scope;
  // Not one that has begun since: it is the answer to this question.
  EndForOneThatAsks(current, rank);
  AnswerIfAllHaveJoined();
}

absl::Status PeerGroup::AskFirst(absl::Time deadline, absl::FunctionRef<bool()> gives_up) {
  Environment& environment = peers_.environment();
  const uint64_t attempt = environment.Random();
  absl::Time next_report = environment.Now() + kReportEvery;
  std::string why;  // as rank 0 says
  while (true) {
    struct Answer {
      absl::Mutex mutex;
      std::optional<absl::StatusOr<PeerReply>> told;
    };
    const auto answer = std::make_shared<Answer>();
    WireWriter writer;
    writer.Fixed64(attempt);
    writer.Unsigned(tasks_.size());
    const std::shared_ptr<Peers::Handle> call =
        peers_.Call(tasks_[0], kFormMethod, writer.Take(), {},
                    {.deadline = deadline, .wait_for_ready = true, .any_life = true},
                    [answer](absl::StatusOr<PeerReply> reply) {
                      absl::MutexLock lock(&answer->mutex);
                      answer->told = std::move(reply);
                    });
    const auto is_told_soon = [&] {
      absl::MutexLock lock(&answer->mutex);
      const auto is_told = [&answer] { return answer->told.has_value(); };
      return environment.Await(answer->mutex, absl::Condition(&is_told), environment.Now() + kGlance);
    };
    absl::Status status;
    while (!is_told_soon()) {
      status = WhyNotToWait(gives_up);
      if (!status.ok()) {
        call->Cancel(status);
        return status;
      }
      if (environment.Now() < next_report) continue;
      next_report = environment.Now() + kReportEvery;
      PrintNotice(absl::StrCat(
          group_->NameOf(rank_), " waits for ", group_->NameOf(0), " to form the group of ", tasks_.size(),
          " ranks (", absl::FormatDuration(absl::Trunc(deadline - environment.Now(), absl::Seconds(1))),
          " left)", why.empty() ? "" : ": ", why));
    }
    absl::StatusOr<PeerReply> reply = *std::move(answer->told);
    if (reply.ok()) {
      WireReader reader(reply->header());
      WEIR_ASSIGN_OR_RETURN(const Formed formed, DecodeFormed(reader));
      LearnLives(formed);
      BeginGeneration(formed);
      return absl::OkStatus();
    }
    // Rank 0 may be restarting.
    const bool is_worth_it = absl::IsUnavailable(reply.status()) || absl::IsAborted(reply.status()) ||
                             absl::IsCancelled(reply.status());
    if (is_worth_it) why = std::string(reply.status().message());
    if (absl::IsDeadlineExceeded(reply.status()) || (is_worth_it && environment.Now() + kPause >= deadline)) {
      return absl::DeadlineExceededError(
          absl::StrCat(group_->NameOf(rank_),
                       " has waited in vain for the group: ", why.empty() ? reply.status().message() : why));
    }
    // It has missed the end: the others have done the last step, and nothing is left to do.
    if (absl::IsOutOfRange(reply.status())) return TrainingIsOverError(reply.status().message());
    if (!is_worth_it) return reply.status();
    WEIR_RETURN_IF_ERROR(WhyNotToWait(gives_up));
    absl::MutexLock lock(&mutex_);
    environment.Await(mutex_, absl::Condition(&is_leaving_), environment.Now() + kPause);
  }
}

void PeerGroup::LearnLives(const Formed& formed) {
  Membership& membership = peers_.membership();
  for (int rank = 0; rank < static_cast<int>(tasks_.size()); ++rank) {
    const Incarnation life = formed.lives[rank];
    // One that is known already may have been lost since it asked.
    if (rank == rank_ || life <= membership.incarnation_of(tasks_[rank])) continue;
    // What is no life that can be is said to nobody: its messages say it.
    membership.OnSignOfLife(tasks_[rank], life).IgnoreError();
  }
}

absl::Status PeerGroup::WhyNotToWait(absl::FunctionRef<bool()> gives_up) {
  if (gives_up()) {
    return absl::UnavailableError(absl::StrCat("stopped while waiting for ", group_->NameOf(0)));
  }
  absl::MutexLock lock(&mutex_);
  return is_leaving_ ? absl::CancelledError("this task is shutting down") : LeftLocked();
}

}  // namespace weir
