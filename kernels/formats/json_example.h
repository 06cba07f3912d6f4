// tf.Example written as JSON, by protobuf's rules for JSON (protobuf.dev/programming-guides/json): bytes are
// base64, and names are those of the message's fields or their lowerCamelCase.
//
// A function without state; safe from any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

// The serialized Example, features in the order of their names. InvalidArgument, with the parser's reason,
// for a text that is none.
absl::StatusOr<std::string> ExampleFromJson(absl::string_view json);

}  // namespace weir
