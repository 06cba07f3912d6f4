// Sparse matrices as variants: what their ops refuse. session/csr_matrices_test.cc has the rest.
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;

const char kElsewhere[] = "variants: session/csr_matrices_test.cc";

// A variant that holds nothing.
Tensor NoMatrix() { return Tensor(D::kVariant, Shape()); }

Tensor Indices(std::vector<int64_t> dims, std::vector<double> values) {
  return Make(D::kInt64, std::move(dims), std::move(values));
}

}  // namespace

void AddCsrMatricesRecords(Suite& suite) {
  const Tensor at = Indices({2, 2}, {0, 1, 1, 0}), values = Floats({2}), shape = Longs({2, 3});
  OpRecord& from_sparse = suite.Op("SparseTensorToCSRSparseMatrix").TestedElsewhere(kElsewhere);
  from_sparse.Hostile({Longs({0, 1}), values, shape}, "indices must be rank 2");
  from_sparse.Hostile({at, Floats({2, 1}), shape}, "values must be rank 1");
  from_sparse.Hostile({at, values, Indices({}, {2})}, "dense_shape must be rank 1");
  from_sparse.Hostile({at, values, Longs({2, 3, 1})}, "Index rank (2) and shape rank (3) do not match");
  from_sparse.Hostile({at, Floats({3}), shape},
                      "Number of elements in indices (2) and values (3) do not match");
  from_sparse.Hostile({Indices({2, 1}, {0, 1}), values, Longs({2})}, "SparseTensor must have rank 2 or 3");
  from_sparse.Hostile({at, values, Longs({2, -3})}, "-3");
  from_sparse.Hostile({Empty({0, 3}, D::kInt64), Empty({0}), Longs({(int64_t{1} << 31) - 1, 1, 1})},
                      "batch_size must be < Int32Max");
  from_sparse.Hostile({Empty({0, 3}, D::kInt64), Empty({0}), Longs({int64_t{1} << 30, 10, 1})},
                      "must be <= Int32Max");
  from_sparse.Hostile({Empty({0, 2}, D::kInt64), Empty({0}), Longs({2, kWide})}, "at most Int32Max columns");
  for (const std::vector<double>& outside :
       std::vector<std::vector<double>>{{0, 3, 1, 0}, {0, 1, 2, 0}, {-1, 0, 1, 0}, {0, 1, 1, -1}})
    from_sparse.Hostile({Indices({2, 2}, outside), values, shape}, "is out of bounds of [2,3]");
  from_sparse.Hostile({Indices({2, 2}, {1, 0, 0, 1}), values, shape},
                      "indices[1, :] = [0, 1] is out of order");
  from_sparse.OutOfMemory({Empty({0, 2}, D::kInt64), Empty({0}), Longs({int64_t{1} << 30, 1})});
  OpRecord& from_dense = suite.Op("DenseToCSRSparseMatrix").TestedElsewhere(kElsewhere);
  from_dense.Hostile({Floats({2, 3}), Longs({0, 1})}, "indices must be rank 2");
  from_dense.Hostile({Floats({2, 3}), Indices({1, 3}, {0, 0, 0})}, "Index rank (3) and shape rank (2)");
  from_dense.Hostile({Floats({2, 3}), Indices({1, 2}, {1, 7})}, "is out of bounds of [2,3]");
  // Before room is made for values of any number.
  from_dense.Hostile({Make(D::kFloat32, {}, {1}), Empty({int64_t{1} << 33, 0}, D::kInt64)},
                     "SparseTensor must have rank 2 or 3");
  const AttrMap type = {{"type", D::kFloat32}};
  const char* const no_matrix = "must be one CSRSparseMatrix";
  for (const char* op : {"CSRSparseMatrixToSparseTensor", "CSRSparseMatrixToDense", "SparseMatrixTranspose"})
    suite.Op(op).TestedElsewhere(kElsewhere).Hostile({NoMatrix()}, no_matrix, type);
  suite.Op("SparseMatrixNNZ").TestedElsewhere(kElsewhere).Hostile({NoMatrix()}, no_matrix);
  suite.Op("CSRSparseMatrixComponents")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoMatrix(), Int(0)}, no_matrix, type);
  suite.Op("SparseMatrixSparseMatMul")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoMatrix(), NoMatrix()}, no_matrix, type)
      .Hostile({NoMatrix(), NoMatrix()}, "Only one of adjoint_b and transpose_b may be true.",
               {{"type", D::kFloat32}, {"adjoint_b", true}, {"transpose_b", true}});
  std::vector<D> others = Join({{D::kBool, D::kString}, {D::kHalf, D::kBfloat16}, kIntegers});
  suite.Op("SparseMatrixMatMul")
      .TestedElsewhere(kElsewhere)
      .NoKernelFor("T", others, "sparse matrices have floats and complex numbers")
      .Hostile({NoMatrix(), Floats({2, 3})}, no_matrix);
}

}  // namespace weir::conformance
