#include "kernels/metered_allocator.h"

#include <algorithm>
#include <memory>

#include "gtest/gtest.h"

namespace weir {
namespace {

TEST(MeteredAllocatorTest, GivesTheLimitToTheLastByteAndNoMore) {
  MeteredAllocator allocator(HostAllocator(), 100);
  RefPtr<Buffer> most = allocator.Allocate(60);
  ASSERT_TRUE(most);
  EXPECT_FALSE(allocator.Allocate(41));
  EXPECT_EQ(allocator.num_bytes_in_use(), 60);
  RefPtr<Buffer> rest = allocator.Allocate(40);
  ASSERT_TRUE(rest);
  EXPECT_EQ(allocator.num_bytes_in_use(), 100);
  EXPECT_FALSE(allocator.Allocate(1));
  most = RefPtr<Buffer>();
  EXPECT_EQ(allocator.num_bytes_in_use(), 40);
  EXPECT_TRUE(allocator.Allocate(60));
  EXPECT_EQ(allocator.peak_bytes(), 100);
}

TEST(MeteredAllocatorTest, CountsWithoutALimit) {
  MeteredAllocator allocator(HostAllocator());
  { const RefPtr<Buffer> buffer = allocator.Allocate(1000); }
  EXPECT_EQ(allocator.num_bytes_in_use(), 0);
  EXPECT_EQ(allocator.peak_bytes(), 1000);
  EXPECT_EQ(allocator.num_allocations(), 1);
}

// Seen by the address sanitizer alone: the buffer used to count itself out of an allocator that was gone.
TEST(MeteredAllocatorTest, BuffersOutliveIt) {
  auto allocator = std::make_unique<MeteredAllocator>(HostAllocator(), 100);
  RefPtr<Buffer> buffer = allocator->Allocate(60);
  ASSERT_TRUE(buffer);
  allocator.reset();
  std::fill_n(static_cast<char*>(buffer->data()), 60, 'x');
  buffer = RefPtr<Buffer>();
}

TEST(MeteredAllocatorTest, SizesThatNothingHoldsAreRefused) {
  MeteredAllocator allocator(HostAllocator());
  EXPECT_FALSE(allocator.Allocate(SIZE_MAX));
  EXPECT_EQ(allocator.num_bytes_in_use(), 0);
}

}  // namespace
}  // namespace weir
