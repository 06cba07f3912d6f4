// What sparse matrices take of memory, and products of them that go on for long.
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using D = DType;

const AttrMap kFloat = {{"type", DType::kFloat32}};

// A sparse matrix [rows, columns] of ones at those places.
absl::StatusOr<Tensor> Sparse(TestHost& host, const Tensor& indices, std::vector<int64_t> dims) {
  Tensor values(D::kFloat32, Shape({indices.shape().dim(0)}));
  for (float& value : values.flat<float>()) value = 1;
  KernelUnderTest op(host, "SparseTensorToCSRSparseMatrix", {D::kInt64, D::kFloat32, D::kInt64});
  Tensor shape(D::kInt64, Shape({static_cast<int64_t>(dims.size())}));
  std::copy(dims.begin(), dims.end(), shape.flat<int64_t>().begin());
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> made, op.Run({indices, values, shape}));
  return made[0];
}

// Elements along one axis, or all at the first place.
Tensor Along(int axis, int64_t count) {
  Tensor indices(D::kInt64, Shape({count, 2}));
  for (int64_t i = 0; i < 2 * count; ++i) indices.flat<int64_t>()[i] = i % 2 == axis ? i / 2 : 0;
  return indices;
}
constexpr int kNoAxis = 2;

TEST(CsrMatricesTest, WhereMatricesBeginCountsAsMemory) {
  TestHost host({RegisterSparseKernels}, int64_t{6} << 20);
  const absl::Status status = Sparse(host, Tensor(D::kInt64, Shape({0, 3})), {1 << 20, 0, 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST(CsrMatricesTest, ALongRowOfAProductIsCancelled) {
  constexpr int64_t kSame = 1 << 17;
  TestHost host({RegisterSparseKernels});
  const Tensor a = Sparse(host, Along(kNoAxis, kSame), {1, 1}).value();
  KernelUnderTest op(host, "SparseMatrixSparseMatMul", {D::kVariant, D::kVariant}, kFloat);
  Cancellation cancellation;
  // Whether before the row or in it.
  std::thread canceller([&] { cancellation.Cancel(absl::CancelledError("enough")); });
  const absl::Status status = op.Run({a, a}, &cancellation).status();
  canceller.join();
  EXPECT_EQ(status, absl::CancelledError("enough"));
}

TEST(CsrMatricesTest, AProductWithADenseMatrixIsCancelled) {
  TestHost host({RegisterSparseKernels});
  const Tensor a = Sparse(host, Along(0, 4), {4, 1}).value();
  KernelUnderTest op(host, "SparseMatrixMatMul", {D::kVariant, D::kFloat32});
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("enough"));
  EXPECT_EQ(op.Run({a, Tensor(D::kFloat32, {1, 3})}, &cancellation).status(), absl::CancelledError("enough"));
}

}  // namespace
}  // namespace weir
