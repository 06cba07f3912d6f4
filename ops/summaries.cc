#include "ops/summaries.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/types/tensor.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

// The tags of the graph's summaries.
absl::flat_hash_set<std::string> TagsOf(Graph& graph) {
  absl::flat_hash_set<std::string> found;
  for (const std::string& name : graph.collections()["summaries"]) {
    const absl::StatusOr<Output> summary = graph.FindOutput(name);
    if (!summary.ok() || summary->node->num_inputs() == 0) continue;
    const Node& tags = *summary->node->input(0).node;
    if (tags.op_name() != "Const") continue;
    const Tensor& value = tags.attr<Tensor>("value");
    if (value.dtype() == DType::kString && value.num_elements() == 1)
      found.insert(value.flat<std::string>()[0]);
  }
  return found;
}

// As in TensorFlow the second "loss" is "loss_1": one step cannot write two values of one tag.
Output Tag(GraphBuilder& g, absl::string_view tag, SourceLocation where) {
  const std::string& scope = g.name_scope();
  const std::string full = scope.empty() ? std::string(tag) : absl::StrCat(scope, "/", tag);
  const absl::flat_hash_set<std::string> taken = TagsOf(g.graph());
  std::string unique = full;
  for (int i = 1; taken.contains(unique); ++i) unique = absl::StrCat(full, "_", i);
  return Const(g, unique, {.name = absl::StrCat(tag, "/tags")}, where);
}

}  // namespace

Output AddScalarSummary(GraphBuilder& g, absl::string_view tag, Output value, SourceLocation where) {
  const Output summary = ScalarSummary(g, Tag(g, tag, where), value, {}, where);
  AddSummary(g, summary);
  return summary;
}

Output AddHistogramSummary(GraphBuilder& g, absl::string_view tag, Output values, SourceLocation where) {
  const Output summary = HistogramSummary(g, Tag(g, tag, where), values, {}, where);
  AddSummary(g, summary);
  return summary;
}

void AddSummary(GraphBuilder& g, Output summary) {
  if (!CheckGiven(g, "AddSummary", "summary", summary, SourceLocation())) return;
  if (summary.dtype() != DType::kString) {
    return g.SetError(absl::InvalidArgumentError(absl::StrCat("AddSummary: '", summary.name(),
                                                              "' must be a serialized Summary, a string, is ",
                                                              TypeString(summary.dtype(), summary.shape()))),
                      SourceLocation());
  }
  g.graph().collections()["summaries"].push_back(summary.name());
}

}  // namespace weir
