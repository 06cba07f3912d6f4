// Whole files and their names.
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

Status ScalarsShape(ShapeInference& s) {
  for (int i = 0; i < s.num_inputs(); ++i) WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, PartialShape::OfRank(0));
  return OkStatus();
}

Status NamesShape(ShapeInference& s) {
  if (s.input(0).rank() > 1) {
    return InvalidArgumentError(StrCat("pattern must be at most rank 1 but is rank ", s.input(0).rank()));
  }
  s.set_output(0, PartialShape({kUnknown}));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> FilesOps() {
  return {
      WithoutGradient("ReadFile", "Gives what is in a file.", ScalarsShape),
      WithoutGradient("WriteFile", "Writes a file, and the folders that lead to it.", ScalarsShape),
      WithoutGradient("MatchingFiles", "Gives the sorted paths that match any of the patterns.", NamesShape),
  };
}

}  // namespace weir
