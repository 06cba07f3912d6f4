// Where the windows of a convolution or pooling lie on its input: images, or
// volumes.
//
// Sizes and paddings are TensorFlow's (graph/shape_inference.h, SlideWindow). Values, safe to share between
// threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/types/shape.h"
#include "kernels/kernel.h"

namespace weir {

// One number for each spatial dimension: [0] height and [1] width of images, or
// [0] depth, [1] height and [2] width of volumes. An image is a volume of
// images of width 1: [2] is then 1, and its elements lie in memory alike.
constexpr int kMaxSpatialRank = 3;
using SpatialSizes = int64_t[kMaxSpatialRank];

struct WindowGeometry {
  int spatial_rank = 2;
  int64_t batch = 0;
  int64_t channels = 0;  // of the input
  SpatialSizes input = {1, 1, 1};
  SpatialSizes output = {1, 1, 1};
  SpatialSizes window = {1, 1, 1};
  SpatialSizes stride = {1, 1, 1};
  SpatialSizes dilation = {1, 1, 1};
  SpatialSizes padding_before = {};
  SpatialSizes padding_after = {};
  bool channels_first = false;

  friend bool operator==(const WindowGeometry&, const WindowGeometry&) = default;

  // [batch, size..., channels], or with the channels second.
  Shape ImageShape(const SpatialSizes& size, int64_t channels) const;
  // Pixels of an image of the input and of the output.
  int64_t InputPixels() const { return input[0] * input[1] * input[2]; }
  int64_t OutputPixels() const { return output[0] * output[1] * output[2]; }
  // Pairs of an output pixel and an element of its window, of one image.
  double PixelPairs() const;
};

// What of a convolution is computed.
enum class ConvDirection {
  kOutput,         // of input and filter
  kInputGradient,  // of output gradient and filter
  kFilterGradient  // of input and output gradient
};

struct ConvGeometry {
  WindowGeometry windows;
  int64_t output_channels = 0;
  int64_t group_channels = 0;  // input channels that one filter sees; fewer than all in a grouped convolution

  int64_t groups() const { return group_channels == 0 ? 1 : windows.channels / group_channels; }
  Shape InputShape() const { return windows.ImageShape(windows.input, windows.channels); }
  Shape OutputShape() const { return windows.ImageShape(windows.output, output_channels); }
  Shape FilterShape() const;
  // Multiplications and additions of one image.
  double OperationsPerImage() const;

  friend bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
};

// The attrs that convolutions and poolings share. InvalidArgument when lists
// have the wrong length or ask for strides, dilations, windows or padding of
// batch or channels. The shapes of the geometries that they give exist.
// Unimplemented for layouts without a kernel.
class WindowAttrs {
 public:
  static absl::StatusOr<WindowAttrs> ForConvolution(const KernelConstruction& construction);
  // Of an op that has the windows as inputs, without them: Sliding adds them.
  static absl::StatusOr<WindowAttrs> ForPooling(const KernelConstruction& construction);
  // The same with these windows, checked as attrs are.
  absl::StatusOr<WindowAttrs> Sliding(absl::Span<const int64_t> ksize,
                                      absl::Span<const int64_t> strides) const;

  // Of inputs, outputs and filters.
  int rank() const { return spatial_rank_ + 2; }
  // Errors name the shapes that do not fit.
  absl::StatusOr<ConvGeometry> Convolution(const Shape& input, const Shape& filter) const;
  absl::StatusOr<WindowGeometry> Pooling(const Shape& input) const;

 private:
  int first_spatial_axis() const { return channels_first_ ? 2 : 1; }
  int channel_axis() const { return channels_first_ ? 1 : spatial_rank_ + 1; }
  absl::Status ReadShared(const KernelConstruction& construction);
  // `what` is the list in errors: "attr strides".
  absl::Status ReadSpatial(absl::Span<const int64_t> list, absl::string_view what,
                           SpatialSizes& values) const;
  absl::Status ReadSpatialAttr(const KernelConstruction& construction, absl::string_view attr,
                               SpatialSizes& values) const;
  absl::Status ReadExplicitPadding(const KernelConstruction& construction);
  absl::StatusOr<WindowGeometry> Slide(const Shape& input, const SpatialSizes& window) const;

  int spatial_rank_ = 2;
  bool channels_first_ = false;
  std::string padding_;
  SpatialSizes window_ = {1, 1, 1};
  SpatialSizes stride_ = {1, 1, 1};
  SpatialSizes dilation_ = {1, 1, 1};
  SpatialSizes explicit_before_ = {};
  SpatialSizes explicit_after_ = {};
};

}  // namespace weir
