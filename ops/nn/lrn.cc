// Local response normalisation.
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

AttrMap SameNormalization(GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"depth_radius", "bias", "alpha", "beta"}) attrs[name] = *g.node().FindAttr(name);
  return attrs;
}

Status ImagesShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(PartialShape image, MergeInputs(s, 0, s.num_inputs()));
  const auto of_rank_4 = image.MergeWith(PartialShape::OfRank(4));
  if (!of_rank_4.ok()) {
    return InvalidArgumentError(StrCat(s.input_name(0), " must have rank 4, is ", image.ToString()));
  }
  s.set_output(0, *of_rank_4);
  return OkStatus();
}

}  // namespace

std::vector<OpDef> LrnOps() {
  return {
      {.name = "LRN",
       .summary = "Divides every channel of a pixel by a power of the squares of its neighbours.",
       .infer_shapes = ImagesShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("LRNGrad", {g.grad(0), g.input(0), g.output(0)}, SameNormalization(g)));
         return OkStatus();
       }},
      {.name = "LRNGrad",
       .summary = "Gives the gradient of LRN.",
       .infer_shapes = ImagesShape,
       .gradient = [](GradientContext&) -> Status {
         return absl::UnimplementedError("LRN has no second derivative, as in TensorFlow");
       }},
  };
}

}  // namespace weir
