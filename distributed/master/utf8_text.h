// Where the characters of UTF-8 end: texts that go to clients in messages must be cut between them.
//
// Functions without state. Format: RFC 3629.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace weir {

// Of the first character of `text`; 0 when its bytes are none.
size_t Utf8CharacterBytes(absl::string_view text);

// At most max_bytes of the beginning; no character is cut.
absl::string_view Utf8Beginning(absl::string_view text, size_t max_bytes);

// The text with '?' for each byte that is no part of a character.
std::string AsUtf8(absl::string_view text);

}  // namespace weir
