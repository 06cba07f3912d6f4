#include "ops/initializers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/standard_ops.h"

namespace weir::initializers {
namespace {

Output ShapeVector(GraphBuilder& g, const Shape& shape) {
  return Const(g, Tensor::FromSpan<int64_t>(Shape({shape.rank()}), shape.dims()), {.name = "shape"});
}

Output Filled(GraphBuilder& g, DType dtype, const Shape& shape, double value) {
  const Output scalar = ConstOf(g, dtype, value);
  return shape.is_scalar() ? scalar : Fill(g, ShapeVector(g, shape), scalar);
}

// deviation * truncated normal
Output ScaledNormal(GraphBuilder& g, DType dtype, const Shape& shape, double deviation,
                    std::optional<int64_t> seed) {
  const auto seeds = g.NextRandomSeeds(seed);
  const Output normal =
      TruncatedNormal(g, ShapeVector(g, shape), dtype, {.seed = seeds.seed, .seed2 = seeds.seed2});
  return Mul(g, normal, ConstOf(g, dtype, deviation, {.name = "stddev"}));
}

Output ScaledUniform(GraphBuilder& g, DType dtype, const Shape& shape, double minimum, double maximum,
                     std::optional<int64_t> seed) {
  const auto seeds = g.NextRandomSeeds(seed);
  const Output uniform =
      RandomUniform(g, ShapeVector(g, shape), dtype, {.seed = seeds.seed, .seed2 = seeds.seed2});
  const Output scaled = Mul(g, uniform, ConstOf(g, dtype, maximum - minimum, {.name = "range"}));
  return AddV2(g, scaled, ConstOf(g, dtype, minimum, {.name = "min"}));
}

// How many numbers go into, and how far one number goes out of, a unit whose weights have this shape.
struct Fans {
  double in = 1;
  double out = 1;
};

Fans FansOf(const Shape& shape) {
  if (shape.rank() == 0) return {};
  if (shape.rank() == 1) return {static_cast<double>(shape.dim(0)), static_cast<double>(shape.dim(0))};
  double window = 1;
  for (int i = 0; i + 2 < shape.rank(); ++i) window *= static_cast<double>(shape.dim(i));
  return {window * static_cast<double>(shape.dim(shape.rank() - 2)),
          window * static_cast<double>(shape.dim(shape.rank() - 1))};
}

}  // namespace

Initializer Zeros() { return Constant(0); }
Initializer Ones() { return Constant(1); }

Initializer Constant(double value) {
  return [value](GraphBuilder& g, DType dtype, const Shape& shape) { return Filled(g, dtype, shape, value); };
}

Initializer TruncatedNormal(double stddev, std::optional<int64_t> seed) {
  return [stddev, seed](GraphBuilder& g, DType dtype, const Shape& shape) {
    return ScaledNormal(g, dtype, shape, stddev, seed);
  };
}

Initializer Uniform(double minimum, double maximum, std::optional<int64_t> seed) {
  return [minimum, maximum, seed](GraphBuilder& g, DType dtype, const Shape& shape) {
    return ScaledUniform(g, dtype, shape, minimum, maximum, seed);
  };
}

Initializer GlorotUniform(std::optional<int64_t> seed) {
  return [seed](GraphBuilder& g, DType dtype, const Shape& shape) {
    const Fans fans = FansOf(shape);
    const double limit = std::sqrt(6 / std::max(1.0, fans.in + fans.out));
    return ScaledUniform(g, dtype, shape, -limit, limit, seed);
  };
}

Initializer HeNormal(std::optional<int64_t> seed) {
  // The deviation that is left of 1 when a normal distribution is cut off at 2.
  constexpr double kDeviationAfterCut = 0.87962566103423978;
  return [seed](GraphBuilder& g, DType dtype, const Shape& shape) {
    const double deviation = std::sqrt(2 / std::max(1.0, FansOf(shape).in));
    return ScaledNormal(g, dtype, shape, deviation / kDeviationAfterCut, seed);
  };
}

}  // namespace weir::initializers
