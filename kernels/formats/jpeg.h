// Images as JPEG files (ISO/IEC 10918-1), through libjpeg-turbo.
//
// Contents may be hostile: what they declare is checked before anything is allocated for it, the library's
// own memory is bounded, and so is the number of passes over a progressive image. Errors of the library come
// back as a status; it never ends the process, and it writes nothing to the standard error.
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

struct ImageExtent {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
};
// Gives the memory for the pixels of an image, [height, width, channels] bytes, or an error that is the
// decoder's.
using AllocatePixels = absl::FunctionRef<absl::StatusOr<uint8_t*>(const ImageExtent& extent)>;

struct JpegDecoding {
  int channels = 0;  // 0: as many as the file has, at most 3; 1: gray; 3: RGB
  int ratio = 1;     // of the file's size to the image's: 1, 2, 4 or 8
  bool fancy_upsampling = true;
  bool fast_dct = true;
  // Lines that are missing at the end repeat the last one.
  bool recovers_truncated = false;
  float acceptable_fraction = 1;  // of lines that must be there; the others are black. Not of a progressive
                                  // image, whose lines are there together
  bool crops = false;             // to the following part
  int64_t crop_y = 0, crop_x = 0, crop_height = 0, crop_width = 0;
  // Asked before the library takes so many bytes for a progressive image's coefficients, up to 2^30; the
  // error is the decoder's. They are free again when the decoder returns.
  std::function<absl::Status(int64_t bytes)> reserve;
  // Asked for each row of blocks of each pass: true ends the decoding with Cancelled.
  std::function<bool()> is_cancelled;
};

// InvalidArgument, with the library's own words, for what is no JPEG file, an image of 2^29 bytes or more,
// and a part that the image has not.
absl::Status DecodeJpeg(absl::string_view contents, const JpegDecoding& options, AllocatePixels allocate);

// What the header says. InvalidArgument for what is no JPEG file.
absl::StatusOr<ImageExtent> ReadJpegExtent(absl::string_view contents);

struct JpegEncoding {
  int quality = 95;  // 0 to 100
  bool progressive = false;
  bool optimizes_size = false;
  bool chroma_downsampling = true;
  bool density_in_centimeters = false;  // or in inches
  int x_density = 300, y_density = 300;
  std::string xmp_metadata;
  // Asked for each row of pixels or blocks of each pass: true ends the encoding with Cancelled.
  std::function<bool()> is_cancelled;
};

// `pixels` is [height, width, channels] of 1 or 3 channels. InvalidArgument "JPEG encoding failed", with the
// library's own words, for an image that no file holds.
absl::StatusOr<std::string> EncodeJpeg(absl::Span<const uint8_t> pixels, const ImageExtent& extent,
                                       const JpegEncoding& options);

}  // namespace weir
