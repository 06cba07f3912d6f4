// Ops on the distinct elements of a tensor.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// idx, and how often each element occurs: an op with counts has a third output.
Status SetIndexShapes(ShapeInference& s, int64_t length) {
  s.set_output(1, PartialShape({length}));
  if (s.num_outputs() == 3) s.set_output(2, PartialShape({kUnknown}));
  return OkStatus();
}

Status UniqueShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape x, s.WithRank(0, 1));
  s.set_output(0, PartialShape({kUnknown}));
  return SetIndexShapes(s, x.dim(0));
}

Status UniqueAlongAxisShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  WEIR_RETURN_IF_ERROR(SetIndexShapes(s, kUnknown));
  const PartialShape& x = s.input(0);
  const auto axes = s.input_integers(1);
  if (!axes) {
    if (x.has_rank()) s.set_output(0, PartialShape::OfRank(x.rank()));
    return OkStatus();
  }
  if (axes->empty()) return UniqueShape(s);
  if (axes->size() > 1) return InvalidArgumentError(StrCat("axis may have one element, has ", axes->size()));
  if (!x.has_rank()) return OkStatus();
  WEIR_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(axes->front(), x.rank(), "axis"));
  std::vector<int64_t> dims = DimsOf(x);
  dims[axis] = kUnknown;
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 0, dims));
  return SetIndexShapes(s, x.dim(axis));
}

}  // namespace

std::vector<OpDef> UniqueOps() {
  return {
      WithoutGradient(
          "Unique",
          "Gives the distinct elements of a vector in the order of their first appearance, and for each "
          "element of x its index among them.",
          UniqueShape),
      WithoutGradient("UniqueWithCounts", "Like Unique; gives also how often each element occurs.",
                      UniqueShape),
      WithoutGradient("UniqueV2",
                      "Like Unique, of slices along an axis; an empty axis stands for a vector's.",
                      UniqueAlongAxisShape),
      WithoutGradient("UniqueWithCountsV2", "Like UniqueV2; gives also how often each slice occurs.",
                      UniqueAlongAxisShape),
      WithoutGradient("ListDiff", "Gives the elements of x that y does not have, and their indices in x.",
                      [](ShapeInference& s) -> Status {
                        for (int i = 0; i < 2; ++i) {
                          WEIR_RETURN_IF_ERROR(s.WithRank(i, 1).status());
                          s.set_output(i, PartialShape({kUnknown}));
                        }
                        return OkStatus();
                      }),
  };
}

}  // namespace weir
