// What tests of servers begin with: a cluster of one ps and three workers in this process, over the
// in-process transport (with faults) and over gRPC, and a small model.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/launch/free_ports.h"
#include "distributed/server.h"
#include "distributed/transport/fault/fault_transport.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"

namespace weir {

inline Output Constant(GraphBuilder& g, Tensor value) {
  const DType dtype = value.dtype();
  return g.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
}

// A variable on the first ps, the ops to set it, to add to it and to read it, and y = 2 v on the worker.
struct CounterModel {
  explicit CounterModel(Server& server) : g(server.runtime().ops()) {
    {
      auto ps = g.DeviceScope("/job:ps/task:0");
      handle = g.AddOp("VarHandleOp", {},
                       {{"dtype", DType::kFloat32}, {"shape", PartialShape({2})}, {"shared_name", "v"}});
      init = g.AddNode("AssignVariableOp", {handle, Constant(g, Tensor::Vector<float>({1, 2}))});
      read = g.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}, "read");
    }
    {
      auto worker = g.DeviceScope(server.task().task().ToDevicePrefix());
      one = Constant(g, Tensor::Vector<float>({1, 1}));
      doubled = g.AddOp("AddV2", {read, read}, {}, "doubled");
      delta = g.AddOp("AddV2", {one, one}, {}, "delta");
    }
    auto ps = g.DeviceScope("/job:ps/task:0");
    add = g.AddNode("AssignAddVariableOp", {handle, delta});
  }
  GraphBuilder g;
  Output handle, read, one, doubled, delta;
  Node* init = nullptr;
  Node* add = nullptr;
};

class ServerTest : public ::testing::TestWithParam<bool> {
 protected:
  ServerTest() : faults_(MakeInprocTransport(MakeInprocNetwork())) {
    for (int i = 0; i < 4; ++i) {
      const TaskName task = i == 0 ? TaskName{"ps", 0} : TaskName{"worker", i - 1};
      EXPECT_TRUE(cluster_.AddTask(task, absl::StrCat("127.0.0.1:", ports_[i])).ok());
    }
  }

  std::unique_ptr<Server> Start(const TaskName& task) {
    ServerOptions options = options_;
    options.lease = lease_;
    options.num_threads = 1;
    if (!GetParam()) options.transport = &faults_;
    absl::StatusOr<std::unique_ptr<Server>> server =
        Server::Start(TaskConfig::Create(cluster_, task).value(), options);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  // For tests that send messages of their own.
  std::unique_ptr<Channel> ConnectToPs() {
    if (GetParam() && grpc_ == nullptr) grpc_ = MakeGrpcTransport({}).value();
    Transport& transport = GetParam() ? *grpc_ : faults_;
    return transport.Connect({"ps", 0}, cluster_.address({"ps", 0}).value()).value();
  }

  absl::Duration lease_ = absl::Seconds(20);
  ServerOptions options_;
  const ReservedPorts ports_ = ReservedPorts::Take(4).value();  // tasks are started late, or never
  ClusterSpec cluster_;
  FaultTransport faults_;
  std::unique_ptr<Transport> grpc_;
};

inline std::vector<float> Values(const Tensor& tensor) {
  return {tensor.flat<float>().begin(), tensor.flat<float>().end()};
}

}  // namespace weir
