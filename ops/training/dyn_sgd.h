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
// Rows (ops/embedding.h) are divided likewise. Thread safety: none.
#pragma once

#include <memory>

#include "ops/training/optimizer.h"

namespace weir {

// InvalidArgument, when it is used, for a null optimizer, or without a global step.
std::unique_ptr<Optimizer> DynSgd(std::unique_ptr<Optimizer> optimizer);

}  // namespace weir
