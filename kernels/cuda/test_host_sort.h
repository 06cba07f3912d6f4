// Sorts for a RecordingCudaApi: on the host, when the work's turn comes.
//
// The API and this must live as long as sorts. Thread safety: all methods.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "graph/types/tensor.h"
#include "kernels/cuda/cuda_sort.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {

class HostSort final : public CudaSort {
 public:
  explicit HostSort(RecordingCudaApi& api) : api_(api) {
    api.SetKernel(this, [](const RecordingCudaApi::Launched& launched) {
      const auto pairs = launched.argument<PairSort>(0);
      if (pairs.dtype == DType::kUint32) Compute<uint32_t>(pairs);
      if (pairs.dtype == DType::kUint64) Compute<uint64_t>(pairs);
    });
  }

  absl::Status Sort(CudaStream& stream, Allocator& allocator, const PairSort& pairs) override {
    // Taken and given back at once, as the real one does it.
    const absl::StatusOr<Tensor> temporary = Tensor::Allocate(DType::kUint8, Shape({1024}), allocator);
    if (!temporary.ok()) return temporary.status();
    const CudaArgument arguments[] = {{&pairs, sizeof(pairs)}};
    return api_.Launch({"SortPairs", this}, CudaGrid(), arguments, stream.handle());
  }

 private:
  // Of the keys only the bits that count, as a radix sort sees them.
  template <typename T>
  static void Compute(const PairSort& pairs) {
    const auto* const keys = static_cast<const T*>(pairs.keys);
    const T mask = pairs.num_bits < static_cast<int>(8 * sizeof(T))
                       ? static_cast<T>((T{1} << pairs.num_bits) - 1)
                       : static_cast<T>(-1);
    std::vector<int64_t> order(pairs.count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return (keys[a] & mask) < (keys[b] & mask); });
    for (int64_t i = 0; i < pairs.count; ++i) {
      static_cast<T*>(pairs.sorted_keys)[i] = keys[order[i]];
      static_cast<T*>(pairs.sorted_values)[i] = static_cast<const T*>(pairs.values)[order[i]];
    }
  }

  RecordingCudaApi& api_;
};

}  // namespace weir
