#include "kernels/cpu/data_flow/replica_group.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Answer = absl::StatusOr<ReplicaGroup::Answer>;
using Leaving = ReplicaGroup::Leaving;
using OnLoss = ReplicaGroup::OnLoss;

// An operation that was started; `answer` is set when it has ended.
struct Call {
  Cancellation cancellation;
  std::optional<Answer> answer;

  bool is_over() const { return answer.has_value(); }
  int64_t mark() const { return answer.value().value().mark; }
  int64_t step() const { return ReplicaGroup::StepOf(mark()); }
  absl::StatusCode code() const { return answer.value().status().code(); }
};
using CallRef = std::shared_ptr<Call>;

class ReplicaGroupTest : public testing::Test {
 protected:
  void Make(int64_t num_replicas, int64_t replicas_to_aggregate, OnLoss on_loss = OnLoss::kShrink,
            GradientSum::Order order = GradientSum::Order::kByRank, int64_t min_replicas = 0) {
    group_ = RefPtr<ReplicaGroup>(new ReplicaGroup(
        {.name = "group",
         .gradients = {{.dtype = DType::kFloat32, .shape = PartialShape({1}), .order = order}},
         .num_replicas = num_replicas,
         .replicas_to_aggregate = replicas_to_aggregate,
         .on_loss = on_loss,
         .min_replicas = min_replicas}));
  }
  void MakeElastic(int64_t min_replicas, int64_t max_replicas) {
    Make(max_replicas, max_replicas, OnLoss::kShrink, GradientSum::Order::kByRank, min_replicas);
  }
  // Whoever still waits holds itself.
  ~ReplicaGroupTest() override {
    for (const std::weak_ptr<Call>& known : calls_) {
      if (const CallRef call = known.lock())
        call->cancellation.Cancel(absl::CancelledError("the test is over"));
    }
  }

  CallRef MakeCall() {
    auto call = std::make_shared<Call>();
    calls_.push_back(call);
    return call;
  }
  template <typename F>
  CallRef Start(F start) {
    const CallRef call = MakeCall();
    start(ReplicaGroup::Caller{call->cancellation, HostAllocator(), pool_},
          [call](Answer answer) { call->answer = std::move(answer); });
    return call;
  }
  // Notes what the replica is told.
  template <typename F>
  CallRef StartOf(int64_t rank, F start) {
    const CallRef call = MakeCall();
    start(ReplicaGroup::Caller{call->cancellation, HostAllocator(), pool_},
          [this, rank, call](Answer answer) {
            if (answer.ok()) told_[rank] = answer->mark;
            call->answer = std::move(answer);
          });
    return call;
  }
  CallRef Stay(int64_t rank, int64_t life = 1) {
    return Start([&](const auto& caller, auto done) { group_->Stay(caller, {rank, life}, done); });
  }
  CallRef Join(int64_t rank, int64_t life = 1) {
    return StartOf(rank, [&](const auto& caller, auto done) { group_->Join(caller, {rank, life}, done); });
  }
  CallRef Contribute(int64_t rank, float gradient, int64_t life = 1) {
    return StartOf(rank, [&](const auto& caller, auto done) {
      group_->Contribute(caller, {rank, life, told_[rank]}, {{Tensor::Vector<float>({gradient}), {}}}, done);
    });
  }
  // The next update, or that one again.
  CallRef Aggregate() { return Aggregate(++num_updates_); }
  CallRef Aggregate(int64_t update) {
    return Start([&](const auto& caller, auto done) { group_->Aggregate(caller, {0, 1}, update, done); });
  }
  static float MeanOf(const CallRef& call) {
    return call->answer.value().value().gradients.at(0).values.flat<float>()[0];
  }
  // Begins with that many replicas that have joined.
  std::vector<CallRef> Begin(int64_t count, int64_t step = 0) {
    group_->Reset(1, step);
    std::vector<CallRef> stays;
    for (int64_t rank = 0; rank < count; ++rank) {
      stays.push_back(Stay(rank));
      EXPECT_EQ(Join(rank)->step(), step);
    }
    return stays;
  }

  std::vector<std::weak_ptr<Call>> calls_;
  ThreadPool pool_{1};
  RefPtr<ReplicaGroup> group_;
  std::map<int64_t, int64_t> told_;  // marks, by rank
  int64_t num_updates_ = 0;
};

TEST_F(ReplicaGroupTest, ItSaysWhomTheStepWaitsFor) {
  Make(4, 4, OnLoss::kWait);
  EXPECT_EQ(group_->FindAwaited().text, "") << "nobody has begun";
  group_->Reset(1, 10);
  std::vector<CallRef> stays;
  for (const int64_t rank : {1, 2, 3}) {
    stays.push_back(Stay(rank));
    Join(rank);
  }
  EXPECT_EQ(group_->FindAwaited().text, "") << "nobody waits";
  const CallRef aggregate = Aggregate();
  Contribute(1, 1);
  stays[1]->cancellation.Cancel(absl::CancelledError("killed"));
  EXPECT_EQ(group_->FindAwaited().text,
            "step 10 waits for the gradients of worker 1, which was lost; worker 2, which has not given them "
            "yet; worker 3, which has never come");
  EXPECT_EQ(ReplicaGroup::StepOf(group_->FindAwaited().mark), 10);
}

// It ends, and does not come by itself: whoever waits shall not have to look for its output.
TEST_F(ReplicaGroupTest, ItSaysWhoWasRefusedAndWhy) {
  Make(4, 4, OnLoss::kWait);
  const std::vector<CallRef> stays = Begin(3, 10);
  const CallRef aggregate = Aggregate();
  Contribute(0, 1);
  stays[1]->cancellation.Cancel(absl::CancelledError("killed"));
  group_->NoteRefusal(1, "it has other flags");
  group_->NoteRefusal(3, "it has another model");
  EXPECT_EQ(group_->FindAwaited().text,
            "step 10 waits for the gradients of worker 0, which was refused: it has other flags; worker 1, "
            "which has not given them yet; worker 2, which was refused: it has another model");
  const CallRef stay = Stay(3);
  EXPECT_THAT(group_->FindAwaited().text, HasSubstr("; worker 2, which has not given them yet"))
      << "it has come after all";
  group_->NoteRefusal(3, "another process of that name has other flags");
  EXPECT_THAT(group_->FindAwaited().text, HasSubstr("; worker 2, which has not given them yet"));
  group_->NoteRefusal(1, std::string(5000, 'x'));
  EXPECT_THAT(group_->FindAwaited().text, HasSubstr("xxx...; worker 1"));
  EXPECT_LT(group_->FindAwaited().text.size(), 1000);
}

TEST_F(ReplicaGroupTest, AnElasticGroupSaysWhoWasRefused) {
  MakeElastic(3, 4);
  const std::vector<CallRef> stays = Begin(2, 10);
  const CallRef aggregate = Aggregate();
  Contribute(0, 1);
  Contribute(1, 1);
  group_->NoteRefusal(2, "it has other flags");
  EXPECT_EQ(group_->FindAwaited().text,
            "step 10 waits for the gradients of 1 more, for there must be 3 workers (worker 1, which was "
            "refused: it has other flags)");
}

// Which made the group, with other numbers than those of the chief.
TEST_F(ReplicaGroupTest, OthersHearThatTheChiefWasRefused) {
  Make(2, 2);
  const CallRef stay = Stay(2);
  group_->NoteRefusal(1, "it has other flags");
  EXPECT_EQ(group_->FindAwaited().text, "") << "nobody waits for a worker yet";
  group_->NoteRefusal(0, "it has other flags");
  EXPECT_EQ(group_->FindAwaited().text,
            "training has not begun: this group waits for the chief, which was refused: it has other flags");
  group_->Reset(1, 0);
  EXPECT_EQ(group_->FindAwaited().text, "");
}

TEST_F(ReplicaGroupTest, OfRefusedRanksSomeAreKept) {
  MakeElastic(3, 4);
  const std::vector<CallRef> stays = Begin(2, 10);
  const CallRef aggregate = Aggregate();
  Contribute(0, 1);
  for (int64_t rank = 100000; rank > 2; --rank) group_->NoteRefusal(rank, "it has other flags");
  EXPECT_THAT(group_->FindAwaited().text, AllOf(HasSubstr("worker 99936,"), Not(HasSubstr("worker 99935,"))));
}

// Its driver's next step was on its way when the chief stopped: nobody would end that one.
TEST_F(ReplicaGroupTest, ADriverThatComesAfterItsReplicaHasStoppedDoesNotWait) {
  for (const Leaving why : {Leaving::kStop, Leaving::kEnd}) {
    Make(2, 2, OnLoss::kWait);
    const std::vector<CallRef> stays = Begin(2);
    group_->Leave({0, 1}, why);
    const CallRef late = Aggregate();
    ASSERT_TRUE(late->is_over());
    EXPECT_EQ(late->code(), absl::StatusCode::kAborted);
    group_->Leave({0, 1}, Leaving::kClose);
    EXPECT_EQ(Aggregate()->code(), absl::StatusCode::kOutOfRange) << "training is over";
  }
}

TEST_F(ReplicaGroupTest, ItSaysWhenTheChiefIsAwaited) {
  Make(2, 1);
  std::vector<CallRef> stays = Begin(2, 5);
  Contribute(1, 1);
  EXPECT_EQ(group_->FindAwaited().text, "step 5 waits for the chief, which is to apply its gradients");
  group_->Leave({0, 1}, Leaving::kClose);
  EXPECT_EQ(group_->FindAwaited().text, "");
}

TEST_F(ReplicaGroupTest, OfBackupWorkersAnyIsAwaited) {
  Make(3, 2);
  std::vector<CallRef> stays = Begin(3, 5);
  Contribute(0, 1);
  EXPECT_EQ(group_->FindAwaited().text,
            "step 5 waits for the gradients of 1 of these: worker 0, which has not given them yet; worker 1, "
            "which has not given them yet");
}

TEST_F(ReplicaGroupTest, AStepEndsForAllWhenAllHaveContributed) {
  Make(3, 3);
  Begin(3, 10);
  const CallRef aggregate = Aggregate(), a = Contribute(0, 1), b = Contribute(1, 2);
  EXPECT_FALSE(aggregate->is_over());
  const CallRef c = Contribute(2, 6);
  ASSERT_TRUE(aggregate->is_over());
  EXPECT_EQ(MeanOf(aggregate), 3);
  EXPECT_FALSE(a->is_over() || b->is_over() || c->is_over()) << "before the update";
  ASSERT_TRUE(group_->Release(aggregate->mark()).ok());
  EXPECT_EQ(a->step(), 11);
  EXPECT_EQ(c->step(), 11);
}

TEST_F(ReplicaGroupTest, TheFirstCountAndBackupsAreDropped) {
  Make(3, 2);
  Begin(3);
  const CallRef aggregate = Aggregate(), a = Contribute(0, 1), b = Contribute(1, 3);
  EXPECT_EQ(MeanOf(aggregate), 2);
  const CallRef late = Contribute(2, 100);
  EXPECT_FALSE(late->is_over()) << "what it would read now is half updated";
  ASSERT_TRUE(group_->Release(aggregate->mark()).ok());
  EXPECT_EQ(late->step(), 1);
  // It goes on with the step that it was told of; one that is a whole step behind is told at once.
  const CallRef second = Aggregate();
  Contribute(2, 5), Contribute(1, 7);
  EXPECT_EQ(MeanOf(second), 6);
  ASSERT_TRUE(group_->Release(second->mark()).ok());
  const CallRef stale = Contribute(0, 100);
  ASSERT_TRUE(stale->is_over());
  EXPECT_EQ(stale->step(), 2);
  const CallRef third = Aggregate();
  Contribute(0, 1), Contribute(1, 1);
  EXPECT_EQ(MeanOf(third), 1);
}

TEST_F(ReplicaGroupTest, AReplicaThatLeavesIsNotWaitedFor) {
  for (const OnLoss on_loss : {OnLoss::kShrink, OnLoss::kWait, OnLoss::kFail}) {
    Make(3, 3, on_loss);
    const auto stays = Begin(3);
    const CallRef aggregate = Aggregate(), a = Contribute(0, 1), b = Contribute(1, 3);
    group_->Leave({2, 1}, Leaving::kEnd);
    EXPECT_TRUE(stays[2]->answer.value().ok());
    ASSERT_TRUE(aggregate->is_over());
    EXPECT_EQ(MeanOf(aggregate), 2);
  }
}

TEST_F(ReplicaGroupTest, OthersGoOnWithoutALostReplica) {
  Make(3, 3, OnLoss::kShrink);
  const auto stays = Begin(3);
  const CallRef aggregate = Aggregate();
  Contribute(0, 1), Contribute(1, 3);
  stays[2]->cancellation.Cancel(absl::UnavailableError("killed"));
  ASSERT_TRUE(aggregate->is_over());
  EXPECT_EQ(MeanOf(aggregate), 2);
}

TEST_F(ReplicaGroupTest, WhatALostReplicaHasContributedCounts) {
  Make(3, 3, OnLoss::kShrink);
  const auto stays = Begin(3);
  const CallRef aggregate = Aggregate(), lost = Contribute(2, 6);
  lost->cancellation.Cancel(absl::UnavailableError("killed"));
  stays[2]->cancellation.Cancel(absl::UnavailableError("killed"));
  Contribute(0, 1);
  EXPECT_FALSE(aggregate->is_over()) << "worker 0 is alive, and its gradient counts";
  Contribute(1, 2);
  EXPECT_EQ(MeanOf(aggregate), 3);
}

TEST_F(ReplicaGroupTest, AReplicaThatComesAgainIsWaitedFor) {
  Make(2, 2, OnLoss::kWait);
  const auto stays = Begin(2);
  const CallRef aggregate = Aggregate(), waiting = Contribute(0, 1);
  stays[1]->cancellation.Cancel(absl::UnavailableError("killed"));
  EXPECT_FALSE(aggregate->is_over());
  const CallRef join = Join(1, 2);
  EXPECT_FALSE(join->is_over()) << "it has to stay first";
  Stay(1, 2);
  EXPECT_EQ(join->step(), 0);
  EXPECT_EQ(Contribute(1, 50, 1)->code(), absl::StatusCode::kAborted) << "the life before";
  Contribute(1, 3, 2);
  EXPECT_EQ(MeanOf(aggregate), 2);
}

TEST_F(ReplicaGroupTest, AnElasticGroupIsOfThoseWhoAreThere) {
  MakeElastic(1, 8);
  Begin(1);
  CallRef chief = Contribute(0, 10);
  CallRef update = Aggregate();
  ASSERT_TRUE(update->is_over()) << "nobody else has come";
  // A worker comes while the step is applied. Nobody waits for it before it has contributed.
  const CallRef stay = Stay(4);
  CallRef join = Join(4);
  ASSERT_TRUE(group_->Release(update->mark()).ok());
  ASSERT_EQ(chief->step(), 1);
  ASSERT_TRUE(Contribute(4, 0)->is_over()) << "of the step before";
  chief = Contribute(0, 10);
  update = Aggregate();
  EXPECT_FALSE(update->is_over()) << "the worker is there";
  EXPECT_EQ(group_->FindAwaited().text,
            "step 1 waits for the gradients of worker 3, which has not given them yet");
  CallRef worker = Contribute(4, 20);
  ASSERT_TRUE(update->is_over());
  EXPECT_EQ(MeanOf(update), 15);
  ASSERT_TRUE(group_->Release(update->mark()).ok());
  // It is lost: the others go on at once.
  chief = Contribute(0, 10);
  update = Aggregate();
  EXPECT_FALSE(update->is_over());
  stay->cancellation.Cancel(absl::UnavailableError("gone"));
  ASSERT_TRUE(update->is_over());
  EXPECT_EQ(MeanOf(update), 10);
  ASSERT_TRUE(group_->Release(update->mark()).ok());
  // It comes again, in another life, and loads its data.
  const CallRef next_stay = Stay(4, 2);
  join = Join(4, 2);
  ASSERT_TRUE(join->is_over());
  chief = Contribute(0, 10);
  update = Aggregate();
  ASSERT_TRUE(update->is_over()) << "it does not take part yet";
  EXPECT_EQ(MeanOf(update), 10);
  ASSERT_TRUE(group_->Release(update->mark()).ok());
  worker = Contribute(4, 20, 2);
  ASSERT_TRUE(worker->is_over()) << "it was told of the step before";
  chief = Contribute(0, 10);
  update = Aggregate();
  EXPECT_FALSE(update->is_over()) << "now it takes part";
  worker = Contribute(4, 30, 2);
  ASSERT_TRUE(update->is_over());
  EXPECT_EQ(MeanOf(update), 20);
}

TEST_F(ReplicaGroupTest, AnElasticGroupWaitsForTheFewestThatItNeedsButNotAtTheEnd) {
  MakeElastic(2, 3);
  Begin(1);
  CallRef chief = Contribute(0, 10);
  CallRef update = Aggregate();
  EXPECT_FALSE(update->is_over());
  EXPECT_EQ(group_->FindAwaited().text,
            "step 0 waits for the gradients of 1 more, for there must be 2 workers");
  const CallRef stay = Stay(1);
  Join(1);
  Contribute(1, 20);
  ASSERT_TRUE(update->is_over());
  EXPECT_EQ(MeanOf(update), 15);
  ASSERT_TRUE(group_->Release(update->mark()).ok());
  group_->Leave({1, 1}, Leaving::kFinish);
  Contribute(0, 30);
  update = Aggregate();
  ASSERT_TRUE(update->is_over()) << "the worker has come to its end";
  EXPECT_EQ(MeanOf(update), 30);
}

TEST_F(ReplicaGroupTest, AnElasticGroupThatGoesOnNeedsItsFewestAgainWhenOthersCome) {
  MakeElastic(2, 3);
  Begin(2);
  Contribute(0, 10), Contribute(1, 20);
  CallRef update = Aggregate();
  ASSERT_TRUE(group_->Release(update->mark()).ok());
  group_->Leave({1, 1}, Leaving::kEnd);
  Contribute(0, 10);
  update = Aggregate();
  ASSERT_TRUE(update->is_over()) << "worker 0 is at its end";
  ASSERT_TRUE(group_->Release(update->mark()).ok());
  const CallRef stay = Stay(2);
  Join(2);
  Contribute(0, 10);
  update = Aggregate();
  EXPECT_FALSE(update->is_over()) << "there must be two again";
  stay->cancellation.Cancel(absl::UnavailableError("gone"));
  EXPECT_FALSE(update->is_over());
  Stay(3), Join(3);
  Contribute(3, 30);
  ASSERT_TRUE(update->is_over());
  EXPECT_EQ(MeanOf(update), 20);
}

TEST_F(ReplicaGroupTest, OfAnElasticGroupTheFirstCountWhenThereAreMoreThanItTakes) {
  MakeElastic(1, 2);
  Begin(3);
  Contribute(2, 10);
  Contribute(1, 20);
  CallRef update = Aggregate();
  ASSERT_TRUE(update->is_over());
  EXPECT_EQ(MeanOf(update), 15);
}

TEST_F(ReplicaGroupTest, ARankCountsOnceInAStep) {
  Make(2, 2, OnLoss::kWait);
  const auto stays = Begin(2);
  const CallRef aggregate = Aggregate();
  Contribute(1, 3);
  stays[1]->cancellation.Cancel(absl::UnavailableError("killed"));
  Stay(1, 2), Join(1, 2);
  const CallRef again = Contribute(1, 3, 2);
  EXPECT_FALSE(aggregate->is_over() || again->is_over());
  Contribute(0, 1);
  EXPECT_EQ(MeanOf(aggregate), 2);
  ASSERT_TRUE(group_->Release(aggregate->mark()).ok());
  EXPECT_EQ(again->step(), 1);
}

TEST_F(ReplicaGroupTest, ALossCanEndTrainingForAll) {
  Make(2, 2, OnLoss::kFail);
  const auto stays = Begin(2);
  const CallRef aggregate = Aggregate(), waiting = Contribute(0, 1);
  stays[1]->cancellation.Cancel(absl::UnavailableError("killed"));
  EXPECT_EQ(aggregate->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(waiting->answer->status().message()), HasSubstr("worker 0 was lost at step 0"));
  EXPECT_FALSE(Contribute(0, 1)->answer.value().ok());
}

// A launcher starts all of them again, and the chief need not be the first to come.
TEST_F(ReplicaGroupTest, WhoeverIsStartedAgainAfterALossWaitsForTheChief) {
  Make(2, 2, OnLoss::kFail);
  const auto stays = Begin(2, 20);
  const CallRef contributed = Contribute(0, 1);
  stays[1]->cancellation.Cancel(absl::UnavailableError("killed"));
  EXPECT_EQ(contributed->code(), absl::StatusCode::kFailedPrecondition);
  const CallRef stay = Stay(1, 2), joins = Join(1, 2);
  EXPECT_FALSE(stay->is_over() || joins->is_over());
  EXPECT_EQ(Join(0)->code(), absl::StatusCode::kFailedPrecondition) << "it has seen that training";
  group_->Reset(2, 10);
  EXPECT_EQ(joins->step(), 10);
}

TEST_F(ReplicaGroupTest, AResetDropsWhatIsThereAndTellsThoseWhoWait) {
  Make(2, 2);
  Begin(2, 40);
  const CallRef aggregate = Aggregate(), waiting = Contribute(0, 1000);
  group_->Reset(2, 30);  // the chief has restored
  EXPECT_EQ(aggregate->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(waiting->step(), 30);
  const CallRef computing = Contribute(1, 1000);  // of values from before
  EXPECT_EQ(computing->step(), 30);
  const CallRef next = Aggregate();
  Contribute(0, 1), Contribute(1, 3);
  EXPECT_EQ(MeanOf(next), 2);
}

TEST_F(ReplicaGroupTest, AnUpdateFromBeforeAResetReleasesNothing) {
  Make(1, 1);
  Begin(1);
  const CallRef aggregate = Aggregate();
  Contribute(0, 1);
  const int64_t mark = aggregate->mark();
  group_->Reset(2, 0);
  EXPECT_EQ(group_->Release(mark).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(group_->Release(Join(0)->mark()).code(), absl::StatusCode::kAborted) << "nothing was aggregated";
}

// The driver has lost contact, and does not know how far it came.
TEST_F(ReplicaGroupTest, AnUpdateThatIsTriedAgainGetsTheSameMeans) {
  Make(2, 2);
  Begin(2);
  const CallRef lost = Aggregate(1), a = Contribute(0, 1), b = Contribute(1, 3);
  EXPECT_EQ(MeanOf(lost), 2);
  const CallRef again = Aggregate(1);
  EXPECT_EQ(MeanOf(again), 2);
  EXPECT_EQ(again->mark(), lost->mark());
  ASSERT_TRUE(group_->Release(again->mark()).ok());
  EXPECT_EQ(a->step(), 1);
  // The release was done, but its answer was lost.
  EXPECT_EQ(MeanOf(Aggregate(1)), 2);
  EXPECT_TRUE(group_->Release(lost->mark()).ok());
  EXPECT_EQ(Join(0)->step(), 1);
  const CallRef next = Aggregate(2);
  EXPECT_FALSE(next->is_over());
  Contribute(0, 5), Contribute(1, 7);
  EXPECT_EQ(MeanOf(next), 6);
  group_->Reset(2, 1);
  EXPECT_FALSE(Aggregate(2)->is_over()) << "those means are of other variables";
}

TEST_F(ReplicaGroupTest, TheEndOfTheChiefIsTheEndForAll) {
  Make(2, 2);
  const auto stays = Begin(2);
  const CallRef waiting = Contribute(1, 1), aggregate = Aggregate();
  group_->Leave({0, 1}, Leaving::kClose);
  EXPECT_EQ(waiting->step(), 0) << "it was dropped";
  EXPECT_TRUE(stays[1]->answer.value().ok());
  EXPECT_EQ(aggregate->code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(Contribute(1, 1)->is_over());
  EXPECT_EQ(Join(1)->code(), absl::StatusCode::kOutOfRange);
  group_->Reset(2, 5);  // it has begun again
  EXPECT_EQ(Join(1)->step(), 5);
}

TEST_F(ReplicaGroupTest, AReplicaThatHasFinishedStaysUntilTheChiefHasEnded) {
  Make(2, 2);
  const auto stays = Begin(2, 40);
  const CallRef waiting = Contribute(1, 1);
  group_->Leave({1, 1}, Leaving::kFinish);
  EXPECT_EQ(waiting->step(), 40);
  EXPECT_EQ(Contribute(1, 1)->step(), 40) << "it is dropped";
  EXPECT_FALSE(stays[1]->is_over());
  const CallRef aggregate = Aggregate();
  Contribute(0, 1);
  EXPECT_TRUE(aggregate->is_over()) << "nobody waits for it";
  group_->Leave({0, 1}, Leaving::kClose);
  EXPECT_TRUE(stays[1]->answer.value().ok());
}

TEST_F(ReplicaGroupTest, AChiefThatBeginsAtAnEarlierStepRecallsWhoHasFinished) {
  Make(3, 3, OnLoss::kWait);
  const auto stays = Begin(3, 40);
  group_->Leave({1, 1}, Leaving::kFinish);
  group_->Leave({2, 1}, Leaving::kFinish);
  stays[2]->cancellation.Cancel(absl::UnavailableError("killed"));
  Stay(0, 2);
  group_->Reset(2, 40);
  EXPECT_FALSE(stays[1]->is_over()) << "no step of it is lost";
  group_->Reset(3, 30);
  EXPECT_EQ(stays[1]->code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(stays[1]->answer->status().message()), HasSubstr("begins again at step 30"));
  const CallRef aggregate = Aggregate();
  Join(0, 2);
  Contribute(0, 1, 2);
  EXPECT_FALSE(aggregate->is_over()) << "worker 0 and worker 1 are waited for";
  for (const int rank : {1, 2}) {
    Stay(rank, 2), Join(rank, 2);
    Contribute(rank, 1, 2);
  }
  EXPECT_EQ(MeanOf(aggregate), 1);
}

// It has read the last step before the chief was lost, and says so when the next one has begun.
TEST_F(ReplicaGroupTest, AChiefThatBeginsAtAnEarlierStepRecallsWhoFinishesAfterThat) {
  Make(3, 3, OnLoss::kWait);
  const auto stays = Begin(3, 40);
  Stay(0, 2);
  group_->Reset(2, 40);
  group_->Leave({2, 1}, Leaving::kFinish);
  EXPECT_FALSE(stays[2]->is_over()) << "no step of it is lost";
  group_->Reset(3, 30);
  group_->Leave({1, 1}, Leaving::kFinish);
  EXPECT_EQ(stays[1]->code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(stays[1]->answer->status().message()), HasSubstr("begins again at step 30"));
  const CallRef aggregate = Aggregate();
  Join(0, 2);
  Contribute(0, 1, 2);
  EXPECT_FALSE(aggregate->is_over()) << "worker 0 and worker 1 are waited for";
  // One that has heard of the step does its steps, and finishes after them.
  const CallRef stay = Stay(1, 2);
  Join(1, 2);
  group_->Leave({1, 2}, Leaving::kFinish);
  EXPECT_FALSE(stay->is_over());
}

TEST_F(ReplicaGroupTest, AReplicaThatStopsWaitsNoMore) {
  Make(2, 2, OnLoss::kWait);
  const auto stays = Begin(2);
  const CallRef waiting = Contribute(1, 1);
  group_->Leave({1, 1}, Leaving::kStop);
  EXPECT_TRUE(stays[1]->is_over());
  EXPECT_EQ(waiting->code(), absl::StatusCode::kOutOfRange);
  const CallRef aggregate = Aggregate();
  Contribute(0, 1);
  EXPECT_TRUE(aggregate->is_over()) << "what it has contributed counts";
}

// SIGTERM comes while it computes: what it has done is saved, and no session is made anew.
TEST_F(ReplicaGroupTest, WhatAReplicaGivesAfterItHasStoppedEndsIt) {
  for (const OnLoss on_loss : {OnLoss::kShrink, OnLoss::kWait, OnLoss::kFail}) {
    Make(2, 2, on_loss);
    const auto stays = Begin(2);
    stays[0]->cancellation.Cancel(absl::CancelledError("stopped"));
    group_->Leave({0, 1}, Leaving::kStop);
    EXPECT_EQ(Contribute(0, 1)->code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(Contribute(0, 1, 2)->code(), absl::StatusCode::kAborted) << "another life";
    Stay(0, 2);
    EXPECT_FALSE(Contribute(0, 1, 2)->answer.value_or(Answer()).status().code() ==
                 absl::StatusCode::kOutOfRange)
        << "it has not stopped";
    EXPECT_EQ(Contribute(0, 1)->code(), absl::StatusCode::kAborted) << "the life before";
  }
}

// Otherwise a checkpoint of the chief could have half an update.
TEST_F(ReplicaGroupTest, APausedDriverGetsNoMeans) {
  Make(2, 1);
  const auto stays = Begin(2);
  const CallRef first = Aggregate(), waiting = Contribute(1, 1);
  ASSERT_TRUE(first->is_over());
  EXPECT_TRUE(absl::IsFailedPrecondition(group_->Pause(0))) << "it is being applied";
  group_->Leave({0, 1}, Leaving::kStop);
  EXPECT_TRUE(absl::IsFailedPrecondition(group_->Pause(0))) << "a stop does not end that";
  ASSERT_TRUE(group_->Release(first->mark()).ok());
  EXPECT_EQ(waiting->step(), 1);
  EXPECT_TRUE(group_->Pause(0).ok());
  Contribute(1, 1);
  group_->Resume(0);

  Make(2, 1);
  const auto others = Begin(2);
  EXPECT_TRUE(group_->Pause(0).ok());
  const CallRef paused = Aggregate();
  Contribute(1, 1);
  EXPECT_FALSE(paused->is_over());
  group_->Resume(0);
  ASSERT_TRUE(paused->is_over());
  ASSERT_TRUE(group_->Release(paused->mark()).ok());
  // The pause of a session that was lost ends with it.
  EXPECT_TRUE(group_->Pause(0).ok());
  Stay(0, 2);
  const CallRef next = Aggregate();
  Contribute(1, 1);
  EXPECT_TRUE(next->is_over());
}

TEST_F(ReplicaGroupTest, AReplicaTooManyIsRefused) {
  Make(2, 2, OnLoss::kWait);
  auto stays = Begin(2);
  const CallRef third = Stay(2);
  ASSERT_TRUE(third->is_over());
  EXPECT_EQ(third->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(third->answer->status().message()),
              HasSubstr("worker 1 is one too many: 2 other replicas are there, and group is a group of 2"));
  const CallRef aggregate = Aggregate();
  Contribute(0, 1);
  EXPECT_FALSE(aggregate->is_over()) << "it is no member";
  EXPECT_EQ(Contribute(2, 100)->code(), absl::StatusCode::kAborted);
  Contribute(1, 3);
  EXPECT_EQ(MeanOf(aggregate), 2);
  ASSERT_TRUE(group_->Release(aggregate->mark()).ok());
  EXPECT_FALSE(Stay(1, 2)->is_over()) << "one that comes again is not one more";
  // The place of one that is gone may be taken.
  stays[0]->cancellation.Cancel(absl::CancelledError("killed"));
  EXPECT_FALSE(Stay(2)->is_over());
  // Without the chief nobody goes on: another one goes.
  const CallRef chief = Stay(0, 2);
  EXPECT_FALSE(chief->is_over());
  EXPECT_EQ(Contribute(2, 100)->code(), absl::StatusCode::kAborted);
}

// Several groups refuse the same one, though replicas come to each in another order.
TEST_F(ReplicaGroupTest, TheHighestRankIsTooManyWhoeverComesLast) {
  for (std::vector<int64_t> order : {std::vector<int64_t>{2, 3, 1}, {1, 3, 2}, {1, 2, 3}, {3, 1, 2}}) {
    Make(2, 2, OnLoss::kWait);
    std::map<int64_t, CallRef> stays;
    for (const int64_t rank : order) stays[rank] = Stay(rank);
    EXPECT_FALSE(stays[1]->is_over()) << order[0] << order[1];
    EXPECT_FALSE(stays[2]->is_over()) << order[0] << order[1];
    ASSERT_TRUE(stays[3]->is_over()) << order[0] << order[1];
    EXPECT_EQ(stays[3]->code(), absl::StatusCode::kFailedPrecondition);
  }
}

// Its driver goes on applying the step.
TEST_F(ReplicaGroupTest, ALossThatEndsTheGroupEndsNoUpdate) {
  Make(2, 1, OnLoss::kFail);
  auto stays = Begin(2);
  const CallRef aggregate = Aggregate();
  Contribute(0, 1);
  ASSERT_TRUE(aggregate->is_over());
  stays[1]->cancellation.Cancel(absl::CancelledError("killed"));
  EXPECT_TRUE(absl::IsFailedPrecondition(group_->Pause(0))) << "it is being applied";
  ASSERT_TRUE(group_->Release(aggregate->mark()).ok());
  EXPECT_TRUE(group_->Pause(0).ok());
}

TEST_F(ReplicaGroupTest, NobodyJoinsBeforeTheChiefHasBegun) {
  Make(2, 2);
  Stay(1);
  const CallRef join = Join(1);
  EXPECT_FALSE(join->is_over());
  group_->Reset(1, 7);
  EXPECT_EQ(join->step(), 7);
}

// The driver has the aggregate of one group and waits for that of another, which needs the replica that
// joins.
TEST_F(ReplicaGroupTest, AReplicaJoinsWhileAStepIsBeingApplied) {
  Make(2, 2);
  auto stays = Begin(2, 10);
  stays[1]->cancellation.Cancel(absl::UnavailableError("killed"));
  const CallRef aggregate = Aggregate(), a = Contribute(0, 1);
  ASSERT_TRUE(aggregate->is_over());
  const CallRef stay = Stay(1, 2), join = Join(1, 2);
  ASSERT_TRUE(join->is_over());
  EXPECT_EQ(join->step(), 10);
  const CallRef late = Contribute(1, 100, 2);
  EXPECT_FALSE(late->is_over()) << "what it would read now is half updated";
  EXPECT_EQ(MeanOf(aggregate), 1);
  ASSERT_TRUE(group_->Release(aggregate->mark()).ok());
  EXPECT_EQ(late->step(), 11);
  const CallRef second = Aggregate();
  Contribute(0, 1), Contribute(1, 3, 2);
  ASSERT_TRUE(second->is_over());
  EXPECT_EQ(MeanOf(second), 2);
}

// Its next one may be what the driver waits for in another group.
TEST_F(ReplicaGroupTest, AContributionOfAnotherStepIsDroppedAtOnceAlsoWhileAStepIsBeingApplied) {
  MakeElastic(1, 3);
  const std::vector<CallRef> stays = Begin(1, 5);
  Contribute(0, 1);
  Aggregate();
  const CallRef stay = Stay(1);
  Join(1);
  told_[1] = 0;  // two groups have told it two marks
  const CallRef dropped = Contribute(1, 1);
  ASSERT_TRUE(dropped->is_over());
  EXPECT_EQ(dropped->step(), 5);
  EXPECT_FALSE(Contribute(1, 1)->is_over()) << "it knows the step now, and is late";
}

TEST_F(ReplicaGroupTest, RefusesWhatDoesNotFit) {
  Make(2, 2);
  Begin(2);
  const CallRef wrong = Start([&](const auto& caller, auto done) {
    group_->Contribute(caller, {1, 1, told_[1]}, {{Tensor::Vector<float>({1, 2}), {}}}, done);
  });
  EXPECT_THAT(std::string(wrong->answer.value().status().message()),
              HasSubstr("gradient 0 of group from worker 0: the gradient is [2], must be [1]"));
  const CallRef none = Start([&](const auto& caller, auto done) {
    group_->Contribute(caller, {1, 1}, {}, done);
  });
  EXPECT_EQ(none->code(), absl::StatusCode::kInvalidArgument);
  const CallRef aggregate = Aggregate();
  Contribute(0, 1), Contribute(1, 3);
  EXPECT_EQ(MeanOf(aggregate), 2) << "a refused one leaves nothing behind";
}

// As a worker with other flags, or a guest that counts the workers by itself, asks for it.
TEST_F(ReplicaGroupTest, ItSaysWhoseNumbersDiffer) {
  Make(1, 1);
  ReplicaGroup::Spec spec = {.name = "group",
                             .gradients = {{.dtype = DType::kFloat32,
                                            .shape = PartialShape({1}),
                                            .order = GradientSum::Order::kByRank}},
                             .num_replicas = 1,
                             .replicas_to_aggregate = 1};
  EXPECT_TRUE(group_->CheckIsA(spec).ok()) << group_->CheckIsA(spec);
  spec.gradients[0].shape = PartialShape({2});
  EXPECT_THAT(std::string(group_->CheckIsA(spec).message()),
              HasSubstr("'group' of the running job has the gradients float[1] by rank, that of this task's "
                        "graph has float[2] by rank: all workers must build the same model"));
  spec.num_replicas = spec.replicas_to_aggregate = 2;
  const absl::Status refused = group_->CheckIsA(spec);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(refused.message()),
      HasSubstr("'group' of the running job is a group of 1 of 1 replicas (shrinks), that of this task's "
                "graph is a group of 2 of 2 replicas (shrinks): give all workers the same flags; where "
                "workers come and go, also set SyncReplicasOptions::min_replicas"));
}

// Two groups of which each replica gives to both; what they are given, and when they are released, comes in
// random orders. Two of three replicas are enough, so that in each group another one may be dropped. Or the
// groups are elastic: then the replicas come in random orders too.
class TwoGroups {
 public:
  TwoGroups(uint64_t seed, bool is_elastic) : random_(seed) {
    for (auto& group : groups_) {
      group = RefPtr<ReplicaGroup>(new ReplicaGroup({.name = "group",
                                                     .gradients = {{.shape = PartialShape({1})}},
                                                     .num_replicas = kReplicas,
                                                     .replicas_to_aggregate = is_elastic ? kReplicas : 2,
                                                     .min_replicas = is_elastic ? 1 : 0}));
      group->Reset(1, 0);
    }
    for (int rank = 0; rank < kReplicas; ++rank) {
      num_waiting_[rank] = 2;
      for (int g = 0; g < 2; ++g) {
        if (is_elastic && rank > 0) {
          pending_.push_back([this, rank, g] { Join(rank, g); });
        } else {
          Join(rank, g);
        }
      }
    }
    Aggregate();
  }

  // Lets one thing happen; false when there is none.
  bool Step() {
    if (pending_.empty()) return false;
    const size_t chosen = random_() % pending_.size();
    const std::function<void()> happen = pending_[chosen];
    pending_.erase(pending_.begin() + static_cast<ptrdiff_t>(chosen));
    happen();
    return true;
  }
  int num_steps() const { return num_steps_; }

 private:
  static constexpr int kReplicas = 3;

  ReplicaGroup::Caller caller() { return {cancellation_, HostAllocator(), pool_}; }

  void Join(int rank, int g) {
    groups_[g]->Stay(caller(), {rank, 1}, [](Answer) {});
    groups_[g]->Join(caller(), {rank, 1}, [this, rank, g](Answer answer) { OnTold(rank, g, answer->mark); });
  }
  void OnTold(int rank, int g, int64_t mark) {
    told_[rank][g] = mark;
    if (--num_waiting_[rank] == 0) pending_.push_back([this, rank] { Contribute(rank); });
  }
  void Contribute(int rank) {
    const int64_t mark = told_[rank][0] == told_[rank][1] ? told_[rank][0] : 0;
    num_waiting_[rank] = 2;
    for (int g = 0; g < 2; ++g) {
      pending_.push_back([this, rank, g, mark] {
        groups_[g]->Contribute(caller(), {rank, 1, mark}, {{Tensor::Vector<float>({1}), {}}},
                               [this, rank, g](Answer answer) { OnTold(rank, g, answer->mark); });
      });
    }
  }
  // What a driver does, until it loses contact (num_lost_ counts): another one tries its update again.
  void Aggregate() {
    num_aggregates_ = 0;
    for (int g = 0; g < 2; ++g) {
      groups_[g]->Aggregate(caller(), {0, 1}, update_, [this, g, driver = num_lost_](Answer answer) {
        if (driver != num_lost_) return;
        marks_[g] = answer->mark;
        if (++num_aggregates_ == 2) Release();
      });
    }
    pending_.push_back([this, driver = num_lost_] {
      if (driver != num_lost_ || random_() % 4 != 0) return;
      ++num_lost_;
      Aggregate();
    });
  }
  void Release() {
    num_releases_ = 0;
    EXPECT_EQ(marks_[0], marks_[1]) << "means of two steps in one update";
    for (int g = 0; g < 2; ++g) {
      pending_.push_back([this, g, driver = num_lost_, mark = marks_[g]] {
        if (driver != num_lost_) return;
        EXPECT_TRUE(groups_[g]->Release(mark).ok());
        if (++num_releases_ < 2) return;
        ++num_steps_;
        pending_.push_back([this, driver] {
          if (driver != num_lost_) return;
          ++update_;
          Aggregate();
        });
      });
    }
  }

  std::mt19937_64 random_;
  Cancellation cancellation_;
  ThreadPool pool_{1};
  RefPtr<ReplicaGroup> groups_[2];
  std::vector<std::function<void()>> pending_;
  int64_t told_[kReplicas][2] = {};
  int num_waiting_[kReplicas] = {};
  int64_t marks_[2] = {};
  int num_aggregates_ = 0, num_releases_ = 0, num_steps_ = 0, num_lost_ = 0;
  int64_t update_ = 1;
};

TEST(TwoGroupsTest, NeitherWaitsForWhomTheOtherHas) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    TwoGroups groups(seed, /*is_elastic=*/seed % 2 == 1);
    while (groups.num_steps() < 50) {
      ASSERT_TRUE(groups.Step()) << "seed " << seed << ": all wait, after step " << groups.num_steps();
    }
  }
}

}  // namespace
}  // namespace weir
