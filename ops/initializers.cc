#include "ops/initializers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir {

Output Initializer::OfPart(GraphBuilder& g, DType dtype, const Shape& shape,
                           const InitializedPart& part) const {
  if (make_) return make_(g, dtype, shape, part);
  g.SetError(absl::InvalidArgumentError(
      absl::StrCat("'", g.name_scope(), "': the initializer is null, so there is no first value of shape ",
                   shape.ToString())));
  return {};
}

namespace initializers {
namespace {

Output ShapeVector(GraphBuilder& g, const Shape& shape) {
  return Const(g, Tensor::FromSpan<int64_t>(Shape({shape.rank()}), shape.dims()), {.name = "shape"});
}

Output Filled(GraphBuilder& g, DType dtype, const Shape& shape, double value) {
  const Output scalar = ConstOf(g, dtype, value);
  return shape.is_scalar() ? scalar : Fill(g, ShapeVector(g, shape), scalar);
}

// deviation * normal, truncated or not
Output ScaledNormal(GraphBuilder& g, DType dtype, const Shape& shape, double deviation, bool is_truncated,
                    std::optional<int64_t> seed) {
  const auto seeds = g.NextRandomSeeds(seed);
  const Output dims = ShapeVector(g, shape);
  const Output normal =
      is_truncated ? TruncatedNormal(g, dims, dtype, {.seed = seeds.seed, .seed2 = seeds.seed2})
                   : RandomStandardNormal(g, dims, dtype, {.seed = seeds.seed, .seed2 = seeds.seed2});
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

using Fan = VarianceScalingOptions::Fan;
using Distribution = VarianceScalingOptions::Distribution;

double ChosenFan(const Shape& shape, Fan fan) {
  const Fans fans = FansOf(shape);
  if (fan == Fan::kIn) return fans.in;
  return fan == Fan::kOut ? fans.out : (fans.in + fans.out) / 2;
}

Output WithVariance(GraphBuilder& g, DType dtype, const Shape& shape, double variance,
                    const VarianceScalingOptions& options) {
  // The deviation that is left of 1 when a normal distribution is cut off at 2.
  constexpr double kDeviationAfterCut = 0.87962566103423978;
  if (options.distribution == Distribution::kUniform) {
    const double limit = std::sqrt(3 * variance);
    return ScaledUniform(g, dtype, shape, -limit, limit, options.seed);
  }
  const bool is_truncated = options.distribution == Distribution::kTruncatedNormal;
  const double deviation = std::sqrt(variance) / (is_truncated ? kDeviationAfterCut : 1);
  return ScaledNormal(g, dtype, shape, deviation, is_truncated, options.seed);
}

}  // namespace

Initializer Zeros() { return Constant(0); }
Initializer Ones() { return Constant(1); }

Initializer Constant(double value) {
  return [value](GraphBuilder& g, DType dtype, const Shape& shape) { return Filled(g, dtype, shape, value); };
}

Initializer Identity(double gain) {
  return [gain](GraphBuilder& g, DType dtype, const Shape& shape, const InitializedPart& part) {
    const Shape& full = part.full_shape;
    if (!CheckFinite(g, "Identity", {{"gain", gain}}, {})) return Output();
    if (full.rank() != 2) {
      g.SetError(absl::InvalidArgumentError(
          absl::StrCat("Identity: the shape must have rank 2, is ", full.ToString())));
      return Output();
    }
    const Shape diagonal({std::min(full.dim(0), full.dim(1))});
    const Output whole = MatrixSetDiag(g, Filled(g, dtype, full, 0), Filled(g, dtype, diagonal, gain));
    if (shape == full) return whole;
    const Tensor begin = Tensor::FromSpan<int64_t>(Shape({2}), part.offset);
    return Slice(g, whole, Const(g, begin, {.name = "begin"}), ShapeVector(g, shape));
  };
}

Initializer Orthogonal(double gain, std::optional<int64_t> seed) {
  return [gain, seed](GraphBuilder& g, DType dtype, const Shape& shape) {
    if (!CheckFinite(g, "Orthogonal", {{"gain", gain}}, {})) return Output();
    if (shape.rank() < 2) {
      g.SetError(absl::InvalidArgumentError(
          absl::StrCat("Orthogonal: the shape must have rank 2 or more, is ", shape.ToString())));
      return Output();
    }
    const int64_t columns = shape.dim(shape.rank() - 1);
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape.rank(); ++i) rows *= shape.dim(i);
    const Shape tall({std::max(rows, columns), std::min(rows, columns)});
    const auto seeds = g.NextRandomSeeds(seed);
    const Output normal =
        RandomStandardNormal(g, ShapeVector(g, tall), dtype, {.seed = seeds.seed, .seed2 = seeds.seed2});
    if (!normal) return Output();
    const auto [q, r] = Qr(g, normal);
    // With these signs every orthogonal matrix is as likely as any other.
    Output matrix = Mul(g, q, Sign(g, MatrixDiagPart(g, r)));
    if (rows < columns) matrix = Transpose(g, matrix, ConstIntegers(g, {1, 0}));
    return Mul(g, ConstOf(g, dtype, gain, {.name = "gain"}), Reshape(g, matrix, ShapeVector(g, shape)));
  };
}

Initializer RandomNormal(double mean, double stddev, std::optional<int64_t> seed) {
  return [mean, stddev, seed](GraphBuilder& g, DType dtype, const Shape& shape) {
    if (!CheckFinite(g, "RandomNormal", {{"mean", mean}, {"stddev", stddev}}, {})) return Output();
    const Output normal = ScaledNormal(g, dtype, shape, stddev, false, seed);
    return AddV2(g, normal, ConstOf(g, dtype, mean, {.name = "mean"}));
  };
}

Initializer TruncatedNormal(double stddev, std::optional<int64_t> seed) {
  return [stddev, seed](GraphBuilder& g, DType dtype, const Shape& shape) {
    if (!CheckFinite(g, "TruncatedNormal", {{"stddev", stddev}}, {})) return Output();
    return ScaledNormal(g, dtype, shape, stddev, true, seed);
  };
}

Initializer Uniform(double minimum, double maximum, std::optional<int64_t> seed) {
  return [minimum, maximum, seed](GraphBuilder& g, DType dtype, const Shape& shape) {
    if (!CheckFinite(g, "Uniform", {{"minimum", minimum}, {"maximum", maximum}}, {})) return Output();
    return ScaledUniform(g, dtype, shape, minimum, maximum, seed);
  };
}

Initializer VarianceScaling(const VarianceScalingOptions& options) {
  return [options](GraphBuilder& g, DType dtype, const Shape& shape, const InitializedPart& part) {
    if (!CheckFinite(g, "VarianceScaling", {{"scale", options.scale}}, {})) return Output();
    if (options.scale <= 0) {
      g.SetError(absl::InvalidArgumentError(
          absl::StrCat("VarianceScaling: scale must be positive, is ", options.scale)));
      return Output();
    }
    return WithVariance(g, dtype, shape,
                        options.scale / std::max(1.0, ChosenFan(part.full_shape, options.fan)), options);
  };
}

Initializer GlorotUniform(std::optional<int64_t> seed) {
  return VarianceScaling({.fan = Fan::kAverage, .distribution = Distribution::kUniform, .seed = seed});
}

Initializer GlorotNormal(std::optional<int64_t> seed) {
  return VarianceScaling({.fan = Fan::kAverage, .seed = seed});
}

Initializer HeUniform(std::optional<int64_t> seed) {
  return VarianceScaling({.scale = 2, .distribution = Distribution::kUniform, .seed = seed});
}

Initializer HeNormal(std::optional<int64_t> seed) { return VarianceScaling({.scale = 2, .seed = seed}); }

Initializer LecunUniform(std::optional<int64_t> seed) {
  return VarianceScaling({.distribution = Distribution::kUniform, .seed = seed});
}

Initializer LecunNormal(std::optional<int64_t> seed) { return VarianceScaling({.seed = seed}); }

}  // namespace initializers
}  // namespace weir
