// A queue on a parameter server that one worker fills and two take from.
#include <algorithm>
#include <future>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "distributed/test_server.h"
#include "gmock/gmock.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

// What every worker builds alike.
struct QueueModel {
  explicit QueueModel(Server& server) : g(server.runtime().ops()) {
    const AttrMap types = {{"component_types", std::vector<DType>{DType::kFloat32}}};
    AttrMap attrs = types;
    attrs["shapes"] = std::vector<PartialShape>{Shape()};
    attrs["capacity"] = 4;
    attrs["shared_name"] = "numbers";
    Output queue;
    {
      auto ps = g.DeviceScope("/job:ps/task:0");
      queue = g.AddOp("FIFOQueueV2", {}, attrs);
    }
    auto worker = g.DeviceScope(server.task().task().ToDevicePrefix());
    numbers = g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}});
    put = g.AddNode("QueueEnqueueManyV2", {queue, std::vector<Output>{numbers}});
    taken = g.AddOp("QueueDequeueV2", {queue}, types);
    doubled = g.AddOp("AddV2", {taken, taken});
    batch = g.AddOp("QueueDequeueManyV2", {queue, Constant(g, Tensor::Scalar(3))}, types);
    size = g.AddOp("QueueSizeV2", {queue});
    close = g.AddNode("QueueCloseV2", {queue});
    session = server.CreateSession(g.graph()).value();
  }

  std::vector<float> TakeAll() {
    std::vector<float> all;
    while (true) {
      const auto result = session->Run({}, {doubled});
      if (!result.ok()) {
        EXPECT_TRUE(absl::IsOutOfRange(result.status())) << result.status();
        return all;
      }
      all.push_back((*result)[0].scalar<float>());
    }
  }

  int32_t Size() { return session->Run({}, {size}).value()[0].scalar<int32_t>(); }

  GraphBuilder g;
  Output numbers, taken, doubled, batch, size;
  Node *put = nullptr, *close = nullptr;
  std::unique_ptr<Session> session;
};

class PsQueueTest : public ServerTest {};

TEST_P(PsQueueTest, TwoWorkersShareWhatOneOfThemPutsIn) {
  const auto ps = Start({"ps", 0}), first = Start({"worker", 0}), second = Start({"worker", 1});
  QueueModel producer(*first), consumer(*first), other(*second);
  auto some = std::async(std::launch::async, [&] { return consumer.TakeAll(); });
  auto others = std::async(std::launch::async, [&] { return other.TakeAll(); });
  constexpr int kCount = 50;
  Tensor numbers(DType::kFloat32, {kCount});
  for (int i = 0; i < kCount; ++i) numbers.flat<float>()[i] = static_cast<float>(i);
  const auto put = producer.session->Run({{producer.numbers, numbers}}, {}, {producer.put});
  EXPECT_TRUE(put.ok()) << put.status();
  const auto closed = producer.session->Run({}, {}, {producer.close});
  EXPECT_TRUE(closed.ok()) << closed.status();
  std::vector<float> all = some.get(), rest = others.get();
  all.insert(all.end(), rest.begin(), rest.end());
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), kCount);
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(all[i], 2 * static_cast<float>(i));
}

// The worker's cancellation reaches the queue, which is as before.
TEST_P(PsQueueTest, AWorkerThatGivesUpLeavesTheQueueAsItWas) {
  const auto ps = Start({"ps", 0}), first = Start({"worker", 0}), second = Start({"worker", 1});
  QueueModel one(*first), other(*second);
  ASSERT_TRUE(one.session->Run({{one.numbers, Tensor::Vector<float>({1, 2})}}, {}, {one.put}).ok());
  RunOptions soon;
  soon.timeout = absl::Milliseconds(50);
  EXPECT_TRUE(absl::IsDeadlineExceeded(other.session->Run({}, {other.batch}, {}, soon).status()));
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (one.Size() != 2 && absl::Now() < end) {  // the cancellation is on its way
  }
  ASSERT_TRUE(one.session->Run({{one.numbers, Tensor::Vector<float>({3})}}, {}, {one.put}).ok());
  EXPECT_THAT(Values(one.session->Run({}, {one.batch}).value()[0]), ElementsAre(1, 2, 3));
  EXPECT_EQ(other.Size(), 0);
}

INSTANTIATE_TEST_SUITE_P(All, PsQueueTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Grpc" : "Inproc"; });

}  // namespace
}  // namespace weir
