// How records of elementwise ops begin: their shape functions are all of three kinds.
#pragma once

#include <string>
#include <utility>

#include "graph/op_def.h"
#include "graph/shape_inference.h"
#include "ops/shape_functions.h"

namespace weir {

// y = f(x), element by element.
inline OpDef Unary(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = UnchangedShape,
          .gradient = gradient};
}

// z = f(x, y), element by element of the broadcast inputs.
inline OpDef Binary(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = BroadcastBinaryShape,
          .gradient = gradient};
}

// The gradient of a function as one op, of two inputs of one shape.
inline OpDef FusedGrad(std::string name, std::string summary, GradientFunction gradient) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .is_elementwise = true,
          .infer_shapes = MergedShape,
          .gradient = gradient};
}

}  // namespace weir
