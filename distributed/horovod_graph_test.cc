// Collectives as nodes of a graph.
#include <vector>

#include "distributed/horovod.h"
#include "distributed/test_replicas.h"
#include "gmock/gmock.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

TEST_P(HorovodTest, CollectivesOfAGraph) {
  MakeCluster(2);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    EXPECT_EQ(hvd->rank(), rank);
    EXPECT_EQ(hvd->size(), 2);
    EXPECT_EQ(hvd->local_rank(), rank);
    EXPECT_EQ(hvd->local_size(), 2);
    GraphBuilder g(StandardOps());
    const Output x = Const(g, Tensor::Vector<float>({1.0f + static_cast<float>(rank), 5}));
    const Output average = hvd->AllReduce(g, x);
    const Output most = hvd->AllReduce(g, x, Reduction::kMax);
    const Output joined = hvd->AllGather(g, x);
    const Output from_1 = hvd->Broadcast(g, x, 1);
    ASSERT_TRUE(g.ok()) << g.status();
    const auto session = server->CreateSession(g.graph()).value();
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<std::vector<Tensor>> values = session->Run({}, {average, most, joined, from_1});
      ASSERT_TRUE(values.ok()) << values.status();
      EXPECT_THAT(Values((*values)[0]), ElementsAre(1.5f, 5));
      EXPECT_THAT(Values((*values)[1]), ElementsAre(2, 5));
      EXPECT_THAT(Values((*values)[2]), ElementsAre(1, 5, 2, 5));
      EXPECT_THAT(Values((*values)[3]), ElementsAre(2, 5));
    }
    // A step of one rank alone ends by its deadline.
    if (rank == 0) {
      const absl::Status status =
          session->Run({}, {average}, {}, {.timeout = absl::Milliseconds(200)}).status();
      EXPECT_FALSE(status.ok());
    }
    server->Shutdown();
  });
}

// 4 MB, in segments that go straight to where they belong.
TEST_P(HorovodTest, LargeTensorsTravelInSegments) {
  MakeCluster(2);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const Output x = Placeholder(g, DType::kFloat32, {-1});
    const Output sum = hvd->AllReduce(g, x, Reduction::kSum, false);
    const auto session = server->CreateSession(g.graph()).value();
    Tensor input(DType::kFloat32, Shape({1 << 20}));
    for (int turn = 1; turn <= 3; ++turn) {
      for (int64_t i = 0; i < 1 << 20; ++i) input.flat<float>()[i] = static_cast<float>(i * turn + rank);
      const absl::StatusOr<std::vector<Tensor>> values = session->Run({{x, input.Clone()}}, {sum});
      ASSERT_TRUE(values.ok()) << values.status();
      for (int64_t i = 0; i < 1 << 20; ++i) {
        ASSERT_EQ((*values)[0].flat<float>()[i],
                  static_cast<float>(i * turn) + static_cast<float>(i * turn + 1));
      }
    }
    server->Shutdown();
  });
}

// Within each host first (collectives/host_reduce.cc), in segments of which each rank has some to add up.
TEST_P(HorovodTest, RanksOfTwoHostsAddLargeTensorsUp) {
  constexpr int kRanks = 4;
  constexpr int64_t kCount = (5 << 20) / 4 + 3;  // more than one segment for a rank, of two sizes
  MakeCluster(kRanks, /*num_hosts=*/2);
  OnAllRanks(kRanks, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const Output x = Placeholder(g, DType::kFloat32, {-1});
    const Output mean = hvd->AllReduce(g, x, Reduction::kSum, /*divides=*/true);
    const auto session = server->CreateSession(g.graph()).value();
    for (int turn = 1; turn <= 3; ++turn) {
      Tensor input(DType::kFloat32, Shape({kCount}));
      for (int64_t i = 0; i < kCount; ++i) {
        input.flat<float>()[i] = static_cast<float>(i * turn % 1000 + 10'000 * rank);
      }
      const absl::StatusOr<std::vector<Tensor>> values = session->Run({{x, input}}, {mean});
      ASSERT_TRUE(values.ok()) << values.status();
      for (int64_t i = 0; i < kCount; ++i) {
        ASSERT_EQ((*values)[0].flat<float>()[i], static_cast<float>(i * turn % 1000 + 15'000)) << i;
      }
    }
    server->Shutdown();
  });
}

TEST_P(HorovodTest, MoreCollectivesOfAGraph) {
  MakeCluster(2);
  OnAllRanks(2, [&](int rank) {
    const auto server = Start(rank);
    const auto hvd = Horovod::Init(*server).value();
    GraphBuilder g(StandardOps());
    const Output x = Const(g, Tensor::From<float>({3, 1}, {1.0f + static_cast<float>(rank), 5, 7}));
    const Output mine = hvd->ReduceScatter(g, x, Reduction::kSum, false);
    const Output splits = Const(g, Tensor::Vector<int64_t>({rank, 3 - rank}));
    const Horovod::Exchanged exchanged = hvd->AllToAll(g, x, splits);
    const Output adasum = hvd->AllReduce(g, x, Reduction::kAdasum);
    Node* const barrier = hvd->Barrier(g);
    const auto group = [&](int value) { return Const(g, Tensor::Scalar<int32_t>(value)); };
    const Output reduced =
        g.AddOp("CollectiveReduceV2", {x, group(2), group(5), group(6), std::vector<Output>{}},
                {{"merge_op", "Max"}, {"final_op", "Id"}});
    const Output gathered =
        g.AddOp("CollectiveGatherV2", {x, group(2), group(5), group(7), std::vector<Output>{}});
    const Output last = hvd->Join(g);
    const Output sum = hvd->AllReduce(g, x, Reduction::kSum, false);
    ASSERT_TRUE(g.ok()) << g.status();
    const auto session = server->CreateSession(g.graph()).value();
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<std::vector<Tensor>> values =
          session->Run({}, {mine, exchanged.rows, exchanged.splits, adasum, reduced, gathered}, {barrier});
      ASSERT_TRUE(values.ok()) << values.status();
      EXPECT_EQ(Values((*values)[0]), rank == 0 ? std::vector<float>({3, 10}) : std::vector<float>({14}));
      // Rank 0 gives rank 1 all its rows; rank 1 gives rank 0 one, and itself two.
      EXPECT_EQ(Values((*values)[1]),
                rank == 0 ? std::vector<float>({2}) : std::vector<float>({1, 5, 7, 5, 7}));
      EXPECT_THAT((*values)[2].flat<int64_t>(), ElementsAre(rank == 0 ? 0 : 3, rank == 0 ? 1 : 2));
      EXPECT_EQ((*values)[3].shape(), Shape({3, 1}));
      EXPECT_THAT(Values((*values)[4]), ElementsAre(2, 5, 7));
      EXPECT_THAT(Values((*values)[5]), ElementsAre(1, 5, 7, 2, 5, 7));
    }
    // Rank 1 has run out of data.
    if (rank == 0) {
      for (int i = 0; i < 3; ++i) {
        EXPECT_THAT(Values(session->Run({}, {sum}).value()[0]), ElementsAre(1, 5, 7));
      }
    }
    EXPECT_EQ(session->Run({}, {last}).value()[0].scalar<int32_t>(), 0);
    server->Shutdown();
  });
}

INSTANTIATE_TEST_SUITE_P(Transports, HorovodTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

}  // namespace
}  // namespace weir
