// Sparse matrices in compressed rows, as steps see them: what goes in comes out, transposed or multiplied as
// dense matrices are; gradients go the same way back.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "graph/gradients.h"
#include "gtest/gtest.h"
#include "session/test_op_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Numbers = std::vector<double>;

class CsrMatricesTest : public TestOpSession {
 protected:
  Output Longs(std::initializer_list<int64_t> values) { return Const(Tensor::Vector<int64_t>(values)); }
  Output Pairs(std::initializer_list<int64_t> flat, int64_t rank = 2) {
    const auto count = static_cast<int64_t>(flat.size()) / rank;
    return Const(Tensor::From<int64_t>(Shape({count, rank}), flat));
  }
  Output Matrix(std::initializer_list<int64_t> dims, std::initializer_list<float> values) {
    return Const(Tensor::From<float>(Shape(dims), values));
  }
  // [0 1 0; 2 0 3]
  Output Example() { return Sparse(Pairs({0, 1, 1, 0, 1, 2}), {1, 2, 3}, {2, 3}); }
  // That, and [0 0 0; 4 0 0].
  Output Batch() { return Sparse(Pairs({0, 0, 1, 0, 1, 0, 0, 1, 2, 1, 1, 0}, 3), {1, 2, 3, 4}, {2, 2, 3}); }
  Output Sparse(Output indices, std::initializer_list<float> values, std::initializer_list<int64_t> dims) {
    return g_.AddOp("SparseTensorToCSRSparseMatrix",
                    {indices, Const(Tensor::Vector<float>(values)), Longs(dims)});
  }
  Output Dense(Output matrix) {
    return g_.AddOp("CSRSparseMatrixToDense", {matrix}, {{"type", D::kFloat32}});
  }
  // All elements of one tensor.
  Numbers Run(Output fetch) {
    session_.reset();
    const auto tensors = session().Run({}, {fetch});
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    Numbers numbers;
    for (int64_t i = 0; tensors.ok() && i < (*tensors)[0].num_elements(); ++i) {
      const Tensor& tensor = (*tensors)[0];
      numbers.push_back(tensor.dtype() == D::kFloat32 ? tensor.flat<float>()[i]
                        : tensor.dtype() == D::kInt32 ? tensor.flat<int32_t>()[i]
                                                      : static_cast<double>(tensor.flat<int64_t>()[i]));
    }
    return numbers;
  }
  std::vector<Numbers> ComponentsOf(Output matrix, int32_t index) {
    Node* const node = g_.AddNode("CSRSparseMatrixComponents",
                                  {matrix, Const(Tensor::Scalar<int32_t>(index))}, {{"type", D::kFloat32}});
    return {Run(node->output(0)), Run(node->output(1)), Run(node->output(2))};
  }
};

TEST_F(CsrMatricesTest, ASparseTensorComesBack) {
  for (const bool is_batch : {false, true}) {
    Node* const node = g_.AddNode("CSRSparseMatrixToSparseTensor", {is_batch ? Batch() : Example()},
                                  {{"type", D::kFloat32}});
    EXPECT_EQ(Run(node->output(0)),
              is_batch ? Numbers({0, 0, 1, 0, 1, 0, 0, 1, 2, 1, 1, 0}) : Numbers({0, 1, 1, 0, 1, 2}));
    EXPECT_EQ(Run(node->output(1)), is_batch ? Numbers({1, 2, 3, 4}) : Numbers({1, 2, 3}));
    EXPECT_EQ(Run(node->output(2)), is_batch ? Numbers({2, 2, 3}) : Numbers({2, 3}));
  }
}

TEST_F(CsrMatricesTest, ComponentsAreThoseOfOneMatrix) {
  EXPECT_THAT(ComponentsOf(Example(), 0),
              ElementsAre(ElementsAre(0, 1, 3), ElementsAre(1, 0, 2), ElementsAre(1, 2, 3)));
  EXPECT_THAT(ComponentsOf(Batch(), 1), ElementsAre(ElementsAre(0, 0, 1), ElementsAre(0), ElementsAre(4)));
  EXPECT_THAT(Run(g_.AddOp("SparseMatrixNNZ", {Example()})), ElementsAre(3));
  EXPECT_THAT(Run(g_.AddOp("SparseMatrixNNZ", {Batch()})), ElementsAre(3, 1));
}

TEST_F(CsrMatricesTest, WhatIsNotThereIsRefused) {
  EXPECT_THAT(ErrorOf(g_.AddOp("CSRSparseMatrixToDense", {Batch()}, {{"type", D::kFloat64}})),
              HasSubstr("float vs. double"));
  Node* const node = g_.AddNode("CSRSparseMatrixComponents", {Batch(), Const(Tensor::Scalar<int32_t>(2))},
                                {{"type", D::kFloat32}});
  EXPECT_THAT(ErrorOf(node->output(0)), HasSubstr("index (2) not in [0, 2)"));
}

TEST_F(CsrMatricesTest, DenseMatricesBothWays) {
  EXPECT_THAT(Run(Dense(Example())), ElementsAre(0, 1, 0, 2, 0, 3));
  EXPECT_THAT(Run(Dense(Batch())), ElementsAre(0, 1, 0, 2, 0, 3, 0, 0, 0, 4, 0, 0));
  const Output from_dense =
      g_.AddOp("DenseToCSRSparseMatrix", {Matrix({2, 3}, {1, 2, 3, 4, 5, 6}), Pairs({0, 2, 1, 0})});
  EXPECT_THAT(Run(Dense(from_dense)), ElementsAre(0, 0, 3, 4, 0, 0));
}

TEST_F(CsrMatricesTest, Transposed) {
  const auto transposed = [&](Output matrix) {
    return g_.AddOp("SparseMatrixTranspose", {matrix}, {{"type", D::kFloat32}});
  };
  EXPECT_THAT(Run(Dense(transposed(Example()))), ElementsAre(0, 2, 1, 0, 0, 3));
  EXPECT_THAT(Run(Dense(transposed(Batch()))), ElementsAre(0, 2, 1, 0, 0, 3, 0, 4, 0, 0, 0, 0));
}

TEST_F(CsrMatricesTest, ProductsWithDenseMatrices) {
  const auto product = [&](Output a, Output b, AttrMap attrs = {}) {
    return Run(g_.AddOp("SparseMatrixMatMul", {a, b}, std::move(attrs)));
  };
  const Output b = Matrix({3, 2}, {0, 1, 2, 3, 4, 5}), b_transposed = Matrix({2, 3}, {0, 2, 4, 1, 3, 5});
  EXPECT_THAT(product(Example(), b), ElementsAre(2, 3, 12, 17));
  EXPECT_THAT(product(Example(), b, {{"transpose_output", true}}), ElementsAre(2, 12, 3, 17));
  EXPECT_THAT(product(Example(), b_transposed, {{"transpose_b", true}}), ElementsAre(2, 3, 12, 17));
  EXPECT_THAT(product(Example(), Matrix({2, 2}, {0, 1, 2, 3}), {{"adjoint_a", true}}),
              ElementsAre(4, 6, 0, 1, 6, 9));
  EXPECT_THAT(product(Batch(), Matrix({2, 3, 1}, {0, 1, 2, 3, 4, 5})), ElementsAre(1, 6, 0, 12));
  EXPECT_THAT(ErrorOf(g_.AddOp("SparseMatrixMatMul", {Example(), Matrix({2, 2}, {1, 2, 3, 4})})),
              HasSubstr("do not agree. Shapes are: [2,3] vs. [2,2]"));
  EXPECT_THAT(ErrorOf(g_.AddOp("SparseMatrixMatMul", {Batch(), b})), HasSubstr("saw: 3 vs. 2"));
}

TEST_F(CsrMatricesTest, ProductsOfSparseMatrices) {
  const Output b = Sparse(Pairs({0, 1, 2, 2}), {5, 6}, {3, 3});
  const auto product = [&](Output a, Output other, AttrMap attrs) {
    attrs["type"] = D::kFloat32;
    return g_.AddOp("SparseMatrixSparseMatMul", {a, other}, std::move(attrs));
  };
  EXPECT_THAT(ComponentsOf(product(Example(), b, {}), 0),
              ElementsAre(ElementsAre(0, 0, 2), ElementsAre(1, 2), ElementsAre(10, 18)));
  EXPECT_THAT(ComponentsOf(product(Example(), b, {{"transpose_b", true}}), 0),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0, 2), ElementsAre(5, 18)));
  EXPECT_THAT(Run(Dense(product(Example(), Example(), {{"adjoint_a", true}}))),
              ElementsAre(4, 0, 6, 0, 1, 0, 6, 0, 9));
  EXPECT_THAT(ErrorOf(product(Example(), Example(), {})), HasSubstr("[2,3] vs. [2,3]"));
  EXPECT_THAT(ErrorOf(product(Example(), Batch(), {})), HasSubstr("Ranks of a and b must match"));
}

TEST_F(CsrMatricesTest, VariantsAddUp) {
  const Output other = Sparse(Pairs({0, 0, 0, 1}), {7, 8}, {2, 3});
  const Output sum = g_.AddOp("AddN", {std::vector<Output>{Example(), other, Example()}});
  EXPECT_THAT(ComponentsOf(sum, 0),
              ElementsAre(ElementsAre(0, 2, 4), ElementsAre(0, 1, 0, 2), ElementsAre(7, 10, 4, 6)));
  EXPECT_THAT(Run(Dense(g_.AddOp("ZerosLike", {Batch()}))), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(ErrorOf(Dense(g_.AddOp("AddN", {std::vector<Output>{Example(), Batch()}}))),
              HasSubstr("cannot add"));
}

TEST_F(CsrMatricesTest, GradientsComeBackAsWhatWentIn) {
  const Output values = Const(Tensor::Vector<float>({1, 2, 3}));
  const Output matrix =
      g_.AddOp("SparseTensorToCSRSparseMatrix", {Pairs({0, 1, 1, 0, 1, 2}), values, Longs({2, 3})});
  const Output dense = Dense(g_.AddOp("SparseMatrixTranspose", {matrix}, {{"type", D::kFloat32}}));
  const auto gradients = AddGradients(g_, {dense}, {values}, {Matrix({3, 2}, {10, 20, 30, 40, 50, 60})});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT(Run((*gradients)[0]), ElementsAre(30, 20, 60));
}

TEST_F(CsrMatricesTest, GradientsOfDenseMatricesAreDense) {
  const Output x = Matrix({2, 2}, {1, 2, 3, 4});
  const Output matrix = g_.AddOp("DenseToCSRSparseMatrix", {x, Pairs({0, 1, 1, 0})});
  Node* const node = g_.AddNode("CSRSparseMatrixToSparseTensor", {matrix}, {{"type", D::kFloat32}});
  const auto gradients = AddGradients(g_, {node->output(1)}, {x}, {Const(Tensor::Vector<float>({5, 6}))});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT(Run((*gradients)[0]), ElementsAre(0, 5, 6, 0));
}

}  // namespace
}  // namespace weir
