#include "placer/placer.h"

#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "graph/runtime_ops.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"
#include "placer/device_setter.h"
#include "placer/partitioner.h"
#include "placer/report.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status HandleShape(ShapeInference& inference) {
  inference.set_output(0, Shape());
  return absl::OkStatus();
}

class PlacerTest : public testing::Test {
 protected:
  PlacerTest() {
    Register({.name = "Const",
              .outputs = {"output: dtype"},
              .attrs = {"value: tensor", "dtype: type"},
              .infer_shapes = UnknownShape});
    Register({.name = "VarHandleOp",
              .outputs = {"resource: resource"},
              .attrs = {"dtype: type = float", "shape: shape = ?"},
              .infer_shapes = HandleShape});
    Register({.name = "ReadVariableOp",
              .inputs = {"resource: resource"},
              .outputs = {"value: float"},
              .infer_shapes = UnknownShape});
    Register({.name = "Update",
              .inputs = {"resource: resource", "delta: float"},
              .is_stateful = true,
              .infer_shapes = NoOutputs});
    Register({.name = "CpuOnlyUpdate",
              .inputs = {"resource: resource"},
              .is_stateful = true,
              .infer_shapes = NoOutputs});
    for (const char* op : {"MutableHashTableV2", "ResourceConditionalAccumulator"}) {
      Register(
          {.name = op, .outputs = {"handle: resource"}, .is_stateful = true, .infer_shapes = HandleShape});
    }
    Register(
        {.name = "Queue", .outputs = {"handle: resource"}, .is_stateful = true, .infer_shapes = HandleShape});
    Register({.name = "Source", .outputs = {"y: float"}, .infer_shapes = UnknownShape});
    Register({.name = "Add",
              .inputs = {"x: float", "y: float"},
              .outputs = {"z: float"},
              .infer_shapes = UnknownShape});
    Register(
        {.name = "CpuOnly", .inputs = {"x: float"}, .outputs = {"y: float"}, .infer_shapes = UnknownShape});
    Register({.name = "Reduce",
              .inputs = {"x: float"},
              .outputs = {"y: float"},
              .attrs = {"group_key: int", "instance_key: int"},
              .infer_shapes = UnknownShape});
    Register({.name = "IntSource", .outputs = {"y: int32"}, .infer_shapes = UnknownShape});
    Register({.name = "ReduceV2",
              .inputs = {"x: float", "group_key: int32", "instance_key: int32"},
              .outputs = {"y: float"},
              .infer_shapes = UnknownShape});
    EXPECT_TRUE(RegisterRuntimeOps(ops_).ok());
    for (int task : {0, 1}) {
      devices_.push_back(MakeDeviceName("ps", task, "CPU", 0));
      devices_.push_back(MakeDeviceName("worker", task, "CPU", 0));
      devices_.push_back(MakeDeviceName("worker", task, "GPU", 0));
    }
    options_.default_task = DeviceName::Parse("/job:worker/replica:0/task:0").value();
  }

  void Register(OpDef def) {
    def.gradient = NotDifferentiable;
    EXPECT_TRUE(ops_.Register(def).ok());
  }

  absl::Status Place(GraphBuilder& g, std::vector<std::string>* remarks = nullptr) {
    EXPECT_TRUE(g.ok()) << g.status();
    return PlaceGraph(
        g.graph(), devices_,
        [](const Node& node, absl::string_view type) { return type == "CPU" || node.op_name() != "CpuOnly"; },
        options_, remarks);
  }

  static std::string DeviceOf(const Output& output) { return output.node->assigned_device().ToString(); }

  OpRegistry ops_;
  std::vector<DeviceName> devices_;
  PlacerOptions options_;
};

TEST_F(PlacerTest, PrefersTheDefaultTasksBestDevice) {
  GraphBuilder g(ops_);
  const Output x = g.AddOp("Source", {}), y = g.AddOp("CpuOnly", {x});
  ASSERT_TRUE(Place(g).ok());
  EXPECT_EQ(DeviceOf(x), "/job:worker/replica:0/task:0/device:GPU:0");
  EXPECT_EQ(DeviceOf(y), "/job:worker/replica:0/task:0/device:CPU:0");
}

TEST_F(PlacerTest, UpdatesRunWhereTheVariableLives) {
  GraphBuilder g(ops_, ReplicaDeviceSetter({.num_ps_tasks = 2, .worker_device = "/job:worker/task:1"}));
  const Output v = g.AddOp("VarHandleOp", {}), w = g.AddOp("VarHandleOp", {});
  const Output read = g.AddOp("ReadVariableOp", {w});
  const Output sum = g.AddOp("Add", {read, read});
  // The setter asks for the worker's device for the read and the update too: the variable's task wins.
  EXPECT_EQ(read.node->requested_device().ToString(), "/job:worker/task:1");
  Node* update = g.AddNode("Update", {w, sum});
  ASSERT_NE(update, nullptr) << g.status();
  ASSERT_TRUE(Place(g).ok()) << Place(g);
  EXPECT_EQ(DeviceOf(v), "/job:ps/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(DeviceOf(w), "/job:ps/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(DeviceOf(read), DeviceOf(w));
  EXPECT_EQ(update->assigned_device().ToString(), DeviceOf(w));
  EXPECT_EQ(DeviceOf(sum), "/job:worker/replica:0/task:1/device:GPU:0");
}

TEST_F(PlacerTest, SoftPlacementStaysOnTheTask) {
  GraphBuilder g(ops_);
  auto device = g.DeviceScope("/job:worker/task:1/device:GPU:0");
  const Output y = g.AddOp("CpuOnly", {g.AddOp("Source", {})});
  ASSERT_TRUE(Place(g).ok());
  EXPECT_EQ(DeviceOf(y), "/job:worker/replica:0/task:1/device:CPU:0");
  options_.allow_soft_placement = false;
  EXPECT_THAT(Place(g).message(),
              AllOf(HasSubstr("CpuOnly 'CpuOnly'"), HasSubstr("GPU:0"), HasSubstr("no kernel"),
                    HasSubstr("/job:ps/replica:0/task:1/device:CPU:0")));
}

TEST_F(PlacerTest, SoftPlacementTakesAnotherIndexToo) {
  GraphBuilder g(ops_);
  const auto on = [&g](absl::string_view device_name, absl::string_view op) {
    auto device = g.DeviceScope(device_name);
    return op == "Source" ? g.AddOp("Source", {}) : g.AddOp(op, {g.AddOp("Source", {})});
  };
  const Output cpu_only = on("/job:worker/task:1/device:GPU:1", "CpuOnly");
  const Output any = on("/job:worker/task:1/device:GPU:1", "Source");
  const Output unknown_kind = on("/job:ps/task:1/device:TPU:3", "Source");
  const Output any_kind = on("/job:worker/task:1/device:*:3", "Source");
  ASSERT_TRUE(Place(g).ok()) << Place(g);
  EXPECT_EQ(DeviceOf(cpu_only), "/job:worker/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(DeviceOf(any), "/job:worker/replica:0/task:1/device:GPU:0");
  EXPECT_EQ(DeviceOf(unknown_kind), "/job:ps/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(DeviceOf(any_kind), "/job:worker/replica:0/task:1/device:GPU:0");
}

// Pruning may drop the node that others name in "loc:@NAME"; what it held together stays so.
// What a step was pruned of has a say in where state is.
TEST_F(PlacerTest, TheWholeGraphSaysWhereStateIs) {
  const auto has_kernel = [](const Node&, absl::string_view) { return true; };
  const auto use = [](GraphBuilder& g, Output queue, absl::string_view device) {
    const auto scope = g.DeviceScope(device);
    return g.AddOp("ReadVariableOp", {queue});
  };
  GraphBuilder g(ops_);
  const Output moved = g.AddOp("Queue", {}, {}, "moved"), refused = g.AddOp("Queue", {}, {}, "refused");
  g.AddOp("Queue", {}, {}, "alone");
  use(g, moved, "");
  use(g, moved, "/job:ps/task:1");
  use(g, moved, "/job:ps/task:0");
  use(g, refused, "/job:nobody");
  ASSERT_TRUE(g.ok()) << g.status();
  StatePlaces places;
  PlaceState(g.graph(), devices_, has_kernel, options_, &places);
  ASSERT_EQ(places.size(), 3);
  EXPECT_EQ(places.at("moved").ToString(), "/job:ps/replica:0/task:1/device:CPU:0");
  for (const char* name : {"refused", "alone"}) {
    EXPECT_EQ(places.at(name).ToString(), "/job:worker/replica:0/task:0/device:GPU:0");
  }

  // The part of a later step, and then a later graph, in which others ask for something else.
  GraphBuilder step(ops_);
  const Output there = step.AddOp("Queue", {}, {}, "moved");
  const Output user = use(step, there, "/job:ps/task:0");
  options_.state_places = &places;
  ASSERT_TRUE(Place(step).ok());
  EXPECT_EQ(there.node->assigned_device(), places.at("moved"));
  EXPECT_EQ(user.node->assigned_device(), places.at("moved"));
  const StatePlaces before = places;
  PlaceState(step.graph(), devices_, has_kernel, options_, &places);
  EXPECT_EQ(places, before);
}

TEST_F(PlacerTest, StateThatIsOnTwoDevicesIsNotBroughtTogether) {
  GraphBuilder g(ops_);
  const Output a = g.AddOp("Queue", {}, {}, "a");
  {
    const auto scope = g.ColocationScope(a.node);
    g.AddOp("Queue", {}, {}, "b");
  }
  const StatePlaces places = {{"a", devices_[0]}, {"b", devices_[1]}};
  options_.state_places = &places;
  const absl::Status status = Place(g);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("Queue 'b' must share a device with Queue 'a', but earlier steps keep it on"),
                    HasSubstr(devices_[0].ToString()), HasSubstr(devices_[1].ToString())));
}

TEST_F(PlacerTest, NodesColocatedWithADroppedNodeShareADevice) {
  GraphBuilder g(ops_);
  const AttrMap with_gone = {{"_class", std::vector<std::string>{"loc:@gone"}}};
  Output a, b;
  {
    auto device = g.DeviceScope("/job:ps/task:1");
    a = g.AddOp("Source", {}, with_gone, "a");
  }
  b = g.AddOp("Source", {}, with_gone, "b");
  const Output alone = g.AddOp("Source", {}, {{"_class", std::vector<std::string>{"loc:@other"}}});
  ASSERT_TRUE(Place(g).ok()) << Place(g);
  EXPECT_EQ(DeviceOf(a), "/job:ps/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(DeviceOf(b), DeviceOf(a));
  EXPECT_EQ(DeviceOf(alone), "/job:worker/replica:0/task:0/device:GPU:0");
}

// A step that only reads the variable: another one updates it with an op that GPUs have not.
TEST_F(PlacerTest, WhatOtherStepsDoWithAResourceCounts) {
  GraphBuilder whole(ops_), step(ops_);
  Output handle;
  for (GraphBuilder* const g : {&whole, &step}) {
    handle = g->AddOp("VarHandleOp", {}, {}, "w");
    g->AddOp("ReadVariableOp", {handle}, {}, "read");
  }
  whole.AddNode("CpuOnlyUpdate", {whole.graph().FindNode("w")->output(0)}, {}, "update");
  const auto has_kernel = [](const Node& node, absl::string_view type) {
    return type == "CPU" || node.op_name() != "CpuOnlyUpdate";
  };
  options_.unfit_kinds = FindUnfitKinds(whole.graph(), devices_, has_kernel, {});
  std::vector<std::string> remarks;
  ASSERT_TRUE(PlaceGraph(step.graph(), devices_, has_kernel, options_, &remarks).ok());
  EXPECT_EQ(step.graph().FindNode("read")->assigned_device().ToString(),
            "/job:worker/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(remarks,
            std::vector<std::string>{
                "2 nodes (VarHandleOp 'w' and others) are on "
                "/job:worker/replica:0/task:0/device:CPU:0: there is no GPU kernel for CpuOnlyUpdate"});
  EXPECT_EQ(KindsOfPlacedResources(step.graph()), (KindsOfResources{{"w", "CPU"}}));

  // It stays where a step has it, and then the update has no place.
  options_.unfit_kinds = FindUnfitKinds(whole.graph(), devices_, has_kernel, {{"w", "GPU"}});
  ASSERT_TRUE(PlaceGraph(step.graph(), devices_, has_kernel, options_).ok());
  EXPECT_EQ(*step.graph().FindNode("read")->assigned_device().type, "GPU");
  const absl::Status status = PlaceGraph(whole.graph(), devices_, has_kernel, options_);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("VarHandleOp 'w': no device for ''; VarHandleOp 'w' is on a GPU "
                              "since an earlier step; there is no GPU kernel for "
                              "CpuOnlyUpdate 'update'; the devices are")));
}

TEST_F(PlacerTest, TheRemarksSayWhyNodesAreElsewhere) {
  GraphBuilder g(ops_);
  {
    auto scope = g.DeviceScope("/job:worker/task:1/device:GPU:0");
    for (int i = 0; i < 2; ++i) g.AddOp("CpuOnly", {g.AddOp("Source", {})});
  }
  {
    auto scope = g.DeviceScope("/job:ps/task:0/device:GPU:0");
    g.AddOp("Source", {});
  }
  std::vector<std::string> remarks;
  ASSERT_TRUE(Place(g, &remarks).ok());
  EXPECT_EQ(remarks,
            (std::vector<std::string>{
                "1 node (Source 'Source_2') is on /job:ps/replica:0/task:0/device:CPU:0: there is no "
                "/job:ps/task:0/device:GPU:0",
                "2 nodes (CpuOnly 'CpuOnly' and others) are on "
                "/job:worker/replica:0/task:1/device:CPU:0: there is no GPU kernel for CpuOnly"}));
}

TEST_F(PlacerTest, ContradictionsNameBothNodes) {
  GraphBuilder g(ops_);
  Output a, b;
  {
    auto device = g.DeviceScope("/job:ps/task:0");
    a = g.AddOp("Source", {}, {}, "a");
  }
  auto colocated = g.ColocationScope(a.node);
  b = g.AddOp("Source", {}, {}, "b");
  g.graph().SetRequestedDevice(b.node, DeviceName::Parse("/job:worker").value());
  EXPECT_THAT(Place(g).message(), AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("/job:worker")));
}

TEST_F(PlacerTest, UnknownTaskListsTheDevices) {
  GraphBuilder g(ops_);
  auto device = g.DeviceScope("/job:ps/task:7");
  g.AddOp("Source", {}, {}, "x");
  EXPECT_THAT(Place(g).message(),
              AllOf(HasSubstr("Source 'x'"), HasSubstr("/job:ps/task:7"),
                    HasSubstr("/job:worker/replica:0/task:1/device:CPU:0"), HasSubstr("placer_test.cc")));
}

TEST_F(PlacerTest, GreedyStrategyBalancesBytes) {
  PlacementStrategy strategy = GreedyBytesStrategy(2);
  GraphBuilder g(ops_, ReplicaDeviceSetter({.num_ps_tasks = 2, .strategy = strategy}));
  std::vector<int> tasks;
  for (int64_t rows : {100, 10, 10, 70, 30}) {
    tasks.push_back(
        *g.AddOp("VarHandleOp", {}, {{"shape", PartialShape({rows})}}).node->requested_device().task);
  }
  EXPECT_THAT(tasks, testing::ElementsAre(0, 1, 1, 1, 1));
}

TEST_F(PlacerTest, GreedyStrategyCountsTheBytesOfADType) {
  GraphBuilder g(ops_, ReplicaDeviceSetter({.num_ps_tasks = 2, .strategy = GreedyBytesStrategy(2)}));
  std::vector<int> tasks;
  const auto add = [&](DType dtype, int64_t rows) {
    const AttrMap attrs = {{"dtype", dtype}, {"shape", PartialShape({rows})}};
    tasks.push_back(*g.AddOp("VarHandleOp", {}, attrs).node->requested_device().task);
  };
  add(DType::kFloat32, 100);
  add(DType::kFloat64, 60);
  add(DType::kFloat32, 1);
  EXPECT_THAT(tasks, testing::ElementsAre(0, 1, 0));
}

TEST_F(PlacerTest, TablesAndAccumulatorsAreOnParameterServersInTurn) {
  GraphBuilder g(ops_, ReplicaDeviceSetter({.num_ps_tasks = 2}));
  const auto task_of = [&g](const char* op) { return g.AddOp(op, {}).node->requested_device().task; };
  EXPECT_EQ(task_of("VarHandleOp"), 0);
  EXPECT_EQ(task_of("MutableHashTableV2"), 1);
  EXPECT_EQ(task_of("ResourceConditionalAccumulator"), 0);
}

// As TensorFlow's setter.
TEST_F(PlacerTest, AVariableThatAsksForTheJobOfThePsHasItsTurn) {
  GraphBuilder g(ops_, ReplicaDeviceSetter({.num_ps_tasks = 2}));
  const auto task_under = [&g](const char* device) {
    auto scope = g.DeviceScope(device);
    return g.AddOp("VarHandleOp", {}).node->requested_device().task;
  };
  EXPECT_EQ(task_under("/job:ps"), 0);
  EXPECT_EQ(task_under("/job:ps"), 1);
  EXPECT_EQ(task_under("/job:ps/task:1"), 1);
  EXPECT_EQ(task_under("/job:ps"), 1) << "the one before had its turn, too";
}

// Who asks for a job means another one than that of the parameter servers.
TEST_F(PlacerTest, AVariableThatAsksForAJobGetsNoTaskOfThePs) {
  GraphBuilder g(ops_, ReplicaDeviceSetter({.num_ps_tasks = 2}));
  Output local;
  {
    auto worker = g.DeviceScope("/job:worker");
    local = g.AddOp("VarHandleOp", {});
  }
  EXPECT_EQ(local.node->requested_device().ToString(), "/job:worker");
  EXPECT_EQ(g.AddOp("VarHandleOp", {}).node->requested_device().task, 0);
  EXPECT_EQ(g.AddOp("VarHandleOp", {}).node->requested_device().task, 1);
}

TEST_F(PlacerTest, ACollectiveKnowsHowManyDevicesOfItsTaskTakePart) {
  GraphBuilder g(ops_);
  const auto add = [&g](const std::string& name, const std::string& device, int64_t instance) {
    const auto scope = g.DeviceScope(device);
    g.AddNode("Reduce", {g.AddOp("Source", {})}, {{"group_key", 1}, {"instance_key", instance}}, name);
  };
  add("a", "/job:worker/task:0/device:CPU:0", 1);
  add("b", "/job:worker/task:0/device:GPU:0", 1);
  add("again", "/job:worker/task:0/device:GPU:0", 1);
  add("elsewhere", "/job:worker/task:1/device:GPU:0", 1);
  add("other", "/job:worker/task:0/device:GPU:0", 2);
  ASSERT_TRUE(Place(g).ok());
  const auto parts = PartitionByDevice(g.graph());
  ASSERT_TRUE(parts.ok()) << parts.status();
  std::map<std::string, int64_t> members;
  for (const Partition& part : parts->partitions) {
    for (const auto& node : part.graph->nodes()) {
      if (node->op_name() == "Reduce") members[node->name()] = node->attr<int64_t>(kMembersHereAttr);
    }
  }
  const std::map<std::string, int64_t> expected = {
      {"a", 2}, {"again", 2}, {"b", 2}, {"elsewhere", 1}, {"other", 1}};
  EXPECT_EQ(members, expected);
}

// Otherwise two groups of one key would each take members of the other.
TEST_F(PlacerTest, ACollectiveWhoseKeysAreInputsKnowsItToo) {
  GraphBuilder g(ops_);
  const auto key = [&g](int value) {
    return g.AddOp("Const", {}, {{"value", Tensor::Scalar<int32_t>(value)}, {"dtype", DType::kInt32}});
  };
  const Output fed = g.AddOp("IntSource", {});
  const auto add = [&g](const std::string& name, const std::string& device, Output group, Output instance) {
    const auto scope = g.DeviceScope(device);
    g.AddNode("ReduceV2", {g.AddOp("Source", {}), group, instance}, {}, name);
  };
  for (const std::string device : {"CPU", "GPU"}) {
    add("one" + device, "/job:worker/task:0/device:" + device + ":0", key(1), key(1));
    add("fed" + device, "/job:worker/task:1/device:" + device + ":0", fed, key(1));
  }
  add("other", "/job:worker/task:0/device:GPU:0", key(1), key(2));
  add("known", "/job:ps/task:0/device:CPU:0", key(1), key(3));
  ASSERT_TRUE(Place(g).ok());
  const auto parts = PartitionByDevice(g.graph());
  ASSERT_TRUE(parts.ok()) << parts.status();
  std::map<std::string, int64_t> members;
  for (const Partition& part : parts->partitions) {
    for (const auto& node : part.graph->nodes()) {
      if (node->op_name() == "ReduceV2") members[node->name()] = node->attr<int64_t>(kMembersHereAttr);
    }
  }
  const std::map<std::string, int64_t> expected = {{"oneCPU", 2}, {"oneGPU", 2}, {"fedCPU", 2},
                                                   {"fedGPU", 2}, {"other", 1},  {"known", 1}};
  EXPECT_EQ(members, expected);
}

TEST_F(PlacerTest, ATensorCrossesOncePerDevice) {
  GraphBuilder g(ops_);
  Output x;
  {
    auto ps = g.DeviceScope("/job:ps/task:0");
    x = g.AddOp("Source", {}, {}, "x");
  }
  auto worker = g.DeviceScope("/job:worker/task:0/device:CPU:0");
  const Output a = g.AddOp("Add", {x, x}), b = g.AddOp("Add", {a, x});
  auto control = g.ControlScope({x.node});
  g.AddOp("Source", {}, {}, "after");
  ASSERT_TRUE(Place(g).ok());
  auto parts = PartitionByDevice(g.graph());
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->partitions.size(), 2u);
  ASSERT_EQ(parts->edges.size(), 2u);
  EXPECT_EQ(parts->edges[0].tensor_name, "x:0");
  EXPECT_EQ(parts->edges[1].tensor_name, "^x");
  const Graph& at_worker = *parts->partitions[1].graph;
  EXPECT_EQ(at_worker.FindNode(b.node->name())->input(1).node->op_name(), "_Recv");
  EXPECT_EQ(at_worker.FindNode(a.node->name())->input(0).node,
            at_worker.FindNode(b.node->name())->input(1).node);
  // The empty tensor of the control edge is there when x has run, and not before.
  const Graph& at_ps = *parts->partitions[0].graph;
  const auto sends = [&at_ps](int64_t edge) -> const Node* {
    for (const auto& node : at_ps.nodes()) {
      if (node->op_name() == "_Send" && node->attr<int64_t>(kEdgeAttr) == edge) return node.get();
    }
    return nullptr;
  };
  ASSERT_NE(sends(1), nullptr);
  EXPECT_THAT(sends(1)->input(0).node->control_inputs(), testing::ElementsAre(at_ps.FindNode("x")));
  const Node* after = at_worker.FindNode("after");
  ASSERT_EQ(after->control_inputs().size(), 1u);
  EXPECT_EQ(after->control_inputs()[0]->attr<int64_t>(kEdgeAttr), 1);
  EXPECT_TRUE(at_ps.TopologicalOrder().ok());
  const PlacementReport report = ReportPlacement(g.graph(), *parts);
  EXPECT_THAT(report.text, AllOf(HasSubstr("/job:ps"), HasSubstr("x:0"), HasSubstr("^x")));
  EXPECT_EQ(report.drawing.num_nodes(), g.graph().num_nodes());
  EXPECT_THAT(report.drawing.Dot(),
              AllOf(HasSubstr("tooltip=\"/job:ps"), HasSubstr(" [label=\"float"), HasSubstr("style=dashed")));
}

}  // namespace
}  // namespace weir
