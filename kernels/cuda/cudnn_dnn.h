// Convolutions by cuDNN, which is opened at the first one, through its graphs of operations
// (cudnnBackendCreateDescriptor and what goes with it).
//
// cuDNN names the dimensions of images N, C, H, W and those of filters K, C, H, W in any case; strides say
// how they lie in memory. It counts groups by itself, from the channels. Of the engines that its heuristics
// propose, the first counts that gives the same result every time, that sums in no less than float, that
// computes float and double as such (TF32 is off), and that wants no more than kMostCudnnWorkspace. A plan
// is made once and kept for each device, convolution and alignment, the last kMostCudnnPlans of them. The
// workspace comes from the device's allocator and goes back at once: what the stream does next with that
// memory comes later. Thread safety: all methods.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/cuda_api.h"
#include "kernels/cuda/cuda_dnn.h"
#include "kernels/cuda/cuda_libraries.h"

namespace weir {

inline constexpr int64_t kMostCudnnWorkspace = int64_t{1} << 30;
inline constexpr size_t kMostCudnnPlans = 1024;

// A tensor as cuDNN is told of it: N, C, H, W or K, C, H, W, and the elements from one to the next.
struct CudnnTensor {
  std::array<int64_t, 4> dims, strides;
  friend bool operator==(const CudnnTensor&, const CudnnTensor&) = default;
};
// Of height and width.
using CudnnSizes = std::array<int64_t, 2>;

struct CudnnConvolution {
  CudnnTensor input, filter, output;
  CudnnSizes stride, dilation, padding_before, padding_after;
};
CudnnConvolution AsCudnn(const ConvGeometry& geometry);

// What cuDNN says of an engine.
struct CudnnNotes {
  bool varies = false;  // does not give the same result every time
  bool uses_tensor_cores = false;
  bool rounds_operands = false;  // to another type
  bool rounds_sums = false;
};
// What was made of a convolution.
struct CudnnPlan {
  int64_t engine = 0;  // cuDNN's number
  int64_t workspace_bytes = 0;
  CudnnNotes notes;
};

class CudnnDnn : public CudaDnn {
 public:
  // Makes a plan for a GPU of these properties, and forgets it again; needs none. The properties are JSON, as
  // cuDNN writes them (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). Without them nothing is planned: the
  // convolution is only described. The errors are those of Convolve that have to do with the library and the
  // convolution.
  virtual absl::StatusOr<CudnnPlan> Check(const Convolution& convolution, absl::string_view properties) = 0;
};

// Borrows both. In a build without the toolkit or without cuDNN's headers every call is NotFound.
std::unique_ptr<CudnnDnn> MakeCudnnDnn(CudaApi& api, CudaLibraries& libraries);

}  // namespace weir
