// What cuDNN is told of a convolution.
#include "kernels/cuda/cudnn_dnn.h"

namespace weir {
namespace {

// Dense: the channels innermost, or outside height and width.
CudnnTensor Dense(int64_t count, int64_t channels, int64_t height, int64_t width, bool channels_first) {
  CudnnTensor tensor = {.dims = {count, channels, height, width}, .strides = {}};
  if (channels_first) {
    tensor.strides = {channels * height * width, height * width, width, 1};
  } else {
    tensor.strides = {height * width * channels, 1, width * channels, channels};
  }
  return tensor;
}

}  // namespace

CudnnConvolution AsCudnn(const ConvGeometry& geometry) {
  const WindowGeometry& w = geometry.windows;
  return {.input = Dense(w.batch, w.channels, w.input[0], w.input[1], w.channels_first),
          .filter = Dense(geometry.output_channels, geometry.group_channels, w.window[0], w.window[1],
                          w.channels_first),
          .output = Dense(w.batch, geometry.output_channels, w.output[0], w.output[1], w.channels_first),
          .stride = {w.stride[0], w.stride[1]},
          .dilation = {w.dilation[0], w.dilation[1]},
          .padding_before = {w.padding_before[0], w.padding_before[1]},
          .padding_after = {w.padding_after[0], w.padding_after[1]}};
}

}  // namespace weir
