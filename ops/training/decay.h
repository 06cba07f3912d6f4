// What the learning rates that decay have in common: numbers, the step, and how far it has come. All are
// float scalars, computed in float as TensorFlow does. Errors stick in the builder.
#pragma once

#include <cstdint>

#include "graph/graph_builder.h"

namespace weir::decay {

// Whether decay_steps is at least 1; otherwise an InvalidArgument that begins with `name`.
bool CheckSteps(GraphBuilder& g, absl::string_view name, absl::string_view argument, int64_t decay_steps,
                SourceLocation where);

Output Number(GraphBuilder& g, double value, SourceLocation where);
// The step as a number.
Output StepOf(GraphBuilder& g, Output global_step, SourceLocation where);
// The same, at most decay_steps.
Output StepUpTo(GraphBuilder& g, Output global_step, int64_t decay_steps, SourceLocation where);
// step / decay_steps, rounded down if `staircase`.
Output Progress(GraphBuilder& g, Output global_step, int64_t decay_steps, bool staircase,
                SourceLocation where);
// (1 + cos(pi * fraction)) / 2
Output HalfCosine(GraphBuilder& g, Output fraction, SourceLocation where);

}  // namespace weir::decay
