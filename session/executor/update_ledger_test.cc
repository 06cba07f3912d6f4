#include "session/executor/update_ledger.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "graph/graph.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

constexpr uint64_t kWriter = 7, kUpdate = 11, kChief = 21;

class UpdateLedgerTest : public ::testing::Test {
 protected:
  UpdateLedger::Attempt Begin(int64_t number, int64_t settled_below = 0, uint64_t writer = kWriter) {
    absl::StatusOr<UpdateLedger::Attempt> attempt = ledger_.BeginStep({writer, number, settled_below});
    EXPECT_TRUE(attempt.ok()) << attempt.status();
    return *std::move(attempt);
  }
  absl::Status Count(UpdateLedger::Attempt& attempt, uint64_t update = kUpdate, bool repeats = false) {
    return attempt.Apply(update, repeats, [this] {
      ++num_applied_;
      return absl::OkStatus();
    });
  }

  UpdateLedger ledger_;
  int num_applied_ = 0;
};

TEST_F(UpdateLedgerTest, ASecondAttemptDoesWhatIsLeft) {
  UpdateLedger::Attempt first = Begin(1), second = Begin(1);
  EXPECT_TRUE(Count(first).ok());
  EXPECT_EQ(num_applied_, 1);
  EXPECT_TRUE(Count(second).ok());
  EXPECT_EQ(num_applied_, 1);
  EXPECT_TRUE(Count(second, kUpdate + 1).ok());
  EXPECT_EQ(num_applied_, 2);
  EXPECT_TRUE(Count(first, kUpdate + 1).ok());
  EXPECT_EQ(num_applied_, 2);
}

TEST_F(UpdateLedgerTest, ManyAreAppliedAtOnceOrNone) {
  const uint64_t updates[] = {kUpdate, kUpdate + 1, kUpdate + 2};
  UpdateLedger::Attempt first = Begin(1), second = Begin(1), third = Begin(1);
  const auto apply = [this](UpdateLedger::Attempt& attempt, absl::Span<const uint64_t> keys,
                            const absl::Status& status = absl::OkStatus()) {
    return attempt.ApplyAll(keys, [&] {
      num_applied_ += 10;
      return status;
    });
  };
  EXPECT_EQ(apply(first, updates, absl::InternalError("no")).status(), absl::InternalError("no"));
  EXPECT_EQ(num_applied_, 10);
  EXPECT_TRUE(*apply(first, absl::MakeConstSpan(updates).first(2)));
  EXPECT_EQ(num_applied_, 20);
  // One is left: it is for Apply.
  EXPECT_FALSE(*apply(second, updates));
  EXPECT_EQ(num_applied_, 20);
  for (const uint64_t update : updates) EXPECT_TRUE(Count(second, update).ok());
  EXPECT_EQ(num_applied_, 21);
  EXPECT_FALSE(*apply(third, absl::MakeConstSpan(updates).last(1)));
}

TEST_F(UpdateLedgerTest, ManyAreNotAppliedWhileOneIsJustApplied) {
  const uint64_t updates[] = {kUpdate, kUpdate + 1};
  UpdateLedger::Attempt first = Begin(1), second = Begin(1);
  const auto outer = first.ApplyAll(updates, [&] {
    absl::Status inner;
    std::thread other([&] {
      EXPECT_FALSE(*second.ApplyAll(updates, [] { return absl::OkStatus(); }));
      inner = Count(second, kUpdate + 1);
    });
    other.join();
    EXPECT_TRUE(absl::IsAborted(inner)) << inner;
    return absl::OkStatus();
  });
  EXPECT_TRUE(*outer);
  EXPECT_EQ(num_applied_, 0);
}

TEST_F(UpdateLedgerTest, StepsAndWritersAreToldApart) {
  UpdateLedger::Attempt one = Begin(1), two = Begin(2), other = Begin(1, 0, kWriter + 1);
  for (UpdateLedger::Attempt* attempt : {&one, &two, &other}) EXPECT_TRUE(Count(*attempt).ok());
  EXPECT_EQ(num_applied_, 3);
}

TEST_F(UpdateLedgerTest, AnUpdateThatFailedIsNotApplied) {
  UpdateLedger::Attempt first = Begin(1), second = Begin(1);
  const absl::Status failed = first.Apply(kUpdate, false, [] { return absl::InternalError("no"); });
  EXPECT_EQ(failed, absl::InternalError("no"));
  EXPECT_TRUE(Count(second).ok());
  EXPECT_EQ(num_applied_, 1);
}

// Whether the first one will have applied it is not known.
TEST_F(UpdateLedgerTest, AnUpdateThatIsJustAppliedIsNotSkipped) {
  UpdateLedger::Attempt first = Begin(1), second = Begin(1);
  const absl::Status outer = first.Apply(kUpdate, false, [&] {
    absl::Status inner;
    std::thread other([&] { inner = Count(second); });
    other.join();
    EXPECT_TRUE(absl::IsAborted(inner)) << inner;
    return absl::OkStatus();
  });
  EXPECT_TRUE(outer.ok()) << outer;
  EXPECT_TRUE(Count(second).ok());
  EXPECT_EQ(num_applied_, 0);
}

TEST_F(UpdateLedgerTest, WhatIsSettledIsDoneByNobody) {
  UpdateLedger::Attempt late = Begin(1);
  UpdateLedger::Attempt next = Begin(2, /*settled_below=*/2);
  EXPECT_TRUE(absl::IsAborted(Count(late)));
  const auto later = ledger_.BeginStep({kWriter, 1, 0});
  EXPECT_TRUE(absl::IsAborted(later.status())) << later.status();
  EXPECT_TRUE(Count(next).ok());
  EXPECT_EQ(num_applied_, 1);
}

TEST_F(UpdateLedgerTest, EachTurnOfALoopIsDoneOnce) {
  UpdateLedger::Attempt first = Begin(1);
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(Count(first, kUpdate, /*repeats=*/true).ok());
  EXPECT_EQ(num_applied_, 3);
  UpdateLedger::Attempt second = Begin(1);
  for (int turn = 0; turn < 5; ++turn) EXPECT_TRUE(Count(second, kUpdate, /*repeats=*/true).ok());
  EXPECT_EQ(num_applied_, 5);
}

TEST_F(UpdateLedgerTest, WhatWasRolledBackIsAppliedAgain) {
  UpdateLedger::Attempt before = Begin(1);
  EXPECT_TRUE(Count(before).ok());
  UpdateLedger::Attempt computes = Begin(2);
  ledger_.BeginRestore(5, kChief);
  EXPECT_TRUE(absl::IsAborted(Count(computes))) << "from values that are gone";
  EXPECT_TRUE(absl::IsAborted(ledger_.BeginStep({kWriter, 1, 0}).status()));
  ledger_.BeginRestore(5, kChief);  // tried again
  EXPECT_TRUE(ledger_.EndRestore(5).ok());
  EXPECT_TRUE(absl::IsAborted(Count(computes)));
  UpdateLedger::Attempt after = Begin(1);
  EXPECT_TRUE(Count(after).ok());
  EXPECT_EQ(num_applied_, 2);
  EXPECT_TRUE(ledger_.EndRestore(5).ok()) << "its end was not heard of";
  EXPECT_TRUE(Count(after, kUpdate + 1).ok());
  ledger_.BeginRestore(6, kChief);
  EXPECT_TRUE(absl::IsAborted(ledger_.EndRestore(5)));
  EXPECT_TRUE(absl::IsAborted(ledger_.BeginStep({kWriter, 1, 0}).status())) << "the other one has not ended";
  EXPECT_TRUE(ledger_.EndRestore(6).ok());
  for (const uint64_t late : {5, 6}) ledger_.BeginRestore(late, kChief);
  Begin(2);
}

TEST_F(UpdateLedgerTest, WhatACheckpointContainsIsNotAppliedToItAgain) {
  UpdateLedger::Attempt saved = Begin(1), lost = Begin(2), other = Begin(1, 0, kWriter + 1);
  EXPECT_TRUE(Count(saved).ok());
  for (int turn = 0; turn < 2; ++turn) EXPECT_TRUE(Count(other, kUpdate, /*repeats=*/true).ok());
  bool is_read = false;
  const std::string text = ledger_.Capture([&] { is_read = true; });
  EXPECT_TRUE(is_read);
  EXPECT_TRUE(Count(lost).ok());
  EXPECT_EQ(num_applied_, 4);

  UpdateLedger restarted;
  restarted.BeginRestore(5, kChief);
  EXPECT_TRUE(restarted.EndRestore(5, text + text).ok()) << "of two workers, of which one has said the same";
  EXPECT_EQ(restarted.Capture([] {}), text) << "the next checkpoint";
  num_applied_ = 0;
  UpdateLedger::Attempt again = *restarted.BeginStep({kWriter, 1, 1});
  EXPECT_TRUE(Count(again).ok());
  EXPECT_EQ(num_applied_, 0) << "it is in the checkpoint";
  EXPECT_TRUE(Count(again, kUpdate + 1).ok());
  again = *restarted.BeginStep({kWriter, 2, 1});
  EXPECT_TRUE(Count(again).ok());
  EXPECT_EQ(num_applied_, 2) << "that is not";
  again = *restarted.BeginStep({kWriter + 1, 1, 0});
  for (int turn = 0; turn < 3; ++turn) EXPECT_TRUE(Count(again, kUpdate, /*repeats=*/true).ok());
  EXPECT_EQ(num_applied_, 3);
  EXPECT_TRUE(restarted.EndRestore(5, text).ok()) << "its end was not heard of";
  EXPECT_TRUE(absl::IsAborted(restarted.BeginStep({kWriter, 0, 0}).status()));
  restarted.BeginRestore(6, kChief);
  EXPECT_TRUE(restarted.EndRestore(6).ok()) << "an initialisation";
  EXPECT_EQ(restarted.Capture([] {}), "");
}

TEST_F(UpdateLedgerTest, ATextThatNoWorkerWritesEndsNoRestore) {
  ledger_.BeginRestore(5, kChief);
  EXPECT_TRUE(absl::IsInvalidArgument(ledger_.EndRestore(5, "x")));
  EXPECT_TRUE(absl::IsAborted(ledger_.BeginStep({kWriter, 1, 0}).status()));
  EXPECT_TRUE(ledger_.EndRestore(5).ok());
  Begin(1);
}

TEST_F(UpdateLedgerTest, ARestoreIsGivenUpWithTheLifeOfItsChief) {
  ledger_.BeginRestore(5, kChief);
  ledger_.GiveUpRestore(kChief + 1);
  EXPECT_TRUE(absl::IsAborted(ledger_.BeginStep({kWriter, 1, 0}).status()));
  ledger_.GiveUpRestore(kChief);
  UpdateLedger::Attempt attempt = Begin(1);
  EXPECT_TRUE(Count(attempt).ok());
  EXPECT_TRUE(absl::IsAborted(ledger_.EndRestore(5))) << "others have trained meanwhile";
  // One that has ended is not given up.
  ledger_.BeginRestore(6, kChief);
  EXPECT_TRUE(ledger_.EndRestore(6).ok());
  ledger_.GiveUpRestore(kChief);
  EXPECT_TRUE(ledger_.EndRestore(6).ok());
}

// A restore sets variables alone: an accumulator on a task that was not lost still has what it was given.
TEST_F(UpdateLedgerTest, ARestoreLeavesWhatAccumulatorsHave) {
  constexpr uint64_t kOther = kUpdate + 1;
  ASSERT_FALSE(IsUpdateOfVariable(kOther));
  UpdateLedger::Attempt before = Begin(1);
  EXPECT_TRUE(Count(before).ok());
  EXPECT_TRUE(Count(before, kOther).ok());
  ledger_.BeginRestore(5, kChief);
  ASSERT_TRUE(ledger_.EndRestore(5).ok());
  EXPECT_TRUE(absl::IsAborted(Count(before, kOther + 2))) << "from values that are gone";
  UpdateLedger::Attempt again = Begin(1);
  EXPECT_TRUE(Count(again, kOther).ok());
  EXPECT_EQ(num_applied_, 2) << "it has it";
  EXPECT_TRUE(Count(again).ok());
  EXPECT_EQ(num_applied_, 3) << "its value is another one";
  UpdateLedger::Attempt next = Begin(2, /*settled_below=*/2);
  EXPECT_TRUE(absl::IsAborted(Count(again, kOther)));
}

// Each restore takes away marks, and they are counted: a writer that is tried again over and over is not
// refused.
TEST_F(UpdateLedgerTest, MarksThatARestoreTakesAwayAreFree) {
  constexpr int64_t kMany = UpdateLedger::kMaxMarks / 4;
  for (uint64_t restore = 1; restore <= 8; ++restore) {
    UpdateLedger::Attempt attempt = Begin(1);
    for (int64_t i = 0; i < kMany; ++i) ASSERT_TRUE(Count(attempt, kUpdate + 2 * i).ok());
    Begin(2);
    ledger_.BeginRestore(restore, kChief);
    ASSERT_TRUE(ledger_.EndRestore(restore).ok());
    Begin(static_cast<int64_t>(2 + restore));
  }
}

// One call of a training loop may be an epoch.
// A checkpoint has none of the accumulators and tables that steps change.
TEST_F(UpdateLedgerTest, OnlyUpdatesOfVariablesAreCaptured) {
  constexpr uint64_t kOther = kUpdate + 1;
  EXPECT_TRUE(IsUpdateOfVariable(kUpdate));
  EXPECT_FALSE(IsUpdateOfVariable(kOther));
  UpdateLedger::Attempt saved = Begin(1);
  EXPECT_TRUE(Count(saved).ok());
  EXPECT_TRUE(Count(saved, kOther).ok());
  const std::string text = ledger_.Capture([] {});
  UpdateLedger restarted;
  restarted.BeginRestore(5, kChief);
  ASSERT_TRUE(restarted.EndRestore(5, text).ok());
  UpdateLedger::Attempt again = *restarted.BeginStep({kWriter, 1, 0});
  EXPECT_TRUE(Count(again).ok());
  EXPECT_EQ(num_applied_, 2);
  EXPECT_TRUE(Count(again, kOther).ok());
  EXPECT_EQ(num_applied_, 3);
}

TEST_F(UpdateLedgerTest, ManyStepsMayBeUnsettled) {
  for (int64_t number = 1; number <= 5000; ++number) {
    UpdateLedger::Attempt attempt = Begin(number);
    for (uint64_t update = 0; update < 3; ++update) EXPECT_TRUE(Count(attempt, kUpdate + 2 * update).ok());
  }
  UpdateLedger::Attempt again = Begin(1);
  EXPECT_TRUE(Count(again).ok());
  EXPECT_EQ(num_applied_, 15000);
}

TEST_F(UpdateLedgerTest, ItsMemoryIsBounded) {
  constexpr int64_t kMost = UpdateLedger::kMaxMarks;
  for (int64_t number = 1; number <= kMost / 2; ++number) {
    UpdateLedger::Attempt attempt = Begin(number);
    ASSERT_TRUE(Count(attempt).ok());
  }
  const absl::Status refused = ledger_.BeginStep({kWriter, kMost, 0}).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(num_applied_, kMost / 2);
  UpdateLedger::Attempt again = Begin(1);
  EXPECT_TRUE(Count(again).ok());
  EXPECT_EQ(num_applied_, kMost / 2) << "it is known";
  Begin(kMost, /*settled_below=*/kMost);
  for (int64_t number = kMost + 1; number <= kMost + 100; ++number) Begin(number);
  for (uint64_t i = 0; i <= UpdateLedger::kMaxWriters; ++i) Begin(1, 0, /*writer=*/100 + i);
  EXPECT_EQ(ledger_.num_writers(), static_cast<int>(UpdateLedger::kMaxWriters));
}

TEST(UpdateKeyTest, AnUpdateHasAResourceAndReturnsNothing) {
  Graph graph(StandardOps());
  const auto add = [&](NodeSpec spec) { return graph.AddNode(std::move(spec)).value(); };
  Node* const handle = add(
      {.op = "VarHandleOp", .name = "v", .attrs = {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}}});
  Node* const one = add(
      {.op = "Const", .name = "one", .attrs = {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}}});
  Node* const read = add({.op = "ReadVariableOp",
                          .name = "read",
                          .inputs = {handle->output(0)},
                          .attrs = {{"dtype", DType::kFloat32}}});
  const auto assign = [&](const char* op, const char* name) {
    return add({.op = op, .name = name, .inputs = {handle->output(0), one->output(0)}});
  };
  EXPECT_EQ(UpdateKey(*handle), 0u);
  EXPECT_EQ(UpdateKey(*one), 0u);
  EXPECT_EQ(UpdateKey(*read), 0u);
  EXPECT_NE(UpdateKey(*assign("AssignAddVariableOp", "add")), 0u);
  EXPECT_TRUE(IsUpdateOfVariable(UpdateKey(*assign("AssignSubVariableOp", "sub"))));
  for (const char* prefix : {"", "Resource"}) {
    Node* const sum = add({.op = absl::StrCat(prefix, "ConditionalAccumulator"),
                           .name = absl::StrCat(prefix, "sum"),
                           .attrs = {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}}});
    Node* const step = add({.op = "Const",
                            .name = absl::StrCat(prefix, "step"),
                            .attrs = {{"value", Tensor::Scalar(int64_t{0})}, {"dtype", DType::kInt64}}});
    const uint64_t apply = UpdateKey(*add({.op = absl::StrCat(prefix, "AccumulatorApplyGradient"),
                                           .name = absl::StrCat(prefix, "apply"),
                                           .inputs = {sum->output(0), step->output(0), one->output(0)}}));
    EXPECT_NE(apply, 0u) << prefix;
    EXPECT_FALSE(IsUpdateOfVariable(apply)) << prefix;
    EXPECT_EQ(UpdateKey(*add({.op = absl::StrCat(prefix, "AccumulatorNumAccumulated"),
                              .name = absl::StrCat(prefix, "count"),
                              .inputs = {sum->output(0)}})),
              0u)
        << prefix;
  }
  EXPECT_NE(UpdateKey(*assign("AssignVariableOp", "set")), UpdateKey(*assign("AssignVariableOp", "set_1")));
}

}  // namespace
}  // namespace weir
