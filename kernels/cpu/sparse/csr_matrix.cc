#include "kernels/cpu/sparse/csr_matrix.h"

#include <algorithm>
#include <complex>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/with_dtype.h"

namespace weir {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

}  // namespace

absl::StatusOr<RefPtr<CsrMatrix>> CsrMatrix::Create(const Shape& shape, Tensor row_ends, Tensor columns,
                                                    Tensor values, Allocator& allocator) {
  const int64_t batch = shape.rank() == 3 ? shape.dim(0) : 1, rows = shape.dim(shape.rank() - 2);
  WEIR_ASSIGN_OR_RETURN(Tensor begins, Tensor::Allocate(DType::kInt64, Shape({batch + 1}), allocator));
  int64_t begin = 0;
  for (int64_t i = 0; i < batch; ++i) {
    begins.flat<int64_t>()[i] = begin;
    begin += row_ends.flat<int32_t>()[i * (rows + 1) + rows];
  }
  begins.flat<int64_t>()[batch] = begin;
  return MakeRef<CsrMatrix>(shape, std::move(begins), std::move(row_ends), std::move(columns),
                            std::move(values));
}

CsrMatrix::CsrMatrix(Shape shape, Tensor begins, Tensor row_ends, Tensor columns, Tensor values)
    : shape_(std::move(shape)),
      begins_(std::move(begins)),
      row_ends_(std::move(row_ends)),
      columns_(std::move(columns)),
      values_(std::move(values)) {}

std::string CsrMatrix::ToString() const {
  return absl::StrCat("CSRSparseMatrix of ", TypeString(dtype(), shape_), " with ", values_.num_elements(),
                      " elements");
}

absl::StatusOr<RefPtr<VariantValue>> CsrMatrix::ZerosLike(KernelContext& context) const {
  WEIR_ASSIGN_OR_RETURN(const CsrBuilder builder, CsrBuilder::Create(shape_));
  WEIR_ASSIGN_OR_RETURN(RefPtr<CsrMatrix> zeros,
                        builder.Build(Tensor(dtype(), Shape({0})), context.allocator()));
  return RefPtr<VariantValue>(std::move(zeros));
}

absl::StatusOr<RefPtr<VariantValue>> CsrMatrix::Add(const VariantValue& other, KernelContext& context) const {
  const auto* const matrix = dynamic_cast<const CsrMatrix*>(&other);
  if (matrix == nullptr || matrix->dtype() != dtype() || matrix->shape() != shape_) {
    return absl::InvalidArgumentError(absl::StrCat("cannot add ", other.ToString(), " to ", ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(CsrBuilder builder, CsrBuilder::Create(shape_));
  // Of each element of the sum, where it is in this one and in the other, -1 where it is not.
  std::vector<std::pair<int64_t, int64_t>> from;
  for (int64_t b = 0; b < batch(); ++b) {
    for (int64_t row = 0; row < rows(); ++row) {
      // Columns of a row may be in any order.
      std::vector<std::pair<int32_t, std::pair<int64_t, int64_t>>> found;
      for (const int side : {0, 1}) {
        const CsrMatrix& each = side == 0 ? *this : *matrix;
        for (int64_t i = each.ends(b)[row]; i < each.ends(b)[row + 1]; ++i) {
          const int64_t at = each.begin(b) + i;
          found.push_back({each.columns().flat<int32_t>()[at],
                           side == 0 ? std::pair(at, int64_t{-1}) : std::pair(int64_t{-1}, at)});
        }
      }
      std::stable_sort(found.begin(), found.end(),
                       [](const auto& a, const auto& c) { return a.first < c.first; });
      for (size_t i = 0; i < found.size(); ++i) {
        const bool is_pair = i + 1 < found.size() && found[i].first == found[i + 1].first &&
                             found[i].second.second < 0 && found[i + 1].second.first < 0;
        builder.Add(b, row, found[i].first);
        from.push_back(is_pair ? std::pair(found[i].second.first, found[i + 1].second.second)
                               : found[i].second);
        if (is_pair) ++i;
      }
    }
  }
  WEIR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(dtype(), Shape({builder.count()})));
  WithNumericType(dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    for (size_t i = 0; i < from.size(); ++i) {
      const auto value = [](const CsrMatrix& of, int64_t at) {
        return at < 0 ? T(0) : of.values().flat<T>()[at];
      };
      sums.flat<T>()[i] = static_cast<T>(value(*this, from[i].first) + value(*matrix, from[i].second));
    }
  });
  WEIR_ASSIGN_OR_RETURN(RefPtr<CsrMatrix> sum, builder.Build(std::move(sums), context.allocator()));
  return RefPtr<VariantValue>(std::move(sum));
}

absl::Status TooManyElements(int64_t count) {
  return absl::InvalidArgumentError(absl::StrCat("there must be at most Int32Max elements, not ", count));
}

absl::StatusOr<CsrBuilder> CsrBuilder::Create(const Shape& shape) {
  if (shape.rank() != 2 && shape.rank() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("SparseTensor must have rank 2 or 3; but indices has rank: ", shape.rank()));
  }
  const int64_t batch = shape.rank() == 3 ? shape.dim(0) : 1, rows = shape.dim(shape.rank() - 2);
  if (batch >= kMost) {
    return absl::InvalidArgumentError(absl::StrCat("batch_size must be < Int32Max, but is ", batch));
  }
  if (rows >= kMost || batch * (rows + 1) > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("csr row index size of the shape ", shape.ToString(),
                                                   " must be <= Int32Max: batch_size * (rows + 1)"));
  }
  if (shape.dim(shape.rank() - 1) > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("there must be at most Int32Max columns, shape is ", shape.ToString()));
  }
  return CsrBuilder(shape);
}

void CsrBuilder::Add(int64_t batch, int64_t row, int64_t column) {
  const int64_t all_rows = batch * shape_.dim(shape_.rank() - 2) + row;
  if (row_counts_.empty() || row_counts_.back().first != all_rows) row_counts_.emplace_back(all_rows, 0);
  ++row_counts_.back().second;
  columns_.push_back(static_cast<int32_t>(column));
}

absl::StatusOr<RefPtr<CsrMatrix>> CsrBuilder::Build(Tensor values, Allocator& allocator) const {
  if (count() > kMost) return TooManyElements(count());
  const int64_t batch = shape_.rank() == 3 ? shape_.dim(0) : 1, rows = shape_.dim(shape_.rank() - 2);
  WEIR_ASSIGN_OR_RETURN(Tensor row_ends,
                        Tensor::Allocate(DType::kInt32, Shape({batch * (rows + 1)}), allocator));
  WEIR_ASSIGN_OR_RETURN(Tensor columns, Tensor::Allocate(DType::kInt32, Shape({count()}), allocator));
  std::copy(columns_.begin(), columns_.end(), columns.flat<int32_t>().begin());
  auto next = row_counts_.begin();
  for (int64_t b = 0; b < batch; ++b) {
    int32_t* const ends = row_ends.flat<int32_t>().data() + b * (rows + 1);
    ends[0] = 0;
    for (int64_t row = 0; row < rows; ++row) {
      ends[row + 1] = ends[row];
      if (next == row_counts_.end() || next->first != b * rows + row) continue;
      ends[row + 1] += static_cast<int32_t>(next->second);
      ++next;
    }
  }
  return CsrMatrix::Create(shape_, std::move(row_ends), std::move(columns), std::move(values), allocator);
}

}  // namespace weir
