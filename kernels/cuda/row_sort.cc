#include "kernels/cuda/row_sort.h"

#include <bit>

#include "graph/types/status_macros.h"
#include "kernels/cuda/cuda_sort.h"

namespace weir::cuda {

absl::StatusOr<RowOrder> SortRows(KernelContext& context, CudaDevice& device, const Tensor& indices,
                                  int64_t limit, NegativeIndices negative, const DataErrorPlace& place) {
  const int64_t count = indices.num_elements();
  const DType dtype = RowKeyDType(limit, count);
  const Shape shape({count});
  WEIR_ASSIGN_OR_RETURN(Tensor keys, context.AllocateTemporary(dtype, shape));
  WEIR_ASSIGN_OR_RETURN(Tensor positions, context.AllocateTemporary(dtype, shape));
  RowOrder order = {.rows = {}, .positions = {}, .limit = limit};
  WEIR_ASSIGN_OR_RETURN(order.rows, context.AllocateTemporary(dtype, shape));
  WEIR_ASSIGN_OR_RETURN(order.positions, context.AllocateTemporary(dtype, shape));
  WEIR_RETURN_IF_ERROR(LaunchRowKeys(device.stream(), device.kernels(), indices, limit,
                                     negative == NegativeIndices::kDropped, keys, positions, place));
  // The largest key is the limit, and there is no sort by no bits.
  const int num_bits = std::bit_width(static_cast<uint64_t>(limit) | 1);
  WEIR_RETURN_IF_ERROR(device.Sort({.dtype = dtype,
                                    .count = count,
                                    .num_bits = num_bits,
                                    .keys = keys.data(),
                                    .values = positions.data(),
                                    .sorted_keys = order.rows.data(),
                                    .sorted_values = order.positions.data()}));
  return order;
}

}  // namespace weir::cuda
