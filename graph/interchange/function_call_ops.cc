#include "graph/interchange/function_call_ops.h"

#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

OpDef FunctionOp(const char* name, const char* summary, GradientFunction gradient) {
  return {.name = name,
          .summary = summary,
          .inputs = {"args: Tin"},
          .outputs = {"results: Tout"},
          .attrs = {"Tin: list(type) >= 0", "Tout: list(type) >= 0", "function: string"},
          .infer_shapes = UnknownShape,
          .gradient = gradient};
}

absl::Status GradientOfCall(GradientContext& g) {
  std::vector<Output> arguments(g.node().inputs().begin(), g.node().inputs().end());
  for (int i = 0; i < g.node().num_outputs(); ++i) {
    const Output flow = g.grad(i);
    arguments.push_back(flow ? flow : g.Add("ZerosLike", {g.output(i)}));
  }
  const auto& types = g.attr<std::vector<DType>>("Tin");
  Node* const gradient = g.graph().AddNode(
      kFunctionGradientOp, {InputArg(arguments)},
      {{"Tout", types}, {kFunctionAttr, g.attr<std::string>(kFunctionAttr)}}, "", g.node().source());
  if (gradient == nullptr) return g.graph().status();
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (IsFloating(types[i]) || IsComplex(types[i])) g.set_input_grad(i, gradient->output(i));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsFunctionCallOp(absl::string_view op) { return op == kFunctionCallOp || op == kFunctionGradientOp; }

absl::StatusOr<std::unique_ptr<OpRegistry>> WithFunctionCallOps(const OpRegistry& ops) {
  auto all = std::make_unique<OpRegistry>();
  for (const Op* op : ops.ops()) WEIR_RETURN_IF_ERROR(all->Register(op->def()));
  WEIR_RETURN_IF_ERROR(all->Register(
      FunctionOp(kFunctionCallOp, "Calls a function that has a gradient of its own.", GradientOfCall)));
  WEIR_RETURN_IF_ERROR(all->Register(
      FunctionOp(kFunctionGradientOp, "Calls the gradient of such a function.", NotDifferentiable)));
  return all;
}

}  // namespace weir
