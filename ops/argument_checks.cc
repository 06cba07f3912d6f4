#include "ops/argument_checks.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "graph/node_of_graph.h"

namespace weir {
namespace {

absl::Status CheckOutputOf(const Graph& graph, const Output& value) {
  if (!value) return absl::InvalidArgumentError("a null output");
  const Node& node = *value.node;
  if (!IsNodeOf(graph, node)) {
    return absl::InvalidArgumentError(absl::StrCat("'", value.name(), "', a node of another graph"));
  }
  if (value.index >= 0 && value.index < node.num_outputs()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", value.name(), "', but ", node.Describe(), " has ", node.num_outputs(), " outputs"));
}

}  // namespace

bool CheckGiven(GraphBuilder& g, absl::string_view asker, absl::string_view argument, const Output& value,
                SourceLocation where) {
  const absl::Status status = CheckOutputOf(g.graph(), value);
  if (status.ok()) return true;
  g.SetError(absl::InvalidArgumentError(absl::StrCat(asker, ": ", argument, " is ", status.message())),
             where);
  return false;
}

bool CheckFinite(GraphBuilder& g, absl::string_view asker, std::initializer_list<NamedNumber> numbers,
                 SourceLocation where) {
  for (const NamedNumber& number : numbers) {
    if (std::isfinite(number.value)) continue;
    g.SetError(absl::InvalidArgumentError(
                   absl::StrCat(asker, ": ", number.argument, " must be finite, is ", number.value)),
               where);
    return false;
  }
  return true;
}

}  // namespace weir
