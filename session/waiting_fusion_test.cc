// Fusion in steps that have an order of their own: where one part waits until another one has put something
// into a queue, nodes of both must not become one.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "graph/rewrite/fusion.h"
#include "graph/rewrite/prune.h"
#include "graph/rewrite/waiting_nodes.h"
#include "graph/runtime_ops.h"
#include "gtest/gtest.h"
#include "placer/placer.h"
#include "session/executor/program.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"
#include "session/test_acts.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Not;

// A queue of one element, for kernels.
class OneItem {
 public:
  absl::Status Put() {
    absl::MutexLock lock(&mutex_);
    has_item_ = true;
    return absl::OkStatus();
  }
  absl::Status Take(KernelContext& context) {
    const uint64_t id = context.cancellation().OnCancel([this](const absl::Status&) {
      absl::MutexLock lock(&mutex_);
      is_cancelled_ = true;
    });
    {
      absl::MutexLock lock(&mutex_);
      const auto is_over = [this]()
                               ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return has_item_ || is_cancelled_; };
      mutex_.Await(absl::Condition(&is_over));
    }
    context.cancellation().Remove(id);
    absl::MutexLock lock(&mutex_);
    return has_item_ ? absl::OkStatus() : context.cancellation().reason();
  }

 private:
  absl::Mutex mutex_;
  bool has_item_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

class WaitingFusionTest : public ActsTest {
 protected:
  WaitingFusionTest() : ActsTest(/*is_stateful=*/true) {
    runtime_ = Runtime::Create({.num_cpus = 1, .num_threads = 2, .register_kernels = RegisterAct}).value();
    worker_ = std::make_unique<LocalWorker>(*runtime_, runtime_->task());
  }

  Output Op(const char* op, std::vector<InputArg> inputs, AttrMap attrs = {}) {
    return g_.AddOp(op, std::move(inputs), std::move(attrs));
  }
  Output Input(std::vector<int64_t> dims) {
    fed_.push_back(
        Op("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape::FromDims(dims).value()}}));
    return fed_.back();
  }
  Output InputOfUnknownBatch() { return Input({PartialShape::kUnknownDim, 3}); }

  // Puts an item into the queue once the tensor is there.
  Output PutAfter(Output number) {
    return AddAct(number, [this](KernelContext&) { return queue_.Put(); });
  }
  // A number that comes when the queue has an item.
  Output TakeNumber() {
    may_block_ = true;
    const Output taken = AddAct(Constant(2), [this](KernelContext& context) { return queue_.Take(context); });
    may_block_ = false;
    return Op(
        "Reshape",
        {taken, Op("Const", {}, {{"value", Tensor(DType::kInt32, Shape({0}))}, {"dtype", DType::kInt32}})});
  }
  Output SizeOf(Output tensor) { return Op("Cast", {Op("Size", {tensor})}, {{"DstT", DType::kFloat32}}); }

  std::vector<std::string> Fused(const std::vector<Output>& fetches) {
    EXPECT_TRUE(g_.ok()) << g_.status();
    auto graph = PruneToSignature(g_.graph(), fed_, fetches, {}).value();
    const auto has_kernel = [this](const Node& node, absl::string_view type) {
      return NeedsNoKernel(node) || runtime_->kernels().HasKernel(node, type);
    };
    const std::vector<DeviceName> devices = {runtime_->devices()[0]->attributes().name};
    EXPECT_TRUE(PlaceGraph(*graph, devices, has_kernel).ok());
    EXPECT_TRUE(FuseNodes(graph, has_kernel).ok());
    std::vector<std::string> ops;
    for (const auto& node : graph->nodes()) ops.push_back(node->op_name());
    return ops;
  }

  OneItem queue_;
  std::vector<Output> fed_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LocalWorker> worker_;
};

// The size of the exponentials goes into the queue. They would come out of one node with their product, which
// waits for the queue.
TEST_F(WaitingFusionTest, AShapeThatSomethingWaitsForDoesNotWaitForThat) {
  const Output x = InputOfUnknownBatch(), middle = Op("Exp", {x});
  const Output put = PutAfter(SizeOf(middle));
  const Output y = Op("Mul", {Op("Neg", {middle}), TakeNumber()});
  ASSERT_TRUE(g_.ok()) << g_.status();
  auto session = Session::Create(g_.graph(), {worker_.get()}, runtime_->kernels()).value();
  const auto results = session->Run({{x, Tensor::FromSpan<float>({4, 3}, std::vector<float>(12, 0.0f))}},
                                    {y, put}, {}, {.timeout = absl::Seconds(20)});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].flat<float>()[0], -2);
  EXPECT_EQ((*results)[1].scalar<float>(), 12);
}

// Also where the shape is that of a product which gets its bias from the queue.
TEST_F(WaitingFusionTest, ABiasThatComesLateIsAddedLate) {
  const Output product = Op("MatMul", {InputOfUnknownBatch(), Input({3, 5})});
  const Output put = PutAfter(SizeOf(product));
  const Output bias = Op("Mul", {Input({5}), TakeNumber()});
  EXPECT_THAT(Fused({Op("Relu", {Op("BiasAdd", {product, bias})}), put}),
              AllOf(Contains("MatMul"), Contains("Relu")));
}

TEST_F(WaitingFusionTest, MomentsThatSomethingWaitsForDoNotWaitForThat) {
  const Output x = Input({2, 3, 4, 5}), one_each = Input({5});
  Node* const norm = g_.AddNode("FusedBatchNormV3", {x, one_each, one_each, one_each, one_each}, {});
  const Output put = PutAfter(
      Op("Mean", {norm->output(1),
                  Op("Const", {}, {{"value", Tensor::Vector<int32_t>({0})}, {"dtype", DType::kInt32}})}));
  const Output side = Op("Mul", {x, TakeNumber()});
  EXPECT_THAT(Fused({Op("Relu", {Op("AddV2", {norm->output(0), side})}), put}), Contains("FusedBatchNormV3"));
}

// Here nothing comes to wait for more than it did.
TEST_F(WaitingFusionTest, WhatWaitsAsAWholeIsFused) {
  const Output middle = Op("Exp", {Op("Mul", {InputOfUnknownBatch(), TakeNumber()})});
  const Output y = Op("Mul", {Op("Neg", {middle}), TakeNumber()});
  EXPECT_THAT(Fused({y}), AllOf(Contains("_FusedElementwise"), Not(Contains("Exp"))));
  const Output also = Op("Neg", {middle});
  EXPECT_THAT(Fused({also, SizeOf(middle)}), AllOf(Contains("_FusedElementwise"), Not(Contains("Exp"))));
}

TEST_F(WaitingFusionTest, VariablesAndRandomNumbersAreNotWaitedFor) {
  const Output handle = Op("VarHandleOp", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}});
  const Output read = Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}});
  const Output random =
      Op("RandomUniform",
         {Op("Const", {}, {{"value", Tensor(DType::kInt32, Shape({0}))}, {"dtype", DType::kInt32}})},
         {{"dtype", DType::kFloat32}});
  for (const Output& number : {read, random}) {
    const Output middle = Op("Exp", {InputOfUnknownBatch()});
    const Output y = Op("Mul", {Op("Neg", {middle}), number});
    EXPECT_THAT(Fused({y, SizeOf(middle)}), AllOf(Contains("_FusedElementwise"), Not(Contains("Exp"))));
  }
}

// An op that is added, and waits, is to be added here.
TEST_F(WaitingFusionTest, OpsThatMayWaitForOthersAreKnown) {
  const std::vector<std::string> waiting = {
      "AccumulatorTakeGradient",
      "Act",
      "BarrierTakeMany",
      "CollectiveBcastRecv",
      "CollectiveBcastSend",
      "CollectiveGather",
      "CollectiveGatherV2",
      "CollectiveReduce",
      "CollectiveReduceV2",
      "DatasetToSingleElement",
      "DatasetToTFRecord",
      "DeserializeIterator",
      "ExperimentalDatasetToTFRecord",
      "InitializeTableFromDataset",
      "IteratorGetNext",
      "IteratorGetNextAsOptional",
      "IteratorGetNextSync",
      "MakeIterator",
      "MapPeek",
      "MapStage",
      "MapUnstage",
      "MapUnstageNoKey",
      "MultiDeviceIteratorGetNextFromShard",
      "MultiDeviceIteratorInit",
      "MutexLock",
      "OrderedMapPeek",
      "OrderedMapStage",
      "OrderedMapUnstage",
      "OrderedMapUnstageNoKey",
      "QueueCloseV2",
      "QueueDequeueManyV2",
      "QueueDequeueUpToV2",
      "QueueDequeueV2",
      "QueueEnqueueManyV2",
      "QueueEnqueueV2",
      "ReaderReadUpToV2",
      "ReaderReadV2",
      kRecvOp,
      "ReduceDataset",
      "RemoteCall",
      "ResourceAccumulatorTakeGradient",
      "SaveDataset",
      "SerializeIterator",
      "SparseAccumulatorTakeGradient",
      "Stage",
      "StagePeek",
      "Unstage",
      "WeirAllReduce",
      "WeirAllToAll",
      "WeirBarrier",
      "WeirJoin",
      "WeirReduceScatter",
      "WeirReplicaAggregate",
      "WeirReplicaContribute",
      "WeirReplicaJoin",
      "WeirReplicaStay",
  };
  for (const weir::Op* const op : ops_.ops()) {
    EXPECT_EQ(MayWaitForOthers(*op), std::count(waiting.begin(), waiting.end(), op->name()) > 0)
        << op->name();
  }
}

// Whatever its attrs are called: a program's own op may wait.
TEST_F(WaitingFusionTest, AnOpWithASeedMayWait) {
  ASSERT_TRUE(ops_.Register({.name = "DealtCard",
                             .summary = "Waits for a card.",
                             .outputs = {"card: int32"},
                             .attrs = {"seed: int = 0", "seed2: int = 0"},
                             .is_stateful = true,
                             .infer_shapes = UnknownShape,
                             .gradient = NotDifferentiable})
                  .ok());
  EXPECT_TRUE(MayWaitForOthers(*ops_.Find("DealtCard")));
}

// Each has a bit. Where they are too many, none is compared.
TEST_F(WaitingFusionTest, ManyNodesThatWaitAreTakenForOne) {
  Output x = InputOfUnknownBatch();
  for (int i = 0; i < 70; ++i) x = Op("Mul", {Op("Cos", {x}), TakeNumber()});
  const Output middle = Op("Exp", {x}), y = Op("Neg", {middle});
  EXPECT_THAT(Fused({y, SizeOf(middle)}), Contains("Neg"));
  EXPECT_THAT(Fused({y}), Not(Contains("Neg")));
}

}  // namespace
}  // namespace weir
