#include "distributed/membership.h"

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = Membership::State;

const TaskName kPs{"ps", 0};
const TaskName kW0{"worker", 0};
const TaskName kW1{"worker", 1};

struct MembershipTest : ::testing::Test {
  Scheduler scheduler{1};
  SimulatedEnvironment environment{scheduler, "ps"};
  Membership members{
      {kPs, ClusterSpec::FromFlag("ps|h:1,worker|h:2;h:3").value(), absl::Seconds(10), &environment}};
  std::vector<std::string> losses;

  MembershipTest() {
    members.AddLossListener([this](const TaskName&, Incarnation, const absl::Status& reason) {
      losses.push_back(std::string(reason.message()));
    });
  }
  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      scheduler.RunFor(absl::Seconds(1));
      members.CheckLeases();
    }
  }
  bool HasEnded() { return members.AwaitEndOfJob(scheduler.now()); }
};

TEST_F(MembershipTest, AMessageForAnotherLifeIsRefused) {
  const Incarnation before = members.incarnation();
  EXPECT_NE(before, 0u);
  EXPECT_TRUE(members.CheckAddressee(before).ok());
  EXPECT_TRUE(members.CheckAddressee(0).ok());
  members.SetIncarnation(before + 1);
  EXPECT_EQ(members.CheckAddressee(before).code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(members.CheckAddressee(before).message()), HasSubstr("ps:0 has restarted"));
  EXPECT_THAT(std::string(members.CheckAddressee(before + 2).message()), HasSubstr("is an older process"));
}

TEST_F(MembershipTest, OnlyTheAuthorityHasALifeFromTheStart) {
  Membership worker(
      {kW0, ClusterSpec::FromFlag("ps|h:1,worker|h:2;h:3").value(), absl::Seconds(10), &environment});
  EXPECT_EQ(worker.authority(), kPs);
  EXPECT_EQ(worker.incarnation(), 0u);
  EXPECT_THAT(std::string(worker.CheckAddressee(7).message()), HasSubstr("still joining"));
  const Membership alone({.self = {"localhost", 0}, .environment = &environment});
  EXPECT_NE(alone.incarnation(), 0u);
}

TEST_F(MembershipTest, WhoIsRefusedForALaterLifeIsSuperseded) {
  Membership worker(
      {kW0, ClusterSpec::FromFlag("ps|h:1,worker|h:2;h:3").value(), absl::Seconds(10), &environment});
  worker.SetIncarnation(11);
  std::vector<std::string> told;
  worker.AddSupersededListener([&](const absl::Status& why) { told.emplace_back(why.message()); });
  // What others are told about others says nothing about this one.
  ASSERT_TRUE(members.OnSignOfLife(kW1, 12).ok());
  worker.OnReplyStatus(members.OnSignOfLife(kW1, 11));
  ASSERT_TRUE(members.OnSignOfLife(kW0, 10).ok());
  ASSERT_TRUE(members.OnSignOfLife(kW0, 12).ok());
  worker.OnReplyStatus(members.OnSignOfLife(kW0, 10));
  worker.OnReplyStatus(absl::AbortedError("something else"));
  EXPECT_TRUE(worker.superseded().ok());
  worker.OnReplyStatus(members.OnSignOfLife(kW0, 11));
  worker.OnReplyStatus(members.OnSignOfLife(kW0, 11));
  EXPECT_THAT(told,
              ElementsAre("worker:0 (life 0.b) was superseded: ps:0 knows its life 0.c, another process "
                          "that is worker:0 now"));
  EXPECT_TRUE(IsSuperseded(worker.superseded()));
}

TEST_F(MembershipTest, AMessageFromItsOwnLaterLifeSupersedesIt) {
  EXPECT_TRUE(absl::IsUnavailable(members.OnSignOfLife(kPs, members.incarnation() + 1)));
  EXPECT_TRUE(IsSuperseded(members.superseded()));
}

TEST_F(MembershipTest, ALeaseThatIsRenewedHolds) {
  EXPECT_EQ(members.state(kW0), State::kUnknown);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
    Pass(9);
  }
  EXPECT_EQ(members.state(kW0), State::kAlive);
  EXPECT_EQ(members.incarnation_of(kW0), 11u);
  EXPECT_TRUE(losses.empty());
}

TEST_F(MembershipTest, ASilentPeerIsLostOnceAndAliveWhenItIsHeardAgain) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  Pass(30);
  EXPECT_THAT(losses, ElementsAre("worker:0 was lost: no sign of life for 10s"));
  EXPECT_EQ(members.state(kW0), State::kLost);
  EXPECT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  EXPECT_EQ(members.state(kW0), State::kAlive);
  Pass(30);
  EXPECT_EQ(losses.size(), 2u);
  // Its next life is welcome.
  EXPECT_TRUE(members.OnSignOfLife(kW0, 12).ok());
  EXPECT_EQ(members.state(kW0), State::kAlive);
  EXPECT_EQ(losses.size(), 2u) << "the one before had been lost";
}

TEST_F(MembershipTest, ALaterLifeEndsTheEarlierForGood) {
  ASSERT_TRUE(members.OnSignOfLife(kW1, 21).ok());
  ASSERT_TRUE(members.OnSignOfLife(kW1, 22).ok());
  EXPECT_THAT(losses, ElementsAre("worker:1 was lost: it restarted"));
  // One that was never heard before, too.
  for (const Incarnation life : {20, 21}) {
    EXPECT_TRUE(IsSuperseded(members.OnSignOfLife(kW1, life)));
    EXPECT_TRUE(IsSuperseded(members.OnDone(kW1, life)));
    EXPECT_TRUE(IsSuperseded(members.OnLeave(kW1, life)));
  }
  EXPECT_EQ(members.state(kW1), State::kAlive);
  EXPECT_EQ(members.incarnation_of(kW1), 22u);
  EXPECT_EQ(losses.size(), 1u);
}

TEST_F(MembershipTest, ATaskThatWasDoneAndComesAgainWasNotLost) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(members.OnDone(kW0, 11).ok());
  ASSERT_TRUE(members.OnSignOfLife(kW0, 12).ok());
  EXPECT_TRUE(losses.empty());
  EXPECT_EQ(members.state(kW0), State::kAlive);
}

TEST_F(MembershipTest, StrangersAreRefused) {
  EXPECT_EQ(members.OnSignOfLife({"worker", 2}, 5).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(members.OnSignOfLife(kW0, 0).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(MembershipTest, OurOwnPauseCostsNobodyTheLease) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  Pass(1);
  scheduler.RunFor(absl::Seconds(60));  // nobody called CheckLeases: this process was stopped
  members.CheckLeases();
  EXPECT_TRUE(losses.empty());
  Pass(9);
  EXPECT_TRUE(losses.empty());
  Pass(2);
  EXPECT_EQ(losses.size(), 1u);
}

TEST_F(MembershipTest, TheJobEndsWhenNobodyIsLeftToServe) {
  EXPECT_FALSE(HasEnded());
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(members.OnDone(kW0, 11).ok());
  EXPECT_FALSE(HasEnded());  // worker 1 has not come yet
  ASSERT_TRUE(members.OnSignOfLife(kW1, 21).ok());
  EXPECT_FALSE(HasEnded());
  Pass(20);
  EXPECT_EQ(members.state(kW0), State::kDone);  // silence after the end is no loss
  EXPECT_EQ(members.state(kW1), State::kLost);
  EXPECT_TRUE(HasEnded());
}

TEST_F(MembershipTest, AChiefThatIsLostIsWaitedForThoughAllOthersAreDone) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());  // the chief, where there is no other
  ASSERT_TRUE(members.OnSignOfLife(kW1, 21).ok());
  Pass(20);
  EXPECT_EQ(members.DescribeAwaitedChief(), "") << "the other one may still come";
  ASSERT_TRUE(members.OnSignOfLife(kW1, 22).ok());
  ASSERT_TRUE(members.OnDone(kW1, 22).ok());
  EXPECT_EQ(members.state(kW0), State::kLost);
  EXPECT_FALSE(HasEnded());
  EXPECT_TRUE(members.is_serving());
  EXPECT_THAT(members.DescribeAwaitedChief(), HasSubstr("worker:0, the chief, lost 1"));
  EXPECT_THAT(members.DescribeAwaitedChief(), HasSubstr("s ago (it is given up in 9m"));
  // It was only stopped.
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  EXPECT_EQ(members.DescribeAwaitedChief(), "");
  EXPECT_FALSE(HasEnded());
  Pass(60);
  EXPECT_FALSE(HasEnded());
  Pass(10 * 60);
  EXPECT_TRUE(HasEnded()) << "it was given up";
  EXPECT_FALSE(members.is_serving());
}

TEST_F(MembershipTest, AllLostIsNoEnd) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(members.OnSignOfLife(kW1, 21).ok());
  Pass(20);
  EXPECT_FALSE(HasEnded());
  ASSERT_TRUE(members.OnSignOfLife(kW0, 12).ok());
  ASSERT_TRUE(members.OnSignOfLife(kW1, 22).ok());
  ASSERT_TRUE(members.OnDone(kW0, 12).ok());
  ASSERT_TRUE(members.OnDone(kW1, 22).ok());
  ASSERT_TRUE(members.OnSignOfLife(kW1, 22).ok());  // a straggling heartbeat does not undo it
  EXPECT_TRUE(HasEnded());
}

TEST_F(MembershipTest, ATaskThatIsToLeaveWaitsForThoseThatStillRun) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(members.OnSignOfLife(kW1, 21).ok());
  ASSERT_TRUE(members.OnLeave(kW0, 11).ok());
  EXPECT_EQ(members.state(kW0), State::kAlive) << "it may come again";
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  EXPECT_THAT(members.RunningTasks(), ElementsAre(kW1)) << "a straggling heartbeat does not undo it";
  ASSERT_TRUE(members.OnSignOfLife(kW0, 12).ok());
  EXPECT_THAT(members.RunningTasks(), ElementsAre(kW0, kW1)) << "its next life runs";
  const absl::Time begin = scheduler.now();
  members.RequestLeave(begin + absl::Minutes(10));
  EXPECT_FALSE(HasEnded());
  const auto timers = environment.MakeTimers();
  timers->At(begin + absl::Seconds(3), [&] {
    (void)members.OnLeave(kW0, 12);
    (void)members.OnLeave(kW1, 21);
  });
  EXPECT_FALSE(members.AwaitEndOfJob(absl::InfiniteFuture())) << "nobody is done";
  EXPECT_EQ(scheduler.now(), begin + absl::Seconds(3));
  EXPECT_THAT(members.RunningTasks(), ElementsAre());
  EXPECT_THAT(losses, ElementsAre("worker:0 was lost: it restarted")) << "who leaves is not lost";
}

TEST_F(MembershipTest, ATaskThatIsToLeaveDoesNotWaitForEver) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  const absl::Time end = scheduler.now() + absl::Seconds(25);
  members.RequestLeave(end);
  EXPECT_FALSE(members.AwaitEndOfJob(absl::InfiniteFuture()));
  EXPECT_EQ(scheduler.now(), end);
  EXPECT_FALSE(members.OnLeave({"worker", 2}, 5).ok());
}

TEST_F(MembershipTest, WaitersWakeAtTheEndAndWhenStopped) {
  const auto timers = environment.MakeTimers();
  const absl::Time begin = scheduler.now();
  timers->At(begin + absl::Seconds(5), [&] {
    (void)members.OnDone(kW0, 11);
    (void)members.OnDone(kW1, 21);
  });
  EXPECT_TRUE(members.AwaitEndOfJob(begin + absl::Seconds(20)));
  EXPECT_EQ(scheduler.now(), begin + absl::Seconds(5));
  ASSERT_TRUE(members.OnSignOfLife(kW1, 22).ok());  // a new life after the end
  EXPECT_FALSE(members.AwaitEndOfJob(begin + absl::Seconds(20)));
  EXPECT_EQ(scheduler.now(), begin + absl::Seconds(20));
  timers->At(begin + absl::Seconds(30), [&] { members.StopWaiting(); });
  EXPECT_FALSE(members.AwaitEndOfJob(absl::InfiniteFuture()));
  EXPECT_EQ(scheduler.now(), begin + absl::Seconds(30));
}

}  // namespace
}  // namespace weir
