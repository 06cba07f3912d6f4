#include "kernels/formats/jpeg.h"

// jpeglib.h needs FILE.
#include <cstdio>
//
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int64_t kTooManyBytes = int64_t{1} << 29;
constexpr int kMostScans = 500;
constexpr long kLibraryBytes = 1L << 30;  // NOLINT(google-runtime-int): the library's type

// Errors of the library jump to where `jump` was set: no object with a destructor may be made between there
// and the call that fails.
struct ErrorTrap {
  jpeg_error_mgr errors;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = {};

  // The library keeps a pointer into it.
  template <typename Info>
  explicit ErrorTrap(Info* info) {
    info->err = jpeg_std_error(&errors);
    info->client_data = this;
    errors.error_exit = [](j_common_ptr failed) { Jump(failed); };
    errors.output_message = [](j_common_ptr) {};
  }

 private:
  [[noreturn]] static void Jump(j_common_ptr info) {
    auto* const trap = static_cast<ErrorTrap*>(info->client_data);
    info->err->format_message(info, trap->message);
    std::longjmp(trap->jump, 1);
  }
};

// Contents in memory. Where they end too early, an end of image is read instead, a few times; or lines are
// missing; or it is an error.
struct MemorySource {
  jpeg_source_mgr manager = {};
  bool recovers = false;
  bool suspends = false;  // while a line is read
  int num_ends = 0;

  MemorySource(absl::string_view contents, bool recovers_truncated) : recovers(recovers_truncated) {
    manager.next_input_byte = reinterpret_cast<const JOCTET*>(contents.data());
    manager.bytes_in_buffer = contents.size();
    manager.init_source = [](j_decompress_ptr) {};
    manager.fill_input_buffer = &Fill;
    manager.skip_input_data = &Skip;
    manager.resync_to_restart = jpeg_resync_to_restart;
    manager.term_source = [](j_decompress_ptr) {};
  }

 private:
  static MemorySource* Of(j_decompress_ptr info) { return reinterpret_cast<MemorySource*>(info->src); }

  static boolean Fill(j_decompress_ptr info) {
    static constexpr JOCTET kEnd[] = {0xff, JPEG_EOI};
    constexpr int kMostEnds = 16;
    MemorySource* const source = Of(info);
    if (!source->recovers && source->suspends) return FALSE;
    if (!source->recovers || source->num_ends == kMostEnds) {
      info->err->msg_code = JERR_INPUT_EOF;
      info->err->error_exit(reinterpret_cast<j_common_ptr>(info));
    }
    ++source->num_ends;
    source->manager.next_input_byte = kEnd;
    source->manager.bytes_in_buffer = sizeof(kEnd);
    return TRUE;
  }

  static void Skip(j_decompress_ptr info, long count) {  // NOLINT(google-runtime-int): the library's type
    jpeg_source_mgr& manager = Of(info)->manager;
    if (count <= 0) return;
    if (static_cast<size_t>(count) > manager.bytes_in_buffer) {
      manager.bytes_in_buffer = 0;
      Fill(info);
      return;
    }
    manager.next_input_byte += count;
    manager.bytes_in_buffer -= static_cast<size_t>(count);
  }
};

// Each pass over a progressive image costs as much as the image is large, whatever the file holds of it.
struct Progress {
  jpeg_progress_mgr manager = {};
  const std::function<bool()>& is_cancelled;

  explicit Progress(const std::function<bool()>& cancelled) : is_cancelled(cancelled) {
    manager.progress_monitor = [](j_common_ptr info) {
      const auto* const progress = reinterpret_cast<const Progress*>(info->progress);
      auto* const decoder = reinterpret_cast<j_decompress_ptr>(info);
      const bool has_ended = progress->is_cancelled && progress->is_cancelled();
      if (!has_ended && decoder->input_scan_number <= kMostScans) return;
      info->err->msg_code = JERR_BAD_PROGRESSION;
      info->err->error_exit(info);
    };
  }
};

// A decoder in steps, each of which sets the trap anew. What they return is false after an error of the
// library.
class Decoder {
 public:
  Decoder(absl::string_view contents, const JpegDecoding& options)
      : options_(options),
        trap_(&info_),
        source_(contents, options.recovers_truncated),
        progress_(options.is_cancelled) {}
  ~Decoder() { jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  const jpeg_decompress_struct& info() const { return info_; }
  const char* message() const { return trap_.message; }
  bool is_cmyk() const { return info_.out_color_space == JCS_CMYK; }
  int channels() const { return channels_; }

  bool ReadHeader() {
    if (setjmp(trap_.jump) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.mem->max_memory_to_use = kLibraryBytes;
    info_.progress = &progress_.manager;
    info_.src = &source_.manager;
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  // What the library keeps of an image in several passes: two bytes for each coefficient.
  int64_t CoefficientBytes() {
    if (jpeg_has_multiple_scans(&info_) == FALSE) return 0;
    const auto rounded = [](int64_t blocks, int64_t step) { return (blocks + step - 1) / step * step; };
    int64_t blocks = 0;
    for (int i = 0; i < info_.num_components; ++i) {
      const jpeg_component_info& component = info_.comp_info[i];
      blocks += rounded(component.width_in_blocks, component.h_samp_factor) *
                rounded(component.height_in_blocks, component.v_samp_factor);
    }
    return blocks * static_cast<int64_t>(sizeof(JBLOCK));
  }

  // The size of what Start will give.
  bool CalculateSize() {
    if (setjmp(trap_.jump) != 0) return false;
    channels_ = options_.channels != 0 ? options_.channels : std::min(info_.num_components, 3);
    if (channels_ == 1) {
      info_.out_color_space = JCS_GRAYSCALE;
    } else if (info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK) {
      info_.out_color_space = JCS_CMYK;  // the library has no way from there to RGB
    } else {
      info_.out_color_space = JCS_RGB;
    }
    info_.do_fancy_upsampling = options_.fancy_upsampling ? TRUE : FALSE;
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(options_.ratio);
    info_.dct_method = options_.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
    jpeg_calc_output_dimensions(&info_);
    return true;
  }

  // What is left of a crop's first column goes to *lead: decoding begins at a block.
  bool Start(int64_t* lead) {
    if (setjmp(trap_.jump) != 0) return false;
    if (jpeg_start_decompress(&info_) == FALSE) return false;
    *lead = 0;
    if (!options_.crops) return true;
    auto x = static_cast<JDIMENSION>(options_.crop_x), width = static_cast<JDIMENSION>(options_.crop_width);
    jpeg_crop_scanline(&info_, &x, &width);
    *lead = options_.crop_x - static_cast<int64_t>(x);
    jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(options_.crop_y));
    return true;
  }

  // The next line; *is_there is false where the file has no more.
  bool ReadLine(JSAMPLE* line, bool* is_there) {
    if (setjmp(trap_.jump) != 0) return false;
    source_.suspends = true;
    *is_there = jpeg_read_scanlines(&info_, &line, 1) == 1;
    return true;
  }

 private:
  const JpegDecoding& options_;
  jpeg_decompress_struct info_ = {};
  ErrorTrap trap_;
  MemorySource source_;
  Progress progress_;
  int channels_ = 0;
};

// Cyan, magenta, yellow and black to RGB; Adobe's files hold them inverted.
void ToRgb(const JSAMPLE* cmyk, int64_t width, bool is_inverted, uint8_t* rgb) {
  for (int64_t i = 0; i < width; ++i, cmyk += 4) {
    const int black = is_inverted ? cmyk[3] : 255 - cmyk[3];
    for (int c = 0; c < 3; ++c) {
      *rgb++ = static_cast<uint8_t>(black * (is_inverted ? cmyk[c] : 255 - cmyk[c]) / 255);
    }
  }
}

absl::Status Failure(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("jpeg::Uncompress failed. Invalid JPEG data or crop window.",
                                                 why.empty() ? "" : " ", why));
}

absl::Status CheckCrop(const JpegDecoding& options, const ImageExtent& image) {
  const auto fits = [](int64_t begin, int64_t size, int64_t of) {
    return size > 0 && begin >= 0 && size <= of && begin <= of - size;
  };
  if (fits(options.crop_y, options.crop_height, image.height) &&
      fits(options.crop_x, options.crop_width, image.width)) {
    return absl::OkStatus();
  }
  return Failure(absl::StrCat("The window y=", options.crop_y, ", x=", options.crop_x,
                              ", h=", options.crop_height, ", w=", options.crop_width,
                              " is not in the image of ", image.height, " x ", image.width, " pixels"));
}

absl::StatusOr<ImageExtent> CheckExtent(const Decoder& decoder, const JpegDecoding& options) {
  const ImageExtent image = {decoder.info().output_height, decoder.info().output_width, decoder.channels()};
  const int64_t bytes = image.height * image.width * decoder.info().num_components;
  if (bytes <= 0 || bytes >= kTooManyBytes) {
    return Failure(
        absl::StrCat("An image of ", image.height, " x ", image.width, " pixels is too large or empty"));
  }
  if (!options.crops) return image;
  WEIR_RETURN_IF_ERROR(CheckCrop(options, image));
  return ImageExtent{options.crop_height, options.crop_width, image.channels};
}

// Lines [found, all) of an image that ends too early.
void FillMissing(const JpegDecoding& options, int64_t found, int64_t all, int64_t row_bytes,
                 uint8_t* pixels) {
  for (int64_t y = found; y < all; ++y) {
    uint8_t* const line = pixels + y * row_bytes;
    if (options.recovers_truncated && y > 0) {
      std::memcpy(line, line - row_bytes, static_cast<size_t>(row_bytes));
    } else {
      std::memset(line, 0, static_cast<size_t>(row_bytes));
    }
  }
}

}  // namespace

absl::Status DecodeJpeg(absl::string_view contents, const JpegDecoding& options, AllocatePixels allocate) {
  Decoder decoder(contents, options);
  if (!decoder.ReadHeader() || !decoder.CalculateSize()) return Failure(decoder.message());
  WEIR_ASSIGN_OR_RETURN(const ImageExtent extent, CheckExtent(decoder, options));
  WEIR_ASSIGN_OR_RETURN(uint8_t* const pixels, allocate(extent));
  const int64_t coefficient_bytes = decoder.CoefficientBytes();
  if (coefficient_bytes > 0 && options.reserve) WEIR_RETURN_IF_ERROR(options.reserve(coefficient_bytes));
  const auto failure = [&] {
    return options.is_cancelled && options.is_cancelled()
               ? absl::CancelledError("an image is not decoded: the step was cancelled")
               : Failure(decoder.message());
  };
  int64_t lead = 0;
  if (!decoder.Start(&lead)) return failure();
  // Lines may be wider than what is asked for, and have a channel more.
  const int64_t line_channels = decoder.info().output_components;
  std::vector<JSAMPLE> line(static_cast<size_t>(decoder.info().output_width * line_channels));
  const int64_t row_bytes = extent.width * extent.channels;
  if (line_channels != (decoder.is_cmyk() ? 4 : extent.channels))
    return Failure("Its colors are of no known kind");
  for (int64_t y = 0; y < extent.height; ++y) {
    bool is_there = false;
    if (!decoder.ReadLine(line.data(), &is_there)) return failure();
    if (!is_there) {
      const float fraction =
          options.recovers_truncated ? 1 : static_cast<float>(y) / static_cast<float>(extent.height);
      if (fraction < std::min(1.0f, options.acceptable_fraction)) {
        return Failure(absl::StrCat("It ends at line ", y, " of ", extent.height));
      }
      FillMissing(options, y, extent.height, row_bytes, pixels);
      break;
    }
    const JSAMPLE* const from = line.data() + lead * line_channels;
    if (decoder.is_cmyk()) {
      ToRgb(from, extent.width, decoder.info().saw_Adobe_marker, pixels + y * row_bytes);
    } else {
      std::memcpy(pixels + y * row_bytes, from, static_cast<size_t>(row_bytes));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ImageExtent> ReadJpegExtent(absl::string_view contents) {
  const JpegDecoding options;
  Decoder decoder(contents, options);
  if (!decoder.ReadHeader()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Invalid JPEG data, size ", contents.size(), ": ", decoder.message()));
  }
  return ImageExtent{decoder.info().image_height, decoder.info().image_width, decoder.info().num_components};
}

namespace {

// Asks in each pass whether the file is still wanted.
struct EncodingProgress {
  jpeg_progress_mgr manager = {};
  const std::function<bool()>& is_cancelled;

  explicit EncodingProgress(const std::function<bool()>& cancelled) : is_cancelled(cancelled) {
    manager.progress_monitor = [](j_common_ptr info) {
      const auto* const progress = reinterpret_cast<const EncodingProgress*>(info->progress);
      if (!progress->is_cancelled || !progress->is_cancelled()) return;
      info->err->msg_code = JERR_CANT_SUSPEND;  // any: the caller knows why
      info->err->error_exit(info);
    };
  }
};

// Where the file goes. The library's own memory is lost, or freed twice, where an error ends the encoding.
struct FileDestination {
  jpeg_destination_mgr manager = {};
  std::string file;
  JOCTET block[1 << 16];

  FileDestination() {
    manager.init_destination = [](j_compress_ptr info) { Of(info)->Clear(); };
    manager.empty_output_buffer = [](j_compress_ptr info) -> boolean {
      Of(info)->Take(sizeof(block));
      return TRUE;
    };
    manager.term_destination = [](j_compress_ptr info) {
      Of(info)->Take(sizeof(block) - Of(info)->manager.free_in_buffer);
    };
  }

 private:
  static FileDestination* Of(j_compress_ptr info) { return reinterpret_cast<FileDestination*>(info->dest); }
  void Clear() {
    manager.next_output_byte = block;
    manager.free_in_buffer = sizeof(block);
  }
  void Take(size_t count) {
    file.append(reinterpret_cast<const char*>(block), count);
    Clear();
  }
};

class Encoder {
 public:
  explicit Encoder(const std::function<bool()>& is_cancelled) : trap_(&info_), progress_(is_cancelled) {}
  ~Encoder() { jpeg_destroy_compress(&info_); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  const char* message() const { return trap_.message; }
  std::string TakeFile() { return std::move(destination_.file); }

  // False after an error of the library. `xmp` is a whole packet.
  bool Write(const uint8_t* pixels, const ImageExtent& extent, const JpegEncoding& options,
             const std::string& xmp) {
    if (setjmp(trap_.jump) != 0) return false;
    jpeg_create_compress(&info_);
    info_.progress = &progress_.manager;
    info_.dest = &destination_.manager;
    info_.image_width = static_cast<JDIMENSION>(extent.width);
    info_.image_height = static_cast<JDIMENSION>(extent.height);
    info_.input_components = static_cast<int>(extent.channels);
    info_.in_color_space = extent.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info_);
    if (options.optimizes_size) info_.optimize_coding = TRUE;
    info_.density_unit = options.density_in_centimeters ? 2 : 1;
    info_.X_density = static_cast<UINT16>(options.x_density);
    info_.Y_density = static_cast<UINT16>(options.y_density);
    jpeg_set_quality(&info_, options.quality, TRUE);
    if (options.progressive) jpeg_simple_progression(&info_);
    for (int i = 0; i < info_.num_components && !options.chroma_downsampling; ++i) {
      info_.comp_info[i].h_samp_factor = 1;
      info_.comp_info[i].v_samp_factor = 1;
    }
    jpeg_start_compress(&info_, TRUE);
    if (!xmp.empty()) {
      jpeg_write_marker(&info_, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(xmp.data()),
                        static_cast<unsigned>(xmp.size()));
    }
    const int64_t row_bytes = extent.width * extent.channels;
    while (info_.next_scanline < info_.image_height) {
      auto* row = const_cast<JSAMPLE*>(pixels + info_.next_scanline * row_bytes);
      jpeg_write_scanlines(&info_, &row, 1);
    }
    jpeg_finish_compress(&info_);
    return true;
  }

 private:
  jpeg_compress_struct info_ = {};
  ErrorTrap trap_;
  EncodingProgress progress_;
  FileDestination destination_;
};

}  // namespace

absl::StatusOr<std::string> EncodeJpeg(absl::Span<const uint8_t> pixels, const ImageExtent& extent,
                                       const JpegEncoding& options) {
  const auto failure = [](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("JPEG encoding failed: ", why));
  };
  if (extent.height <= 0 || extent.width <= 0 || extent.height > JPEG_MAX_DIMENSION ||
      extent.width > JPEG_MAX_DIMENSION || extent.height * extent.width >= kTooManyBytes) {
    return failure(absl::StrCat("no file holds an image of ", extent.height, " x ", extent.width, " pixels"));
  }
  constexpr size_t kMostMetadata = 65'533;  // of a marker
  std::string xmp;
  if (!options.xmp_metadata.empty()) {
    xmp = absl::StrCat("http://ns.adobe.com/xap/1.0/", absl::string_view("\0", 1), options.xmp_metadata);
    if (xmp.size() > kMostMetadata) return failure(absl::StrCat("metadata of ", xmp.size(), " bytes"));
  }
  Encoder encoder(options.is_cancelled);
  if (!encoder.Write(pixels.data(), extent, options, xmp)) {
    return options.is_cancelled && options.is_cancelled()
               ? absl::CancelledError("an image is not encoded: the step was cancelled")
               : failure(encoder.message());
  }
  return encoder.TakeFile();
}

}  // namespace weir
