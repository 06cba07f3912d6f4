// Gradients that count less the staler they are.
//
//   Node* train = DynSgd(std::make_unique<GradientDescent>(0.1))->Minimize(g, loss, GlobalStep(g)).value();
//
// A gradient that was computed on values to which tau updates of other workers have been applied since is
// divided by tau + 1 before the wrapped optimizer applies it (Jiang, Cui, Zhang and Yu, "Heterogeneity-aware
// Distributed Parameter Servers", 2017, DynSGD). tau is how far the global step has come between the step's
// reads and the moment when its gradients are there; updates that are applied while it is looked up are not
// counted. With one worker nothing changes.
//
// The global step is read before the variables of its own task. A variable of another task may be read before
// or after it, and a gradient then counts as fresher or staler than it is, by what was applied in between:
// an order between tasks would cost a trip to one of them in each step.
//
// Rows (ops/embedding.h) are divided likewise. Thread safety: none.
#pragma once

#include <memory>

#include "ops/training/optimizer.h"

namespace weir {

// InvalidArgument, when it is used, for a null optimizer, or without a global step. Downpour and
// AccumulatedGradientNormalization may wrap it only where they push and fetch in every step.
std::unique_ptr<Optimizer> DynSgd(std::unique_ptr<Optimizer> optimizer);

}  // namespace weir
