// Partitioners: into how many parts a large variable is cut, and along which dimension.
//
//   MakePartitionedVariable(g, "embedding", DType::kFloat32, {1'000'000, 64}, initializers::Uniform(-1, 1),
//                           partitioners::FixedSize(4));
//
// The rules are those of tf.compat.v1's partitioners of the same names. `axis` may count from the back.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/dtype.h"
#include "graph/types/shape.h"

namespace weir {

// Gives the number of parts along every dimension; at most one may be above 1. InvalidArgument for a shape
// that it cannot cut.
using Partitioner = std::function<absl::StatusOr<std::vector<int64_t>>(const Shape& shape, DType dtype)>;

// Each part is a variable with half a dozen nodes.
inline constexpr int64_t kMaxParts = 1 << 16;

// The dimension that is cut, and the sizes of the parts along it: their number divides the dimension as
// evenly as it can, and the first ones are larger by one. InvalidArgument unless parts_per_dimension has a
// number from 1 to the dimension for each, and at most one above 1, which is at most kMaxParts.
struct Cut {
  int axis = 0;
  std::vector<int64_t> sizes;
};
absl::StatusOr<Cut> CutShape(const Shape& shape, const std::vector<int64_t>& parts_per_dimension);

namespace partitioners {

// num_shards parts, or as many as the dimension has elements. num_shards: at least 1.
Partitioner FixedSize(int64_t num_shards, int axis = 0);

struct MinMaxOptions {
  int64_t max_partitions = 1;
  int axis = 0;
  int64_t min_slice_size = 256 << 10;     // bytes; no part is smaller, but for rounding
  int64_t bytes_per_string_element = 16;  // what a string counts
};
// As many parts as max_partitions and min_slice_size allow.
Partitioner MinMax(const MinMaxOptions& options);

struct VariableAxisSizeOptions {
  int64_t max_shard_bytes = 0;  // must be given
  int axis = 0;
  int64_t bytes_per_string_element = 16;  // what a string counts
  int64_t max_shards = 0;                 // 0: any number
};
// As few parts as keep each within max_shard_bytes, or to one index of the dimension.
Partitioner VariableAxisSize(const VariableAxisSizeOptions& options);

}  // namespace partitioners
}  // namespace weir
