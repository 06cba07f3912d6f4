#include "ops/summaries.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/tensor.h"
#include "ops/argument_checks.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

Output Tag(GraphBuilder& g, absl::string_view tag, SourceLocation where) {
  const std::string& scope = g.name_scope();
  return Const(g, scope.empty() ? std::string(tag) : absl::StrCat(scope, "/", tag),
               {.name = absl::StrCat(tag, "/tags")}, where);
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
