#include "ops/partitioner.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// The axis from 0 on, or an InvalidArgument. Its dimension has at least one element.
absl::StatusOr<int> AxisOf(const Shape& shape, int axis) {
  const int counted = axis < 0 ? axis + shape.rank() : axis;
  if (counted >= 0 && counted < shape.rank() && shape.dim(counted) > 0) return counted;
  return absl::InvalidArgumentError(
      absl::StrCat("a variable of shape ", shape.ToString(), " cannot be cut along axis ", axis));
}

absl::StatusOr<std::vector<int64_t>> Along(const Shape& shape, int axis, int64_t parts) {
  std::vector<int64_t> result(shape.rank(), 1);
  result[axis] = parts;
  return result;
}

absl::Status CheckPositive(absl::string_view name, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be at least 1, is ", value));
}

double ElementBytes(DType dtype, int64_t bytes_per_string_element) {
  return dtype == DType::kString ? static_cast<double>(bytes_per_string_element)
                                 : static_cast<double>(DTypeSize(dtype));
}

}  // namespace

absl::StatusOr<Cut> CutShape(const Shape& shape, const std::vector<int64_t>& parts_per_dimension) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("a variable of shape ", shape.ToString(), " cannot be cut into [",
                     absl::StrJoin(parts_per_dimension, ","), "] parts: ", why));
  };
  if (shape.rank() < 1) return refuse("it has no dimension");
  if (static_cast<int>(parts_per_dimension.size()) != shape.rank())
    return refuse("one number for each dimension");
  Cut cut;
  int64_t parts = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t here = parts_per_dimension[i];
    if (here < 1) return refuse("a number of parts is below 1");
    if (here > 1 && here > shape.dim(i)) return refuse("there are more parts than elements");
    if (here > 1 && parts > 1) return refuse("only one dimension can be cut");
    if (here > kMaxParts) return refuse(absl::StrCat("there can be at most ", kMaxParts, " parts"));
    if (here > 1) {
      cut.axis = i;
      parts = here;
    }
  }
  const int64_t size = shape.dim(cut.axis);
  for (int64_t i = 0; i < parts; ++i) cut.sizes.push_back(size / parts + (i < size % parts ? 1 : 0));
  return cut;
}

namespace partitioners {

Partitioner FixedSize(int64_t num_shards, int axis) {
  return [=](const Shape& shape, DType) -> absl::StatusOr<std::vector<int64_t>> {
    WEIR_RETURN_IF_ERROR(CheckPositive("num_shards", num_shards));
    WEIR_ASSIGN_OR_RETURN(const int counted, AxisOf(shape, axis));
    return Along(shape, counted, std::min(num_shards, shape.dim(counted)));
  };
}

Partitioner MinMax(const MinMaxOptions& options) {
  return [=](const Shape& shape, DType dtype) -> absl::StatusOr<std::vector<int64_t>> {
    WEIR_RETURN_IF_ERROR(CheckPositive("max_partitions", options.max_partitions));
    WEIR_RETURN_IF_ERROR(CheckPositive("min_slice_size", options.min_slice_size));
    WEIR_ASSIGN_OR_RETURN(const int axis, AxisOf(shape, options.axis));
    const double bytes =
        static_cast<double>(shape.num_elements()) * ElementBytes(dtype, options.bytes_per_string_element);
    const double slices = std::ceil(bytes / static_cast<double>(options.min_slice_size));
    const int64_t most = std::min(shape.dim(axis), options.max_partitions);
    const bool fit = slices < static_cast<double>(most);
    return Along(shape, axis, std::max<int64_t>(1, fit ? static_cast<int64_t>(slices) : most));
  };
}

Partitioner VariableAxisSize(const VariableAxisSizeOptions& options) {
  return [=](const Shape& shape, DType dtype) -> absl::StatusOr<std::vector<int64_t>> {
    WEIR_RETURN_IF_ERROR(CheckPositive("max_shard_bytes", options.max_shard_bytes));
    WEIR_RETURN_IF_ERROR(CheckPositive("bytes_per_string_element", options.bytes_per_string_element));
    if (options.max_shards != 0) WEIR_RETURN_IF_ERROR(CheckPositive("max_shards", options.max_shards));
    WEIR_ASSIGN_OR_RETURN(const int axis, AxisOf(shape, options.axis));
    const int64_t size = shape.dim(axis);
    const double slice_bytes = static_cast<double>(shape.num_elements()) / static_cast<double>(size) *
                               ElementBytes(dtype, options.bytes_per_string_element);
    // At least one index a part, at most all of them.
    double slices = slice_bytes > 0 ? std::floor(static_cast<double>(options.max_shard_bytes) / slice_bytes)
                                    : static_cast<double>(size);
    slices = std::clamp(slices, 1.0, static_cast<double>(size));
    auto parts = static_cast<int64_t>(std::ceil(static_cast<double>(size) / slices));
    if (options.max_shards > 0) parts = std::min(parts, options.max_shards);
    return Along(shape, axis, parts);
  };
}

}  // namespace partitioners
}  // namespace weir
