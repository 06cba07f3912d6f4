// Where in the user's program a call was written; a default argument captures it.
//
// Stands in for std::source_location, which clang 14 does not offer with this standard library.
#pragma once

#include <string>

namespace weir {

struct SourceLocation {
  const char* file = "";
  int line = 0;

  static constexpr SourceLocation Current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }

  // "path/file.cc:42", or "" for a node that no source line made (an imported graph).
  std::string ToString() const { return line == 0 ? "" : std::string(file) + ":" + std::to_string(line); }
};

}  // namespace weir
