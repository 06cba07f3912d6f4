#include "kernels/cpu/nn/window_geometry.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"

namespace weir {

namespace {

// Padding and empty inputs make outputs of any size.
absl::Status CheckOutput(const WindowGeometry& geometry, int64_t depth) {
  const auto shape =
      Shape::FromDims({geometry.batch, geometry.output[0], geometry.output[1], geometry.output[2], depth});
  if (shape.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the output is too large: ", shape.status().message()));
}

// "height" or the like.
absl::string_view NameOf(int dimension, int spatial_rank) {
  constexpr absl::string_view kNames[] = {"depth", "height", "width"};
  return kNames[dimension + kMaxSpatialRank - spatial_rank];
}

}  // namespace

Shape WindowGeometry::ImageShape(const SpatialSizes& size, int64_t channels) const {
  Dims dims = {batch};
  if (channels_first) dims.push_back(channels);
  dims.insert(dims.end(), size, size + spatial_rank);
  if (!channels_first) dims.push_back(channels);
  return Shape(dims);
}

double WindowGeometry::PixelPairs() const {
  double pairs = 1;
  for (int i = 0; i < spatial_rank; ++i)
    pairs *= static_cast<double>(output[i]) * static_cast<double>(window[i]);
  return pairs;
}

Shape ConvGeometry::FilterShape() const {
  Dims dims(windows.window, windows.window + windows.spatial_rank);
  dims.insert(dims.end(), {group_channels, output_channels});
  return Shape(dims);
}

double ConvGeometry::OperationsPerImage() const {
  return 2.0 * windows.PixelPairs() * static_cast<double>(group_channels) *
         static_cast<double>(output_channels);
}

absl::StatusOr<WindowAttrs> WindowAttrs::ForConvolution(const KernelConstruction& construction) {
  WindowAttrs attrs;
  WEIR_RETURN_IF_ERROR(attrs.ReadShared(construction));
  WEIR_RETURN_IF_ERROR(attrs.ReadSpatialAttr(construction, "dilations", attrs.dilation_));
  return attrs;
}

absl::StatusOr<WindowAttrs> WindowAttrs::ForPooling(const KernelConstruction& construction) {
  WindowAttrs attrs;
  WEIR_RETURN_IF_ERROR(attrs.ReadShared(construction));
  if (construction.node().FindAttr("ksize") == nullptr) return attrs;
  WEIR_RETURN_IF_ERROR(attrs.ReadSpatialAttr(construction, "ksize", attrs.window_));
  return attrs;
}

absl::StatusOr<WindowAttrs> WindowAttrs::Sliding(absl::Span<const int64_t> ksize,
                                                 absl::Span<const int64_t> strides) const {
  WindowAttrs sliding = *this;
  WEIR_RETURN_IF_ERROR(ReadSpatial(ksize, "ksize", sliding.window_));
  WEIR_RETURN_IF_ERROR(ReadSpatial(strides, "strides", sliding.stride_));
  return sliding;
}

absl::Status WindowAttrs::ReadShared(const KernelConstruction& construction) {
  // Ops of quantized numbers have one layout, and no attr for it.
  const AttrValue* const attr = construction.node().FindAttr("data_format");
  const std::string format = attr == nullptr ? "NHWC" : attr->get<std::string>();
  if (format != "NHWC" && format != "NCHW" && format != "NDHWC") {
    return absl::UnimplementedError(absl::StrCat("data_format ", format, " has no kernel on the CPU"));
  }
  spatial_rank_ = format == "NDHWC" ? 3 : 2;
  channels_first_ = format == "NCHW";
  padding_ = construction.attr<std::string>("padding");
  if (construction.node().FindAttr("strides") != nullptr) {
    WEIR_RETURN_IF_ERROR(ReadSpatialAttr(construction, "strides", stride_));
  }
  return ReadExplicitPadding(construction);
}

absl::Status WindowAttrs::ReadSpatialAttr(const KernelConstruction& construction, absl::string_view attr,
                                          SpatialSizes& values) const {
  return ReadSpatial(construction.attr<std::vector<int64_t>>(attr), absl::StrCat("attr ", attr), values);
}

absl::Status WindowAttrs::ReadSpatial(absl::Span<const int64_t> list, absl::string_view what,
                                      SpatialSizes& values) const {
  const auto describe = [&] { return absl::StrCat("[", absl::StrJoin(list, ","), "]"); };
  if (static_cast<int>(list.size()) != rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " must have ", rank(), " elements, is ", describe()));
  }
  if (list[0] != 1 || list[channel_axis()] != 1) {
    return absl::UnimplementedError(absl::StrCat(what, " must be 1 for batch and channels, is ", describe()));
  }
  for (int i = 0; i < spatial_rank_; ++i) {
    values[i] = list[first_spatial_axis() + i];
    if (values[i] >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(what, " must be at least 1, is ", describe()));
  }
  return absl::OkStatus();
}

absl::Status WindowAttrs::ReadExplicitPadding(const KernelConstruction& construction) {
  const AttrValue* attr = construction.node().FindAttr("explicit_paddings");
  const bool is_explicit = padding_ == "EXPLICIT";
  if (attr == nullptr || !is_explicit) return absl::OkStatus();
  const auto& list = attr->get<std::vector<int64_t>>();
  if (list.size() != 8 || list[0] != 0 || list[1] != 0 || list[2 * channel_axis()] != 0 ||
      list[2 * channel_axis() + 1] != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("attr explicit_paddings must have 8 elements that are 0 for batch and channels, is [",
                     absl::StrJoin(list, ","), "]"));
  }
  for (int i = 0; i < spatial_rank_; ++i) {
    explicit_before_[i] = list[2 * (first_spatial_axis() + i)];
    explicit_after_[i] = list[2 * (first_spatial_axis() + i) + 1];
  }
  return absl::OkStatus();
}

absl::StatusOr<WindowGeometry> WindowAttrs::Slide(const Shape& input, const SpatialSizes& window) const {
  if (input.rank() != rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the input must have ", rank(), " dimensions, is ", input.ToString()));
  }
  WindowGeometry geometry;
  geometry.spatial_rank = spatial_rank_;
  geometry.batch = input.dim(0);
  geometry.channels = input.dim(channel_axis());
  geometry.channels_first = channels_first_;
  for (int i = 0; i < spatial_rank_; ++i) {
    geometry.input[i] = input.dim(first_spatial_axis() + i);
    geometry.window[i] = window[i];
    geometry.stride[i] = stride_[i];
    geometry.dilation[i] = dilation_[i];
    absl::StatusOr<WindowExtent> extent = SlideWindow(geometry.input[i], window[i], stride_[i], dilation_[i],
                                                      padding_, explicit_before_[i], explicit_after_[i]);
    if (!extent.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          extent.status().message(), " (", NameOf(i, spatial_rank_), " of input ", input.ToString(), ")"));
    }
    geometry.output[i] = extent->size;
    geometry.padding_before[i] = extent->padding_before;
    geometry.padding_after[i] = extent->padding_after;
  }
  return geometry;
}

absl::StatusOr<ConvGeometry> WindowAttrs::Convolution(const Shape& input, const Shape& filter) const {
  if (filter.rank() != rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the filter must have ", rank(), " dimensions, is ", filter.ToString()));
  }
  SpatialSizes window = {1, 1, 1};
  for (int i = 0; i < spatial_rank_; ++i) window[i] = filter.dim(i);
  ConvGeometry geometry;
  WEIR_ASSIGN_OR_RETURN(geometry.windows, Slide(input, window));
  geometry.group_channels = filter.dim(spatial_rank_);
  geometry.output_channels = filter.dim(spatial_rank_ + 1);
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
