// Activations.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/elementwise_op.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

// Of a gradient that is linear in `gradients` and piecewise constant in what its input 1 is.
Status SameGradOfGradients(GradientContext& g) {
  g.set_input_grad(0, g.Add(g.node().op_name(), {g.grad(0), g.input(1)}));
  return OkStatus();
}

// Of EluGrad and SeluGrad, where outputs < 0: gradients * (outputs + a constant).
Status ExponentialGradGradient(GradientContext& g) {
  const Output gradients = g.input(0), outputs = g.input(1);
  const Output zero = Zero(g, outputs);
  g.set_input_grad(0, g.Add(g.node().op_name(), {g.grad(0), outputs}));
  g.set_input_grad(1, Select(g, g.Add("Less", {outputs, zero}), Mul(g, g.grad(0), gradients), zero));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> ActivationsOps() {
  return {
      // Of Relu, Relu6, Elu and Selu the activations tell where the features were positive: the features need
      // not be kept.
      Unary("Relu", "Gives max(features, 0).",
            [](GradientContext& g) -> Status {
              g.set_input_grad(0, g.Add("ReluGrad", {g.grad(0), g.output(0)}));
              return OkStatus();
            }),
      FusedGrad("ReluGrad", "Gives gradients where features > 0, else 0: the gradient of Relu.",
                [](GradientContext& g) -> Status { return SameGradOfGradients(g); }),
      Unary("Relu6", "Gives features, at least 0 and at most 6.",
            [](GradientContext& g) -> Status {
              g.set_input_grad(0, g.Add("Relu6Grad", {g.grad(0), g.output(0)}));
              return OkStatus();
            }),
      FusedGrad("Relu6Grad", "Gives gradients where 0 < features < 6, else 0: the gradient of Relu6.",
                [](GradientContext& g) -> Status { return SameGradOfGradients(g); }),
      Unary("Elu", "Gives features where they are positive, else exp(features) - 1.",
            [](GradientContext& g) -> Status {
              g.set_input_grad(0, g.Add("EluGrad", {g.grad(0), g.output(0)}));
              return OkStatus();
            }),
      FusedGrad("EluGrad",
                "Gives gradients where outputs are not negative, else gradients * (outputs + 1): the "
                "gradient of Elu.",
                [](GradientContext& g) -> Status { return ExponentialGradGradient(g); }),
      Unary("Selu",
            "Gives scale * features where they are positive, else scale * alpha * (exp(features) - 1).",
            [](GradientContext& g) -> Status {
              g.set_input_grad(0, g.Add("SeluGrad", {g.grad(0), g.output(0)}));
              return OkStatus();
            }),
      FusedGrad("SeluGrad",
                "Gives gradients * scale where outputs are not negative, else gradients * (outputs + scale * "
                "alpha): the gradient of Selu.",
                [](GradientContext& g) -> Status { return ExponentialGradGradient(g); }),
      Unary("Softplus", "Gives log(1 + exp(features)).",
            [](GradientContext& g) -> Status {
              g.set_input_grad(0, g.Add("SoftplusGrad", {g.grad(0), g.input(0)}));
              return OkStatus();
            }),
      FusedGrad("SoftplusGrad", "Gives gradients / (1 + exp(-features)): the gradient of Softplus.",
                [](GradientContext& g) -> Status {
                  const Output dy = g.input(0), x = g.input(1);
                  const Output both = Add(g, g.Add("Exp", {x}), g.Add("Exp", {Neg(g, x)}));
                  g.set_input_grad(0, g.Add("SoftplusGrad", {g.grad(0), x}));
                  g.set_input_grad(1, Div(g, Mul(g, g.grad(0), dy), Add(g, both, g.Constant(x.dtype(), 2))));
                  return OkStatus();
                }),
      Unary("Softsign", "Gives features / (1 + |features|).",
            [](GradientContext& g) -> Status {
              g.set_input_grad(0, g.Add("SoftsignGrad", {g.grad(0), g.input(0)}));
              return OkStatus();
            }),
      FusedGrad("SoftsignGrad", "Gives gradients / (1 + |features|)^2: the gradient of Softsign.",
                [](GradientContext& g) -> Status {
                  const Output dy = g.input(0), x = g.input(1);
                  const Output slope = g.Add("SoftsignGrad", {g.grad(0), x});
                  const Output sum = Add(g, One(g, x), g.Add("Abs", {x}));
                  const Output bend = Scale(g, -2, Div(g, g.Add("Sign", {x}), sum));
                  g.set_input_grad(0, slope);
                  g.set_input_grad(1, Mul(g, Mul(g, slope, dy), bend));
                  return OkStatus();
                }),
      Unary("LeakyRelu", "Gives features where they are positive, else alpha * features.",
            [](GradientContext& g) -> Status {
              const AttrMap alpha = {{"alpha", g.attr<float>("alpha")}};
              g.set_input_grad(0, g.Add("LeakyReluGrad", {g.grad(0), g.input(0)}, alpha));
              return OkStatus();
            }),
      FusedGrad("LeakyReluGrad",
                "Gives gradients where features > 0, else alpha * gradients: the gradient of LeakyRelu.",
                [](GradientContext& g) -> Status {
                  const AttrMap alpha = {{"alpha", g.attr<float>("alpha")}};
                  g.set_input_grad(0, g.Add("LeakyReluGrad", {g.grad(0), g.input(1)}, alpha));
                  return OkStatus();
                }),
  };
}

}  // namespace weir
