// What cub_sort.h is in a build without the toolkit.
#include "kernels/cuda/cub_sort.h"

namespace weir {
namespace {

class NoSort final : public CudaSort {
 public:
  absl::Status Sort(CudaStream&, Allocator&, const PairSort&) override {
    return absl::NotFoundError("sorting on GPUs: this program was built without CUDA");
  }
};

}  // namespace

std::unique_ptr<CudaSort> MakeCubSort(CudaApi&) { return std::make_unique<NoSort>(); }

}  // namespace weir
