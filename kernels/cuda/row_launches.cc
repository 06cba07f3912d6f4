#include "kernels/cuda/row_launches.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// Below this many rows a part of a column's sum is not worth a thread.
constexpr int64_t kFewestRows = 32;

std::string TextOf(const Tensor& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype()), tensor.shape().ToString());
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
                         int64_t results, bool is_sum) {
  // Rows and columns may be of any size; their product is that of a tensor, or the check fails.
  const bool fits = rows >= 0 && columns >= 0 &&
                    (columns == 0 ? x.num_elements() == 0
                                  : x.num_elements() % columns == 0 && x.num_elements() / columns == rows);
  const bool has_dtype = x.dtype() == y.dtype() || (is_sum && SumDType(x.dtype()) == SumDType(y.dtype()));
  if (fits && y.num_elements() == results && has_dtype) return absl::OkStatus();
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

DType SumDType(DType dtype) {
  return dtype == DType::kHalf || dtype == DType::kBfloat16 ? DType::kFloat32 : dtype;
}

absl::Status LaunchRowReduction(CudaStream& stream, const CudaKernelTable& kernels, RowReduction reduction,
                                const Tensor& x, int64_t rows, int64_t columns, Tensor& y) {
  const bool is_sum = reduction == RowReduction::kSum || reduction == RowReduction::kMean;
  WEIR_RETURN_IF_ERROR(CheckMatrix(NameOf(reduction), x, rows, columns, y, rows, is_sum));
  if (rows == 0) return absl::OkStatus();
  const double first = FirstOf(reduction);
  const double scale = reduction == RowReduction::kMean ? MeanScale(columns) : 1;
  const CudaGrid grid = GridOverBlocks(stream, rows);
  const bool changes_dtype = x.dtype() != y.dtype();
  const char* const name = changes_dtype ? "RowSumTo" : NameOf(reduction);
  const std::vector<DType> dtypes =
      changes_dtype ? std::vector<DType>{x.dtype(), y.dtype()} : std::vector<DType>{x.dtype()};
  if (SumDType(x.dtype()) == DType::kFloat32) {
    return LaunchKernel(stream, kernels, name, dtypes, grid, x.data(), y.data(), rows, columns,
                        static_cast<float>(first), static_cast<float>(scale));
  }
  return LaunchKernel(stream, kernels, name, dtypes, grid, x.data(), y.data(), rows, columns, first, scale);
}

absl::Status LaunchColumnSum(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                             int64_t rows, int64_t columns, Allocator& allocator, Tensor& y, bool is_mean,
                             int64_t matrices) {
  const int64_t results = y.num_elements();
  if (matrices < 0 || (matrices > 0 && results % matrices != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ColumnSum: ", matrices, " matrices do not give ", TextOf(y)));
  }
  const int64_t all_rows = columns == 0 ? rows : x.num_elements() / columns;
  WEIR_RETURN_IF_ERROR(CheckMatrix("ColumnSum", x, all_rows, columns, y, matrices * columns, true));
  if (columns != 0 && all_rows != matrices * rows) {
    return absl::InvalidArgumentError(absl::StrCat("ColumnSum: ", TextOf(x), " is not ", matrices,
                                                   " matrices of ", rows, " rows of ", columns));
  }
  if (results == 0) return absl::OkStatus();
  const int64_t threads = stream.num_multiprocessors() * kCudaBlocksPerMultiprocessor * kCudaBlockThreads;
  const int64_t parts = std::max<int64_t>(1, std::min(threads / results, rows / kFewestRows));
  WEIR_ASSIGN_OR_RETURN(Tensor partial,
                        Tensor::Allocate(SumDType(x.dtype()), Shape({matrices, parts, columns}), allocator));
  WEIR_RETURN_IF_ERROR(LaunchKernel(stream, kernels, "ColumnSum", {x.dtype()},
                                    GridOverElements(stream, parts * results), x.data(), partial.data(),
                                    matrices, rows, columns, parts));
  // What the stream does next with that memory comes after this.
  const double scale = is_mean ? MeanScale(rows) : 1;
  const CudaGrid grid = GridOverElements(stream, results);
  if (SumDType(x.dtype()) == DType::kFloat32) {
    return LaunchKernel(stream, kernels, "ColumnSumEnd", {y.dtype()}, grid, partial.data(), y.data(),
                        matrices, columns, parts, static_cast<float>(scale));
  }
  return LaunchKernel(stream, kernels, "ColumnSumEnd", {y.dtype()}, grid, partial.data(), y.data(), matrices,
                      columns, parts, scale);
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
