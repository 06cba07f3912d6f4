#include "distributed/command/idle_memory.h"

#include <cstring>

#include "absl/time/clock.h"
#include "graph/types/allocator.h"
#include "graph/types/freed_memory.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

// Computes for longer than IdleMemory::kWork.
void UseAndFree(int64_t num_bytes) {
  const RefPtr<Buffer> buffer = HostAllocator().Allocate(static_cast<size_t>(num_bytes));
  constexpr int64_t kWrittenBytes = int64_t{8} << 30;
  for (int64_t i = 0; i < kWrittenBytes / num_bytes; ++i) {
    std::memset(buffer->data(), static_cast<char>(i), static_cast<size_t>(num_bytes));
  }
}

// Once the processes beside it let it be idle.
bool GivesBackWhenIdle(IdleMemory& memory) {
  for (int i = 0; i < 100; ++i) {
    absl::SleepFor(absl::Milliseconds(100));
    if (memory.Look()) return true;
  }
  return false;
}

TEST(IdleMemoryTest, GivesBackWhatWasFreedOnceTheProcessIsIdle) {
  IdleMemory memory(RealEnvironment());
  UseAndFree(2 * IdleMemory::kWorthwhileBytes);
  EXPECT_FALSE(memory.Look()) << "it was busy";
  EXPECT_TRUE(GivesBackWhenIdle(memory));
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(memory.Look()) << "nothing has been computed since";
  UseAndFree(2 * IdleMemory::kWorthwhileBytes);
  EXPECT_TRUE(GivesBackWhenIdle(memory)) << "again";
}

TEST(IdleMemoryTest, LeavesSmallAmountsAlone) {
  IdleMemory memory(RealEnvironment());
  ReleaseFreedMemory();
  UseAndFree(IdleMemory::kWorthwhileBytes / 4);
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_FALSE(memory.Look());
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_FALSE(memory.Look());
}

}  // namespace
}  // namespace weir
