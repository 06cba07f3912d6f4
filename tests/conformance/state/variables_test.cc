#include <cmath>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/variable.h"
#include "ops/register_ops.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DType kFloat = DType::kFloat32;
constexpr DType kHandle = DType::kResource;

std::vector<float> Floats(const Tensor& tensor) {
  const absl::Span<const float> values = tensor.flat<float>();
  return {values.begin(), values.end()};
}

class StateKernelsTest : public ::testing::Test {
 protected:
  KernelUnderTest Op(const std::string& op, std::vector<DType> inputs, AttrMap attrs = {}) {
    return KernelUnderTest(host_, op, std::move(inputs), std::move(attrs));
  }
  Tensor Handle(const std::string& name, PartialShape shape = PartialShape(), DType dtype = kFloat) {
    KernelUnderTest op(host_, "VarHandleOp", {}, {{"dtype", dtype}, {"shape", std::move(shape)}}, name);
    return op.Get({});
  }
  Tensor Variable(const std::string& name, Tensor value) {
    Tensor handle = Handle(name, PartialShape(), value.dtype());
    KernelUnderTest assign = Op("AssignVariableOp", {kHandle, value.dtype()});
    EXPECT_TRUE(assign.Run({handle, std::move(value)}).ok());
    return handle;
  }
  Tensor Read(const Tensor& handle, DType dtype = kFloat) {
    return Op("ReadVariableOp", {kHandle}, {{"dtype", dtype}}).Get({handle});
  }
  absl::Status ApplyGradientDescent(const Tensor& handle, float alpha, Tensor delta) {
    return Op("ResourceApplyGradientDescent", {kHandle, kFloat, kFloat})
        .Run({handle, Tensor::Scalar(alpha), std::move(delta)})
        .status();
  }

  TestHost host_{RegisterStateKernels, RegisterTrainingKernels};
};

TEST_F(StateKernelsTest, HandlesOfOneNameShareTheVariable) {
  const Tensor a = Variable("w", Tensor::Vector<float>({1, 2}));
  KernelUnderTest other(host_, "VarHandleOp", {},
                        {{"dtype", kFloat}, {"shape", PartialShape()}, {"shared_name", "w"}}, "another_node");
  EXPECT_THAT(Floats(Read(other.Get({}))), ElementsAre(1, 2));
}

TEST_F(StateKernelsTest, AHandleThatCameByNameOnlyIsLookedUp) {
  Tensor handle = Variable("w", Tensor::Vector<float>({1, 2})).Clone();
  handle.flat<ResourceHandle>()[0].resource = nullptr;
  EXPECT_THAT(Floats(Read(handle)), ElementsAre(1, 2));
}

TEST_F(StateKernelsTest, AVariableKeepsItsDType) {
  Handle("w");
  KernelUnderTest other(host_, "VarHandleOp", {}, {{"dtype", DType::kInt32}, {"shape", PartialShape()}}, "w");
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("variable 'w' holds float, asked for as int32"));
  const Tensor handle = Variable("w", Tensor::Vector<float>({1}));
  EXPECT_EQ(Op("ReadVariableOp", {kHandle}, {{"dtype", DType::kInt32}}).Run({handle}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(StateKernelsTest, ReadingBeforeInitializingSaysWhatToDo) {
  const Tensor handle = Handle("dense/kernel");
  const absl::Status status = Op("ReadVariableOp", {kHandle}, {{"dtype", kFloat}}).Run({handle}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "Attempting to use uninitialized value dense/kernel: run its initializer or restore a checkpoint "
            "first");
  EXPECT_EQ(ApplyGradientDescent(handle, 1, Tensor::Vector<float>({1})).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(StateKernelsTest, AssignmentTakesTheBufferOver) {
  Tensor value = Tensor::Vector<float>({1, 2});
  const void* buffer = value.data();
  const Tensor handle = Variable("w", std::move(value));
  EXPECT_EQ(Read(handle).data(), buffer);
}

TEST_F(StateKernelsTest, AssignmentKeepsTheDeclaredShape) {
  // The declared shape reaches the assignment through the graph, so both nodes are in one here.
  Graph graph(StandardOps());
  NodeSpec handle_spec, value_spec, spec;
  handle_spec.op = "VarHandleOp";
  handle_spec.name = "w";
  handle_spec.attrs = {{"dtype", kFloat}, {"shape", PartialShape({4, 3})}};
  value_spec.op = "Placeholder";
  value_spec.name = "value";
  value_spec.attrs = {{"dtype", kFloat}};
  spec.op = "AssignVariableOp";
  spec.name = "assign";
  spec.inputs = {graph.AddNode(handle_spec).value()->output(0), graph.AddNode(value_spec).value()->output(0)};
  Node* node = graph.AddNode(spec).value();
  std::unique_ptr<Kernel> kernel = host_.kernels().Create(*node, host_.device()).value();
  Tensor slots[] = {Handle("w"), Tensor(kFloat, {5, 3})};
  const int32_t input_slots[] = {0, 1};
  const bool last_use[] = {true, true};
  const StepContext step;
  KernelContext context(step, host_.device(), slots, input_slots, last_use, 2, 2, nullptr, 0);
  const absl::Status status = kernel->Compute(context);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "variable 'w' has the shape [4,3], the value assigned to it is float[5,3]");
}

TEST_F(StateKernelsTest, ValidateShapeComparesWithTheValueBefore) {
  const Tensor handle = Variable("w", Tensor::Vector<float>({1, 2}));
  KernelUnderTest strict = Op("AssignVariableOp", {kHandle, kFloat}, {{"validate_shape", true}});
  const absl::Status status = strict.Run({handle, Tensor::Vector<float>({1, 2, 3})}).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has the shape [2], the value assigned to it is float[3]"));
}

TEST_F(StateKernelsTest, UpdatesInPlaceWhenNobodyElseReads) {
  const Tensor handle = Variable("w", Tensor::Vector<float>({1, 2}));
  const void* buffer = Read(handle).data();
  ASSERT_TRUE(ApplyGradientDescent(handle, 0.5f, Tensor::Vector<float>({2, -4})).ok());
  EXPECT_EQ(Read(handle).data(), buffer);
  EXPECT_THAT(Floats(Read(handle)), ElementsAre(0, 4));
}

TEST_F(StateKernelsTest, AReadersTensorNeverChanges) {
  const Tensor handle = Variable("w", Tensor::Vector<float>({1, 2}));
  const Tensor before = Read(handle);
  ASSERT_TRUE(ApplyGradientDescent(handle, 1, Tensor::Vector<float>({1, 1})).ok());
  EXPECT_THAT(Floats(before), ElementsAre(1, 2));
  EXPECT_THAT(Floats(Read(handle)), ElementsAre(0, 1));
}

TEST_F(StateKernelsTest, AssignAddAndSub) {
  const Tensor handle = Variable("step", Tensor::Scalar<int64_t>(std::numeric_limits<int64_t>::max()));
  KernelUnderTest add = Op("AssignAddVariableOp", {kHandle, DType::kInt64});
  KernelUnderTest sub = Op("AssignSubVariableOp", {kHandle, DType::kInt64});
  ASSERT_TRUE(sub.Run({handle, Tensor::Scalar<int64_t>(7)}).ok());
  ASSERT_TRUE(add.Run({handle, Tensor::Scalar<int64_t>(8)}).ok());  // wraps around
  EXPECT_EQ(Read(handle, DType::kInt64).scalar<int64_t>(), std::numeric_limits<int64_t>::min());
}

TEST_F(StateKernelsTest, AGradientOfAnotherShapeIsRefused) {
  const Tensor handle = Variable("w", Tensor(kFloat, {2, 3}));
  const absl::Status status = ApplyGradientDescent(handle, 1, Tensor(kFloat, {3, 2}));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the gradient is float[3,2] but variable 'w' is float[2,3]");
  KernelUnderTest apply = Op("ResourceApplyGradientDescent", {kHandle, kFloat, kFloat});
  EXPECT_THAT(
      std::string(apply.Run({handle, Tensor(kFloat, {2}), Tensor(kFloat, {2, 3})}).status().message()),
      HasSubstr("alpha must be a scalar, is float[2]"));
}

TEST_F(StateKernelsTest, InitializedAndDestroyed) {
  const Tensor handle = Handle("w");
  KernelUnderTest is_initialized = Op("VarIsInitializedOp", {kHandle});
  KernelUnderTest destroy = Op("DestroyResourceOp", {kHandle});
  EXPECT_FALSE(is_initialized.Get({handle}).scalar<bool>());
  KernelUnderTest disable = Op("DisableCopyOnRead", {kHandle});
  EXPECT_TRUE(absl::IsFailedPrecondition(disable.Run({handle}).status()));
  Variable("w", Tensor::Vector<float>({1}));
  EXPECT_TRUE(disable.Run({handle}).ok());
  EXPECT_TRUE(is_initialized.Get({handle}).scalar<bool>());
  EXPECT_TRUE(destroy.Run({handle}).ok());
  EXPECT_FALSE(is_initialized.Get({handle}).scalar<bool>());
  EXPECT_TRUE(destroy.Run({handle}).ok());
  EXPECT_TRUE(absl::IsNotFound(
      Op("DestroyResourceOp", {kHandle}, {{"ignore_lookup_error", false}}).Run({handle}).status()));
}

// Adam and momentum against the formulas, in double precision, over several steps and odd sizes.
class OptimizerTest : public StateKernelsTest, public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr int kCount = 37;

  static Tensor Ramp(float scale) {
    Tensor tensor(kFloat, {kCount});
    for (int i = 0; i < kCount; ++i) tensor.flat<float>()[i] = scale * static_cast<float>(i - 17);
    return tensor;
  }
  static Tensor Zeros() { return Ramp(0); }
};

TEST_P(OptimizerTest, Adam) {
  const bool nesterov = GetParam();
  const Tensor var = Variable("var", Ramp(0.1f)), m = Variable("m", Zeros()), v = Variable("v", Zeros());
  KernelUnderTest adam =
      Op("ResourceApplyAdam",
         {kHandle, kHandle, kHandle, kFloat, kFloat, kFloat, kFloat, kFloat, kFloat, kFloat},
         {{"use_nesterov", nesterov}});
  std::vector<double> x(kCount), mean(kCount), variance(kCount);
  for (int i = 0; i < kCount; ++i) x[i] = 0.1 * (i - 17);
  for (int step = 1; step <= 3; ++step) {
    const double power1 = std::pow(0.9, step), power2 = std::pow(0.99, step);
    const Tensor grad = Ramp(0.01f * static_cast<float>(step));
    ASSERT_TRUE(adam.Run({var, m, v, Tensor::Scalar(static_cast<float>(power1)),
                          Tensor::Scalar(static_cast<float>(power2)), Tensor::Scalar(0.01f),
                          Tensor::Scalar(0.9f), Tensor::Scalar(0.99f), Tensor::Scalar(1e-8f), grad})
                    .ok());
    for (int i = 0; i < kCount; ++i) {
      const double g = 0.01 * step * (i - 17);
      mean[i] = 0.9 * mean[i] + 0.1 * g;
      variance[i] = 0.99 * variance[i] + 0.01 * g * g;
      const double direction = nesterov ? 0.9 * mean[i] + 0.1 * g : mean[i];
      x[i] -= 0.01 * std::sqrt(1 - power2) / (1 - power1) * direction / (std::sqrt(variance[i]) + 1e-8);
    }
  }
  for (int i = 0; i < kCount; ++i) EXPECT_NEAR(Read(var).flat<float>()[i], x[i], 2e-6) << i;
}

TEST_P(OptimizerTest, Momentum) {
  const bool nesterov = GetParam();
  for (const bool keras : {false, true}) {
    const Tensor var = Variable("var", Ramp(1)), accum = Variable("accum", Zeros());
    KernelUnderTest apply = Op(keras ? "ResourceApplyKerasMomentum" : "ResourceApplyMomentum",
                               {kHandle, kHandle, kFloat, kFloat, kFloat}, {{"use_nesterov", nesterov}});
    std::vector<double> x(kCount), a(kCount);
    for (int i = 0; i < kCount; ++i) x[i] = i - 17;
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(apply.Run({var, accum, Tensor::Scalar(0.1f), Ramp(0.5f), Tensor::Scalar(0.9f)}).ok());
      for (int i = 0; i < kCount; ++i) {
        const double g = 0.5 * (i - 17);
        if (keras) {
          a[i] = 0.9 * a[i] - 0.1 * g;
          x[i] += nesterov ? 0.9 * a[i] - 0.1 * g : a[i];
        } else {
          a[i] = 0.9 * a[i] + g;
          x[i] -= 0.1 * (nesterov ? g + 0.9 * a[i] : a[i]);
        }
      }
    }
    for (int i = 0; i < kCount; ++i) {
      EXPECT_NEAR(Read(var).flat<float>()[i], x[i], 1e-5) << i << (keras ? " keras" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nesterov, OptimizerTest, ::testing::Bool());

TEST_F(StateKernelsTest, OneVariableCannotBeItsOwnSlot) {
  const Tensor w = Variable("w", Tensor::Vector<float>({1}));
  KernelUnderTest apply = Op("ResourceApplyMomentum", {kHandle, kHandle, kFloat, kFloat, kFloat});
  EXPECT_THAT(
      std::string(apply.Run({w, w, Tensor::Scalar(1.f), Tensor::Vector<float>({1}), Tensor::Scalar(1.f)})
                      .status()
                      .message()),
      HasSubstr("variable 'w' is both input 0 and input 1"));
}

TEST_F(StateKernelsTest, SixteenBitTypesAreUpdated) {
  const Tensor handle = Variable("w", Tensor::Vector<Bfloat16>({Bfloat16(2.0f), Bfloat16(-1.0f)}));
  KernelUnderTest apply = Op("ResourceApplyGradientDescent", {kHandle, DType::kBfloat16, DType::kBfloat16});
  ASSERT_TRUE(apply
                  .Run({handle, Tensor::Scalar(Bfloat16(0.5f)),
                        Tensor::Vector<Bfloat16>({Bfloat16(1.0f), Bfloat16(2.0f)})})
                  .ok());
  const Tensor result = Read(handle, DType::kBfloat16);
  EXPECT_EQ(static_cast<float>(result.flat<Bfloat16>()[0]), 1.5f);
  EXPECT_EQ(static_cast<float>(result.flat<Bfloat16>()[1]), -2.0f);
}

// Asynchronous workers: no update is lost, and every read is of one moment (all elements equal).
TEST_F(StateKernelsTest, ConcurrentUpdatesAndReads) {
  constexpr int kWriters = 3, kUpdates = 100, kElements = 60000;
  Tensor ones(kFloat, {kElements});
  std::fill(ones.flat<float>().begin(), ones.flat<float>().end(), 1.0f);
  Tensor zeros(kFloat, {kElements});
  std::fill(zeros.flat<float>().begin(), zeros.flat<float>().end(), 0.0f);
  const Tensor handle = Variable("w", std::move(zeros));
  KernelUnderTest apply = Op("ResourceApplyGradientDescent", {kHandle, kFloat, kFloat});
  KernelUnderTest read = Op("ReadVariableOp", {kHandle}, {{"dtype", kFloat}});
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kWriters; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kUpdates; ++i) EXPECT_TRUE(apply.Run({handle, Tensor::Scalar(-1.0f), ones}).ok());
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < kUpdates; ++i) {
      const Tensor value = read.Get({handle});
      const absl::Span<const float> values = value.flat<float>();
      if (std::any_of(values.begin(), values.end(), [&](float x) { return x != values[0]; })) ++torn;
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(Read(handle).flat<float>()[0], kWriters * kUpdates);
}

}  // namespace
}  // namespace weir
