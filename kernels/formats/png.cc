#include "kernels/formats/png.h"

#include <png.h>
#include <zlib.h>

#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// What the library said before it jumped to where its trap was set: no object with a destructor may be made
// between there and the call that fails.
struct Complaint {
  char text[256] = {};

  [[noreturn]] static void Raise(png_structp png, png_const_charp message) {
    auto* const complaint = static_cast<Complaint*>(png_get_error_ptr(png));
    std::strncpy(complaint->text, message, sizeof(complaint->text) - 1);
    png_longjmp(png, 1);
  }
};

// ---- encoding ----

class Encoder {
 public:
  Encoder()
      : png_(png_create_write_struct(PNG_LIBPNG_VER_STRING, &complaint_, &Complaint::Raise,
                                     [](png_structp, png_const_charp) {})) {}
  ~Encoder() { png_destroy_write_struct(&png_, &info_); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  const char* message() const { return complaint_.text; }

  // False after an error of the library.
  bool Write(const uint8_t* pixels, int64_t height, int64_t width, int64_t channels, int bits,
             int compression, const std::function<bool()>& is_cancelled, std::string* file) {
    constexpr int kColorTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                   PNG_COLOR_TYPE_RGB_ALPHA};
    if (png_ == nullptr || setjmp(png_jmpbuf(png_)) != 0) return false;
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    png_set_write_fn(
        png_, file,
        [](png_structp png, png_bytep bytes, png_size_t count) {
          static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(bytes), count);
        },
        [](png_structp) {});
    png_set_compression_level(png_, compression < 0 ? Z_DEFAULT_COMPRESSION : compression);
    png_set_compression_mem_level(png_, MAX_MEM_LEVEL);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), bits,
                 kColorTypes[channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    if (bits > 8) png_set_swap(png_);  // files are big-endian
    const int64_t row_bytes = width * channels * (bits / 8);
    for (int64_t y = 0; y < height; ++y) {
      if (is_cancelled && is_cancelled()) return false;
      png_write_row(png_, pixels + y * row_bytes);
    }
    png_write_end(png_, nullptr);
    return true;
  }

 private:
  Complaint complaint_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

absl::StatusOr<std::string> Encode(const void* pixels, int64_t height, int64_t width, int64_t channels,
                                   int bits, int compression, const std::function<bool()>& is_cancelled) {
  constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max() / 2;
  const bool has_form = channels >= 1 && channels <= 4 && height >= 1 && width >= 1;
  if (!has_form || height > kMostBytes || width > kMostBytes / 8 ||
      (width * channels * (bits / 8) + 1) > kMostBytes / height) {
    return absl::InvalidArgumentError(absl::StrCat("no PNG file holds an image of ", height, " x ", width,
                                                   " pixels with ", channels, " channels"));
  }
  if (compression < -1 || compression > 9) {
    return absl::InvalidArgumentError(absl::StrCat("compression should be in [-1,9], got ", compression));
  }
  std::string file;
  Encoder encoder;
  if (!encoder.Write(static_cast<const uint8_t*>(pixels), height, width, channels, bits, compression,
                     is_cancelled, &file)) {
    if (is_cancelled && is_cancelled()) {
      return absl::CancelledError("an image is not encoded: the step was cancelled");
    }
    return absl::ResourceExhaustedError(absl::StrCat("libpng refused an image: ", encoder.message()));
  }
  return file;
}

// ---- decoding ----

constexpr png_alloc_size_t kMostOfAChunk = 8'000'000;  // bytes, also after decompression
constexpr int64_t kTooWide = int64_t{1} << 27;
constexpr int64_t kTooManyPixels = int64_t{1} << 29;

class Decoder {
 public:
  explicit Decoder(absl::string_view contents)
      : rest_(contents),
        png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &complaint_, &Complaint::Raise,
                                    [](png_structp, png_const_charp) {})) {}
  ~Decoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const char* message() const { return complaint_.text; }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  int64_t channels() const { return channels_; }
  // Whether the numbers come as bytes, although 16 bits were asked for.
  bool is_narrow() const { return depth_ <= 8; }
  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }

  // False after an error of the library.
  bool ReadHeader(const PngDecoding& options) {
    if (png_ == nullptr || setjmp(png_jmpbuf(png_)) != 0) return false;
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    png_set_read_fn(png_, this, &Read);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // checked by who calls
    // Texts and suggested palettes, which a few kilobytes may hold megabytes of, are no part of the pixels. A
    // color profile may decide how colors become gray; of those the library keeps one, and not beyond the
    // limit.
    constexpr png_byte kIgnored[] = "tEXt\0zTXt\0iTXt\0sPLT";
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kIgnored, sizeof(kIgnored) / 5);
    png_set_chunk_malloc_max(png_, kMostOfAChunk);
    png_read_info(png_, info_);
    png_get_IHDR(png_, info_, &width_, &height_, &depth_, &color_, nullptr, nullptr, nullptr);
    Transform(options);
    return true;
  }

  // Only now the library takes memory for rows: the size must have been checked.
  bool Start() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool ReadRows(uint8_t* pixels) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const size_t stride = row_bytes();
    for (int pass = 0; pass < passes_; ++pass) {
      for (png_uint_32 y = 0; y < height_; ++y) png_read_row(png_, pixels + y * stride, nullptr);
    }
    png_read_end(png_, info_);
    return true;
  }

 private:
  static void Read(png_structp png, png_bytep to, png_size_t count) {
    auto* const self = static_cast<Decoder*>(png_get_io_ptr(png));
    if (self->rest_.size() < count) png_error(png, "More bytes requested to read than available");
    std::memcpy(to, self->rest_.data(), count);
    self->rest_.remove_prefix(count);
  }

  // Colours, alpha and width of numbers as asked for, by the same transformations as TensorFlow's.
  void Transform(const PngDecoding& options) {
    const bool has_palette = color_ == PNG_COLOR_TYPE_PALETTE;
    const bool has_transparency = png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    const bool has_alpha = (color_ & PNG_COLOR_MASK_ALPHA) != 0,
               is_gray = (color_ & PNG_COLOR_MASK_COLOR) == 0;
    channels_ = options.channels;
    if (channels_ == 0) channels_ = has_palette ? (has_transparency ? 4 : 3) : png_get_channels(png_, info_);
    if (channels_ % 2 == 1) {
      if (has_alpha || has_transparency) png_set_strip_alpha(png_);
    } else if (!has_alpha && has_transparency) {
      png_set_tRNS_to_alpha(png_);
    } else if (!has_alpha) {
      png_set_add_alpha(png_, (1u << depth_) - 1, PNG_FILLER_AFTER);
    }
    if (depth_ > 8 && options.bits <= 8) png_set_strip_16(png_);
    png_set_packing(png_);
    if (options.bits > 8) png_set_swap(png_);
    if (has_palette) png_set_palette_to_rgb(png_);
    if (is_gray && depth_ < 8) png_set_expand_gray_1_2_4_to_8(png_);
    if (channels_ < 3 && !is_gray) png_set_rgb_to_gray(png_, 1, 0.299, 0.587);  // ITU-R BT.601
    if (channels_ >= 3 && is_gray) png_set_gray_to_rgb(png_);
  }

  Complaint complaint_;
  absl::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  png_uint_32 width_ = 0, height_ = 0;
  int depth_ = 0, color_ = 0, channels_ = 0, passes_ = 1;
};

}  // namespace

absl::StatusOr<std::string> EncodePng(absl::Span<const uint8_t> pixels, int64_t height, int64_t width,
                                      int64_t channels, int compression,
                                      const std::function<bool()>& is_cancelled) {
  return Encode(pixels.data(), height, width, channels, 8, compression, is_cancelled);
}

absl::StatusOr<std::string> EncodePng(absl::Span<const uint16_t> pixels, int64_t height, int64_t width,
                                      int64_t channels, int compression,
                                      const std::function<bool()>& is_cancelled) {
  return Encode(pixels.data(), height, width, channels, 16, compression, is_cancelled);
}

absl::Status DecodePng(absl::string_view contents, const PngDecoding& options, AllocatePngPixels allocate) {
  Decoder decoder(contents);
  if (!decoder.ReadHeader(options)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Invalid PNG. Failed to initialize decoder. ", decoder.message()));
  }
  const int64_t height = decoder.height(), width = decoder.width(), channels = decoder.channels();
  if (height >= kTooWide || width >= kTooWide || height * width >= kTooManyPixels) {
    return absl::InvalidArgumentError(absl::StrCat("PNG size too large for int: ", width, " by ", height));
  }
  const bool widens = options.bits == 16 && decoder.is_narrow();
  const int64_t count = height * width * channels;
  WEIR_ASSIGN_OR_RETURN(void* const memory, allocate(height, width, channels));
  auto* const pixels = static_cast<uint8_t*>(memory);
  const int64_t bytes = options.bits == 16 && !widens ? 2 : 1;
  if (!decoder.Start() || decoder.row_bytes() != static_cast<size_t>(width * channels * bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("Invalid PNG data, size ", contents.size(),
                                                   ": its rows do not fit its header. ", decoder.message()));
  }
  if (!decoder.ReadRows(pixels)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Invalid PNG data, size ", contents.size(), ": ", decoder.message()));
  }
  if (widens) {  // in place, from the end
    auto* const wide = static_cast<uint16_t*>(memory);
    for (int64_t i = count; i-- > 0;) wide[i] = static_cast<uint16_t>(pixels[i] * 257);
  }
  return absl::OkStatus();
}

}  // namespace weir
