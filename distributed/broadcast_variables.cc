#include "distributed/broadcast_variables.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
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
    return g.status();
  }

  absl::Status AfterCreateSession(Session& session, Coordinator& coordinator) override {
    // Each session but the first follows a loss: the others are to come here, too.
    if (std::exchange(has_begun_, true) || !group_.ranks()->status().ok()) {
      WEIR_RETURN_IF_ERROR(FormAnew(coordinator));
    }
    RankGroup& ranks = *group_.ranks();
    SetLostStepIsDone(false);
    if (ranks.size() == 1) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const int64_t own_step, ReadGlobalStep(session, global_step_));
    WEIR_ASSIGN_OR_RETURN(const Leader leader, FindLeader(own_step));
    WEIR_RETURN_IF_ERROR(CompareSchedules(ranks, environment_, CallFor(-1, "the graphs"), schedule_));
    if (leader.step != own_step) {
      PrintNotice(absl::StrCat(ranks.NameOf(ranks.rank()), " takes over the variables of ",
                               ranks.NameOf(leader.rank), ", from step ", own_step, " to ", leader.step));
    }
    // Nobody could have done it without this rank's gradients: this rank was in it, and its Run failed.
    const bool is_done = last_good_step_ >= 0 && leader.step == last_good_step_ + 1;
    WEIR_RETURN_IF_ERROR(leader.rank == ranks.rank() ? SendAll(session)
                                                     : ReceiveAll(session, leader.rank, is_done));
    ranks.ForgetTornUpdates();
    SetLostStepIsDone(is_done);
    last_good_step_ = leader.step;
    return absl::OkStatus();
  }

  bool HasDoneLostStep(bool) const override { return lost_step_is_done_; }
  bool OwnsVariables() const override { return true; }

  void OnTerminated() override { is_terminated_ = true; }
  absl::Status AfterEnd(Session&) override {
    // It may come again: the others wait for it.
    if (is_terminated_) return absl::OkStatus();
    const absl::Status status =
        group_.Finish(environment_.Now() + kLongestEnd, [] { return Termination::IsRequested(); });
    return absl::IsCancelled(status) ? absl::OkStatus() : status;
  }

  absl::Status AfterRun(RunContext& context, const RunValues&) override {
    if (group_.ranks()->size() == 1) return absl::OkStatus();  // nobody to compare its step with
    SetLostStepIsDone(false);
    WEIR_ASSIGN_OR_RETURN(last_good_step_, ReadGlobalStep(context.session(), global_step_));
    return absl::OkStatus();
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

  // The rank that has done the most steps; the lowest of several. Not one whose step was cancelled in the
  // middle of its updates.
  struct Leader {
    int rank = 0;
    int64_t step = 0;
  };
  absl::StatusOr<Leader> FindLeader(int64_t own_step) {
    RankGroup& group = *group_.ranks();
    const Tensor own =
        Tensor::Vector<int64_t>({own_step, num_devices_, static_cast<int64_t>(group.has_torn_updates())});
    WEIR_ASSIGN_OR_RETURN(const Tensor steps, Wait([&](Communicator& ranks, Communicator::Done done) {
                            ranks.AllGather(CallFor(0, "global_step"), own, std::move(done));
                          }));
    const absl::Span<const int64_t> all = steps.flat<int64_t>();
    if (static_cast<int>(all.size()) != 3 * group.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "each of ", group.size(), " ranks must say its step, how many devices it has, and whether its ",
          "variables are torn; ", all.size(), " numbers came"));
    }
    Leader leader = {-1, -1}, torn = leader;
    for (int rank = 0; rank < group.size(); ++rank) {
      const int64_t step = all[3 * rank], num_devices = all[3 * rank + 1];
      if (num_devices != num_devices_) {
        const absl::Status wrong = absl::InvalidArgumentError(
            absl::StrCat("all workers must have as many devices: ", group.NameOf(rank), " has ", num_devices,
                         ", ", group.NameOf(group.rank()), " has ", num_devices_));
        group.End(wrong);  // the others need not wait for this rank to come again
        return wrong;
      }
      Leader& one = all[3 * rank + 2] != 0 ? torn : leader;
      if (step > one.step) one = {rank, step};
    }
    if (torn.step <= leader.step) return leader;
    return absl::DataLossError(absl::StrCat(
        "a step of ", group.NameOf(torn.rank), " was cancelled in the middle of its updates after step ",
        torn.step, ", and no other rank has come as far: start again from a checkpoint"));
  }

  void SetLostStepIsDone(bool is_done) {
    lost_step_is_done_ = is_done;
    group_.ranks()->SetIsAlone(is_done);
  }

  absl::Status SendAll(Session& session) {
    std::vector<TensorRef> reads;
    for (const Copy& copy : copies_) reads.push_back(copy.variable.value);
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session.Run({}, reads));
    for (size_t i = 0; i < copies_.size(); ++i) {
      WEIR_RETURN_IF_ERROR(Exchange(i, group_.ranks()->rank(), values[i]).status());
    }
    WEIR_ASSIGN_OR_RETURN(const AppliedUpdates applied, AppliedUpdates::Decode(session.AppliedUpdates()));
    const LogicalStep oldest = steps_->Oldest();
    const std::string text =
        applied.Renumbered(oldest.writer, oldest.number, kAnyWriter, 0).Encode(UpdateLedger::kMaxMarks);
    Tensor bytes(DType::kUint8, Shape({static_cast<int64_t>(text.size())}));
    std::copy(text.begin(), text.end(), bytes.flat<uint8_t>().begin());
    return ExchangeApplied(group_.ranks()->rank(), bytes).status();
  }

  // `has_done_one`: the leader's oldest step comes after this rank's.
  absl::Status ReceiveAll(Session& session, int root, bool has_done_one) {
    Feeds feeds;
    std::vector<TargetRef> assigns;
    for (size_t i = 0; i < copies_.size(); ++i) {
      WEIR_ASSIGN_OR_RETURN(const Tensor value, Exchange(i, root, Tensor()));
      const ModelVariable& variable = copies_[i].variable;
      if (value.shape() != variable.shape) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the ranks have different models: variable '", variable.name, "' is ", variable.shape.ToString(),
            " here and ", value.shape().ToString(), " on ", group_.ranks()->NameOf(root)));
      }
      feeds.push_back({copies_[i].received, value});
      assigns.insert(assigns.end(), copies_[i].assigns.begin(), copies_[i].assigns.end());
    }
    WEIR_ASSIGN_OR_RETURN(const Tensor bytes, ExchangeApplied(root, Tensor()));
    const absl::Span<const uint8_t> text = bytes.flat<uint8_t>();
    WEIR_ASSIGN_OR_RETURN(const AppliedUpdates applied,
                          AppliedUpdates::Decode({reinterpret_cast<const char*>(text.data()), text.size()}));
    const LogicalStep oldest = steps_->Oldest();
    // What the lost step has applied to the values of before counts as not applied, and what it has applied
    // to the leader's as applied: else this rank would do once more what the leader leaves out.
    Session::RestoreProgress progress;
    return session.Restore(progress, [&]() -> absl::Status {
      WEIR_RETURN_IF_ERROR(session.Run(feeds, {}, assigns).status());
      if (oldest.writer == 0) return absl::OkStatus();
      const int64_t first = oldest.number + static_cast<int64_t>(has_done_one);
      progress.applied_updates =
          applied.Renumbered(kAnyWriter, 0, oldest.writer, first).Encode(UpdateLedger::kMaxMarks);
      return absl::OkStatus();
    });
  }

  absl::StatusOr<Tensor> Exchange(size_t i, int root, const Tensor& value) {
    const ModelVariable& variable = copies_[i].variable;
    return Broadcast(static_cast<int64_t>(i) + 1, variable.name, root, variable.dtype, value);
  }

  // What the leader's steps have applied that it may try again, counted from the oldest of them.
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
  int64_t last_good_step_ = -1;  // when this rank last knew where it was; -1: never
  absl::Time form_by_ = absl::InfiniteFuture();
  bool lost_step_is_done_ = false;
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
