// Images in files: JPEG, PNG, GIF and BMP.
#include <string>
#include <utility>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/image/image_gradients.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

// The attr of that name, which is 0 where the file decides.
absl::StatusOr<int64_t> Channels(ShapeInference& s) {
  const auto channels = s.attr<int64_t>("channels");
  if (channels == 0) return kUnknown;
  if (channels > 0) return channels;
  return InvalidArgumentError(StrCat("channels must be non-negative, got ", channels));
}

// [height, width, channels] of one file. GIF files of one frame have a shape like any other's.
Status DecodedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  WEIR_ASSIGN_OR_RETURN(const int64_t channels, Channels(s));
  return SetOutputDims(s, 0, {kUnknown, kUnknown, channels});
}

Status CroppedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  WEIR_ASSIGN_OR_RETURN(const int64_t channels, Channels(s));
  WEIR_ASSIGN_OR_RETURN(const PartialShape window, s.WithRank(1, 1));
  WEIR_RETURN_IF_ERROR(s.MergeDims(window.dim(0), 4).status());
  int64_t height = kUnknown, width = kUnknown;
  const auto values = s.input_integers(1);
  if (values && values->size() == 4 && (*values)[2] > 0 && (*values)[3] > 0) {
    height = (*values)[2];
    width = (*values)[3];
  }
  return SetOutputDims(s, 0, {height, width, channels});
}

Status FramesShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return SetOutputDims(s, 0, {kUnknown, kUnknown, kUnknown, 3});
}

// With animations the rank is that of the file.
Status AnyImageShape(ShapeInference& s) {
  if (!s.attr<bool>("expand_animations")) return DecodedShape(s);
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  WEIR_RETURN_IF_ERROR(Channels(s).status());
  s.set_output(0, PartialShape());
  return OkStatus();
}

Status ExtentShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  s.set_output(0, PartialShape({3}));
  return OkStatus();
}

Status EncodedShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 3).status());
  if (s.num_inputs() > 1) WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
  s.set_output(0, PartialShape({}));
  return OkStatus();
}

// A file for each image of [..., height, width, channels].
Status EncodedEachShape(ShapeInference& s) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape images, s.WithRankAtLeast(0, 3));
  if (!images.has_rank()) return OkStatus();
  std::vector<int64_t> dims = DimsOf(images);
  dims.resize(dims.size() - 3);
  return SetOutputDims(s, 0, dims);
}

OpDef Codec(std::string name, std::string summary, ShapeFunction infer_shapes) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = infer_shapes,
          .gradient = RefusedGradient};
}

}  // namespace

std::vector<OpDef> CodecsOps() {
  return {
      Codec("DecodeJpeg", "Reads a JPEG file; also a PNG file, or a GIF file of one frame.", DecodedShape),
      Codec("DecodeAndCropJpeg", "Reads a part of the image of a JPEG file.", CroppedShape),
      Codec("ExtractJpegShape", "Gives the height, width and channels that the header of a JPEG file has.",
            ExtentShape),
      Codec("DecodePng", "Reads a PNG file; also a JPEG file, or a GIF file of one frame.", DecodedShape),
      Codec("DecodeGif", "Reads the frames of a GIF file; of a JPEG or PNG file, one frame.", FramesShape),
      Codec("DecodeBmp", "Reads a BMP file without compression.", DecodedShape),
      Codec("DecodeImage", "Reads a JPEG, PNG, GIF or BMP file.", AnyImageShape),
      Codec("EncodeJpeg", "Writes an image as a JPEG file.", EncodedShape),
      Codec("EncodeJpegVariableQuality", "Writes an image as a JPEG file of a quality that is an input.",
            EncodedShape),
      Codec("EncodePng", "Writes images as PNG files, one each.", EncodedEachShape),
  };
}

}  // namespace weir
