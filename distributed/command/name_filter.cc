#include "distributed/command/name_filter.h"

#include "absl/strings/str_cat.h"

namespace weir {

NameFilter::NameFilter(absl::string_view pattern)
    : pattern_(pattern.find_first_of("*?") == absl::string_view::npos ? absl::StrCat("*", pattern, "*")
                                                                      : std::string(pattern)) {}

bool NameFilter::Matches(absl::string_view name) const {
  // On a mismatch the last star takes one character more; earlier stars never need to change.
  size_t at = 0, in_pattern = 0, after_star = std::string::npos, star_end = 0;
  while (at < name.size()) {
    if (in_pattern < pattern_.size() && pattern_[in_pattern] == '*') {
      after_star = ++in_pattern;
      star_end = at;
    } else if (in_pattern < pattern_.size() &&
               (pattern_[in_pattern] == '?' || pattern_[in_pattern] == name[at])) {
      ++in_pattern;
      ++at;
    } else if (after_star != std::string::npos) {
      in_pattern = after_star;
      at = ++star_end;
    } else {
      return false;
    }
  }
  while (in_pattern < pattern_.size() && pattern_[in_pattern] == '*') ++in_pattern;
  return in_pattern == pattern_.size();
}

}  // namespace weir
