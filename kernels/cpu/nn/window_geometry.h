// Where the windows of a convolution or pooling lie on its input.
//
// Sizes and paddings are TensorFlow's (graph/shape_inference.h, SlideWindow). Values, safe to share between
// threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/shape.h"
#include "kernels/kernel.h"

namespace weir {

// The spatial dimensions are [0] height and [1] width.
struct WindowGeometry {
  int64_t batch = 0;
  int64_t channels = 0;  // of the input
  int64_t input[2] = {};
  int64_t output[2] = {};
  int64_t window[2] = {};
  int64_t stride[2] = {};
  int64_t dilation[2] = {};
  int64_t padding_before[2] = {};
  int64_t padding_after[2] = {};
  bool channels_first = false;

  friend bool operator==(const WindowGeometry&, const WindowGeometry&) = default;

  // [batch, height, width, depth], or with the depth second.
  Shape ImageShape(const int64_t (&size)[2], int64_t depth) const;
  // Pairs of an output pixel and an element of its window, of one image.
  double PixelPairs() const;
};

struct ConvGeometry {
  WindowGeometry windows;
  int64_t output_channels = 0;
  int64_t group_channels = 0;  // input channels that one filter sees; fewer than all in a grouped convolution

  int64_t groups() const { return group_channels == 0 ? 1 : windows.channels / group_channels; }
  Shape InputShape() const { return windows.ImageShape(windows.input, windows.channels); }
  Shape OutputShape() const { return windows.ImageShape(windows.output, output_channels); }
  Shape FilterShape() const {
    return {windows.window[0], windows.window[1], group_channels, output_channels};
  }
  // Multiplications and additions of one image.
  double OperationsPerImage() const;

  friend bool operator==(const ConvGeometry&, const ConvGeometry&) = default;
};

// The attrs that convolutions and poolings share. InvalidArgument when lists have the wrong length or ask for
// strides, dilations, windows or padding of batch or channels. The shapes of the geometries that they give
// exist.
class WindowAttrs {
 public:
  static absl::StatusOr<WindowAttrs> ForConvolution(const KernelConstruction& construction);
  static absl::StatusOr<WindowAttrs> ForPooling(const KernelConstruction& construction);

  // Errors name the shapes that do not fit.
  absl::StatusOr<ConvGeometry> Convolution(const Shape& input, const Shape& filter) const;
  absl::StatusOr<WindowGeometry> Pooling(const Shape& input) const;

 private:
  int height_axis() const { return channels_first_ ? 2 : 1; }
  absl::Status ReadShared(const KernelConstruction& construction);
  absl::Status ReadSpatial(const KernelConstruction& construction, absl::string_view attr,
                           int64_t (&values)[2]) const;
  absl::Status ReadExplicitPadding(const KernelConstruction& construction);
  absl::StatusOr<WindowGeometry> Slide(const Shape& input, const int64_t (&window)[2]) const;

  bool channels_first_ = false;
  std::string padding_;
  int64_t window_[2] = {1, 1};
  int64_t stride_[2] = {1, 1};
  int64_t dilation_[2] = {1, 1};
  int64_t explicit_before_[2] = {0, 0};
  int64_t explicit_after_[2] = {0, 0};
};

}  // namespace weir
