// What kernels may take of time: batches of very many matrices that have no elements, and
// steps that are cancelled while a table is made or a number looked for.
#include <algorithm>
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

}  // namespace
}  // namespace weir
