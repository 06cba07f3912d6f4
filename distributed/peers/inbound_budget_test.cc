#include "distributed/peers/inbound_budget.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1 << 20;

// A sender that does what tensor_pusher.h does.
class Sender {
 public:
  Sender(InboundBudget& budget, Incarnation life) : budget_(budget), life_(life) {}

  // Sends as much as it may; whether all of it was taken.
  bool Fill(int64_t message = kMiB / 4) {
    while (arrivals_.empty() || static_cast<int64_t>(arrivals_.size() + 1) * message <= window_.bytes) {
      absl::StatusOr<InboundBudget::Arrival> arrival = budget_.Arrive(life_, message);
      if (!arrival.ok()) return false;
      arrivals_.push_back(*std::move(arrival));
    }
    return true;
  }
  void Drain(int64_t message = kMiB / 4) {
    for (; !arrivals_.empty(); arrivals_.pop_back()) Note(budget_.Answer(life_, message));
  }
  void Note(const InboundWindow& window) {
    if (window.number > window_.number) window_ = window;
  }
  int64_t window() const { return window_.bytes; }

 private:
  InboundBudget& budget_;
  const Incarnation life_;
  InboundWindow window_{0, InboundBudget::kFirstWindow};
  std::vector<InboundBudget::Arrival> arrivals_;
};

TEST(InboundBudgetTest, OneSenderMayHaveItAllAndManyShareIt) {
  InboundBudget budget(64 * kMiB);
  std::vector<Sender> senders;
  for (Incarnation life = 1; life <= 8; ++life) senders.emplace_back(budget, life);
  ASSERT_TRUE(senders[0].Fill());
  senders[0].Drain();
  EXPECT_EQ(senders[0].window(), 64 * kMiB);
  // The others come while it has all of it.
  for (int round = 0; round < 4; ++round) {
    for (Sender& sender : senders) {
      ASSERT_TRUE(sender.Fill());
      // Those that have come begin with kFirstWindow, beyond the budget.
      EXPECT_LE(budget.use().arrived, (64 + 7 * 4) * kMiB) << round;
    }
    for (Sender& sender : senders) sender.Drain();
  }
  EXPECT_EQ(budget.use().granted, 64 * kMiB);
  EXPECT_EQ(budget.use().arrived, 0);
  EXPECT_EQ(budget.use().senders, 8);
  EXPECT_EQ(budget.use().refused, 0);
  for (const Sender& sender : senders) EXPECT_EQ(sender.window(), 8 * kMiB);
}

TEST(InboundBudgetTest, EverybodyHasALeastWindow) {
  constexpr int kSenders = 1000;
  InboundBudget budget(16 * kMiB), tiny(10);
  for (InboundBudget* each : {&budget, &tiny}) {
    std::vector<Sender> senders;
    for (Incarnation life = 1; life <= kSenders; ++life) senders.emplace_back(*each, life);
    for (int round = 0; round < 3; ++round) {
      for (Sender& sender : senders) {
        ASSERT_TRUE(sender.Fill(100'000));
        sender.Drain(100'000);
      }
    }
    for (const Sender& sender : senders) ASSERT_GE(sender.window(), 1);
    EXPECT_EQ(each->use().refused, 0);
  }
  EXPECT_LE(budget.use().granted, 16 * kMiB);
}

TEST(InboundBudgetTest, WhoSendsBeyondItsWindowIsRefused) {
  InboundBudget budget(8 * kMiB);
  std::vector<InboundBudget::Arrival> arrivals;
  absl::Status refused;
  while (refused.ok() && arrivals.size() < 100) {
    absl::StatusOr<InboundBudget::Arrival> arrival = budget.Arrive(7, kMiB);
    refused = arrival.status();
    if (arrival.ok()) arrivals.push_back(*std::move(arrival));
  }
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("it may have 4194304 under way"));
  EXPECT_EQ(budget.use().arrived, InboundBudget::kFirstWindow);
  EXPECT_EQ(budget.use().refused, 1);
  // Sizes that no message has.
  EXPECT_FALSE(budget.Arrive(7, INT64_MAX).ok());
  // Others are not touched, and one message may always come.
  EXPECT_TRUE(budget.Arrive(8, 100 * kMiB).ok());
  arrivals.clear();
  EXPECT_TRUE(budget.Arrive(7, 100 * kMiB).ok());
}

TEST(InboundBudgetTest, ALifeThatIsOverHasNothing) {
  InboundBudget budget(8 * kMiB);
  std::optional<InboundBudget::Arrival> late = budget.Arrive(7, kMiB).value();
  EXPECT_EQ(budget.use().granted, InboundBudget::kFirstWindow);
  budget.Forget(7);
  EXPECT_EQ(budget.use().granted, 0);
  EXPECT_EQ(budget.Answer(7, kMiB).number, 0u);
  late.reset();
  EXPECT_EQ(budget.use().senders, 0);
}

// One that has pushed everything it had a minute ago must not keep what the others need now.
TEST(InboundBudgetTest, TheWindowsOfTheIdleComeBack) {
  Scheduler scheduler(1);
  SimulatedEnvironment environment(scheduler, "ps");
  InboundBudget budget(64 * kMiB, environment);
  Sender idle(budget, 1), busy(budget, 2), waiting(budget, 3);
  ASSERT_TRUE(idle.Fill());
  idle.Drain();
  EXPECT_EQ(idle.window(), 64 * kMiB);
  ASSERT_TRUE(busy.Fill());
  busy.Drain();
  EXPECT_EQ(busy.window(), InboundBudget::kLeastWindow);
  ASSERT_TRUE(waiting.Fill());
  // As long as messages and answers may be on their way nothing is taken.
  scheduler.RunFor(InboundBudget::kForgottenAfter);
  ASSERT_TRUE(busy.Fill());
  busy.Drain();
  EXPECT_EQ(busy.window(), InboundBudget::kLeastWindow);
  scheduler.RunFor(absl::Milliseconds(1));
  ASSERT_TRUE(busy.Fill());
  busy.Drain();
  EXPECT_EQ(busy.window(), 32 * kMiB);
  EXPECT_EQ(budget.use().senders, 2) << "what has come of the third one is not delivered yet";
  EXPECT_EQ(budget.use().granted, (32 + 4) * kMiB);
  waiting.Drain();
  scheduler.RunFor(InboundBudget::kForgottenAfter + absl::Milliseconds(1));
  EXPECT_EQ(budget.use().senders, 0);
  EXPECT_EQ(budget.use().granted, 0);
  // It comes again, as one that is new.
  Sender again(budget, 1);
  ASSERT_TRUE(again.Fill());
  again.Drain();
  EXPECT_EQ(again.window(), 64 * kMiB);
  EXPECT_EQ(budget.use().refused, 0);
}

TEST(InboundBudgetTest, WindowsAreReadFromWhateverComes) {
  WireWriter writer;
  InboundWindow{3, 1000}.EncodeTo(&writer);
  const std::string text = writer.Take();
  WireReader reader(text), empty(""), part(absl::string_view(text).substr(0, 1));
  EXPECT_EQ(InboundWindow::DecodeFrom(&reader).bytes, 1000);
  EXPECT_EQ(InboundWindow::DecodeFrom(&empty).number, 0u);
  EXPECT_EQ(InboundWindow::DecodeFrom(&part).number, 0u);
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, InboundBudget::kMostWindow + 1}) {
    WireWriter hostile;
    InboundWindow{3, bytes}.EncodeTo(&hostile);
    const std::string sent = hostile.Take();
    WireReader read(sent);
    EXPECT_EQ(InboundWindow::DecodeFrom(&read).number, 0u) << bytes;
  }
}

}  // namespace
}  // namespace weir
