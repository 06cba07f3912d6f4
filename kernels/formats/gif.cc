#include "kernels/formats/gif.h"

#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int64_t kTooManyBytes = int64_t{1} << 31;
constexpr int64_t kMostFramePixels = std::numeric_limits<int32_t>::max();  // giflib's

absl::Status Failure(absl::string_view contents, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("Invalid GIF data (size ", contents.size(), "), ", why));
}

absl::string_view ErrorText(int code) {
  const char* const text = GifErrorString(code);
  return text == nullptr ? "unknown error" : text;
}

// A file from its beginning, record by record.
class Reader {
 public:
  explicit Reader(absl::string_view contents) : rest_(contents) { file_ = DGifOpen(this, &Read, &error_); }
  ~Reader() {
    int error = 0;
    if (file_ != nullptr) DGifCloseFile(file_, &error);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  bool is_open() const { return file_ != nullptr; }
  absl::string_view error() const { return ErrorText(file_ == nullptr ? error_ : file_->Error); }
  const GifImageDesc& frame() const { return file_->Image; }
  int transparent() const { return transparent_; }
  const ColorMapObject* colors() const {
    return file_->Image.ColorMap != nullptr ? file_->Image.ColorMap : file_->SColorMap;
  }

  // Goes to the next frame. False at the end, with *is_broken where that is not the file's own.
  bool NextFrame(bool* is_broken) {
    *is_broken = false;
    transparent_ = NO_TRANSPARENT_COLOR;
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    while (DGifGetRecordType(file_, &type) == GIF_OK) {
      if (type == TERMINATE_RECORD_TYPE) return false;
      if (type == IMAGE_DESC_RECORD_TYPE) {
        if (DGifGetImageDesc(file_) == GIF_OK) return true;
        break;
      }
      if (type == EXTENSION_RECORD_TYPE && !ReadExtension()) break;
    }
    *is_broken = true;
    return false;
  }

  // The next line of the frame's pixels.
  bool ReadLine(GifPixelType* line) { return DGifGetLine(file_, line, file_->Image.Width) == GIF_OK; }

 private:
  static int Read(GifFileType* file, GifByteType* to, int count) {
    auto* const self = static_cast<Reader*>(file->UserData);
    const size_t size = std::min(static_cast<size_t>(std::max(count, 0)), self->rest_.size());
    std::memcpy(to, self->rest_.data(), size);
    self->rest_.remove_prefix(size);
    return static_cast<int>(size);
  }

  bool ReadExtension() {
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(file_, &code, &block) != GIF_OK) return false;
    while (block != nullptr) {
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE && DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        transparent_ = control.TransparentColor;
      }
      if (DGifGetExtensionNext(file_, &block) != GIF_OK) return false;
    }
    return true;
  }

  absl::string_view rest_;
  int error_ = 0;
  int transparent_ = NO_TRANSPARENT_COLOR;
  GifFileType* file_ = nullptr;
};

struct Canvas {
  int64_t frames = 0, height = 0, width = 0;
};

// Frames end before one that is empty, or that the file does not hold to its end: giflib's DGifSlurp, which
// TensorFlow reads files with, gives those before it.
absl::StatusOr<Canvas> Measure(absl::string_view contents) {
  Reader reader(contents);
  if (!reader.is_open()) {
    return Failure(contents, absl::StrCat("failed to open gif file: ", reader.error()));
  }
  Canvas canvas;
  std::string why = "No Image Descriptor detected";
  std::vector<GifPixelType> line;
  int64_t pixels_left = kTooManyBytes / 3;
  bool is_broken = false;
  while (reader.NextFrame(&is_broken)) {
    const int64_t height = reader.frame().Height, width = reader.frame().Width;
    if (height == 0 || width > kMostFramePixels / height || width == 0) {
      why = absl::StrCat("a frame of ", height, " x ", width, " pixels is empty or too large");
      break;
    }
    line.resize(static_cast<size_t>(width));
    for (int64_t y = 0; y < height && !is_broken; ++y) {
      if ((pixels_left -= width) < 0) return Failure(contents, "its frames are too large");
      is_broken = !reader.ReadLine(line.data());
    }
    if (is_broken) break;
    canvas.frames += 1;
    canvas.height = std::max(canvas.height, height);
    canvas.width = std::max(canvas.width, width);
  }
  if (canvas.frames == 0) {
    return Failure(contents, absl::StrCat("failed to slurp gif file: ",
                                          is_broken ? reader.error() : absl::string_view(why)));
  }
  return canvas;
}

// Draws the frame that the reader stands at over what is in `image`.
absl::Status DrawFrame(absl::string_view contents, Reader& reader, const Canvas& canvas, uint8_t* image) {
  const GifImageDesc frame = reader.frame();
  const ColorMapObject* const colors = reader.colors();
  if (colors == nullptr) return Failure(contents, "missing color map for a frame");
  std::vector<GifPixelType> line(static_cast<size_t>(frame.Width));
  // Interlaced frames come in four passes.
  constexpr int kFirst[] = {0, 4, 2, 1}, kStep[] = {8, 8, 4, 2};
  for (int pass = 0; pass < (frame.Interlace ? 4 : 1); ++pass) {
    const int step = frame.Interlace ? kStep[pass] : 1;
    for (int y = frame.Interlace ? kFirst[pass] : 0; y < frame.Height; y += step) {
      if (!reader.ReadLine(line.data())) return Failure(contents, reader.error());
      if (frame.Top + y >= canvas.height) continue;
      uint8_t* const row = image + (frame.Top + y) * canvas.width * 3;
      const auto end = std::min<int64_t>(frame.Width, canvas.width - frame.Left);
      for (int64_t x = 0; x < end; ++x) {
        if (line[x] == reader.transparent()) continue;
        if (line[x] >= colors->ColorCount) {
          return Failure(contents, absl::StrCat("found color index ", line[x], " outside of color map range ",
                                                colors->ColorCount));
        }
        const GifColorType& color = colors->Colors[line[x]];
        uint8_t* const pixel = row + (frame.Left + x) * 3;
        pixel[0] = color.Red;
        pixel[1] = color.Green;
        pixel[2] = color.Blue;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DecodeGif(absl::string_view contents, bool first_frame_only, AllocateFrames allocate) {
  WEIR_ASSIGN_OR_RETURN(Canvas canvas, Measure(contents));
  if (first_frame_only) canvas.frames = 1;
  const int64_t image_bytes = canvas.height * canvas.width * 3;
  if (image_bytes == 0 || canvas.frames >= kTooManyBytes / image_bytes) {
    return Failure(contents, absl::StrCat(canvas.frames, " frames of ", canvas.height, " x ", canvas.width,
                                          " pixels are empty or too large"));
  }
  WEIR_ASSIGN_OR_RETURN(uint8_t* const pixels, allocate(canvas.frames, canvas.height, canvas.width));
  Reader reader(contents);
  if (!reader.is_open()) return Failure(contents, reader.error());
  for (int64_t i = 0; i < canvas.frames; ++i) {
    uint8_t* const image = pixels + i * image_bytes;
    if (i == 0) {
      std::memset(image, 0, static_cast<size_t>(image_bytes));
    } else {
      std::memcpy(image, image - image_bytes, static_cast<size_t>(image_bytes));
    }
    bool is_broken = false;
    if (!reader.NextFrame(&is_broken)) return Failure(contents, reader.error());
    WEIR_RETURN_IF_ERROR(DrawFrame(contents, reader, canvas, image));
  }
  return absl::OkStatus();
}

}  // namespace weir
