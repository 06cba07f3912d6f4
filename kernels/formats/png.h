// Images as PNG files (ISO/IEC 15948), through libpng.
//
// Contents may be hostile: what they declare is checked before anything is allocated for it, and the
// library's own memory is bounded. Errors of the library come back as a status; it never ends the process.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weir {

// `pixels` is [height, width, channels]; 1 channel is gray, 2 gray with alpha, 3 RGB, 4 RGBA. `compression`
// is zlib's, from 0 to 9, or -1 for zlib's own choice. InvalidArgument for other channels, an image without
// pixels, and one that is larger than the library counts. `is_cancelled` is asked for each row: true ends the
// encoding with Cancelled.
absl::StatusOr<std::string> EncodePng(absl::Span<const uint8_t> pixels, int64_t height, int64_t width,
                                      int64_t channels, int compression = -1,
                                      const std::function<bool()>& is_cancelled = nullptr);
absl::StatusOr<std::string> EncodePng(absl::Span<const uint16_t> pixels, int64_t height, int64_t width,
                                      int64_t channels, int compression = -1,
                                      const std::function<bool()>& is_cancelled = nullptr);

struct PngDecoding {
  int channels = 0;  // as of EncodePng; 0: as many as the file has
  int bits = 8;      // of a channel, 8 or 16; wider ones lose their lower byte, narrower ones repeat theirs
};
// Gives the memory for [height, width, channels] numbers of as many bits as were asked for, or an error that
// is the decoder's.
using AllocatePngPixels =
    absl::FunctionRef<absl::StatusOr<void*>(int64_t height, int64_t width, int64_t channels)>;

// InvalidArgument for what is no PNG file, and for 2^27 pixels or more in a row or column or 2^29 in all.
absl::Status DecodePng(absl::string_view contents, const PngDecoding& options, AllocatePngPixels allocate);

}  // namespace weir
