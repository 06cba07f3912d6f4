// The inputs of a NodeDef are names: "node", "node:1", or "^node" for a control edge.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

struct InputName {
  absl::string_view node;  // a part of the text that was parsed
  int output = 0;
  bool is_control = false;
};

// InvalidArgument for what names no output: "node:x", "node:-1".
absl::StatusOr<InputName> ParseInputName(absl::string_view input);

// The node of an input, whatever its output: of "node:1" as of "node:x". It is a part of the text.
absl::string_view InputNode(absl::string_view input);

// "node" for output 0, otherwise "node:1".
std::string InputNameOf(absl::string_view node, int output);

}  // namespace weir
