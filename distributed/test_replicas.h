// Replicas of one model in this process, each a server of its own, over the in-process transport or gRPC (the
// test's parameter).
#pragma once

#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "distributed/horovod.h"
#include "distributed/test_server.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"

namespace weir {

// y = x w + b, in two variables, and an embedding whose rows get sparse gradients.
struct LinearModel {
  explicit LinearModel(GraphBuilder& g) {
    x = Placeholder(g, DType::kFloat32, {-1, 3});
    ids = Placeholder(g, DType::kInt32, {-1});
    weights = MakeVariable(g, "w", Tensor::From<float>({3, 1}, {1, 2, 3}));
    bias = MakeVariable(g, "b", Tensor::Vector<float>({0.5f}));
    table = MakeVariable(g, "table", Tensor::From<float>({4, 1}, {1, 1, 1, 1}));
    const Output y = Add(g, MatMul(g, x, weights.value), bias.value);
    const Output rows = ResourceGather(g, table.handle, ids, DType::kFloat32);
    loss = Mean(g, Square(g, Sub(g, y, rows)), ConstIntegers(g, {0, 1}));
  }
  Output x, ids, loss;
  ModelVariable weights, bias, table;
};

inline Feeds BatchOf(const LinearModel& model, int rank, int64_t step) {
  Tensor x(DType::kFloat32, Shape({4, 3}));
  Tensor ids(DType::kInt32, Shape({4}));
  for (int i = 0; i < 12; ++i) {
    x.flat<float>()[i] = std::sin(static_cast<float>(i + 12 * rank + 100 * step));
  }
  for (int i = 0; i < 4; ++i) ids.flat<int32_t>()[i] = static_cast<int32_t>((i * rank + step) % 4);
  return {{model.x, x}, {model.ids, ids}};
}

class HorovodTest : public testing::TestWithParam<bool> {
 protected:
  // Hosts are told apart by their addresses: with two of them the first half of the ranks is on one.
  void MakeCluster(int size, int num_hosts = 1) {
    ports_ = ReservedPorts::Take(size).value();
    for (int rank = 0; rank < size; ++rank) {
      const int host = 1 + rank * num_hosts / size;
      EXPECT_TRUE(cluster_.AddTask({"worker", rank}, absl::StrCat("127.0.0.", host, ":", ports_[rank])).ok());
    }
  }

  std::unique_ptr<Server> Start(int rank) {
    ServerOptions options;
    options.lease = absl::Seconds(20);
    options.num_threads = 1;
    if (!GetParam()) options.transport = transport_;
    return Server::Start(TaskConfig::Create(cluster_, {"worker", rank}).value(), options).value();
  }

  // Runs `rank` for each on a thread of its own.
  template <typename F>
  static void OnAllRanks(int size, F rank) {
    std::vector<std::thread> threads;
    for (int i = 0; i < size; ++i) threads.emplace_back([&rank, i] { rank(i); });
    for (std::thread& thread : threads) thread.join();
  }

  ReservedPorts ports_;  // ranks are started late, and again
  ClusterSpec cluster_;
  FaultTransport faults_{MakeInprocTransport(MakeInprocNetwork())};
  Transport* transport_ = &faults_;
};

}  // namespace weir
