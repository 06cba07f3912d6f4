// "Did you mean": the known names closest to a mistyped one.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weir {

// At most `limit` of `known` within a third of the name's length in edit distance (insert, delete, replace,
// exchange two neighbours), and one edit in any case, best first.
std::vector<std::string> NearestNames(absl::string_view name, absl::Span<const absl::string_view> known,
                                      int limit = 3);

// "" or "; did you mean 'MatMul' or 'BatchMatMul'?"
std::string DidYouMean(absl::string_view name, absl::Span<const absl::string_view> known);

}  // namespace weir
