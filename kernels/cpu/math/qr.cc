// Qr: matrices as the product of an orthogonal and an upper triangular one, by Householder's reflections.
//
// Golub and Van Loan, "Matrix Computations", chapter 5. Signs are those of TensorFlow's CPU kernel: a
// reflection turns a column against the sign of its first element, and a column that is zero below it is not
// reflected.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/broadcast_batch.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 0.5;  // nanoseconds of a multiplication and an addition on one core

// One matrix being decomposed, row by row. Column k holds, below the diagonal, the reflection that made these
// elements zero: I - scales[k] v v*, of the vector v = (1, column k).
template <typename T>
class Decomposition {
 public:
  // `matrix` [rows, columns] is overwritten. `scales` has min(rows, columns) elements, `row` has room for a
  // row of the matrix and of q.
  Decomposition(T* matrix, int64_t rows, int64_t columns, T* scales, T* row, const Cancellation& cancellation)
      : matrix_(matrix),
        rows_(rows),
        columns_(columns),
        scales_(scales),
        row_(row),
        cancellation_(cancellation) {}

  // This and WriteQ leave off when the step is cancelled: a large matrix takes minutes.
  void Run() {
    for (int64_t k = 0; k < std::min(rows_, columns_) && !cancellation_.is_cancelled(); ++k) {
      MakeReflection(k);
      Reflect(k, scales_[k], matrix_ + k + 1, columns_, columns_ - k - 1);
    }
  }

  // The first rows of the triangular matrix.
  void WriteR(T* r, int64_t r_rows) const {
    for (int64_t i = 0; i < r_rows; ++i) {
      const int64_t zeros = std::min(i, columns_);
      std::fill_n(r + i * columns_, zeros, T(0));
      std::copy(matrix_ + i * columns_ + zeros, matrix_ + (i + 1) * columns_, r + i * columns_ + zeros);
    }
  }

  // The first columns of the product of the reflections.
  void WriteQ(T* q, int64_t q_columns) const {
    std::fill_n(q, rows_ * q_columns, T(0));
    for (int64_t i = 0; i < q_columns; ++i) q[i * q_columns + i] = T(1);
    for (int64_t k = std::min(rows_, columns_) - 1; k >= 0 && !cancellation_.is_cancelled(); --k) {
      Reflect(k, elementwise::Conj()(scales_[k]), q, q_columns, q_columns);
    }
  }

 private:
  using Real = decltype(std::abs(T()));

  void MakeReflection(int64_t k) {
    Real norm = 0;  // of what lies below the diagonal, squared
    for (int64_t i = k + 1; i < rows_; ++i) norm += std::norm(At(i, k));
    const T first = At(k, k);
    if (norm <= std::numeric_limits<Real>::min() &&
        std::norm(std::imag(first)) <= std::numeric_limits<Real>::min()) {
      scales_[k] = T(0);
      At(k, k) = T(std::real(first));
      return;
    }
    const Real length = std::sqrt(std::norm(first) + norm);
    const Real diagonal = std::real(first) >= 0 ? -length : length;
    for (int64_t i = k + 1; i < rows_; ++i) At(i, k) /= first - T(diagonal);
    scales_[k] = elementwise::Conj()((T(diagonal) - first) / T(diagonal));
    At(k, k) = T(diagonal);
  }

  // Rows k and below of `a`, which has so many columns, `stride` apart, become their reflection.
  void Reflect(int64_t k, T scale, T* a, int64_t stride, int64_t columns) const {
    if (scale == T(0) || columns == 0) return;
    std::copy_n(a + k * stride, columns, row_);
    for (int64_t i = k + 1; i < rows_; ++i)
      AddScaled(elementwise::Conj()(At(i, k)), a + i * stride, columns, row_);
    AddScaled(-scale, row_, columns, a + k * stride);
    for (int64_t i = k + 1; i < rows_; ++i) AddScaled(-scale * At(i, k), row_, columns, a + i * stride);
  }

  static void AddScaled(T factor, const T* from, int64_t count, T* to) {
    for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
  }

  T& At(int64_t row, int64_t column) const { return matrix_[row * columns_ + column]; }

  T* const matrix_;
  const int64_t rows_, columns_;
  T* const scales_;
  T* const row_;
  const Cancellation& cancellation_;
};

template <typename T>
class Qr final : public Kernel {
 public:
  explicit Qr(const KernelConstruction& construction) : is_full_(construction.attr<bool>("full_matrices")) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    const Tensor& input = context.input(0);
    const Shape& shape = input.shape();
    if (shape.rank() < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("input must have rank 2 or more, is ", shape.ToString()));
    }
    const int64_t rows = shape.dim(shape.rank() - 2), columns = shape.dim(shape.rank() - 1);
    const int64_t least = std::min(rows, columns), inner = is_full_ ? rows : least;
    const Shape batch = BatchOf(shape);
    WEIR_ASSIGN_OR_RETURN(Tensor * q_output, AllocateMatrices(context, 0, batch, rows, inner));
    WEIR_ASSIGN_OR_RETURN(Tensor * r_output, AllocateMatrices(context, 1, batch, inner, columns));
    if (q_output->num_elements() + r_output->num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor q, WideOutput(context, *q_output));
    WEIR_ASSIGN_OR_RETURN(Tensor r, WideOutput(context, *r_output));
    WEIR_ASSIGN_OR_RETURN(const Tensor x, Widen(context, input));
    WEIR_ASSIGN_OR_RETURN(Tensor work, context.AllocateTemporary(x.dtype(), shape));
    std::copy(x.flat<Wide>().begin(), x.flat<Wide>().end(), work.flat<Wide>().begin());
    // Scales and a row for each matrix. Both are no longer than what q and r hold of it, but for empty ones.
    const int64_t room = least + std::max(inner, columns);
    WEIR_ASSIGN_OR_RETURN(const Shape room_shape, Shape::FromDims({batch.num_elements(), room}));
    WEIR_ASSIGN_OR_RETURN(Tensor rooms, context.AllocateTemporary(x.dtype(), room_shape));
    const double cost =
        kCost * static_cast<double>(rows) * static_cast<double>(least) * static_cast<double>(columns + inner);
    context.threads().ParallelFor(batch.num_elements(), cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !context.cancellation().is_cancelled(); ++i) {
        Wide* const scales = rooms.flat<Wide>().data() + i * room;
        Decomposition<Wide> decomposition(work.flat<Wide>().data() + i * rows * columns, rows, columns,
                                          scales, scales + least, context.cancellation());
        decomposition.Run();
        decomposition.WriteR(r.flat<Wide>().data() + i * inner * columns, inner);
        decomposition.WriteQ(q.flat<Wide>().data() + i * rows * inner, inner);
      }
    });
    if (context.cancellation().is_cancelled()) return absl::CancelledError("the step was cancelled");
    Narrow(context, q, q_output);
    Narrow(context, r, r_output);
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<Tensor*> AllocateMatrices(KernelContext& context, int output, const Shape& batch,
                                                  int64_t rows, int64_t columns) {
    Dims dims(batch.dims().begin(), batch.dims().end());
    dims.insert(dims.end(), {rows, columns});
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    return context.AllocateOutput(output, shape);
  }

  const bool is_full_;
};

}  // namespace

void RegisterQrKernels(DeviceKernels& kernels) {
  kernels.Add<Qr>("Qr", Types<float, double, Half, std::complex<float>, std::complex<double>>("T"));
}

}  // namespace weir
