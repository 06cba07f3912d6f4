// Image files. Pixels are compared with those of TensorFlow, which has the same libraries
// (tensorflow_test.py); what no file of theirs holds is in codecs_test.cc.
#include <string>
#include <utility>

#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

Tensor Text(std::string contents) { return Strings({}, {std::move(contents)}); }
Tensor Pixels(std::vector<int64_t> dims) { return Sample(DType::kUint8, std::move(dims), 0, 255); }

constexpr char kElsewhere[] = "tests/conformance/image/codecs_test.cc, tensorflow_test.py: files";

}  // namespace

void AddCodecsRecords(Suite& suite) {
  const std::string jpeg = "\xff\xd8\xff", png = "\x89PNG\r\n\x1a\n", gif = "GIF89a", bmp = "BM";
  for (const char* name :
       {"DecodeJpeg", "DecodeAndCropJpeg", "DecodePng", "DecodeGif", "DecodeBmp", "DecodeImage"}) {
    OpRecord& op = suite.Op(name).TestedElsewhere(kElsewhere);
    const bool crops = std::string(name) == "DecodeAndCropJpeg";
    const auto inputs = [&](Tensor contents) {
      std::vector<CaseInput> all = {std::move(contents)};
      if (crops) all.push_back(Ints({0, 0, 1, 1}));
      return all;
    };
    op.Hostile(inputs(Words({jpeg})), "`contents` must be scalar");
    op.Hostile(inputs(Text("")), "Input is empty");
    op.Hostile(inputs(Text("words")), "Unknown image file format");
    if (std::string(name) != "DecodeGif") {
      op.Hostile(inputs(Text(jpeg)), "`channels` must be 0, 1, 3 or 4 but got 2", {{"channels", int64_t{2}}});
    }
    if (std::string(name) == "DecodeBmp") continue;
    op.Hostile(inputs(Text(jpeg)), "jpeg::Uncompress failed");
    op.Hostile(inputs(Text(jpeg + std::string(100, '\xff'))), "jpeg::Uncompress failed");
    if (crops) continue;
    op.Hostile(inputs(Text(png)), "Invalid PNG. Failed to initialize decoder");
    op.Hostile(inputs(Text(gif)), "Invalid GIF data (size 6), failed to open gif file");
    op.Hostile(inputs(Text("GIF89a\1" + std::string(6, '\0') + ";")), "No Image Descriptor detected");
  }
  OpRecord& crop = suite.Op("DecodeAndCropJpeg");
  crop.Hostile({Text(jpeg), Ints({0, 0, 1})}, "crop_size must have four elements");
  crop.Hostile({Text(jpeg), Int(0)}, "crop_window must be 1-D");
  crop.Hostile({Text(png), Ints({0, 0, 1, 1})}, "can run on JPEG only, but detected PNG");
  for (const char* name : {"DecodeJpeg", "DecodeAndCropJpeg"}) {
    std::vector<CaseInput> inputs = {Text(jpeg)};
    if (suite.Op(name).op() == "DecodeAndCropJpeg") inputs.push_back(Ints({0, 0, 1, 1}));
    suite.Op(name).Hostile(inputs, "JPEG does not support 4 channels", {{"channels", int64_t{4}}});
    suite.Op(name).Hostile(inputs, "ratio must be 1, 2, 4, or 8, got 3", {{"ratio", int64_t{3}}});
    suite.Op(name).Hostile(inputs, "dct_method must be one of", {{"dct_method", std::string("FAST")}});
  }
  suite.Op("DecodePng")
      .Hostile({Text(gif)}, "channels must be 0 or 3 for GIF, got 4", {{"channels", int64_t{4}}});
  suite.Op("DecodePng").Hostile({Text(bmp)}, "Trying to decode BMP format using a wrong op");
  OpRecord& decode_bmp = suite.Op("DecodeBmp");
  decode_bmp.Hostile({Text(jpeg)}, "Trying to decode JPEG format using DecodeBmp op");
  decode_bmp.Hostile({Text(bmp)}, "Incomplete bmp content");
  decode_bmp.Hostile({Text(bmp)}, "`channels` must be 0, 3 or 4 for BMP", {{"channels", int64_t{1}}});
  decode_bmp.Hostile({Text(bmp + std::string(40, '\0'))}, "Number of channels inherent in the image");
  decode_bmp.Hostile({Text(bmp + std::string(16, '\0') + std::string(8, '\x7f') +
                           std::string("\0\0\x18\0", 4) + std::string(10, '\0'))},
                     "Total possible pixel bytes must be less than 2^30");

  OpRecord& extent = suite.Op("ExtractJpegShape").TestedElsewhere(kElsewhere);
  extent.Hostile({Text(jpeg)}, "Invalid JPEG data, size 3")
      .Hostile({Words({jpeg})}, "contents must be scalar");
  OpRecord& encode = suite.Op("EncodeJpeg").TestedElsewhere(kElsewhere);
  encode.Hostile({Pixels({2, 3})}, "image must be 3-dimensional");
  encode.Hostile({Pixels({2, 3, 4})}, "image must have 1 or 3 channels");
  encode.Hostile({Pixels({2, 3, 1})}, "format rgb expects 3 channels", {{"format", std::string("rgb")}});
  encode.Hostile({Pixels({2, 3, 3})}, "quality must be in [0,100], got 101", {{"quality", int64_t{101}}});
  encode.Hostile({Pixels({2, 3, 3})}, "x_density must be in", {{"x_density", int64_t{-1}}});
  encode.Hostile({Pixels({0, 3, 3})}, "JPEG encoding failed");
  encode.Hostile({Pixels({1, 70'000, 1})}, "JPEG encoding failed");
  encode.Hostile({Pixels({1, 1, 1})}, "JPEG encoding failed", {{"xmp_metadata", std::string(70'000, 'x')}});
  OpRecord& variable = suite.Op("EncodeJpegVariableQuality").TestedElsewhere(kElsewhere);
  variable.Hostile({Pixels({2, 3, 3}), Int(-1)}, "quality must be in [0,100], got -1");
  variable.Hostile({Pixels({2, 3, 3}), Ints({1})}, "quality must be scalar");
  variable.Hostile({Pixels({2, 3, 2}), Int(1)}, "image must have 1 or 3 channels");
  OpRecord& encode_png = suite.Op("EncodePng").TestedElsewhere(kElsewhere);
  encode_png.Hostile({Pixels({2, 3})}, "images must be at least rank 3");
  encode_png.Hostile({Pixels({2, 3, 5})}, "image must have 1, 2, 3, or 4 channels, got 5");
  encode_png.Hostile({Pixels({2, 3, 3})}, "compression should be in [-1,9], got 17",
                     {{"compression", int64_t{17}}});
  encode_png.Hostile({Pixels({0, 3, 3})}, "PNG encoding failed at the following flattened batch indices: 0");
}

}  // namespace weir::conformance
