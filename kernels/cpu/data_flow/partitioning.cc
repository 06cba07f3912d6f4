// DynamicPartition, DynamicStitch and ParallelDynamicStitch: copies of slices.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/element_position.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

bool BeginsWith(const Shape& shape, const Shape& prefix) {
  return shape.rank() >= prefix.rank() && shape.dims().subspan(0, prefix.rank()) == prefix.dims();
}

// The dimensions of `shape` behind those of `prefix`.
Dims SliceDims(const Shape& shape, const Shape& prefix) {
  const auto rest = shape.dims().subspan(prefix.rank());
  return Dims(rest.begin(), rest.end());
}

absl::StatusOr<Shape> ShapeOfSlices(int64_t count, Dims slice) {
  slice.insert(slice.begin(), count);
  return Shape::FromDims(slice);
}

absl::Status DynamicPartition(KernelContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& partitions = context.input(1);
  if (!BeginsWith(data.shape(), partitions.shape())) {
    return absl::InvalidArgumentError(
        absl::StrCat("data must begin with the dimensions of partitions: data is ", data.shape().ToString(),
                     ", partitions is ", partitions.shape().ToString()));
  }
  const int num_partitions = context.num_outputs();
  const auto ids = partitions.flat<int32_t>();
  std::vector<int64_t> sizes(num_partitions, 0);
  for (int64_t i = 0; i < partitions.num_elements(); ++i) {
    if (ids[i] < 0 || ids[i] >= num_partitions) {
      return absl::InvalidArgumentError(absl::StrCat("partitions",
                                                     ElementPosition(partitions.shape().dims(), i), " = ",
                                                     ids[i], " is not in [0, ", num_partitions, ")"));
    }
    ++sizes[ids[i]];
  }
  const Dims slice = SliceDims(data.shape(), partitions.shape());
  for (int p = 0; p < num_partitions; ++p) {
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeOfSlices(sizes[p], slice));
    WEIR_RETURN_IF_ERROR(context.AllocateOutput(p, shape).status());
  }
  if (data.num_elements() == 0) return absl::OkStatus();
  const int64_t slice_size = data.num_elements() / partitions.num_elements();
  std::vector<int64_t> filled(num_partitions, 0);
  for (int64_t i = 0; i < partitions.num_elements(); ++i) {
    CopyElements(data, i * slice_size, context.output(ids[i]), filled[ids[i]]++ * slice_size, slice_size);
  }
  return absl::OkStatus();
}

// Checks the inputs; gives the dimensions of a slice and one more than the largest index.
absl::StatusOr<Shape> StitchedShape(KernelContext& context, int count) {
  Dims slice;
  int64_t length = 0;
  for (int i = 0; i < count; ++i) {
    const Tensor& indices = context.input(i);
    const Shape& data = context.input(count + i).shape();
    if (!BeginsWith(data, indices.shape())) {
      return absl::InvalidArgumentError(
          absl::StrCat("data[", i, "] must begin with the dimensions of indices[", i, "]: it is ",
                       data.ToString(), ", the indices are ", indices.shape().ToString()));
    }
    const Dims own = SliceDims(data, indices.shape());
    if (i == 0) slice = own;
    if (own != slice) {
      return absl::InvalidArgumentError(absl::StrCat("slices of data[", i, "] are [", absl::StrJoin(own, ","),
                                                     "], those of data[0] are [", absl::StrJoin(slice, ","),
                                                     "]"));
    }
    for (const int32_t index : indices.flat<int32_t>()) {
      if (index < 0)
        return absl::InvalidArgumentError(
            absl::StrCat("indices[", i, "] has the negative ", index, ", which is out of range"));
      length = std::max(length, int64_t{index} + 1);
    }
  }
  return ShapeOfSlices(length, slice);
}

// Both ops: one after the other, so that the last slice at an index stays. Places without a slice are zero.
absl::Status Stitch(KernelContext& context) {
  const int count = context.num_inputs() / 2;
  WEIR_ASSIGN_OR_RETURN(const Shape shape, StitchedShape(context, count));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  ClearElements(*output, 0, output->num_elements());
  const int64_t slice_size = shape.num_elements() / shape.dim(0);
  for (int i = 0; i < count; ++i) {
    const auto indices = context.input(i).flat<int32_t>();
    for (size_t k = 0; k < indices.size(); ++k) {
      CopyElements(context.input(count + i), static_cast<int64_t>(k) * slice_size, *output,
                   indices[k] * slice_size, slice_size);
    }
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterPartitioningKernels(DeviceKernels& kernels) {
  kernels.Add<&DynamicPartition>("DynamicPartition", {{"T", AllDTypes()}});
  kernels.Add<&Stitch>("DynamicStitch", {{"T", AllDTypes()}});
  kernels.Add<&Stitch>("ParallelDynamicStitch", {{"T", AllDTypes()}});
}

}  // namespace weir
