#include "kernels/cpu/image/resize_geometry.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max();

absl::Status CheckResult(const ResizeGeometry& geometry) {
  if (geometry.rows.resized > kMostPixels || geometry.columns.resized > kMostPixels) {
    return InvalidArgumentError(StrCat("resized sizes must fit into int32, are [", geometry.rows.resized, ",",
                                       geometry.columns.resized, "]"));
  }
  const int64_t batch = geometry.batch, channels = geometry.channels;
  WEIR_RETURN_IF_ERROR(
      Shape::FromDims({batch, geometry.rows.resized, geometry.columns.resized, channels}).status());
  return Shape::FromDims({batch, geometry.rows.original, geometry.columns.original, channels}).status();
}

}  // namespace

Neighbors ResizedAxis::Between(int64_t i, bool half_pixel_centers) const {
  const float position = Position(i, half_pixel_centers);
  const float floor = std::floor(position);
  return {.lower = std::clamp<int64_t>(static_cast<int64_t>(floor), 0, original - 1),
          .upper = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(position)), 0, original - 1),
          .fraction = position - floor};
}

ResizeAttrs::ResizeAttrs(const KernelConstruction& construction)
    : align_corners_(construction.attr<bool>("align_corners")) {
  const AttrValue* const half = construction.node().FindAttr("half_pixel_centers");
  half_pixel_centers_ = half != nullptr && half->get<bool>();
}

float ResizeAttrs::Scale(int64_t original, int64_t resized) const {
  return align_corners_ && resized > 1 ? static_cast<float>(original - 1) / static_cast<float>(resized - 1)
                                       : static_cast<float>(original) / static_cast<float>(resized);
}

absl::StatusOr<SizePair> ReadSize(const Tensor& size) {
  if (size.shape().rank() != 1) {
    return InvalidArgumentError(StrCat("shape_t must be 1-dimensional, is ", size.shape().ToString()));
  }
  if (size.num_elements() != 2) {
    return InvalidArgumentError(StrCat("shape_t must have two elements, is ", size.shape().ToString()));
  }
  return SizePair{IntegerAt(size, 0), IntegerAt(size, 1)};
}

absl::StatusOr<ResizeGeometry> ResizeAttrs::OfImages(const KernelContext& context) const {
  if (half_pixel_centers_ && align_corners_) {
    return InvalidArgumentError("If half_pixel_centers is True, align_corners must be False.");
  }
  const Shape& images = context.input(0).shape();
  if (images.rank() != 4) {
    return InvalidArgumentError(StrCat("input must be 4-dimensional, is ", images.ToString()));
  }
  if (images.dim(3) == 0) return InvalidArgumentError("image must have at least one channel");
  if (images.dim(1) == 0 || images.dim(2) == 0) {
    return InvalidArgumentError(StrCat("input image must be of non-zero size, is ", images.ToString()));
  }
  if (images.dim(1) >= kMostPixels || images.dim(2) >= kMostPixels) {
    return InvalidArgumentError(
        StrCat("input sizes must be between 0 and max int32, input is ", images.ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const SizePair size, ReadSize(context.input(1)));
  if (size.height <= 0 || size.width <= 0) {
    return InvalidArgumentError(
        StrCat("output dimensions must be positive, are [", size.height, ",", size.width, "]"));
  }
  ResizeGeometry geometry;
  geometry.batch = images.dim(0);
  geometry.channels = images.dim(3);
  geometry.rows = {images.dim(1), size.height, Scale(images.dim(1), size.height)};
  geometry.columns = {images.dim(2), size.width, Scale(images.dim(2), size.width)};
  WEIR_RETURN_IF_ERROR(CheckResult(geometry));
  return geometry;
}

absl::StatusOr<ResizeGeometry> ResizeAttrs::OfGradients(const KernelContext& context) const {
  if (half_pixel_centers_ && align_corners_) {
    return InvalidArgumentError("If half_pixel_centers is True, align_corners must be False.");
  }
  const Shape &gradients = context.input(0).shape(), &images = context.input(1).shape();
  if (gradients.rank() != 4) {
    return InvalidArgumentError(StrCat("input_grad must be 4-dimensional, is ", gradients.ToString()));
  }
  if (gradients.dim(1) == 0 || gradients.dim(2) == 0) {
    return InvalidArgumentError(
        StrCat("resized dimensions must be positive, gradients are ", gradients.ToString()));
  }
  if (images.rank() != 4) {
    return InvalidArgumentError(StrCat("original_image must be 4-dimensional, is ", images.ToString()));
  }
  if (images.dim(1) == 0 || images.dim(2) == 0) {
    return InvalidArgumentError(
        StrCat("original dimensions must be positive, original image is ", images.ToString()));
  }
  if (images.dim(1) >= kMostPixels || images.dim(2) >= kMostPixels) {
    return InvalidArgumentError(
        StrCat("original sizes must be between 0 and max int32, original image is ", images.ToString()));
  }
  ResizeGeometry geometry;
  geometry.batch = gradients.dim(0);
  geometry.channels = gradients.dim(3);
  geometry.rows = {images.dim(1), gradients.dim(1), Scale(images.dim(1), gradients.dim(1))};
  geometry.columns = {images.dim(2), gradients.dim(2), Scale(images.dim(2), gradients.dim(2))};
  WEIR_RETURN_IF_ERROR(CheckResult(geometry));
  return geometry;
}

}  // namespace weir
