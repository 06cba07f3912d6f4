// Convolutions on a GPU, as an interface: cuDNN (cudnn_dnn.h), or a stand-in for tests that computes on the
// host when the stream comes to it (test_host_dnn.h).
//
// Thread safety: all methods.
#pragma once

#include "absl/status/status.h"
#include "graph/types/allocator.h"
#include "graph/types/dtype.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cuda/cuda_stream.h"

namespace weir {

// The op that computes it: "Conv2D", "Conv2DBackpropInput" or "Conv2DBackpropFilter".
constexpr const char* OpNameOf(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::kInputGradient:
      return "Conv2DBackpropInput";
    case ConvDirection::kFilterGradient:
      return "Conv2DBackpropFilter";
    default:
      return "Conv2D";
  }
}

// A convolution of images, dense in the device's memory. Images lie there as TensorFlow has them: [batch,
// height, width, channels], or with the channels second. Filters do not, for GPUs want the elements that are
// summed up side by side: they are [output channels, height, width, channels of a group] beside images with
// channels last, and [output channels, channels of a group, height, width] beside the others. The
// paddings before and after may differ. Nothing is empty, and what is written overlaps nothing else. float,
// double, half or bfloat16; the last two are summed in float.
struct Convolution {
  ConvDirection direction = ConvDirection::kOutput;
  DType dtype = DType::kFloat32;
  ConvGeometry geometry;
  // Of these, or of their gradients, the one that is computed is written, and the other two are read.
  void* input = nullptr;
  void* filter = nullptr;
  void* output = nullptr;
};

class CudaDnn {
 public:
  virtual ~CudaDnn() = default;

  // Enqueues the convolution. Memory that it needs for itself comes from `allocator`, the device's.
  // Unimplemented for another dtype, and for what the library has no engine for; NotFound where there is no
  // library. Errors name the op, the shapes and what the library answered.
  virtual absl::Status Convolve(CudaStream& stream, Allocator& allocator, const Convolution& convolution) = 0;
};

}  // namespace weir
