// Copies of parameter servers' variables on a worker, which its model reads instead: for schemes whose
// workers go on by themselves and exchange values now and then (downpour.h, elastic_averaging.h).
//
// The variable itself is then the *center*: checkpoints and other workers know it alone. Its copy is a local
// variable "<variable>/local" beside the worker's nodes, begins with the center's value in each session, and
// is neither saved nor trainable. Everything in the graph that reads the center's value when the copy is made
// reads the copy afterwards; so evaluate in a graph of its own.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph_builder.h"
#include "ops/training/optimizer.h"
#include "ops/variable.h"

namespace weir {

struct LocalCopy {
  ModelVariable center;
  ModelVariable local;
};

// Those that `options` choose. InvalidArgument, which begins with `asker`, when there are none.
absl::StatusOr<std::vector<ModelVariable>> ChosenVariables(GraphBuilder& g, absl::string_view asker,
                                                           const GradientOptions& options,
                                                           SourceLocation where);

// The copies of variables, on the worker. Nothing reads them yet. InvalidArgument, which begins with `asker`,
// for a variable that is listed twice or is not in the graph, and for one that something uses otherwise than
// by its value: rows that are looked up (ops/embedding.h) are read from the center, and would pass by the
// copy.
absl::StatusOr<std::vector<LocalCopy>> MakeLocalCopies(GraphBuilder& g, absl::string_view asker,
                                                       const std::vector<ModelVariable>& variables,
                                                       SourceLocation where);

// The copy of the center; null when it has none.
const LocalCopy* CopyOfCenter(const std::vector<LocalCopy>& copies, const ModelVariable& center);

// Whether each gradient is dense and of a center with a copy, and one of them is not null; otherwise an
// InvalidArgument that begins with `asker`.
absl::Status CheckLocalGradients(GraphBuilder& g, absl::string_view asker,
                                 const std::vector<GradientAndVariable>& gradients,
                                 const std::vector<LocalCopy>& copies, SourceLocation where);

// What read the centers' values reads `values` instead, except for nodes made from number `first_new` on.
void ReadInstead(GraphBuilder& g, const std::vector<LocalCopy>& copies, const std::vector<Output>& values,
                 int first_new);

}  // namespace weir
