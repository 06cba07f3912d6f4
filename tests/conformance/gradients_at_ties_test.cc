// Gradients where a function has a kink, a tie or a border: small changes do not tell what is right there,
// TensorFlow does. The numbers are those of TensorFlow 2.21 (tensorflow_test.py compares with whatever
// version there is).
#include <cmath>
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/evaluate.h"
#include "ops/register_ops.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {
namespace {

using D = DType;
using List = std::vector<int64_t>;

struct TieCase {
  std::string op;
  AttrMap attrs;
  std::vector<Tensor> inputs;
  std::vector<std::vector<float>> gradients;  // of the floating inputs, when 1, 2, 3... flows into output 0
  int nan_at = -1;                            // the element of output 0 into which NaN flows instead
};

Tensor F(List dims, std::vector<double> values) {
  return Make(D::kFloat32, std::move(dims), std::move(values));
}

std::vector<TieCase> Cases() {
  return {
      {"Max",
       {},
       {F({3, 3}, {3, 3, 1, 2, 2, 2, 1, 5, 4}), Ints({1})},
       {{0.5, 0.5, 0, 0.666666687, 0.666666687, 0.666666687, 0, 3, 0}}},
      {"Max", {}, {F({3, 3}, {3, 3, 1, 2, 2, 2, 1, 5, 4}), Ints({0, 1})}, {{0, 0, 0, 0, 0, 0, 0, 1, 0}}},
      {"Min",
       {},
       {F({3, 3}, {3, 3, 1, 2, 2, 2, 1, 5, 4}), Ints({1})},
       {{0, 0, 1, 0.666666687, 0.666666687, 0.666666687, 3, 0, 0}}},
      {"Min", {}, {F({3, 3}, {3, 3, 1, 2, 2, 2, 1, 5, 4}), Ints({0})}, {{0, 0, 3, 0, 2, 0, 1, 0, 0}}},
      {"Maximum",
       {},
       {F({5}, {1, 2, 3, -1, 0}), F({5}, {1, 3, 2, -1, 0})},
       {{1, 0, 3, 4, 5}, {0, 2, 0, 0, 0}}},
      {"Maximum", {}, {F({5}, {1, 2, 3, -1, 0}), F({}, {1})}, {{1, 2, 3, 0, 0}, {9}}},
      {"Minimum",
       {},
       {F({5}, {1, 2, 3, -1, 0}), F({5}, {1, 3, 2, -1, 0})},
       {{1, 2, 0, 4, 5}, {0, 0, 3, 0, 0}}},
      {"Minimum", {}, {F({5}, {1, 2, 3, -1, 0}), F({}, {1})}, {{1, 0, 0, 4, 5}, {5}}},
      {"Abs", {}, {F({3}, {-2, 0, 2})}, {{-1, 0, 3}}},
      {"Sign", {}, {F({3}, {-2, 0, 2})}, {{0, 0, 0}}},
      {"Square", {}, {F({3}, {-2, 0, 2})}, {{-4, 0, 12}}},
      {"Relu", {}, {F({3}, {-2, 0, 2})}, {{0, 0, 3}}},
      {"SquaredDifference",
       {},
       {F({5}, {1, 2, 3, -1, 0}), F({5}, {1, 3, 2, -1, 0})},
       {{0, -4, 6, 0, 0}, {0, 4, -6, 0, 0}}},
      {"Prod", {}, {F({3, 3}, {0, 2, 3, 0, 0, 3, 1, 2, 3}), Ints({1})}, {{6, 0, 0, 0, 0, 0, 18, 9, 6}}},
      // No product of all divides by an element: it may overflow, be 0, or NaN.
      {"Prod", {}, {F({2}, {1e30, 1e30}), Ints({0})}, {{1e30f, 1e30f}}},
      {"Prod", {}, {F({2}, {1e-25, 1e-25}), Ints({0})}, {{1e-25f, 1e-25f}}},
      {"Prod", {}, {F({2, 2}, {INFINITY, 2, NAN, 2}), Ints({1})}, {{2, INFINITY, 4, NAN}}},
      // What flows into one element of a patch is that of one pixel.
      {"ExtractImagePatches",
       {{"ksizes", List{1, 2, 2, 1}},
        {"strides", List{1, 2, 2, 1}},
        {"rates", List{1, 1, 1, 1}},
        {"padding", "VALID"}},
       {F({1, 4, 4, 1}, std::vector<double>(16, 1.0))},
       {{1, 2, 5, NAN, 3, 4, 7, 8, 9, 10, 13, 14, 11, 12, 15, 16}},
       5},
      // The second one is not positive definite.
      {"Cholesky", {}, {F({2, 2, 2}, {4, 0, 0, 1, 1, 2, 2, 1})}, {{0.25, 0.75, 0.75, 2, NAN, NAN, NAN, NAN}}},
      {"FloorMod",
       {},
       {F({6}, {5, -5, 5, -5, 6, 0}), F({6}, {3, 3, -3, -3, 3, 3})},
       {{1, 2, 3, 4, 5, 6}, {-1, 4, 6, -4, -10, 0}}},
      {"Pow",
       {},
       {F({6}, {0, 0, 0, -2, 2, 1}), F({6}, {1, 2, 3, 2, 3, 0})},
       {{1, 0, 0, -16, 60, 0}, {0, 0, 0, 0, 27.7258873, 0}}},
      {"DivNoNan", {}, {F({3}, {1, 0, 3}), F({3}, {0, 0, 2})}, {{0, 0, 1.5}, {0, 0, -2.25}}},
      {"Select",
       {},
       {Make(D::kBool, {3}, {1, 0, 1}), F({3}, {1, 2, 3}), F({3}, {1, 3, 2})},
       {{1, 0, 3}, {0, 2, 0}}},
      {"UnsortedSegmentSum",
       {},
       {F({5}, {1, 2, 3, -1, 0}), Ints({1, -1, 1, 0, -1}), Int(3)},
       {{2, 0, 2, 1, 0}}},
      {"StridedSlice",
       {{"end_mask", 1}},
       {F({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), Ints({-1, 3}), Ints({0, 0}), Ints({-1, -2})},
       {{0, 6, 0, 5, 0, 4, 0, 3, 0, 2, 0, 1}}},
      {"StridedSlice",
       {{"shrink_axis_mask", 1}},
       {F({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}), Ints({1, 0}), Ints({2, 9}), Ints({1, 3})},
       {{0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0}}},
      {"MaxPool",
       {{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 1, 1, 1}}, {"padding", "VALID"}},
       {F({1, 3, 3, 1}, {1, 1, 0, 1, 1, 2, 0, 2, 2})},
       {{1, 0, 0, 0, 0, 6, 0, 3, 0}}},
      {"MaxPool",
       {{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 2, 2, 1}}, {"padding", "SAME"}},
       {F({1, 3, 3, 1}, {1, 1, 0, 1, 1, 2, 0, 2, 2})},
       {{1, 0, 0, 0, 0, 2, 0, 3, 4}}},
      {"MaxPoolGrad",
       {{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 1, 1, 1}}, {"padding", "VALID"}},
       {F({1, 3, 3, 1}, {1, 1, 0, 1, 1, 2, 0, 2, 2}), F({1, 2, 2, 1}, {1, 2, 2, 2}),
        F({1, 2, 2, 1}, {3, -1, 2, 5})},
       {std::vector<float>(9), std::vector<float>(4), {1, 6, 8, 6}}},
      {"MaxPoolGradGrad",
       {{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 1, 1, 1}}, {"padding", "VALID"}},
       {F({1, 3, 3, 1}, {1, 1, 0, 1, 1, 2, 0, 2, 2}), F({1, 2, 2, 1}, {1, 2, 2, 2}),
        F({1, 3, 3, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8})},
       {std::vector<float>(9), std::vector<float>(4), {1, 0, 0, 0, 0, 6, 0, 3, 0}}},
      {"AvgPool",
       {{"ksize", List{1, 3, 3, 1}}, {"strides", List{1, 2, 2, 1}}, {"padding", "SAME"}},
       {F({1, 3, 3, 1}, {1, 1, 0, 1, 1, 2, 0, 2, 2})},
       {{0.25, 0.75, 0.5, 1, 2.5, 1.5, 0.75, 1.75, 1}}},
  };
}

class GradientsAtTies : public testing::Test {
 protected:
  GradientsAtTies() : device_(MakeCpuDevice("test", 0, 0, threads_)) { RegisterCpuKernels(kernels_); }

  absl::StatusOr<std::vector<Tensor>> Gradients(const TieCase& test) {
    GraphBuilder g(StandardOps());
    std::vector<Output> inputs, xs;
    for (const Tensor& value : test.inputs) {
      inputs.push_back(g.AddOp("Const", {}, {{"value", value}, {"dtype", value.dtype()}}));
      if (value.dtype() == D::kFloat32) xs.push_back(inputs.back());
    }
    const Output y = g.AddOp(test.op, {inputs.begin(), inputs.end()}, test.attrs);
    if (!g.ok()) return g.status();
    const Shape shape = y.shape().ToShape();
    std::vector<double> flowing;
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      flowing.push_back(i == test.nan_at ? NAN : static_cast<double>(i + 1));
    }
    const Tensor value = F({shape.dims().begin(), shape.dims().end()}, flowing);
    const Output dy = g.AddOp("Const", {}, {{"value", value}, {"dtype", D::kFloat32}});
    const auto gradients = AddGradients(g, {y}, xs, {dy});
    if (!gradients.ok()) return gradients.status();
    return EvaluateGraph(*gradients, {}, *device_, kernels_);
  }

  ThreadPool threads_{1};
  std::unique_ptr<Device> device_;
  KernelRegistry kernels_;
};

TEST_F(GradientsAtTies, AreTensorFlows) {
  int index = 0;
  for (const TieCase& test : Cases()) {
    SCOPED_TRACE(test.op + " case " + std::to_string(index++));
    const auto found = Gradients(test);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_EQ(found->size(), test.gradients.size());
    for (size_t k = 0; k < found->size(); ++k) {
      const auto values = (*found)[k].flat<float>();
      ASSERT_EQ(values.size(), test.gradients[k].size());
      for (size_t i = 0; i < values.size(); ++i) {
        const float wanted = test.gradients[k][i];
        if (std::isnan(wanted) && std::isnan(values[i])) continue;
        EXPECT_FLOAT_EQ(values[i], wanted) << "element " << i << " of gradient " << k;
      }
    }
  }
}

}  // namespace
}  // namespace weir::conformance
