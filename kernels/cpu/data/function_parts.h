// Bodies of functions (graph/function_bodies.h) taken apart and put together: what rewrites of pipelines make
// of two functions.
//
// The nodes of function k of a composition have names that begin with "part_k/". A composition is added to as
// it is, without new names, so that a chain of functions takes time and memory in proportion to their sizes.
//
// Functions without state; safe from any thread. Errors: InvalidArgument for a body that cannot be read, or
// two that do not fit.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/interchange/plain_graph.h"
#include "graph/op_registry.h"
#include "graph/types/dtype.h"

namespace weir {

struct FunctionParts {
  std::vector<PlainNode> nodes;  // without those that stand for arguments and results
  std::vector<std::string> arguments;
  std::vector<DType> argument_types;
  std::vector<std::string> results;  // as a NodeDef names inputs
  std::vector<DType> result_types;
  int num_functions = 1;  // it is a composition of

  static absl::StatusOr<FunctionParts> FromBody(const std::string& body);
  absl::StatusOr<std::string> Body() const;

  // Whether each result is the argument of its number, and nothing else is done.
  bool GivesArguments() const;
  // Whether a node has effects, or gives something else each time. Assert does not count, as in TensorFlow.
  bool IsStateful(const OpRegistry& ops) const;
};

// second(first(arguments)).
absl::StatusOr<FunctionParts> Composed(FunctionParts first, const FunctionParts& second);
// What first gives, and then predicate of that.
absl::StatusOr<FunctionParts> Followed(FunctionParts first, const FunctionParts& predicate);
// first(arguments) and second(arguments), which is computed only where the first is true.
absl::StatusOr<FunctionParts> Both(FunctionParts first, const FunctionParts& second);
// Of arguments of the types: those that results [begin, end) are.
FunctionParts Selection(absl::Span<const DType> types, int begin, int end);

}  // namespace weir
