// Formulas written with elementwise ops, which run as one node, and as nodes of their own where that is
// switched off. tests/benchmarks/peers/tensorflow_elementwise.py runs the same graphs with TensorFlow.
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"
#include "ops/variable.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/local_session.h"
#include "tests/benchmarks/mlp.h"

namespace weir::bench {
namespace {

Output Number(GraphBuilder& g, float value) { return Const(g, Tensor::Scalar(value)); }

ModelVariable VariableOf(GraphBuilder& g, const char* name, int64_t count) {
  return MakeVariable(g, name, RandomNumbers(Shape({count})));
}

// 0.5 x (1 + tanh(0.8 (x + 0.04 x^3))), assigned to a variable
std::vector<Node*> Gelu(GraphBuilder& g, int64_t count) {
  const Output x = VariableOf(g, "x", count).value;
  const Output cube = Mul(g, Mul(g, x, x), x);
  const Output inner = Mul(g, AddV2(g, x, Mul(g, cube, Number(g, 0.044715f))), Number(g, 0.79788456f));
  const Output y = Mul(g, Mul(g, x, Number(g, 0.5f)), AddV2(g, Tanh(g, inner), Number(g, 1)));
  return {AssignVariableOp(g, VariableOf(g, "y", count).handle, y)};
}

// x tanh(softplus(x)) + 0.1 sigmoid(x)
std::vector<Node*> Mix(GraphBuilder& g, int64_t count) {
  const Output x = VariableOf(g, "x", count).value;
  const Output y = AddV2(g, Mul(g, x, Tanh(g, Softplus(g, x))), Mul(g, Sigmoid(g, x), Number(g, 0.1f)));
  return {AssignVariableOp(g, VariableOf(g, "y", count).handle, y)};
}

// The formulas of Adam, assigned.
std::vector<Node*> Adam(GraphBuilder& g, int64_t count) {
  const auto variable = [&](const char* name) { return VariableOf(g, name, count); };
  const ModelVariable m = variable("m"), v = variable("v"), p = variable("p");
  const Output gradient = variable("g").value;
  const Output new_m = AddV2(g, Mul(g, m.value, Number(g, 0.9f)), Mul(g, gradient, Number(g, 0.1f)));
  const Output new_v =
      AddV2(g, Mul(g, v.value, Number(g, 0.999f)), Mul(g, Mul(g, gradient, gradient), Number(g, 0.001f)));
  const Output step = RealDiv(g, Mul(g, new_m, Number(g, 1e-6f)), AddV2(g, Sqrt(g, new_v), Number(g, 1e-7f)));
  return {AssignVariableOp(g, m.handle, new_m), AssignVariableOp(g, v.handle, new_v),
          AssignVariableOp(g, p.handle, Sub(g, p.value, step))};
}

struct Formula {
  const char* name;
  std::vector<Node*> (*build)(GraphBuilder& g, int64_t count);
};

double SecondsOf(const Formula& formula, int64_t count, const RewriteOptions& rewrites) {
  LocalSession local(0, rewrites);
  const std::vector<Node*> targets = formula.build(local.graph, count);
  Node* const init = InitializeVariables(local.graph);
  MustOk(Must(local.session().Prepare({}, {}, {init}))->Run({}, {}));
  auto step = Must(local.session().Prepare({}, {}, {targets.begin(), targets.end()}));
  return MedianSeconds([&] { MustOk(step->Run({}, {})); }, 0.5);
}

}  // namespace

void Elementwise() {
  for (const Formula& formula : {Formula{"gelu", Gelu}, {"mix", Mix}, {"adam", Adam}}) {
    for (const int64_t count : {16, 1024, 65536, 1 << 20, 1 << 24}) {
      const double fused = SecondsOf(formula, count, {}),
                   apart = SecondsOf(formula, count, {.fuses_elementwise = false});
      Emit(absl::StrCat("elementwise_", formula.name, "_", count), fused * 1e6, "us",
           {{"not_fused_us", apart * 1e6}});
    }
  }
}

}  // namespace weir::bench
