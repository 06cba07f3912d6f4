#include "kernels/fake/protected_memory.h"

#include <cstring>

#include "gtest/gtest.h"

namespace weir {
namespace {

TEST(ProtectedMemory, WhatIsWrittenIsThereWhenItIsOpenedAgain) {
  const auto memory = ProtectedMemory::Create();
  const RefPtr<Buffer> buffer = memory->Allocate(10000);
  ASSERT_NE(buffer.get(), nullptr);
  EXPECT_TRUE(memory->Contains(buffer->data()));
  EXPECT_FALSE(memory->Contains(&memory));
  {
    const ProtectedMemory::Opening opening(*memory);
    std::memset(buffer->data(), 7, 10000);
    const RefPtr<Buffer> more = memory->Allocate(1 << 20);  // while it is open
    std::memset(more->data(), 8, 1 << 20);
  }
  const ProtectedMemory::Opening one(*memory);
  { const ProtectedMemory::Opening two(*memory); }
  EXPECT_EQ(static_cast<char*>(buffer->data())[9999], 7) << "open while one has it open";
}

TEST(ProtectedMemoryDeathTest, NobodyTouchesWhatIsNotOpen) {
  const auto memory = ProtectedMemory::Create();
  const RefPtr<Buffer> buffer = memory->Allocate(100);
  {
    const ProtectedMemory::Opening opening(*memory);
    std::memset(buffer->data(), 7, 100);
  }
  const auto read = [&] { return static_cast<volatile char*>(buffer->data())[50]; };
  EXPECT_DEATH(read(), "");
}

TEST(ProtectedMemory, BuffersAreReusedAndOutliveTheirOwner) {
  auto memory = ProtectedMemory::Create();
  const void* const first = memory->Allocate(5000)->data();
  EXPECT_EQ(memory->num_bytes_in_use(), 0);
  const RefPtr<Buffer> buffer = memory->Allocate(6000);
  EXPECT_EQ(buffer->data(), first);
  EXPECT_EQ(memory->Allocate(0)->num_bytes(), 0u);
  EXPECT_EQ(memory->Allocate(ProtectedMemory::kCapacity + 1).get(), nullptr);
  EXPECT_EQ(memory->Allocate(ProtectedMemory::kCapacity).get(), nullptr) << "some of it is in use";
  memory = nullptr;
  EXPECT_EQ(buffer->num_bytes(), 6000u);
}

}  // namespace
}  // namespace weir
