#include "kernels/formats/bmp.h"

#include <cstdint>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// What the headers say: BITMAPFILEHEADER, and BITMAPINFOHEADER behind it.
struct Header {
  int64_t pixels_at, width, height;  // a negative height: the first row is the upper one
  int64_t channels;

  static int64_t Little(absl::string_view contents, size_t at, int bytes) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; ++i) {
      value |= static_cast<uint32_t>(static_cast<uint8_t>(contents[at + static_cast<size_t>(i)])) << 8 * i;
    }
    return bytes == 2 ? static_cast<int16_t>(value) : static_cast<int32_t>(value);
  }

  static absl::StatusOr<Header> Read(absl::string_view contents) {
    if (contents.size() < 32) {
      return InvalidArgumentError(
          StrCat("Incomplete bmp content, requires at least 32 bytes to find the header size, width, height, "
                 "and bpp, "
                 "got ",
                 contents.size(), " bytes"));
    }
    const Header header = {Little(contents, 10, 4), Little(contents, 18, 4), Little(contents, 22, 4),
                           Little(contents, 28, 2) / 8};
    if (header.channels != 1 && header.channels != 3 && header.channels != 4) {
      return InvalidArgumentError(
          StrCat("Number of channels inherent in the image must be 1, 3 or 4, was ", header.channels));
    }
    if (header.width <= 0) return InvalidArgumentError("Width must be positive");
    if (header.height == 0) return InvalidArgumentError("Height must be nonzero");
    if (header.pixels_at < 0) return InvalidArgumentError("header size must be nonnegative");
    if (header.width * std::abs(header.height) >= std::numeric_limits<int32_t>::max() / 8) {
      return InvalidArgumentError("Total possible pixel bytes must be less than 2^30");
    }
    const int64_t surplus = static_cast<int64_t>(contents.size()) - header.pixels_at -
                            header.row_bytes() * std::abs(header.height);
    if (surplus != 0) {
      return InvalidArgumentError(StrCat(
          "Input size should match (header_size + row_size * abs_height) but they differ by ", surplus));
    }
    return header;
  }

  int64_t row_bytes() const { return (channels * width + 3) / 4 * 4; }
};

// Files hold blue, green, red and perhaps alpha, or one number for all colours.
void ConvertPixel(const uint8_t* from, int64_t has, uint8_t* to, int64_t wants) {
  if (has == 1) {
    for (int64_t c = 0; c < (wants < 3 ? 1 : 3); ++c) to[c] = from[0];
  } else {
    to[0] = from[2];
    to[1] = from[1];
    to[2] = from[0];
  }
  if (wants == 4) to[3] = has == 4 ? from[3] : 0xff;
}

}  // namespace

absl::Status DecodeBmp(absl::string_view contents, int channels, AllocatePixels allocate) {
  WEIR_ASSIGN_OR_RETURN(const Header header, Header::Read(contents));
  const int64_t height = std::abs(header.height), wants = channels == 0 ? header.channels : channels;
  WEIR_ASSIGN_OR_RETURN(uint8_t * to, allocate({height, header.width, wants}));
  const auto* const pixels = reinterpret_cast<const uint8_t*>(contents.data()) + header.pixels_at;
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* from = pixels + (header.height < 0 ? y : height - 1 - y) * header.row_bytes();
    for (int64_t x = 0; x < header.width; ++x, from += header.channels, to += wants) {
      ConvertPixel(from, header.channels, to, wants);
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
