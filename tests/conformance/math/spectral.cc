// Eigenvalues and singular values, and least squares. Vectors, which are known up to a factor, are compared
// in tensorflow_test.py by what does not depend on it.
#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
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
using Matrix = std::vector<std::vector<Number>>;

// Matrix i of a batch.
Matrix MatrixAt(const Array& array, int64_t i) {
  const int64_t rows = array.dim(array.rank() - 2), columns = array.dim(array.rank() - 1);
  Matrix matrix(rows, std::vector<Number>(columns));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) matrix[r][c] = array[(i * rows + r) * columns + c].number;
  return matrix;
}

Index BatchDims(const Array& array) { return {array.dims().begin(), array.dims().end() - 2}; }

int64_t CountOf(const Array& array) {
  int64_t count = 1;
  for (const int64_t dim : BatchDims(array)) count *= dim;
  return count;
}

// Jacobi's rotations, until nothing is left beside the diagonal.
std::vector<double> Eigenvalues(Matrix a) {
  const size_t n = a.size();
  for (int sweep = 0; sweep < 50; ++sweep) {
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        const double size = std::abs(a[p][q]);
        if (size < 1e-200) continue;
        const Number phase = a[p][q] / size;
        const double angle = 0.5 * std::atan2(2 * size, a[q][q].real() - a[p][p].real());
        const double c = std::cos(angle), s = std::sin(angle);
        for (size_t k = 0; k < n; ++k) {  // columns
          const Number x = a[k][p], y = a[k][q] * std::conj(phase);
          a[k][p] = c * x - s * y;
          a[k][q] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {  // rows
          const Number x = a[p][k], y = a[q][k] * phase;
          a[p][k] = c * x - s * y;
          a[q][k] = s * x + c * y;
        }
      }
    }
  }
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(a[i][i].real());
  std::sort(values.begin(), values.end());
  return values;
}

void Eig(Call& call) {
  const Array& x = call.in(0);
  const int64_t n = x.dim(x.rank() - 1);
  Index dims = BatchDims(x);
  dims.push_back(n);
  call.outputs = {Array(dims), Array(Index())};
  for (int64_t i = 0; i < CountOf(x); ++i) {
    Matrix a = MatrixAt(x, i);
    for (int64_t r = 0; r < n; ++r) {
      a[r][r] = a[r][r].real();
      for (int64_t c = r + 1; c < n; ++c) a[r][c] = std::conj(a[c][r]);
    }
    const std::vector<double> values = Eigenvalues(a);
    for (int64_t k = 0; k < n; ++k) call.outputs[0][i * n + k] = values[k];
  }
}

// The largest eigenvalues of the Hermitian matrix with `a` above the diagonal and its adjoint below it.
void Svd(Call& call) {
  const Array& x = call.in(0);
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1), count = std::min(rows, columns);
  Index dims = BatchDims(x);
  dims.push_back(count);
  call.outputs = {Array(dims), Array(Index()), Array(Index())};
  for (int64_t i = 0; i < CountOf(x); ++i) {
    const Matrix a = MatrixAt(x, i);
    Matrix both(rows + columns, std::vector<Number>(rows + columns));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        both[r][rows + c] = a[r][c];
        both[rows + c][r] = std::conj(a[r][c]);
      }
    }
    const std::vector<double> values = Eigenvalues(both);
    for (int64_t k = 0; k < count; ++k)
      call.outputs[0][i * count + k] = std::max(0.0, values[values.size() - 1 - k]);
  }
}

// Gauss and Jordan, with the largest element of a column as pivot: b becomes a^-1 b.
Matrix Solve(Matrix a, Matrix b) {
  for (size_t k = 0; k < a.size(); ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < a.size(); ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    const Number diagonal = a[k][k];
    for (Number& x : a[k]) x /= diagonal;
    for (Number& x : b[k]) x /= diagonal;
    for (size_t i = 0; i < a.size(); ++i) {
      const Number factor = a[i][k];
      if (i == k) continue;
      for (size_t j = 0; j < a.size(); ++j) a[i][j] -= factor * a[k][j];
      for (size_t j = 0; j < b[i].size(); ++j) b[i][j] -= factor * b[k][j];
    }
  }
  return b;
}

Matrix Adjoint(const Matrix& a, int64_t columns) {
  Matrix adjoint(columns, std::vector<Number>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t j = 0; j < columns; ++j) adjoint[j][i] = std::conj(a[i][j]);
  return adjoint;
}

Matrix Times(const Matrix& a, const Matrix& b, int64_t columns) {
  Matrix product(a.size(), std::vector<Number>(columns));
  for (size_t i = 0; i < a.size(); ++i)
    for (int64_t j = 0; j < columns; ++j)
      for (size_t k = 0; k < b.size(); ++k) product[i][j] += a[i][k] * b[k][j];
  return product;
}

// By the normal equations of a tall matrix, or of the adjoint of a wide one.
bool IsFinite(const Matrix& matrix) {
  return std::all_of(matrix.begin(), matrix.end(), [](const std::vector<Number>& row) {
    return std::all_of(row.begin(), row.end(),
                       [](Number x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); });
  });
}

void SolveLeastSquares(Call& call) {
  const Array &a = call.in(0), &b = call.in(1);
  const int64_t rows = a.dim(a.rank() - 2), columns = a.dim(a.rank() - 1), sides = b.dim(b.rank() - 1);
  const double l2 = call.flag("fast") ? call.in(2)[0].real() : 0;
  Index dims = BatchDims(a);
  dims.insert(dims.end(), {columns, sides});
  call.outputs[0] = Array(dims);
  for (int64_t i = 0; rows > 0 && i < CountOf(a); ++i) {
    const Matrix matrix = MatrixAt(a, i), right = MatrixAt(b, i), adjoint = Adjoint(matrix, columns);
    if (!IsFinite(matrix)) {
      const double each = call.flag("fast") ? std::nan("") : 0;
      for (int64_t k = 0; k < columns * sides; ++k) call.outputs[0][i * columns * sides + k] = each;
      continue;
    }
    const bool is_tall = rows >= columns;
    Matrix square = is_tall ? Times(adjoint, matrix, columns) : Times(matrix, adjoint, rows);
    for (size_t k = 0; k < square.size(); ++k) square[k][k] += l2;
    const Matrix x =
        is_tall ? Solve(square, Times(adjoint, right, sides)) : Times(adjoint, Solve(square, right), sides);
    for (int64_t r = 0; r < columns; ++r)
      for (int64_t c = 0; c < sides; ++c) call.outputs[0][(i * columns + r) * sides + c] = x[r][c];
  }
}

const std::vector<D> kTypes = {D::kFloat32, D::kFloat64, D::kComplex64, D::kComplex128};
constexpr char kNoHalf[] = "TensorFlow's CPU kernels have none";

bool IsSingle(D d) { return d == D::kFloat32 || d == D::kComplex64; }

void AddEig(Suite& suite) {
  OpRecord& record = suite.Op("SelfAdjointEigV2").Reference(Eig).NoKernelFor("T", {D::kHalf}, kNoHalf);
  const AttrMap values = {{"compute_v", false}};
  for (const D d : kTypes) {
    if (d == D::kComplex64) record.NoGradient();
    record.Tolerance(IsSingle(d) ? 1e-5 : 1e-12);
    record.Call({Sample(d, {3, 3})}, values).Call({Sample(d, {2, 2, 5, 5})}, values);
    record.Call({Sample(d, {1, 1})}, values).Call({Sample(d, {2, 12, 12})}, values);
  }
  record.Call({Empty({0, 0})}, values).Call({Empty({0, 2, 2})}, values).Call({Empty({2, 0, 0})}, values);
  record.Call({Make(D::kFloat32, {3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0})}, values);
  record.Call({Make(D::kFloat32, {2, 2}, {1e30, 0, 1e30, 2e30})}, values);
  record.Hostile({Floats({3})}, "Input tensor 0 must have rank >= 2, got 1");
  record.Hostile({Floats({2, 3})}, "Input matrix must be square.");
  for (const double broken : {std::nan(""), kInfinity}) {
    record.Hostile({Make(D::kFloat32, {2, 2}, {1, 2, broken, 3})},
                   "Self-adjoint eigen decomposition was not successful");
  }
}

void AddSvd(Suite& suite) {
  OpRecord& record = suite.Op("Svd").Reference(Svd).NoGradient().NoKernelFor("T", {D::kHalf}, kNoHalf);
  const AttrMap values = {{"compute_uv", false}};
  for (const D d : kTypes) {
    record.Tolerance(IsSingle(d) ? 1e-5 : 1e-12);
    record.Call({Sample(d, {3, 3})}, values).Call({Sample(d, {2, 2, 5, 3})}, values);
    record.Call({Sample(d, {4, 7})}, values)
        .Call({Sample(d, {1, 1})}, values)
        .Call({Sample(d, {13, 11})}, values);
  }
  record.Call({Empty({0, 3})}, values).Call({Empty({0, 2, 3})}, values).Call({Empty({2, 3, 0})}, values);
  record.Call({Make(D::kFloat64, {2, 3}, {1, 2, 3, 2, 4, 6})}, values);
  record.Call({Make(D::kFloat32, {2, 2}, {1e30, 0, 1e30, 1e30})}, values);
  record.Hostile({Floats({3})}, "Input tensor 0 must have rank >= 2, got 1");
  record.OutOfMemory({Empty({1 << 20, 0})}, {{"full_matrices", true}});
}

void AddLeastSquares(Suite& suite) {
  OpRecord& record = suite.Op("MatrixSolveLs").Reference(SolveLeastSquares).NoGradient();
  record.NoKernelFor("T", {D::kHalf}, kNoHalf);
  const auto scalar = [](double l2) { return Make(D::kFloat64, {}, {l2}); };
  for (const D d : kTypes) {
    for (const bool fast : {false, true}) {
      record.Tolerance(IsSingle(d) ? 1e-4 : 1e-10);
      const AttrMap attrs = {{"fast", fast}};
      record.Call({Sample(d, {2, 4, 3}), Sample(d, {2, 4, 2}, -2, 2, 2), scalar(0)}, attrs);
      record.Call({Sample(d, {3, 5}), Sample(d, {3, 2}, -2, 2, 2), scalar(0)}, attrs);
      record.Call({Sample(d, {4, 4}), Sample(d, {4, 1}, -2, 2, 2), scalar(0.5)}, attrs);
    }
  }
  // As TensorFlow has it: NaN the fast way, by a Cholesky decomposition, and nothing the other one, for which
  // a matrix that is not finite has rank 0.
  for (const bool fast : {false, true}) {
    for (const double broken : {std::nan(""), kInfinity}) {
      record.Call({Make(D::kFloat64, {2, 2}, {broken, 1, 1, 2}), Sample(D::kFloat64, {2, 1}), scalar(0)},
                  {{"fast", fast}});
    }
  }
  const Tensor a = Floats({3, 2}), b = Floats({3, 1}), zero = scalar(0);
  record.Call({Empty({3, 0}), b, zero})
      .Call({a, Empty({3, 0}), zero})
      .Call({Empty({0, 3, 2}), Empty({0, 3, 1}), zero});
  record.Hostile({Floats({3}), b, zero}, "Input tensor 0 must have rank >= 2, got 1");
  record.Hostile({a, Floats({3}), zero}, "Input tensor 1 must have rank >= 2, got 1");
  record.Hostile({Floats({2, 3, 2}), b, zero}, "All input tensors must have the same rank.");
  record.Hostile({Floats({2, 3, 2}), Floats({1, 3, 2}), zero},
                 "All input tensors must have the same outer dimensions.");
  record.Hostile({a, Floats({2, 1}), zero}, "Input matrix and rhs are incompatible.");
  record.Hostile({a, b, Make(D::kFloat64, {1}, {1})}, "l2_regularizer must be scalar, got shape [1]");
  record.Hostile({a, b, scalar(-1)}, "l2_regularizer must be >= 0.")
      .Hostile({a, b, scalar(std::nan(""))}, "must be >= 0");
  record.Hostile({Make(D::kFloat32, {2, 2}, {1, 2, 2, 4}), Floats({2, 1}), zero},
                 "Input matrix was rank deficient or ill-conditioned. Try setting fast=False");
}

}  // namespace

void AddSpectralRecords(Suite& suite) {
  AddEig(suite);
  AddSvd(suite);
  AddLeastSquares(suite);
}

}  // namespace weir::conformance
