#include "kernels/notice.h"

#include <cstdio>

#include "graph/types/printable_text.h"

namespace weir {

void PrintNotice(absl::string_view message) {
  std::fprintf(stderr, "weir: %s\n", PrintableText(message).c_str());
}

}  // namespace weir
