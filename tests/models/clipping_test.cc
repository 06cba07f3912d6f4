// Clipped gradients.
#include "ops/training/clipping.h"

#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "ops/embedding.h"
#include "ops/training/gradient_descent.h"
#include "tests/models/recorded_model.h"

namespace weir {
namespace {

class ClippingTest : public RecordedModelTest {
 protected:
  // Slices of which one row comes twice.
  Gradient Rows(const Shape& shape, int seed) {
    return IndexedSlices{Const(g_, Pattern(shape, seed)), ConstIntegers(g_, {0, 2, 0}),
                         ConstIntegers(g_, {4, static_cast<int32_t>(shape.dim(1))})};
  }
  std::map<std::string, Gradient> BothKinds() {
    return {{"dense", Const(g_, Pattern({3, 4}, 1))}, {"rows", Rows({3, 4}, 2)}};
  }
  std::vector<Gradient> Several() {
    return {Const(g_, Pattern({3, 2}, 1)), Output(), Rows({3, 2}, 2), Const(g_, Pattern({4}, 3))};
  }
  // The values, after a check that rows have stayed rows.
  Output ValuesOf(const Gradient& gradient, const std::string& kind) {
    const auto* const rows = std::get_if<IndexedSlices>(&gradient);
    EXPECT_EQ(rows != nullptr, kind == "rows");
    return rows != nullptr ? rows->values : std::get<Output>(gradient);
  }
  void ExpectClipped(const std::string& name, const std::vector<Gradient>& clipped) {
    ASSERT_EQ(clipped.size(), 4u);
    EXPECT_TRUE(IsNull(clipped[1]));
    for (int i : {0, 2, 3}) {
      ExpectRecorded(absl::StrCat("clip_by_global_norm/", name, "/", i),
                     ValuesOf(clipped[i], i == 2 ? "rows" : "dense"));
    }
  }
};

TEST_F(ClippingTest, ByValue) {
  for (const auto& [kind, gradient] : BothKinds()) {
    ExpectRecorded("clip_by_value/" + kind, ValuesOf(ClipByValue(g_, gradient, -0.3, 0.7), kind));
  }
}

TEST_F(ClippingTest, ByNorm) {
  std::vector<std::pair<std::string, Output>> clipped;
  for (const auto& [kind, gradient] : BothKinds()) {
    clipped.emplace_back("clip_by_norm/" + kind, ValuesOf(ClipByNorm(g_, gradient, 1.25), kind));
    clipped.emplace_back("clip_by_norm/long/" + kind, ValuesOf(ClipByNorm(g_, gradient, 100), kind));
    clipped.emplace_back("clip_by_norm/axes/" + kind, ValuesOf(ClipByNorm(g_, gradient, 0.9, {1}), kind));
  }
  for (const auto& [name, output] : clipped) ExpectRecorded(name, output);
}

TEST_F(ClippingTest, AGradientOfZerosStaysZero) {
  const Gradient zeros = Const(g_, Tensor::Vector<float>({0, 0}));
  ExpectNear(Tensor::Vector<float>({0, 0}), Run(std::get<Output>(ClipByNorm(g_, zeros, 1))), "zeros");
}

TEST_F(ClippingTest, GlobalNorm) { ExpectRecorded("global_norm", GlobalNorm(g_, Several())); }

TEST_F(ClippingTest, ByGlobalNorm) {
  const auto clipped = ClipByGlobalNorm(g_, Several(), 1.5);
  const Output norm = clipped.global_norm;
  ExpectClipped("short", clipped.gradients);
  ExpectRecorded("global_norm", norm);
}

TEST_F(ClippingTest, AShortGradientIsLeftAlone) {
  ExpectClipped("long", ClipByGlobalNorm(g_, Several(), 100).gradients);
}

TEST_F(ClippingTest, TheNormMayBeGiven) {
  ExpectClipped("given", ClipByGlobalNorm(g_, Several(), 1.5, {.use_norm = Const(g_, 7.0f)}).gradients);
}

TEST_F(ClippingTest, AnInfiniteNormGivesNaN) {
  const Output infinite = Const(g_, std::numeric_limits<float>::infinity());
  ExpectClipped("infinite", ClipByGlobalNorm(g_, Several(), 1.5, {.use_norm = infinite}).gradients);
}

TEST_F(ClippingTest, ATrainingStepMovesByTheClippedGradient) {
  const ModelVariable table = MakeVariable(g_, "table", Tensor::From<float>({2, 2}, {1, 2, 3, 4}));
  const ModelVariable w = MakeVariable(g_, "w", Tensor::Vector<float>({1}));
  // The gradient is 3 for both elements of row 1, which comes as rows, and sqrt(7) for w.
  const Output row = EmbeddingLookup(g_, table, ConstIntegers(g_, {1}));
  const Output loss = AddV2(g_, Mul(g_, ReduceSum(g_, row), Const(g_, 3.0f)),
                            ReduceSum(g_, Mul(g_, w.value, Const(g_, std::sqrt(7.0f)))));
  GradientDescent optimizer(1.0);
  auto gradients = optimizer.ComputeGradients(g_, loss);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_TRUE(std::holds_alternative<IndexedSlices>((*gradients)[0].gradient));
  // Norm: sqrt(3^2 + 3^2 + 7) = 5.
  const auto train = optimizer.ApplyGradients(g_, ClipByGlobalNorm(g_, *gradients, 2.5));
  ASSERT_TRUE(train.ok()) << train.status();
  Initialize();
  Run({}, {}, {TargetRef(*train)});
  ExpectNear(Tensor::From<float>({2, 2}, {1, 2, 1.5f, 2.5f}), Run(table.value), "table");
  ExpectNear(Tensor::Vector<float>({1 - std::sqrt(7.0f) / 2}), Run(w.value), "w");
}

TEST_F(ClippingTest, WrongLimitsAreRefused) {
  ClipByValue(g_, Const(g_, 1.0f), 1, -1);
  ExpectError("ClipByValue: maximum must be at least 1, is -1");
  GraphBuilder other(StandardOps());
  ClipByGlobalNorm(other, std::vector<Gradient>{Const(other, 1.0f)}, 0);
  EXPECT_NE(other.status().message().find("clip_norm must be positive and finite, is 0"), std::string::npos)
      << other.status();
}

TEST_F(ClippingTest, ANormOfNothingIsRefused) {
  GlobalNorm(g_, {Output(), Output()});
  ExpectError("GlobalNorm: there is no gradient among the 2 given");
}

}  // namespace
}  // namespace weir
