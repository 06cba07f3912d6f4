// The seed of ops that get it as an input.
#pragma once

#include "graph/types/status_macros.h"
#include "ops/shape_functions.h"

namespace weir {

// InvalidArgument when input `index` is known not to be two integers.
inline Status CheckSeed(ShapeInference& s, int index) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape seed, s.WithRank(index, 1));
  if (s.MergeDims(seed.dim(0), 2).ok()) return OkStatus();
  return InvalidArgumentError(StrCat("seed must be [2], is ", seed.ToString()));
}

}  // namespace weir
