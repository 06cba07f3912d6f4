// Eigenvalues of general matrices, square roots and logarithms. Eigenvectors, which are known up to a factor,
// are compared in tensorflow_test.py by what does not depend on it.
#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using Dims = std::vector<int64_t>;
using Matrix = std::vector<std::vector<Number>>;

const std::vector<D> kTypes = {D::kFloat64, D::kFloat32, D::kComplex64, D::kComplex128};
constexpr char kNoHalf[] = "TensorFlow's CPU kernels have none";

bool IsSingle(D d) { return d == D::kFloat32 || d == D::kComplex64; }

Matrix Combine(double p, const Matrix& a, double q, const Matrix& b) {
  Matrix sum = a;
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a.size(); ++j) sum[i][j] = p * a[i][j] + q * b[i][j];
  return sum;
}

Matrix One(size_t n) {
  Matrix one(n, std::vector<Number>(n));
  for (size_t i = 0; i < n; ++i) one[i][i] = 1;
  return one;
}

Matrix Times(const Matrix& a, const Matrix& b) {
  Matrix product(a.size(), std::vector<Number>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < a.size(); ++k)
      for (size_t j = 0; j < a.size(); ++j) product[i][j] += a[i][k] * b[k][j];
  return product;
}

// Gauss and Jordan.
Matrix Inverse(Matrix a) {
  Matrix b = One(a.size());
  for (size_t k = 0; k < a.size(); ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < a.size(); ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    const Number diagonal = a[k][k];
    for (size_t j = 0; j < a.size(); ++j) {
      a[k][j] /= diagonal;
      b[k][j] /= diagonal;
    }
    for (size_t i = 0; i < a.size(); ++i) {
      const Number factor = a[i][k];
      for (size_t j = 0; i != k && j < a.size(); ++j) {
        a[i][j] -= factor * a[k][j];
        b[i][j] -= factor * b[k][j];
      }
    }
  }
  return b;
}

// Denman and Beavers' iteration.
Matrix Root(const Matrix& a) {
  Matrix root = a, inverse = One(a.size());
  for (int i = 0; i < 40; ++i) {
    const Matrix next = Combine(0.5, root, 0.5, Inverse(inverse));
    inverse = Combine(0.5, inverse, 0.5, Inverse(root));
    root = next;
  }
  return root;
}

// log(x) = 2^k log(x^(1 / 2^k)), of which the logarithm is 2 (z + z^3 / 3 + z^5 / 5...), z = (x - 1) / (x +
// 1).
Matrix Logarithm(Matrix x) {
  constexpr int kRoots = 5;
  for (int i = 0; i < kRoots; ++i) x = Root(x);
  const Matrix one = One(x.size());
  const Matrix z = Times(Combine(1, x, -1, one), Inverse(Combine(1, x, 1, one)));
  Matrix power = z, sum = z;
  for (int k = 3; k < 60; k += 2) {
    power = Times(Times(power, z), z);
    sum = Combine(1, sum, 1.0 / k, power);
  }
  return Combine(2 << kRoots, sum, 0, sum);
}

// Calls f with each matrix of input 0 and where its first element is.
void ForEachMatrix(const Array& x, const std::function<void(const Matrix&, int64_t)>& f) {
  const int64_t n = x.dim(x.rank() - 1);
  for (int64_t begin = 0; n > 0 && begin < x.size(); begin += n * n) {
    Matrix matrix(n, std::vector<Number>(n));
    for (int64_t i = 0; i < n * n; ++i) matrix[i / n][i % n] = x[begin + i].number;
    f(matrix, begin);
  }
}

reference::Reference EachMatrix(std::function<Matrix(const Matrix&)> f) {
  return [f = std::move(f)](Call& call) {
    const Array& x = call.in(0);
    call.outputs[0] = Array(x.dims());
    ForEachMatrix(x, [&](const Matrix& matrix, int64_t begin) {
      const Matrix value = f(matrix);
      const auto n = static_cast<int64_t>(value.size());
      for (int64_t i = 0; i < n * n; ++i) call.outputs[0][begin + i] = value[i / n][i % n];
    });
  };
}

// The zeros of the characteristic polynomial: Faddeev and LeVerrier's coefficients, Durand and Kerner's
// iteration.
std::vector<Number> Eigenvalues(const Matrix& a) {
  const size_t n = a.size();
  std::vector<Number> coefficients(n + 1);  // of x^i
  coefficients[n] = 1;
  Matrix m(n, std::vector<Number>(n));
  for (size_t k = 1; k <= n; ++k) {
    m = Combine(1, Times(a, m), 1, One(n));
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        if (i == j) m[i][j] += coefficients[n - k + 1] - 1.0;
    const Matrix product = Times(a, m);
    Number trace = 0;
    for (size_t i = 0; i < n; ++i) trace += product[i][i];
    coefficients[n - k] = -trace / static_cast<double>(k);
  }
  std::vector<Number> zeros(n);
  for (size_t i = 0; i < n; ++i) zeros[i] = std::pow(Number(0.4, 0.9), static_cast<double>(i));
  for (int step = 0; step < 500; ++step) {
    for (size_t i = 0; i < n; ++i) {
      Number value = 0, others = 1;
      for (size_t k = n + 1; k-- > 0;) value = value * zeros[i] + coefficients[k];
      for (size_t j = 0; j < n; ++j)
        if (j != i) others *= zeros[i] - zeros[j];
      zeros[i] -= value / others;
    }
  }
  std::sort(zeros.begin(), zeros.end(), [](Number x, Number y) { return std::abs(x) < std::abs(y); });
  return zeros;
}

void Eig(Call& call) {
  const Array& x = call.in(0);
  const int64_t n = x.dim(x.rank() - 1);
  call.outputs = {Array(Index(x.dims().begin(), x.dims().end() - 1)), Array(Index())};
  ForEachMatrix(x, [&](const Matrix& matrix, int64_t begin) {
    const std::vector<Number> values = Eigenvalues(matrix);
    for (int64_t i = 0; i < n; ++i) call.outputs[0][begin / n + i] = values[i];
  });
}

// With a diagonal of begin, begin * ratio and so on added.
Tensor WithDiagonal(D dtype, const Dims& dims, double begin, double ratio, double around = 0.5) {
  Array matrices = Array::FromTensor(Sample(dtype, dims, -around, around));
  for (int64_t i = 0; i < matrices.size(); ++i) {
    const Index at = matrices.IndexOf(i);
    if (at[at.size() - 2] == at.back())
      matrices[i].number += begin * std::pow(ratio, static_cast<double>(at.back()));
  }
  return matrices.ToTensor(dtype);
}

AttrMap EigAttrs(D dtype, bool compute_v = false) {
  return {{"Tout", IsSingle(dtype) ? D::kComplex64 : D::kComplex128}, {"compute_v", compute_v}};
}

void AddEig(Suite& suite) {
  OpRecord& record = suite.Op("Eig").Reference(Eig);
  for (const D d : kTypes) {
    if (d == D::kFloat32) record.NoGradient();  // Tout belongs to it
    record.Tolerance(IsSingle(d) ? 2e-5 : 1e-11);
    // Real eigenvalues, of sizes that differ.
    record.Call({WithDiagonal(d, {3, 3}, 1, -2)}, EigAttrs(d));
    record.Call({WithDiagonal(d, {2, 2, 4, 4}, 1, -1.8, 0.2)}, EigAttrs(d));
    record.Call({Sample(d, {1, 1})}, EigAttrs(d));
  }
  const AttrMap single = EigAttrs(D::kFloat32);
  record.NoGradient().Call({Sample(D::kComplex64, {2, 5, 5})}, single);
  record.Call({Make(D::kFloat32, {2, 2}, {0, 0, 0, 0})}, single);
  // Far from triangular; and a pair of conjugates, the upper one first.
  record.Call({Make(D::kFloat32, {3, 3}, {0, 0, 6, 1, 0, -11, 0, 1, 6})}, single);
  record.Call({Empty({0, 0})}, single).Call({Empty({0, 2, 2})}, single).Call({Empty({2, 0, 0})}, single);
  record.Hostile({Floats({3})}, "Input tensor 0 must have rank >= 2, got 1", single);
  record.Hostile({Floats({2, 3})}, "Input matrix must be square.", single);
  for (const double broken : {std::nan(""), kInfinity}) {
    record.Hostile({Make(D::kFloat32, {2, 2}, {1, 2, broken, 3})}, "Eigen decomposition was not successful",
                   single);
  }
}

void AddFunction(OpRecord& record, const std::vector<D>& dtypes) {
  for (const D d : dtypes) {
    if (d == D::kComplex64) record.NoGradient();
    record.Tolerance(IsSingle(d) ? 2e-5 : 1e-11);
    record.Call({WithDiagonal(d, {3, 3}, 2, 1.5)}).Call({WithDiagonal(d, {2, 2, 4, 4}, 2, 1.3)});
    record.Call({WithDiagonal(d, {1, 1}, 2, 1)}).Call({WithDiagonal(d, {6, 6}, 5, 1, 1)});
  }
  record.NoGradient();
  const D complex = D::kComplex64;
  record.Call({Empty({0, 0}, complex)}).Call({Empty({0, 2, 2}, complex)}).Call({Empty({2, 0, 0}, complex)});
  record.Call({Make(complex, {2, 2}, {4, 1, 0, 4})}).Call({Make(complex, {2, 2}, {0, -1, 1, 0})});
  record.Hostile({Sample(complex, {3})}, "Input tensor 0 must have rank >= 2, got 1");
  record.Hostile({Sample(complex, {2, 3})}, "Input matrix must be square.");
}

// The reference of matrices that have no root: NaN.
Matrix RootOrNaN(const Matrix& a) {
  const bool is_broken = a[0][0].real() < 0 || !std::isfinite(a[0][0].real()) || a[0][0] == Number(0);
  const bool is_triangular = a.size() == 2 && a[1][0] == Number(0) && is_broken;
  return is_triangular ? Matrix(2, std::vector<Number>(2, std::nan(""))) : Root(a);
}

}  // namespace

void AddMatrixFunctionsRecords(Suite& suite) {
  AddEig(suite);
  OpRecord& root = suite.Op("MatrixSquareRoot").Reference(EachMatrix(RootOrNaN));
  root.NoKernelFor("T", {D::kHalf}, kNoHalf);
  AddFunction(root, kTypes);
  // The last one is a rotation, whose root is half of it.
  for (const double broken : {-1.0, 0.0, std::nan(""), kInfinity})
    root.Call({Make(D::kFloat64, {2, 2}, {broken, 0, 0, broken})});
  root.Call({Make(D::kFloat64, {2, 2}, {0, -1, 1, 0})});
  AddFunction(suite.Op("MatrixLogarithm").Reference(EachMatrix(Logarithm)), {D::kComplex64, D::kComplex128});
}

}  // namespace weir::conformance
