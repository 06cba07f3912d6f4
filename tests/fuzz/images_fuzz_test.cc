// Damaged and hostile image files must be errors, or images: never a crash, a hang, or memory beyond what the
// image takes.
#include <sys/resource.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/formats/bmp.h"
#include "kernels/formats/gif.h"
#include "kernels/formats/jpeg.h"
#include "kernels/formats/png.h"
#include "tests/fuzz/mutator.h"

namespace weir {
namespace {

// More is refused, as a device that has no more would.
constexpr int64_t kMostBytes = int64_t{4} << 20;

std::vector<uint8_t> Picture(int64_t size) {
  std::vector<uint8_t> pixels(static_cast<size_t>(size));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i / 7);
  return pixels;
}

std::vector<std::string> JpegSamples() {
  const std::vector<uint8_t> pixels = Picture(19 * 23 * 3);
  std::vector<std::string> samples;
  for (const bool progressive : {false, true}) {
    for (const int64_t channels : {1, 3}) {
      samples.push_back(EncodeJpeg(pixels, {19, 23, channels}, {.progressive = progressive}).value());
    }
  }
  return samples;
}

std::vector<std::string> PngSamples() {
  const std::vector<uint8_t> pixels = Picture(9 * 11 * 8);
  const std::vector<uint16_t> wide(pixels.begin(), pixels.end());
  std::vector<std::string> samples;
  for (const int64_t channels : {1, 2, 3, 4}) {
    samples.push_back(EncodePng(pixels, 9, 11, channels).value());
    samples.push_back(EncodePng(wide, 9, 11, channels).value());
  }
  return samples;
}

std::vector<std::string> GifSamples() {
  const std::string start("GIF89a\x03\0\x02\0\x91\0\0\0\0\0\xff\0\0\0\xff\0\0\0\xff", 25);
  const std::string frame(",\0\0\0\0\x03\0\x02\0\0\x02\x04\x44\xa8\x11\x29\0", 17);
  const std::string interlaced(",\0\0\0\0\x03\0\x02\0\x40\x02\x04\x44\xa8\x11\x29\0", 17);
  const std::string control("!\xf9\x04\x01\0\0\x02\0", 8);
  return {start + frame + ";", start + frame + control + frame + interlaced + ";"};
}

std::vector<std::string> BmpSamples() {
  std::vector<std::string> samples;
  for (const int bits : {8, 24, 32}) {
    const int row = (bits / 8 * 3 + 3) / 4 * 4;
    std::string file = "BM" + std::string(52 + static_cast<size_t>(row) * 2, '\x11');
    file.replace(10, 4, std::string("\x36\0\0\0", 4));
    file.replace(18, 8, std::string("\3\0\0\0\2\0\0\0", 8));
    file.replace(26, 4,
                 std::string("\1\0", 2) + std::string(1, static_cast<char>(bits)) + std::string(1, '\0'));
    samples.push_back(file);
  }
  return samples;
}

// Memory for an image, so exact that a sanitizer sees each byte beyond it.
class Memory {
 public:
  absl::StatusOr<uint8_t*> Give(int64_t count, int64_t bytes_each) {
    EXPECT_GT(count, 0);
    EXPECT_EQ(num_given_++, 0) << "memory is asked for once";
    if (count > kMostBytes / bytes_each) return absl::ResourceExhaustedError("no memory for an image");
    pixels_ = std::vector<uint8_t>(static_cast<size_t>(count * bytes_each));
    return pixels_.data();
  }
  absl::StatusOr<uint8_t*> Give(const ImageExtent& image) {
    return Give(image.height * image.width * image.channels, 1);
  }

 private:
  int num_given_ = 0;
  std::vector<uint8_t> pixels_;
};

// Errors are the file's fault, or a lack of memory.
bool IsImage(const absl::Status& status, int round) {
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status) || absl::IsResourceExhausted(status))
      << "round " << round << ": " << status;
  return status.ok();
}

TEST(ImagesFuzzTest, JpegFiles) {
  Mutator mutator(JpegSamples(), 1);
  int num_images = 0;
  for (int round = 0; round < 20'000; ++round) {
    JpegDecoding options;
    options.channels = round % 3 == 2 ? 3 : round % 3;
    options.ratio = 1 << round / 3 % 4;
    options.recovers_truncated = round / 12 % 2 == 1;
    options.acceptable_fraction = round / 24 % 2 == 1 ? 0.5f : 1.0f;
    options.crops = round / 48 % 3 == 2;
    options.crop_y = options.crop_x = static_cast<int64_t>(mutator.Below(4));
    options.crop_height = options.crop_width = 1 + static_cast<int64_t>(mutator.Below(4));
    const std::string file = mutator.Next();
    Memory memory;
    const auto allocate = [&](const ImageExtent& image) { return memory.Give(image); };
    if (IsImage(DecodeJpeg(file, options, allocate), round)) ++num_images;
    const absl::StatusOr<ImageExtent> extent = ReadJpegExtent(file);
    if (extent.ok()) EXPECT_GT(extent->height * extent->width * extent->channels, 0);
  }
  EXPECT_GT(num_images, 2'000);
}

// With right checksums, so that not they alone tell of the damage.
std::string WithChecksums(std::string file) {
  for (size_t at = 8; at + 12 <= file.size();) {
    const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(file[at + i])); };
    const size_t length = byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
    if (length > file.size() - at - 12) break;
    const auto* const data = reinterpret_cast<const Bytef*>(file.data() + at + 4);
    const auto checksum = static_cast<uint32_t>(crc32(0, data, static_cast<uInt>(length + 4)));
    for (size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<char>(checksum >> (24 - 8 * i) & 0xff);
    at += length + 12;
  }
  return file;
}

TEST(ImagesFuzzTest, PngFiles) {
  Mutator mutator(PngSamples(), 2);
  int num_images = 0;
  for (int round = 0; round < 50'000; ++round) {
    const std::string file = mutator.Next();
    const PngDecoding options = {round % 5, round / 5 % 2 == 0 ? 8 : 16};
    Memory memory;
    const auto status = DecodePng(round % 4 == 0 ? file : WithChecksums(file), options,
                                  [&](int64_t h, int64_t w, int64_t c) -> absl::StatusOr<void*> {
                                    return memory.Give(h * w * c, options.bits / 8);
                                  });
    if (IsImage(status, round)) ++num_images;
  }
  EXPECT_GT(num_images, 500);
}

// 60 texts of 7.6 MB, each in a few kilobytes: nobody asks for them, and libpng kept them all.
TEST(ImagesFuzzTest, TextsOfPngFilesTakeNoMemory) {
  const std::string text(7'600'000, 'a');
  std::string packed(compressBound(text.size()), '\0');
  uLongf size = packed.size();
  ASSERT_EQ(compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                      reinterpret_cast<const Bytef*>(text.data()), text.size(), 9),
            Z_OK);
  packed.resize(size);
  const auto chunk = [](const std::string& type, const std::string& data) {
    std::string length;
    for (int shift = 24; shift >= 0; shift -= 8) length += static_cast<char>(data.size() >> shift & 0xff);
    return length + type + data + "sums";
  };
  const std::string start("k\0\0", 3), international("k\0\1\0\0\0", 6);
  std::string file = EncodePng(Picture(9 * 11 * 3), 9, 11, 3).value();
  constexpr size_t kEndOfHeader = 8 + 12 + 13;
  std::string texts;
  for (int i = 0; i < 30; ++i) texts += chunk("zTXt", start + packed) + chunk("iTXt", international + packed);
  file.insert(kEndOfHeader, texts);
  file = WithChecksums(file);
  EXPECT_LT(file.size(), 1'000'000u);
  const auto peak_bytes = [] {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return int64_t{usage.ru_maxrss} << 10;
  };
  const int64_t before = peak_bytes();
  Memory memory;
  const auto status = DecodePng(file, {3, 8}, [&](int64_t h, int64_t w, int64_t c) -> absl::StatusOr<void*> {
    return memory.Give(h * w * c, 1);
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_LT(peak_bytes() - before, int64_t{64} << 20);
}

TEST(ImagesFuzzTest, GifFiles) {
  Mutator mutator(GifSamples(), 3);
  int num_images = 0;
  for (int round = 0; round < 100'000; ++round) {
    Memory memory;
    const auto status = DecodeGif(mutator.Next(), round % 2 == 0,
                                  [&](int64_t n, int64_t h, int64_t w) { return memory.Give(n * h * w, 3); });
    if (IsImage(status, round)) ++num_images;
  }
  EXPECT_GT(num_images, 10'000);
}

TEST(ImagesFuzzTest, BmpFiles) {
  Mutator mutator(BmpSamples(), 4);
  int num_images = 0;
  for (int round = 0; round < 100'000; ++round) {
    Memory memory;
    const auto allocate = [&](const ImageExtent& image) { return memory.Give(image); };
    if (IsImage(DecodeBmp(mutator.Next(), round % 3 == 0 ? 0 : 2 + round % 3, allocate), round)) ++num_images;
  }
  EXPECT_GT(num_images, 1'000);
}

}  // namespace
}  // namespace weir
