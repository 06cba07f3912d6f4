// Training steps of models, measured: on the CPU, or on whatever the runtime's options have.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/types/dtype.h"
#include "ops/training/optimizer.h"
#include "session/runtime.h"
#include "tests/benchmarks/local_session.h"

namespace weir::bench {

// Seconds of a training step of the optimizer: computes the loss, updates the variables.
double SecondsOfStep(LocalSession& local, const std::vector<std::pair<Output, Tensor>>& inputs, Output loss,
                     Optimizer&& optimizer, double min_seconds, int rounds);

// The mean of the cross entropies of a batch.
Output SoftmaxLoss(GraphBuilder& g, Output logits, Output labels);

// Emits "mlp_bBATCH_step" and "mlp_bBATCH_step_session_run", each followed by `suffix`.
void MeasureMlpStep(const RuntimeOptions& options, int batch, const std::string& suffix = "");

// Emits "resnet20_bBATCH_fp32" or "_bf16", followed by `suffix`.
void MeasureResNet20Step(const RuntimeOptions& options, int batch, DType dtype,
                         const std::string& suffix = "");

}  // namespace weir::bench
