#include "kernels/cpu/nn/window_geometry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"

namespace weir {

namespace {

// Padding and empty inputs make outputs of any size.
absl::Status CheckOutput(const WindowGeometry& geometry, int64_t depth) {
  const auto shape = Shape::FromDims({geometry.batch, geometry.output[0], geometry.output[1], depth});
  if (shape.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the output is too large: ", shape.status().message()));
}

}  // namespace

Shape WindowGeometry::ImageShape(const int64_t (&size)[2], int64_t depth) const {
  return channels_first ? Shape({batch, depth, size[0], size[1]}) : Shape({batch, size[0], size[1], depth});
}

double WindowGeometry::PixelPairs() const {
  double pairs = 1;
  for (int i = 0; i < 2; ++i) pairs *= static_cast<double>(output[i]) * static_cast<double>(window[i]);
  return pairs;
}

double ConvGeometry::OperationsPerImage() const {
  return 2.0 * windows.PixelPairs() * static_cast<double>(group_channels) *
         static_cast<double>(output_channels);
}

absl::StatusOr<WindowAttrs> WindowAttrs::ForConvolution(const KernelConstruction& construction) {
  WindowAttrs attrs;
  WEIR_RETURN_IF_ERROR(attrs.ReadShared(construction));
  WEIR_RETURN_IF_ERROR(attrs.ReadSpatial(construction, "dilations", attrs.dilation_));
  return attrs;
}

absl::StatusOr<WindowAttrs> WindowAttrs::ForPooling(const KernelConstruction& construction) {
  WindowAttrs attrs;
  WEIR_RETURN_IF_ERROR(attrs.ReadShared(construction));
  WEIR_RETURN_IF_ERROR(attrs.ReadSpatial(construction, "ksize", attrs.window_));
  return attrs;
}

absl::Status WindowAttrs::ReadShared(const KernelConstruction& construction) {
  const std::string& format = construction.attr<std::string>("data_format");
  if (format != "NHWC" && format != "NCHW") {
    return absl::UnimplementedError(absl::StrCat("data_format ", format, " has no kernel on the CPU"));
  }
  channels_first_ = format == "NCHW";
  padding_ = construction.attr<std::string>("padding");
  WEIR_RETURN_IF_ERROR(ReadSpatial(construction, "strides", stride_));
  return ReadExplicitPadding(construction);
}

absl::Status WindowAttrs::ReadSpatial(const KernelConstruction& construction, absl::string_view attr,
                                      int64_t (&values)[2]) const {
  const auto& list = construction.attr<std::vector<int64_t>>(attr);
  const auto describe = [&] { return absl::StrCat("[", absl::StrJoin(list, ","), "]"); };
  if (list.size() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("attr ", attr, " must have 4 elements, is ", describe()));
  }
  if (list[0] != 1 || list[channels_first_ ? 1 : 3] != 1) {
    return absl::UnimplementedError(
        absl::StrCat("attr ", attr, " must be 1 for batch and channels, is ", describe()));
  }
  for (int i = 0; i < 2; ++i) {
    values[i] = list[height_axis() + i];
    if (values[i] >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("attr ", attr, " must be at least 1, is ", describe()));
  }
  return absl::OkStatus();
}

absl::Status WindowAttrs::ReadExplicitPadding(const KernelConstruction& construction) {
  const AttrValue* attr = construction.node().FindAttr("explicit_paddings");
  const bool is_explicit = padding_ == "EXPLICIT";
  if (attr == nullptr || !is_explicit) return absl::OkStatus();
  const auto& list = attr->get<std::vector<int64_t>>();
  const int channel_axis = channels_first_ ? 1 : 3;
  if (list.size() != 8 || list[0] != 0 || list[1] != 0 || list[2 * channel_axis] != 0 ||
      list[2 * channel_axis + 1] != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("attr explicit_paddings must have 8 elements that are 0 for batch and channels, is [",
                     absl::StrJoin(list, ","), "]"));
  }
  for (int i = 0; i < 2; ++i) {
    explicit_before_[i] = list[2 * (height_axis() + i)];
    explicit_after_[i] = list[2 * (height_axis() + i) + 1];
  }
  return absl::OkStatus();
}

absl::StatusOr<WindowGeometry> WindowAttrs::Slide(const Shape& input, const int64_t (&window)[2]) const {
  if (input.rank() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("the input must have 4 dimensions, is ", input.ToString()));
  }
  WindowGeometry geometry;
  geometry.batch = input.dim(0);
  geometry.channels = input.dim(channels_first_ ? 1 : 3);
  geometry.channels_first = channels_first_;
  for (int i = 0; i < 2; ++i) {
    geometry.input[i] = input.dim(height_axis() + i);
    geometry.window[i] = window[i];
    geometry.stride[i] = stride_[i];
    geometry.dilation[i] = dilation_[i];
    absl::StatusOr<WindowExtent> extent = SlideWindow(geometry.input[i], window[i], stride_[i], dilation_[i],
                                                      padding_, explicit_before_[i], explicit_after_[i]);
    if (!extent.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          extent.status().message(), " (", i == 0 ? "height" : "width", " of input ", input.ToString(), ")"));
    }
    geometry.output[i] = extent->size;
    geometry.padding_before[i] = extent->padding_before;
    geometry.padding_after[i] = extent->padding_after;
  }
  return geometry;
}

absl::StatusOr<ConvGeometry> WindowAttrs::Convolution(const Shape& input, const Shape& filter) const {
  if (filter.rank() != 4) {
    return absl::InvalidArgumentError(
        absl::StrCat("the filter must have 4 dimensions, is ", filter.ToString()));
  }
  ConvGeometry geometry;
  WEIR_ASSIGN_OR_RETURN(geometry.windows, Slide(input, {filter.dim(0), filter.dim(1)}));
  geometry.group_channels = filter.dim(2);
  geometry.output_channels = filter.dim(3);
  const int64_t channels = geometry.windows.channels;
  const bool fits = geometry.group_channels == 0 ? channels == 0
                                                 : channels > 0 && channels % geometry.group_channels == 0 &&
                                                       geometry.output_channels % geometry.groups() == 0;
  if (fits) {
    WEIR_RETURN_IF_ERROR(CheckOutput(geometry.windows, geometry.output_channels));
    return geometry;
  }
  return absl::InvalidArgumentError(absl::StrCat("channels do not fit: the input ", input.ToString(), " has ",
                                                 channels, ", the filter ", filter.ToString(), " takes ",
                                                 geometry.group_channels));
}

absl::StatusOr<WindowGeometry> WindowAttrs::Pooling(const Shape& input) const {
  WEIR_ASSIGN_OR_RETURN(const WindowGeometry geometry, Slide(input, window_));
  WEIR_RETURN_IF_ERROR(CheckOutput(geometry, geometry.channels));
  return geometry;
}

}  // namespace weir
