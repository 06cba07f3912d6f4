#include "ops/argument_checks.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace weir {

bool CheckGiven(GraphBuilder& g, absl::string_view asker, absl::string_view argument, const Output& value,
                SourceLocation where) {
  if (value) return true;
  g.SetError(absl::InvalidArgumentError(absl::StrCat(asker, ": ", argument, " is a null output")), where);
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
