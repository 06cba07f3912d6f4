#include "distributed/master/utf8_text.h"

#include <algorithm>
#include <cstdint>

namespace weir {
namespace {

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

size_t Utf8CharacterBytes(absl::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  uint32_t code = first & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if (!Continues(text[i])) return 0;
    code = (code << 6) | (static_cast<unsigned char>(text[i]) & 0x3F);
  }
  const bool is_too_long = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return is_too_long || is_surrogate || code > 0x10FFFF ? 0 : length;
}

absl::string_view Utf8Beginning(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && max_bytes - end < 3 && Continues(text[end])) --end;
  return text.substr(0, end);
}

std::string AsUtf8(absl::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t length = Utf8CharacterBytes(text);
    if (length == 0) {
      valid += '?';
    } else {
      valid.append(text.data(), length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return valid;
}

}  // namespace weir
