#include "kernels/cpu/data_flow/replica_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kStepBits = 40;
constexpr uint64_t kStepMask = (uint64_t{1} << kStepBits) - 1;
constexpr size_t kMaxShown = 8;          // replicas that are named at once
constexpr size_t kMaxRefused = 64;       // that are kept: anybody may ask with any rank
constexpr size_t kMaxRefusalText = 500;  // a model may have many gradients

std::string NumbersOf(const ReplicaGroup::Spec& spec) {
  return absl::StrCat("a group of ", spec.replicas_to_aggregate, " of ", spec.num_replicas, " replicas (",
                      spec.on_loss == ReplicaGroup::OnLoss::kShrink ? "shrinks"
                      : spec.on_loss == ReplicaGroup::OnLoss::kWait ? "waits"
                                                                    : "fails",
                      spec.min_replicas > 0 ? absl::StrCat(", at least ", spec.min_replicas) : "", ")");
}

std::string GradientsOf(const ReplicaGroup::Spec& spec) {
  return absl::StrJoin(spec.gradients, ", ", [](std::string* out, const GradientSum::Spec& gradient) {
    absl::StrAppend(out, TypeString(gradient.dtype, gradient.shape), gradient.is_sparse ? " in rows" : "",
                    gradient.order == GradientSum::Order::kByRank ? " by rank" : " by arrival");
  });
}

}  // namespace

std::string ReplicaName(int64_t rank) { return rank == 0 ? "the chief" : absl::StrCat("worker ", rank - 1); }

ReplicaGroup::ReplicaGroup(Spec spec) : spec_(std::move(spec)) {
  for (const GradientSum::Spec& gradient : spec_.gradients) sums_.emplace_back(gradient);
}

// ---- What waits ----

void ReplicaGroup::Stay(const Caller& caller, Identity identity, Done done) {
  Submit(std::make_shared<Waiter>(Kind::kStay, caller, identity, std::move(done)));
}

void ReplicaGroup::Join(const Caller& caller, Identity identity, Done done) {
  Submit(std::make_shared<Waiter>(Kind::kJoin, caller, identity, std::move(done)));
}

void ReplicaGroup::Contribute(const Caller& caller, Identity identity,
                              const std::vector<StagedGradient>& gradients, Done done) {
  if (gradients.size() != spec_.gradients.size()) {
    return done(absl::InvalidArgumentError(absl::StrCat("a contribution has ", gradients.size(),
                                                        " gradients, the group has ", spec_.gradients.size(),
                                                        " variables")));
  }
  auto waiter = std::make_shared<Waiter>(Kind::kContribute, caller, identity, std::move(done));
  waiter->gradients = gradients;
  Submit(std::move(waiter));
}

void ReplicaGroup::Aggregate(const Caller& caller, Identity identity, int64_t update, Done done) {
  if (update < 1) {
    return done(absl::InvalidArgumentError(absl::StrCat("the number of an update is ", update, ", below 1")));
  }
  auto waiter = std::make_shared<Waiter>(Kind::kAggregate, caller, identity, std::move(done));
  waiter->update = update;
  Submit(std::move(waiter));
}

void ReplicaGroup::Submit(WaiterRef waiter) {
  // Registered first: once it is in the list, another thread may complete it and remove the callback.
  const uint64_t on_cancel = waiter->caller.cancellation.OnCancel(
      [self = RefPtr<ReplicaGroup>::Share(this), waiter](const absl::Status& reason) {
        self->OnCancel(waiter, reason);
      });
  Over over;
  {
    absl::MutexLock lock(&mutex_);
    if (waiter->is_over) return;  // cancelled meanwhile
    waiter->on_cancel = on_cancel;
    if (waiter->kind == Kind::kAggregate) {
      EndAll([](const Waiter& other) { return other.kind == Kind::kAggregate; },
             absl::AbortedError("another driver waits for the aggregate"), &over);
    }
    waiters_.push_back(waiter);
    if (waiter->kind == Kind::kStay) BeginStay(waiter, &over);
    if (waiter->kind == Kind::kAggregate) BeginAggregate(waiter, &over);
    if (waiter->kind == Kind::kContribute) BeginContribution(waiter, &over);
    Serve(&over);
  }
  Finish(over);
}

void ReplicaGroup::BeginStay(const WaiterRef& waiter, Over* over) {
  const Identity self = waiter->identity;
  EndAll(
      [self](const Waiter& other) {
        return other.identity.rank == self.rank && other.identity.life != self.life;
      },
      absl::AbortedError(absl::StrCat("another life of ", ReplicaName(self.rank), " has come")), over);
  const int64_t num_others = std::count_if(replicas_.begin(), replicas_.end(), [self](const auto& entry) {
    return entry.second.state == State::kPresent && entry.first != self.rank;
  });
  if (spec_.min_replicas == 0 && num_others >= spec_.num_replicas) {
    // All groups refuse the same one, whoever comes last, and never the chief: its rank is low.
    const int64_t refused = std::max<int64_t>(self.rank, HighestPresent());
    EndAll([refused](const Waiter& one) { return one.identity.rank == refused; },
           absl::FailedPreconditionError(absl::StrCat(
               ReplicaName(refused), " is one too many: ", num_others, " other replicas are there, and ",
               spec_.name, " is a group of ", spec_.num_replicas, " (total_num_replicas)")),
           over);
    if (refused == self.rank) return;
    replicas_.erase(refused);
  }
  if (!replicas_.contains(self.rank)) {
    const auto ended = std::find_if(replicas_.begin(), replicas_.end(), [](const auto& entry) {
      return entry.second.state == State::kLeft && !entry.second.is_followed;
    });
    if (ended != replicas_.end()) ended->second.is_followed = true;
  }
  replicas_[self.rank] = {.life = self.life};
  refused_.erase(self.rank);
}

int64_t ReplicaGroup::HighestPresent() const {
  int64_t highest = 0;
  for (const auto& [rank, replica] : replicas_) {
    if (replica.state == State::kPresent) highest = std::max<int64_t>(highest, rank);
  }
  return highest;
}

// Its replica may have stopped while it was on its way: nobody would end its waiting.
void ReplicaGroup::BeginAggregate(const WaiterRef& waiter, Over* over) {
  const Replica* const replica = Find(waiter->identity);
  if (replica == nullptr || replica->state == State::kPresent || is_closed_ || !end_.ok()) return;
  End(*waiter,
      absl::AbortedError(absl::StrCat("this life of ", ReplicaName(waiter->identity.rank),
                                      " has left the group, or was lost")),
      over);
}

ReplicaGroup::Replica* ReplicaGroup::Find(Identity identity) {
  const auto found = replicas_.find(identity.rank);
  return found != replicas_.end() && found->second.life == identity.life ? &found->second : nullptr;
}

void ReplicaGroup::BeginContribution(const WaiterRef& waiter, Over* over) {
  Replica* const replica = Find(waiter->identity);
  if (replica != nullptr) replica->takes_part = true;
  if (replica != nullptr && replica->state == State::kLeft) {
    return End(*waiter, Answer{.mark = mark_, .gradients = {}}, over);
  }
  if (replica != nullptr && replica->has_stopped) return End(*waiter, HasStopped(waiter->identity), over);
  if (replica == nullptr || replica->state != State::kPresent) {
    return End(*waiter,
               absl::AbortedError(
                   absl::StrCat("this life of ", ReplicaName(waiter->identity.rank), " is not in the group")),
               over);
  }
  waiter->is_of_this_step = mark_ != 0 && waiter->identity.mark == mark_;
  const bool counts =
      waiter->is_of_this_step && !is_being_applied_ && !contributed_.contains(waiter->identity.rank);
  if (counts && end_.ok() && !is_closed_) Add(waiter);
  waiter->gradients.clear();
  if (waiter->result.ok()) return;
  End(*waiter, absl::StatusOr<Answer>(waiter->result), over);
}

void ReplicaGroup::Add(const WaiterRef& waiter) {
  const GradientSum::Memory memory = {waiter->caller.allocator, waiter->caller.adding};
  for (size_t i = 0; i < sums_.size(); ++i) {
    const absl::Status status = sums_[i].Check(waiter->identity.rank, waiter->gradients[i]);
    if (status.ok()) continue;
    waiter->result =
        absl::Status(status.code(), absl::StrCat("gradient ", i, " of ", spec_.name, " from ",
                                                 ReplicaName(waiter->identity.rank), ": ", status.message()));
    return;
  }
  for (size_t i = 0; i < sums_.size() && end_.ok(); ++i) {
    // A part of a contribution cannot be taken back: memory that runs out ends the step for all.
    end_ = sums_[i].Add(waiter->identity.rank, waiter->gradients[i], memory);
  }
  contributed_.insert(waiter->identity.rank);
}

absl::Status ReplicaGroup::HasStopped(Identity identity) {
  return absl::OutOfRangeError(absl::StrCat(ReplicaName(identity.rank), " ends, and waits no more"));
}

// ---- When it is over ----

int64_t ReplicaGroup::NumRequired() const {
  if (spec_.min_replicas > 0) return NumRequiredOfElastic();
  int64_t num_gone = 0;
  for (const auto& [rank, replica] : replicas_) {
    const bool is_gone =
        replica.state == State::kLeft || (replica.state == State::kLost && spec_.on_loss == OnLoss::kShrink);
    if (is_gone && !contributed_.contains(rank)) ++num_gone;
  }
  const int64_t num_replicas = std::max(spec_.num_replicas, static_cast<int64_t>(replicas_.size()));
  return std::max<int64_t>(1, std::min(spec_.replicas_to_aggregate, num_replicas - num_gone));
}

int64_t ReplicaGroup::NumRequiredOfElastic() const {
  int64_t num_there = 0, num_ended = 0;
  for (const auto& [rank, replica] : replicas_) {
    if ((replica.state == State::kPresent && replica.takes_part) || contributed_.contains(rank)) {
      ++num_there;
    } else if (replica.state == State::kLeft && !replica.is_followed) {
      ++num_ended;  // nobody waits for more when some have come to their end
    }
  }
  return std::max(
      {int64_t{1}, spec_.min_replicas - num_ended, std::min(spec_.replicas_to_aggregate, num_there)});
}

absl::StatusOr<ReplicaGroup::Answer> ReplicaGroup::TakeAggregate(const Waiter& waiter) {
  taken_ = {};  // first: its memory may serve for the next
  Answer answer = {.mark = mark_, .gradients = {}};
  for (GradientSum& sum : sums_) {
    WEIR_ASSIGN_OR_RETURN(StagedGradient mean, sum.Take(GradientSum::Reduction::kMean,
                                                        {waiter.caller.allocator, waiter.caller.adding}));
    answer.gradients.push_back(std::move(mean));
  }
  taken_ = {.update = waiter.update, .answer = answer};
  return answer;
}

bool ReplicaGroup::IsServedAtTheEnd(Waiter& waiter) {
  if (waiter.kind == Kind::kStay) return is_closed_;
  if (!end_.ok()) {
    waiter.result = end_;
  } else if (waiter.kind == Kind::kContribute) {
    waiter.result = Answer{.mark = mark_, .gradients = {}};
  } else {
    waiter.result = absl::OutOfRangeError("training is over: the chief has ended");
  }
  return true;
}

bool ReplicaGroup::IsServed(Waiter& waiter) {
  if (!end_.ok() && !is_closed_ && waiter.kind == Kind::kJoin) {
    // Who has seen nothing of the training that has ended was started again before the chief was, which
    // begins anew.
    const Replica* const replica = Find(waiter.identity);
    if (replica == nullptr || (!replica->takes_part && replica->told_step == 0)) return false;
  }
  if (!end_.ok() || is_closed_) return IsServedAtTheEnd(waiter);
  if (waiter.kind == Kind::kStay) return false;
  if (mark_ == 0) return false;
  if (waiter.kind == Kind::kJoin) {
    if (Find(waiter.identity) == nullptr) return false;
    waiter.result = Answer{.mark = mark_, .gradients = {}};
    return true;
  }
  if (waiter.kind == Kind::kAggregate && waiter.update == taken_.update) {
    waiter.result = taken_.answer;
    return true;
  }
  if (waiter.kind == Kind::kContribute && !waiter.is_of_this_step) {
    waiter.result = Answer{.mark = mark_, .gradients = {}};
    return true;
  }
  if (is_being_applied_) return false;
  if (waiter.kind == Kind::kAggregate) {
    if (static_cast<int64_t>(contributed_.size()) < NumRequired()) return false;
    const auto driver = replicas_.find(waiter.identity.rank);
    if (driver != replicas_.end() && driver->second.is_paused) return false;
    waiter.result = TakeAggregate(waiter);
    if (!waiter.result.ok()) end_ = waiter.result.status();  // of some variables the gradients are gone
    is_being_applied_ = waiter.result.ok();
    return true;
  }
  return false;
}

void ReplicaGroup::Serve(Over* over) {
  for (auto next = waiters_.begin(); next != waiters_.end();) {
    const auto waiter = next++;
    if (!IsServed(**waiter)) continue;
    (*waiter)->is_over = true;
    const bool is_told = (*waiter)->kind == Kind::kJoin || (*waiter)->kind == Kind::kContribute;
    if (Replica* const replica = is_told ? Find((*waiter)->identity) : nullptr) {
      replica->told_step = StepOf(mark_);
    }
    over->push_back(std::move(*waiter));
    waiters_.erase(waiter);
    if (!end_.ok()) next = waiters_.begin();
  }
}

void ReplicaGroup::EndAll(const std::function<bool(const Waiter&)>& which,
                          const absl::StatusOr<Answer>& result, Over* over) {
  for (auto next = waiters_.begin(); next != waiters_.end();) {
    const auto waiter = next++;
    if (!which(**waiter)) continue;
    (*waiter)->is_over = true;
    (*waiter)->result = result;
    over->push_back(std::move(*waiter));
    waiters_.erase(waiter);
  }
}

void ReplicaGroup::End(const Waiter& waiter, const absl::StatusOr<Answer>& result, Over* over) {
  EndAll([&waiter](const Waiter& other) { return &other == &waiter; }, result, over);
}

void ReplicaGroup::EndContributions(Over* over) {
  for (const WaiterRef& waiter : waiters_) waiter->is_of_this_step = false;
  contributed_.clear();
  is_being_applied_ = false;
  Serve(over);
}

absl::Status ReplicaGroup::Release(int64_t mark) {
  Over over;
  {
    absl::MutexLock lock(&mutex_);
    const bool was_released =
        taken_.update != 0 && taken_.answer.mark == mark && mark_ == MarkOf(chief_life_, StepOf(mark) + 1);
    if (was_released) return absl::OkStatus();
    if (mark != mark_ || !is_being_applied_) {
      return absl::AbortedError(absl::StrCat("step ", StepOf(mark), " of ", spec_.name,
                                             " is not the one that is being applied: the group is at step ",
                                             StepOf(mark_),
                                             mark == mark_ ? "" : ", and may have begun anew"));
    }
    mark_ = MarkOf(chief_life_, StepOf(mark_) + 1);
    EndContributions(&over);
  }
  Finish(over);
  return absl::OkStatus();
}

void ReplicaGroup::Reset(int64_t life, int64_t global_step) {
  Over over;
  {
    absl::MutexLock lock(&mutex_);
    chief_life_ = life;
    mark_ = MarkOf(life, global_step);
    end_ = absl::OkStatus();
    is_closed_ = false;
    for (GradientSum& sum : sums_) sum.Clear();
    taken_ = {};
    EndAll([](const Waiter& waiter) { return waiter.kind == Kind::kAggregate; },
           absl::AbortedError("the group was reset"), &over);
    RecallFinished(global_step, &over);
    EndContributions(&over);
  }
  Finish(over);
}

void ReplicaGroup::RecallFinished(int64_t step, Over* over) {
  std::set<int64_t> ranks;
  for (auto& [rank, replica] : replicas_) {
    if (replica.state != State::kLeft || replica.end_step <= step) continue;
    replica.state = State::kLost;
    ranks.insert(rank);
  }
  EndAll(
      [&ranks](const Waiter& waiter) {
        return waiter.kind == Kind::kStay && ranks.contains(waiter.identity.rank);
      },
      absl::AbortedError(
          absl::StrCat("the chief was lost before it had saved the last steps, and begins again "
                       "at step ",
                       step, ": started again, this program does the steps that are missing")),
      over);
}

int64_t ReplicaGroup::MarkOf(int64_t chief_life, int64_t step) {
  const uint64_t life = 1 + static_cast<uint64_t>(chief_life) % ((uint64_t{1} << (63 - kStepBits)) - 1);
  return static_cast<int64_t>(life << kStepBits | (static_cast<uint64_t>(step) & kStepMask));
}

int64_t ReplicaGroup::StepOf(int64_t mark) {
  return static_cast<int64_t>(static_cast<uint64_t>(mark) & kStepMask);
}

// ---- Who is there ----

void ReplicaGroup::NoteLoss(int64_t rank, Replica& replica) {
  if (replica.state != State::kPresent) return;
  replica.state = State::kLost;
  if (spec_.on_loss != OnLoss::kFail || !end_.ok()) return;
  end_ = absl::FailedPreconditionError(absl::StrCat(ReplicaName(rank), " was lost at step ", StepOf(mark_),
                                                    ", and training may not go on without it"));
  // As session/monitored/exit_code.h reads it: started again, the job may go on.
  end_.SetPayload("exit code", absl::Cord("160"));
}

void ReplicaGroup::Leave(Identity identity, Leaving why) {
  Over over;
  {
    absl::MutexLock lock(&mutex_);
    if (why == Leaving::kClose) is_closed_ = true;
    if (Replica* const replica = Find(identity)) {
      if (why == Leaving::kStop) {
        NoteLoss(identity.rank, *replica);
        replica->has_stopped = true;
      } else {
        replica->state = State::kLeft;
        replica->end_step =
            std::max(StepOf(mark_), why == Leaving::kFinish ? replica->told_step : int64_t{0});
      }
    }
    const auto is_its_own = [identity](const Waiter& waiter) {
      return waiter.identity.rank == identity.rank && waiter.identity.life == identity.life;
    };
    if (why != Leaving::kFinish) {
      EndAll([&](const Waiter& waiter) { return is_its_own(waiter) && waiter.kind == Kind::kStay; }, Answer(),
             &over);
    }
    if (why == Leaving::kEnd || why == Leaving::kFinish) {
      EndAll([&](const Waiter& waiter) { return is_its_own(waiter) && waiter.kind == Kind::kContribute; },
             Answer{.mark = mark_, .gradients = {}}, &over);
    }
    EndAll([&](const Waiter& waiter) { return is_its_own(waiter) && waiter.kind != Kind::kStay; },
           HasStopped(identity), &over);
    if (why == Leaving::kFinish) RecallFinished(StepOf(mark_), &over);
    Serve(&over);
  }
  Finish(over);
}

absl::Status ReplicaGroup::Pause(int64_t rank) {
  absl::MutexLock lock(&mutex_);
  const auto found = replicas_.find(rank);
  if (found != replicas_.end()) found->second.is_paused = true;
  if (!is_being_applied_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("step ", StepOf(mark_), " of ", spec_.name, " is just being applied"));
}

void ReplicaGroup::Resume(int64_t rank) {
  Over over;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = replicas_.find(rank);
    if (found != replicas_.end()) found->second.is_paused = false;
    Serve(&over);
  }
  Finish(over);
}

// Runs on the cancelling thread, which may be cancelling other steps as well. It must not complete what waits
// in other steps: it would wait for their callbacks, and one of them perhaps for this one.
void ReplicaGroup::OnCancel(const WaiterRef& waiter, const absl::Status& reason) {
  bool others_wait = false;
  {
    absl::MutexLock lock(&mutex_);
    if (waiter->is_over) return;
    waiter->is_over = true;
    waiters_.remove(waiter);
    Replica* const replica = waiter->kind == Kind::kStay ? Find(waiter->identity) : nullptr;
    if (replica != nullptr) NoteLoss(waiter->identity.rank, *replica);
    others_wait = !waiters_.empty();
  }
  Threads* const threads = waiter->caller.threads;
  if (others_wait && threads != nullptr) {  // before `done`, after which the threads may be gone
    threads->At(absl::InfinitePast(), [self = RefPtr<ReplicaGroup>::Share(this)] { self->ServeAndFinish(); });
  }
  RefPtr<ReplicaGroup> self = RefPtr<ReplicaGroup>::Share(this);
  waiter->done(absl::CancelledError(absl::StrCat("waiting for other replicas ended: ", reason.message())));
  if (others_wait && threads == nullptr) self->ServeAndFinish();
}

void ReplicaGroup::ServeAndFinish() {
  Over over;
  {
    absl::MutexLock lock(&mutex_);
    Serve(&over);
  }
  Finish(over);
}

void ReplicaGroup::Finish(const Over& over) {
  for (const WaiterRef& waiter : over) {
    waiter->caller.cancellation.Remove(waiter->on_cancel);
    waiter->done(std::move(waiter->result));
  }
}

std::vector<std::string> ReplicaGroup::MissingReplicasOfElastic() const {
  std::vector<std::string> missing;
  int64_t num_there = 0;
  for (const auto& [rank, replica] : replicas_) {
    const bool has_contributed = contributed_.contains(rank);
    if ((replica.state != State::kPresent || !replica.takes_part) && !has_contributed) continue;
    ++num_there;
    if (has_contributed || missing.size() > kMaxShown) continue;
    missing.push_back(absl::StrCat(ReplicaName(rank), ", which has not given them yet"));
  }
  if (const int64_t num_more = NumRequired() - num_there; num_more > 0 && missing.size() <= kMaxShown) {
    const std::string refused = absl::StrJoin(Refused(), "; ");
    missing.push_back(absl::StrCat(num_more, " more, for there must be ", spec_.min_replicas, " workers",
                                   refused.empty() ? "" : absl::StrCat(" (", refused, ")")));
  }
  return missing;
}

void ReplicaGroup::NoteRefusal(int64_t rank, absl::string_view why) {
  absl::MutexLock lock(&mutex_);
  const auto replica = replicas_.find(rank);
  if (replica != replicas_.end() && replica->second.state == State::kPresent)
    return;  // another process is it
  if (refused_.size() >= kMaxRefused && !refused_.contains(rank)) return;
  refused_[rank] = absl::StrCat(why.substr(0, kMaxRefusalText), why.size() > kMaxRefusalText ? "..." : "");
}

std::string ReplicaGroup::RefusalOf(int64_t rank) const {
  const auto found = refused_.find(rank);
  const auto replica = replicas_.find(rank);
  // A word of the process before it may have come late.
  const bool has_come = replica != replicas_.end() && replica->second.state == State::kPresent;
  if (found == refused_.end() || has_come) return "";
  return absl::StrCat(ReplicaName(rank), ", which was refused: ", found->second);
}

std::vector<std::string> ReplicaGroup::Refused() const {
  std::vector<std::string> names;
  for (const auto& [rank, why] : refused_) {
    std::string name = RefusalOf(rank);
    if (!name.empty() && names.size() < kMaxShown) names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> ReplicaGroup::MissingReplicas() const {
  if (spec_.min_replicas > 0) return MissingReplicasOfElastic();
  std::vector<std::string> missing;
  // The chief is the first of the workers, or one of its own before them.
  const int64_t first = replicas_.contains(0) ? 0 : 1;
  for (int64_t rank = first; rank < first + spec_.num_replicas && missing.size() <= kMaxShown; ++rank) {
    if (contributed_.contains(rank)) continue;
    const auto found = replicas_.find(rank);
    if (found != replicas_.end() && found->second.state == State::kLeft) continue;
    const bool is_lost = found != replicas_.end() && found->second.state == State::kLost;
    if (is_lost && spec_.on_loss == OnLoss::kShrink) continue;
    if (std::string refusal = RefusalOf(rank); !refusal.empty()) {
      missing.push_back(std::move(refusal));
      continue;
    }
    missing.push_back(absl::StrCat(ReplicaName(rank), found == replicas_.end() ? ", which has never come"
                                                      : is_lost                ? ", which was lost"
                                                                : ", which has not given them yet"));
  }
  return missing;
}

ReplicaGroup::Awaited ReplicaGroup::FindAwaited() const {
  absl::MutexLock lock(&mutex_);
  if (mark_ == 0 && !is_closed_ && end_.ok()) {
    const std::string refused = RefusalOf(0);  // who begins
    return {.mark = 0,
            .text = refused.empty() ? ""
                                    : absl::StrCat("training has not begun: this group waits for ", refused)};
  }
  const bool somebody_waits = !contributed_.empty() || is_being_applied_;
  if (mark_ == 0 || is_closed_ || !end_.ok() || !somebody_waits) return {.mark = mark_, .text = ""};
  const int64_t num_left = NumRequired() - static_cast<int64_t>(contributed_.size());
  if (is_being_applied_ || num_left <= 0) {
    return {.mark = mark_,
            .text = absl::StrCat("step ", StepOf(mark_),
                                 " waits for the chief, which is to apply its gradients")};
  }
  std::vector<std::string> missing = MissingReplicas();
  const bool is_any = static_cast<int64_t>(missing.size()) > num_left;
  if (missing.size() > kMaxShown) missing.back() = "others";
  return {.mark = mark_,
          .text = absl::StrCat("step ", StepOf(mark_), " waits for the gradients of ",
                               is_any ? absl::StrCat(num_left, " of these: ") : "",
                               absl::StrJoin(missing, "; "))};
}

absl::Status ReplicaGroup::CheckIsA(const Spec& spec) const {
  const std::string numbers = NumbersOf(spec), its_numbers = NumbersOf(spec_);
  if (numbers != its_numbers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", spec_.name, "' of the running job is ", its_numbers, ", that of this task's graph is ", numbers,
        ": give all workers the same flags; where workers come and go, also set "
        "SyncReplicasOptions::min_replicas, and a replicas_to_aggregate that does not follow "
        "TaskConfig::num_workers()"));
  }
  const std::string gradients = GradientsOf(spec), its_gradients = GradientsOf(spec_);
  if (gradients == its_gradients) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", spec_.name, "' of the running job has the gradients ",
                                                 its_gradients, ", that of this task's graph has ", gradients,
                                                 ": all workers must build the same model"));
}

std::string ReplicaGroup::ToString() const {
  absl::MutexLock lock(&mutex_);
  return absl::StrCat("ReplicaGroup '", spec_.name, "' at step ", StepOf(mark_), ", ", contributed_.size(),
                      " have contributed");
}

}  // namespace weir
