// Ops that pass their input on: with a condition, as another dtype, without a gradient.
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

Status PassGradient(GradientContext& g) {
  g.set_input_grad(0, g.flow(0));
  return OkStatus();
}

// A wider dtype takes the last dimension, a narrower one adds one.
Status BitcastShape(ShapeInference& s) {
  const PartialShape& input = s.input(0);
  if (!input.has_rank()) return OkStatus();
  const auto from = static_cast<int64_t>(DTypeSize(s.attr<DType>("T")));
  const auto to = static_cast<int64_t>(DTypeSize(s.attr<DType>("type")));
  std::vector<int64_t> dims = DimsOf(input);
  if (from > to) dims.push_back(from / to);
  if (from < to) {
    if (dims.empty() || (dims.back() != kUnknown && dims.back() != to / from)) {
      return InvalidArgumentError(
          StrCat("input must end with a dimension of ", to / from, ", is ", input.ToString()));
    }
    dims.pop_back();
  }
  return SetOutputDims(s, 0, dims);
}

}  // namespace

std::vector<OpDef> PassingOnOps() {
  return {
      {.name = "Bitcast",
       .summary = "Gives the bits of a tensor as elements of another dtype.",
       .infer_shapes = BitcastShape,
       .gradient = GradientMissing},
      {.name = "EnsureShape",
       .summary = "Gives its input, or an error when its shape is another.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         auto merged = s.input(0).MergeWith(s.attr<PartialShape>("shape"));
         if (!merged.ok()) {
           return InvalidArgumentError(StrCat("input is ", s.input(0).ToString(), ", shape is ",
                                              s.attr<PartialShape>("shape").ToString()));
         }
         s.set_output(0, *std::move(merged));
         return OkStatus();
       },
       .gradient = PassGradient},
      {.name = "GuaranteeConst",
       .summary = "Gives its input, of which the program promises that it never changes.",
       .infer_shapes = UnchangedShape,
       .gradient = GradientMissing},
      {.name = "PreventGradient",
       .summary = "Gives its input; to ask for a gradient through it is an error.",
       .infer_shapes = UnchangedShape,
       .gradient = [](GradientContext& g) -> Status {
         return absl::UnimplementedError(
             StrCat("gradients are explicitly disabled here: ", g.attr<std::string>("message")));
       }},
      {.name = "Snapshot",
       .summary = "Gives its input.",
       .infer_shapes = UnchangedShape,
       .gradient = PassGradient},
  };
}

}  // namespace weir
