// Tensors of random numbers: the groups of random_groups.h, made side by side.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/random/random_groups.h"
#include "kernels/thread_pool.h"

namespace weir {

// Fills `output` with groups; group g starts g * blocks_per_group blocks after `start`.
template <typename T, typename Distribution>
void Fill(ThreadPool& threads, const Philox& start, uint64_t blocks_per_group,
          const Distribution& distribution, absl::Span<T> output) {
  const int64_t size = static_cast<int64_t>(output.size());
  const int64_t groups = (size + kGroup<T> - 1) / kGroup<T>;
  threads.ParallelFor(groups, Distribution::kCost * kGroup<T>, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      Philox bits = start;
      bits.Skip(static_cast<uint64_t>(g) * blocks_per_group);
      T group[kGroup<T>];
      distribution(bits, group);
      std::copy_n(group, std::min<int64_t>(kGroup<T>, size - g * kGroup<T>), &output[g * kGroup<T>]);
    }
  });
}

inline absl::StatusOr<Shape> ShapeInput(const Tensor& tensor) {
  if (tensor.shape().rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("shape must be a vector, is ", tensor.shape().ToString()));
  }
  return ReadShape(tensor, "shape");
}

}  // namespace weir
