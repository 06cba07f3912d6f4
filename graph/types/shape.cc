#include "graph/types/shape.h"

#include <algorithm>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {
namespace {

// The product of the known dimensions; false when a dimension is invalid or the product overflows. A zero
// dimension does not hide an overflow of the others: code may multiply any subset of them.
bool CountElements(absl::Span<const int64_t> dims, bool allow_unknown, int64_t* count) {
  int64_t product = 1;
  bool has_zero = false;
  for (int64_t dim : dims) {
    if (dim == PartialShape::kUnknownDim && allow_unknown) continue;
    if (dim < 0) return false;
    if (dim == 0) {
      has_zero = true;
    } else if (!MultiplyWithoutOverflow(product, dim, &product)) {
      return false;
    }
  }
  *count = has_zero ? 0 : product;
  return true;
}

std::string DimsToString(absl::Span<const int64_t> dims) {
  return absl::StrCat("[",
                      absl::StrJoin(dims, ",",
                                    [](std::string* out, int64_t dim) {
                                      if (dim == PartialShape::kUnknownDim) {
                                        out->append("?");
                                      } else {
                                        absl::StrAppend(out, dim);
                                      }
                                    }),
                      "]");
}

absl::Status BadDims(absl::Span<const int64_t> dims) {
  return absl::InvalidArgumentError(
      absl::StrCat("no shape has the dimensions [", absl::StrJoin(dims, ","),
                   "]: each must be at least 0 and their product must fit in 63 bits"));
}

}  // namespace

bool MultiplyWithoutOverflow(int64_t a, int64_t b, int64_t* product) {
  return a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, product);
}

Shape::Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {
  // Only dimensions that our own code computed from valid shapes come here; input goes through FromDims.
  if (!CountElements(dims, /*allow_unknown=*/false, &num_elements_)) std::abort();
}

absl::StatusOr<Shape> Shape::FromDims(absl::Span<const int64_t> dims) {
  int64_t count = 0;
  if (!CountElements(dims, /*allow_unknown=*/false, &count)) return BadDims(dims);
  return Shape(dims);
}

std::string Shape::ToString() const { return DimsToString(dims_); }

absl::StatusOr<PartialShape> PartialShape::FromDims(absl::Span<const int64_t> dims) {
  int64_t count = 0;
  if (!CountElements(dims, /*allow_unknown=*/true, &count)) return BadDims(dims);
  PartialShape result;
  result.dims_.assign(dims.begin(), dims.end());
  result.has_rank_ = true;
  return result;
}

PartialShape PartialShape::OfRank(int rank) {
  PartialShape result;
  result.dims_.assign(rank, kUnknownDim);
  result.has_rank_ = true;
  return result;
}

bool PartialShape::is_fully_known() const {
  return has_rank_ && std::find(dims_.begin(), dims_.end(), kUnknownDim) == dims_.end();
}

Shape PartialShape::ToShape() const { return Shape(dims()); }

bool PartialShape::IsCompatibleWith(const PartialShape& other) const {
  if (!has_rank_ || !other.has_rank_) return true;
  if (dims_.size() != other.dims_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i) {
    const bool known = dims_[i] != kUnknownDim && other.dims_[i] != kUnknownDim;
    if (known && dims_[i] != other.dims_[i]) return false;
  }
  return true;
}

absl::StatusOr<PartialShape> PartialShape::MergeWith(const PartialShape& other) const {
  if (!IsCompatibleWith(other)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shapes ", ToString(), " and ", other.ToString(), " contradict each other"));
  }
  if (!has_rank_) return other;
  PartialShape merged = *this;
  if (!other.has_rank_) return merged;
  for (size_t i = 0; i < dims_.size(); ++i) merged.dims_[i] = std::max(dims_[i], other.dims_[i]);
  return FromDims(merged.dims_);  // together they may have too many elements
}

std::string PartialShape::ToString() const { return has_rank_ ? DimsToString(dims_) : "?"; }

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.ToString(); }
std::ostream& operator<<(std::ostream& out, const PartialShape& shape) { return out << shape.ToString(); }

}  // namespace weir
