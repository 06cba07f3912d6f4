// Factors of matrices, inverses, determinants, and linear equations.
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
using List = std::vector<int64_t>;
using Matrix = std::vector<std::vector<Number>>;

Matrix MatrixOf(const Array& array, int64_t batch, bool is_adjoint = false) {
  const int64_t rows = array.dim(array.rank() - 2), columns = array.dim(array.rank() - 1);
  Matrix matrix(is_adjoint ? columns : rows, std::vector<Number>(is_adjoint ? rows : columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const Number value = array[(batch * rows + i) * columns + j].number;
      (is_adjoint ? matrix[j][i] : matrix[i][j]) = is_adjoint ? std::conj(value) : value;
    }
  }
  return matrix;
}

// Calls f(matrix number, matrix) for all matrices of input 0.
void ForEach(const Call& call, bool is_adjoint, const std::function<void(int64_t, const Matrix&)>& f) {
  const Array& a = call.in(0);
  int64_t count = 1;
  for (int i = 0; i < a.rank() - 2; ++i) count *= a.dim(i);
  for (int64_t i = 0; i < count; ++i) f(i, MatrixOf(a, i, is_adjoint));
}

void SetMatrix(Array& array, int64_t batch, const Matrix& matrix) {
  const auto rows = static_cast<int64_t>(matrix.size());
  for (int64_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < matrix[i].size(); ++j)
      array[(batch * rows + i) * static_cast<int64_t>(matrix[i].size()) + static_cast<int64_t>(j)] =
          matrix[i][j];
}

// Makes `a` the identity, and does to the rows of `b` what that took (Gauss and Jordan). Gives the
// determinant.
Number Reduce(Matrix a, Matrix& b) {
  Number determinant = 1;
  for (size_t k = 0; k < a.size(); ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < a.size(); ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    if (pivot != k) determinant = -determinant;
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    const Number diagonal = a[k][k];
    determinant *= diagonal;
    if (diagonal == 0.0) return 0;
    for (Number& x : a[k]) x /= diagonal;
    for (Number& x : b[k]) x /= diagonal;
    for (size_t i = 0; i < a.size(); ++i) {
      const Number factor = a[i][k];
      if (i == k) continue;
      for (size_t j = 0; j < a.size(); ++j) a[i][j] -= factor * a[k][j];
      for (size_t j = 0; j < b[i].size(); ++j) b[i][j] -= factor * b[k][j];
    }
  }
  return determinant;
}

Matrix IdentityOf(size_t rows) {
  Matrix identity(rows, std::vector<Number>(rows));
  for (size_t i = 0; i < rows; ++i) identity[i][i] = 1;
  return identity;
}

void Inverse(Call& call) {
  call.outputs[0] = Array(call.in(0).dims());
  ForEach(call, call.flag("adjoint"), [&](int64_t i, const Matrix& a) {
    Matrix inverse = IdentityOf(a.size());
    Reduce(a, inverse);
    SetMatrix(call.outputs[0], i, inverse);
  });
}

void Solve(Call& call) {
  call.outputs[0] = Array(call.in(1).dims());
  ForEach(call, call.flag("adjoint"), [&](int64_t i, const Matrix& a) {
    Matrix x = MatrixOf(call.in(1), i);
    Reduce(a, x);
    SetMatrix(call.outputs[0], i, x);
  });
}

Index BatchDims(const Array& a) { return {a.dims().begin(), a.dims().end() - 2}; }

void Determinant(Call& call) {
  call.outputs[0] = Array(BatchDims(call.in(0)));
  ForEach(call, false, [&](int64_t i, const Matrix& a) {
    Matrix unused = a;
    call.outputs[0][i] = Reduce(a, unused);
  });
}

void LogDeterminant(Call& call) {
  call.outputs = {Array(BatchDims(call.in(0))), Array(BatchDims(call.in(0)))};
  ForEach(call, false, [&](int64_t i, const Matrix& a) {
    Matrix unused = a;
    const Number determinant = Reduce(a, unused);
    const double size = std::abs(determinant);
    call.outputs[0][i] = size == 0 ? Number(0) : determinant / size;
    call.outputs[1][i] = std::log(size);
  });
}

// Crout's way: an element of u, then one of l, each from those before it.
void Lu(Call& call) {
  const Array& input = call.in(0);
  Index order_dims = input.dims();
  order_dims.pop_back();
  call.outputs = {Array(input.dims()), Array(order_dims)};
  ForEach(call, false, [&](int64_t batch, Matrix a) {
    const size_t n = a.size();
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = i;
    for (size_t j = 0; j < n; ++j) {
      for (size_t i = 0; i < n; ++i)
        for (size_t k = 0; k < std::min(i, j); ++k) a[i][j] -= a[i][k] * a[k][j];
      size_t pivot = j;
      for (size_t i = j + 1; i < n; ++i)
        if (std::abs(a[i][j]) > std::abs(a[pivot][j])) pivot = i;
      std::swap(a[j], a[pivot]);
      std::swap(order[j], order[pivot]);
      for (size_t i = j + 1; i < n; ++i) a[i][j] /= a[j][j];
    }
    SetMatrix(call.outputs[0], batch, a);
    for (size_t i = 0; i < n; ++i)
      call.outputs[1][batch * static_cast<int64_t>(n) + static_cast<int64_t>(i)] =
          static_cast<double>(order[i]);
  });
}

// Column by column: l[:, j] from what is left of the matrix after the columns before it.
void Cholesky(Call& call) {
  call.outputs[0] = Array(call.in(0).dims());
  ForEach(call, false, [&](int64_t batch, Matrix a) {
    Matrix l(a.size(), std::vector<Number>(a.size()));
    for (size_t j = 0; j < a.size(); ++j) {
      const double root = std::sqrt(a[j][j].real());
      for (size_t i = j; i < a.size(); ++i) l[i][j] = i == j ? Number(root) : a[i][j] / root;
      for (size_t i = j; i < a.size(); ++i)
        for (size_t k = j; k <= i; ++k) a[i][k] -= l[i][j] * std::conj(l[k][j]);
    }
    SetMatrix(call.outputs[0], batch, l);
  });
}

// Matrix i of the diagonals above, on and below the main one.
Matrix Tridiagonal(const Array& above, const Array& middle, const Array& below, int64_t n) {
  Matrix a(n, std::vector<Number>(n));
  for (int64_t i = 0; i < n; ++i) {
    a[i][i] = middle[i].number;
    if (i + 1 < n) a[i][i + 1] = above[i].number;
    if (i > 0) a[i][i - 1] = below[i].number;
  }
  return a;
}

// Elements [begin, begin + n) as a vector.
Array Part(const Array& array, int64_t begin, int64_t n) {
  return Generate({n}, [&](const Index& at) { return array[begin + at[0]]; });
}

int64_t RowsOf(const Array& array) { return array.dim(array.rank() - 2); }
int64_t CountOf(const Array& array) {
  int64_t count = 1;
  for (int i = 0; i < array.rank() - 2; ++i) count *= array.dim(i);
  return count;
}

void SolveTridiagonal(Call& call) {
  const Array &diagonals = call.in(0), &rhs = call.in(1);
  const int64_t n = RowsOf(rhs);
  call.outputs[0] = Array(rhs.dims());
  for (int64_t i = 0; n > 0 && i < CountOf(rhs); ++i) {
    Matrix x = MatrixOf(rhs, i);
    const int64_t at = 3 * n * i;
    const Matrix a =
        Tridiagonal(Part(diagonals, at, n), Part(diagonals, at + n, n), Part(diagonals, at + 2 * n, n), n);
    if (Reduce(a, x) == 0.0)
      for (auto& row : x) std::fill(row.begin(), row.end(), std::nan(""));
    SetMatrix(call.outputs[0], i, x);
  }
}

void MultiplyTridiagonal(Call& call) {
  const Array& rhs = call.in(3);
  const int64_t n = RowsOf(rhs), columns = rhs.dim(rhs.rank() - 1);
  call.outputs[0] = Array(rhs.dims());
  for (int64_t i = 0; i < CountOf(rhs); ++i) {
    const Matrix a =
        Tridiagonal(Part(call.in(0), n * i, n), Part(call.in(1), n * i, n), Part(call.in(2), n * i, n), n);
    const Matrix x = MatrixOf(rhs, i);
    Matrix product(n, std::vector<Number>(columns));
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t k = 0; k < n; ++k) product[r][c] += a[r][k] * x[k][c];
    SetMatrix(call.outputs[0], i, product);
  }
}

// Far from having no inverse.
Tensor Regular(D dtype, const List& dims, int seed = 1) {
  Array matrices = Array::FromTensor(Sample(dtype, dims, -1, 1, seed));
  for (int64_t i = 0; i < matrices.size(); ++i) {
    const Index at = matrices.IndexOf(i);
    if ((at[at.size() - 2] + 1) % dims.back() == at.back()) matrices[i].number += 3;
  }
  return matrices.ToTensor(dtype);
}

// With a large diagonal, so that the lower triangle is that of a positive definite matrix.
Tensor Positive(D dtype, const List& dims) {
  Array matrices = Array::FromTensor(Sample(dtype, dims, -1, 1, 7));
  for (int64_t i = 0; i < matrices.size(); ++i) {
    const Index at = matrices.IndexOf(i);
    if (at[at.size() - 2] == at.back()) matrices[i].number += 5;
  }
  return matrices.ToTensor(dtype);
}

const std::vector<D> kTypes = {D::kFloat32, D::kFloat64, D::kHalf, D::kComplex64, D::kComplex128};

double Tolerance(D d) { return d == D::kHalf ? 2e-2 : d == D::kFloat32 || d == D::kComplex64 ? 2e-5 : 1e-12; }

bool IsComplexType(D d) { return d == D::kComplex64 || d == D::kComplex128; }

// Calls and refusals that the ops on square matrices share.
OpRecord& Square(Suite& suite, const char* op, const reference::Reference& reference) {
  OpRecord& record = suite.Op(op).Reference(reference);
  for (const D d : kTypes) {
    if (IsComplexType(d)) continue;
    record.Tolerance(Tolerance(d)).Call({Regular(d, {3, 3})}).Call({Regular(d, {2, 4, 4})});
  }
  record.Call({Regular(D::kFloat64, {1, 1})}).Call({Regular(D::kFloat64, {2, 2, 5, 5})});
  record.Tolerance(2e-5).Call({Empty({0, 0})}).Call({Empty({0, 2, 2})}).Call({Empty({2, 0, 0})});
  record.NoGradient();  // as in TensorFlow's kernels for complex numbers, of our formulas
  for (const D d : {D::kComplex64, D::kComplex128})
    record.Tolerance(Tolerance(d)).Call({Regular(d, {2, 3, 3})});
  record.Hostile({Floats({2, 3})}, "must be square").Hostile({Floats({3})}, "must have rank >= 2, got 1");
  return record;
}

Tensor Singular() { return Make(D::kFloat32, {2, 2}, {1, 2, 2, 4}); }
Tensor Broken() { return Make(D::kFloat32, {2, 2}, {1, 2, std::nan(""), 4}); }

void AddInverseAndSolve(Suite& suite) {
  OpRecord& inverse = Square(suite, "MatrixInverse", Inverse);
  inverse.Call({Regular(D::kComplex128, {3, 3})}, {{"adjoint", true}});
  inverse.Hostile({Singular()}, "Input is not invertible.").Hostile({Broken()}, "Input is not invertible.");

  OpRecord& solve = suite.Op("MatrixSolve").Reference(Solve);
  for (const bool adjoint : {false, true}) {
    for (const D d : {D::kFloat32, D::kFloat64, D::kHalf}) {
      solve.Tolerance(Tolerance(d));
      solve.Call({Regular(d, {3, 3}), Sample(d, {3, 2})}, {{"adjoint", adjoint}});
    }
  }
  solve.Tolerance(2e-5).Call({Regular(D::kFloat32, {2, 3, 3}), Floats({2, 3, 1})});
  solve.Call({Empty({0, 0}), Empty({0, 2})}).Call({Regular(D::kFloat32, {2, 2}), Empty({2, 0})});
  solve.NoGradient();
  for (const D d : {D::kComplex64, D::kComplex128}) {
    solve.Tolerance(Tolerance(d));
    solve.Call({Regular(d, {2, 3, 3}), Sample(d, {2, 3, 2})}, {{"adjoint", true}});
  }
  const Tensor one = Floats({2, 1});
  solve.Hostile({Singular(), one}, "Input matrix is not invertible.");
  solve.Hostile({Broken(), one}, "Input matrix is not invertible.");
  solve.Hostile({Floats({2, 3}), one}, "must be a square matrix")
      .Hostile({Floats({2}), one}, "rank >= 2, got 1");
  solve.Hostile({Floats({2, 2}), Floats({2})}, "rank >= 2, got 1");
  solve.Hostile({Floats({2, 2}), Floats({3, 1})}, "incompatible");
  solve.Hostile({Floats({2, 2, 2}), one}, "must have the same rank");
  solve.Hostile({Floats({2, 2, 2}), Floats({3, 2, 1})}, "must have the same outer dimensions");
}

const std::vector<D> kTridiagonalTypes = {D::kFloat32, D::kFloat64, D::kComplex64, D::kComplex128};

void AddTridiagonalSolve(Suite& suite) {
  OpRecord& record = suite.Op("TridiagonalSolve").Reference(SolveTridiagonal).NoGradient();
  for (const D d : kTridiagonalTypes) {
    // Elimination without exchanges loses digits where a diagonal is small: here it is not.
    record.Tolerance(d == D::kFloat32 || d == D::kComplex64 ? 1e-4 : 1e-12);
    for (const bool pivots : {false, true}) {
      const AttrMap attrs = {{"partial_pivoting", pivots}};
      record.Call({Sample(d, {2, 3, 5}, 1, 2), Sample(d, {2, 5, 2})}, attrs);
      record.Call({Sample(d, {3, 1}, 1, 2), Sample(d, {1, 2})}, attrs);
      record.Call({Sample(d, {3, 2}, 1, 2), Sample(d, {2, 1})}, attrs);
      // A singular one. TensorFlow's NaN of complex numbers is 0.
      if (!IsComplexType(d))
        record.Call({Make(d, {3, 3}, {1, 1, 0, 0, 0, 0, 0, 0, 0}), Sample(d, {3, 1})}, attrs);
    }
    record.Call(
        {Make(d, {3, 4}, {1, 2, 3, 0, 0, 0, 1, 4, 0, 3, 5, 6}), Sample(d, {4, 3})});  // rows change places
  }
  record.Call({Empty({3, 0}), Empty({0, 2})})
      .Call({Floats({3, 2}), Empty({2, 0})})
      .Call({Empty({0, 3, 2}), Empty({0, 2, 2})});
  const Tensor a = Floats({3, 4}), b = Floats({4, 1});
  record.Hostile({Floats({3}), b}, "Input tensor 0 must have rank >= 2, got 1");
  record.Hostile({a, Floats({1, 4, 1})}, "All input tensors must have the same rank.");
  record.Hostile({Floats({2, 3, 4}), Floats({1, 4, 1})},
                 "All input tensors must have the same outer dimensions.");
  record.Hostile({Floats({2, 4}), b}, "as a matrix with 3 rows, got 2 rows.");
  record.Hostile({a, Floats({3, 1})}, "left-hand sides and right-hand sides, got 4 and 3.");
  record.Hostile({a, b}, "Setting perturb_singular requires also setting partial_pivoting.",
                 {{"perturb_singular", true}, {"partial_pivoting", false}});
  record.Hostile({a, b}, "perturb_singular is not there", {{"perturb_singular", true}},
                 absl::StatusCode::kUnimplemented);
}

void AddTridiagonalProduct(Suite& suite) {
  OpRecord& record = suite.Op("TridiagonalMatMul").Reference(MultiplyTridiagonal).NoGradient();
  for (const D d : kTridiagonalTypes) {
    record.Tolerance(d == D::kFloat32 || d == D::kComplex64 ? 1e-5 : 1e-12);
    for (const int64_t n : {1, 2, 5}) {
      const Tensor diagonal = Sample(d, {2, 1, n});
      record.Call({diagonal, Sample(d, {2, 1, n}, -2, 2, 2), diagonal, Sample(d, {2, n, 3}, -2, 2, 3)});
    }
  }
  const Tensor one = Floats({1, 3}), rhs = Floats({3, 2});
  record.Tolerance(1e-5).Call({one, one, one, rhs}).Call({one, one, one, Empty({3, 0})});
  record.Call({Empty({1, 0}), Empty({1, 0}), Empty({1, 0}), Empty({0, 2})});
  record.Hostile({Floats({3}), one, one, rhs}, "Input tensor 0 must have rank >= 2, got 1");
  record.Hostile({one, one, one, Floats({3})}, "All input tensors must have the same rank.");
  record.Hostile({Floats({2, 1, 3}), Floats({2, 1, 3}), Floats({2, 1, 3}), Floats({1, 3, 2})},
                 "All input tensors must have the same outer dimensions.");
  record.Hostile({Floats({2, 3}), one, one, rhs}, "Invalid superdiagonal shape.");
  record.Hostile({one, Floats({1, 2}), one, rhs}, "Invalid main diagonal shape.");
  record.Hostile({one, one, Floats({1, 4}), rhs}, "Invalid subdiagonal shape.");
}

}  // namespace

void AddLinearEquationsRecords(Suite& suite) {
  AddTridiagonalSolve(suite);
  AddTridiagonalProduct(suite);
  AddInverseAndSolve(suite);
  Square(suite, "MatrixDeterminant", Determinant).Call({Make(D::kFloat32, {2, 2}, {0, 1, 1, 0})});
  Square(suite, "LogMatrixDeterminant", LogDeterminant).Call({Make(D::kFloat64, {2, 2}, {0, 1, 1, 0})});
  OpRecord& lu = Square(suite, "Lu", Lu);
  lu.Tolerance(2e-5).Call({Regular(D::kFloat32, {3, 3})}, {{"output_idx_type", D::kInt64}});
  lu.Hostile({Singular()}, "Input is not invertible.").Hostile({Broken()}, "Input is not invertible.");

  // The gradient is TensorFlow's, which is spread over both triangles, though the op reads one.
  OpRecord& cholesky = suite.Op("Cholesky").Reference(Cholesky);
  cholesky.NoGradient();
  for (const D d : kTypes)
    cholesky.Tolerance(Tolerance(d)).Call({Positive(d, {3, 3})}).Call({Positive(d, {2, 4, 4})});
  cholesky.Tolerance(2e-5)
      .Call({Empty({0, 0})})
      .Call({Empty({0, 2, 2})})
      .Call({Positive(D::kFloat32, {1, 1})});
  cholesky.Hostile({Floats({2, 3})}, "must be square").Hostile({Floats({3})}, "must have rank >= 2, got 1");
}

}  // namespace weir::conformance
