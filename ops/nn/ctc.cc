// Connectionist temporal classification: labels of sequences whose times are not known.
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// The number of sequences, which inputs [time, batch, classes] and the vector `lengths` agree on.
absl::StatusOr<int64_t> BatchSize(ShapeInference& s, int lengths) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape inputs, s.WithRank(0, 3));
  WEIR_ASSIGN_OR_RETURN(const PartialShape counts, s.WithRank(lengths, 1));
  const int64_t of_inputs = inputs.has_rank() ? inputs.dim(1) : kUnknown;
  const auto merged = s.MergeDims(of_inputs, counts.has_rank() ? counts.dim(0) : kUnknown);
  if (merged.ok()) return merged;
  return InvalidArgumentError(StrCat("len(sequence_length) != batch_size: inputs is ", inputs.ToString(),
                                     ", sequence_length is ", counts.ToString()));
}

Status LossShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const int64_t batch_size, BatchSize(s, 3));
  WEIR_ASSIGN_OR_RETURN(const PartialShape indices, s.WithRank(1, 2));
  WEIR_ASSIGN_OR_RETURN(const PartialShape values, s.WithRank(2, 1));
  if (indices.has_rank() && values.has_rank() && !s.MergeDims(indices.dim(0), values.dim(0)).ok()) {
    return InvalidArgumentError(
        StrCat("labels_indices and labels_values must contain the same number of rows, but saw shapes: ",
               indices.ToString(), " vs. ", values.ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const PartialShape inputs, s.WithRank(0, 3));
  std::vector<int64_t> dims = inputs.has_rank() ? DimsOf(inputs) : std::vector<int64_t>(3, kUnknown);
  dims[1] = batch_size;
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 1, dims));
  return SetOutputDims(s, 0, {batch_size});
}

Status GreedyShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const int64_t batch_size, BatchSize(s, 1));
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 0, {kUnknown, 2}));
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 1, {kUnknown}));
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 2, {2}));
  return SetOutputDims(s, 3, {batch_size, 1});
}

Status BeamSearchShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const int64_t batch_size, BatchSize(s, 1));
  const auto paths = s.attr<int64_t>("top_paths");
  for (int i = 0; i < paths; ++i) {
    const auto output = [&](int list) { return static_cast<int>(list * paths) + i; };
    WEIR_RETURN_IF_ERROR(SetOutputDims(s, output(0), {kUnknown, 2}));
    WEIR_RETURN_IF_ERROR(SetOutputDims(s, output(1), {kUnknown}));
    WEIR_RETURN_IF_ERROR(SetOutputDims(s, output(2), {2}));
  }
  return SetOutputDims(s, static_cast<int>(3 * paths), {batch_size, paths});
}

// The op computes it beside the loss.
Status LossGradient(GradientContext& g) {
  if (g.grad(1).node != nullptr) return GradientMissing(g);
  const Output of_loss = g.Add("ExpandDims", {g.grad(0), g.Constant(DType::kInt32, -1)});
  g.set_input_grad(0, Mul(g, of_loss, g.output(1)));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> CtcOps() {
  return {
      {.name = "CTCLoss",
       .summary =
           "Gives the negative logarithms of the probabilities of label sequences, and their gradients.",
       .infer_shapes = LossShape,
       .gradient = LossGradient},
      {.name = "CTCGreedyDecoder",
       .summary = "Gives the most probable class of each time, without blanks and, if asked, repetitions.",
       .infer_shapes = GreedyShape,
       .gradient = NotDifferentiable},
      {.name = "CTCBeamSearchDecoder",
       .summary = "Gives the most probable sequences of labels, and the logarithms of their probabilities.",
       .infer_shapes = BeamSearchShape,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
