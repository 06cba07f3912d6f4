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
  absl::Status Send(PlanId plan, int64_t step_id, int, const DeviceName&, const Tensor&, bool) override {
    collected.emplace_back(plan, step_id);
    return absl::OkStatus();
  }
  void Flush(PlanId, int64_t) override {}
  void Discard(PlanId plan, int64_t step_id) override {
    std::erase(collected, std::make_pair(plan, step_id));
  }
  std::vector<std::pair<PlanId, int64_t>> collected;
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
