// Where characters of UTF-8 begin: at every byte that does not continue one. Text that is no UTF-8 is cut by
// the same rule, as TensorFlow does it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace weir {

inline bool IsUtf8Continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Where the character behind the one at `position` begins; the text's end for the last one.
// Precondition: position < text.size().
inline size_t NextUtf8Character(absl::string_view text, size_t position) {
  ++position;
  while (position < text.size() && IsUtf8Continuation(text[position])) ++position;
  return position;
}

inline int64_t CountUtf8Characters(absl::string_view text) {
  int64_t count = 0;
  for (const char byte : text) count += !IsUtf8Continuation(byte);
  return count;
}

}  // namespace weir
