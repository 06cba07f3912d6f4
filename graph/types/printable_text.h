// Text that others wrote, for a terminal or a line of a file.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace weir {

// One line of printable text: names in a file or a message may be anybody's, and must neither begin a line
// that looks like ours nor move the cursor. An end of line becomes "\n", a tab "\t", and another control
// character
// "\x1b". Other bytes, UTF-8 among them, stay as they are.
std::string PrintableText(absl::string_view text);

}  // namespace weir
