// What of cuBLASLt can be tried without a GPU: that it is opened, that it takes descriptions of products, and
// what it says where there is no driver.
#include "kernels/cuda/cublaslt_blas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cuda/caching_allocator.h"
#include "kernels/cuda/cudart_api.h"
#include "kernels/cuda/recording_cuda_api.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// The definition, in the order of memory that cuBLASLt has: result = op(first) op(second).
std::vector<float> MultiplyColumnMajor(const ColumnMajorProduct& product, const std::vector<float>& first,
                                       const std::vector<float>& second) {
  const auto at = [](const ColumnMajorMatrix& matrix, const std::vector<float>& elements, int64_t row,
                     int64_t column) {
    if (matrix.is_transposed) std::swap(row, column);
    EXPECT_TRUE(row < matrix.rows && column < matrix.columns);
    return elements.at(column * matrix.leading + row);
  };
  const ColumnMajorMatrix& result = product.result;
  const int64_t inner = product.first.is_transposed ? product.first.rows : product.first.columns;
  std::vector<float> elements(result.leading * result.columns);
  for (int64_t column = 0; column < result.columns; ++column) {
    for (int64_t row = 0; row < result.rows; ++row) {
      for (int64_t i = 0; i < inner; ++i) {
        elements.at(column * result.leading + row) +=
            at(product.first, first, row, i) * at(product.second, second, i, column);
      }
    }
  }
  return elements;
}

TEST(ColumnMajorTest, TheOperandsInTheOtherOrderGiveTheRowMajorProduct) {
  std::mt19937 random(1);
  for (int choice = 0; choice < 4; ++choice) {
    const MatrixProduct product = {
        .m = 3, .n = 5, .k = 4, .transpose_a = (choice & 1) != 0, .transpose_b = (choice & 2) != 0};
    std::vector<float> a(12), b(20), expected(15);
    for (float& x : a) x = static_cast<float>(random() % 9);
    for (float& x : b) x = static_cast<float>(random() % 9);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        for (int64_t l = 0; l < 4; ++l) {
          expected[i * 5 + j] +=
              a[product.transpose_a ? l * 3 + i : i * 4 + l] * b[product.transpose_b ? j * 4 + l : l * 5 + j];
        }
      }
    }
    EXPECT_EQ(MultiplyColumnMajor(AsColumnMajor(product), b, a), expected) << choice;
  }
}

class CublasLtBlasTest : public ::testing::Test {
 protected:
  // Null where the library is missing, which is said.
  bool IsThere() {
    const absl::StatusOr<int> version = libraries_.Open(CudaLibraryList()[kCublasLt]);
    if (!version.ok()) std::printf("%s\n", version.status().ToString().c_str());
    return version.ok() && IsBuiltWithCuda();
  }

  RecordingCudaApi api_;
  CudaLibraries libraries_{CudaLibraryFolders()};
};

TEST_F(CublasLtBlasTest, TakesTheDescriptionOfEveryProduct) {
  if (!IsThere()) GTEST_SKIP() << "no cuBLASLt";
  const auto blas = MakeCublasLtBlas(api_, libraries_);
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16}) {
    for (int choice = 0; choice < 4; ++choice) {
      const absl::Status status = blas->Check({.dtype = dtype,
                                               .m = 32,
                                               .n = int64_t{1} << 33,
                                               .k = 3,
                                               .transpose_a = (choice & 1) != 0,
                                               .transpose_b = (choice & 2) != 0});
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  const absl::Status status = blas->Check({.dtype = DType::kInt32, .m = 1, .n = 1, .k = 1});
  EXPECT_EQ(status.message(), "there are no products of matrices of int32 on GPUs");
}

TEST_F(CublasLtBlasTest, WithoutADriverAProductSaysWhatFailed) {
  const std::unique_ptr<CudaApi> real = MakeCudartApi();
  if (!IsThere() || real->NumDevices().ok()) GTEST_SKIP() << "no cuBLASLt, or a GPU";
  const auto blas = MakeCublasLtBlas(api_, libraries_);
  const auto stream = CudaStream::Create(api_, 0);
  ASSERT_TRUE(stream.ok());
  CachingAllocator allocator(api_, 0, 1 << 20);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = blas->Multiply(**stream, allocator, {.m = 1, .n = 1, .k = 1});
    EXPECT_THAT(std::string(status.message()), StartsWith("cublasLtCreate: CUBLAS_STATUS_"));
  }
}

TEST_F(CublasLtBlasTest, WithoutTheLibraryAProductSaysSo) {
  CudaLibraries nowhere({"/nowhere"});
  if (IsBuiltWithCuda() && nowhere.Open(CudaLibraryList()[kCublasLt]).ok())
    GTEST_SKIP() << "the system has it";
  const auto blas = MakeCublasLtBlas(api_, nowhere);
  const absl::Status status = blas->Check({.m = 1, .n = 1, .k = 1});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("products of matrices"));
}

}  // namespace
}  // namespace weir
