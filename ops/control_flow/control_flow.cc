// Ops that decide which nodes of a step run, and how often. They compute nothing: the executor knows them by
// name.
//
// An output that is not given is dead, and so is every output of a node with a dead input or control input;
// only Merge takes one live input among dead ones. ops/control_flow.h builds conditionals and loops of them.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

void PassOn(ShapeInference& s, int input, int output) {
  s.set_output(output, s.input(input));
  if (const auto& resource = s.input_resource(input)) s.set_output_resource(output, *resource);
}

Status PassOnFirst(ShapeInference& s) {
  PassOn(s, 0, 0);
  return OkStatus();
}

// What can be said of a value that comes from any one of the inputs.
absl::StatusOr<PartialShape> CommonShape(const ShapeInference& s) {
  if (!s.input(0).has_rank()) return PartialShape();
  std::vector<int64_t> dims = DimsOf(s.input(0));
  for (int i = 1; i < s.num_inputs(); ++i) {
    if (!s.input(i).has_rank() || s.input(i).rank() != s.input(0).rank()) return PartialShape();
    for (size_t d = 0; d < dims.size(); ++d) {
      if (s.input(i).dim(d) != dims[d]) dims[d] = kUnknown;
    }
  }
  return PartialShape::FromDims(dims);
}

bool BeginsLoop(const ShapeInference& s) {
  for (int i = 0; i < s.num_inputs(); ++i) {
    if (s.input_op(i) == "Enter") return true;
  }
  return false;
}

Status NoGradientOfLoops(GradientContext& g) {
  return absl::UnimplementedError("the gradient of a loop is not there yet");
}

// The gradient of a branch that does not use the value: it must be as dead or alive as the branch.
Output NoFlow(GradientContext& g, int branch, Output other_gradient) {
  Output value = g.output(branch);
  if (value.dtype() == DType::kResource) {
    value = g.Add("ReadVariableOp", {value}, {{"dtype", other_gradient.dtype()}});
  }
  return formulas::ZerosLike(g, value);
}

}  // namespace

std::vector<OpDef> ControlFlowOps() {
  return {
      {.name = "Switch",
       .summary = "Gives data as the output that pred chooses; the other output is dead.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
         PassOn(s, 0, 0);
         PassOn(s, 0, 1);
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         if (g.input(1).node->op_name() == "LoopCond") return NoGradientOfLoops(g);
         Output when_false = g.grad(0), when_true = g.grad(1);
         if (!when_false) when_false = NoFlow(g, 0, when_true);
         if (!when_true) when_true = NoFlow(g, 1, when_false);
         Node* merge = g.graph().AddNode("Merge", {std::vector<Output>{when_false, when_true}});
         if (merge != nullptr) g.set_input_grad(0, merge->output(0));
         return OkStatus();
       }},
      // The value that enters a loop says nothing about the shape of what later iterations bring; who builds
      // the loop may promise that shape in the attr _shape_invariant.
      {.name = "Merge",
       .summary = "Gives the first of its inputs that is not dead, and which one it is; dead when all are.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         s.set_output(1, PartialShape::OfRank(0));
         const auto invariant = s.attrs().find("_shape_invariant");
         if (invariant != s.attrs().end() && invariant->second.get_if<PartialShape>() != nullptr) {
           s.set_output(0, invariant->second.get<PartialShape>());
         } else if (!BeginsLoop(s)) {
           WEIR_ASSIGN_OR_RETURN(PartialShape common, CommonShape(s));
           s.set_output(0, std::move(common));
         }
         if (const auto& resource = s.input_resource(0)) s.set_output_resource(0, *resource);
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         if (!g.grad(0)) return OkStatus();
         const Output index = g.output(1);
         for (int i = 0; i < g.num_inputs(); ++i) {
           const std::string& source = g.input(i).node->op_name();
           if (source == "Enter" || source == "NextIteration") return NoGradientOfLoops(g);
           const Output is_taken = g.Add("Equal", {index, g.Constant(DType::kInt32, i)});
           Node* branches = g.graph().AddNode("Switch", {g.grad(0), is_taken});
           if (branches != nullptr) g.set_input_grad(i, branches->output(1));
         }
         return OkStatus();
       }},
      {.name = "Enter",
       .summary = "Leads data into the loop frame_name: into its first iteration, or, constant, into all.",
       .infer_shapes = PassOnFirst,
       .gradient = NoGradientOfLoops},
      {.name = "Exit",
       .summary = "Leads data out of its loop, from the last iteration.",
       .infer_shapes = PassOnFirst,
       .gradient = NoGradientOfLoops},
      {.name = "NextIteration",
       .summary = "Hands data to a Merge in the next iteration of its loop.",
       .infer_shapes = PassOnFirst,
       .gradient = NoGradientOfLoops},
      {.name = "LoopCond",
       .summary = "Marks the condition under which a loop goes on.",
       .infer_shapes = PassOnFirst,
       .gradient = NotDifferentiable},
      {.name = "ControlTrigger",
       .summary = "Runs after its control inputs, dead or alive, and is alive.",
       .infer_shapes = NoOutputs,
       .gradient = NotDifferentiable},
  };
}

}  // namespace weir
