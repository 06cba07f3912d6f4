// Eig, MatrixSquareRoot and MatrixLogarithm, by the Schur form. Everything is computed in double; a matrix of
// a batch by one thread.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/math/each_matrix.h"
#include "kernels/cpu/math/schur_decomposition.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using Complex = std::complex<double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <typename T>
constexpr bool kIsReal = std::is_floating_point_v<T>;

// The matrix of `from` in double. False when it has a number that is not finite.
template <typename T>
bool Read(const T* from, int64_t count, Complex* to) {
  std::transform(from, from + count, to, [](T x) { return Complex(x); });
  return std::all_of(to, to + count, [](Complex x) { return IsFinite(x); });
}

// Of a real tensor the real part.
template <typename T>
T Narrow(Complex x) {
  if constexpr (kIsReal<T>) {
    return static_cast<T>(x.real());
  } else {
    return NarrowedTo<T>(x);
  }
}

// ---- Eig ----

// Eigenvalues by their size, as TensorFlow gives those of complex matrices; of two that a real matrix has as
// conjugates the upper one first.
std::vector<int64_t> OrderOf(const Complex* t, int64_t n, bool is_real) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int64_t i) { return t[order[i] * n + order[i]]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return std::abs(t[a * n + a]) < std::abs(t[b * n + b]); });
  for (int64_t i = 0; is_real && i + 1 < n; ++i) {
    const Complex lower = value(i), upper = value(i + 1);
    const bool are_conjugates = std::abs(lower - std::conj(upper)) < 1e-9 * std::abs(lower);
    if (!are_conjugates || lower.imag() >= 0 || upper.imag() <= 0) continue;
    std::swap(order[i], order[i + 1]);
    ++i;
  }
  return order;
}

template <typename T>
class Eig final : public Kernel {
 public:
  using Part = decltype(std::abs(T()));
  using Result = std::complex<Part>;

  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const DType wanted = construction.attr<DType>("Tout");
    if (wanted == DTypeOf<Result>) return std::make_unique<Eig>(construction.attr<bool>("compute_v"));
    return absl::InvalidArgumentError(absl::StrCat("Invalid output dtype ", DTypeName(wanted), " vs ",
                                                   DTypeName(DTypeOf<Result>), ", that of the eigenvalues"));
  }

  explicit Eig(bool wants_vectors) : wants_vectors_(wants_vectors) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const int64_t n, SquareRows(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, AllocateBatch(context, 0, input.shape(), {n}));
    Tensor* vectors = nullptr;
    if (wants_vectors_) {
      WEIR_ASSIGN_OR_RETURN(vectors, AllocateBatch(context, 1, input.shape(), {n, n}));
    } else {
      WEIR_RETURN_IF_ERROR(AllocateUnwanted(context, 1));
    }
    if (n == 0) return absl::OkStatus();  // however many there are
    // The matrix, its unitary factor, vectors, and a vector.
    WEIR_ASSIGN_OR_RETURN(const int64_t room, RoomOf({{n, n}, {n, n}, {n, n}, {n, 1}}));
    return ForEachMatrix<Complex>(
        context, BatchOf(input.shape()).num_elements(), CostOf(n, n, n) * 60, room,
        [&](int64_t i, Complex* a) -> absl::Status {
          Complex *const u = a + n * n, *const v = u + n * n, *const row = v + n * n;
          if (!Read(input.flat<T>().data() + i * n * n, n * n, a) ||
              !SchurForm(a, n, u, row, context.cancellation())) {
            return absl::InvalidArgumentError(
                "Eigen decomposition was not successful. The input might not be valid.");
          }
          const std::vector<int64_t> order = OrderOf(a, n, kIsReal<T>);
          for (int64_t k = 0; k < n; ++k)
            values->flat<Result>()[i * n + k] = NarrowedTo<Result>(a[order[k] * n + order[k]]);
          if (!wants_vectors_) return absl::OkStatus();
          EigenvectorsOfSchurForm(a, u, n, row, v, context.cancellation());
          for (int64_t k = 0; k < n * n; ++k)
            vectors->flat<Result>()[i * n * n + k] = NarrowedTo<Result>(v[k / n * n + order[k % n]]);
          return absl::OkStatus();
        });
  }

 private:
  const bool wants_vectors_;
};

// ---- MatrixSquareRoot, MatrixLogarithm ----

// A function of triangular matrices [n, n], which may be overwritten, with room for two.
using TriangularFunction = void (*)(Complex* t, int64_t n, Complex* room, Complex* result,
                                    const Cancellation& cancellation);

void Root(Complex* t, int64_t n, Complex*, Complex* result, const Cancellation& cancellation) {
  RootOfTriangular(t, n, result, cancellation);
}

// An eigenvalue of which there is no principal root among the numbers of T, or 0 where that has no value. Of
// 0 there is a root; whether there is one of the matrix is seen when it is computed.
template <typename T>
bool HasNoFunction(const Complex* t, int64_t n, bool has_value_of_zero) {
  double largest = 0;
  for (int64_t i = 0; i < n * n; ++i) largest = std::max(largest, std::abs(t[i]));
  const double nothing = 8 * std::numeric_limits<double>::epsilon() * largest * static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const Complex value = t[i * n + i];
    if (value == Complex(0) && !has_value_of_zero) return true;
    if (kIsReal<T> && value.real() < 0 && std::abs(value.imag()) <= nothing) return true;
  }
  return false;
}

// Matrices that have no such root or logarithm become NaN, as in TensorFlow.
template <typename T, TriangularFunction function>
class MatrixFunction final : public Kernel {
 public:
  explicit MatrixFunction(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const int64_t n, SquareRows(context));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    if (n == 0) return absl::OkStatus();  // however many there are
    // The matrix, its unitary factor, the function's value, and room for two.
    WEIR_ASSIGN_OR_RETURN(const int64_t room, RoomOf({{n, n}, {n, n}, {n, n}, {n, 2 * n}}));
    return ForEachMatrix<Complex>(
        context, BatchOf(input.shape()).num_elements(), CostOf(n, n, n) * 80, room,
        [&](int64_t i, Complex* a) -> absl::Status {
          Complex *const u = a + n * n, *const value = u + n * n, *const own = value + n * n;
          T* const to = output->flat<T>().data() + i * n * n;
          if (!Read(input.flat<T>().data() + i * n * n, n * n, a) ||
              !SchurForm(a, n, u, own, context.cancellation()) || HasNoFunction<T>(a, n, function == Root)) {
            std::fill_n(to, n * n, Narrow<T>(Complex(kNaN, kNaN)));
            return absl::OkStatus();
          }
          function(a, n, own, value, context.cancellation());
          TurnBack(value, u, n, own, a, context.cancellation());
          std::transform(a, a + n * n, to, Narrow<T>);
          return absl::OkStatus();
        });
  }
};

template <typename T>
using MatrixSquareRoot = MatrixFunction<T, Root>;
template <typename T>
using MatrixLogarithm = MatrixFunction<T, LogarithmOfTriangular>;

}  // namespace

void RegisterMatrixFunctionsKernels(DeviceKernels& kernels) {
  kernels.Add<Eig>("Eig", Types<float, double, std::complex<float>, std::complex<double>>("T"));
  kernels.Add<MatrixSquareRoot>("MatrixSquareRoot",
                                Types<float, double, std::complex<float>, std::complex<double>>("T"));
  kernels.Add<MatrixLogarithm>("MatrixLogarithm", Types<std::complex<float>, std::complex<double>>("T"));
}

}  // namespace weir
