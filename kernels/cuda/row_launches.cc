#include "kernels/cuda/row_launches.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// Below this many rows a part of a column's sum is not worth a thread.
constexpr int64_t kFewestRows = 32;

std::string TextOf(const Tensor& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype()), tensor.shape().ToString());
}

// Half and bfloat16 are summed in float.
DType NumberOf(DType dtype) {
  return dtype == DType::kHalf || dtype == DType::kBfloat16 ? DType::kFloat32 : dtype;
}

const char* NameOf(RowReduction reduction) {
  switch (reduction) {
    case RowReduction::kMax:
      return "RowMax";
    case RowReduction::kMin:
      return "RowMin";
    default:
      return "RowSum";
  }
}

double FirstOf(RowReduction reduction) {
  switch (reduction) {
    case RowReduction::kMax:
      return -std::numeric_limits<double>::infinity();
    case RowReduction::kMin:
      return std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

// 0 / 0 is the mean of nothing.
double MeanScale(int64_t count) {
  return count == 0 ? std::numeric_limits<double>::quiet_NaN() : 1 / static_cast<double>(count);
}

absl::Status CheckMatrix(const char* op, const Tensor& x, int64_t rows, int64_t columns, const Tensor& y,
                         int64_t results) {
  // Rows and columns may be of any size; their product is that of a tensor, or the check fails.
  const bool fits = rows >= 0 && columns >= 0 &&
                    (columns == 0 ? x.num_elements() == 0
                                  : x.num_elements() % columns == 0 && x.num_elements() / columns == rows);
  if (fits && y.num_elements() == results && x.dtype() == y.dtype()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(op, ": ", TextOf(x), " as ", rows, " rows of ", columns, " does not give ", TextOf(y)));
}

absl::Status CheckEntropy(const char* op, const Tensor& logits, const Tensor& labels, bool labels_fit,
                          const Tensor& losses, const Tensor& gradient) {
  const bool fits = labels_fit && gradient.shape() == logits.shape() && gradient.dtype() == logits.dtype() &&
                    losses.shape() == Shape({logits.shape().dim(0)}) && losses.dtype() == logits.dtype();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(op, ": logits ", TextOf(logits), " and labels ",
                                                 TextOf(labels), " do not give losses ", TextOf(losses),
                                                 " and a gradient ", TextOf(gradient)));
}

}  // namespace

absl::Status LaunchRowReduction(CudaStream& stream, const CudaKernelTable& kernels, RowReduction reduction,
                                const Tensor& x, int64_t rows, int64_t columns, Tensor& y) {
  WEIR_RETURN_IF_ERROR(CheckMatrix(NameOf(reduction), x, rows, columns, y, rows));
  if (rows == 0) return absl::OkStatus();
  const double first = FirstOf(reduction);
  const double scale = reduction == RowReduction::kMean ? MeanScale(columns) : 1;
  const CudaGrid grid = GridOverBlocks(stream, rows);
  if (NumberOf(x.dtype()) == DType::kFloat32) {
    return LaunchKernel(stream, kernels, NameOf(reduction), {x.dtype()}, grid, x.data(), y.data(), rows,
                        columns, static_cast<float>(first), static_cast<float>(scale));
  }
  return LaunchKernel(stream, kernels, NameOf(reduction), {x.dtype()}, grid, x.data(), y.data(), rows,
                      columns, first, scale);
}

absl::Status LaunchColumnSum(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                             int64_t rows, int64_t columns, Allocator& allocator, Tensor& y, bool is_mean) {
  WEIR_RETURN_IF_ERROR(CheckMatrix("ColumnSum", x, rows, columns, y, columns));
  if (columns == 0) return absl::OkStatus();
  const int64_t threads = stream.num_multiprocessors() * kCudaBlocksPerMultiprocessor * kCudaBlockThreads;
  const int64_t parts = std::max<int64_t>(1, std::min(threads / columns, rows / kFewestRows));
  WEIR_ASSIGN_OR_RETURN(Tensor partial,
                        Tensor::Allocate(NumberOf(x.dtype()), Shape({parts, columns}), allocator));
  WEIR_RETURN_IF_ERROR(LaunchKernel(stream, kernels, "ColumnSum", {x.dtype()},
                                    GridOverElements(stream, parts * columns), x.data(), partial.data(), rows,
                                    columns, parts));
  // What the stream does next with that memory comes after this.
  const double scale = is_mean ? MeanScale(rows) : 1;
  const CudaGrid grid = GridOverElements(stream, columns);
  if (NumberOf(x.dtype()) == DType::kFloat32) {
    return LaunchKernel(stream, kernels, "ColumnSumEnd", {x.dtype()}, grid, partial.data(), y.data(), columns,
                        parts, static_cast<float>(scale));
  }
  return LaunchKernel(stream, kernels, "ColumnSumEnd", {x.dtype()}, grid, partial.data(), y.data(), columns,
                      parts, scale);
}

absl::Status LaunchCrossEntropy(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& logits,
                                const Tensor& labels, Tensor& losses, Tensor& gradient) {
  const bool labels_fit =
      logits.shape().rank() == 2 && labels.shape() == logits.shape() && labels.dtype() == logits.dtype();
  WEIR_RETURN_IF_ERROR(CheckEntropy("CrossEntropy", logits, labels, labels_fit, losses, gradient));
  const int64_t rows = logits.shape().dim(0), columns = logits.shape().dim(1);
  if (rows == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "CrossEntropy", {logits.dtype()}, GridOverBlocks(stream, rows),
                      logits.data(), labels.data(), losses.data(), gradient.data(), rows, columns);
}

absl::Status LaunchSparseCrossEntropy(CudaStream& stream, const CudaKernelTable& kernels,
                                      const Tensor& logits, const Tensor& labels, Tensor& losses,
                                      Tensor& gradient, const cuda::DataErrorPlace& place) {
  const bool labels_fit = logits.shape().rank() == 2 && labels.shape() == Shape({logits.shape().dim(0)}) &&
                          (labels.dtype() == DType::kInt32 || labels.dtype() == DType::kInt64);
  WEIR_RETURN_IF_ERROR(CheckEntropy("SparseCrossEntropy", logits, labels, labels_fit, losses, gradient));
  const int64_t rows = logits.shape().dim(0), columns = logits.shape().dim(1);
  if (rows == 0) return absl::OkStatus();
  if (columns == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("SparseCrossEntropy: logits ", TextOf(logits), " have no classes"));
  }
  return LaunchKernel(stream, kernels, "SparseCrossEntropy", {logits.dtype(), labels.dtype()},
                      GridOverBlocks(stream, rows), logits.data(), labels.data(), losses.data(),
                      gradient.data(), rows, columns, place);
}

}  // namespace weir
