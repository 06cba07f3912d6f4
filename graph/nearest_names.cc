#include "graph/nearest_names.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {
namespace {

// Levenshtein distance where exchanging two neighbours is one edit too ("optimal string alignment"), row by
// row: rows[0] is the current one.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::array<std::vector<size_t>, 3> rows;
  for (std::vector<size_t>& row : rows) row.resize(b.size() + 1);
  std::iota(rows[0].begin(), rows[0].end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    std::rotate(rows.begin(), rows.end() - 1, rows.end());
    rows[0][0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      size_t& distance = rows[0][j + 1];
      distance = std::min({rows[1][j] + (a[i] != b[j]), rows[0][j] + 1, rows[1][j + 1] + 1});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j])
        distance = std::min(distance, rows[2][j - 1] + 1);
    }
  }
  return rows[0].back();
}

}  // namespace

std::vector<std::string> NearestNames(absl::string_view name, absl::Span<const absl::string_view> known,
                                      int limit) {
  const size_t furthest = std::max<size_t>(1, name.size() / 3);
  std::vector<std::pair<size_t, absl::string_view>> near;
  for (absl::string_view candidate : known) {
    const size_t longer = std::max(candidate.size(), name.size()),
                 shorter = std::min(candidate.size(), name.size());
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
