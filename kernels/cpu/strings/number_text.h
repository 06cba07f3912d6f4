// Numbers that are written in strings, as TensorFlow reads them. Pure functions.
#pragma once

#include <limits>
#include <system_error>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace weir {

// As C's strtod reads it in the "C" locale, which a program may have left.
template <typename T>
inline bool ParseFloat(absl::string_view text, T& value) {
  text = absl::StripAsciiWhitespace(text);
  bool is_negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    is_negative = text[0] == '-';
    text.remove_prefix(1);
    if (!text.empty() && text[0] == '-') return false;
  }
  auto format = absl::chars_format::general;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    format = absl::chars_format::hex;
    text.remove_prefix(2);
    // from_chars would take a sign, and words.
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(text[0])) && text[0] != '.') return false;
  }
  // from_chars gives the nearest of what it cannot represent, but has no number then.
  const absl::from_chars_result result =
      absl::from_chars(text.data(), text.data() + text.size(), value, format);
  if (result.ec == std::errc::invalid_argument || result.ptr != text.data() + text.size()) return false;
  if (result.ec == std::errc::result_out_of_range && value > 1) value = std::numeric_limits<T>::infinity();
  if (is_negative) value = -value;
  return true;
}

// False when `text` is not one number of the type, with blanks around it or not.
template <typename T>
bool ParseNumber(absl::string_view text, T& value) {
  if constexpr (std::is_integral_v<T>) {
    return absl::SimpleAtoi(text, &value);
  } else {
    return ParseFloat(text, value);
  }
}

}  // namespace weir
