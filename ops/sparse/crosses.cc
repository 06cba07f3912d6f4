// Combinations of the features of several columns.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status CrossesShape(ShapeInference& s) {
  s.set_output(0, PartialShape({kUnknown, 2}));
  s.set_output(1, PartialShape({kUnknown}));
  s.set_output(2, Shape({2}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> CrossesOps() {
  return {
      WithoutGradient("SparseCross",
                      "Gives all combinations of one feature of each column, as strings or as buckets.",
                      CrossesShape),
      WithoutGradient("SparseCrossV2",
                      "Gives all combinations of one feature of each column, joined by `sep`.", CrossesShape),
      WithoutGradient("SparseCrossHashed",
                      "Gives the buckets of all combinations of one feature of each column.", CrossesShape),
  };
}

}  // namespace weir
