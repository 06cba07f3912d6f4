// Which names to show: all that match a pattern with * (any characters, also none) and ? (one character).
//
//   NameFilter filter("dense*/kernel");
//   if (filter.Matches(name)) ...
//
// A pattern without * and ? matches names that contain it. The empty pattern matches everything. Time: at
// most the product of both lengths. Immutable.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace weir {

class NameFilter {
 public:
  explicit NameFilter(absl::string_view pattern);

  bool Matches(absl::string_view name) const;
  const std::string& pattern() const { return pattern_; }

 private:
  std::string pattern_;
};

}  // namespace weir
