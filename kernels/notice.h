// What the library says by itself to whoever watches a program.
#pragma once

#include "absl/strings/string_view.h"

namespace weir {

// One line on stderr, "weir: <message>". Names in it may come from files and peers of others: control
// characters, ends of lines too, are escaped.
//
// Whoever reads stderr may have stopped (a pager, a terminal after Ctrl-S, a program that hangs). Then a line
// waits for a moment and is left out, those after it at once; when somebody reads again, a line says how many
// are missing. So no thread of the runtime stops with the reader. Thread safety: from any thread, lines stay
// whole.
void PrintNotice(absl::string_view message);

}  // namespace weir
