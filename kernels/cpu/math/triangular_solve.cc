// MatrixTriangularSolve: x of A x = b for triangular matrices A, by substitution, row after row.
#include <algorithm>
#include <complex>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/broadcast_batch.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 0.5;  // nanoseconds of a multiplication and an addition on one core

// A triangular matrix [rows, rows] and which of its triangles is read; the other one may hold anything. The
// adjoint of a lower triangle is an upper one.
template <typename T>
struct Triangle {
  T At(int64_t i, int64_t j) const {
    return is_adjoint ? elementwise::Conj()(data[j * rows + i]) : data[i * rows + j];
  }

  const T* data;
  int64_t rows;
  bool is_lower, is_adjoint;
};

// x holds b [rows, columns] and becomes the solution. A zero on the diagonal gives infinities and NaN. It
// leaves off when the step is cancelled.
template <typename T>
void Substitute(const Triangle<T>& a, int64_t columns, T* x, const Cancellation& cancellation) {
  const bool goes_down = a.is_lower != a.is_adjoint;
  for (int64_t step = 0; step < a.rows && !cancellation.is_cancelled(); ++step) {
    const int64_t i = goes_down ? step : a.rows - 1 - step;
    T* const row = x + i * columns;
    for (int64_t known = 0; known < step; ++known) {
      const int64_t j = goes_down ? known : a.rows - 1 - known;
      const T factor = a.At(i, j);
      for (int64_t c = 0; c < columns; ++c) row[c] -= factor * x[j * columns + c];
    }
    const T diagonal = a.At(i, i);
    for (int64_t c = 0; c < columns; ++c) row[c] /= diagonal;
  }
}

template <typename T>
class MatrixTriangularSolve final : public Kernel {
 public:
  explicit MatrixTriangularSolve(const KernelConstruction& construction)
      : is_lower_(construction.attr<bool>("lower")), is_adjoint_(construction.attr<bool>("adjoint")) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    const Shape &a_shape = context.input(0).shape(), &b_shape = context.input(1).shape();
    WEIR_ASSIGN_OR_RETURN(const Shape batch, CheckShapes(a_shape, b_shape));
    const int64_t rows = a_shape.dim(a_shape.rank() - 1), columns = b_shape.dim(b_shape.rank() - 1);
    Dims dims(batch.dims().begin(), batch.dims().end());
    dims.insert(dims.end(), {rows, columns});
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(const Tensor a, Widen(context, context.input(0)));
    WEIR_ASSIGN_OR_RETURN(const Tensor b, Widen(context, context.input(1)));
    WEIR_ASSIGN_OR_RETURN(Tensor x, WideOutput(context, *output));
    const BroadcastBatch of_a(BatchOf(a_shape), batch), of_b(BatchOf(b_shape), batch);
    const double cost =
        kCost / 2 * static_cast<double>(rows) * static_cast<double>(rows) * static_cast<double>(columns);
    context.threads().ParallelFor(batch.num_elements(), cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !context.cancellation().is_cancelled(); ++i) {
        const Wide* const from = b.flat<Wide>().data() + of_b.MatrixOf(i) * rows * columns;
        Wide* const to = x.flat<Wide>().data() + i * rows * columns;
        std::copy_n(from, rows * columns, to);
        const Wide* const matrix = a.flat<Wide>().data() + of_a.MatrixOf(i) * rows * rows;
        Substitute<Wide>({matrix, rows, is_lower_, is_adjoint_}, columns, to, context.cancellation());
      }
    });
    if (context.cancellation().is_cancelled()) return absl::CancelledError("the step was cancelled");
    Narrow(context, x, output);
    return absl::OkStatus();
  }

 private:
  // The batch of the result.
  static absl::StatusOr<Shape> CheckShapes(const Shape& a, const Shape& b) {
    if (a.rank() < 2 || b.rank() < 2) {
      return absl::InvalidArgumentError(absl::StrCat("matrix and rhs must have rank 2 or more: matrix is ",
                                                     a.ToString(), ", rhs is ", b.ToString()));
    }
    const int64_t rows = a.dim(a.rank() - 2);
    if (rows != a.dim(a.rank() - 1) || rows != b.dim(b.rank() - 2)) {
      return absl::InvalidArgumentError(
          absl::StrCat("matrix must be square and rhs have as many rows: matrix is ", a.ToString(),
                       ", rhs is ", b.ToString()));
    }
    const Shape a_batch = BatchOf(a), b_batch = BatchOf(b);
    absl::StatusOr<Shape> batch = BroadcastShapes({&a_batch, &b_batch});
    if (batch.ok()) return batch;
    return absl::InvalidArgumentError(
        absl::StrCat(batch.status().message(), ": matrix is ", a.ToString(), ", rhs is ", b.ToString()));
  }

  const bool is_lower_, is_adjoint_;
};

}  // namespace

void RegisterTriangularSolveKernels(DeviceKernels& kernels) {
  kernels.Add<MatrixTriangularSolve>(
      "MatrixTriangularSolve",
      Types<float, double, Half, Bfloat16, std::complex<float>, std::complex<double>>("T"));
}

}  // namespace weir
