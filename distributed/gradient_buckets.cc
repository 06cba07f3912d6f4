#include "distributed/gradient_buckets.h"

#include <algorithm>
#include <utility>

namespace weir {

std::vector<GradientBucket> MakeGradientBuckets(absl::Span<const GradientSize> gradients,
                                                int64_t first_bucket_bytes, int64_t bucket_bytes) {
  std::vector<GradientBucket> full;
  std::vector<GradientBucket> open;  // one for each dtype
  for (const GradientSize& gradient : gradients) {
    auto bucket = std::find_if(open.begin(), open.end(),
                               [&](const GradientBucket& one) { return one.dtype == gradient.dtype; });
    if (bucket == open.end()) bucket = open.insert(open.end(), GradientBucket{gradient.dtype, {}, 0});
    bucket->members.push_back(gradient.index);
    bucket->num_bytes += gradient.num_bytes;
    if (bucket->num_bytes < (full.empty() ? first_bucket_bytes : bucket_bytes)) continue;
    full.push_back(*std::move(bucket));
    open.erase(bucket);
  }
  full.insert(full.end(), open.begin(), open.end());
  return full;
}

}  // namespace weir
