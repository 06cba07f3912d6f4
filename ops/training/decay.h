// What the learning rates that decay have in common: numbers, the step, and how far it has come. All are
// float scalars, computed in float as TensorFlow does. Errors stick in the builder.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "graph/graph_builder.h"
#include "ops/argument_checks.h"

namespace weir::decay {

struct NamedSteps {
  absl::string_view argument;
  int64_t count;
};

// Whether the step is there and may be a scalar number. Otherwise it is an InvalidArgument that begins with
// `name`.
bool CheckStep(GraphBuilder& g, absl::string_view name, const Output& global_step, SourceLocation where);
// Whether the step is there, `steps` are at least 1, and the numbers finite; otherwise an InvalidArgument
// that begins with `name`.
bool CheckArguments(GraphBuilder& g, absl::string_view name, const Output& global_step, NamedSteps steps,
                    std::initializer_list<NamedNumber> numbers, SourceLocation where);

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
