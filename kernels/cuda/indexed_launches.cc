#include "kernels/cuda/indexed_launches.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/stored_words.h"

namespace weir {
namespace {

std::string TextOf(const Tensor& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype()), tensor.shape().ToString());
}

bool AreIndices(const Tensor& tensor) {
  return tensor.dtype() == DType::kInt32 || tensor.dtype() == DType::kInt64;
}

bool IsKeys(const Tensor& tensor, int64_t count) {
  return (tensor.dtype() == DType::kUint32 || tensor.dtype() == DType::kUint64) &&
         tensor.num_elements() == count;
}

bool IsOrder(const RowOrder& order) {
  return IsKeys(order.rows, order.rows.num_elements()) &&
         IsKeys(order.positions, order.rows.num_elements()) && order.rows.dtype() == order.positions.dtype();
}

}  // namespace

absl::Status LaunchGather(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& params,
                          const Tensor& indices, const GatherSizes& sizes, Tensor& output,
                          const cuda::DataErrorPlace& place) {
  const bool has_elements = output.num_elements() > 0;
  const int64_t planes = sizes.batches * sizes.outer;
  const bool fits = !has_elements || (params.num_elements() == planes * sizes.limit * sizes.inner &&
                                      indices.num_elements() == sizes.batches * sizes.count &&
                                      output.num_elements() == planes * sizes.count * sizes.inner);
  if (!fits || !AreIndices(indices) || params.dtype() != output.dtype() || !IsPlainBytes(params.dtype())) {
    return absl::InvalidArgumentError(absl::StrCat("Gather: ", TextOf(params), " and indices ",
                                                   TextOf(indices), " do not give ", TextOf(output)));
  }
  if (!has_elements) return LaunchCheckIndices(stream, kernels, indices, sizes.limit, place);
  const size_t slice_bytes = static_cast<size_t>(sizes.inner) * DTypeSize(params.dtype());
  const DType word = WordOf(slice_bytes | reinterpret_cast<uintptr_t>(params.data()) |
                            reinterpret_cast<uintptr_t>(output.data()));
  const cuda::GatherDims dims = {.outer = sizes.outer,
                                 .limit = sizes.limit,
                                 .count = sizes.count,
                                 .inner = static_cast<int64_t>(slice_bytes / DTypeSize(word))};
  const auto count = static_cast<int64_t>(output.num_bytes() / DTypeSize(word));
  return LaunchKernel(stream, kernels, "Gather", {word, indices.dtype()}, GridOverElements(stream, count),
                      params.data(), indices.data(), output.data(), count, dims, place);
}

absl::Status LaunchCheckIndices(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& indices,
                                int64_t limit, const cuda::DataErrorPlace& place) {
  if (!AreIndices(indices)) {
    return absl::InvalidArgumentError(absl::StrCat("indices are ", TextOf(indices)));
  }
  const int64_t count = indices.num_elements();
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "CheckIndices", {indices.dtype()}, GridOverElements(stream, count),
                      indices.data(), count, limit, place);
}

DType RowKeyDType(int64_t limit, int64_t count) {
  return std::max(limit, count) <= std::numeric_limits<uint32_t>::max() ? DType::kUint32 : DType::kUint64;
}

absl::Status LaunchRowKeys(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& indices,
                           int64_t limit, bool drops_negative, Tensor& keys, Tensor& positions,
                           const cuda::DataErrorPlace& place) {
  const int64_t count = indices.num_elements();
  const bool fits = AreIndices(indices) && IsKeys(keys, count) && IsKeys(positions, count) &&
                    keys.dtype() == positions.dtype() &&
                    (keys.dtype() == DType::kUint64 || RowKeyDType(limit, count) == DType::kUint32);
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("RowKeys: ", TextOf(indices), " of ", limit,
                                                   " rows do not give ", TextOf(keys), " and ",
                                                   TextOf(positions)));
  }
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "RowKeys", {indices.dtype(), keys.dtype()},
                      GridOverElements(stream, count), indices.data(), keys.data(), positions.data(), count,
                      limit, drops_negative, place);
}

absl::Status LaunchScatterRows(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                               const RowOrder& order, int64_t inner, const Tensor& updates, Tensor& values,
                               const volatile cuda::DataError* errors) {
  const int64_t count = order.rows.num_elements();
  // A row for each position may be one element, too.
  const bool has_rows = updates.num_elements() == count * inner;
  if (!IsOrder(order) || updates.dtype() != values.dtype() || !(has_rows || updates.num_elements() == 1) ||
      values.num_elements() != order.limit * inner) {
    return absl::InvalidArgumentError(absl::StrCat(op, ": ", TextOf(updates), " for ", count, " of ",
                                                   order.limit, " rows of ", inner, " does not change ",
                                                   TextOf(values)));
  }
  if (count * inner == 0) return absl::OkStatus();
  const DType stored = op == "ScatterUpdate" ? StoredBySize(values.dtype()) : values.dtype();
  const int64_t step = has_rows ? 1 : 0;
  return WithSortedRows(order, [&](const auto& sorted) {
    return LaunchKernel(stream, kernels, op, {stored, order.rows.dtype()},
                        GridOverElements(stream, count * inner), sorted, inner, updates.data(), step,
                        values.data(), errors);
  });
}

absl::Status CheckUpdatedRows(absl::string_view op, DType dtype, int num_arrays, const RowOrder& order,
                              const UpdatedVariable& updated) {
  const int64_t count = order.rows.num_elements(), size = updated.gradient.num_elements();
  const int64_t inner = count == 0 ? 0 : size / count;
  const auto fits = [&](const Tensor& array) {
    return array.dtype() == dtype && (count == 0 || array.num_elements() == order.limit * inner);
  };
  if (IsOrder(order) && updated.gradient.dtype() == dtype && size == count * inner &&
      updated.arrays.size() == static_cast<size_t>(num_arrays) &&
      std::all_of(updated.arrays.begin(), updated.arrays.end(), fits)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(op, " of rows wants ", num_arrays, " arrays of ",
                                                 DTypeName(dtype), " of ", order.limit, " rows, and ", count,
                                                 " rows of a gradient, has ", TextOf(updated.gradient)));
}

}  // namespace weir
