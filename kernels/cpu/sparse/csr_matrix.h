// A variant that is a batch of sparse matrices in compressed rows: which elements of which columns each row
// has.
//
// Immutable; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/allocator.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/cpu/data_flow/variant_value.h"

namespace weir {

class CsrMatrix final : public VariantValue {
 public:
  static constexpr char kTypeName[] = "CSRSparseMatrix";

  // Of `shape`, [rows, columns] or [batch, rows, columns]: `row_ends` is int32 [batch * (rows + 1)], where
  // the elements of each row begin, and where the last ones end, counted from the first one of the matrix.
  // `columns` is int32 [elements], `values` [elements]. Preconditions: they fit each other; matrices, their
  // rows and the number of elements are int32, columns too.
  // ResourceExhausted where there is no room for the matrices' begins.
  static absl::StatusOr<RefPtr<CsrMatrix>> Create(const Shape& shape, Tensor row_ends, Tensor columns,
                                                  Tensor values, Allocator& allocator);
  // Of what Create makes. `begins` is int64 [batch + 1].
  CsrMatrix(Shape shape, Tensor begins, Tensor row_ends, Tensor columns, Tensor values);

  std::string ToString() const override;
  int depth() const override { return 1; }
  // Without elements, as in TensorFlow.
  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext& context) const override;
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other, KernelContext& context) const override;

  const Shape& shape() const { return shape_; }
  DType dtype() const { return values_.dtype(); }
  int64_t batch() const { return shape_.rank() == 3 ? shape_.dim(0) : 1; }
  int64_t rows() const { return shape_.dim(shape_.rank() - 2); }
  int64_t num_columns() const { return shape_.dim(shape_.rank() - 1); }
  const Tensor& values() const { return values_; }
  const Tensor& columns() const { return columns_; }
  const Tensor& row_ends() const { return row_ends_; }

  // Matrix `index`: where its elements begin, their number, and the rows + 1 ends.
  int64_t begin(int64_t index) const { return begins_.flat<int64_t>()[index]; }
  int64_t count(int64_t index) const { return begin(index + 1) - begin(index); }
  const int32_t* ends(int64_t index) const { return row_ends_.flat<int32_t>().data() + index * (rows() + 1); }

 private:
  const Shape shape_;
  const Tensor begins_;  // of each matrix, and the end of the last one
  const Tensor row_ends_, columns_, values_;
};

absl::Status TooManyElements(int64_t count);  // the error that a matrix of so many is refused with

// Takes elements of a new matrix, row by row and batch by batch. Not thread safe.
class CsrBuilder {
 public:
  // InvalidArgument for a shape that is no batch of matrices, or is too large.
  static absl::StatusOr<CsrBuilder> Create(const Shape& shape);

  // Preconditions: inside of the shape, and in a row that is not before that of the element before.
  void Add(int64_t batch, int64_t row, int64_t column);
  int64_t count() const { return static_cast<int64_t>(columns_.size()); }
  // InvalidArgument when there are too many elements. Precondition: `values` has count() of them.
  absl::StatusOr<RefPtr<CsrMatrix>> Build(Tensor values, Allocator& allocator) const;

 private:
  explicit CsrBuilder(const Shape& shape) : shape_(shape) {}

  Shape shape_;
  std::vector<int32_t> columns_;
  std::vector<std::pair<int64_t, int64_t>>
      row_counts_;  // rows that have elements, in all matrices, and how many
};

}  // namespace weir
