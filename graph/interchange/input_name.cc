#include "graph/interchange/input_name.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace weir {

absl::StatusOr<InputName> ParseInputName(absl::string_view input) {
  InputName name;
  name.node = input;
  name.is_control = absl::ConsumePrefix(&name.node, "^");
  const size_t colon = name.node.rfind(':');
  if (name.is_control || colon == absl::string_view::npos) return name;
  if (!absl::SimpleAtoi(name.node.substr(colon + 1), &name.output) || name.output < 0) {
    return absl::InvalidArgumentError(absl::StrCat("its input '", input, "' names no output"));
  }
  name.node = name.node.substr(0, colon);
  return name;
}

absl::string_view InputNode(absl::string_view input) {
  absl::ConsumePrefix(&input, "^");
  return input.substr(0, input.find(':'));
}

std::string InputNameOf(absl::string_view node, int output) {
  return output == 0 ? std::string(node) : absl::StrCat(node, ":", output);
}

}  // namespace weir
