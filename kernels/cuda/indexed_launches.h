// Launches of kernels that indices lead to slices and rows.
//
// All tensors are dense and in memory of the stream's device; indices are int32 or int64. Of those that are
// out of range the kernels take note in `place`, and read or write nothing at them. InvalidArgument when
// shapes or dtypes do not fit. Thread safety: that of the stream.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/data_error.h"
#include "kernels/cuda/indexed_bodies.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/update_launches.h"

namespace weir {

// The sizes of the params [batches, outer, limit, inner], the indices [batches, count] and the output
// [batches, outer, count, inner]. Of an output without elements only the limit counts.
struct GatherSizes {
  int64_t batches = 1, outer = 1, limit = 0, count = 0, inner = 1;
};

// The slices that are chosen; those at bad indices are zeros. Of any dtype of plain bytes.
absl::Status LaunchGather(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& params,
                          const Tensor& indices, const GatherSizes& sizes, Tensor& output,
                          const cuda::DataErrorPlace& place);

// Looks whether the indices are in [0, limit).
absl::Status LaunchCheckIndices(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& indices,
                                int64_t limit, const cuda::DataErrorPlace& place);

// Which rows indices name, sorted by rows and then by positions, as a CudaSort makes them of what
// LaunchRowKeys has made. Both are vectors of uint32 or uint64.
struct RowOrder {
  Tensor rows;
  Tensor positions;
  int64_t limit = 0;  // rows from it on are none
};

// The dtype in which so many rows and positions are counted.
DType RowKeyDType(int64_t limit, int64_t count);

// keys[i] = indices[i], or `limit` where that is not in [0, limit), and positions[i] = i. Of negative indices
// no note is taken when `drops_negative`.
absl::Status LaunchRowKeys(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& indices,
                           int64_t limit, bool drops_negative, Tensor& keys, Tensor& positions,
                           const cuda::DataErrorPlace& place);

// Combines rows of `values`, of `inner` elements, with those of `updates` whose positions they have, in
// order. `op`: a name of VisitScatters (indexed_bodies.h). Updates may be one element, for all of them.
// Nothing is done where something was found.
absl::Status LaunchScatterRows(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                               const RowOrder& order, int64_t inner, const Tensor& updates, Tensor& values,
                               const volatile cuda::DataError* errors);

// What LaunchUpdateRows wants of its arguments.
absl::Status CheckUpdatedRows(absl::string_view op, DType dtype, int num_arrays, const RowOrder& order,
                              const UpdatedVariable& updated);

// launch(rows) with what kernels take of the order.
template <typename Launch>
absl::Status WithSortedRows(const RowOrder& order, const Launch& launch) {
  const auto as = [&]<typename Key>(const Key*) {
    return launch(cuda::SortedRows<Key>{.rows = static_cast<const Key*>(order.rows.data()),
                                        .positions = static_cast<const Key*>(order.positions.data()),
                                        .count = order.rows.num_elements(),
                                        .limit = order.limit});
  };
  return order.rows.dtype() == DType::kUint64 ? as(static_cast<const uint64_t*>(nullptr))
                                              : as(static_cast<const uint32_t*>(nullptr));
}

// An optimizer's step for the rows that are named: `updated` has the variable and its slots, updated in
// place, and a gradient of one row for each position. Rule and the op must be a pair of VisitRowRules
// (indexed_bodies.h). Nothing is updated where `place` has a note already, or where the rule refuses the
// scalars, of which it takes note.
template <typename Rule>
absl::Status LaunchUpdateRows(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                              absl::Span<const Tensor> scalars, bool flag, const RowOrder& order,
                              const UpdatedVariable& updated, const cuda::DataErrorPlace& place) {
  using T = typename Rule::Number;
  WEIR_RETURN_IF_ERROR(CheckUpdatedRows(op, DTypeOf<T>, Rule::kArrays, order, updated));
  WEIR_RETURN_IF_ERROR(CheckScalars(op, DTypeOf<T>, Rule::kScalars, scalars));
  const int64_t count = updated.gradient.num_elements();
  if (count == 0) return absl::OkStatus();
  cuda::UpdateScalars<T> numbers = {.at = {}, .flag = flag};
  for (int i = 0; i < Rule::kScalars; ++i) numbers.at[i] = static_cast<const T*>(scalars[i].data());
  cuda::UpdatedRows<T> rows = {.arrays = {},
                               .gradients = static_cast<const T*>(updated.gradient.data()),
                               .inner = count / order.rows.num_elements()};
  for (int a = 0; a < Rule::kArrays; ++a) {
    rows.arrays[a] = static_cast<T*>(const_cast<void*>(updated.arrays[a].data()));
  }
  return WithSortedRows(order, [&](const auto& sorted) {
    return LaunchKernel(stream, kernels, absl::StrCat(op, "Rows"), {DTypeOf<T>, order.rows.dtype()},
                        GridOverElements(stream, count), sorted, rows, numbers, place);
  });
}

}  // namespace weir
