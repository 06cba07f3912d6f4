// What kernels of strings may take of memory and of time: very many rows without elements, and steps that are
// cancelled while rows are counted.
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_kernels.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

AttrMap WithWidths(std::vector<int64_t> widths, int64_t pad_width, bool preserves_short) {
  return {{"separator", " "},       {"ngram_widths", std::move(widths)},
          {"left_pad", ""},         {"right_pad", ""},
          {"pad_width", pad_width}, {"preserve_short_sequences", preserves_short}};
}

// N-grams were counted, each row times each width, and short rows looked for, before the first question. A
// step that has ended need not know that there are too many, nor that a row is short.
TEST(CancelledSteps, CountNoMoreNGrams) {
  TestHost host({RegisterStringsKernels});
  const Tensor words = Tensor::Vector<std::string>({"a", "b"}), splits = Tensor::Vector<int32_t>({0, 2});
  constexpr int64_t kWide = std::numeric_limits<int32_t>::max();
  const std::vector<DType> types = {DType::kString, DType::kInt32};
  KernelUnderTest many(host, "StringNGrams", types, WithWidths({kWide, kWide}, -1, false));
  KernelUnderTest few(host, "StringNGrams", types, WithWidths({1}, 0, false));
  Cancellation cancellation;
  EXPECT_EQ(many.Run({words, splits}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(few.Run({words, splits}, &cancellation).ok());
  cancellation.Cancel(absl::CancelledError("enough"));
  EXPECT_EQ(many.Run({words, splits}, &cancellation).status(), absl::CancelledError("enough"));
  EXPECT_EQ(few.Run({words, splits}, &cancellation).status(), absl::CancelledError("enough"));
}

// Many short ones were not counted at all.
TEST(NumbersAsStrings, CountAsMemoryWhereTheyAreMany) {
  TestHost host({RegisterStringsKernels}, 8 << 20);
  KernelUnderTest write(host, "AsString", {DType::kInt8}, {{"width", 600}});
  EXPECT_TRUE(write.Run({Tensor(DType::kInt8, Shape({1000}))}).ok());
  EXPECT_EQ(write.Run({Tensor(DType::kInt8, Shape({50'000}))}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// Each position walks along the same text: 10^12 characters.
TEST(CancelledSteps, WalkAlongNoMoreCharacters) {
  TestHost host({RegisterStringsKernels});
  KernelUnderTest cut(host, "Substr", {DType::kString, DType::kInt32, DType::kInt32},
                      {{"unit", "UTF8_CHAR"}});
  Tensor positions(DType::kInt32, Shape({1'000'000})), lengths(DType::kInt32, Shape({1'000'000}));
  std::fill(positions.flat<int32_t>().begin(), positions.flat<int32_t>().end(), 999'999);
  std::fill(lengths.flat<int32_t>().begin(), lengths.flat<int32_t>().end(), 0);
  Cancellation cancellation;
  std::thread canceller([&cancellation] {
    absl::SleepFor(absl::Milliseconds(20));
    cancellation.Cancel(absl::CancelledError("enough"));
  });
  const Tensor text = Tensor::Scalar<std::string>(std::string(1'000'000, 'a'));
  EXPECT_EQ(cut.Run({text, positions, lengths}, &cancellation).status(), absl::CancelledError("enough"));
  canceller.join();
}

// The positions of all rows were reserved outside of the device's memory, which ended the process.
TEST(StringsOfNothing, AreJoinedWithoutVisitingTheirRows) {
  TestHost host({RegisterStringsKernels});
  const Tensor nothing(DType::kString, Shape({int64_t{1} << 40, 0}));
  KernelUnderTest join(host, "ReduceJoin", {DType::kString, DType::kInt32});
  for (const Tensor& axes : {Tensor::Vector<int32_t>({1, 0}), Tensor::Vector<int32_t>({0, 1})}) {
    const Tensor joined = join.Get({nothing, axes});
    ASSERT_EQ(joined.shape(), Shape());
    EXPECT_EQ(joined.scalar<std::string>(), "");
  }
}

}  // namespace
}  // namespace weir
