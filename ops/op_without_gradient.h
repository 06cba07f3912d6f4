// The record of an op through which no gradient flows, and about which there is nothing more to say than its
// name, summary and shape function.
#pragma once

#include <string>
#include <utility>

#include "graph/op_def.h"

namespace weir {

inline OpDef WithoutGradient(std::string name, std::string summary, ShapeFunction infer_shapes) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = infer_shapes,
          .gradient = NotDifferentiable};
}

}  // namespace weir
