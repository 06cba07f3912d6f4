// Losses of classifiers, and whether a class is among the top k.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/nn/softmax_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// The gradient of both losses with respect to their logits. Output 1 of the node is the derivative of the
// loss.
Output CrossEntropyBack(GradientContext& g) {
  const Output logits = g.input(0);
  Output result;
  if (g.grad(0)) {
    const Output per_row = g.Add("ExpandDims", {g.grad(0), g.Constant(DType::kInt32, -1)});
    result = Mul(g, per_row, g.output(1));
  }
  if (g.grad(1)) {  // somebody differentiates twice
    const Output second = SoftmaxBack(g, g.grad(1), g.Add("Softmax", {logits}));
    result = result ? Add(g, result, second) : second;
  }
  return result;
}

}  // namespace

std::vector<OpDef> LossesOps() {
  return {
      {.name = "SoftmaxCrossEntropyWithLogits",
       .summary =
           "Gives, for every row, the cross entropy of the labels' distribution and softmax(features), and "
           "its "
           "derivative.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         auto both = ShapeInference::Broadcast(s.input(0), s.input(1));
         const bool is_matrix = both.ok() && (!both->has_rank() || both->rank() == 2);
         if (!is_matrix) {
           return InvalidArgumentError(StrCat("features and labels must be [batch,classes]: features is ",
                                              s.input(0).ToString(), ", labels is ", s.input(1).ToString()));
         }
         s.set_output(0, PartialShape({both->has_rank() ? both->dim(0) : kUnknown}));
         s.set_output(1, both->has_rank() ? *both : PartialShape::OfRank(2));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         Output labels;
         if (g.grad(0)) {
           const Output per_row = g.Add("ExpandDims", {g.grad(0), g.Constant(DType::kInt32, -1)});
           labels = Neg(g, Mul(g, per_row, g.Add("LogSoftmax", {g.input(0)})));
         }
         return SetBroadcastGradients(g, CrossEntropyBack(g), labels);
       }},
      {.name = "SparseSoftmaxCrossEntropyWithLogits",
       .summary = "Gives, for every row, -log softmax(features)[label], and its derivative.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape features, s.WithRank(0, 2));
         WEIR_ASSIGN_OR_RETURN(const PartialShape labels, s.WithRank(1, 1));
         const auto batch = s.MergeDims(features.dim(0), labels.dim(0));
         if (!batch.ok()) {
           return InvalidArgumentError(StrCat("batch sizes differ: features is ", features.ToString(),
                                              ", labels is ", labels.ToString()));
         }
         s.set_output(0, PartialShape({*batch}));
         s.set_output(1, PartialShape({*batch, features.dim(1)}));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, CrossEntropyBack(g));
         return OkStatus();
       }},
      {.name = "InTopKV2",
       .summary = "Gives, for every row, whether the target is among the k largest predictions.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(const PartialShape predictions, s.WithRank(0, 2));
         WEIR_ASSIGN_OR_RETURN(const PartialShape targets, s.WithRank(1, 1));
         WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
         const auto batch = s.MergeDims(predictions.dim(0), targets.dim(0));
         if (!batch.ok()) {
           return InvalidArgumentError(StrCat("batch sizes differ: predictions is ", predictions.ToString(),
                                              ", targets is ", targets.ToString()));
         }
         s.set_output(0, PartialShape({*batch}));
         return OkStatus();
       },
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
