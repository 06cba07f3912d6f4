// Initial values of variables: functions that add the nodes computing them, in the current scopes.
//
// Random ones draw TensorFlow's streams. Without a seed they take the graph's
// (GraphBuilder::set_random_seed), and without either, every session draws different numbers. Deviations,
// bounds, scales and gains must be finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/graph_builder.h"
#include "graph/types/shape.h"

namespace weir {

// Of a variable in several parts, the part whose first value is asked for.
struct InitializedPart {
  Shape full_shape;
  std::vector<int64_t> offset;  // of its first element: one for each dimension
};

// A function (g, dtype, shape), or one that is also told which part of a variable the shape is:
// (g, dtype, shape, const InitializedPart& part). It gives an output of this dtype and shape.
//
// One without a function is null. It is an InvalidArgument, in the builder, of the variable that it is for.
class Initializer {
 public:
  using OfPartFunction =
      std::function<Output(GraphBuilder& g, DType dtype, const Shape& shape, const InitializedPart& part)>;

  Initializer() = default;
  Initializer(std::nullptr_t) {}
  template <typename Function,
            typename = std::enable_if_t<!std::is_same_v<std::decay_t<Function>, Initializer>>>
  Initializer(Function make) {
    if constexpr (std::is_pointer_v<Function> || IsStdFunction<Function>::value) {
      if (!make) return;
    }
    if constexpr (std::is_invocable_v<Function&, GraphBuilder&, DType, const Shape&,
                                      const InitializedPart&>) {
      make_ = std::move(make);
    } else {
      make_ = [make = std::move(make)](GraphBuilder& g, DType dtype, const Shape& shape,
                                       const InitializedPart&) { return make(g, dtype, shape); };
    }
  }

  explicit operator bool() const { return make_ != nullptr; }

  // The first value of a variable of this shape.
  Output operator()(GraphBuilder& g, DType dtype, const Shape& shape) const {
    return OfPart(g, dtype, shape, {shape, std::vector<int64_t>(shape.rank(), 0)});
  }
  Output OfPart(GraphBuilder& g, DType dtype, const Shape& shape, const InitializedPart& part) const;

 private:
  template <typename>
  struct IsStdFunction : std::false_type {};
  template <typename Signature>
  struct IsStdFunction<std::function<Signature>> : std::true_type {};

  OfPartFunction make_;
};

namespace initializers {

Initializer Zeros();
Initializer Ones();
Initializer Constant(double value);

// Ones on the main diagonal times gain, zeros elsewhere. InvalidArgument unless the shape has rank 2.
Initializer Identity(double gain = 1);

// Gain times a random matrix whose columns are orthonormal, or its rows where they are fewer (Saxe et al.,
// 2014). Dimensions before the last one are the matrix's rows together. Each part of a variable in parts is
// such a matrix of its own. InvalidArgument for a shape of rank below 2.
Initializer Orthogonal(double gain = 1, std::optional<int64_t> seed = std::nullopt);

// Normally distributed.
Initializer RandomNormal(double mean = 0, double stddev = 1, std::optional<int64_t> seed = std::nullopt);

// Normally distributed around 0, none farther from it than two deviations.
Initializer TruncatedNormal(double stddev, std::optional<int64_t> seed = std::nullopt);

// Evenly distributed over [minimum, maximum).
Initializer Uniform(double minimum, double maximum, std::optional<int64_t> seed = std::nullopt);

// Random numbers around 0 with variance scale / fan. Of a part, the fans are the whole variable's. The last
// dimensions of the shape are fan_in and fan_out; those before them (a convolution's window) multiply both;
// of a vector both are its length.
struct VarianceScalingOptions {
  enum class Fan { kIn, kOut, kAverage };
  enum class Distribution {
    kTruncatedNormal,  // cut off at two deviations of a wider one that has the variance after the cut
    kUntruncatedNormal,
    kUniform,
  };
  double scale = 1;  // must be positive
  Fan fan = Fan::kIn;
  Distribution distribution = Distribution::kTruncatedNormal;
  std::optional<int64_t> seed;
};
Initializer VarianceScaling(const VarianceScalingOptions& options = {});

// Variance scaling with the scales and fans of the literature: 1 and the average of the fans (Glorot and
// Bengio, 2010), 2 and fan_in for layers of rectifiers (He et al., 2015), 1 and fan_in (LeCun et al., 1998).
// Normal ones are truncated.
Initializer GlorotUniform(std::optional<int64_t> seed = std::nullopt);
Initializer GlorotNormal(std::optional<int64_t> seed = std::nullopt);
Initializer HeUniform(std::optional<int64_t> seed = std::nullopt);
Initializer HeNormal(std::optional<int64_t> seed = std::nullopt);
Initializer LecunUniform(std::optional<int64_t> seed = std::nullopt);
Initializer LecunNormal(std::optional<int64_t> seed = std::nullopt);

}  // namespace initializers
}  // namespace weir
