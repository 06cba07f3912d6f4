// Initial values of variables: functions that add the nodes computing them, in the current scopes.
//
// Random ones draw TensorFlow's streams. Without a seed they take the graph's
// (GraphBuilder::set_random_seed), and without that every session draws others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "graph/graph_builder.h"
#include "graph/types/shape.h"

namespace weir {

using Initializer = std::function<Output(GraphBuilder& g, DType dtype, const Shape& shape)>;

namespace initializers {

Initializer Zeros();
Initializer Ones();
Initializer Constant(double value);

// Normally distributed around 0, none farther from it than two deviations.
Initializer TruncatedNormal(double stddev, std::optional<int64_t> seed = std::nullopt);

// Evenly distributed over [minimum, maximum).
Initializer Uniform(double minimum, double maximum, std::optional<int64_t> seed = std::nullopt);

// Evenly distributed over [-r, r) with r = sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010). The last
// dimensions of the shape are fan_in and fan_out; those before them (a convolution's window) multiply both.
Initializer GlorotUniform(std::optional<int64_t> seed = std::nullopt);

// Truncated normal with deviation sqrt(2 / fan_in), for layers of rectifiers (He et al., 2015).
Initializer HeNormal(std::optional<int64_t> seed = std::nullopt);

}  // namespace initializers
}  // namespace weir
