// Ops that repeat long strings: the characters lie outside of the tensors' buffers, and memory that is not
// there must be an error like for other dtypes.
#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/evaluate.h"
#include "kernels/fake/fake_device.h"
#include "kernels/fake/fake_kernels.h"
#include "kernels/kernel_registry.h"
#include "kernels/thread_pool.h"
#include "ops/register_ops.h"

namespace weir {
namespace {

constexpr int64_t kDeviceBytes = int64_t{1} << 26;
constexpr int32_t kTooMany = 1 << 11;  // times a string of 64 KiB is twice the device

class StringRoomTest : public testing::Test {
 protected:
  StringRoomTest() : device_(MakeFakeDevice("test", 0, 0, threads_, kDeviceBytes)) {
    RegisterFakeKernels(kernels_);
  }

  absl::Status Evaluate(const std::string& op, const std::vector<Tensor>& inputs) {
    GraphBuilder g(StandardOps());
    std::vector<InputArg> args;
    for (const Tensor& input : inputs) {
      args.push_back(
          g.AddOp("Placeholder", {}, {{"dtype", input.dtype()}, {"shape", PartialShape(input.shape())}}));
    }
    Node* const node = g.AddNode(op, std::move(args));
    if (node == nullptr) return g.status();
    return EvaluateNode(*node, inputs, *device_, kernels_).status();
  }

  void ExpectNoRoom(const std::string& op, const std::vector<Tensor>& inputs) {
    const absl::Status status = Evaluate(op, inputs);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << op << ": " << status;
  }

  ThreadPool threads_{2};
  std::unique_ptr<FakeDevice> device_;
  KernelRegistry kernels_;
  const std::string text_ = std::string(1 << 16, 'x');
  const Tensor scalar_ = Tensor::Scalar(text_), vector_ = Tensor::Vector<std::string>({text_});
};

TEST_F(StringRoomTest, RepeatedStringsNeedMemory) {
  const Tensor count = Tensor::Vector<int32_t>({kTooMany});
  Tensor zeros(DType::kInt32, {kTooMany});
  std::fill(zeros.flat<int32_t>().begin(), zeros.flat<int32_t>().end(), 0);
  ExpectNoRoom("Fill", {count, scalar_});
  ExpectNoRoom("Tile", {vector_, count});
  ExpectNoRoom("BroadcastTo", {scalar_, count});
  ExpectNoRoom("PadV2", {vector_, Tensor::From<int32_t>({1, 2}, {0, kTooMany}), scalar_});
  ExpectNoRoom("OneHot", {Tensor::Scalar<int32_t>(0), Tensor::Scalar(kTooMany), scalar_, scalar_});
  ExpectNoRoom("OneHot", {zeros, Tensor::Scalar<int32_t>(1), scalar_, Tensor::Scalar(std::string())});
  ExpectNoRoom("GatherV2", {vector_, zeros, Tensor::Scalar<int32_t>(0)});
  Tensor condition(DType::kBool, {kTooMany});
  std::fill(condition.flat<bool>().begin(), condition.flat<bool>().end(), true);
  ExpectNoRoom("SelectV2", {condition, scalar_, Tensor::Scalar(std::string())});
}

TEST_F(StringRoomTest, WhatFitsIsRepeated) {
  const absl::Status status = Evaluate("Fill", {Tensor::Vector<int32_t>({100}), scalar_});
  EXPECT_TRUE(status.ok()) << status;
  // Only the second of these is long, and it is not asked for.
  const Tensor strings = Tensor::Vector<std::string>({"a", text_});
  Tensor indices(DType::kInt32, {kTooMany});
  std::fill(indices.flat<int32_t>().begin(), indices.flat<int32_t>().end(), 0);
  const absl::Status gathered = Evaluate("GatherV2", {strings, indices, Tensor::Scalar<int32_t>(0)});
  EXPECT_TRUE(gathered.ok()) << gathered;
}

}  // namespace
}  // namespace weir
