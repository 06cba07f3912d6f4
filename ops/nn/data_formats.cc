// Ops on what is said of a tensor's dimensions, when its data format becomes another.
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {

std::vector<OpDef> DataFormatsOps() {
  return {
      {.name = "DataFormatDimMap",
       .summary = "Gives for each dimension in src_format the one of the same letter in dst_format.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
      {.name = "DataFormatVecPermute",
       .summary = "Puts rows, one for each dimension or each of space, from src_format's order in "
                  "dst_format's.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
