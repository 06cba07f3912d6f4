// What the library says by itself to whoever watches a program.
#pragma once

#include "absl/strings/string_view.h"

namespace weir {

// One line on stderr, "weir: <message>". Names in it may come from files and peers of others: control
// characters, ends of lines too, are escaped. Thread safety: from any thread, lines stay whole.
void PrintNotice(absl::string_view message);

}  // namespace weir
