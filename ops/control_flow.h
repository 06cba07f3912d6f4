// Conditionals and loops, built of the ops of v1 control flow (Switch, Merge, Enter, Exit, NextIteration).
//
//   auto root = [&] { return std::vector{Sqrt(g, x)}; };
//   auto same = [&] { return std::vector{x}; };
//   Output y = Cond(g, Greater(g, x, zero), root, same)[0];
//
// The functions are called once, while the graph is built, and add nodes with the same builder. They may use
// any tensor of the graph. Only the tensors that they return can be used outside: a step that fetches another
// tensor of a branch or a loop gets an error. Variables are made outside.
//
// Errors stick in the builder, as everywhere; the results are then null Outputs.
#pragma once

#include <functional>
#include <vector>

#include "graph/graph_builder.h"

namespace weir {

using BranchFunction = std::function<std::vector<Output>()>;

// The results of then_branch when the scalar bool `pred` is true, else those of else_branch; nodes of the
// other branch do not run, also those with effects. Both must give equally many tensors of the same dtypes;
// the shape of a result is what both have in common. Gradients flow through.
std::vector<Output> Cond(GraphBuilder& g, Output pred, const BranchFunction& then_branch,
                         const BranchFunction& else_branch, const NodeOptions& options = {},
                         SourceLocation where = SourceLocation::Current());

using LoopCondition = std::function<Output(const std::vector<Output>& variables)>;
using LoopBody = std::function<std::vector<Output>(const std::vector<Output>& variables)>;

struct WhileOptions {
  absl::string_view name = "while";
  // A shape for each loop variable that it fits in every iteration (with -1 for dimensions that change), or
  // none at all: then every variable keeps the shape that it begins with.
  std::vector<PartialShape> shape_invariants;
};

// Runs `body` on the loop variables as long as `condition` gives true (a scalar bool), beginning with
// `initial`; gives what they are at the end. The body gives one tensor per variable, of its dtype and shape.
// Iterations run one after another; what the body asks for may be on several devices. No gradient flows
// through: asking for it is an error.
std::vector<Output> While(GraphBuilder& g, const std::vector<Output>& initial, const LoopCondition& condition,
                          const LoopBody& body, const WhileOptions& options = {},
                          SourceLocation where = SourceLocation::Current());

}  // namespace weir
