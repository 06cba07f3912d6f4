#include "graph/types/printable_text.h"

#include "absl/strings/str_format.h"

namespace weir {

std::string PrintableText(absl::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      printable += "\\n";
    } else if (c == '\t') {
      printable += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&printable, "\\x%02x", byte);
    } else {
      printable.push_back(c);
    }
  }
  return printable;
}

}  // namespace weir
