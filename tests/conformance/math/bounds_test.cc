// What kernels may take of time: batches of very many matrices that have no elements, and
// steps that are cancelled while a table is made or a number looked for.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/math/spectral_decompositions.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

// Cancels from another thread, some time after the test has begun.
class Canceller {
 public:
  explicit Canceller(Cancellation& cancellation)
      : thread_([&cancellation] {
          absl::SleepFor(absl::Milliseconds(20));
          cancellation.Cancel(absl::CancelledError("enough"));
        }) {}
  ~Canceller() { thread_.join(); }

 private:
  std::thread thread_;
};

// Each matrix was visited: 2^40 of them are days.
TEST(MatricesOfNothing, AreNotVisited) {
  TestHost host({RegisterMathKernels});
  const Tensor nothing(DType::kFloat64, Shape({int64_t{1} << 40, 0, 0}));
  for (const char* op : {"Cholesky", "Lu", "MatrixInverse", "Qr", "SelfAdjointEigV2", "Svd"}) {
    const absl::StatusOr<std::vector<Tensor>> outputs =
        KernelUnderTest(host, op, {DType::kFloat64}).Run({nothing});
    ASSERT_TRUE(outputs.ok()) << op << ": " << outputs.status();
    EXPECT_EQ((*outputs)[0].shape().dim(0), int64_t{1} << 40) << op;
    EXPECT_EQ((*outputs)[0].num_elements(), 0) << op;
  }
}

// Each center had its place in a vector outside of the device's memory, which ended the process.
TEST(CentersOfNothing, AreNotVisited) {
  TestHost host({RegisterMathKernels});
  const Tensor points(DType::kFloat32, Shape({2, 0})), centers(DType::kFloat32, Shape({int64_t{1} << 40, 0}));
  const std::vector<Tensor> outputs =
      KernelUnderTest(host, "NearestNeighbors", {DType::kFloat32, DType::kFloat32, DType::kInt64})
          .Run({points, centers, Tensor::Scalar<int64_t>(3)})
          .value();
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(outputs[0].flat<int64_t>()[i], i % 3) << i;
    EXPECT_EQ(outputs[1].flat<float>()[i], 0) << i;
  }
}

// The roots and the convolution's filter were made to their end: with room for the first table only, the
// second one found no memory.
TEST(CancelledSteps, MakeNoTablesForFourierTransforms) {
  TestHost host({RegisterMathKernels}, 3'200'000);
  const Tensor input(DType::kComplex64, Shape({100003}));
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("enough"));
  const absl::Status status =
      KernelUnderTest(host, "FFT", {DType::kComplex64}).Run({input}, &cancellation).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

// One place takes tens of thousands of encryptions, and 4,000 of them were computed between two questions.
TEST(CancelledSteps, ComputeNoMorePlacesOfAnOrder) {
  TestHost host({RegisterRandomKernels});
  Tensor indices(DType::kInt64, Shape({4000})), seeds(DType::kInt64, Shape({4000, 3}));
  for (int64_t i = 0; i < seeds.num_elements(); ++i) seeds.flat<int64_t>()[i] = i;
  std::fill_n(indices.flat<int64_t>().data(), indices.num_elements(), 0);
  Cancellation cancellation;
  const Canceller canceller(cancellation);
  const absl::Status status =
      KernelUnderTest(host, "RandomIndexShuffle", {DType::kInt64, DType::kInt64, DType::kInt64},
                      {{"rounds", int64_t{1024}}})
          .Run({indices, seeds, Tensor::Scalar<int64_t>(1)}, &cancellation)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

// Beside all axes but the last, the last one is the first that helps: a minute of looking.
TEST(CancelledSteps, LookForNoMoreAxes) {
  constexpr int64_t kSize = 4000;
  std::vector<double> rows(kSize * kSize), lengths(kSize - 1, 1), room(kSize);
  for (int64_t i = 0; i + 1 < kSize; ++i) rows[i * kSize + i] = 1;
  Cancellation cancellation;
  const Canceller canceller(cancellation);
  CompleteOrthonormal(rows.data(), kSize - 1, lengths.data(), kSize, kSize, room.data(), cancellation);
  EXPECT_EQ(rows.back(), 0);  // it was not found
}

// A column of denormal squares made of the matrix another one: TensorFlow's eigenvalues.
TEST(Eigenvalues, OfColumnsOfSmallNumbers) {
  TestHost host({RegisterMathKernels});
  const Tensor values =
      KernelUnderTest(host, "Eig", {DType::kFloat64}, {{"Tout", DType::kComplex128}, {"compute_v", false}})
          .Run({Tensor::From<double>({3, 3}, {1, 2, 3, 0, 1, 2, 5e-162, 1, 1})})
          .value()[0];
  const double wanted[] = {1 - std::sqrt(2.0), 1, 1 + std::sqrt(2.0)};
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(values.flat<std::complex<double>>()[i].real(), wanted[i], 1e-12);
    EXPECT_NEAR(values.flat<std::complex<double>>()[i].imag(), 0, 1e-12);
  }
}

// Vectors of an eigenvalue that is there 30 times were too large for a double.
TEST(Eigenvectors, OfOneJordanBlock) {
  constexpr int64_t kSize = 30;
  Tensor block(DType::kFloat64, Shape({kSize, kSize}));
  for (int64_t i = 0; i < kSize * kSize; ++i)
    block.flat<double>()[i] = i / kSize == i % kSize ? 2 : i / kSize + 1 == i % kSize ? 1 : 0;
  TestHost host({RegisterMathKernels});
  const auto outputs =
      KernelUnderTest(host, "Eig", {DType::kFloat64}, {{"Tout", DType::kComplex128}, {"compute_v", true}})
          .Run({block})
          .value();
  const auto vector = outputs[1].flat<std::complex<double>>();
  for (int64_t k = 0; k < kSize; ++k) {
    EXPECT_NEAR(std::abs(vector[k]), 1, 1e-12) << k;  // all of them are the first axis, but for rounding
    for (int64_t i = 1; i < kSize; ++i)
      EXPECT_NEAR(std::abs(vector[i * kSize + k]), 0, 1e-12) << i << ", " << k;
  }
}

TEST(SquareRoots, OfSingularMatricesThatHaveOne) {
  TestHost host({RegisterMathKernels});
  const auto root = [&](DType dtype, const Tensor& matrix) {
    return KernelUnderTest(host, "MatrixSquareRoot", {dtype}).Get({matrix});
  };
  EXPECT_EQ(root(DType::kFloat64, Tensor::From<double>({1, 1}, {0})).flat<double>()[0], 0);
  const double roots[] = {0, 0, 0, 1};
  const Tensor real = root(DType::kFloat64, Tensor::From<double>({2, 2}, {0, 0, 0, 1}));
  using Complex = std::complex<float>;
  const Tensor complex = root(DType::kComplex64, Tensor::From<Complex>({2, 2}, {0, 0, 0, 1}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(real.flat<double>()[i], roots[i]) << i;
    EXPECT_EQ(complex.flat<Complex>()[i], Complex(static_cast<float>(roots[i]))) << i;
  }
  const Tensor none = root(DType::kFloat64, Tensor::From<double>({2, 2}, {0, 1, 0, 0}));
  EXPECT_TRUE(std::isnan(none.flat<double>()[1]));
}

TEST(CancelledSteps, SolveNoMoreRowsOfBands) {
  TestHost host({RegisterMathKernels});
  Cancellation cancellation;
  cancellation.Cancel(absl::CancelledError("enough"));
  const Tensor one = Tensor::From<float>({1, 1}, {1});
  EXPECT_EQ(KernelUnderTest(host, "BandedTriangularSolve", {DType::kFloat32, DType::kFloat32})
                .Run({one, one}, &cancellation)
                .status(),
            absl::CancelledError("enough"));
}

// The same row as often as one likes: a day of sums into one row.
TEST(CancelledSteps, AddNoMoreRowsToASegment) {
  TestHost host({RegisterMathKernels});
  const int64_t columns = 1'000'000, times = 1'000'000;
  Tensor row(DType::kFloat32, Shape({1, columns})), zeros(DType::kInt32, Shape({times}));
  std::fill(row.flat<float>().begin(), row.flat<float>().end(), 1.0f);
  std::fill(zeros.flat<int32_t>().begin(), zeros.flat<int32_t>().end(), 0);
  const auto status = [&](const char* op, std::vector<Tensor> inputs) {
    Cancellation cancellation;
    const Canceller canceller(cancellation);
    std::vector<DType> types;
    for (const Tensor& input : inputs) types.push_back(input.dtype());
    return KernelUnderTest(host, op, types).Run(inputs, &cancellation).status();
  };
  const Tensor one = Tensor::Scalar<int32_t>(1);
  EXPECT_EQ(status("SparseSegmentSum", {row, zeros, zeros}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status("SparseSegmentMeanWithNumSegments", {row, zeros, zeros, one}).code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(status("SparseSegmentSumGrad", {row, zeros, zeros, one}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status("SparseSegmentSumGradV2", {row, zeros, zeros, one}).code(), absl::StatusCode::kCancelled);
}

// One matrix took minutes, which nobody could end.
TEST(CancelledSteps, DecomposeAndSolveNoMoreOfOneMatrix) {
  TestHost host({RegisterMathKernels});
  Tensor matrix(DType::kFloat32, Shape({4000, 4000}));
  std::fill(matrix.flat<float>().begin(), matrix.flat<float>().end(), 1.0f);
  const auto status = [&](const char* op, std::vector<Tensor> inputs) {
    Cancellation cancellation;
    const Canceller canceller(cancellation);
    return KernelUnderTest(host, op, std::vector<DType>(inputs.size(), DType::kFloat32))
        .Run(inputs, &cancellation)
        .status();
  };
  EXPECT_EQ(status("Qr", {matrix}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(status("MatrixTriangularSolve", {matrix, matrix}).code(), absl::StatusCode::kCancelled);
}

// Weights of classes that are never drawn were outside of the device's memory.
TEST(CandidateSamplers, WeightsOfReservedClassesCountAsMemory) {
  TestHost host({RegisterRandomKernels}, int64_t{1} << 20);
  const auto made = [&](int64_t range) {
    return KernelUnderTest(host, "FixedUnigramCandidateSampler", {DType::kInt64},
                           {{"num_true", 1},
                            {"num_sampled", 1},
                            {"unique", true},
                            {"range_max", range},
                            {"num_reserved_ids", range - 1},
                            {"unigrams", std::vector<float>{1}}})
        .status();
  };
  EXPECT_EQ(made(1000), absl::OkStatus());
  EXPECT_EQ(made(1 << 20).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace weir
