#include "session/rendezvous.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/tensor_sender.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RendezvousTest, MeetsInEitherOrder) {
  const ReceivedEdges edges = ReceivedEdges::First(2);
  Rendezvous rendezvous(edges);
  float first = 0, second = 0;
  rendezvous.RecvAsync(
      0, [&](const absl::Status&, const Tensor& tensor, bool) { first = tensor.scalar<float>(); });
  EXPECT_THAT(rendezvous.awaited_edges(), ElementsAre(0));
  EXPECT_TRUE(rendezvous.Send(0, Tensor::Scalar(1.0f), false).ok());
  EXPECT_TRUE(rendezvous.Send(1, Tensor::Scalar(2.0f), false).ok());
  rendezvous.RecvAsync(
      1, [&](const absl::Status&, const Tensor& tensor, bool) { second = tensor.scalar<float>(); });
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

// Collects what a step sends to other tasks.
class Collecting final : public TensorSender {
 public:
  absl::Status Send(PlanId plan, int64_t step_id, int, int64_t turn, const DeviceName&, const Tensor&,
                    bool) override {
    collected.emplace_back(plan, step_id);
    turns.push_back(turn);
    return absl::OkStatus();
  }
  void Flush(PlanId, int64_t) override {}
  void Discard(PlanId plan, int64_t step_id) override {
    std::erase(collected, std::make_pair(plan, step_id));
  }
  void Withdraw(PlanId plan, int64_t step_id) override { Discard(plan, step_id); }
  std::vector<std::pair<PlanId, int64_t>> collected;
  std::vector<int64_t> turns;
};

TEST(RendezvousTest, WhatAStepHasNotSentGoesWithIt) {
  Collecting sender;
  const ReceivedEdges edges = ReceivedEdges::First(1);
  Rendezvous rendezvous(edges, &sender, 7);
  for (const int64_t step : {1, 2}) {
    rendezvous.Reset(step);
    ASSERT_TRUE(rendezvous.SendTo(DeviceName(), 0, Tensor::Scalar(1.0f), false).ok());
    EXPECT_THAT(sender.collected, ElementsAre(std::pair(PlanId{7}, step)))
        << "and nothing of the step before";
  }
  rendezvous.Reset(0);
  EXPECT_THAT(sender.collected, testing::IsEmpty());
}

TEST(RendezvousTest, RefusesStrangeAndRepeatedEdges) {
  const ReceivedEdges edges = ReceivedEdges::First(1);
  Rendezvous rendezvous(edges);
  EXPECT_THAT(rendezvous.Send(1, Tensor(), false).message(), HasSubstr("edge 1"));
  EXPECT_FALSE(rendezvous.Send(-1, Tensor(), false).ok());
  EXPECT_TRUE(rendezvous.Send(0, Tensor(), false).ok());
  EXPECT_THAT(rendezvous.Send(0, Tensor(), false).message(), HasSubstr("second tensor"));
  EXPECT_THAT(rendezvous.SendTo(DeviceName(), 0, Tensor(), false).message(), HasSubstr("no other"));
}

TEST(RendezvousTest, HasSlotsForWhatIsReceivedOnly) {
  const ReceivedEdges edges({1 << 30, 5, 7, 5});
  EXPECT_EQ(edges.size(), 3u);
  Rendezvous rendezvous(edges);
  for (const int edge : {0, 4, 6, 8, (1 << 30) - 1, (1 << 30) + 1}) {
    EXPECT_EQ(edges.SlotOf(edge), ReceivedEdges::kNone) << edge;
    EXPECT_THAT(rendezvous.Send(edge, Tensor(), false).message(), HasSubstr("none of the 3"));
  }
  for (const int edge : {5, 7, 1 << 30}) {
    float received = 0;
    rendezvous.RecvAsync(
        edge, [&](const absl::Status&, const Tensor& tensor, bool) { received = tensor.scalar<float>(); });
    EXPECT_THAT(rendezvous.awaited_edges(), ElementsAre(edge));
    EXPECT_TRUE(rendezvous.Send(edge, Tensor::Scalar(2.0f), false).ok());
    EXPECT_EQ(received, 2);
  }
}

TEST(RendezvousTest, AbortWakesEveryWaiterOnceAndLasts) {
  const ReceivedEdges edges = ReceivedEdges::First(3);
  Rendezvous rendezvous(edges);
  int woken = 0;
  absl::Status seen;
  const auto waiter = [&](const absl::Status& status, const Tensor&, bool) {
    ++woken;
    seen = status;
  };
  rendezvous.RecvAsync(0, waiter);
  rendezvous.RecvAsync(1, waiter);
  rendezvous.Abort(absl::AbortedError("peer lost"));
  rendezvous.Abort(absl::InternalError("too late"));
  EXPECT_EQ(woken, 2);
  rendezvous.RecvAsync(2, waiter);
  EXPECT_EQ(woken, 3);
  EXPECT_EQ(seen.message(), "peer lost");
  EXPECT_EQ(rendezvous.Send(2, Tensor(), false).message(), "peer lost");
  rendezvous.Reset(7);
  EXPECT_TRUE(rendezvous.Send(2, Tensor(), false).ok());
}

// What is received of an edge, as numbers; -1 for a dead one.
class Received {
 public:
  Received(Rendezvous& rendezvous, int edge) : rendezvous_(rendezvous), edge_(edge) {}
  void Next() {
    rendezvous_.RecvAsync(edge_, [this](const absl::Status& status, const Tensor& tensor, bool is_dead) {
      EXPECT_TRUE(status.ok()) << status;
      numbers.push_back(is_dead ? -1 : tensor.num_elements() == 0 ? 0 : tensor.scalar<float>());
    });
  }
  std::vector<float> numbers;

 private:
  Rendezvous& rendezvous_;
  const int edge_;
};

Tensor F(float value) { return Tensor::Scalar(value); }

TEST(RendezvousTest, TheKthTensorOfAnEdgeInALoopIsForTheKthRecv) {
  const ReceivedEdges edges = ReceivedEdges::First(2);
  Rendezvous rendezvous(edges, nullptr, 0, std::vector<LoopEdge>{{1, 0}});
  for (const int64_t step : {1, 2}) {
    rendezvous.Reset(step);
    Received received(rendezvous, 1);
    EXPECT_TRUE(rendezvous.Send(1, F(1), false).ok());
    EXPECT_TRUE(rendezvous.Send(1, F(2), true).ok());
    received.Next();
    received.Next();
    received.Next();
    EXPECT_THAT(rendezvous.awaited_edges(), ElementsAre(1));
    EXPECT_TRUE(rendezvous.Send(1, F(3), false).ok());
    EXPECT_THAT(rendezvous.awaited_edges(), testing::IsEmpty());
    EXPECT_TRUE(rendezvous.Send(1, F(4), false).ok()) << "is left over";
    EXPECT_THAT(received.numbers, ElementsAre(1, -1, 3));
  }
}

TEST(RendezvousTest, MessagesMayOvertakeOneAnother) {
  const ReceivedEdges edges = ReceivedEdges::First(1);
  Rendezvous rendezvous(edges, nullptr, 0, std::vector<LoopEdge>{{0, 0}});
  Received received(rendezvous, 0);
  received.Next();
  EXPECT_TRUE(rendezvous.Deliver(0, 2, F(3), false).ok());
  EXPECT_TRUE(rendezvous.Deliver(0, 1, F(2), true).ok());
  EXPECT_THAT(received.numbers, testing::IsEmpty());
  EXPECT_TRUE(rendezvous.Deliver(0, 0, F(1), false).ok());
  received.Next();
  received.Next();
  EXPECT_THAT(received.numbers, ElementsAre(1, -1, 3));
}

TEST(RendezvousTest, AHeadStartIsReceivedFirst) {
  const ReceivedEdges edges = ReceivedEdges::First(1);
  Rendezvous rendezvous(edges, nullptr, 0, std::vector<LoopEdge>{{0, 2}});
  for (const int64_t step : {1, 2}) {
    rendezvous.Reset(step);
    Received received(rendezvous, 0);
    for (int i = 0; i < 3; ++i) received.Next();
    EXPECT_THAT(received.numbers, ElementsAre(0, 0));
    EXPECT_TRUE(rendezvous.Deliver(0, 0, F(5), false).ok());
    EXPECT_THAT(received.numbers, ElementsAre(0, 0, 5));
  }
}

TEST(RendezvousTest, RefusesTurnsThatNoDeviceSends) {
  const ReceivedEdges edges = ReceivedEdges::First(2);
  Rendezvous rendezvous(edges, nullptr, 0, std::vector<LoopEdge>{{0, 0}});
  EXPECT_THAT(rendezvous.Deliver(0, kOnlyTurn, F(1), false).message(), HasSubstr("without its turn"));
  EXPECT_THAT(rendezvous.Deliver(1, 0, F(1), false).message(), HasSubstr("in no loop"));
  EXPECT_TRUE(rendezvous.Deliver(1, kOnlyTurn, F(1), false).ok());
  EXPECT_TRUE(rendezvous.Deliver(0, 1, F(1), false).ok());
  EXPECT_THAT(rendezvous.Deliver(0, 1, F(1), false).message(), HasSubstr("a second one"));
  EXPECT_TRUE(rendezvous.Deliver(0, 0, F(1), false).ok());
  Received received(rendezvous, 0);
  received.Next();
  EXPECT_THAT(rendezvous.Deliver(0, 0, F(1), false).message(), HasSubstr("which is over"));
  for (const int64_t turn : {kMaxQueued + 1, INT64_MAX}) {
    EXPECT_EQ(rendezvous.Deliver(0, turn, F(1), false).code(), absl::StatusCode::kResourceExhausted) << turn;
    EXPECT_EQ(rendezvous.Hold(0, turn, nullptr).status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(rendezvous.Deliver(0, kMaxQueued, F(1), false).ok());
  for (int64_t turn = 2; turn < kMaxQueued; ++turn) {
    EXPECT_TRUE(rendezvous.Deliver(0, turn, F(1), false).ok()) << turn;
  }
}

TEST(RendezvousTest, WhatIsHeldForATensorGoesWhenItIsReceived) {
  const ReceivedEdges edges = ReceivedEdges::First(1);
  Rendezvous rendezvous(edges, nullptr, 0, std::vector<LoopEdge>{{0, 0}});
  std::vector<std::shared_ptr<int>> held;
  for (int i = 0; i < 4; ++i) held.push_back(std::make_shared<int>(i));
  const auto left = [&] {
    int count = 0;
    for (const auto& one : held) count += one.use_count() > 1;
    return count;
  };
  for (int64_t turn = 0; turn < 4; ++turn) EXPECT_TRUE(*rendezvous.Hold(0, turn, held[turn]));
  Received received(rendezvous, 0);
  EXPECT_TRUE(rendezvous.Deliver(0, 0, F(1), false).ok());
  EXPECT_EQ(left(), 4);
  received.Next();
  EXPECT_EQ(left(), 3) << "it had come before";
  received.Next();
  EXPECT_TRUE(rendezvous.Deliver(0, 1, F(2), false).ok());
  EXPECT_EQ(left(), 2) << "it was waited for";
  rendezvous.Reset(2);
  EXPECT_EQ(left(), 0);
  EXPECT_TRUE(*rendezvous.Hold(0, 0, held[0]));
  rendezvous.Abort(absl::AbortedError("peer lost"));
  EXPECT_EQ(left(), 0);
  EXPECT_FALSE(*rendezvous.Hold(0, 1, held[1]));
  EXPECT_EQ(left(), 0);
}

TEST(RendezvousTest, WhatGoesToOthersSaysItsTurn) {
  Collecting sender;
  const ReceivedEdges edges = ReceivedEdges::First(0);
  Rendezvous rendezvous(edges, &sender, 7);
  for (const int64_t step : {1, 2}) {
    rendezvous.Reset(step);
    sender.turns.clear();
    for (const int edge : {4, 4, 5, 4}) {
      ASSERT_TRUE(rendezvous.SendTo(DeviceName(), edge, F(1), false, /*is_in_loop=*/true).ok());
    }
    ASSERT_TRUE(rendezvous.SendTo(DeviceName(), 6, F(1), false).ok());
    EXPECT_THAT(sender.turns, ElementsAre(0, 1, 0, 2, kOnlyTurn));
  }
}

TEST(RendezvousTest, ThreadsMeet) {
  constexpr int kEdges = 2000;
  const ReceivedEdges edges = ReceivedEdges::First(kEdges);
  Rendezvous rendezvous(edges);
  std::atomic<int64_t> sum{0};
  std::thread sender([&] {
    for (int i = 0; i < kEdges; ++i) EXPECT_TRUE(rendezvous.Send(i, Tensor::Scalar<int64_t>(i), false).ok());
  });
  for (int i = kEdges - 1; i >= 0; --i) {
    rendezvous.RecvAsync(i, [&](const absl::Status&, const Tensor& t, bool) { sum += t.scalar<int64_t>(); });
  }
  sender.join();
  EXPECT_EQ(sum, int64_t{kEdges} * (kEdges - 1) / 2);
}

}  // namespace
}  // namespace weir
