// Which variables of a graph a saver covers, and under which names checkpoints have them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "kernels/formats/bundle_reader.h"

namespace weir {

struct SavedVariable {
  std::string variable;  // its name in the graph
  std::string name;      // of the tensor in checkpoints
  std::string slice;     // which part of that tensor ("5 2 3,2:0,2"); empty: all of it
  PartialShape shape;    // of the whole tensor
  Output value;
  Output handle;
};

// `variables` are names in the graph; `renamed` has names in checkpoints and what stands for each in the
// graph. Both empty: all variables. A name of a variable in several parts stands for all parts.
//
// Errors: InvalidArgument for both of them, for two variables under one name, and for a graph or a choice
// without variables; NotFound for a name that the graph does not have, listing some that it has.
absl::StatusOr<std::vector<SavedVariable>> FindSavedVariables(
    const Graph& graph, const std::vector<std::string>& variables,
    const std::map<std::string, std::string>& renamed);

// Whether each variable can be restored: true where the checkpoint has its tensor. InvalidArgument, naming
// the variable, the tensor and both types, where dtypes or shapes differ.
absl::StatusOr<std::vector<bool>> FindIn(const BundleReader& checkpoint,
                                         const std::vector<SavedVariable>& variables);

// "'a', 'b' and 7 more".
std::string QuotedNames(const std::vector<std::string>& names);

}  // namespace weir
