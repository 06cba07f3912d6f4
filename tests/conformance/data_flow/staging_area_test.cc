// What a staging area does with values that do something when they go.
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "graph/graph_builder.h"
#include "graph/types/resource_handle.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/evaluate.h"
#include "ops/register_ops.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

class Witness final : public Resource {
 public:
  explicit Witness(std::function<void()> at_end) : at_end_(std::move(at_end)) {}
  ~Witness() override { at_end_(); }
  std::string ToString() const override { return "witness"; }

 private:
  const std::function<void()> at_end_;
};

class StagingAreaTest : public testing::Test {
 protected:
  // The tensors of a tuple of a variant and a number, of key 1.
  absl::Status Stage(const std::vector<int32_t>& indices, std::vector<Tensor> values) {
    std::vector<Tensor> inputs = {
        Tensor::Scalar<int64_t>(1),
        Tensor::FromSpan<int32_t>(Shape({static_cast<int64_t>(indices.size())}), indices)};
    std::vector<DType> types;
    for (Tensor& value : values) {
      types.push_back(value.dtype());
      inputs.push_back(std::move(value));
    }
    GraphBuilder g(StandardOps());
    std::vector<Output> list;
    for (const DType type : types) list.push_back(g.AddOp("Placeholder", {}, {{"dtype", type}}));
    AttrMap attrs = area_;
    attrs["fake_dtypes"] = types;
    return Run(g, "MapStage",
               {g.AddOp("Placeholder", {}, {{"dtype", DType::kInt64}}),
                g.AddOp("Placeholder", {}, {{"dtype", DType::kInt32}}), list},
               attrs, inputs);
  }
  absl::Status AskForSize() {
    GraphBuilder g(StandardOps());
    return Run(g, "MapSize", {}, area_, {});
  }

 private:
  absl::Status Run(GraphBuilder& g, const char* op, std::vector<InputArg> arguments, const AttrMap& attrs,
                   const std::vector<Tensor>& inputs) {
    Node* const node = g.AddNode(op, std::move(arguments), attrs);
    if (node == nullptr) return g.status();
    return EvaluateNode(*node, inputs, host_.device(), host_.kernels()).status();
  }

  const AttrMap area_ = {{"dtypes", std::vector<DType>{DType::kVariant, DType::kInt32}},
                         {"shared_name", "area"}};
  TestHost host_{
      {[](DeviceKernels& kernels) { RegisterCpuKernels(kernels.registry(), kernels.device_type()); }}};
};

// A lock of a mutex that dies completes other steps, which may want the area.
TEST_F(StagingAreaTest, ASecondTupleOfAKeyGoesWhenTheAreaIsFree) {
  const Tensor number = Tensor::Scalar<int32_t>(5);
  ASSERT_EQ(Stage({0, 1}, {Tensor(DType::kVariant, Shape()), number}), absl::OkStatus());
  std::thread asking;
  bool has_gone = false, is_free = false;
  const auto at_end = [&] {
    has_gone = true;
    std::promise<void> answered;
    std::future<void> answer = answered.get_future();
    asking = std::thread([this, answered = std::move(answered)]() mutable {
      EXPECT_EQ(AskForSize(), absl::OkStatus());
      answered.set_value();
    });
    is_free = answer.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  };
  {
    Tensor witness(DType::kVariant, Shape());
    witness.flat<ResourceHandle>()[0].resource = MakeRef<Witness>(at_end);
    ASSERT_EQ(Stage({0}, {witness}), absl::OkStatus());
  }
  EXPECT_FALSE(has_gone);
  ASSERT_EQ(Stage({1}, {number}), absl::OkStatus());
  EXPECT_TRUE(has_gone);
  EXPECT_TRUE(is_free);
  if (asking.joinable()) asking.join();
}

}  // namespace
}  // namespace weir
