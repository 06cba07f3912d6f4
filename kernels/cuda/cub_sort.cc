#include "kernels/cuda/cub_sort.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/cub_pairs.h"
#include "kernels/cuda/cuda_error.h"

namespace weir {
namespace {

class CubSort final : public CudaSort {
 public:
  explicit CubSort(CudaApi& api) : api_(api) {}

  absl::Status Sort(CudaStream& stream, Allocator& allocator, const PairSort& pairs) override {
    switch (pairs.dtype) {
      case DType::kUint32:
        return SortAs<uint32_t>(stream, allocator, pairs);
      case DType::kUint64:
        return SortAs<uint64_t>(stream, allocator, pairs);
      default:
        return absl::UnimplementedError(absl::StrCat("sorting ", DTypeName(pairs.dtype), " on a GPU"));
    }
  }

 private:
  template <typename T>
  absl::Status SortAs(CudaStream& stream, Allocator& allocator, const PairSort& pairs) const {
    WEIR_RETURN_IF_ERROR(api_.Select(stream.device()));
    const auto call = [&](void* temporary, size_t* num_bytes) {
      const int error = cuda::SortPairs(
          temporary, num_bytes, static_cast<const T*>(pairs.keys), static_cast<T*>(pairs.sorted_keys),
          static_cast<const T*>(pairs.values), static_cast<T*>(pairs.sorted_values), pairs.count,
          pairs.num_bits, stream.handle().stream);
      return CudaError("cub::DeviceRadixSort::SortPairs", error, cuda::NameOfCudaError(error),
                       cuda::TextOfCudaError(error));
    };
    size_t num_bytes = 0;
    WEIR_RETURN_IF_ERROR(call(nullptr, &num_bytes));
    // A null address would be the question again.
    num_bytes = std::max<size_t>(num_bytes, 1);
    WEIR_ASSIGN_OR_RETURN(
        const Tensor temporary,
        Tensor::Allocate(DType::kUint8, Shape({static_cast<int64_t>(num_bytes)}), allocator));
    return call(const_cast<void*>(temporary.data()), &num_bytes);
  }

  CudaApi& api_;
};

}  // namespace

std::unique_ptr<CudaSort> MakeCubSort(CudaApi& api) { return std::make_unique<CubSort>(api); }

}  // namespace weir
