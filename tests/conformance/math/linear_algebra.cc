// Decompositions of matrices, and linear equations.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
using List = std::vector<int64_t>;
using Matrix = std::vector<std::vector<Number>>;

Matrix Zeros(int64_t rows, int64_t columns) { return Matrix(rows, std::vector<Number>(columns)); }

Matrix IdentityOf(int64_t rows) {
  Matrix identity = Zeros(rows, rows);
  for (int64_t i = 0; i < rows; ++i) identity[i][i] = 1;
  return identity;
}

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix product = Zeros(static_cast<int64_t>(a.size()), b.empty() ? 0 : static_cast<int64_t>(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t k = 0; k < b.size(); ++k)
      for (size_t j = 0; j < b[k].size(); ++j) product[i][j] += a[i][k] * b[k][j];
  return product;
}

Matrix Adjoint(const Matrix& a) {
  Matrix adjoint = Zeros(a.empty() ? 0 : static_cast<int64_t>(a[0].size()), static_cast<int64_t>(a.size()));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a[i].size(); ++j) adjoint[j][i] = std::conj(a[i][j]);
  return adjoint;
}

// The matrix number `batch` of a tensor.
Matrix MatrixOf(const Array& array, int64_t batch) {
  const int64_t rows = array.dim(array.rank() - 2), columns = array.dim(array.rank() - 1);
  Matrix matrix = Zeros(rows, columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) matrix[i][j] = array[(batch * rows + i) * columns + j].number;
  return matrix;
}

// Writes the first rows and columns of a matrix.
void SetMatrix(Array& array, int64_t batch, const Matrix& matrix) {
  const int64_t rows = array.dim(array.rank() - 2), columns = array.dim(array.rank() - 1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) array[(batch * rows + i) * columns + j] = matrix[i][j];
}

// The reflection that makes column k of `a` zero below the diagonal: 1 - 2 v v* / (v* v) but for its phase,
// which makes the diagonal real, and against the sign of what was there. The identity where it is zero.
Matrix Reflection(const Matrix& a, size_t k) {
  Matrix reflection = IdentityOf(static_cast<int64_t>(a.size()));
  double below = 0;
  for (size_t i = k + 1; i < a.size(); ++i) below += std::norm(a[i][k]);
  if (below == 0 && a[k][k].imag() == 0) return reflection;
  const double length = std::sqrt(below + std::norm(a[k][k]));
  const double diagonal = a[k][k].real() >= 0 ? -length : length;
  std::vector<Number> v(a.size());
  for (size_t i = k + 1; i < a.size(); ++i) v[i] = a[i][k] / (a[k][k] - diagonal);
  v[k] = 1;
  const Number scale = std::conj((diagonal - a[k][k]) / diagonal);
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < a.size(); ++j) reflection[i][j] -= scale * v[i] * std::conj(v[j]);
  return reflection;
}

void Qr(reference::Call& call) {
  const Array& x = call.in(0);
  Index q_dims = x.dims(), r_dims = x.dims();
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
  const int64_t inner = call.flag("full_matrices") ? rows : std::min(rows, columns);
  q_dims.back() = r_dims[x.rank() - 2] = inner;
  call.outputs = {Array(q_dims), Array(r_dims)};
  int64_t batch = 1;
  for (int i = 0; i < x.rank() - 2; ++i) batch *= x.dim(i);
  for (int64_t b = 0; b < batch; ++b) {
    Matrix q = IdentityOf(rows), r = MatrixOf(x, b);
    for (int64_t k = 0; k < std::min(rows, columns); ++k) {
      const Matrix reflection = Reflection(r, k);
      r = Product(reflection, r);
      q = Product(q, Adjoint(reflection));
      for (int64_t i = k + 1; i < rows; ++i) r[i][k] = 0;
    }
    SetMatrix(call.outputs[0], b, q);
    SetMatrix(call.outputs[1], b, r);
  }
}

// By the inverse: column j of it is what solves the equations for column j of the identity.
void TriangularSolve(reference::Call& call) {
  const Array &a = call.in(0), &b = call.in(1);
  const bool is_upper = call.flag("lower") == call.flag("adjoint");
  const int64_t rows = a.dim(a.rank() - 1), columns = b.dim(b.rank() - 1);
  Index dims = BroadcastDims(Array(Index(a.dims().begin(), a.dims().end() - 2)),
                             Array(Index(b.dims().begin(), b.dims().end() - 2)));
  dims.insert(dims.end(), {rows, columns});
  const auto coefficient = [&](Index at, int64_t i, int64_t j) {
    at[at.size() - 2] = call.flag("adjoint") ? j : i;
    at.back() = call.flag("adjoint") ? i : j;
    Index own(at.end() - a.rank(), at.end());
    for (int k = 0; k < a.rank() - 2; ++k) own[k] = std::min(own[k], a.dim(k) - 1);
    const Number value = a.at(own).number;
    return call.flag("adjoint") ? std::conj(value) : value;
  };
  const auto right_side = [&](const Index& at) {
    Index own(at.end() - b.rank(), at.end());
    for (int k = 0; k < b.rank() - 2; ++k) own[k] = std::min(own[k], b.dim(k) - 1);
    return b.at(own).number;
  };
  Array& x = call.outputs[0] = Array(dims);
  // Row by row, from the one that has one unknown.
  for (int64_t step = 0; step < rows; ++step) {
    const int64_t i = is_upper ? rows - 1 - step : step;
    for (int64_t position = 0; position < x.size(); ++position) {
      Index at = x.IndexOf(position);
      if (at[at.size() - 2] != i) continue;
      Number sum = right_side(at);
      for (int64_t j = is_upper ? i + 1 : 0; is_upper ? j < rows : j < i; ++j) {
        Index known = at;
        known[known.size() - 2] = j;
        sum -= coefficient(at, i, j) * x.at(known).number;
      }
      x.at(at) = sum / coefficient(at, i, i);
    }
  }
}

void AddQrRecords(Suite& suite) {
  OpRecord& record = suite.Op("Qr");
  record.Reference(Qr);
  const AttrMap full = {{"full_matrices", true}};
  for (D d : {D::kFloat32, D::kFloat64, D::kHalf}) {
    record.Tolerance(d == D::kHalf ? 2e-2 : d == D::kFloat32 ? 2e-5 : 0);
    record.Call({Sample(d, {4, 3})}).Call({Sample(d, {3, 3}, -2, 2, 5)}, full);
  }
  record.Tolerance(5e-5);
  for (const List& dims : std::vector<List>{{1, 1}, {5, 1}, {1, 4}, {2, 5}, {2, 4, 3}, {3, 2, 2, 4}}) {
    record.Call({Floats(dims)});
  }
  record.Call({Floats({2, 2, 5}, 3)}, full);
  record.NoGradient();  // as in TensorFlow
  record.Call({Floats({5, 3})}, full).Call({Floats({2, 4, 1})}, full);
  record.Call({Sample(D::kComplex64, {4, 3})}).Call({Sample(D::kComplex128, {2, 2, 3})}, full);
  // Columns that are zero below the diagonal keep their sign; matrices without an inverse.
  record.Call({Make(D::kFloat64, {3, 3}, {1, 2, 3, 0, -3, 1, 0, 0, -2})});
  record.Call({Make(D::kFloat32, {3, 2}, {0, 0, 0, 0, 0, 0})});
  record.Call({Make(D::kFloat32, {3, 3}, {3, 4, 5, 0, 0, 0, 4, 0, 1})});
  for (const List& dims : std::vector<List>{{0, 3}, {3, 0}, {0, 2, 2}, {2, 0, 3}}) {
    record.Call({Empty(dims)}).Call({Empty(dims)}, full);
  }
  record.Hostile({Floats({3})}, "rank 2 or more").Hostile({Floats({})}, "rank 2 or more");
  record.Hostile({Empty({kWide, 0})}, "no shape has the dimensions", full);
  record.OutOfMemory({Empty({1 << 20, 0})}, full);
}

// With a diagonal far from zero.
Tensor Triangular(D dtype, const List& dims, int seed = 1) {
  Array matrices = Array::FromTensor(Sample(dtype, dims, -1, 1, seed));
  for (int64_t i = 0; i < matrices.size(); ++i) {
    const Index at = matrices.IndexOf(i);
    if (at[at.size() - 2] == at.back()) matrices[i].number += 2;
  }
  return matrices.ToTensor(dtype);
}

void AddTriangularSolveRecords(Suite& suite) {
  OpRecord& record = suite.Op("MatrixTriangularSolve");
  record.Reference(TriangularSolve);
  for (D d : kInexact) {
    record.Tolerance(d == D::kHalf ? 1e-2 : d == D::kBfloat16 ? 1e-1 : d == D::kFloat64 ? 0 : 1e-5);
    for (bool lower : {false, true}) {
      for (bool adjoint : {false, true}) {
        const AttrMap attrs = {{"lower", lower}, {"adjoint", adjoint}};
        record.Call({Triangular(d, {3, 3}), Sample(d, {3, 2}, -1, 1, 2)}, attrs);
      }
    }
  }
  record.Tolerance(2e-5);
  const auto matrix = [](const List& dims) { return Triangular(D::kFloat32, dims); };
  record.Call({matrix({2, 3, 3}), Floats({2, 3, 2})}).Call({matrix({1, 1}), Floats({1, 1})});
  record.Call({matrix({2, 1, 3, 3}), Floats({4, 3, 2})}).Call({matrix({3, 3}), Floats({2, 2, 3, 1})});
  record.Call({matrix({2, 2, 2}), Floats({2, 3})}, {{"adjoint", true}});
  record.Call({Empty({0, 0}), Empty({0, 2})}).Call({matrix({2, 2}), Empty({2, 0})});
  record.Call({Empty({0, 2, 2}), Empty({0, 2, 1})});
  // No inverse: as the division gives it.
  record.NoGradient().Call({Make(D::kFloat64, {2, 2}, {1, 0, 2, 0}), Make(D::kFloat64, {2, 1}, {1, 1})});
  const Tensor square = Floats({3, 3});
  record.Hostile({Floats({3}), Floats({3, 1})}, "rank 2 or more");
  record.Hostile({square, Floats({3})}, "rank 2 or more");
  record.Hostile({Floats({3, 2}), Floats({3, 1})}, "matrix must be square");
  record.Hostile({square, Floats({2, 3})}, "rhs have as many rows");
  record.Hostile({Floats({2, 3, 3}), Floats({3, 3, 1})}, "Incompatible shapes: [2] vs. [3]: matrix is");
  record.Hostile({Empty({kWide, 1, 0, 0}), Empty({kWide, 0, 1})}, "no shape has the dimensions");
  record.OutOfMemory({matrix({1 << 14, 1, 1, 1}), Floats({1 << 14, 1, 1})});
}

// By the whole matrix, which its diagonals make.
void BandedTriangularSolve(reference::Call& call) {
  const Array bands = call.in(0);
  const int64_t count = bands.dim(bands.rank() - 2), rows = bands.dim(bands.rank() - 1);
  const bool is_lower = call.flag("lower");
  Index dims = bands.dims();
  dims[dims.size() - 2] = rows;
  Array whole(dims);
  for (int64_t position = 0; position < whole.size(); ++position) {
    Index at = whole.IndexOf(position);
    const int64_t i = at[at.size() - 2], j = at.back();
    const int64_t away = is_lower ? i - j : j - i;
    if (away < 0 || away >= count) continue;
    at[at.size() - 2] = is_lower ? away : count - 1 - away;
    at.back() = i;
    whole[position] = bands.at(at);
  }
  call.inputs[0] = whole;
  TriangularSolve(call);
}

// Diagonals, the main one far from zero.
Tensor Diagonals(D dtype, const List& dims, bool is_lower) {
  Array bands = Array::FromTensor(Sample(dtype, dims, -1, 1));
  for (int64_t i = 0; i < bands.size(); ++i) {
    const Index at = bands.IndexOf(i);
    if (at[at.size() - 2] == (is_lower ? 0 : dims[dims.size() - 2] - 1)) bands[i].number += 2;
  }
  return bands.ToTensor(dtype);
}

void AddBandedTriangularSolveRecords(Suite& suite) {
  OpRecord& record = suite.Op("BandedTriangularSolve");
  record.Reference(BandedTriangularSolve);
  record.NoKernelFor("T", {D::kHalf}, "TensorFlow's CPU kernels have none");
  for (const D d : {D::kFloat32, D::kFloat64, D::kComplex64, D::kComplex128}) {
    record.Tolerance(d == D::kFloat32 || d == D::kComplex64 ? 1e-5 : 1e-12);
    for (const bool lower : {false, true}) {
      for (const bool adjoint : {false, true}) {
        const AttrMap attrs = {{"lower", lower}, {"adjoint", adjoint}};
        record.Call({Diagonals(d, {2, 4}, lower), Sample(d, {4, 2}, -1, 1, 2)}, attrs);
      }
    }
  }
  record.Tolerance(2e-5);
  const auto lower = [](const List& dims) { return Diagonals(D::kFloat32, dims, true); };
  record.Call({lower({1, 3}), Floats({3, 2})}).Call({lower({3, 3}), Floats({3, 1})});
  record.Call({lower({2, 2, 3}), Floats({2, 3, 2})}).Call({lower({2, 1, 2, 3}), Floats({4, 3, 2})});
  record.Call({lower({2, 3}), Floats({2, 2, 3, 1})}).Call({lower({1, 1}), Floats({1, 1})});
  record.Hostile({Floats({3}), Floats({3, 1})}, "In[0] ndims must be >= 2: 1");
  record.Hostile({lower({2, 3}), Floats({3})}, "In[1] ndims must be >= 2: 1");
  record.Hostile({lower({2, 3}), Floats({2, 1})}, "In[0] mismatch In[1] shape: 3 vs. 2: [2,3] [2,1]");
  record.Hostile({lower({4, 3}), Floats({3, 1})}, "Number of bands 4 cannot exceed the size of the matrix 3");
  record.Hostile({Empty({0, 3}), Floats({3, 1})}, "In[0] must not be an empty tensor");
  record.Hostile({lower({2, 3}), Empty({3, 0})}, "In[1] must not be an empty tensor");
  record.Hostile({lower({2, 2, 3}), Floats({3, 3, 1})},
                 "In[0] and In[1] must have compatible batch dimensions: [2,2,3] vs. [3,3,1]");
  record.Hostile({Make(D::kFloat32, {2, 2, 2}, {1, 1, 0, 1, 1, 0, 1, 1}), Floats({2, 2, 1})},
                 "Input matrix is not invertible.");
  record.OutOfMemory({lower({1 << 14, 1, 1, 1}), Floats({1 << 14, 1, 1})});
}

}  // namespace

void AddLinearAlgebraRecords(Suite& suite) {
  AddQrRecords(suite);
  AddTriangularSolveRecords(suite);
  AddBandedTriangularSolveRecords(suite);
}

}  // namespace weir::conformance
