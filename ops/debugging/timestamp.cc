// What time it is.
#include <vector>

#include "graph/shape_inference.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {

std::vector<OpDef> TimestampOps() {
  return {
      {.name = "Timestamp",
       .summary = "Gives the seconds since 1970 when the op runs.",
       .infer_shapes = ScalarShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
