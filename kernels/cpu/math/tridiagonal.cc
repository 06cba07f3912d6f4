// TridiagonalSolve and TridiagonalMatMul: matrices with elements on the main diagonal and beside it only.
//
// Golub and Van Loan, "Matrix Computations", section 4.3: elimination, with the larger one of two rows as
// pivot if asked. A matrix of a batch is computed by one thread.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/math/broadcast_batch.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 3;  // nanoseconds of an element of a right side on one core

absl::Status CheckBatches(const KernelContext& context) {
  const Shape& first = context.input(0).shape();
  if (first.rank() < 2) {
    return absl::InvalidArgumentError(absl::StrCat("Input tensor 0 must have rank >= 2, got ", first.rank()));
  }
  for (int i = 1; i < context.num_inputs(); ++i) {
    const Shape& shape = context.input(i).shape();
    const auto differ = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " They are ", first.ToString(), " and ", shape.ToString()));
    };
    if (shape.rank() != first.rank()) return differ("All input tensors must have the same rank.");
    if (BatchOf(shape) != BatchOf(first))
      return differ("All input tensors must have the same outer dimensions.");
  }
  return absl::OkStatus();
}

int64_t RowsOf(const Shape& shape) { return shape.dim(shape.rank() - 2); }
int64_t ColumnsOf(const Shape& shape) { return shape.dim(shape.rank() - 1); }

// One system: the rows that are left of the matrix, each from its main diagonal on, and the right sides.
template <typename T>
class Elimination {
 public:
  // `rows` has room for 3 n numbers; x [n, sides] holds the right sides and becomes the solution.
  Elimination(T* rows, T* x, int64_t n, int64_t sides) : rows_(rows), x_(x), n_(n), sides_(sides) {}

  // False for a pivot that is 0.
  bool Run(const T* above, const T* middle, const T* below, bool pivots, const Cancellation& cancellation) {
    for (int64_t i = 0; i < n_; ++i) {
      Row(i)[0] = middle[i];
      Row(i)[1] = i + 1 < n_ ? above[i] : T(0);
      Row(i)[2] = T(0);
    }
    for (int64_t i = 0; i + 1 < n_; ++i) {
      if (i % kRowsBetweenLooks == 0 && cancellation.is_cancelled()) return true;
      if (!Eliminate(i, below[i + 1], pivots)) return false;
    }
    if (n_ > 0 && Row(n_ - 1)[0] == T(0)) return false;
    for (int64_t i = n_ - 1; i >= 0; --i) Substitute(i);
    return true;
  }

 private:
  static constexpr int64_t kRowsBetweenLooks = 1024;

  T* Row(int64_t i) const { return rows_ + 3 * i; }
  T* Sides(int64_t i) const { return x_ + i * sides_; }

  // Takes row i away from the one below it, which begins with `first` one place before its main diagonal.
  bool Eliminate(int64_t i, T first, bool pivots) {
    T* const upper = Row(i);
    T* const lower = Row(i + 1);
    if (pivots && std::abs(first) > std::abs(upper[0])) {
      const T old[2] = {upper[0], upper[1]};
      upper[0] = first;
      upper[1] = lower[0];
      upper[2] = lower[1];
      first = old[0];
      lower[0] = old[1];
      lower[1] = T(0);
      std::swap_ranges(Sides(i), Sides(i) + sides_, Sides(i + 1));
    }
    if (upper[0] == T(0)) return false;
    const T factor = first / upper[0];
    lower[0] -= factor * upper[1];
    lower[1] -= factor * upper[2];
    for (int64_t k = 0; k < sides_; ++k) Sides(i + 1)[k] -= factor * Sides(i)[k];
    return true;
  }

  void Substitute(int64_t i) {
    for (int64_t k = 0; k < sides_; ++k) {
      T& x = Sides(i)[k];
      if (i + 1 < n_) x -= Row(i)[1] * Sides(i + 1)[k];
      if (i + 2 < n_) x -= Row(i)[2] * Sides(i + 2)[k];
      x /= Row(i)[0];
    }
  }

  T* const rows_;
  T* const x_;
  const int64_t n_, sides_;
};

template <typename T>
class TridiagonalSolve final : public Kernel {
 public:
  explicit TridiagonalSolve(const KernelConstruction& construction)
      : pivots_(construction.attr<bool>("partial_pivoting")),
        perturbs_(construction.attr<bool>("perturb_singular")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor &diagonals = context.input(0), &rhs = context.input(1);
    WEIR_RETURN_IF_ERROR(Check(context));
    const int64_t n = RowsOf(rhs.shape()), sides = ColumnsOf(rhs.shape());
    const int64_t count = BatchOf(rhs.shape()).num_elements();
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, rhs.shape()));
    if (rhs.num_elements() == 0) return absl::OkStatus();
    WEIR_ASSIGN_OR_RETURN(Tensor rows, context.AllocateTemporary(output->dtype(), diagonals.shape()));
    const double cost = kCost * static_cast<double>(n) * static_cast<double>(sides + 2);
    context.threads().ParallelFor(count, cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end && !context.cancellation().is_cancelled(); ++i) {
        T* const x = output->flat<T>().data() + i * n * sides;
        std::copy_n(rhs.flat<T>().data() + i * n * sides, n * sides, x);
        const T* const above = diagonals.flat<T>().data() + 3 * i * n;
        Elimination<T> elimination(rows.flat<T>().data() + 3 * i * n, x, n, sides);
        if (!elimination.Run(above, above + n, above + 2 * n, pivots_, context.cancellation()))
          std::fill_n(x, n * sides, T(std::numeric_limits<decltype(std::abs(T()))>::quiet_NaN()));
      }
    });
    if (context.cancellation().is_cancelled()) return absl::CancelledError("the step was cancelled");
    return absl::OkStatus();
  }

 private:
  absl::Status Check(const KernelContext& context) const {
    if (perturbs_ && !pivots_) {
      return absl::InvalidArgumentError("Setting perturb_singular requires also setting partial_pivoting.");
    }
    if (perturbs_) {
      return absl::UnimplementedError(
          "perturb_singular is not there: a singular matrix gives NaN without it");
    }
    WEIR_RETURN_IF_ERROR(CheckBatches(context));
    const Shape &diagonals = context.input(0).shape(), &rhs = context.input(1).shape();
    if (RowsOf(diagonals) != 3) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Expected diagonals to be provided as a matrix with 3 rows, got ", RowsOf(diagonals), " rows."));
    }
    if (ColumnsOf(diagonals) == RowsOf(rhs)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("Expected the same number of left-hand sides and right-hand sides, got ",
                     ColumnsOf(diagonals), " and ", RowsOf(rhs), "."));
  }

  const bool pivots_, perturbs_;
};

template <typename T>
class TridiagonalMatMul final : public Kernel {
 public:
  explicit TridiagonalMatMul(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(CheckBatches(context));
    const Tensor& rhs = context.input(3);
    const int64_t n = RowsOf(rhs.shape()), columns = ColumnsOf(rhs.shape());
    for (int i = 0; i < 3; ++i) {
      const Shape& shape = context.input(i).shape();
      if (RowsOf(shape) == 1 && ColumnsOf(shape) == n) continue;
      const char* const names[] = {"superdiagonal", "main diagonal", "subdiagonal"};
      return absl::InvalidArgumentError(absl::StrCat("Invalid ", names[i], " shape. It is ", shape.ToString(),
                                                     " for rhs ", rhs.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, rhs.shape()));
    const T* const above = context.input(0).flat<T>().data();
    const T* const middle = context.input(1).flat<T>().data();
    const T* const below = context.input(2).flat<T>().data();
    const T* const x = rhs.flat<T>().data();
    T* const y = output->flat<T>().data();
    if (rhs.num_elements() == 0) return absl::OkStatus();
    // Rows of all matrices one after the other: a diagonal has an element for each of them.
    context.threads().ParallelFor(rhs.num_elements() / columns, kCost * static_cast<double>(columns),
                                  [&](int64_t begin, int64_t end) {
                                    for (int64_t row = begin; row < end; ++row) {
                                      const bool is_first = row % n == 0, is_last = row % n == n - 1;
                                      for (int64_t at = row * columns; at < (row + 1) * columns; ++at) {
                                        T sum = middle[row] * x[at];
                                        if (!is_first) sum += below[row] * x[at - columns];
                                        if (!is_last) sum += above[row] * x[at + columns];
                                        y[at] = sum;
                                      }
                                    }
                                  });
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterTridiagonalKernels(DeviceKernels& kernels) {
  const Types<float, double, std::complex<float>, std::complex<double>> types("T");
  kernels.Add<TridiagonalSolve>("TridiagonalSolve", types);
  kernels.Add<TridiagonalMatMul>("TridiagonalMatMul", types);
}

}  // namespace weir
