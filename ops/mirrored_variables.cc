#include "ops/mirrored_variables.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

std::string CollectionOf(size_t copy) {
  return copy == 0 ? "mirrored_variables" : absl::StrCat("mirrored_variables_", copy);
}

}  // namespace

void NoteMirrored(Graph& graph, const std::vector<std::string>& handles) {
  for (size_t i = 0; i < handles.size(); ++i) graph.collections()[CollectionOf(i)].push_back(handles[i]);
}

int NumCopies(const Graph& graph) {
  int count = 0;
  while (graph.collections().contains(CollectionOf(count))) ++count;
  return count;
}

std::vector<Output> OtherCopies(const Graph& graph, absl::string_view handle) {
  std::vector<Output> copies;
  const auto firsts = graph.collections().find(CollectionOf(0));
  if (firsts == graph.collections().end()) return copies;
  const auto found = std::find(firsts->second.begin(), firsts->second.end(), handle);
  if (found == firsts->second.end()) return copies;
  const size_t index = found - firsts->second.begin();
  for (size_t copy = 1;; ++copy) {
    const auto others = graph.collections().find(CollectionOf(copy));
    // A graph that was read from a file may name anything.
    if (others == graph.collections().end() || index >= others->second.size()) return copies;
    const absl::StatusOr<Output> output = graph.FindOutput(others->second[index]);
    if (output.ok() && output->dtype() == DType::kResource) copies.push_back(*output);
  }
}

}  // namespace weir
