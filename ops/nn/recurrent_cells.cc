// Cells of recurrent networks, each computed by one op.
#include <string>
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

int64_t DimOf(const PartialShape& shape, int axis) { return shape.has_rank() ? shape.dim(axis) : kUnknown; }

// The batch, which inputs `x` and `state` agree on, and the number of cells of `state`.
absl::StatusOr<PartialShape> StateShape(ShapeInference& s, int x, int rank, int state) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape inputs, s.WithRank(x, rank));
  WEIR_ASSIGN_OR_RETURN(const PartialShape states, s.WithRank(state, 2));
  const auto batch = s.MergeDims(DimOf(inputs, rank - 2), DimOf(states, 0));
  if (!batch.ok()) {
    return InvalidArgumentError(StrCat(s.input_name(x), " and ", s.input_name(state),
                                       " must have one batch_size: they are ", inputs.ToString(), " and ",
                                       states.ToString()));
  }
  std::vector<int64_t> dims = {*batch, DimOf(states, 1)};
  if (rank == 3) dims.insert(dims.begin(), DimOf(inputs, 0));
  return PartialShape::FromDims(dims);
}

Status SetAll(ShapeInference& s, const absl::StatusOr<PartialShape>& shape) {
  WEIR_RETURN_IF_ERROR(shape.status());
  for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, *shape);
  return OkStatus();
}

Status LstmCellShape(ShapeInference& s) { return SetAll(s, StateShape(s, 0, 2, 1)); }
Status GruCellShape(ShapeInference& s) { return SetAll(s, StateShape(s, 0, 2, 1)); }

Status BlockLstmShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return SetAll(s, StateShape(s, 1, 3, 2));
}

Status LstmCellGradShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape state, StateShape(s, 0, 2, 1));
  s.set_output(0, state);
  WEIR_RETURN_IF_ERROR(SetOutputDims(s, 1, {state.dim(0), MultiplyDims(state.dim(1), 4)}));
  for (const int i : {2, 3, 4}) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape peephole, s.WithRank(i + 2, 1));
    s.set_output(i, peephole);
  }
  return OkStatus();
}

// Gradients of inputs 1 to 8.
Status BlockLstmGradShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  constexpr int kRanks[] = {0, 3, 2, 2, 2, 1, 1, 1, 1};
  for (int i = 1; i <= 8; ++i) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, s.WithRank(i, kRanks[i]));
    s.set_output(i - 1, shape);
  }
  return OkStatus();
}

Status GruCellGradShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape state, StateShape(s, 0, 2, 1));
  s.set_output(0, s.input(0));
  s.set_output(1, state);
  s.set_output(2, state);
  return SetOutputDims(s, 3, {state.dim(0), MultiplyDims(state.dim(1), 2)});
}

// Only what flows into cs and h counts, as in TensorFlow: of the other outputs nothing is made.
Status BlockLstmGradient(GradientContext& g) {
  std::vector<InputArg> inputs;
  for (int i = 0; i < 9; ++i) inputs.emplace_back(g.input(i));
  for (int i = 0; i < 7; ++i) inputs.emplace_back(g.output(i));
  for (const int i : {1, 6}) inputs.emplace_back(g.grad(i).node ? g.grad(i) : ZerosLike(g, g.output(i)));
  const bool is_second_version = g.node().op_name().ends_with("V2");
  Node* const node =
      g.graph().AddNode(is_second_version ? "BlockLSTMGradV2" : "BlockLSTMGrad", std::move(inputs),
                        {{"use_peephole", g.attr<bool>("use_peephole")}}, "", g.node().source());
  for (int i = 0; node != nullptr && i < 8; ++i) g.set_input_grad(i + 1, node->output(i));
  return OkStatus();
}

OpDef Cell(std::string name, std::string summary, Status (*shape)(ShapeInference&)) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = shape,
          .gradient = NotDifferentiable};
}

}  // namespace

std::vector<OpDef> RecurrentCellsOps() {
  std::vector<OpDef> ops = {
      Cell("LSTMBlockCell", "Gives what a long short-term memory makes of inputs at one time.",
           LstmCellShape),
      Cell("LSTMBlockCellGrad", "Gives gradients of LSTMBlockCell, those of its gates among them.",
           LstmCellGradShape),
      Cell("BlockLSTM", "Gives what a long short-term memory makes of inputs at one time after the other.",
           BlockLstmShape),
      Cell("BlockLSTMV2", "As BlockLSTM, with gates in another order and no bias of its own.",
           BlockLstmShape),
      Cell("BlockLSTMGrad", "Gives the gradients of BlockLSTM.", BlockLstmGradShape),
      Cell("BlockLSTMGradV2", "Gives the gradients of BlockLSTMV2.", BlockLstmGradShape),
      Cell("GRUBlockCell", "Gives what a gated recurrent unit makes of inputs at one time.", GruCellShape),
      Cell("GRUBlockCellGrad", "Gives gradients of GRUBlockCell, those of its gates among them.",
           GruCellGradShape),
  };
  for (OpDef& op : ops)
    if (op.name == "BlockLSTM" || op.name == "BlockLSTMV2") op.gradient = BlockLstmGradient;
  return ops;
}

}  // namespace weir
