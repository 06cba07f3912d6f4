// Kernels on drawn inputs that fill many blocks of threads, and a last one in part: what the conformance
// suite's small calls do not show. The CPU's results are expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/cuda_kernels.h"
#include "tests/conformance/comparison.h"
#include "tests/gpu/both_devices.h"

namespace weir::gpu_check {
namespace {

using conformance::CaseInput;
using conformance::OpCase;
using Integers = std::vector<int64_t>;

const DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16};

template <typename Visit>
void VisitElements(Tensor& tensor, const Visit& visit) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return visit(tensor.flat<float>());
    case DType::kFloat64:
      return visit(tensor.flat<double>());
    case DType::kHalf:
      return visit(tensor.flat<Half>());
    case DType::kBfloat16:
      return visit(tensor.flat<Bfloat16>());
    default:
      FAIL() << "no floating numbers: " << DTypeName(tensor.dtype());
  }
}

std::vector<double> Numbers(Tensor tensor) {
  std::vector<double> numbers;
  VisitElements(tensor, [&](const auto& elements) { numbers.assign(elements.begin(), elements.end()); });
  return numbers;
}

// Numbers from `low` to `high`.
Tensor Draw(DType dtype, const Integers& dims, double low = -1, double high = 1, int seed = 1) {
  Tensor tensor(dtype, Shape(dims));
  std::mt19937 random(static_cast<uint32_t>(seed));
  VisitElements(tensor, [&](const auto& elements) {
    for (auto& element : elements) {
      const double number = low + (high - low) * (static_cast<double>(random()) / 4294967296.0);
      if constexpr (std::is_same_v<std::decay_t<decltype(element)>, double>) {
        element = number;
      } else {
        element = std::decay_t<decltype(element)>(static_cast<float>(number));
      }
    }
  });
  return tensor;
}

Tensor Ints(const std::vector<int32_t>& values) {
  return Tensor::FromSpan<int32_t>({static_cast<int64_t>(values.size())}, values);
}

class LargeInputsTest : public ::testing::Test {
 protected:
  // The largest difference may be `times` that of the suite's single calls; by parts of the largest number,
  // as an error of a long sum is.
  static void Check(const std::string& op, std::vector<CaseInput> inputs, AttrMap attrs = {},
                    double times = 1) {
    std::string about = op;
    for (const CaseInput& input : inputs) absl::StrAppend(&about, " ", input.tensors[0].ToString(0));
    SCOPED_TRACE(about);
    const absl::StatusOr<BothResults> results =
        RunOnBoth({.op = op, .attrs = std::move(attrs), .inputs = std::move(inputs)});
    if (absl::IsNotFound(results.status())) GTEST_SKIP() << results.status().message();
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ(results->gpu.size(), results->cpu.size());
    for (size_t i = 0; i < results->cpu.size(); ++i) {
      ASSERT_EQ(results->gpu[i].shape(), results->cpu[i].shape());
      const double allowed = 4 * times * conformance::ToleranceOf(results->cpu[i].dtype());
      const std::vector<double> found = Numbers(results->gpu[i]), expected = Numbers(results->cpu[i]);
      double scale = 1e-30, most = 0;
      for (size_t k = 0; k < expected.size(); ++k) {
        scale = std::max(scale, std::abs(expected[k]));
        const bool is_number = std::isfinite(found[k]) && std::isfinite(expected[k]);
        most = std::max(most, is_number                 ? std::abs(found[k] - expected[k])
                              : found[k] == expected[k] ? 0
                                                        : 1e300);
      }
      EXPECT_LE(most, allowed * scale) << "result " << i << ", whose largest number is " << scale;
    }
  }
};

// More than all threads of a grid have one turn for.
constexpr int64_t kMany = 600'011;
// One fewer and one more than a block's threads, a warp's.
const Integers kCounts = {1, 31, 33, 255, 257, 65'537, kMany};

TEST_F(LargeInputsTest, FunctionsOfElements) {
  for (const DType dtype : kFloats) {
    for (const int64_t count : kCounts) {
      for (const char* const op : {"Relu", "Tanh", "Sigmoid", "Exp"})
        Check(op, {Draw(dtype, {count}, -4, 4)});
      for (const char* const op : {"Sqrt", "Log"}) Check(op, {Draw(dtype, {count}, 0.01, 9)});
    }
  }
}

TEST_F(LargeInputsTest, OperandsOfOneShapeAndBroadcastOnes) {
  for (const DType dtype : kFloats) {
    for (const char* const op : {"AddV2", "Sub", "Mul", "RealDiv", "Maximum", "Minimum"}) {
      const Tensor divisor = Draw(dtype, {kMany}, 0.5, 2, 2);
      Check(op, {Draw(dtype, {kMany}), divisor});
      Check(op, {Draw(dtype, {kMany}), Draw(dtype, {}, 0.5, 2)});
      Check(op, {Draw(dtype, {1031, 301}), Draw(dtype, {301}, 0.5, 2)});
      Check(op, {Draw(dtype, {1031, 1}), Draw(dtype, {1, 301}, 0.5, 2)});
    }
    Check("ReluGrad", {Draw(dtype, {kMany}), Draw(dtype, {kMany}, -1, 1, 2)});
    for (const char* const op : {"TanhGrad", "SigmoidGrad"}) {
      Check(op, {Draw(dtype, {kMany}, 0, 1), Draw(dtype, {kMany}, -1, 1, 2)});
    }
  }
}

TEST_F(LargeInputsTest, WhatIsRepeatedAndCast) {
  for (const DType dtype : kFloats) {
    Check("Tile", {Draw(dtype, {37, 41, 3}), Ints({7, 5, 11})}, {}, 0);
    Check("BroadcastTo", {Draw(dtype, {129, 1, 65}), Ints({3, 129, 33, 65})}, {}, 0);
    for (const DType to : kFloats) Check("Cast", {Draw(dtype, {kMany})}, {{"DstT", to}});
  }
}

TEST_F(LargeInputsTest, SumsAndMeansOverRowsColumnsAndAll) {
  struct Case {
    Integers shape;
    std::vector<int32_t> axes;
  };
  const std::vector<Case> cases = {
      {{kMany}, {0}},
      {{1031, 301}, {0}},
      {{1031, 301}, {1}},
      {{3, 100'003}, {1}},
      {{100'003, 3}, {0}},
      {{5, 1}, {1}},
      {{300, 257}, {0, 1}},
      {{64, 33, 17}, {0, 2}},
      {{17, 9, 13, 19}, {0, 1, 2}},
      {{17, 9, 13, 19}, {1, 2}},
      {{17, 9, 13, 19}, {1, 3}},
  };
  for (const DType dtype : kFloats) {
    for (const Case& c : cases) {
      // The stand-in adds one by one.
      for (const char* const op : {"Sum", "Mean"}) Check(op, {Draw(dtype, c.shape), Ints(c.axes)}, {}, 16);
    }
    for (const char* const format : {"NHWC", "NCHW"}) {
      const int64_t channels = format[1] == 'C' ? 33 : 29;
      const AttrMap attrs = {{"data_format", std::string(format)}};
      Check("BiasAdd", {Draw(dtype, {19, 33, 31, 29}), Draw(dtype, {channels})}, attrs);
      Check("BiasAddGrad", {Draw(dtype, {19, 33, 31, 29})}, attrs, 4);
    }
  }
}

TEST_F(LargeInputsTest, CrossEntropies) {
  for (const DType dtype : kFloats) {
    for (const auto& [rows, classes] : std::vector<std::pair<int64_t, int64_t>>{
             {333, 1000}, {4097, 7}, {3, 50'001}, {1, 1}, {128, 10}, {257, 33}}) {
      Tensor distribution = Draw(dtype, {rows, classes}, 0, 2.0 / static_cast<double>(classes), 2);
      Check("SoftmaxCrossEntropyWithLogits", {Draw(dtype, {rows, classes}, -3, 3), distribution}, {}, 4);
      for (const DType index : {DType::kInt32, DType::kInt64}) {
        Tensor labels(index, Shape({rows}));
        std::mt19937 random(3);
        for (int64_t i = 0; i < rows; ++i) {
          const int64_t label = random() % classes;
          if (index == DType::kInt32) labels.flat<int32_t>()[i] = static_cast<int32_t>(label);
          if (index == DType::kInt64) labels.flat<int64_t>()[i] = label;
        }
        Check("SparseSoftmaxCrossEntropyWithLogits", {Draw(dtype, {rows, classes}, -3, 3), labels}, {}, 4);
      }
    }
  }
}

TEST_F(LargeInputsTest, ProductsOfMatrices) {
  struct Sizes {
    int64_t m, n, k;
  };
  for (const DType dtype : kFloats) {
    for (const Sizes& s :
         std::vector<Sizes>{{129, 65, 257}, {1, 300, 784}, {300, 1, 32}, {256, 128, 512}, {33, 10, 1}}) {
      for (int choice = 0; choice < 4; ++choice) {
        const bool a = (choice & 1) != 0, b = (choice & 2) != 0;
        Check("MatMul",
              {Draw(dtype, a ? Integers{s.k, s.m} : Integers{s.m, s.k}),
               Draw(dtype, b ? Integers{s.n, s.k} : Integers{s.k, s.n}, -1, 1, 2)},
              {{"transpose_a", a}, {"transpose_b", b}}, 4);
      }
    }
  }
}

TEST_F(LargeInputsTest, ConvolutionsAndTheirGradients) {
  struct Case {
    int64_t images, size, channels, filters, window, stride;
  };
  for (const DType dtype : kFloats) {
    for (const Case& c : std::vector<Case>{
             {8, 32, 3, 16, 3, 1}, {8, 32, 16, 32, 3, 2}, {4, 15, 24, 40, 1, 1}, {2, 31, 4, 8, 5, 2}}) {
      const int64_t out = (c.size + c.stride - 1) / c.stride;
      const AttrMap attrs = {{"strides", Integers{1, c.stride, c.stride, 1}},
                             {"padding", std::string("SAME")}};
      const auto dims = [](const Integers& of) { return Ints({of.begin(), of.end()}); };
      const Integers x = {c.images, c.size, c.size, c.channels}, y = {c.images, out, out, c.filters};
      const Integers filter = {c.window, c.window, c.channels, c.filters};
      Check("Conv2D", {Draw(dtype, x), Draw(dtype, filter, -1, 1, 2)}, attrs, 4);
      Check("Conv2DBackpropInput", {dims(x), Draw(dtype, filter), Draw(dtype, y, -1, 1, 2)}, attrs, 4);
      Check("Conv2DBackpropFilter", {Draw(dtype, x), dims(filter), Draw(dtype, y, -1, 1, 2)}, attrs, 4);
    }
  }
}

TEST_F(LargeInputsTest, Pools) {
  for (const DType dtype : kFloats) {
    for (const char* const padding : {"SAME", "VALID"}) {
      const AttrMap attrs = {{"ksize", Integers{1, 3, 2, 1}},
                             {"strides", Integers{1, 2, 2, 1}},
                             {"padding", std::string(padding)}};
      const bool is_same = padding[0] == 'S';
      const Integers x = {16, 33, 31, 24}, y = {16, is_same ? 17 : 16, is_same ? 16 : 15, 24};
      Check("MaxPool", {Draw(dtype, x)}, attrs, 0);
      Check("AvgPool", {Draw(dtype, x)}, attrs);
      Check("AvgPoolGrad", {Ints({16, 33, 31, 24}), Draw(dtype, y)}, attrs);
    }
  }
}

TEST_F(LargeInputsTest, BatchNormalization) {
  for (const DType dtype : {DType::kFloat32, DType::kHalf, DType::kBfloat16}) {
    for (const Integers& shape :
         std::vector<Integers>{{32, 16, 16, 48}, {128, 8, 8, 5}, {7, 5, 3, 257}, {2, 1, 1, 3}}) {
      const Integers channels = {shape[3]};
      const DType f = DType::kFloat32;
      const AttrMap attrs = {{"is_training", true}, {"epsilon", 0.01f}};
      const Tensor none(f, Shape({0}));
      Check(
          "FusedBatchNormV3",
          {Draw(dtype, shape, -2, 3), Draw(f, channels, 0.5, 2, 2), Draw(f, channels, -1, 1, 3), none, none},
          attrs,
          // The inverse of a deviation, among what is kept for the gradient, is 10 times as large as the
          // numbers.
          10);
      Check("FusedBatchNormGradV3",
            {Draw(dtype, shape), Draw(dtype, shape, -2, 3, 2), Draw(f, channels, 0.5, 2, 2),
             Draw(f, channels, 0.4, 0.6, 3), Draw(f, channels, 0.5, 0.8, 4), none},
            attrs, 10);
    }
  }
}

TEST_F(LargeInputsTest, Optimizers) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const auto variable = [&](int seed, double low) {
      return CaseInput::Variable(Draw(dtype, {kMany}, low, 1, seed));
    };
    const auto scalar = [&](double value) { return Draw(dtype, {}, value, value); };
    const Tensor gradient = Draw(dtype, {kMany}, -1, 1, 9);
    Check("ResourceApplyGradientDescent", {variable(1, -1), scalar(0.1), gradient});
    Check("ResourceApplyMomentum", {variable(1, -1), variable(2, -1), scalar(0.1), gradient, scalar(0.9)});
    Check("ResourceApplyAdam", {variable(1, -1), variable(2, -1), variable(3, 0.1), scalar(0.8), scalar(0.9),
                                scalar(0.1), scalar(0.9), scalar(0.99), scalar(0.001), gradient});
    Check("AssignAddVariableOp", {variable(1, -1), gradient});
  }
}

Tensor DrawIndices(DType dtype, int64_t count, int64_t limit) {
  Tensor indices(dtype, Shape({count}));
  std::mt19937_64 random(7);
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
    if (dtype == DType::kInt32) {
      indices.flat<int32_t>()[i] = static_cast<int32_t>(index);
    } else {
      indices.flat<int64_t>()[i] = index;
    }
  }
  return indices;
}

// From rows that are all one to rows that are hardly ever the same: sorts of one turn of a block, and of
// many.
TEST_F(LargeInputsTest, RowsThatAreChosenAndAddedUpAndUpdated) {
  const DType f = DType::kFloat32;
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    for (const int64_t count : {int64_t{257}, int64_t{5'003}, kMany}) {
      for (const int64_t limit : {1, 1'000, 1'000'003}) {
        const Tensor indices = DrawIndices(index, count, limit);
        Check("GatherV2", {Draw(f, {limit, 2}), indices, Tensor::Scalar<int32_t>(0)});
        Check("UnsortedSegmentSum",
              {Draw(f, {count, 2}), indices, Tensor::Scalar<int32_t>(static_cast<int32_t>(limit))});
        Check("ResourceSparseApplyAdagrad",
              {CaseInput::Variable(Draw(f, {limit, 2})), CaseInput::Variable(Draw(f, {limit, 2}, 0.1, 1, 2)),
               Draw(f, {}, 0.1, 0.1), Draw(f, {count, 2}, -1, 1, 3), indices});
      }
    }
  }
}

TEST_F(LargeInputsTest, OtherOrders) {
  for (const DType dtype : kFloats) {
    Check("Transpose", {Draw(dtype, {300, 41, 49}), Ints({2, 0, 1})});
    Check("Slice", {Draw(dtype, {300, 41, 49}), Ints({3, 2, 1}), Ints({290, 37, 48})});
  }
}

}  // namespace
}  // namespace weir::gpu_check
