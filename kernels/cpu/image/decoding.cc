// DecodeJpeg, DecodeAndCropJpeg, DecodePng, DecodeGif, DecodeBmp, DecodeImage and ExtractJpegShape.
//
// The contents say which format they have: all but DecodeBmp read JPEG, PNG and GIF files, DecodeImage and
// DecodeBmp read BMP files. WebP and JPEG XL files are not read.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/bmp.h"
#include "kernels/formats/gif.h"
#include "kernels/formats/jpeg.h"
#include "kernels/formats/png.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

enum class Format { kUnknown, kJpeg, kPng, kGif, kBmp };

Format FormatOf(absl::string_view contents) {
  if (absl::StartsWith(contents, "\xff\xd8\xff")) return Format::kJpeg;
  if (absl::StartsWith(contents, "\x89PNG\r\n\x1a\n")) return Format::kPng;
  if (absl::StartsWith(contents, "GIF8")) return Format::kGif;
  if (absl::StartsWith(contents, "BM")) return Format::kBmp;
  return Format::kUnknown;
}

absl::string_view NameOf(Format format) {
  constexpr absl::string_view kNames[] = {"unknown", "JPEG", "PNG", "GIF", "BMP"};
  return kNames[static_cast<int>(format)];
}

// The output of an op, allocated when the size of the image is known. Images of bytes become numbers of 16
// bits or floats when they are decoded.
class Target {
 public:
  Target(KernelContext& context, DType dtype, bool has_frames)
      : context_(context), dtype_(dtype), has_frames_(has_frames) {}

  // For bytes.
  absl::StatusOr<uint8_t*> AllocateBytes(int64_t frames, int64_t height, int64_t width, int64_t channels,
                                         bool has_frames) {
    WEIR_RETURN_IF_ERROR(AllocateOutput(frames, height, width, channels, has_frames));
    if (dtype_ == DType::kUint8) return output_->flat<uint8_t>().data();
    WEIR_ASSIGN_OR_RETURN(decoded_, context_.AllocateTemporary(DType::kUint8, output_->shape()));
    return decoded_.flat<uint8_t>().data();
  }
  absl::StatusOr<uint8_t*> AllocateBytes(const ImageExtent& image) {
    return AllocateBytes(1, image.height, image.width, image.channels, has_frames_);
  }

  // For bytes of an output of bytes, and numbers of 16 bits of any other.
  absl::StatusOr<void*> AllocateNumbers(int64_t height, int64_t width, int64_t channels) {
    WEIR_RETURN_IF_ERROR(AllocateOutput(1, height, width, channels, has_frames_));
    if (dtype_ != DType::kFloat32) return output_->data();
    WEIR_ASSIGN_OR_RETURN(decoded_, context_.AllocateTemporary(DType::kUint16, output_->shape()));
    return decoded_.data();
  }

  // Converts what was decoded.
  void Finish() {
    if (!decoded_.is_valid()) return;
    if (dtype_ == DType::kUint16) {
      Convert<uint8_t, uint16_t>([](uint8_t x) { return static_cast<uint16_t>(x * 256); });
    } else if (decoded_.dtype() == DType::kUint8) {
      Convert<uint8_t, float>(
          [](uint8_t x) { return static_cast<float>(x) * static_cast<float>(1.0 / 255); });
    } else {
      Convert<uint16_t, float>(
          [](uint16_t x) { return static_cast<float>(x) * static_cast<float>(1.0 / 65535); });
    }
  }

 private:
  absl::Status AllocateOutput(int64_t frames, int64_t height, int64_t width, int64_t channels,
                              bool has_frames) {
    std::vector<int64_t> dims = {height, width, channels};
    if (has_frames) dims.insert(dims.begin(), frames);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(output_, context_.AllocateOutput(0, shape));
    return absl::OkStatus();
  }

  template <typename From, typename To, typename F>
  void Convert(const F& convert) {
    const absl::Span<const From> from = static_cast<const Tensor&>(decoded_).flat<From>();
    std::transform(from.begin(), from.end(), output_->flat<To>().begin(), convert);
  }

  KernelContext& context_;
  const DType dtype_;
  const bool has_frames_;  // images get a dimension of one frame
  Tensor* output_ = nullptr;
  Tensor decoded_;
};

// The attrs that some of the ops have, with what stands for them in the others.
struct DecodingAttrs {
  std::string op;
  int channels = 3;  // of DecodeGif
  DType dtype = DType::kUint8;
  bool expands_animations = true;
  JpegDecoding jpeg;

  static absl::StatusOr<DecodingAttrs> Of(const KernelConstruction& construction) {
    DecodingAttrs attrs;
    attrs.op = construction.node().op_name();
    attrs.dtype = construction.output_type(0);
    if (attrs.op != "DecodeGif") {
      const auto channels = construction.attr<int64_t>("channels");
      if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
        return InvalidArgumentError(StrCat("`channels` must be 0, 1, 3 or 4 but got ", channels));
      }
      attrs.channels = static_cast<int>(channels);
    }
    if (attrs.op == "DecodeImage") attrs.expands_animations = construction.attr<bool>("expand_animations");
    if (attrs.op == "DecodeJpeg" || attrs.op == "DecodeAndCropJpeg") {
      WEIR_RETURN_IF_ERROR(ReadJpeg(construction, &attrs.jpeg));
    }
    attrs.jpeg.channels = attrs.channels;
    return attrs;
  }

 private:
  static absl::Status ReadJpeg(const KernelConstruction& construction, JpegDecoding* jpeg) {
    const auto ratio = construction.attr<int64_t>("ratio");
    if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8) {
      return InvalidArgumentError(StrCat("ratio must be 1, 2, 4, or 8, got ", ratio));
    }
    jpeg->ratio = static_cast<int>(ratio);
    const std::string& method = construction.attr<std::string>("dct_method");
    if (!method.empty() && method != "INTEGER_FAST" && method != "INTEGER_ACCURATE") {
      return InvalidArgumentError(
          StrCat("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}, is '", method, "'"));
    }
    jpeg->fast_dct = method != "INTEGER_ACCURATE";
    jpeg->fancy_upsampling = construction.attr<bool>("fancy_upscaling");
    jpeg->recovers_truncated = construction.attr<bool>("try_recover_truncated");
    jpeg->acceptable_fraction = construction.attr<float>("acceptable_fraction");
    return absl::OkStatus();
  }
};

class DecodeImage final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(DecodingAttrs attrs, DecodingAttrs::Of(construction));
    return std::make_unique<DecodeImage>(std::move(attrs));
  }
  explicit DecodeImage(DecodingAttrs attrs) : attrs_(std::move(attrs)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    if (!input.shape().is_scalar()) {
      return InvalidArgumentError(
          StrCat("`contents` must be scalar but got shape", input.shape().ToString()));
    }
    const absl::string_view contents = input.scalar<std::string>();
    if (contents.empty()) return InvalidArgumentError("Input is empty.");
    const Format format = FormatOf(contents);
    if (format == Format::kUnknown) {
      return InvalidArgumentError("Unknown image file format. One of JPEG, PNG, GIF, BMP required.");
    }
    WEIR_RETURN_IF_ERROR(CheckFormat(format));
    Target target(context, attrs_.dtype, attrs_.op == "DecodeGif");
    WEIR_RETURN_IF_ERROR(Decode(context, format, contents, target));
    target.Finish();
    return absl::OkStatus();
  }

 private:
  absl::Status CheckFormat(Format format) const {
    if (attrs_.op == "DecodeAndCropJpeg" && format != Format::kJpeg) {
      return InvalidArgumentError(
          StrCat("DecodeAndCropJpeg operation can run on JPEG only, but detected ", NameOf(format), "."));
    }
    if (attrs_.op == "DecodeBmp" && format != Format::kBmp) {
      const char* const other = format == Format::kJpeg ? "jpeg" : format == Format::kPng ? "png" : "gif";
      return InvalidArgumentError(StrCat("Trying to decode ", NameOf(format),
                                         " format using DecodeBmp op. Use `decode_", other,
                                         "` or `decode_image` instead."));
    }
    const int channels = attrs_.channels;
    switch (format) {
      case Format::kJpeg:
        return channels == 4 ? InvalidArgumentError("JPEG does not support 4 channels") : absl::OkStatus();
      case Format::kGif:
        if (channels == 0 || channels == 3) return absl::OkStatus();
        return InvalidArgumentError(StrCat("channels must be 0 or 3 for GIF, got ", channels));
      case Format::kBmp:
        if (channels == 1) {
          return InvalidArgumentError(StrCat("`channels` must be 0, 3 or 4 for BMP, but got ", channels));
        }
        if (attrs_.op == "DecodeBmp" || attrs_.op == "DecodeImage") return absl::OkStatus();
        return InvalidArgumentError(
            StrCat("Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` "
                   "instead. Op used: ",
                   attrs_.op));
      default:
        return absl::OkStatus();
    }
  }

  absl::Status Decode(KernelContext& context, Format format, absl::string_view contents,
                      Target& target) const {
    const auto bytes = [&](const ImageExtent& image) { return target.AllocateBytes(image); };
    switch (format) {
      case Format::kJpeg: {
        WEIR_ASSIGN_OR_RETURN(JpegDecoding options, JpegOptions(context));
        Tensor coefficients;  // counted; the library's own memory is beside it
        options.reserve = [&](int64_t size) {
          absl::StatusOr<Tensor> memory = context.AllocateTemporary(DType::kUint8, Shape({size}));
          if (memory.ok()) coefficients = *std::move(memory);
          return memory.status();
        };
        options.is_cancelled = [&] { return context.cancellation().is_cancelled(); };
        const absl::Status status = DecodeJpeg(contents, options, bytes);
        return absl::IsCancelled(status) ? context.cancellation().reason() : status;
      }
      case Format::kPng:
        return DecodePng(contents, {attrs_.channels, attrs_.dtype == DType::kUint8 ? 8 : 16},
                         [&](int64_t height, int64_t width, int64_t channels) {
                           return target.AllocateNumbers(height, width, channels);
                         });
      case Format::kGif:
        return DecodeGif(contents, !attrs_.expands_animations,
                         [&](int64_t frames, int64_t height, int64_t width) {
                           return AllocateFrames(target, frames, height, width);
                         });
      default:
        return DecodeBmp(contents, attrs_.channels, bytes);
    }
  }

  absl::StatusOr<JpegDecoding> JpegOptions(const KernelContext& context) const {
    JpegDecoding options = attrs_.jpeg;
    if (attrs_.op != "DecodeAndCropJpeg") return options;
    const Tensor& window = context.input(1);
    if (window.shape().rank() != 1) {
      return InvalidArgumentError(StrCat("crop_window must be 1-D, got shape ", window.shape().ToString()));
    }
    if (window.num_elements() != 4) {
      return InvalidArgumentError(StrCat("crop_size must have four elements ", window.shape().ToString()));
    }
    options.crops = true;
    options.crop_y = IntegerAt(window, 0);
    options.crop_x = IntegerAt(window, 1);
    options.crop_height = IntegerAt(window, 2);
    options.crop_width = IntegerAt(window, 3);
    return options;
  }

  absl::StatusOr<uint8_t*> AllocateFrames(Target& target, int64_t frames, int64_t height,
                                          int64_t width) const {
    const bool is_single = attrs_.op == "DecodePng" || attrs_.op == "DecodeJpeg";
    if (is_single && frames != 1) {
      return InvalidArgumentError(StrCat("Got ", frames,
                                         " frames, but animated gifs can only be decoded by "
                                         "tf.io.decode_gif or tf.io.decode_image"));
    }
    return target.AllocateBytes(frames, height, width, 3, !is_single && attrs_.expands_animations);
  }

  const DecodingAttrs attrs_;
};

absl::Status ExtractJpegShape(KernelContext& context) {
  const Tensor& contents = context.input(0);
  if (!contents.shape().is_scalar()) {
    return InvalidArgumentError(StrCat("contents must be scalar, got shape ", contents.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const ImageExtent image, ReadJpegExtent(contents.scalar<std::string>()));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({3})));
  WriteIntegers({image.height, image.width, image.channels}, *output);
  return absl::OkStatus();
}

}  // namespace

void RegisterDecodingKernels(DeviceKernels& kernels) {
  for (const char* op :
       {"DecodeJpeg", "DecodeAndCropJpeg", "DecodePng", "DecodeGif", "DecodeBmp", "DecodeImage"}) {
    kernels.Add<DecodeImage>(op);
  }
  kernels.Add<&ExtractJpegShape>("ExtractJpegShape");
}

}  // namespace weir
