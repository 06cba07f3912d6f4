// Shapes of tensors: Shape is fully known, PartialShape may lack dimensions or even the rank.
//
// Both are values, safe to copy and to read concurrently. Dimensions are counted in elements.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace weir {

using Dims = absl::InlinedVector<int64_t, 4>;

// Invariants: every dimension is >= 0 and the product of the non-zero dimensions fits in int64_t; kept by
// FromDims (hostile input) and asserted by the constructors (our own code).
class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : Shape(absl::MakeConstSpan(dims.begin(), dims.size())) {}
  explicit Shape(absl::Span<const int64_t> dims);

  // InvalidArgument for a negative dimension or an element count that overflows int64_t.
  static absl::StatusOr<Shape> FromDims(absl::Span<const int64_t> dims);

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int index) const { return dims_[index]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  int64_t num_elements() const { return num_elements_; }
  bool is_scalar() const { return dims_.empty(); }

  std::string ToString() const;  // "[32,784]", "[]"

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }

 private:
  Dims dims_;
  int64_t num_elements_ = 1;
};

class PartialShape {
 public:
  static constexpr int64_t kUnknownDim = -1;

  PartialShape() = default;  // unknown rank
  PartialShape(std::initializer_list<int64_t> dims) : dims_(dims), has_rank_(true) {}
  PartialShape(const Shape& shape) : dims_(shape.dims().begin(), shape.dims().end()), has_rank_(true) {}

  // -1 marks an unknown dimension. InvalidArgument for dims < -1 or a known element count that overflows.
  static absl::StatusOr<PartialShape> FromDims(absl::Span<const int64_t> dims);
  static PartialShape OfRank(int rank);

  bool has_rank() const { return has_rank_; }
  int rank() const { return has_rank_ ? static_cast<int>(dims_.size()) : -1; }
  int64_t dim(int index) const { return dims_[index]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  bool is_fully_known() const;

  // Precondition: is_fully_known().
  Shape ToShape() const;

  // True when some fully known shape could be both.
  bool IsCompatibleWith(const PartialShape& other) const;

  // All that either knows; InvalidArgument naming both shapes when they contradict each other.
  absl::StatusOr<PartialShape> MergeWith(const PartialShape& other) const;

  std::string ToString() const;  // "[?,784]", "?" for an unknown rank

  friend bool operator==(const PartialShape& a, const PartialShape& b) {
    return a.has_rank_ == b.has_rank_ && a.dims_ == b.dims_;
  }

 private:
  Dims dims_;
  bool has_rank_ = false;
};

// a * b for element and byte counts; false when either is negative or the product overflows.
bool MultiplyWithoutOverflow(int64_t a, int64_t b, int64_t* product);

std::ostream& operator<<(std::ostream& out, const Shape& shape);
std::ostream& operator<<(std::ostream& out, const PartialShape& shape);

}  // namespace weir
