// EncodeJpeg, EncodeJpegVariableQuality and EncodePng.
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/jpeg.h"
#include "kernels/formats/png.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

absl::Status CheckQuality(int64_t quality) {
  if (quality >= 0 && quality <= 100) return absl::OkStatus();
  return InvalidArgumentError(StrCat("quality must be in [0,100], got ", quality));
}

// The size of input 0. `channels` is what the format wants, 0 for any.
absl::StatusOr<ImageExtent> ReadExtent(const KernelContext& context, absl::string_view format,
                                       int64_t channels) {
  const Shape& image = context.input(0).shape();
  if (image.rank() != 3) return InvalidArgumentError(StrCat("image must be 3-dimensional", image.ToString()));
  if (image.num_elements() > std::numeric_limits<int32_t>::max()) {
    return InvalidArgumentError("image cannot have >= int32 max elements");
  }
  if (channels != 0 && image.dim(2) != channels) {
    return InvalidArgumentError(
        StrCat("format ", format, " expects ", channels, " channels, got ", image.ToString()));
  }
  if (image.dim(2) != 1 && image.dim(2) != 3) {
    return InvalidArgumentError(StrCat("image must have 1 or 3 channels, got ", image.ToString()));
  }
  return ImageExtent{image.dim(0), image.dim(1), image.dim(2)};
}

absl::Status Encode(KernelContext& context, const ImageExtent& extent, JpegEncoding options) {
  options.is_cancelled = [&] { return context.cancellation().is_cancelled(); };
  auto file = EncodeJpeg(context.input(0).flat<uint8_t>(), extent, options);
  if (absl::IsCancelled(file.status())) return context.cancellation().reason();
  WEIR_RETURN_IF_ERROR(file.status());
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  output->flat<std::string>()[0] = *std::move(file);
  return absl::OkStatus();
}

class EncodeJpegKernel final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_RETURN_IF_ERROR(CheckQuality(construction.attr<int64_t>("quality")));
    for (const char* name : {"x_density", "y_density"}) {
      const auto density = construction.attr<int64_t>(name);
      if (density >= 0 && density <= std::numeric_limits<uint16_t>::max()) continue;
      return InvalidArgumentError(StrCat(name, " must be in [0,65535], got ", density));
    }
    return std::make_unique<EncodeJpegKernel>(construction);
  }
  explicit EncodeJpegKernel(const KernelConstruction& construction)
      : format_(construction.attr<std::string>("format")) {
    options_.quality = static_cast<int>(construction.attr<int64_t>("quality"));
    options_.progressive = construction.attr<bool>("progressive");
    options_.optimizes_size = construction.attr<bool>("optimize_size");
    options_.chroma_downsampling = construction.attr<bool>("chroma_downsampling");
    options_.density_in_centimeters = construction.attr<std::string>("density_unit") == "cm";
    options_.x_density = static_cast<int>(construction.attr<int64_t>("x_density"));
    options_.y_density = static_cast<int>(construction.attr<int64_t>("y_density"));
    options_.xmp_metadata = construction.attr<std::string>("xmp_metadata");
  }

  absl::Status Compute(KernelContext& context) override {
    const int64_t channels = format_.empty() ? 0 : format_ == "grayscale" ? 1 : 3;
    WEIR_ASSIGN_OR_RETURN(const ImageExtent extent, ReadExtent(context, format_, channels));
    return Encode(context, extent, options_);
  }

 private:
  const std::string format_;
  JpegEncoding options_;
};

absl::Status EncodeJpegVariableQuality(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const ImageExtent extent, ReadExtent(context, "", 0));
  const Tensor& quality = context.input(1);
  if (!quality.shape().is_scalar()) {
    return InvalidArgumentError(StrCat("quality must be scalar: ", quality.shape().ToString()));
  }
  JpegEncoding options;
  options.quality = quality.scalar<int32_t>();
  WEIR_RETURN_IF_ERROR(CheckQuality(options.quality));
  return Encode(context, extent, options);
}

// Images [..., height, width, channels], a file each.
template <typename T>
class EncodePngKernel final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto compression = construction.attr<int64_t>("compression");
    if (compression < -1 || compression > 9) {
      return InvalidArgumentError(StrCat("compression should be in [-1,9], got ", compression));
    }
    return std::make_unique<EncodePngKernel>(static_cast<int>(compression));
  }
  explicit EncodePngKernel(int compression) : compression_(compression) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& images = context.input(0);
    const int rank = images.shape().rank();
    if (rank < 3)
      return InvalidArgumentError(StrCat("images must be at least rank 3", images.shape().ToString()));
    const int64_t height = images.shape().dim(rank - 3), width = images.shape().dim(rank - 2);
    const int64_t channels = images.shape().dim(rank - 1);
    if (channels < 1 || channels > 4) {
      return InvalidArgumentError(StrCat("image must have 1, 2, 3, or 4 channels, got ", channels));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(0, Shape(images.shape().dims().first(rank - 3))));
    const int64_t size = height * width * channels;
    // A file of one pixel is many times as large as the pixel.
    StringBudget budget(context);
    for (int64_t i = 0; i < output->num_elements(); ++i) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      auto file = EncodePng(images.flat<T>().subspan(i * size, size), height, width, channels, compression_,
                            [&] { return context.cancellation().is_cancelled(); });
      if (absl::IsCancelled(file.status())) return context.cancellation().reason();
      if (!file.ok()) {
        return InvalidArgumentError(StrCat("PNG encoding failed at the following flattened batch indices: ",
                                           i, ": ", file.status().message()));
      }
      WEIR_RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(file->size())));
      output->flat<std::string>()[i] = *std::move(file);
    }
    return absl::OkStatus();
  }

 private:
  const int compression_;
};

}  // namespace

void RegisterEncodingKernels(DeviceKernels& kernels) {
  kernels.Add<EncodeJpegKernel>("EncodeJpeg");
  kernels.Add<&EncodeJpegVariableQuality>("EncodeJpegVariableQuality");
  kernels.Add<EncodePngKernel>("EncodePng", Types<uint8_t, uint16_t>("T"));
}

}  // namespace weir
