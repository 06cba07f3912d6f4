#include "distributed/broadcast_variables.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "distributed/collectives/rank_group.h"
#include "distributed/collectives/schedule.h"
#include "graph/types/status_macros.h"
#include "kernels/notice.h"
#include "ops/mirrored_variables.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/executor/applied_updates.h"
#include "session/executor/update_ledger.h"
#include "session/monitored/global_step_output.h"
#include "session/monitored/logical_steps.h"
#include "session/monitored/termination.h"

namespace weir {
namespace {

// Not that of nodes.
constexpr int64_t kGroupKey = -1;
// Of steps on their way from the leader's numbers to those of another rank.
constexpr uint64_t kAnyWriter = 1;
// A save of rank 0 is waited for so long.
constexpr absl::Duration kLongestEnd = absl::Minutes(30);

// How many calls of its session a rank has done in which it has met the others. As long as no rank has joined
// (Horovod's Join), that is the same number on all of them but for calls that some have done and others not;
// a Join ends on all ranks at once, and the calls are counted anew.
struct CallsDone {
  static constexpr int64_t kNone = -1;

  int64_t num_joins = kNone;  // kNone: it has just started, and goes along with the others
  int64_t num_calls = 0;      // since the last join

  bool IsBefore(const CallsDone& other) const {
    return std::pair(num_joins, num_calls) < std::pair(other.num_joins, other.num_calls);
  }
};

// What a rank says of itself when the group is formed.
struct RankState {
  static constexpr int kNumNumbers = 8;

  int64_t step = 0;
  int64_t num_devices = 1;
  bool is_torn = false;  // a step was cancelled in the middle of its updates
  CallsDone done;
  bool is_in_call = false;
  bool is_joining = false;  // the others may have done more calls since
  int64_t num_trained = 0;  // calls, in all rounds, that its variables have

  Tensor ToTensor() const {
    return Tensor::Vector<int64_t>({step, num_devices, int64_t{is_torn}, done.num_joins, done.num_calls,
                                    int64_t{is_in_call}, int64_t{is_joining}, num_trained});
  }
  bool is_new() const { return done.num_joins == CallsDone::kNone; }
  static RankState From(absl::Span<const int64_t> numbers) {
    return {numbers[0],      numbers[1],      numbers[2] != 0, {numbers[3], numbers[4]},
            numbers[5] != 0, numbers[6] != 0, numbers[7]};
  }
};

// Where those are that have come farthest.
CallsDone MostCallsDone(absl::Span<const RankState> ranks) {
  CallsDone most;
  for (const RankState& rank : ranks) {
    CallsDone done = rank.done;
    if (rank.is_joining) done.num_calls = 0;
    if (most.IsBefore(done)) most = done;
  }
  return most;
}

// Whether the leader's variables, of a checkpoint, have the call that the rank is in: the leader has died
// after that call, before the others had its last parts. A Join it begins again: the leader may have trained
// on while it waited, and will.
bool IsContained(const RankState& rank, const RankState& leader) {
  return leader.is_new() && !rank.is_new() && rank.is_in_call && !rank.is_joining && rank.step < leader.step;
}
bool IsAnyContained(absl::Span<const RankState> ranks, const RankState& leader) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&leader](const RankState& rank) { return IsContained(rank, leader); });
}

// Whether a rank with torn variables has updates that the other one lacks. One that has just started may have
// none, where nobody counts steps.
bool HasDoneMore(const RankState& torn, const RankState& other) {
  const bool has_done_calls = CallsDone{0, 0}.IsBefore(torn.done);
  return torn.step > other.step || (torn.step == 0 && other.step == 0 && other.is_new() && has_done_calls);
}

// Whether others have done the call that the rank is in. They had what it put in, so they have done it as it
// would have, and are in the next one: that needs the rank again.
bool IsBehind(const RankState& rank, const CallsDone& most) {
  if (rank.is_new() || !rank.is_in_call) return false;
  return rank.is_joining ? rank.done.num_joins < most.num_joins : rank.done.IsBefore(most);
}

// Gives all ranks the state of one.
class BroadcastVariables final : public Hook {
 public:
  BroadcastVariables(CollectiveGroup& group, Environment& environment, absl::Duration timeout,
                     const RankDevices& devices)
      : group_(group),
        environment_(environment),
        timeout_(timeout),
        num_devices_(devices.num_devices),
        group_key_(devices.group_key) {}

  absl::string_view name() const override { return "BroadcastGlobalVariablesHook"; }
  void SetSteps(const LogicalSteps& steps) override { steps_ = &steps; }

  absl::Status Begin(GraphBuilder& g) override {
    known_ = group_.ranks()->progress();
    global_step_ = GlobalStep(g).value;
    const auto scope = g.NameScope("broadcast");
    for (const ModelVariable& variable : AllVariables(g)) {
      const auto beside = g.ColocationScope(variable.handle.node);
      Copy copy{variable, {}, {}};
      copy.received = Placeholder(g, variable.dtype, variable.shape);
      copy.assigns = {AssignVariableOp(g, variable.handle, copy.received)};
      for (const Output& mirrored : OtherCopies(g.graph(), variable.handle.name())) {
        const auto beside_copy = g.ColocationScope(mirrored.node);
        copy.assigns.push_back(AssignVariableOp(g, mirrored, copy.received));
      }
      copies_.push_back(copy);
    }
    schedule_ = ScheduleOf(g.graph(), group_key_);
    // They travel by their place among them.
    for (const Copy& copy : copies_) {
      schedule_.push_back(absl::StrCat("variable '", absl::CEscape(copy.variable.name), "', ",
                                       TypeString(copy.variable.dtype, copy.variable.shape)));
    }
    return g.status();
  }

  absl::Status AfterCreateSession(Session& session, Coordinator& coordinator) override {
    session_ = &session;
    is_joining_ |= group_.ranks()->progress().num_joins != known_.num_joins;
    // Each session but the first follows a loss: the others are to come here, too.
    if (std::exchange(has_begun_, true) || !group_.ranks()->status().ok()) {
      WEIR_RETURN_IF_ERROR(FormAnew(coordinator));
    }
    RankGroup& ranks = *group_.ranks();
    ranks.SetAlone(std::nullopt);
    if (ranks.size() == 1) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const int64_t own_step, ReadGlobalStep(session, global_step_));
    WEIR_ASSIGN_OR_RETURN(const std::vector<RankState> states, CompareStates(own_step));
    const CallsDone most = MostCallsDone(states);
    WEIR_ASSIGN_OR_RETURN(leader_, FindLeader(states));
    WEIR_RETURN_IF_ERROR(CompareSchedules(ranks, environment_, CallFor(-1, "the graphs"), schedule_));
    if (states[leader_].step != own_step) {
      PrintNotice(absl::StrCat(ranks.NameOf(ranks.rank()), " takes over the variables of ",
                               ranks.NameOf(leader_), ", from step ", own_step, " to ",
                               states[leader_].step));
    }
    const RankState& own = states[ranks.rank()];
    const bool is_behind = is_behind_ || IsBehind(own, most) || IsContained(own, states[leader_]);
    if (is_behind) {
      PrintNotice(absl::StrCat(ranks.NameOf(ranks.rank()), " leaves out its call, which others have done"));
    }
    WEIR_RETURN_IF_ERROR(leader_ == ranks.rank() ? SendAll(session, is_behind)
                                                 : ReceiveAll(session, is_behind));
    ranks.ForgetTornUpdates();
    others_ = most.num_joins == CallsDone::kNone ? CallsDone{0, 0} : most;
    // All count the call that the leader had done: it may die again before each of them has left it out.
    if (IsAnyContained(states, states[leader_])) ++others_.num_calls;
    num_trained_ = states[leader_].num_trained;
    is_behind_ = is_behind;
    if (!is_behind) done_ = others_;
    return absl::OkStatus();
  }

  // A call that others have done is not done again by this rank.
  bool HasDoneLostCall(bool) const override { return is_behind_; }
  bool OwnsVariables() const override { return true; }
  bool AreVariablesWhole() const override { return !group_.ranks()->has_torn_updates(); }

  // Alone only here: hooks that have met the others when the session was created have met all of them.
  void BeforeCall() override {
    is_in_call_ = true;
    known_ = group_.ranks()->progress();
    group_.ranks()->SetAlone(is_behind_ ? std::optional(leader_) : std::nullopt);
  }

  absl::Status AfterCall(bool is_done) override {
    is_in_call_ = is_joining_ = false;
    const RankGroup::Progress begun = std::exchange(known_, group_.ranks()->progress());
    const bool has_met_others = known_.num_collectives != begun.num_collectives;
    group_.ranks()->SetAlone(std::nullopt);
    if (std::exchange(is_behind_, false)) {
      done_ = others_;
    } else if (known_.num_joins != begun.num_joins) {
      done_ = {done_.num_joins + 1, 0};
    } else if (has_met_others) {
      // At the end of the input some ranks may have come to a collective, and others not.
      done_.num_calls += int64_t{is_done};
      num_trained_ += int64_t{is_done};
    } else if (!received_.empty()) {
      // A call of this rank alone, which has used the numbers of their steps.
      return SetApplied(*session_, steps_->Next(), [] { return absl::OkStatus(); });
    }
    if (has_met_others) received_ = AppliedUpdates();
    return absl::OkStatus();
  }

  void OnTerminated() override { is_terminated_ = true; }
  absl::Status AfterEnd(Session&) override {
    // It may come again: the others wait for it.
    if (is_terminated_) return absl::OkStatus();
    const absl::Status status =
        group_.Finish(environment_.Now() + kLongestEnd, [] { return Termination::IsRequested(); });
    return absl::IsCancelled(status) ? absl::OkStatus() : status;
  }

 private:
  struct Copy {
    ModelVariable variable;
    Output received;
    std::vector<Node*> assigns;
  };

  // Waits for the timeout in all, however often somebody is lost meanwhile. Its end is final: a session that
  // is made anew would wait again.
  absl::Status FormAnew(const Coordinator& coordinator) {
    form_by_ = std::min(form_by_, environment_.Now() + timeout_);
    const absl::Status formed = group_.Form(form_by_, [&coordinator] { return coordinator.should_stop(); });
    if (formed.ok()) form_by_ = absl::InfiniteFuture();
    return absl::IsDeadlineExceeded(formed) ? absl::CancelledError(formed.message()) : formed;
  }

  // Of all ranks, in their order.
  absl::StatusOr<std::vector<RankState>> CompareStates(int64_t own_step) {
    RankGroup& group = *group_.ranks();
    // Where this rank was behind, it has the variables of those that were not.
    const RankState own = {own_step,
                           num_devices_,
                           group.has_torn_updates(),
                           is_behind_ ? others_ : done_,
                           is_in_call_,
                           is_joining_ && !is_behind_,
                           num_trained_};
    WEIR_ASSIGN_OR_RETURN(const Tensor all, Wait([&](Communicator& ranks, Communicator::Done done) {
                            ranks.AllGather(CallFor(0, "global_step"), own.ToTensor(), std::move(done));
                          }));
    const absl::Span<const int64_t> numbers = all.flat<int64_t>();
    if (static_cast<int>(numbers.size()) != RankState::kNumNumbers * group.size()) {
      return absl::InvalidArgumentError(absl::StrCat("each of ", group.size(), " ranks must say ",
                                                     RankState::kNumNumbers, " numbers of its state; ",
                                                     numbers.size(), " came"));
    }
    std::vector<RankState> states;
    for (int rank = 0; rank < group.size(); ++rank) {
      states.push_back(RankState::From(numbers.subspan(RankState::kNumNumbers * rank)));
      if (states.back().num_devices == num_devices_) continue;
      const absl::Status wrong = absl::InvalidArgumentError(
          absl::StrCat("all workers must have as many devices: ", group.NameOf(rank), " has ",
                       states.back().num_devices, ", ", group.NameOf(group.rank()), " has ", num_devices_));
      group.End(wrong);  // the others need not wait for this rank to come again
      return wrong;
    }
    return states;
  }

  // The rank that has done the most steps. Of several one that was in the group before, for it has updates
  // that are not counted; of these one that has trained in the most calls, which is neither behind nor waits
  // in a Join; the lowest of these. Not one whose step was cancelled in the middle of its updates.
  absl::StatusOr<int> FindLeader(absl::Span<const RankState> states) const {
    int leader = -1, torn = -1;
    const auto place = [&](int rank) {
      const RankState& state = states[rank];
      return std::tuple(state.step, !state.is_new(), state.num_trained);
    };
    for (int rank = 0; rank < static_cast<int>(states.size()); ++rank) {
      int& best = states[rank].is_torn ? torn : leader;
      if (best < 0 || place(best) < place(rank)) best = rank;
    }
    if (torn < 0 || (leader >= 0 && !HasDoneMore(states[torn], states[leader]))) return leader;
    return absl::DataLossError(absl::StrCat(
        "a step of ", group_.ranks()->NameOf(torn), " was cancelled in the middle of its updates after step ",
        states[torn].step, ", and no other rank has come as far: start again from a checkpoint"));
  }

  absl::Status SendAll(Session& session, bool is_behind) {
    std::vector<TensorRef> reads;
    for (const Copy& copy : copies_) reads.push_back(copy.variable.value);
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run({}, reads));
    for (size_t i = 0; i < copies_.size(); ++i) {
      WEIR_RETURN_IF_ERROR(Exchange(i, group_.ranks()->rank(), values[i]).status());
    }
    WEIR_ASSIGN_OR_RETURN(const AppliedUpdates applied, AppliedUpdates::Decode(session.AppliedUpdates()));
    const LogicalStep first = FirstStep(is_behind);
    const std::string text =
        applied.Renumbered(first.writer, first.number, kAnyWriter, 0).Encode(UpdateLedger::kMaxMarks);
    Tensor bytes(DType::kUint8, Shape({static_cast<int64_t>(text.size())}));
    std::copy(text.begin(), text.end(), bytes.flat<uint8_t>().begin());
    return ExchangeApplied(group_.ranks()->rank(), bytes).status();
  }

  absl::Status ReceiveAll(Session& session, bool is_behind) {
    Feeds feeds;
    std::vector<TargetRef> assigns;
    for (size_t i = 0; i < copies_.size(); ++i) {
      WEIR_ASSIGN_OR_RETURN(const Tensor value, Exchange(i, leader_, Tensor()));
      const ModelVariable& variable = copies_[i].variable;
      if (value.shape() != variable.shape) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the ranks have different models: variable '", variable.name, "' is ", variable.shape.ToString(),
            " here and ", value.shape().ToString(), " on ", group_.ranks()->NameOf(leader_)));
      }
      feeds.push_back({copies_[i].received, value});
      assigns.insert(assigns.end(), copies_[i].assigns.begin(), copies_[i].assigns.end());
    }
    WEIR_ASSIGN_OR_RETURN(const Tensor bytes, ExchangeApplied(leader_, Tensor()));
    const absl::Span<const uint8_t> text = bytes.flat<uint8_t>();
    WEIR_ASSIGN_OR_RETURN(received_,
                          AppliedUpdates::Decode({reinterpret_cast<const char*>(text.data()), text.size()}));
    return SetApplied(session, FirstStep(is_behind),
                      [&] { return session.Run(feeds, {}, assigns).status(); });
  }

  // What the lost step has applied to the values of before counts as not applied, and what it has applied to
  // the leader's as applied, from `first` on: else this rank would do once more what the leader leaves out.
  absl::Status SetApplied(Session& session, const LogicalStep& first,
                          absl::FunctionRef<absl::Status()> set_variables) const {
    Session::RestoreProgress progress;
    return session.Restore(progress, [&]() -> absl::Status {
      WEIR_RETURN_IF_ERROR(set_variables());
      if (first.writer == 0) return absl::OkStatus();
      progress.applied_updates =
          received_.Renumbered(kAnyWriter, 0, first.writer, first.number).Encode(UpdateLedger::kMaxMarks);
      return absl::OkStatus();
    });
  }

  // Of the first call that all ranks do: a rank that is behind leaves out the one that it is in.
  LogicalStep FirstStep(bool is_behind) const { return is_behind ? steps_->Next() : steps_->Oldest(); }

  absl::StatusOr<Tensor> Exchange(size_t i, int root, const Tensor& value) {
    const ModelVariable& variable = copies_[i].variable;
    return Broadcast(static_cast<int64_t>(i) + 1, variable.name, root, variable.dtype, value);
  }

  // What the leader's steps have applied that it may try again, counted from the first step that all do.
  absl::StatusOr<Tensor> ExchangeApplied(int root, const Tensor& bytes) {
    const auto instance = static_cast<int64_t>(copies_.size()) + 1;
    return Broadcast(instance, "what has been applied", root, DType::kUint8, bytes);
  }

  absl::StatusOr<Tensor> Broadcast(int64_t instance, const std::string& name, int root, DType dtype,
                                   const Tensor& value) {
    return Wait([&](Communicator& ranks, Communicator::Done done) {
      ranks.Broadcast(CallFor(instance, name), root, dtype, value, std::move(done));
    });
  }

  static Communicator::Call CallFor(int64_t instance, const std::string& name) {
    return {.name = absl::StrCat("broadcast of ", name), .key = {kGroupKey, instance}};
  }

  // A collective outside of a step. It ends when the group does.
  absl::StatusOr<Tensor> Wait(absl::FunctionRef<void(Communicator& ranks, Communicator::Done done)> begin) {
    return AwaitCollective(environment_,
                           [&](Communicator::Done done) { begin(*group_.ranks(), std::move(done)); });
  }

  CollectiveGroup& group_;
  Environment& environment_;
  const absl::Duration timeout_;
  const int64_t num_devices_;
  const int64_t group_key_;  // of all ranks' devices
  const LogicalSteps* steps_ = nullptr;
  Output global_step_;
  std::vector<Copy> copies_;
  std::vector<std::string> schedule_;
  bool has_begun_ = false;
  bool is_terminated_ = false;
  absl::Time form_by_ = absl::InfiniteFuture();
  Session* session_ = nullptr;
  int leader_ = 0;           // whose variables all have
  CallsDone done_;           // by this rank
  CallsDone others_;         // by those that had come farthest when the group was formed
  int64_t num_trained_ = 0;  // calls that the variables have
  bool is_in_call_ = false;
  bool is_joining_ = false;    // a Join of the call that is under way has begun
  bool is_behind_ = false;     // of others_: the call that is under way is not done again
  RankGroup::Progress known_;  // when the attempt of the call began
  AppliedUpdates received_;    // by the leader, of the call that all do next
};

}  // namespace

absl::Status FormReplicas(Server& server, absl::Duration timeout) {
  const TaskConfig& task = server.task();
  if (server.replicas() == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        task.task().ToString(), " is no replica of a model: ",
        task.is_evaluator() ? "it evaluates"
                            : "its cluster has parameter servers, which hold the variables (start it without "
                              "them, --ps=0)"));
  }
  return server.replicas()->Form(server.runtime().environment().Now() + timeout);
}

HookPtr BroadcastVariablesHook(CollectiveGroup& group, Environment& environment, absl::Duration timeout,
                               const RankDevices& devices) {
  return std::make_shared<BroadcastVariables>(group, environment, timeout, devices);
}

}  // namespace weir
