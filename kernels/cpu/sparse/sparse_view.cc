#include "kernels/cpu/sparse/sparse_view.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/with_dtype.h"

namespace weir {
namespace {

absl::Status CheckRank(const Tensor& tensor, int rank, absl::string_view what) {
  if (tensor.shape().rank() == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Sparse ", what, " must be rank ", rank, " but is rank ", tensor.shape().rank()));
}

}  // namespace

absl::StatusOr<SparseView> SparseView::Read(const Tensor& indices, const Tensor& values,
                                            const Tensor& shape) {
  WEIR_RETURN_IF_ERROR(CheckRank(indices, 2, "indices"));
  WEIR_RETURN_IF_ERROR(CheckRank(values, 1, "values"));
  WEIR_RETURN_IF_ERROR(CheckRank(shape, 1, "shape"));
  if (indices.shape().dim(0) != values.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("Number of elements in indices (", indices.shape().dim(0),
                                                   ") and values (", values.num_elements(),
                                                   ") do not match"));
  }
  if (indices.shape().dim(1) != shape.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("Index rank (", indices.shape().dim(1),
                                                   ") and shape rank (", shape.num_elements(),
                                                   ") do not match"));
  }
  constexpr int64_t kMaxRank = 254;
  if (shape.num_elements() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sparse tensor may have ", kMaxRank, " dimensions, has ", shape.num_elements()));
  }
  const auto dims = shape.flat<int64_t>();
  for (const int64_t dim : dims) {
    if (dim >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Expected shape dimensions to be non-negative, got ", dim));
  }
  return SparseView(indices, values, Dims(dims.begin(), dims.end()));
}

absl::StatusOr<SparseView> SparseView::Read(const KernelContext& context, int first) {
  return Read(context.input(first), context.input(first + 1), context.input(first + 2));
}

absl::Status SparseView::CheckInBounds() const {
  for (int64_t i = 0; i < count(); ++i) {
    const auto at = index(i);
    for (int d = 0; d < rank(); ++d) {
      if (at[d] >= 0 && at[d] < dims_[d]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "indices[", i, "] = ", IndexText(at), " is out of bounds: need 0 <= index < ", IndexText(dims_)));
    }
  }
  return absl::OkStatus();
}

int CompareIndices(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  for (size_t d = 0; d < a.size(); ++d) {
    if (a[d] != b[d]) return a[d] < b[d] ? -1 : 1;
  }
  return 0;
}

std::vector<int64_t> RowMajorOrder(const SparseView& sparse) {
  std::vector<int64_t> order(sparse.count());
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](int64_t a, int64_t b) {
    return CompareIndices(sparse.index(a), sparse.index(b)) < 0;
  };
  if (!std::is_sorted(order.begin(), order.end(), is_before)) {
    std::stable_sort(order.begin(), order.end(), is_before);
  }
  return order;
}

std::string IndexText(absl::Span<const int64_t> index) {
  return absl::StrCat("[", absl::StrJoin(index, ","), "]");
}

void GatherValues(const Tensor& from, absl::Span<const int64_t> order, Tensor& to) {
  WithElementType(from.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto* source = static_cast<const T*>(from.data());
    auto* target = static_cast<T*>(to.data());
    for (size_t k = 0; k < order.size(); ++k) target[k] = source[order[k]];
  });
}

absl::Status SetShapeOutput(KernelContext& context, int output, absl::Span<const int64_t> dims) {
  WEIR_ASSIGN_OR_RETURN(Tensor * shape,
                        context.AllocateOutput(output, Shape({static_cast<int64_t>(dims.size())})));
  std::copy(dims.begin(), dims.end(), shape->flat<int64_t>().begin());
  return absl::OkStatus();
}

}  // namespace weir
