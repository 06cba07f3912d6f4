#include "distributed/membership.h"

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "distributed/test_membership.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = Membership::State;

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
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses[2], "worker:0 was lost: it restarted");
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

// What was asked of it after it was lost would be waited for in vain.
TEST_F(MembershipTest, ALaterLifeOfATaskThatWasSilentIsReported) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 7).ok());
  Pass(12);
  EXPECT_THAT(losses, ElementsAre("worker:0 was lost: no sign of life for 10s"));
  EXPECT_EQ(members.LossOf(kW0, 7).message(), losses[0]);
  ASSERT_TRUE(members.OnSignOfLife(kW0, 8).ok());
  EXPECT_THAT(losses,
              ElementsAre("worker:0 was lost: no sign of life for 10s", "worker:0 was lost: it restarted"));
  EXPECT_EQ(members.LossOf(kW0, 7).message(), losses[1]);
  EXPECT_TRUE(members.LossOf(kW0, 8).ok());
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

TEST_F(MembershipTest, ATaskThatHasSaidWhatItFailedWithIsLostForThat) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(members.OnLeave(kW0, 11, "no such file: data").ok());
  ASSERT_TRUE(members.OnLeave(kW0, 11).ok());  // repeated
  Pass(12);
  EXPECT_THAT(losses, ElementsAre("worker:0 was lost: it has failed: no such file: data"));
  ASSERT_TRUE(members.OnSignOfLife(kW0, 12).ok());
  Pass(12);
  EXPECT_EQ(losses.back(), "worker:0 was lost: no sign of life for 10s") << "its next life has not failed";
  ASSERT_TRUE(members.OnSignOfLife(kW1, 21).ok());
  ASSERT_TRUE(members.OnLeave(kW1, 21, std::string(1 << 20, 'x')).ok());
  Pass(12);
  EXPECT_LT(losses.back().size(), 1100u);
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

TEST_F(ViewTest, SaysWhoIsAliveLostAndDone) {
  ASSERT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(authority.OnSignOfLife(kW1, 21).ok());
  Beat(authority);
  EXPECT_EQ(ps1.state(kW0), State::kAlive);
  EXPECT_EQ(ps1.incarnation_of(kW1), 21u);
  EXPECT_THAT(ps1.RunningTasks(), ElementsAre(kW0, kW1));
  EXPECT_TRUE(authority.ViewSince(ps1.view()).members.empty()) << "nothing has changed since";
  ASSERT_TRUE(authority.OnLeave(kW1, 21).ok());
  ASSERT_TRUE(authority.OnDone(kW0, 11).ok());
  EXPECT_EQ(authority.ViewSince(ps1.view()).members.size(), 2u);
  EXPECT_FALSE(authority.HasNewsFor(ps1.view())) << "that may wait for the next heartbeat";
  Beat(authority);
  EXPECT_THAT(ps1.RunningTasks(), ElementsAre());
  EXPECT_THAT(ps1_done, ElementsAre("worker:0"));
  authority.OnGone(kW1, 20, "an earlier life");
  EXPECT_FALSE(authority.HasNewsFor(ps1.view()));
  authority.OnGone(kW1, 21, "it is gone");
  EXPECT_TRUE(authority.HasNewsFor(ps1.view()));
  EXPECT_FALSE(ps1.AwaitEndOfJob(scheduler.now()));
  Beat(authority);
  EXPECT_THAT(ps1_losses, ElementsAre("worker:1 has left"));
  EXPECT_TRUE(ps1.AwaitEndOfJob(scheduler.now())) << "though nobody told it but the authority";
  EXPECT_EQ(ps1.last_loss(), authority.last_loss());
}

// The authority has left, and its last word has not come.
TEST_F(ViewTest, EndsAfterTheChiefWhenTheAuthorityIsGone) {
  ASSERT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(authority.OnSignOfLife(kW1, 21).ok());
  Beat(authority);
  PassWith(nullptr, 40);
  EXPECT_EQ(ps1.state(kPs), State::kLost);
  EXPECT_FALSE(ps1.AwaitEndOfJob(scheduler.now())) << "the chief has not saved";
  EXPECT_THAT(ps1.RunningTasks(), ElementsAre()) << "of which it has heard";
  ASSERT_TRUE(ps1.OnDone(kW0, 11).ok());
  EXPECT_TRUE(ps1.AwaitEndOfJob(scheduler.now()));
  ASSERT_TRUE(ps1.OnSignOfLife(kW1, 21).ok());
  EXPECT_FALSE(ps1.AwaitEndOfJob(scheduler.now())) << "it has just been heard";
  EXPECT_THAT(ps1.RunningTasks(), ElementsAre(kW1));
}

// The chief could not say that it is done, but to the other ps.
TEST_F(ViewTest, EndsWhenAnotherPsHasEnded) {
  ASSERT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(authority.OnSignOfLife(kW1, 21).ok());
  Beat(authority);
  ASSERT_TRUE(authority.OnLeave(kW1, 21).ok());
  ASSERT_TRUE(authority.OnDone({"ps", 1}, ps1.incarnation()).ok());
  EXPECT_FALSE(authority.AwaitEndOfJob(scheduler.now())) << "the chief is alive";
  for (int i = 0; i < 12; ++i) {
    scheduler.RunFor(absl::Seconds(1));
    authority.CheckLeases();
  }
  EXPECT_EQ(authority.state(kW0), State::kLost);
  EXPECT_TRUE(authority.AwaitEndOfJob(scheduler.now()));
}

TEST_F(ViewTest, IsAppliedInItsOrderAndWithoutGaps) {
  ASSERT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  const View first = authority.ViewSince({});
  authority.OnGone(kW0, 11, "it is gone");
  const View second = authority.ViewSince(first.number);
  ps1.ApplyView(second, kPs);
  EXPECT_EQ(ps1.view(), ViewNumber()) << "what it has not seen is missing";
  ps1.ApplyView(authority.ViewSince({}), kPs);
  EXPECT_EQ(ps1.state(kW0), State::kLost);
  EXPECT_TRUE(ps1_losses.empty()) << "it was never alive here";
  ps1.ApplyView(first, kPs);
  EXPECT_EQ(ps1.state(kW0), State::kLost);
  Membership zombie({kPs, ClusterSpec::FromFlag(kSpec).value(), absl::Seconds(10), &environment});
  zombie.SetIncarnation(authority.incarnation() - 1);
  ASSERT_TRUE(zombie.OnSignOfLife(kW0, 12).ok());
  ps1.ApplyView(zombie.ViewSince({}), kPs);
  EXPECT_EQ(ps1.state(kW0), State::kLost);
}

TEST_F(ViewTest, AMessageMayKnowOfALossFirst) {
  Beat(authority);
  int asked = 0;
  ps1.SetNewsListener([&] { ++asked; });
  ASSERT_TRUE(ps1.Admit(kW0, 11, 0, authority.last_loss()).ok());
  EXPECT_EQ(asked, 0);
  ASSERT_TRUE(authority.OnSignOfLife(kW1, 21).ok());
  authority.OnGone(kW1, 21, "it is gone");
  ASSERT_TRUE(ps1.Admit(kW0, 11, 0, authority.last_loss()).ok());
  EXPECT_EQ(asked, 1);
  Beat(authority);
  ASSERT_TRUE(ps1.Admit(kW0, 11, 0, authority.last_loss()).ok());
  EXPECT_EQ(asked, 1);
}

TEST_F(ViewTest, StepsStopBeforeTheAuthorityDeclaresTheTaskLost) {
  EXPECT_TRUE(authority.HoldsLease());
  Beat(authority);
  const absl::Time sent = scheduler.now();
  scheduler.RunFor(absl::Milliseconds(7999));
  EXPECT_TRUE(ps1.HoldsLease());
  scheduler.RunFor(absl::Milliseconds(1));
  EXPECT_FALSE(ps1.HoldsLease());
  ps1.OnHeartbeatAnswered(sent - absl::Seconds(1));  // late
  EXPECT_FALSE(ps1.HoldsLease());
  ps1.OnHeartbeatAnswered(scheduler.now());
  EXPECT_TRUE(ps1.HoldsLease());
}

TEST_F(ViewTest, NobodyElseIsLostWithTheAuthority) {
  ASSERT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(authority.OnSignOfLife(kW1, 21).ok());
  Beat(authority);
  PassWith(nullptr, 60);
  EXPECT_THAT(ps1_losses, ElementsAre("ps:0 was lost: no sign of life for 10s"));
  // Its successor knows nobody at first. Worker 1 has died meanwhile, and does not come.
  Membership next({kPs, ClusterSpec::FromFlag(kSpec).value(), absl::Seconds(10), &environment});
  ASSERT_GT(next.incarnation(), authority.incarnation());
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(next.OnSignOfLife(kW0, 11).ok());
    PassWith(&next, 2);
  }
  EXPECT_FALSE(next.ViewSince({}).is_settled);
  EXPECT_THAT(ps1_losses,
              ElementsAre("ps:0 was lost: no sign of life for 10s", "ps:0 was lost: it restarted"))
      << "it gathers";
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(next.OnSignOfLife(kW0, 11).ok());
    PassWith(&next, 2);
  }
  EXPECT_TRUE(next.ViewSince({}).is_settled);
  EXPECT_THAT(ps1_losses, ElementsAre("ps:0 was lost: no sign of life for 10s", "ps:0 was lost: it restarted",
                                      "worker:1 was lost: no sign of life for 10s"));
  EXPECT_EQ(ps1.state(kW0), State::kAlive);
}

TEST_F(ViewTest, WhoIsHeardIsAliveForALeaseWhateverTheViewSays) {
  ASSERT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  PassWith(&authority, 14);
  EXPECT_EQ(ps1.state(kW0), State::kLost);
  ASSERT_TRUE(ps1.OnSignOfLife(kW0, 11).ok());  // late, or its link to the authority is cut
  EXPECT_EQ(ps1.state(kW0), State::kAlive);
  PassWith(&authority, 8);
  EXPECT_EQ(ps1.state(kW0), State::kAlive);
  PassWith(&authority, 4);
  EXPECT_EQ(ps1.state(kW0), State::kLost);
  EXPECT_EQ(ps1_losses.size(), 2u);
}

TEST_F(MembershipTest, ALifeThatNobodyGrantsIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(members.OnSignOfLife(kW0, kLastLife + 1)));
  EXPECT_EQ(members.state(kW0), State::kUnknown);
  members.OnGranted(kLastLife + 1);  // to which the last life was reported
  EXPECT_TRUE(members.OnSignOfLife(kW0, kLastLife + 1).ok());
  // One that is not the authority does not know what was granted.
  Membership worker(
      {kW0, ClusterSpec::FromFlag("ps|h:1,worker|h:2;h:3").value(), absl::Seconds(10), &environment});
  EXPECT_TRUE(worker.OnSignOfLife(kW1, kLastLife + 1).ok());
  for (Membership* any : {&members, &worker}) {
    EXPECT_TRUE(absl::IsInvalidArgument(any->OnSignOfLife(kW1, ~Incarnation{0})));
  }
}

TEST_F(MembershipTest, NobodySaysOfALiveTaskThatItIsDone) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  for (const Incarnation life : {Incarnation{10}, Incarnation{11}, Incarnation{12}, ~Incarnation{0}}) {
    members.OnReportedDone(kW1, kW0, life);
    members.OnReportedDone(kW1, kPs, life);
    members.OnReportedDone(kW1, {"worker", 9}, life);
  }
  EXPECT_EQ(members.state(kW0), State::kAlive);
  EXPECT_EQ(members.incarnation_of(kW0), 11u);
  EXPECT_TRUE(members.superseded().ok());
  EXPECT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  // It was so when the authority was started, and the task had just been heard before it left.
  Pass(12);
  EXPECT_EQ(members.state(kW0), State::kDone);
  EXPECT_THAT(losses, ElementsAre("worker:0 was lost: no sign of life for 10s"));
  EXPECT_TRUE(members.OnSignOfLife(kW0, 12).ok());
  EXPECT_EQ(members.state(kW0), State::kAlive);
}

TEST_F(MembershipTest, WhoWasOnlySilentIsNotDoneThoughOthersSaidSo) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  members.OnReportedDone(kW1, kW0, 11);
  ASSERT_TRUE(members.OnDone(kW1, 21).ok());
  Pass(12);
  EXPECT_EQ(members.state(kW0), State::kDone);
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());  // its link was cut
  EXPECT_EQ(members.state(kW0), State::kAlive);
  EXPECT_FALSE(HasEnded());
  Pass(12);
  EXPECT_EQ(members.state(kW0), State::kLost) << "they were wrong";
  members.OnReportedDone(kW1, kW0, 11);
  EXPECT_EQ(members.state(kW0), State::kLost) << "it has gathered";
  ASSERT_TRUE(members.OnDone(kW0, 11).ok());
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  EXPECT_EQ(members.state(kW0), State::kDone) << "what it says itself stays";
}

TEST_F(MembershipTest, WhatOthersSayOfALiveTaskCountsOnlyOfItsEnd) {
  ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());
  members.OnReportedDone(kW1, kW0, 11);
  for (int i = 0; i < 12; ++i) {
    Pass(5);
    ASSERT_TRUE(members.OnSignOfLife(kW0, 11).ok());  // nobody takes so long to say that it is done
  }
  Pass(12);
  EXPECT_EQ(members.state(kW0), State::kLost);
  // It was told after it had gathered.
  ASSERT_TRUE(members.OnSignOfLife(kW1, 21).ok());
  members.OnReportedDone(kW0, kW1, 21);
  Pass(12);
  EXPECT_EQ(members.state(kW1), State::kLost);
}

TEST_F(MembershipTest, WhereNamesAreProvenAWorkerSaysOnlyOfTheUnheardThatTheyAreDone) {
  Membership proven({.self = kPs,
                     .cluster = ClusterSpec::FromFlag("ps|h:1;h:4,worker|h:2;h:3;h:5").value(),
                     .lease = absl::Seconds(10),
                     .environment = &environment,
                     .names_are_proven = true});
  const auto pass = [&] {
    for (int i = 0; i < 12; ++i) {
      scheduler.RunFor(absl::Seconds(1));
      proven.CheckLeases();
    }
  };
  const TaskName w2{"worker", 2};
  ASSERT_TRUE(proven.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(proven.OnSignOfLife(kW1, 21).ok());
  proven.OnReportedDone(kW1, kW0, 11);
  proven.OnReportedDone(kW1, w2, 31);
  proven.OnReportedDone({"ps", 1}, kW1, 21);
  EXPECT_EQ(proven.state(w2), State::kDone);
  pass();
  EXPECT_EQ(proven.state(kW0), State::kLost);
  EXPECT_EQ(proven.state(kW1), State::kDone);
  proven.OnReportedDone(kW1, kW0, 11);
  EXPECT_EQ(proven.state(kW0), State::kLost);
  // One that was cut off while it gathered may tell later, if it is a ps.
  Membership later({.self = kPs,
                    .cluster = proven.cluster(),
                    .lease = absl::Seconds(10),
                    .environment = &environment,
                    .names_are_proven = true});
  for (int i = 0; i < 12; ++i) {
    scheduler.RunFor(absl::Seconds(1));
    later.CheckLeases();
  }
  ASSERT_FALSE(later.IsGathering());
  later.OnReportedDone(kW1, kW0, 11);
  EXPECT_EQ(later.state(kW0), State::kUnknown);
  later.OnReportedDone({"ps", 1}, kW0, 11);
  EXPECT_EQ(later.state(kW0), State::kDone);
}

TEST_F(ViewTest, AnAuthorityThatWasRestartedIsToldWhoWasDone) {
  Beat(authority);
  authority.OnReportedDone({"ps", 1}, kW0, ~Incarnation{0});
  authority.OnReportedDone({"ps", 1}, kW1, 21);
  EXPECT_FALSE(authority.AwaitEndOfJob(scheduler.now())) << "they may come while it gathers";
  Beat(authority);
  EXPECT_EQ(ps1.state(kW0), State::kDone);
  EXPECT_TRUE(ps1.OnSignOfLife(kW0, 11).ok()) << "a life that was only told ends none";
  EXPECT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  EXPECT_EQ(authority.state(kW0), State::kAlive);
  PassWith(&authority, 8);
  ASSERT_TRUE(authority.OnDone(kW0, 11).ok());
  PassWith(&authority, 6);
  EXPECT_TRUE(authority.AwaitEndOfJob(scheduler.now()));
  EXPECT_TRUE(ps1.AwaitEndOfJob(scheduler.now()));
}

// The chief was silent for a lease, and others had said that it was done. It trained on, and everybody
// believed that it was done.
TEST_F(ViewTest, WhatOnlyOthersSaidOfATaskIsOverWhenItIsHeardAgain) {
  ASSERT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  ASSERT_TRUE(authority.OnDone(kW1, 21).ok());
  Beat(authority);
  authority.OnReportedDone(kW1, kW0, 11);
  PassWith(&authority, 12);
  EXPECT_EQ(ps1.state(kW0), State::kDone);
  EXPECT_THAT(ps1_losses, ElementsAre("worker:0 was lost: others say so"));
  EXPECT_THAT(ps1_done, ElementsAre("worker:1"));
  EXPECT_THAT(ps1.DoneLives(), ElementsAre(std::pair(kW0, Incarnation{11}), std::pair(kW1, Incarnation{21})));
  ASSERT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  Beat(authority);
  EXPECT_EQ(ps1.state(kW0), State::kAlive);
  EXPECT_EQ(ps1.state(kW1), State::kDone);
  EXPECT_FALSE(authority.AwaitEndOfJob(scheduler.now()));
  EXPECT_FALSE(ps1.AwaitEndOfJob(scheduler.now()));
  ASSERT_TRUE(authority.OnDone(kW0, 11).ok());
  Beat(authority);
  EXPECT_EQ(ps1.state(kW0), State::kDone);
  EXPECT_THAT(ps1_done, ElementsAre("worker:1", "worker:0"));
  // An authority that is started anew hears it say so to others.
  Membership next({kPs, ClusterSpec::FromFlag(kSpec).value(), absl::Seconds(10), &environment});
  ASSERT_TRUE(next.OnSignOfLife(kW0, 11).ok());
  Beat(next);
  EXPECT_EQ(next.state(kW0), State::kAlive);
  EXPECT_EQ(ps1.state(kW0), State::kDone);
  next.OnReportedDone({"ps", 1}, kW0, 11);
  PassWith(&next, 12);
  EXPECT_EQ(next.state(kW0), State::kDone);
}

// It is heard by a task that the authority has told that it is done.
TEST_F(ViewTest, WhoIsHeardIsAliveThoughOthersSaidThatItIsDone) {
  ASSERT_TRUE(authority.OnSignOfLife(kW0, 11).ok());
  Beat(authority);
  authority.OnReportedDone(kW1, kW0, 11);
  PassWith(&authority, 12);
  ASSERT_EQ(ps1.state(kW0), State::kDone);
  ASSERT_TRUE(ps1.OnSignOfLife(kW0, 11).ok());
  EXPECT_EQ(ps1.state(kW0), State::kAlive);
}

TEST_F(ViewTest, TheLastViewSaysThatATrainingAuthorityIsDone) {
  const ClusterSpec cluster = ClusterSpec::FromFlag("worker|h:2;h:3").value();
  Membership chief({kW0, cluster, absl::Seconds(10), &environment});
  Membership other({kW1, cluster, absl::Seconds(10), &ps1_environment});
  other.SetIncarnation(chief.incarnation() + 1);
  ASSERT_TRUE(other.OnSignOfLife(kW0, chief.incarnation()).ok());
  other.ApplyView(chief.ViewSince({}), kW0);
  chief.IssueLastView();
  EXPECT_TRUE(chief.HasNewsFor(other.view()));
  other.ApplyView(chief.ViewSince(other.view()), kW0);
  EXPECT_EQ(other.state(kW0), State::kDone);
  scheduler.RunFor(absl::Minutes(1));
  EXPECT_TRUE(other.HoldsLease()) << "nobody is left who could declare it lost";
}

}  // namespace
}  // namespace weir
