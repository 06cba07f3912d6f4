// Which gradients are sent together. A function of dtypes and sizes alone, so all replicas decide the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "graph/types/dtype.h"

namespace weir {

struct GradientSize {
  size_t index = 0;  // the caller's number for it
  DType dtype = DType::kFloat32;
  int64_t num_bytes = 0;
};

// Gradients of one dtype that are reduced as one tensor.
struct GradientBucket {
  DType dtype = DType::kFloat32;
  std::vector<size_t> members;  // their indices, in the order in which they were given
  int64_t num_bytes = 0;
};

// `gradients` in the order in which they are ready. A bucket is full when it has `bucket_bytes` or more, the
// first one when it has `first_bucket_bytes`; 0 for both puts each gradient into a bucket of its own. Those
// that are not full in the end come last. Pure.
std::vector<GradientBucket> MakeGradientBuckets(absl::Span<const GradientSize> gradients,
                                                int64_t first_bucket_bytes, int64_t bucket_bytes);

}  // namespace weir
