// Variants that are sparse matrices in compressed rows: made of sparse tensors and of dense ones, given back
// as these, transposed and multiplied.
#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/sparse/csr_matrix.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 2;  // nanoseconds of an element on one core

float Conjugate(float x) { return x; }
double Conjugate(double x) { return x; }
template <typename T>
std::complex<T> Conjugate(std::complex<T> x) {
  return std::conj(x);
}

// The matrix of input `index`, whose elements are to be of that dtype.
absl::StatusOr<const CsrMatrix*> ReadMatrix(const KernelContext& context, int index, DType dtype) {
  WEIR_ASSIGN_OR_RETURN(const CsrMatrix* matrix, VariantInput<CsrMatrix>(context, index));
  if (matrix->dtype() == dtype) return matrix;
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype of input is not equal to 'type': ", DTypeName(matrix->dtype()), " vs. ", DTypeName(dtype)));
}

// ---- From indices ----

// The matrix of `shape` that has elements at `indices` [count, rank], in the order of its rows. `values`
// gives them.
absl::StatusOr<RefPtr<CsrMatrix>> FromIndices(KernelContext& context, const Tensor& indices,
                                              const Shape& shape, Tensor values) {
  WEIR_ASSIGN_OR_RETURN(CsrBuilder builder, CsrBuilder::Create(shape));
  const int rank = shape.rank();
  const absl::Span<const int64_t> all = indices.flat<int64_t>();
  std::pair<int64_t, int64_t> last = {0, 0};
  for (int64_t i = 0; i < indices.shape().dim(0); ++i) {
    const absl::Span<const int64_t> at = all.subspan(i * rank, rank);
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("Sparse index tuple indices[", i, ", :] = [", absl::StrJoin(at, ", "), "] is ", what));
    };
    for (int k = 0; k < rank; ++k)
      if (at[k] < 0 || at[k] >= shape.dim(k))
        return wrong(absl::StrCat("out of bounds of ", shape.ToString()));
    const std::pair<int64_t, int64_t> row = {rank == 3 ? at[0] : 0, at[rank - 2]};
    if (row < last) return wrong("out of order: its row is before that of the index before");
    last = row;
    builder.Add(row.first, row.second, at[rank - 1]);
  }
  return builder.Build(std::move(values), context.allocator());
}

absl::Status SetMatrix(KernelContext& context, absl::StatusOr<RefPtr<CsrMatrix>> matrix) {
  WEIR_RETURN_IF_ERROR(matrix.status());
  context.set_output(0, VariantOf(*std::move(matrix)));
  return absl::OkStatus();
}

// A tensor with elements of its own: those of an input may be written to by who takes it over.
absl::StatusOr<Tensor> CopyOf(KernelContext& context, const Tensor& tensor) {
  WEIR_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(tensor.dtype(), tensor.shape(), context.allocator()));
  std::copy_n(static_cast<const char*>(tensor.data()), tensor.num_bytes(), static_cast<char*>(copy.data()));
  return copy;
}

absl::Status CheckIndices(const Tensor& indices) {
  if (indices.shape().rank() == 2) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("indices must be rank 2, is ", indices.shape().ToString()));
}

absl::Status FromSparseTensor(KernelContext& context) {
  const Tensor &indices = context.input(0), &values = context.input(1), &dims = context.input(2);
  WEIR_RETURN_IF_ERROR(CheckIndices(indices));
  if (values.shape().rank() != 1)
    return absl::InvalidArgumentError(absl::StrCat("values must be rank 1, is ", values.shape().ToString()));
  if (dims.shape().rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("dense_shape must be rank 1, is ", dims.shape().ToString()));
  }
  if (indices.shape().dim(1) != dims.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Index rank (", indices.shape().dim(1), ") and shape rank (", dims.num_elements(), ") do not match"));
  }
  if (indices.shape().dim(0) != values.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("Number of elements in indices (", indices.shape().dim(0),
                                                   ") and values (", values.num_elements(),
                                                   ") do not match"));
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(dims, "dense_shape"));
  WEIR_ASSIGN_OR_RETURN(Tensor own, CopyOf(context, values));
  return SetMatrix(context, FromIndices(context, indices, shape, std::move(own)));
}

template <typename T>
class FromDense final : public Kernel {
 public:
  explicit FromDense(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &dense = context.input(0), &indices = context.input(1);
    WEIR_RETURN_IF_ERROR(CheckIndices(indices));
    const int rank = dense.shape().rank();
    if (indices.shape().dim(1) != rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("Index rank (", indices.shape().dim(1), ") and shape rank (", rank, ") do not match"));
    }
    WEIR_RETURN_IF_ERROR(
        CsrBuilder::Create(dense.shape()).status());  // before there are values of any number
    const int64_t count = indices.shape().dim(0);
    WEIR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(DTypeOf<T>, Shape({count}), context.allocator()));
    const absl::Span<T> own = values.flat<T>();
    std::fill(own.begin(), own.end(), T(0));
    // Indices outside are refused by FromIndices.
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0;
      bool is_inside = true;
      for (int k = 0; k < rank; ++k) {
        const int64_t index = indices.flat<int64_t>()[i * rank + k];
        is_inside = is_inside && index >= 0 && index < dense.shape().dim(k);
        if (is_inside) at = at * dense.shape().dim(k) + index;
      }
      if (is_inside) own[i] = dense.flat<T>()[at];
    }
    return SetMatrix(context, FromIndices(context, indices, dense.shape(), std::move(values)));
  }
};

// ---- Back ----

// Calls visit(batch, row, place of the element).
template <typename Visit>
void ForEachElement(const CsrMatrix& matrix, const Visit& visit) {
  for (int64_t b = 0; b < matrix.batch(); ++b) {
    for (int64_t row = 0; row < matrix.rows(); ++row) {
      for (int64_t i = matrix.ends(b)[row]; i < matrix.ends(b)[row + 1]; ++i)
        visit(b, row, matrix.begin(b) + i);
    }
  }
}

class ToSparseTensor final : public Kernel {
 public:
  explicit ToSparseTensor(const KernelConstruction& construction)
      : dtype_(construction.attr<DType>("type")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const CsrMatrix* matrix, ReadMatrix(context, 0, dtype_));
    const int rank = matrix->shape().rank();
    const int64_t count = matrix->values().num_elements();
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, Shape({count, rank})));
    int64_t* next = indices->flat<int64_t>().data();
    ForEachElement(*matrix, [&](int64_t batch, int64_t row, int64_t at) {
      if (rank == 3) *next++ = batch;
      *next++ = row;
      *next++ = matrix->columns().flat<int32_t>()[at];
    });
    context.set_output(1, matrix->values());
    WEIR_ASSIGN_OR_RETURN(Tensor * shape, context.AllocateOutput(2, Shape({rank})));
    WriteIntegers(matrix->shape().dims(), *shape);
    return absl::OkStatus();
  }

 private:
  const DType dtype_;
};

// Of elements at one place the last one counts.
template <typename T>
class ToDense final : public Kernel {
 public:
  explicit ToDense(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const CsrMatrix* matrix, ReadMatrix(context, 0, DTypeOf<T>));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, matrix->shape()));
    const absl::Span<T> dense = output->flat<T>();
    std::fill(dense.begin(), dense.end(), T(0));
    ForEachElement(*matrix, [&](int64_t batch, int64_t row, int64_t at) {
      const int64_t column = matrix->columns().flat<int32_t>()[at];
      dense[(batch * matrix->rows() + row) * matrix->num_columns() + column] = matrix->values().flat<T>()[at];
    });
    return absl::OkStatus();
  }
};

template <typename T>
class Components final : public Kernel {
 public:
  explicit Components(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const CsrMatrix* matrix, ReadMatrix(context, 0, DTypeOf<T>));
    if (!context.input(1).shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("index should be a scalar, is ", context.input(1).shape().ToString()));
    }
    const int64_t index = context.input(1).scalar<int32_t>();
    if (index < 0 || index >= matrix->batch()) {
      return absl::InvalidArgumentError(
          absl::StrCat("index (", index, ") not in [0, ", matrix->batch(), ")"));
    }
    const int64_t count = matrix->count(index), begin = matrix->begin(index);
    WEIR_ASSIGN_OR_RETURN(Tensor * ends, context.AllocateOutput(0, Shape({matrix->rows() + 1})));
    std::copy_n(matrix->ends(index), matrix->rows() + 1, ends->flat<int32_t>().data());
    WEIR_ASSIGN_OR_RETURN(Tensor * columns, context.AllocateOutput(1, Shape({count})));
    std::copy_n(matrix->columns().flat<int32_t>().data() + begin, count, columns->flat<int32_t>().data());
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(2, Shape({count})));
    std::copy_n(matrix->values().flat<T>().data() + begin, count, values->flat<T>().data());
    return absl::OkStatus();
  }
};

absl::Status CountElements(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const CsrMatrix* matrix, VariantInput<CsrMatrix>(context, 0));
  const Shape shape = matrix->shape().rank() == 3 ? Shape({matrix->batch()}) : Shape();
  WEIR_ASSIGN_OR_RETURN(Tensor * counts, context.AllocateOutput(0, shape));
  for (int64_t b = 0; b < matrix->batch(); ++b)
    counts->flat<int32_t>()[b] = static_cast<int32_t>(matrix->count(b));
  return absl::OkStatus();
}

// ---- Transposed ----

// Elements of a row keep the order of the rows they were in.
template <typename T>
absl::StatusOr<RefPtr<CsrMatrix>> Transposed(KernelContext& context, const CsrMatrix& matrix,
                                             bool conjugates) {
  Dims dims(matrix.shape().dims().begin(), matrix.shape().dims().end());
  std::swap(dims[dims.size() - 2], dims.back());
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(CsrBuilder builder, CsrBuilder::Create(shape));
  const int64_t count = matrix.values().num_elements();
  WEIR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(DTypeOf<T>, Shape({count}), context.allocator()));
  // Batch, row, column and place of each element.
  std::vector<std::array<int64_t, 4>> elements;
  elements.reserve(count);
  ForEachElement(matrix, [&](int64_t batch, int64_t row, int64_t at) {
    elements.push_back({batch, matrix.columns().flat<int32_t>()[at], row, at});
  });
  std::sort(elements.begin(), elements.end());
  int64_t next = 0;
  for (const auto& [batch, row, column, at] : elements) {
    builder.Add(batch, row, column);
    const T value = matrix.values().flat<T>()[at];
    values.flat<T>()[next++] = conjugates ? Conjugate(value) : value;
  }
  return builder.Build(std::move(values), context.allocator());
}

template <typename T>
class Transpose final : public Kernel {
 public:
  explicit Transpose(const KernelConstruction& construction)
      : conjugates_(construction.attr<bool>("conjugate")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const CsrMatrix* matrix, ReadMatrix(context, 0, DTypeOf<T>));
    return SetMatrix(context, Transposed<T>(context, *matrix, conjugates_));
  }

 private:
  const bool conjugates_;
};

// ---- Products ----

// Asks now and then whether the step is over.
class Steps {
 public:
  explicit Steps(const Cancellation& cancellation) : cancellation_(cancellation) {}
  bool IsCancelled() { return (++count_ & 0xffff) == 0 && cancellation_.is_cancelled(); }

 private:
  const Cancellation& cancellation_;
  int64_t count_ = 0;
};

// How the operands of a product are taken.
struct ProductOptions {
  static absl::StatusOr<ProductOptions> Read(const KernelConstruction& construction) {
    ProductOptions options = {construction.attr<bool>("transpose_a"), construction.attr<bool>("transpose_b"),
                              construction.attr<bool>("adjoint_a"), construction.attr<bool>("adjoint_b")};
    for (const bool is_a : {true, false}) {
      const bool transposes = is_a ? options.transpose_a : options.transpose_b;
      const bool adjoins = is_a ? options.adjoint_a : options.adjoint_b;
      if (!transposes || !adjoins) continue;
      const absl::string_view name = is_a ? "a" : "b";
      return absl::InvalidArgumentError(
          absl::StrCat("Only one of adjoint_", name, " and transpose_", name, " may be true."));
    }
    return options;
  }
  bool turns_a() const { return transpose_a || adjoint_a; }
  bool turns_b() const { return transpose_b || adjoint_b; }

  bool transpose_a, transpose_b, adjoint_a, adjoint_b;
};

absl::Status CheckBatches(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Ranks of a and b must match, saw: ", a.rank(), " vs. ", b.rank(), "."));
  }
  if (a.rank() < 3 || a.dim(0) == b.dim(0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Batch sizes of a and b must match, saw: ", a.dim(0), " vs. ", b.dim(0), "."));
}

absl::Status DifferentInner(const Shape& a, const Shape& b) {
  return absl::InvalidArgumentError(absl::StrCat(
      "Inner product dimensions of A and B do not agree. Shapes are: ", a.ToString(), " vs. ", b.ToString()));
}

// A sparse matrix and a dense one, as a dense one.
template <typename T>
class TimesDense final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const ProductOptions options, ProductOptions::Read(construction));
    return std::make_unique<TimesDense>(construction, options);
  }

  TimesDense(const KernelConstruction& construction, const ProductOptions& options)
      : options_(options),
        transposes_output_(construction.attr<bool>("transpose_output")),
        conjugates_output_(construction.attr<bool>("conjugate_output")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const CsrMatrix* a, ReadMatrix(context, 0, DTypeOf<T>));
    const Tensor& b = context.input(1);
    WEIR_RETURN_IF_ERROR(CheckBatches(a->shape(), b.shape()));
    const int rank = b.shape().rank();
    const int64_t b_rows = b.shape().dim(rank - 2), b_columns = b.shape().dim(rank - 1);
    const int64_t inner = options_.turns_a() ? a->rows() : a->num_columns();
    if (inner != (options_.turns_b() ? b_columns : b_rows)) return DifferentInner(a->shape(), b.shape());
    const int64_t rows = options_.turns_a() ? a->num_columns() : a->rows();
    const int64_t columns = options_.turns_b() ? b_rows : b_columns;
    Dims dims = {rows, columns};
    if (transposes_output_) std::swap(dims[0], dims[1]);
    if (rank == 3) dims.insert(dims.begin(), a->batch());
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    const absl::Span<T> result = output->flat<T>();
    std::fill(result.begin(), result.end(), T(0));
    const double cost = kCost * static_cast<double>(a->values().num_elements()) *
                        static_cast<double>(columns) / static_cast<double>(std::max<int64_t>(a->batch(), 1));
    context.threads().ParallelFor(a->batch(), cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Multiply(context.cancellation(), *a, i, b.flat<T>().data() + i * b_rows * b_columns, b_columns,
                 columns, result.data() + i * rows * columns, rows);
      }
    });
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    if (conjugates_output_)
      std::transform(result.begin(), result.end(), result.begin(), [](T x) { return Conjugate(x); });
    return absl::OkStatus();
  }

 private:
  void Multiply(const Cancellation& cancellation, const CsrMatrix& a, int64_t index, const T* b,
                int64_t b_columns, int64_t columns, T* result, int64_t rows) const {
    for (int64_t r = 0; r < a.rows(); ++r) {
      for (int64_t i = a.ends(index)[r]; i < a.ends(index)[r + 1]; ++i) {
        const int64_t at = a.begin(index) + i, c = a.columns().flat<int32_t>()[at];
        const int64_t row = options_.turns_a() ? c : r, inner = options_.turns_a() ? r : c;
        const T plain = a.values().flat<T>()[at], factor = options_.adjoint_a ? Conjugate(plain) : plain;
        if (cancellation.is_cancelled()) return;
        for (int64_t k = 0; k < columns; ++k) {
          const T other = b[options_.turns_b() ? k * b_columns + inner : inner * b_columns + k];
          T& to = result[transposes_output_ ? k * rows + row : row * columns + k];
          to += factor * (options_.adjoint_b ? Conjugate(other) : other);
        }
      }
    }
  }

  const ProductOptions options_;
  const bool transposes_output_, conjugates_output_;
};

// Two sparse matrices, row by row (Gustavson, "Two fast algorithms for sparse matrices", 1978). Columns of a
// row of the product are in order; elements that come out as 0 stay.
template <typename T>
class TimesSparse final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const ProductOptions options, ProductOptions::Read(construction));
    return std::make_unique<TimesSparse>(options);
  }

  explicit TimesSparse(const ProductOptions& options) : options_(options) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const CsrMatrix* given_a, ReadMatrix(context, 0, DTypeOf<T>));
    WEIR_ASSIGN_OR_RETURN(const CsrMatrix* given_b, ReadMatrix(context, 1, DTypeOf<T>));
    WEIR_RETURN_IF_ERROR(CheckBatches(given_a->shape(), given_b->shape()));
    RefPtr<CsrMatrix> turned_a, turned_b;
    if (options_.turns_a()) {
      WEIR_ASSIGN_OR_RETURN(turned_a, Transposed<T>(context, *given_a, options_.adjoint_a));
    }
    if (options_.turns_b()) {
      WEIR_ASSIGN_OR_RETURN(turned_b, Transposed<T>(context, *given_b, options_.adjoint_b));
    }
    const CsrMatrix& a = options_.turns_a() ? *turned_a : *given_a;
    const CsrMatrix& b = options_.turns_b() ? *turned_b : *given_b;
    if (a.num_columns() != b.rows()) return DifferentInner(a.shape(), b.shape());
    Dims dims = {a.rows(), b.num_columns()};
    if (a.shape().rank() == 3) dims.insert(dims.begin(), a.batch());
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    return SetMatrix(context, Multiply(context, a, b, shape));
  }

 private:
  // What a row of the product needs: sums of its columns, and which columns it has.
  struct Room {
    absl::Span<T> sums;
    absl::Span<bool> is_there;
    absl::Span<int32_t> columns;  // in the order in which they were found
  };

  // Rows are gone through twice: elements are counted before there is memory for them.
  static absl::StatusOr<RefPtr<CsrMatrix>> Multiply(KernelContext& context, const CsrMatrix& a,
                                                    const CsrMatrix& b, const Shape& shape) {
    WEIR_RETURN_IF_ERROR(CsrBuilder::Create(shape).status());
    Allocator& allocator = context.allocator();
    const Shape row({b.num_columns()});
    WEIR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(DTypeOf<T>, row));
    WEIR_ASSIGN_OR_RETURN(Tensor marks, context.AllocateTemporary(DType::kBool, row));
    WEIR_ASSIGN_OR_RETURN(Tensor found, context.AllocateTemporary(DType::kInt32, row));
    const Room room = {sums.flat<T>(), marks.flat<bool>(), found.flat<int32_t>()};
    std::fill(room.is_there.begin(), room.is_there.end(), false);
    WEIR_ASSIGN_OR_RETURN(Tensor row_ends,
                          Tensor::Allocate(DType::kInt32, Shape({a.batch() * (a.rows() + 1)}), allocator));
    int64_t count = 0;
    WEIR_RETURN_IF_ERROR(
        ForEachRow(context.cancellation(), a, b, room, [&](int64_t batch, int64_t r, int64_t n) {
          count += n;
          if (count > std::numeric_limits<int32_t>::max()) return TooManyElements(count);
          int32_t* const ends = row_ends.flat<int32_t>().data() + batch * (a.rows() + 1);
          if (r == 0) ends[0] = 0;
          ends[r + 1] = ends[r] + static_cast<int32_t>(n);
          return absl::OkStatus();
        }));
    if (a.rows() == 0) std::fill_n(row_ends.flat<int32_t>().data(), row_ends.num_elements(), 0);
    WEIR_ASSIGN_OR_RETURN(Tensor columns, Tensor::Allocate(DType::kInt32, Shape({count}), allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(DTypeOf<T>, Shape({count}), allocator));
    int32_t* next_column = columns.flat<int32_t>().data();
    T* next_value = values.flat<T>().data();
    WEIR_RETURN_IF_ERROR(ForEachRow(context.cancellation(), a, b, room, [&](int64_t, int64_t, int64_t n) {
      std::sort(room.columns.begin(), room.columns.begin() + n);
      for (const int32_t column : room.columns.first(n)) {
        *next_column++ = column;
        *next_value++ = room.sums[column];
      }
      return absl::OkStatus();
    }));
    return CsrMatrix::Create(shape, std::move(row_ends), std::move(columns), std::move(values), allocator);
  }

  // Calls visit(batch, row, elements of the row) when `room` holds a row's columns and sums.
  template <typename Visit>
  static absl::Status ForEachRow(const Cancellation& cancellation, const CsrMatrix& a, const CsrMatrix& b,
                                 const Room& room, const Visit& visit) {
    for (int64_t batch = 0; batch < a.batch(); ++batch) {
      for (int64_t row = 0; row < a.rows(); ++row) {
        WEIR_ASSIGN_OR_RETURN(const int64_t count, MultiplyRow(cancellation, a, b, batch, row, room));
        WEIR_RETURN_IF_ERROR(visit(batch, row, count));
        for (const int32_t column : room.columns.first(count)) room.is_there[column] = false;
      }
    }
    return absl::OkStatus();
  }

  // Into `room`; the number of columns.
  static absl::StatusOr<int64_t> MultiplyRow(const Cancellation& cancellation, const CsrMatrix& a,
                                             const CsrMatrix& b, int64_t batch, int64_t row,
                                             const Room& room) {
    // An element may be there any number of times, so one row may be most of the work.
    Steps steps(cancellation);
    if (cancellation.is_cancelled()) return cancellation.reason();
    int64_t count = 0;
    for (int64_t i = a.ends(batch)[row]; i < a.ends(batch)[row + 1]; ++i) {
      const int64_t at = a.begin(batch) + i, inner = a.columns().flat<int32_t>()[at];
      for (int64_t j = b.ends(batch)[inner]; j < b.ends(batch)[inner + 1]; ++j) {
        if (steps.IsCancelled()) return cancellation.reason();
        const int64_t other = b.begin(batch) + j;
        const int32_t column = b.columns().flat<int32_t>()[other];
        if (!room.is_there[column]) {
          room.is_there[column] = true;
          room.sums[column] = T(0);
          room.columns[count++] = column;
        }
        room.sums[column] += a.values().flat<T>()[at] * b.values().flat<T>()[other];
      }
    }
    return count;
  }

  const ProductOptions options_;
};

}  // namespace

void RegisterCsrMatricesKernels(DeviceKernels& kernels) {
  using Single = std::complex<float>;
  using Double = std::complex<double>;
  const std::vector<DType> all = {DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};
  kernels.Add<&FromSparseTensor>("SparseTensorToCSRSparseMatrix", {{"T", all}});
  kernels.Add<FromDense>("DenseToCSRSparseMatrix", Types<float, double, Single, Double>("T"));
  kernels.Add<ToSparseTensor>("CSRSparseMatrixToSparseTensor", {{"type", all}});
  kernels.Add<ToDense>("CSRSparseMatrixToDense", Types<float, double, Single, Double>("type"));
  kernels.Add<Components>("CSRSparseMatrixComponents", Types<float, double, Single, Double>("type"));
  kernels.Add<&CountElements>("SparseMatrixNNZ");
  kernels.Add<Transpose>("SparseMatrixTranspose", Types<float, double, Single, Double>("type"));
  kernels.Add<TimesDense>("SparseMatrixMatMul", Types<float, double, Single, Double>("T"));
  kernels.Add<TimesSparse>("SparseMatrixSparseMatMul", Types<float, double, Single, Double>("type"));
}

}  // namespace weir
