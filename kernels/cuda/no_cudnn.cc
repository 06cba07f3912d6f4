// What cudnn_dnn.h is in a build without the toolkit, or without cuDNN's headers.
#include "kernels/cuda/cudnn_dnn.h"

namespace weir {
namespace {

class NoDnn final : public CudnnDnn {
 public:
  absl::StatusOr<CudnnPlan> Check(const Convolution&, absl::string_view) override { return None(); }
  absl::Status Convolve(CudaStream&, Allocator&, const Convolution&) override { return None(); }

 private:
  static absl::Status None() {
    return absl::NotFoundError("convolutions on GPUs: this program was built without cuDNN");
  }
};

}  // namespace

std::unique_ptr<CudnnDnn> MakeCudnnDnn(CudaApi&, CudaLibraries&) { return std::make_unique<NoDnn>(); }

}  // namespace weir
