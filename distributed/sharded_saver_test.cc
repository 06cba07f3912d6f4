// A sharded saver on a cluster: each task writes and reads its own variables.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/replica_device_setter.h"
#include "distributed/test_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "session/monitored/saver.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::UnorderedElementsAre;

class ShardedSaverTest : public ServerTest {};

// "a" on the ps, "b" on the worker.
struct Model {
  Model(Server& server, float begin) : g(StandardOps(), ReplicaDeviceSetter(server.task())) {
    a = MakeVariable(g, "a", Tensor::Vector<float>({begin, begin}));
    const auto worker = g.DeviceScope(server.task().task().ToDevicePrefix());
    b = MakeVariable(g, "b", Tensor::Vector<float>({begin + 1, begin + 1}));
  }
  GraphBuilder g;
  ModelVariable a, b;
};

TEST_P(ShardedSaverTest, EachTaskWritesItsShard) {
  const std::string directory = absl::StrCat(testing::TempDir(), "/sharded_", GetParam() ? "grpc" : "inproc");
  const auto ps = Start({"ps", 0}), worker = Start({"worker", 0});
  Model model(*worker, 5);
  auto saver = Saver::Build(model.g, {.sharded = true});
  ASSERT_TRUE(saver.ok()) << saver.status();
  Node* init = InitializeVariables(model.g);
  auto session = worker->CreateSession(model.g.graph()).value();
  ASSERT_TRUE(session->Run({}, {}, {init}).ok());
  const auto saved = (*saver)->Save(*session, directory + "/m", 1);
  ASSERT_TRUE(saved.ok()) << saved.status();
  const std::vector<std::string> files = PosixFileSystem().ListDirectory(directory).value();
  for (const char* shard : {"m-1.data-00000-of-00002", "m-1.data-00001-of-00002"}) {
    EXPECT_THAT(files, Contains(shard));
  }
  std::vector<std::string> writers;
  const auto placed = session->PlacedGraph().value();
  for (const auto& node : placed->nodes()) {
    if (node->op().name() == "SaveV2") writers.push_back(*node->assigned_device().job);
  }
  EXPECT_THAT(writers, UnorderedElementsAre("ps", "worker"));

  const Output zero = Const(model.g, Tensor::Vector<float>({0, 0}));
  Node* clear_a = model.g.AddNode("AssignVariableOp", {model.a.handle, zero});
  Node* clear_b = model.g.AddNode("AssignVariableOp", {model.b.handle, zero});
  ASSERT_TRUE(session->Run({}, {}, {clear_a, clear_b}).ok());
  const absl::Status restored = (*saver)->Restore(*session, *saved);
  ASSERT_TRUE(restored.ok()) << restored;
  const auto values = session->Run({}, {model.a.value, model.b.value}).value();
  EXPECT_EQ(Values(values[0])[0], 5);
  EXPECT_EQ(Values(values[1])[0], 6);
}

INSTANTIATE_TEST_SUITE_P(Transports, ShardedSaverTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "grpc" : "inproc"; });

}  // namespace
}  // namespace weir
