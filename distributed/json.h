// Reading the JSON of TF_CONFIG with errors in Weir's form.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace weir {

using Json = nlohmann::json;

// InvalidArgument naming `what`, the line and the column where the text stops being JSON; also for nesting
// deeper than any document of ours, and for an object with the same key twice (one of the two values would be
// lost).
absl::StatusOr<Json> ParseJson(absl::string_view what, absl::string_view text);

// The value as text, cut to what fits in an error message.
std::string Excerpt(const Json& value);

}  // namespace weir
