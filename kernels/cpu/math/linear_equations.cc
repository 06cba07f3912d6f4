// Cholesky, Lu, and what stands on them: MatrixSolve, MatrixInverse, MatrixDeterminant, LogMatrixDeterminant.
//
// Golub and Van Loan, "Matrix Computations", chapters 3 and 4: elimination with the largest element of each
// column as pivot, row by row. A matrix of a batch is computed by one thread.
#include <algorithm>
#include <cmath>
#include <complex>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/math/broadcast_batch.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 0.5;  // nanoseconds of a multiplication and an addition on one core

template <typename T>
using RealOf = decltype(std::abs(T()));

double CubeCost(int64_t n) {
  return kCost * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}

// ---- one matrix, row by row ----

// Rows of a number of columns, one after the other.
template <typename T>
struct Rows {
  T* operator[](int64_t i) const { return data + i * columns; }
  T* data;
  int64_t columns;
};

template <typename T>
void SubtractScaled(T factor, const T* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] -= factor * from[i];
}

// `a` [n, n] becomes its factors: l below the diagonal, whose own is 1, and u. Row k of l u is row order[k]
// of `a`. Returns whether the number of exchanges was odd.
//
// This and what follows for one matrix leaves its results as they are when the step is cancelled: a large
// matrix takes minutes. ForEachMatrix makes that an error.
template <typename T>
bool Eliminate(Rows<T> a, int64_t* order, const Cancellation& cancellation) {
  const int64_t n = a.columns;
  bool is_odd = false;
  std::iota(order, order + n, int64_t{0});
  for (int64_t k = 0; k < n && !cancellation.is_cancelled(); ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    if (pivot != k) {
      std::swap_ranges(a[k], a[k] + n, a[pivot]);
      std::swap(order[k], order[pivot]);
      is_odd = !is_odd;
    }
    if (a[k][k] == T(0)) continue;
    for (int64_t i = k + 1; i < n; ++i) {
      a[i][k] /= a[k][k];
      SubtractScaled(a[i][k], a[k] + k + 1, n - k - 1, a[i] + k + 1);
    }
  }
  return is_odd;
}

// False for a zero or NaN on the diagonal of u.
template <typename T>
bool IsInvertible(Rows<T> factors) {
  for (int64_t k = 0; k < factors.columns; ++k)
    if (!(std::abs(factors[k][k]) > 0)) return false;
  return true;
}

// x holds the right sides, their rows in the order of elimination, and becomes the solution.
template <typename T>
void Substitute(Rows<T> factors, Rows<T> x, const Cancellation& cancellation) {
  const int64_t n = factors.columns;
  for (int64_t i = 0; i < n && !cancellation.is_cancelled(); ++i)
    for (int64_t k = 0; k < i; ++k) SubtractScaled(factors[i][k], x[k], x.columns, x[i]);
  for (int64_t i = n - 1; i >= 0 && !cancellation.is_cancelled(); --i) {
    for (int64_t k = i + 1; k < n; ++k) SubtractScaled(factors[i][k], x[k], x.columns, x[i]);
    for (int64_t c = 0; c < x.columns; ++c) x[i][c] /= factors[i][i];
  }
}

// Writes the lower triangle l of a = l l* from that of `a`. False when `a` is not positive definite.
template <typename T>
bool DecomposePositive(Rows<const T> a, Rows<T> l, const Cancellation& cancellation) {
  const int64_t n = a.columns;
  for (int64_t i = 0; i < n && !cancellation.is_cancelled(); ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      T sum = i == j ? T(std::real(a[i][i])) : a[i][j];
      for (int64_t k = 0; k < j; ++k) sum -= l[i][k] * elementwise::Conj()(l[j][k]);
      if (j < i) {
        l[i][j] = sum / l[j][j];
        continue;
      }
      const RealOf<T> square = std::real(sum);
      if (!(square > 0)) return false;
      l[i][i] = T(std::sqrt(square));
    }
    std::fill(l[i] + i + 1, l[i] + n, T(0));
  }
  return true;
}

// ---- batches ----

absl::Status CheckMatrices(const Tensor& tensor, int index, absl::string_view complaint) {
  const Shape& shape = tensor.shape();
  if (shape.rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("Input tensor ", index, " must have rank >= 2, got ", shape.rank()));
  }
  if (shape.dim(shape.rank() - 1) == shape.dim(shape.rank() - 2)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(complaint, " It is ", shape.ToString()));
}

absl::StatusOr<Shape> BatchWith(const Shape& shape, std::initializer_list<int64_t> inner) {
  Dims dims(shape.dims().begin(), shape.dims().end() - 2);
  dims.insert(dims.end(), inner);
  return Shape::FromDims(dims);
}

// Calls compute(i) for each matrix; the error of the first one that has one.
absl::Status ForEachMatrix(KernelContext& context, int64_t count, double cost,
                           absl::FunctionRef<absl::Status(int64_t)> compute) {
  absl::Mutex mutex;
  int64_t first = count;
  absl::Status failure;
  context.threads().ParallelFor(count, cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      absl::Status status = context.cancellation().is_cancelled() ? absl::OkStatus() : compute(i);
      if (context.cancellation().is_cancelled()) status = absl::CancelledError("the step was cancelled");
      if (status.ok()) continue;
      const absl::MutexLock lock(&mutex);
      if (i < first) {
        first = i;
        failure = std::move(status);
      }
      return;
    }
  });
  return failure;
}

// Square matrices of input 0 with room to eliminate in.
template <typename T>
class Elimination {
 public:
  using Wide = ComputeType<T>;

  // Copies of the matrices, or their adjoints.
  static absl::StatusOr<Elimination> Of(KernelContext& context, bool is_adjoint,
                                        absl::string_view complaint = "Input matrix must be square.") {
    const Tensor& input = context.input(0);
    WEIR_RETURN_IF_ERROR(CheckMatrices(input, 0, complaint));
    Elimination elimination;
    elimination.n_ = input.shape().dim(input.shape().rank() - 1);
    elimination.count_ = BatchOf(input.shape()).num_elements();
    elimination.is_adjoint_ = is_adjoint;
    WEIR_ASSIGN_OR_RETURN(elimination.input_, Widen(context, input));
    WEIR_ASSIGN_OR_RETURN(elimination.factors_,
                          context.AllocateTemporary(elimination.input_.dtype(), input.shape()));
    WEIR_ASSIGN_OR_RETURN(const Shape orders, BatchWith(input.shape(), {elimination.n_}));
    WEIR_ASSIGN_OR_RETURN(elimination.orders_, context.AllocateTemporary(DType::kInt64, orders));
    return elimination;
  }

  int64_t n() const { return n_; }
  int64_t count() const { return count_; }
  Rows<Wide> factors(int64_t i) { return {factors_.flat<Wide>().data() + i * n_ * n_, n_}; }
  int64_t* order(int64_t i) { return orders_.flat<int64_t>().data() + i * n_; }

  // Returns whether the number of exchanges was odd.
  bool Run(int64_t i, const Cancellation& cancellation) {
    const Wide* const from = input_.flat<Wide>().data() + i * n_ * n_;
    const Rows<Wide> to = factors(i);
    if (!is_adjoint_) std::copy_n(from, n_ * n_, to.data);
    for (int64_t row = 0; is_adjoint_ && row < n_; ++row)
      for (int64_t column = 0; column < n_; ++column)
        to[row][column] = elementwise::Conj()(from[column * n_ + row]);
    return Eliminate(to, order(i), cancellation);
  }

 private:
  int64_t n_ = 0, count_ = 0;
  bool is_adjoint_ = false;
  Tensor input_, factors_, orders_;
};

template <typename T>
class Cholesky final : public Kernel {
 public:
  explicit Cholesky(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    const Tensor& input = context.input(0);
    WEIR_RETURN_IF_ERROR(CheckMatrices(input, 0, "Input matrix must be square."));
    const int64_t n = input.shape().dim(input.shape().rank() - 1);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    if (n == 0) return absl::OkStatus();  // however many there are
    WEIR_ASSIGN_OR_RETURN(const Tensor a, Widen(context, input));
    WEIR_ASSIGN_OR_RETURN(Tensor l, WideOutput(context, *output));
    WEIR_RETURN_IF_ERROR(
        ForEachMatrix(context, BatchOf(input.shape()).num_elements(), CubeCost(n) / 3, [&](int64_t i) {
          const Rows<const Wide> from = {a.flat<Wide>().data() + i * n * n, n};
          const Rows<Wide> to = {l.flat<Wide>().data() + i * n * n, n};
          if (DecomposePositive<Wide>(from, to, context.cancellation())) return absl::OkStatus();
          // As TensorFlow has it: no error, but NaN on and below the diagonal.
          for (int64_t row = 0; row < n; ++row) {
            std::fill(to[row], to[row] + row + 1, Wide(std::numeric_limits<RealOf<Wide>>::quiet_NaN()));
            std::fill(to[row] + row + 1, to[row] + n, Wide(0));
          }
          return absl::OkStatus();
        }));
    Narrow(context, l, output);
    return absl::OkStatus();
  }
};

template <typename T>
class MatrixInverse final : public Kernel {
 public:
  explicit MatrixInverse(const KernelConstruction& construction)
      : is_adjoint_(construction.attr<bool>("adjoint")) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    WEIR_ASSIGN_OR_RETURN(auto elimination, Elimination<T>::Of(context, is_adjoint_));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, context.input(0).shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor inverse, WideOutput(context, *output));
    const int64_t n = elimination.n();
    if (n == 0) return absl::OkStatus();  // however many there are
    WEIR_RETURN_IF_ERROR(ForEachMatrix(context, elimination.count(), CubeCost(n), [&](int64_t i) {
      elimination.Run(i, context.cancellation());
      if (!IsInvertible(elimination.factors(i)))
        return absl::InvalidArgumentError("Input is not invertible.");
      const Rows<Wide> x = {inverse.flat<Wide>().data() + i * n * n, n};
      std::fill_n(x.data, n * n, Wide(0));
      for (int64_t row = 0; row < n; ++row) x[row][elimination.order(i)[row]] = Wide(1);
      Substitute(elimination.factors(i), x, context.cancellation());
      return absl::OkStatus();
    }));
    Narrow(context, inverse, output);
    return absl::OkStatus();
  }

 private:
  const bool is_adjoint_;
};

template <typename T>
class MatrixSolve final : public Kernel {
 public:
  explicit MatrixSolve(const KernelConstruction& construction)
      : is_adjoint_(construction.attr<bool>("adjoint")) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    WEIR_ASSIGN_OR_RETURN(auto elimination, Elimination<T>::Of(context, is_adjoint_,
                                                               "First input (lhs) must be a square matrix."));
    const Shape &a = context.input(0).shape(), &b = context.input(1).shape();
    WEIR_RETURN_IF_ERROR(CheckRightSides(a, b));
    const int64_t n = elimination.n(), columns = b.dim(b.rank() - 1);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, b));
    WEIR_ASSIGN_OR_RETURN(const Tensor right, Widen(context, context.input(1)));
    WEIR_ASSIGN_OR_RETURN(Tensor x, WideOutput(context, *output));
    if (b.num_elements() == 0) return absl::OkStatus();
    const double cost = CubeCost(n) / 3 + kCost * static_cast<double>(n) * static_cast<double>(n) *
                                              static_cast<double>(columns);
    WEIR_RETURN_IF_ERROR(ForEachMatrix(context, elimination.count(), cost, [&](int64_t i) {
      elimination.Run(i, context.cancellation());
      if (!IsInvertible(elimination.factors(i)))
        return absl::InvalidArgumentError("Input matrix is not invertible.");
      const Rows<const Wide> from = {right.flat<Wide>().data() + i * n * columns, columns};
      const Rows<Wide> to = {x.flat<Wide>().data() + i * n * columns, columns};
      for (int64_t row = 0; row < n; ++row) std::copy_n(from[elimination.order(i)[row]], columns, to[row]);
      Substitute(elimination.factors(i), to, context.cancellation());
      return absl::OkStatus();
    }));
    Narrow(context, x, output);
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckRightSides(const Shape& a, const Shape& b) {
    const auto differ = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " They are ", a.ToString(), " and ", b.ToString()));
    };
    if (b.rank() < 2)
      return absl::InvalidArgumentError(absl::StrCat("Input tensor 1 must have rank >= 2, got ", b.rank()));
    if (a.rank() != b.rank()) return differ("All input tensors must have the same rank.");
    if (BatchOf(a) != BatchOf(b)) return differ("All input tensors must have the same outer dimensions.");
    if (a.dim(a.rank() - 2) != b.dim(b.rank() - 2)) return differ("Input matrix and rhs are incompatible.");
    return absl::OkStatus();
  }

  const bool is_adjoint_;
};

template <typename T>
class Lu final : public Kernel {
 public:
  explicit Lu(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    using Wide = ComputeType<T>;
    WEIR_ASSIGN_OR_RETURN(auto elimination, Elimination<T>::Of(context, false));
    const Shape& shape = context.input(0).shape();
    const int64_t n = elimination.n();
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(const Shape order_shape, BatchWith(shape, {n}));
    WEIR_ASSIGN_OR_RETURN(Tensor * orders, context.AllocateOutput(1, order_shape));
    if (n == 0) return absl::OkStatus();  // however many there are
    WEIR_ASSIGN_OR_RETURN(Tensor factors, WideOutput(context, *output));
    WEIR_RETURN_IF_ERROR(ForEachMatrix(context, elimination.count(), CubeCost(n) / 3, [&](int64_t i) {
      elimination.Run(i, context.cancellation());
      if (!IsInvertible(elimination.factors(i)))
        return absl::InvalidArgumentError("Input is not invertible.");
      std::copy_n(elimination.factors(i).data, n * n, factors.flat<Wide>().data() + i * n * n);
      const int64_t* const order = elimination.order(i);
      if (orders->dtype() == DType::kInt64)
        std::copy_n(order, n, orders->flat<int64_t>().data() + i * n);
      else
        std::copy_n(order, n, orders->flat<int32_t>().data() + i * n);
      return absl::OkStatus();
    }));
    Narrow(context, factors, output);
    return absl::OkStatus();
  }
};

// The sign (or phase) of a determinant and the logarithm of its size, which overflow only where the logarithm
// does.
template <typename T>
struct LogDeterminant {
  T sign;
  RealOf<T> log;
};

template <typename T>
LogDeterminant<T> LogDeterminantOf(Rows<T> factors, bool is_odd) {
  LogDeterminant<T> result = {is_odd ? T(-1) : T(1), RealOf<T>(0)};
  for (int64_t k = 0; k < factors.columns; ++k) {
    const RealOf<T> size = std::abs(factors[k][k]);
    result.sign *= size == 0 ? T(0) : factors[k][k] / size;
    result.log += std::log(size);
  }
  return result;
}

template <typename T>
class Determinants : public Kernel {
 public:
  absl::Status Compute(KernelContext& context) final {
    using Wide = ComputeType<T>;
    WEIR_ASSIGN_OR_RETURN(auto elimination, Elimination<T>::Of(context, false));
    const Shape shape = BatchOf(context.input(0).shape());
    Tensor* outputs[2] = {nullptr, nullptr};
    Tensor wide[2];
    for (int k = 0; k < context.num_outputs(); ++k) {
      WEIR_ASSIGN_OR_RETURN(outputs[k], context.AllocateOutput(k, shape));
      WEIR_ASSIGN_OR_RETURN(wide[k], WideOutput(context, *outputs[k]));
    }
    WEIR_RETURN_IF_ERROR(
        ForEachMatrix(context, elimination.count(), CubeCost(elimination.n()) / 3, [&](int64_t i) {
          const bool is_odd = elimination.Run(i, context.cancellation());
          const auto found = LogDeterminantOf<Wide>(elimination.factors(i), is_odd);
          if (context.num_outputs() == 1) {
            wide[0].template flat<Wide>()[i] = found.sign * std::exp(found.log);
          } else {
            wide[0].template flat<Wide>()[i] = found.sign;
            wide[1].template flat<Wide>()[i] = Wide(found.log);
          }
          return absl::OkStatus();
        }));
    for (int k = 0; k < context.num_outputs(); ++k) Narrow(context, wide[k], outputs[k]);
    return absl::OkStatus();
  }
};

template <typename T>
class MatrixDeterminant final : public Determinants<T> {
 public:
  explicit MatrixDeterminant(const KernelConstruction&) {}
};

template <typename T>
class LogMatrixDeterminant final : public Determinants<T> {
 public:
  explicit LogMatrixDeterminant(const KernelConstruction&) {}
};

}  // namespace

void RegisterLinearEquationsKernels(DeviceKernels& kernels) {
  const Types<float, double, Half, std::complex<float>, std::complex<double>> types("T");
  kernels.Add<Cholesky>("Cholesky", types);
  kernels.Add<MatrixInverse>("MatrixInverse", types);
  kernels.Add<MatrixSolve>("MatrixSolve", types);
  kernels.Add<Lu>("Lu", types);
  kernels.Add<MatrixDeterminant>("MatrixDeterminant", types);
  kernels.Add<LogMatrixDeterminant>("LogMatrixDeterminant", types);
}

}  // namespace weir
