#include "graph/nearest_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {
namespace {

// Levenshtein distance, one row at a time.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> NearestNames(absl::string_view name, absl::Span<const absl::string_view> known, int limit) {
  const size_t furthest = std::max<size_t>(1, name.size() / 3);
  std::vector<std::pair<size_t, absl::string_view>> near;
  for (absl::string_view candidate : known) {
    const size_t longer = std::max(candidate.size(), name.size()), shorter = std::min(candidate.size(), name.size());
    if (longer - shorter > furthest) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance <= furthest) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> result;
  for (const auto& [distance, candidate] : near) {
    if (static_cast<int>(result.size()) == limit) break;
    result.emplace_back(candidate);
  }
  return result;
}

std::string DidYouMean(absl::string_view name, absl::Span<const absl::string_view> known) {
  const std::vector<std::string> near = NearestNames(name, known);
  if (near.empty()) return "";
  return absl::StrCat("; did you mean '", absl::StrJoin(near, "' or '"), "'?");
}

}  // namespace weir
