// What the rules of rewriting ask of the shapes that were inferred.
#pragma once

#include "graph/types/shape.h"

namespace weir {

// True when both are known in every dimension and equal: nothing that a step finds out can tell them apart.
inline bool HaveOneKnownShape(const PartialShape& a, const PartialShape& b) {
  return a.is_fully_known() && a == b;
}

}  // namespace weir
