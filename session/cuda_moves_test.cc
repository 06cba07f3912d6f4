// Ops that compare, choose, join, cut and reorder, on recorded GPUs against the CPU: the same elements.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/standard_ops.h"
#include "session/test_cuda_session.h"

namespace weir {
namespace {

using ::testing::Contains;
using ::testing::StartsWith;

class CudaMovesTest : public CudaSessionTest {
 protected:
  using Build = std::function<Output(GraphBuilder& g, Output x)>;

  // op(x) on the CPU and on a GPU, where a kernel whose name begins with `kernel` must have been launched if
  // one is named.
  void Compare(const std::string& kernel, const Tensor& x, const Build& build) {
    SCOPED_TRACE(kernel);
    std::vector<Tensor> results;
    for (const bool on_gpu : {false, true}) {
      Place place(on_gpu ? Gpus(1) : RuntimeOptions{.num_threads = 1});
      auto scope = place.g.DeviceScope(on_gpu ? "/gpu:0" : "/cpu:0");
      const Output fed = Placeholder(place.g, x.dtype(), PartialShape(x.shape()));
      const Output y = build(place.g, fed);
      cuda_.ClearLog();
      const auto result = place.session().Run({{fed, x}}, {y});
      ASSERT_TRUE(result.ok()) << result.status();
      results.push_back((*result)[0]);
    }
    EXPECT_EQ(results[1].shape(), results[0].shape());
    EXPECT_EQ(results[1].ToString(1000), results[0].ToString(1000));
    if (!kernel.empty()) {
      EXPECT_THAT(Launches(), Contains(StartsWith(kernel)));
    }
  }

  static Tensor Numbers(const Shape& shape, int seed = 1) {
    Tensor tensor(DType::kFloat32, shape);
    std::mt19937 random(seed);
    for (float& x : tensor.flat<float>()) x = static_cast<float>(random() % 9) / 2 - 2;
    return tensor;
  }

  static Output As(GraphBuilder& g, Output x, DType dtype) { return g.AddOp("Cast", {x}, {{"DstT", dtype}}); }
};

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kHalf,  DType::kBfloat16,
                             DType::kInt32,   DType::kInt64,   DType::kUint8, DType::kBool};

TEST_F(CudaMovesTest, NumbersOfAnyDTypeBecomeThoseOfAnother) {
  Tensor x = Numbers(Shape({40}));
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> special = {infinity,
                                      -infinity,
                                      std::numeric_limits<float>::quiet_NaN(),
                                      255.5f,
                                      256,
                                      -0.5f,
                                      2147483648.0f,
                                      -2147483648.0f,
                                      1e19f,
                                      -1e19f,
                                      0};
  std::copy(special.begin(), special.end(), x.flat<float>().begin());
  for (const DType from : kDTypes) {
    for (const DType to : kDTypes) {
      if (from == to) continue;
      // There and back again may be nothing at all.
      Compare(to == DType::kFloat32 ? "" : "Cast_", x,
              [&](GraphBuilder& g, Output in) { return As(g, As(g, in, from), to); });
    }
  }
}

// It says how floating-point numbers of fewer bits are made, and nothing of others.
TEST_F(CudaMovesTest, IntegersAreCastWithTruncateToo) {
  Compare("Cast_", Numbers(Shape({40})), [](GraphBuilder& g, Output in) {
    return g.AddOp("Cast", {As(g, in, DType::kInt32)}, {{"DstT", DType::kFloat32}, {"Truncate", true}});
  });
}

TEST_F(CudaMovesTest, Comparisons) {
  const Tensor x = Numbers(Shape({3, 4}));
  for (const std::string op : {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"}) {
    for (const DType dtype : kDTypes) {
      const bool has_order = dtype != DType::kBool && op != "Equal" && op != "NotEqual";
      if (dtype == DType::kUint8 || (dtype == DType::kBool && !has_order && op.size() > 8)) continue;
      if (dtype == DType::kBool && op != "Equal" && op != "NotEqual") continue;
      for (const Shape& shape : {Shape({3, 4}), Shape({4}), Shape(), Shape({3, 1})}) {
        Compare(op + "_", x, [&](GraphBuilder& g, Output in) {
          return g.AddOp(op, {As(g, in, dtype), As(g, Const(g, Numbers(shape, 2)), dtype)});
        });
      }
    }
  }
  Compare("Equal_float", x, [](GraphBuilder& g, Output in) {
    const Output nan = Const(g, std::numeric_limits<float>::quiet_NaN());
    return g.AddOp("Equal", {g.AddOp("Mul", {in, nan}), g.AddOp("Mul", {in, nan})});
  });
}

TEST_F(CudaMovesTest, Logic) {
  const Tensor x = Numbers(Shape({3, 4}));
  const auto is_positive = [](GraphBuilder& g, Output in) {
    return g.AddOp("Greater", {in, Const(g, 0.0f)});
  };
  const auto is_small = [](GraphBuilder& g, Output in) { return g.AddOp("Less", {in, Const(g, 1.0f)}); };
  for (const char* const op : {"LogicalAnd", "LogicalOr"}) {
    Compare(op, x, [&](GraphBuilder& g, Output in) {
      return g.AddOp(op, {is_positive(g, in), is_small(g, in)});
    });
  }
  Compare("LogicalNot", x,
          [&](GraphBuilder& g, Output in) { return g.AddOp("LogicalNot", {is_positive(g, in)}); });
}

TEST_F(CudaMovesTest, Choices) {
  const Tensor x = Numbers(Shape({3, 4}));
  const auto positive = [](GraphBuilder& g, Output in) { return g.AddOp("Greater", {in, Const(g, 0.0f)}); };
  for (const char* const op : {"Select", "SelectV2"}) {
    for (const DType dtype : {DType::kFloat32, DType::kHalf, DType::kInt64, DType::kBool}) {
      Compare("Select_", x, [&](GraphBuilder& g, Output in) {
        const Output other = As(g, Const(g, Numbers(Shape({3, 4}), 2)), dtype);
        return g.AddOp(op, {positive(g, in), As(g, in, dtype), other});
      });
    }
    Compare("Select_", Numbers(Shape()), [&](GraphBuilder& g, Output in) {
      return g.AddOp(op, {positive(g, in), Const(g, x), Const(g, Numbers(Shape({3, 4}), 2))});
    });
  }
  Compare("Select_", Numbers(Shape({3})), [&](GraphBuilder& g, Output in) {  // of rows
    return g.AddOp("Select", {positive(g, in), Const(g, x), Const(g, Numbers(Shape({3, 4}), 2))});
  });
  Compare("Select_", Numbers(Shape({4})), [&](GraphBuilder& g, Output in) {
    return g.AddOp("SelectV2", {positive(g, in), Const(g, Numbers(Shape({3, 1}))), Const(g, 7.0f)});
  });
}

TEST_F(CudaMovesTest, Joins) {
  for (int axis = -3; axis < 3; ++axis) {
    for (const DType dtype : {DType::kFloat32, DType::kHalf, DType::kInt64, DType::kBool}) {
      Compare("Join_", Numbers(Shape({2, 3, 4})), [&](GraphBuilder& g, Output in) {
        std::vector<Output> parts = {As(g, in, dtype)};
        for (const int64_t size : {1, 0, 5}) {
          Dims dims = {2, 3, 4};
          dims[(axis + 3) % 3] = size;
          parts.push_back(As(g, Const(g, Numbers(Shape(absl::MakeConstSpan(dims)), 2)), dtype));
        }
        return g.AddOp("ConcatV2", {parts, Const(g, axis)});
      });
      Compare("Join_", Numbers(Shape({2, 3, 4})), [&](GraphBuilder& g, Output in) {
        const Output first = As(g, in, dtype), second = As(g, Const(g, Numbers(Shape({2, 3, 4}), 2)), dtype);
        return g.AddOp("Pack", {std::vector<Output>{first, second, first}}, {{"axis", axis}});
      });
    }
  }
  // More than one launch takes.
  Compare("Join_", Numbers(Shape({3, 2})), [](GraphBuilder& g, Output in) {
    std::vector<Output> parts;
    for (int i = 0; i < 150; ++i) parts.push_back(i % 2 == 0 ? in : Const(g, Numbers(Shape({3, i % 5}), i)));
    return g.AddOp("ConcatV2", {parts, Const(g, 1)});
  });
  Compare("Join_", Numbers(Shape()), [](GraphBuilder& g, Output in) {
    return g.AddOp("Pack", {std::vector<Output>{in, Const(g, 3.0f)}});
  });
}

TEST_F(CudaMovesTest, PartsAndOtherOrders) {
  const Tensor x = Numbers(Shape({4, 5, 6}));
  Compare("Spread_", x, [](GraphBuilder& g, Output in) {
    return g.AddOp("Slice", {in, ConstIntegers(g, {1, 0, 2}), ConstIntegers(g, {2, -1, 3})});
  });
  Compare("Spread_", x, [](GraphBuilder& g, Output in) {
    return StridedSlice(g, in, ConstIntegers(g, {3, 0, -1}), ConstIntegers(g, {0, 4, -6}),
                        ConstIntegers(g, {-2, 3, -1}));
  });
  Compare("Spread_", x, [](GraphBuilder& g, Output in) {
    return StridedSlice(g, in, ConstIntegers(g, {0, 2}), ConstIntegers(g, {0, 3}), ConstIntegers(g, {1, 1}),
                        {.begin_mask = 1, .end_mask = 1, .shrink_axis_mask = 2});
  });
  Compare("Spread_", Numbers(Shape(Dims(9, 2))), [](GraphBuilder& g, Output in) {
    return g.AddOp("Transpose", {in, ConstIntegers(g, {8, 7, 6, 5, 4, 3, 2, 1, 0})});
  });
  for (const std::vector<int32_t>& perm :
       std::vector<std::vector<int32_t>>{{0, 2, 1}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kInt64, DType::kBool}) {
      Compare("Spread_", x, [&](GraphBuilder& g, Output in) {
        return g.AddOp("Transpose", {As(g, in, dtype), Const(g, Tensor::FromSpan<int32_t>({3}, perm))});
      });
    }
  }
}

}  // namespace
}  // namespace weir
