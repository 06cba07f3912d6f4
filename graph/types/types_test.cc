#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "graph/types/device_name.h"
#include "graph/types/float8.h"
#include "graph/types/freed_memory.h"
#include "graph/types/human_bytes.h"
#include "graph/types/printable_text.h"
#include "graph/types/tensor.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

TEST(PrintableTextTest, IsOneLineThatMovesNoCursor) {
  EXPECT_EQ(PrintableText("a b\u00e9"), "a b\u00e9");
  EXPECT_EQ(PrintableText("x\nweir: \t\x1b[2J\x7f\r"), "x\\nweir: \\t\\x1b[2J\\x7f\\x0d");
  EXPECT_EQ(PrintableText(absl::string_view("\0", 1)), "\\x00");
}

TEST(HumanBytesTest, HaveTheUnitThatLeavesThreeDigits) {
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.0 kB");
  EXPECT_EQ(HumanBytes(999'949), "999.9 kB");
  EXPECT_EQ(HumanBytes(999'950), "1.0 MB");
  EXPECT_EQ(HumanBytes(2'500'000'000), "2.5 GB");
  EXPECT_EQ(HumanBytes(uint64_t{1} << 60), "1152921.5 TB");
}

TEST(DTypeTest, NamesParseBack) {
  for (int value = 0; value < 256; ++value) {
    if (!IsKnownDType(value)) continue;
    const DType dtype = static_cast<DType>(value);
    EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype);
  }
  EXPECT_EQ(ParseDType("float32"), DType::kFloat32);
  EXPECT_EQ(ParseDType("float33"), std::nullopt);
  EXPECT_FALSE(IsKnownDType(101));
}

TEST(DTypeTest, TypesThatAreOnlyStoredHaveTheElementsOfAnother) {
  for (const DType dtype : {DType::kQint8, DType::kQuint8, DType::kQint32, DType::kQint16, DType::kQuint16,
                            DType::kInt4, DType::kUint4, DType::kFloat8E5m2, DType::kFloat8E4m3fn,
                            DType::kFloat8E4m3Fnuz, DType::kFloat8E4m3b11Fnuz, DType::kFloat8E5m2Fnuz}) {
    EXPECT_TRUE(IsKnownDType(static_cast<int>(dtype)));
    EXPECT_NE(StoredAs(dtype), dtype);
    EXPECT_EQ(DTypeSize(dtype), DTypeSize(StoredAs(dtype)));
    EXPECT_TRUE(IsPlainBytes(dtype));
  }
  EXPECT_EQ(StoredAs(DType::kHalf), DType::kHalf);
  Tensor tensor(DType::kQint8, Shape({2}));
  tensor.flat<int8_t>()[0] = -7;
  tensor.flat<int8_t>()[1] = 100;
  EXPECT_EQ(tensor.ToString(), "qint8[2] {-7, 100}");
}

constexpr DType kFloat8[] = {DType::kFloat8E5m2, DType::kFloat8E4m3fn, DType::kFloat8E4m3Fnuz,
                             DType::kFloat8E4m3b11Fnuz, DType::kFloat8E5m2Fnuz};

TEST(Float8Test, KeepsEveryValue) {
  for (const DType dtype : kFloat8) {
    for (int bits = 0; bits < 256; ++bits) {
      const float value = Float8ToFloat(dtype, static_cast<uint8_t>(bits));
      const uint8_t back = FloatToFloat8(dtype, value);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(Float8ToFloat(dtype, back))) << dtype << " " << bits;
      } else {
        EXPECT_EQ(back, bits) << dtype << " " << value;
      }
    }
  }
}

TEST(Float8Test, RoundsToTheNearestAndToEvenBetweenTwo) {
  for (const DType dtype : kFloat8) {
    // Beyond the largest number it would be infinity, or NaN.
    for (int bits = 0; bits < 0x7e; ++bits) {
      const float low = Float8ToFloat(dtype, static_cast<uint8_t>(bits));
      const float high = Float8ToFloat(dtype, static_cast<uint8_t>(bits + 1)),
                  middle = low + (high - low) / 2;
      if (!std::isfinite(high)) break;
      EXPECT_EQ(FloatToFloat8(dtype, middle), bits % 2 == 0 ? bits : bits + 1) << dtype << " " << middle;
      EXPECT_EQ(FloatToFloat8(dtype, std::nextafter(middle, low)), bits) << dtype << " " << middle;
      EXPECT_EQ(FloatToFloat8(dtype, std::nextafter(middle, high)), bits + 1) << dtype << " " << middle;
      const uint8_t negative = FloatToFloat8(dtype, -high);
      EXPECT_EQ(negative, bits + 1 + 0x80) << dtype << " " << middle;
    }
  }
}

TEST(Float8Test, HasTheLimitsOfItsFormat) {
  const auto largest = [](DType dtype) {
    float most = 0;
    for (int bits = 0; bits < 0x80; ++bits) {
      const float value = Float8ToFloat(dtype, static_cast<uint8_t>(bits));
      if (std::isfinite(value)) most = std::max(most, value);
    }
    return most;
  };
  EXPECT_EQ(largest(DType::kFloat8E5m2), 57344.0f);
  EXPECT_EQ(largest(DType::kFloat8E4m3fn), 448.0f);
  EXPECT_EQ(largest(DType::kFloat8E4m3Fnuz), 240.0f);
  EXPECT_EQ(largest(DType::kFloat8E4m3b11Fnuz), 30.0f);
  EXPECT_EQ(largest(DType::kFloat8E5m2Fnuz), 57344.0f);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(FloatToFloat8(DType::kFloat8E5m2, -1e9f), 0xfc);
  EXPECT_EQ(Float8ToFloat(DType::kFloat8E5m2, 0xfc), -infinity);
  EXPECT_EQ(FloatToFloat8(DType::kFloat8E4m3fn, 464), 0x7e);  // halfway, and even is below
  EXPECT_EQ(FloatToFloat8(DType::kFloat8E4m3fn, 465), 0x7f);
  EXPECT_EQ(FloatToFloat8(DType::kFloat8E4m3fn, -infinity), 0xff);
  EXPECT_EQ(FloatToFloat8(DType::kFloat8E4m3fn, -0.0f), 0x80);
  EXPECT_EQ(FloatToFloat8(DType::kFloat8E4m3Fnuz, -0.0f), 0);
  EXPECT_EQ(FloatToFloat8(DType::kFloat8E4m3Fnuz, -1e-30f), 0);
  EXPECT_EQ(FloatToFloat8(DType::kFloat8E4m3Fnuz, infinity), 0x80);
  EXPECT_TRUE(std::isnan(Float8ToFloat(DType::kFloat8E5m2Fnuz, 0x80)));
}

TEST(Float16Test, HalfKeepsEveryValue) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Half half = Half::FromBits(static_cast<uint16_t>(bits));
    const float value = half;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(Half(value))));
    } else {
      EXPECT_EQ(Half(value).bits(), bits);
    }
  }
}

TEST(Float16Test, RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(Half(2049.0f)), 2048.0f);
  EXPECT_EQ(static_cast<float>(Half(2051.0f)), 2052.0f);
  EXPECT_EQ(Half(65519.0f).bits(), 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits(), 0x7c00);
  EXPECT_EQ(static_cast<float>(Bfloat16(1.00390625f)), 1.0f);
  EXPECT_TRUE(std::isnan(static_cast<float>(Bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(ShapeTest, RefusesNegativeAndOverflowingDims) {
  const int64_t negative[] = {2, -1};
  EXPECT_THAT(Shape::FromDims(negative).status().message(), HasSubstr("[2,-1]"));
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_FALSE(Shape::FromDims(huge).ok());
  const int64_t hidden_by_zero[] = {0, int64_t{1} << 40, int64_t{1} << 40};
  EXPECT_FALSE(Shape::FromDims(hidden_by_zero).ok());
}

TEST(PartialShapeTest, MergesWhatEitherKnows) {
  const PartialShape a = {-1, 784}, b = {32, -1};
  EXPECT_EQ(a.MergeWith(b)->ToString(), "[32,784]");
  EXPECT_EQ(PartialShape().MergeWith(a)->ToString(), "[?,784]");
  const int64_t large = int64_t{1} << 40;
  EXPECT_EQ(PartialShape({large, -1}).MergeWith(PartialShape({-1, large})).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(a.MergeWith(PartialShape({1, 785})).status().message(),
              testing::AllOf(HasSubstr("[?,784]"), HasSubstr("[1,785]")));
}

TEST(TensorTest, SharesSlicesAndClones) {
  Tensor a = Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(a.has_exclusive_buffer());
  const Tensor rows = a.Slice(1, 3);
  EXPECT_FALSE(a.has_exclusive_buffer());
  EXPECT_THAT(rows.flat<float>(), testing::ElementsAre(3, 4, 5, 6));
  EXPECT_FALSE(a.Clone().SharesBufferWith(a));
  EXPECT_EQ(a.ToString(2), "float[3,2] {1, 2, ...}");
}

TEST(TensorTest, TextOfAnyKindIsAString) {
  char text[] = "weir";
  char* const written_to = text;
  EXPECT_EQ(Tensor::Scalar(written_to).scalar<std::string>(), "weir");
  EXPECT_EQ(Tensor::Scalar(text).scalar<std::string>(), "weir");
  EXPECT_EQ(Tensor::Scalar("weir").scalar<std::string>(), "weir");
  EXPECT_EQ(Tensor::Scalar(absl::string_view("weir")).scalar<std::string>(), "weir");
}

TEST(TensorTest, HostileSizesAreErrors) {
  const auto huge = Tensor::Allocate(DType::kFloat64, Shape({int64_t{1} << 61}));
  EXPECT_EQ(huge.status().code(), absl::StatusCode::kResourceExhausted);
  for (int bits : {37, 38, 40, 43, 44, 45, 46, 47}) {  // up to and beyond what the allocator accepts
    const auto large = Tensor::Allocate(DType::kUint8, Shape({int64_t{1} << bits}));
    EXPECT_TRUE(large.ok() || large.status().code() == absl::StatusCode::kResourceExhausted) << bits;
  }
  EXPECT_FALSE(Tensor::Allocate(DType::kString, Shape({int64_t{1} << 40})).ok());
  EXPECT_FALSE(Tensor::Allocate(DType::kVariant, Shape({int64_t{1} << 60})).ok());
}

class Word final : public Resource {
 public:
  std::string ToString() const override { return "a word"; }
};

TEST(TensorTest, VariantsAreSharedAndCounted) {
  Tensor tensor(DType::kVariant, Shape({2}));
  const RefPtr<Resource> word = MakeRef<Word>();
  tensor.flat<ResourceHandle>()[1].resource = word;
  EXPECT_EQ(tensor.ToString(), "variant[2] {nothing, a word}");
  Tensor copy = tensor.Clone();
  EXPECT_EQ(copy.flat<ResourceHandle>()[1].resource.get(), word.get());
  EXPECT_FALSE(copy.SharesBufferWith(tensor));
  tensor = Tensor();
  EXPECT_FALSE(word->has_one_owner());
  copy = Tensor();
  EXPECT_TRUE(word->has_one_owner());
}

// Counts, and gives no more than its limit.
class LimitedAllocator final : public Allocator {
 public:
  explicit LimitedAllocator(int64_t limit) : limit_(limit) {}
  RefPtr<Buffer> Allocate(size_t num_bytes) override {
    const int64_t size = static_cast<int64_t>(num_bytes);
    if (size > limit_ - in_use_) return nullptr;
    return RefPtr<Buffer>(new CountedBuffer(*this, HostAllocator().Allocate(num_bytes)));
  }
  int64_t num_bytes_in_use() const override { return in_use_; }

 private:
  class CountedBuffer final : public Buffer {
   public:
    CountedBuffer(LimitedAllocator& owner, RefPtr<Buffer> whole)
        : Buffer(whole->data(), whole->num_bytes()), owner_(owner), whole_(std::move(whole)) {
      owner_.in_use_ += static_cast<int64_t>(num_bytes());
    }
    ~CountedBuffer() override { owner_.in_use_ -= static_cast<int64_t>(num_bytes()); }

   private:
    LimitedAllocator& owner_;
    const RefPtr<Buffer> whole_;
  };
  const int64_t limit_;
  int64_t in_use_ = 0;
};

TEST(TensorTest, StringsAndHandlesComeFromTheAllocator) {
  for (const DType dtype : {DType::kString, DType::kResource}) {
    LimitedAllocator allocator(1 << 20);
    {
      const auto small = Tensor::Allocate(dtype, Shape({10, 10}), allocator);
      ASSERT_TRUE(small.ok()) << small.status();
      EXPECT_EQ(allocator.num_bytes_in_use(), static_cast<int64_t>(100 * DTypeSize(dtype)));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(small->data()) % Allocator::kAlignment, 0u);
      const auto large = Tensor::Allocate(dtype, Shape({1 << 20}), allocator);
      EXPECT_EQ(large.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(large.status().message(), HasSubstr("[1048576]"));
      EXPECT_TRUE(Tensor::Allocate(dtype, Shape({0}), allocator).ok());
    }
    EXPECT_EQ(allocator.num_bytes_in_use(), 0);
  }
}

TEST(TensorTest, StringsAreMadeEmptyAndGoWithTheirBuffer) {
  for (int round = 0; round < 3; ++round) {  // also in memory that is used again
    Tensor strings = Tensor::Allocate(DType::kString, Shape({100})).value();
    for (std::string& value : strings.flat<std::string>()) {
      EXPECT_TRUE(value.empty());
      value = std::string(1000, 'x');
    }
    const Tensor copy = strings.Clone();
    strings = Tensor();
    EXPECT_EQ(copy.flat<std::string>()[99], std::string(1000, 'x'));
  }
}

TEST(HostAllocatorTest, MoreThanTheMachineHasIsRefused) {
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  for (const DType dtype : {DType::kString, DType::kUint8}) {
    const int64_t count = memory / static_cast<int64_t>(DTypeSize(dtype)) * 2;
    EXPECT_EQ(Tensor::Allocate(dtype, Shape({count})).status().code(), absl::StatusCode::kResourceExhausted)
        << dtype;
  }
}

TEST(HostAllocatorTest, BuffersSurviveOtherThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      std::vector<Tensor> held;
      for (int i = 0; i < 2000; ++i) {
        Tensor tensor(DType::kInt32, Shape({1 + (i * 37 + t) % 5000}));
        for (int32_t& x : tensor.flat<int32_t>()) x = i;
        held.push_back(tensor);
        if (held.size() > 40) held.erase(held.begin(), held.begin() + 20);
        for (int32_t x : tensor.flat<int32_t>()) wrong += x != i;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(HostAllocatorTest, EveryClassHoldsWhatItPromises) {
  for (size_t num_bytes : {0ul, 1ul, 64ul, 65ul, 96ul, 97ul, 128ul, 1000000ul, 1048577ul, 5000000ul}) {
    RefPtr<Buffer> buffer = HostAllocator().Allocate(num_bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % Allocator::kAlignment, 0u);
    std::fill_n(static_cast<char*>(buffer->data()), num_bytes, 'x');
  }
}

TEST(HostAllocatorTest, LargeBuffersAreReused) {
  const auto allocate = [] { return HostAllocator().Allocate(size_t{300} << 20); };
  RefPtr<Buffer> buffer = allocate();
  static_cast<char*>(buffer->data())[0] = 'x';
  const void* const address = buffer->data();
  buffer = RefPtr<Buffer>();
  const RefPtr<Buffer> other_size = HostAllocator().Allocate(size_t{700} << 20);
  buffer = allocate();
  EXPECT_EQ(buffer->data(), address);
  EXPECT_EQ(static_cast<char*>(buffer->data())[0], 'x') << "the pages went back to the system";
}

int64_t BytesOfAddressSpace() {
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

// Nothing here is touched, so that it takes addresses and no memory.
TEST(HostAllocatorTest, WhatIsIdleHasALimitAndTheSizesAskedForLastStay) {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const int64_t limit = std::max(int64_t{1} << 30, machine / 8);
  const int64_t slack = int64_t{512} << 20;
  const int64_t before = BytesOfAddressSpace();
  const auto hold_and_free = [](size_t num_bytes, int64_t total) {
    std::vector<RefPtr<Buffer>> held;
    for (int64_t i = 0; i < total; i += num_bytes) held.push_back(HostAllocator().Allocate(num_bytes));
  };
  hold_and_free(size_t{96} << 20, 2 * limit);
  EXPECT_LE(BytesOfAddressSpace(), before + limit + slack);
  hold_and_free(size_t{128} << 20, limit / 2);
  EXPECT_LE(BytesOfAddressSpace(), before + limit + slack);
  const int64_t with_idle = BytesOfAddressSpace();
  const RefPtr<Buffer> again = HostAllocator().Allocate(size_t{128} << 20);
  EXPECT_LE(BytesOfAddressSpace(), with_idle) << "the size asked for last was not kept";
}

int64_t BytesInMemory() {
  int64_t pages_of_address_space = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> pages_of_address_space >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST(HostAllocatorTest, WhatWasFreedGoesBackToTheSystemWhenAskedFor) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers have heaps of their own";
#endif
  constexpr size_t kBytes = size_t{256} << 20;
  RefPtr<Buffer> buffer = HostAllocator().Allocate(kBytes);
  std::memset(buffer->data(), 'x', kBytes);
  std::vector<std::unique_ptr<std::string>> strings;
  for (size_t i = 0; i < kBytes / 10'000; ++i) strings.push_back(std::make_unique<std::string>(10'000, 'x'));
  const std::unique_ptr<std::string> last = std::make_unique<std::string>(100, 'x');  // the heap ends with it
  strings.clear();
  buffer = RefPtr<Buffer>();
  const int64_t kept = BytesInMemory();
  ReleaseFreedMemory();
  EXPECT_LT(BytesInMemory(), kept - static_cast<int64_t>(kBytes) * 19 / 10);
  EXPECT_EQ(*last, std::string(100, 'x'));
}

TEST(DeviceNameTest, ParsesWholePartialAndShortForms) {
  const DeviceName whole = DeviceName::Parse("/job:worker/replica:0/task:1/device:GPU:2").value();
  EXPECT_TRUE(whole.is_whole());
  EXPECT_EQ(whole.ToString(), "/job:worker/replica:0/task:1/device:GPU:2");
  EXPECT_EQ(DeviceName::Parse("/cpu:0")->ToString(), "/device:CPU:0");
  EXPECT_EQ(DeviceName::Parse("/job:ps/device:CPU:*")->ToString(), "/job:ps/device:CPU:*");
  EXPECT_TRUE(DeviceName::Parse("/job:worker/device:gpu:*")->Matches(whole));
  EXPECT_FALSE(DeviceName::Parse("/job:ps")->Matches(whole));
  EXPECT_TRUE(DeviceName::Parse("")->is_empty());
}

TEST(DeviceNameTest, EveryPartOfAnInnerNameOverrides) {
  const DeviceName outer = DeviceName::Parse("/job:ps/replica:0/task:1/device:CPU:2").value();
  for (const char* inner :
       {"/job:worker", "/replica:3", "/task:4", "/device:GPU:*", "/job:a/replica:5/cpu:6"}) {
    const DeviceName name = DeviceName::Parse(inner).value(), both = outer.OverriddenBy(name);
    EXPECT_TRUE(name.Matches(both)) << inner << ": " << both.ToString();
    EXPECT_TRUE(both.is_whole()) << inner << ": " << both.ToString();
  }
  EXPECT_EQ(outer.OverriddenBy(DeviceName()), outer);
}

TEST(DeviceNameTest, ErrorsQuoteTheBadPart) {
  EXPECT_THAT(DeviceName::Parse("/job:ps/tusk:1").status().message(), HasSubstr("'/tusk:1'"));
  EXPECT_FALSE(DeviceName::Parse("job:ps").ok());
  EXPECT_FALSE(DeviceName::Parse("/task:-1").ok());
  EXPECT_FALSE(DeviceName::Parse("/job:").ok());
  EXPECT_FALSE(DeviceName::Parse("/device:CPU:99999999999999").ok());
}

}  // namespace
}  // namespace weir
