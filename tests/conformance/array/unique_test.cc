// Unique and its kin where one value comes very often: their time is no square of that.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/cancellation.h"
#include "kernels/evaluate.h"
#include "kernels/fake/fake_device.h"
#include "kernels/fake/fake_kernels.h"
#include "kernels/kernel_registry.h"
#include "kernels/thread_pool.h"
#include "ops/register_ops.h"

namespace weir {
namespace {

class UniqueTest : public testing::Test {
 protected:
  UniqueTest() : device_(MakeFakeDevice("test", 0, 0, threads_, int64_t{1} << 30)) {
    RegisterFakeKernels(kernels_);
  }

  absl::StatusOr<std::vector<Tensor>> Evaluate(const std::string& op, const std::vector<Tensor>& inputs) {
    GraphBuilder g(StandardOps());
    std::vector<InputArg> args;
    for (const Tensor& input : inputs) {
      args.push_back(
          g.AddOp("Placeholder", {}, {{"dtype", input.dtype()}, {"shape", PartialShape(input.shape())}}));
    }
    Node* const node = g.AddNode(op, std::move(args));
    if (node == nullptr) return g.status();
    return EvaluateNode(*node, inputs, *device_, kernels_, nullptr, cancellation_);
  }

  static Tensor Nans(Shape shape) {
    Tensor nans(DType::kFloat32, std::move(shape));
    std::fill_n(nans.flat<float>().begin(), nans.num_elements(), std::nanf(""));
    return nans;
  }

  ThreadPool threads_{2};
  std::unique_ptr<FakeDevice> device_;
  KernelRegistry kernels_;
  Cancellation cancellation_;
};

// All NaNs had one hash: this took minutes.
TEST_F(UniqueTest, ManyNansAreAsManyValues) {
  constexpr int64_t kNans = 400'000;
  const auto vector = Evaluate("Unique", {Nans({kNans})});
  ASSERT_TRUE(vector.ok()) << vector.status();
  EXPECT_EQ((*vector)[0].num_elements(), kNans);
  EXPECT_EQ((*vector)[1].flat<int32_t>()[kNans - 1], kNans - 1);
  const auto rows = Evaluate("UniqueV2", {Nans({kNans, 2}), Tensor::Vector<int32_t>({0})});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)[0].shape(), Shape({kNans, 2}));
  const auto difference = Evaluate("ListDiff", {Nans({kNans}), Nans({kNans})});
  ASSERT_TRUE(difference.ok()) << difference.status();
  EXPECT_EQ((*difference)[0].num_elements(), kNans);
}

TEST_F(UniqueTest, EndsWithItsStep) {
  cancellation_.Cancel(absl::CancelledError("the step is over"));
  for (const auto& result : {Evaluate("Unique", {Nans({4})}), Evaluate("ListDiff", {Nans({4}), Nans({4})}),
                             Evaluate("ListDiff", {Nans({0}), Nans({4})})}) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled) << result.status();
  }
}

}  // namespace
}  // namespace weir
