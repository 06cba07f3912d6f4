// What files hold is what was written into them; and what no file may do: take memory that it does not need,
// or more than there is.
#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// [height, width, channels], smooth enough for a JPEG file to keep.
template <typename T>
Tensor Picture(int64_t height, int64_t width, int64_t channels) {
  Tensor image(DTypeOf<T>, Shape({height, width, channels}));
  for (int64_t i = 0; i < image.num_elements(); ++i) {
    const int64_t x = i / channels % width, y = i / channels / width;
    image.flat<T>()[i] = static_cast<T>((y * 6 + x * 4 + i % channels * 30) * (sizeof(T) == 2 ? 201 : 1));
  }
  return image;
}

template <typename T>
std::vector<T> Elements(const Tensor& tensor) {
  return {tensor.flat<T>().begin(), tensor.flat<T>().end()};
}

class CodecsTest : public ::testing::Test {
 protected:
  KernelUnderTest Op(const std::string& op, AttrMap attrs = {},
                     std::vector<DType> inputs = {DType::kString}) {
    return KernelUnderTest(host_, op, std::move(inputs), std::move(attrs));
  }
  std::string Jpeg(const Tensor& image, AttrMap attrs = {}) {
    return Op("EncodeJpeg", std::move(attrs), {DType::kUint8}).Get({image}).scalar<std::string>();
  }
  std::string Png(const Tensor& image) {
    return Op("EncodePng", {}, {image.dtype()}).Get({image}).scalar<std::string>();
  }
  absl::Status Refusal(const std::string& op, const std::string& contents) {
    return Op(op).Run({Tensor::Scalar(contents)}).status();
  }

  static constexpr int64_t kMemory = int64_t{64} << 20;
  TestHost host_{{RegisterImageKernels}, kMemory};
};

TEST_F(CodecsTest, PngFilesKeepEveryPixel) {
  for (const int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = Picture<uint8_t>(9, 7, channels), wide = Picture<uint16_t>(9, 7, channels);
    EXPECT_EQ(Elements<uint8_t>(Op("DecodePng").Get({Tensor::Scalar(Png(image))})), Elements<uint8_t>(image));
    EXPECT_EQ(
        Elements<uint16_t>(Op("DecodePng", {{"dtype", DType::kUint16}}).Get({Tensor::Scalar(Png(wide))})),
        Elements<uint16_t>(wide));
  }
}

TEST_F(CodecsTest, JpegFilesKeepWhatTheEyeSees) {
  for (const int64_t channels : {1, 3}) {
    const Tensor image = Picture<uint8_t>(24, 32, channels);
    for (const bool progressive : {false, true}) {
      const std::string file = Jpeg(image, {{"progressive", progressive}, {"chroma_downsampling", false}});
      const Tensor found =
          Op("DecodeJpeg", {{"dct_method", std::string("INTEGER_ACCURATE")}}).Get({Tensor::Scalar(file)});
      ASSERT_EQ(found.shape(), image.shape());
      for (int64_t i = 0; i < image.num_elements(); ++i) {
        ASSERT_LE(std::abs(found.flat<uint8_t>()[i] - image.flat<uint8_t>()[i]), 24) << i;
      }
      EXPECT_EQ(Elements<int32_t>(Op("ExtractJpegShape").Get({Tensor::Scalar(file)})),
                (std::vector<int32_t>{24, 32, static_cast<int32_t>(channels)}));
    }
  }
}

TEST_F(CodecsTest, ACropIsThePartOfTheWhole) {
  const std::string file = Jpeg(Picture<uint8_t>(40, 50, 3), {{"chroma_downsampling", false}});
  const Tensor whole = Op("DecodeJpeg").Get({Tensor::Scalar(file)});
  const Tensor part = Op("DecodeAndCropJpeg", {}, {DType::kString, DType::kInt32})
                          .Get({Tensor::Scalar(file), Tensor::Vector<int32_t>({11, 21, 5, 9})});
  ASSERT_EQ(part.shape(), Shape({5, 9, 3}));
  for (int64_t i = 0; i < part.num_elements(); ++i) {
    const int64_t y = i / 27 + 11, x = i / 3 % 9 + 21;
    ASSERT_EQ(part.flat<uint8_t>()[i], whole.flat<uint8_t>()[(y * 50 + x) * 3 + i % 3]) << i;
  }
  const auto outside = Op("DecodeAndCropJpeg", {}, {DType::kString, DType::kInt32})
                           .Run({Tensor::Scalar(file), Tensor::Vector<int32_t>({38, 0, 3, 9})});
  EXPECT_THAT(std::string(outside.status().message()), HasSubstr("y=38, x=0, h=3, w=9 is not in the image"));
}

TEST_F(CodecsTest, TruncatedFilesAreErrorsUnlessRecoveryIsAskedFor) {
  const std::string file = Jpeg(Picture<uint8_t>(40, 50, 3));
  const std::string part = file.substr(0, file.size() / 2);
  EXPECT_THAT(std::string(Refusal("DecodeJpeg", part).message()), HasSubstr("jpeg::Uncompress failed"));
  const Tensor found = Op("DecodeJpeg", {{"try_recover_truncated", true}}).Get({Tensor::Scalar(part)});
  EXPECT_EQ(found.shape(), Shape({40, 50, 3}));
  const std::string png = Png(Picture<uint8_t>(40, 50, 3));
  EXPECT_THAT(std::string(Refusal("DecodePng", png.substr(0, png.size() / 2)).message()),
              HasSubstr("Invalid PNG data, size"));
}

// A file that ends too early has its first lines, if those are enough; the others are black.
TEST_F(CodecsTest, APartOfTheLinesMayBeEnough) {
  const std::string file = Jpeg(Picture<uint8_t>(64, 64, 3));
  const std::string half = file.substr(0, file.size() / 2);
  const Tensor whole = Op("DecodeJpeg").Get({Tensor::Scalar(file)});
  const Tensor part = Op("DecodeJpeg", {{"acceptable_fraction", 0.1f}}).Get({Tensor::Scalar(half)});
  ASSERT_EQ(part.shape(), Shape({64, 64, 3}));
  const int64_t seven_lines = 7 * 64 * 3;
  for (int64_t i = 0; i < seven_lines; ++i) ASSERT_EQ(part.flat<uint8_t>()[i], whole.flat<uint8_t>()[i]) << i;
  for (int64_t i = 60 * 64 * 3; i < part.num_elements(); ++i) ASSERT_EQ(part.flat<uint8_t>()[i], 0) << i;
  const auto refusal = Op("DecodeJpeg", {{"acceptable_fraction", 0.9f}}).Run({Tensor::Scalar(half)}).status();
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("It ends at line"));
  // All passes over a progressive image are made before its first line.
  const std::string progressive = Jpeg(Picture<uint8_t>(64, 64, 3), {{"progressive", true}});
  EXPECT_FALSE(Op("DecodeJpeg", {{"acceptable_fraction", 0.1f}})
                   .Run({Tensor::Scalar(progressive.substr(0, progressive.size() / 2))})
                   .ok());
}

// A progressive image is kept as coefficients of two bytes until its last pass.
TEST_F(CodecsTest, CoefficientsAreCounted) {
  std::string jpeg = Jpeg(Picture<uint8_t>(8, 8, 3), {{"progressive", true}, {"chroma_downsampling", false}});
  const size_t frame = jpeg.find("\xff\xc2");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, std::string("\x0f\x00\x0f\x00", 4));  // 3,840 x 3,840: 42 MiB, and 84 MiB
  EXPECT_EQ(Refusal("DecodeJpeg", jpeg).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CodecsTest, PassesOfACancelledStepAreNotMade) {
  const std::string file = Jpeg(Picture<uint8_t>(40, 50, 3), {{"progressive", true}});
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("enough"));
  const absl::Status status = Op("DecodeJpeg").Run({Tensor::Scalar(file)}, &cancellation).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

// Headers that declare more than there is memory: nothing is read for them.
TEST_F(CodecsTest, DeclaredSizesAreCheckedBeforeTheyAreAllocated) {
  std::string png = Png(Picture<uint8_t>(1, 1, 3));
  // The header's checksum is that of 1 x 1 pixels: libpng says so before any size counts.
  png.replace(16, 8, std::string("\x7f\xff\xff\xff\x7f\xff\xff\xff", 8));
  EXPECT_THAT(std::string(Refusal("DecodePng", png).message()), HasSubstr("Invalid PNG"));

  std::string jpeg = Jpeg(Picture<uint8_t>(8, 8, 3));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\xdc\xff\xdc");  // 65,500 x 65,500 pixels
  EXPECT_THAT(std::string(Refusal("DecodeJpeg", jpeg).message()), HasSubstr("too large"));
  jpeg.replace(frame + 5, 4, std::string("\x20\x00\x20\x00", 4));  // 8,192 x 8,192: 192 MiB
  EXPECT_EQ(Refusal("DecodeJpeg", jpeg).code(), absl::StatusCode::kResourceExhausted);

  const std::string gif = std::string("GIF89a\xff\xff\xff\xff\x80\x00\x00", 13) + std::string(6, '\0') +
                          std::string(",\0\0\0\0\xff\xff\xff\xff\0\2\2\x4c\x01\0;", 16);
  EXPECT_THAT(std::string(Refusal("DecodeGif", gif).message()), HasSubstr("empty or too large"));
}

// Two frames of 3 x 2 pixels, the second of which has one pixel and a transparent one, beyond the right
// border.
TEST_F(CodecsTest, FramesOfAGifFileAreWhatIsSeen) {
  const std::string start("GIF89a\x03\0\x02\0\x91\0\0\0\0\0\xff\0\0\0\xff\0\0\0\xff", 25);
  const std::string first(",\0\0\0\0\x03\0\x02\0\0\x02\x04\x44\xa8\x11\x29\0", 17);
  const std::string no_map("GIF89a\x03\0\x02\0\0\0\0", 13);
  const Tensor frames = Op("DecodeGif").Get({Tensor::Scalar(start + first + first + ";")});
  EXPECT_EQ(frames.shape(), Shape({2, 2, 3, 3}));
  const absl::Span<const uint8_t> pixels = frames.flat<uint8_t>();
  EXPECT_TRUE(std::equal(pixels.begin(), pixels.begin() + 18, pixels.begin() + 18));
  EXPECT_THAT(std::string(Refusal("DecodeGif", no_map + first + ";").message()),
              HasSubstr("missing color map"));
  const auto animated = Op("DecodePng").Run({Tensor::Scalar(start + first + first + ";")});
  EXPECT_THAT(std::string(animated.status().message()), HasSubstr("Got 2 frames, but animated gifs"));
  EXPECT_EQ(Op("DecodePng").Get({Tensor::Scalar(start + first + ";")}).shape(), Shape({2, 3, 3}));
}

// Frames end before the first one that is empty or that the file does not hold to its end, as TensorFlow's
// do.
TEST_F(CodecsTest, FramesOfADamagedGifFileEndBeforeTheDamage) {
  const std::string start("GIF89a\x03\0\x02\0\x91\0\0\0\0\0\xff\0\0\0\xff\0\0\0\xff", 25);
  const std::string frame(",\0\0\0\0\x03\0\x02\0\0\x02\x04\x44\xa8\x11\x29\0", 17);
  const std::string empty(",\0\0\0\0\0\0\0\0\0\x02\x04\x44\xa8\x11\x29\0", 17);
  std::string flat = frame;
  flat[7] = 0;  // no lines
  const auto shape = [&](const std::string& file) {
    return Op("DecodeGif").Get({Tensor::Scalar(file)}).shape();
  };
  EXPECT_EQ(shape(start + frame + frame.substr(0, 14)), Shape({1, 2, 3, 3}));
  EXPECT_EQ(shape(start + frame + frame.substr(0, 16)), Shape({1, 2, 3, 3}));  // only the end of its blocks
  EXPECT_EQ(shape(start + frame + frame), Shape({2, 2, 3, 3}));                // only the end of the file
  EXPECT_EQ(shape(start + frame + empty + ";"), Shape({1, 2, 3, 3}));
  EXPECT_EQ(shape(start + frame + flat + frame + ";"), Shape({1, 2, 3, 3}));
  EXPECT_EQ(shape(start + frame + frame + empty + frame + ";"), Shape({2, 2, 3, 3}));
  for (const std::string& file :
       {start + frame.substr(0, 14), start + empty + frame + ";", start + flat + frame + ";"}) {
    EXPECT_THAT(std::string(Refusal("DecodeGif", file).message()), HasSubstr("Invalid GIF data"));
  }
}

}  // namespace
}  // namespace weir
