// One block of Snappy's raw format, which has no frame and no checksum
// (github.com/google/snappy/blob/main/format_description.txt).
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weir {

// Snappy's longest block.
inline constexpr size_t kLongestSnappyBlock = UINT32_MAX;

// Precondition: bytes.size() <= kLongestSnappyBlock.
std::string SnappyCompressed(absl::string_view bytes);

// DataLoss unless the block is of exactly so many bytes.
absl::Status SnappyUncompress(absl::string_view block, absl::Span<char> to);

}  // namespace weir
