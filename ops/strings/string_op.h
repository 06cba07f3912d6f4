// What the records of this family begin with: strings have no gradient. Only the family files include it.
#pragma once

#include <string>
#include <utility>

#include "graph/op_def.h"

namespace weir {

inline OpDef StringOp(std::string name, std::string summary, ShapeFunction infer_shapes) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = infer_shapes,
          .gradient = NotDifferentiable};
}

}  // namespace weir
