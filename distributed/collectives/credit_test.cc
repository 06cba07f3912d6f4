// Ranks that are ahead of others: what they send before the others are ready is bounded, and nothing is
// refused. Updates of variables, which no collective tears.
#include <cstring>

#include "distributed/collectives/lane.h"
#include "distributed/collectives/rank_group.h"
#include "distributed/collectives/test_group.h"
#include "distributed/collectives/update_sections.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Outcome = TestGroup::Outcome;
constexpr int64_t kCount = 5 << 20;  // 20 MiB

Communicator::ExchangedDone IntoRows(const Outcome& outcome) {
  return [done = TestGroup::Into(outcome)](absl::StatusOr<Communicator::Exchanged> came) {
    done(came.ok() ? absl::StatusOr<Tensor>(came->rows) : absl::StatusOr<Tensor>(came.status()));
  };
}

TEST(CreditTest, BroadcastsAndGathersTravelInSegments) {
  for (const bool broadcasts : {true, false}) {
    TestGroup group(2, 7);
    group.Form();
    for (const Outcome& outcome : RunOnAll(group, [&](RankGroup&ranks, int rank, Communicator::Done done) {
           if (broadcasts) {
             ranks.Broadcast({"w", {1, 1}}, 1, DType::kFloat32, rank == 1 ? Numbers(1, kCount) : Tensor(),
                             std::move(done));
           } else {
             ranks.AllGather({"w", {1, 1}}, rank == 1 ? Numbers(1, kCount) : Numbers(0, 0), std::move(done));
           }
         })) {
      ASSERT_EQ(Value(outcome).num_elements(), kCount);
      EXPECT_EQ(std::memcmp(Value(outcome).data(), Numbers(1, kCount).data(), kCount * 4), 0);
    }
    EXPECT_EQ(group.largest_part(), Collective::kSegmentBytes);
  }
}

TEST(CreditTest, ARankThatHasNotBegunIsSentLittle) {
  TestGroup group(2);
  group.Form();
  std::vector<Outcome> outcomes = {NewOutcome(), NewOutcome()};
  const auto begin = [&](int rank) {
    group[rank].AllReduce({"sum", {1, 1}}, Numbers(rank, kCount), Reduction::kSum, false,
                          TestGroup::Into(outcomes[rank]));
  };
  begin(0);
  group.DeliverAll();
  EXPECT_EQ(group.num_unanswered_bytes(1), Lane::kFirstBytes);
  begin(1);
  group.DeliverAll();
  EXPECT_EQ(std::memcmp(Value(outcomes[0]).data(), Value(outcomes[1]).data(), kCount * 4), 0);
  EXPECT_EQ(group.num_unanswered_bytes(1), 0);
}

// Rows have no place until all ranks have said how many they send.
TEST(CreditTest, RowsAreHeldBackWhileARankIsLate) {
  for (const bool gathers : {true, false}) {
    TestGroup group(3, 5);
    group.Form();
    std::vector<Outcome> outcomes = {NewOutcome(), NewOutcome(), NewOutcome()};
    const auto begin = [&](int rank) {
      const Communicator::Call call = {"rows", {1, 1}};
      if (gathers) return group[rank].AllGather(call, Numbers(rank, kCount), TestGroup::Into(outcomes[rank]));
      group[rank].AllToAll(call, Numbers(rank, 3 * kCount), {kCount, kCount, kCount},
                           IntoRows(outcomes[rank]));
    };
    for (const int rank : {0, 1}) {
      begin(rank);
      group.DeliverAll();
    }
    EXPECT_EQ(group.num_unanswered_bytes(0), Lane::kFirstBytes);
    EXPECT_EQ(group.num_unanswered_bytes(1), Lane::kFirstBytes);
    begin(2);
    group.DeliverAll();
    for (const Outcome& outcome : outcomes) ASSERT_EQ(Value(outcome).num_elements(), 3 * kCount);
    for (const int rank : {0, 1, 2}) EXPECT_EQ(group.num_unanswered_bytes(rank), 0);
  }
}

TEST(CreditTest, RowsThatAreHeldBackAreAnsweredWhenTheGroupEnds) {
  TestGroup group(3, 5);
  group.Form();
  for (const int rank : {0, 1}) {
    group[rank].AllGather({"rows", {1, 1}}, Numbers(rank, kCount), TestGroup::Into(NewOutcome()));
  }
  group.DeliverAll();
  ASSERT_GT(group.num_unanswered_bytes(0), 0);
  group[0].End(absl::AbortedError("rank 2 was lost"));
  EXPECT_EQ(group.num_unanswered_bytes(0), 0);
}

// Many collectives ahead, of more bytes than are kept of a rank: those beyond the budget only announce
// themselves.
TEST(CreditTest, ARankThatIsFarAheadIsHeldBackAndNotRefused) {
  constexpr int kAhead = 400;  // of 1 MiB
  TestGroup group(2, 11);
  group.Form();
  const Tensor input = Numbers(0, 1 << 18);
  std::vector<Outcome> sent, received;
  for (int i = 0; i < kAhead; ++i) {
    sent.push_back(NewOutcome());
    group[0].Broadcast({"w", {1, i}}, 0, DType::kFloat32, input, TestGroup::Into(sent.back()));
    group.DeliverAll();
  }
  EXPECT_EQ(group.num_unanswered_bytes(1), ByteBudget::kEagerBytes);
  for (int i = kAhead; i-- > 0;) {
    received.push_back(NewOutcome());
    group[1].Broadcast({"w", {1, i}}, 0, DType::kFloat32, Tensor(), TestGroup::Into(received.back()));
    group.DeliverAll();
    ASSERT_EQ(Value(received.back()).num_elements(), input.num_elements()) << i;
    received.back() = nullptr;
  }
  for (const Outcome& outcome : sent) EXPECT_TRUE(Value(outcome).num_elements() > 0);
  EXPECT_EQ(group.num_unanswered_bytes(1), 0);
}

// Beyond the budget a collective only announces itself. Rows are kept until all have said how many they send,
// and whoever has only announced himself says it afterwards.
TEST(CreditTest, RowsOfARankThatIsFarAheadComeAfterTheirAnnouncement) {
  constexpr int kAhead = 300;  // of 1 MiB
  for (const bool gathers : {true, false}) {
    TestGroup group(2, 13);
    group.Form();
    std::vector<Outcome> outcomes[2];
    const auto begin = [&](int rank, int i) {
      outcomes[rank].push_back(NewOutcome());
      const Tensor rows = Numbers(rank, 1 << 18);
      const Communicator::Call call = {"rows", {1, i}};
      if (gathers) return group[rank].AllGather(call, rows, TestGroup::Into(outcomes[rank].back()));
      group[rank].AllToAll(call, rows, {0, 1 << 18}, IntoRows(outcomes[rank].back()));
    };
    for (int rank : {0, 1}) {
      for (int i = 0; i < kAhead; ++i) {
        begin(rank, i);
        group.DeliverAll();
      }
    }
    for (int rank : {0, 1}) {
      for (int i = 0; i < kAhead; ++i) ASSERT_TRUE(outcomes[rank][i]->has_value()) << rank << " " << i;
    }
    EXPECT_EQ(group.num_unanswered_bytes(1), 0);
  }
}

// Rank 0 is updating when the collective of its metric fails: it hears of it afterwards.
TEST(UpdatesTest, AFailedCollectiveIsToldAfterTheUpdates) {
  TestGroup group(2);
  group.Form();
  Cancellation step;
  const Communicator::Call call = {"updates", {1, 7}, &step};
  Outcome metric = NewOutcome();
  group[0].AllReduce({"metric", {1, 1}, &step}, Numbers(0, 3), Reduction::kSum, false,
                     TestGroup::Into(metric));
  ASSERT_TRUE(group[0].BeginUpdates(call).ok());
  group.FailOnePartTo(1, absl::UnavailableError("the connection broke"));
  EXPECT_FALSE(metric->has_value());
  ASSERT_EQ(group.ends().size(), 1u) << "the others hear of it at once";
  EXPECT_FALSE(group[0].status().ok());
  group[0].EndUpdates(call);
  ASSERT_TRUE(metric->has_value());
  EXPECT_THAT(std::string((*metric)->status().message()), HasSubstr("the connection broke"));
  step.Cancel(absl::AbortedError("the metric failed"));
  EXPECT_FALSE(group[0].has_torn_updates());
}

// A peer dies while rank 0 updates, and only then rank 0 comes to its metric.
TEST(UpdatesTest, ACollectiveThatBeginsAfterTheGroupHasEndedIsRefusedAfterTheUpdates) {
  TestGroup group(2);
  group.Form();
  Cancellation step;
  const Communicator::Call call = {"updates", {1, 7}, &step};
  ASSERT_TRUE(group[0].BeginUpdates(call).ok());
  group[0].End(absl::AbortedError("rank 1 was lost"));
  const Outcome metric = NewOutcome();
  group[0].AllReduce({"metric", {1, 1}, &step}, Numbers(0, 3), Reduction::kSum, false,
                     TestGroup::Into(metric));
  absl::Status met;
  group[0].Barrier({"barrier", {1, 2}, &step}, [&](const absl::Status& status) { met = status; });
  EXPECT_FALSE(metric->has_value());
  EXPECT_TRUE(met.ok()) << met;
  group[0].EndUpdates(call);
  ASSERT_TRUE(metric->has_value());
  EXPECT_THAT(std::string((*metric)->status().message()),
              AllOf(HasSubstr("collective 'metric'"), HasSubstr("rank 1 was lost")));
  EXPECT_THAT(std::string(met.message()), HasSubstr("rank 1 was lost"));
  step.Cancel(absl::AbortedError("the metric failed"));
  EXPECT_FALSE(group[0].has_torn_updates());
  const Outcome later = NewOutcome();
  group[0].AllReduce({"metric", {1, 1}}, Numbers(0, 3), Reduction::kSum, false, TestGroup::Into(later));
  EXPECT_TRUE(later->has_value()) << "nobody is updating";
}

TEST(UpdatesTest, AStepThatIsCancelledBeforeItUpdatesHasTornNothing) {
  TestGroup group(2);
  group.Form();
  Cancellation step;
  step.Cancel(absl::DeadlineExceededError("too late"));
  const absl::Status begun = group[0].BeginUpdates({"updates", {1, 7}, &step});
  EXPECT_TRUE(absl::IsDeadlineExceeded(begun)) << begun;
  EXPECT_FALSE(group[0].has_torn_updates());
  // No section is left that anybody would have to wait for.
  const Outcome metric = NewOutcome();
  group[0].AllReduce({"metric", {1, 1}}, Numbers(0, 3), Reduction::kSum, false, TestGroup::Into(metric));
  group[0].End(absl::AbortedError("rank 1 was lost"));
  EXPECT_TRUE(metric->has_value());
}

// By another thread, between the two.
TEST(UpdatesTest, ASectionWhoseStepIsCancelledWhileItIsOpenedIsNotTorn) {
  UpdateSections sections;
  const uint64_t cancelled = sections.Open({{1, 7}}), begun = sections.Open({{1, 8}});
  sections.Tear(cancelled);
  EXPECT_FALSE(sections.SetCallback(cancelled, 5));
  EXPECT_FALSE(sections.is_torn());
  EXPECT_TRUE(sections.SetCallback(begun, 6));
  sections.Tear(begun);
  EXPECT_TRUE(sections.is_torn());
}

TEST(UpdatesTest, AStepThatIsCancelledInTheMiddleOfItsUpdatesHasTornThem) {
  TestGroup group(2);
  group.Form();
  Cancellation step;
  const Communicator::Call call = {"updates", {1, 7}, &step};
  Outcome metric = NewOutcome();
  group[0].AllReduce({"metric", {1, 1}}, Numbers(0, 3), Reduction::kSum, false, TestGroup::Into(metric));
  ASSERT_TRUE(group[0].BeginUpdates(call).ok());
  group[0].End(absl::AbortedError("rank 1 was lost"));
  EXPECT_FALSE(metric->has_value());
  step.Cancel(absl::DeadlineExceededError("too late"));
  EXPECT_TRUE(metric->has_value()) << "nothing is left to wait for";
  EXPECT_TRUE(group[0].has_torn_updates());
  group[0].ForgetTornUpdates();
  EXPECT_FALSE(group[0].has_torn_updates());
}

// It fetched something that is averaged, and did not train. Its token serves the next step of its plan.
TEST(UpdatesTest, WhatAStepDidNotEndIsNotTornByTheNextOne) {
  TestGroup group(2);
  group.Form();
  Cancellation token;
  ASSERT_TRUE(group[0].BeginUpdates({"updates", {1, 7}, &token}).ok());
  token.Reset();
  token.Cancel(absl::AbortedError("rank 1 was lost"));
  EXPECT_FALSE(group[0].has_torn_updates());
}

// Sections of two steps; what a step did not end is ended by the next one of the same node and step.
TEST(UpdatesTest, SectionsOfSeveralStepsOverlap) {
  TestGroup group(2);
  group.Form();
  Cancellation steps[2];
  Outcome metric = NewOutcome();
  group[0].AllReduce({"metric", {1, 1}}, Numbers(0, 3), Reduction::kSum, false, TestGroup::Into(metric));
  for (int turn = 0; turn < 2; ++turn) {
    ASSERT_TRUE(group[0].BeginUpdates({"updates", {1, 7}, &steps[0]}).ok());
  }
  ASSERT_TRUE(group[0].BeginUpdates({"updates", {1, 7}, &steps[1]}).ok());
  group[0].End(absl::AbortedError("rank 1 was lost"));
  group[0].EndUpdates({"updates", {1, 7}, &steps[0]});
  EXPECT_FALSE(metric->has_value());
  group[0].EndUpdates({"updates", {1, 7}, &steps[1]});
  EXPECT_TRUE(metric->has_value());
}

}  // namespace
}  // namespace weir
