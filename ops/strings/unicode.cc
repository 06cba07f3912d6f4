// Texts in other encodings, and as numbers.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status DecodeShape(ShapeInference& s) {
  int64_t rows = 1;
  if (s.input(0).has_rank()) {
    for (const int64_t dim : DimsOf(s.input(0))) rows = MultiplyDims(rows, dim);
  } else {
    rows = kUnknown;
  }
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 0, {AddDims(rows, 1)}));
  for (int i = 1; i < s.num_outputs(); ++i) s.set_output(i, PartialShape({kUnknown}));
  return OkStatus();
}

Status EncodeShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 1).status());
  WEIR_ASSIGN_OR_RETURN(const PartialShape splits, s.WithRank(1, 1));
  if (splits.dim(0) == 0) return InvalidArgumentError("Input_splits should contain elements.");
  return SetOutputDims(s, 0, {splits.dim(0) == kUnknown ? kUnknown : splits.dim(0) - 1});
}

}  // namespace

std::vector<OpDef> UnicodeOps() {
  return {
      {.name = "UnicodeTranscode",
       .summary = "Writes texts in another encoding.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
      {.name = "UnicodeDecode",
       .summary = "Gives the codes of the characters of texts, and where each text begins among them.",
       .infer_shapes = DecodeShape,
       .gradient = NotDifferentiable},
      {.name = "UnicodeDecodeWithOffsets",
       .summary =
           "Gives the codes of the characters of texts, where each text begins among them, and at which "
           "byte each character begins.",
       .infer_shapes = DecodeShape,
       .gradient = NotDifferentiable},
      {.name = "UnicodeScript",
       .summary =
           "Gives the script of each code of a character, by the numbers of ICU; -1 for what is no code.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
      {.name = "UnicodeEncode",
       .summary = "Writes codes of characters as texts.",
       .infer_shapes = EncodeShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
