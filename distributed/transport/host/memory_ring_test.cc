// Messages in memory that two processes share, and what the other process may do to it.
#include "distributed/transport/host/memory_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/transport/host/shared_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// Two sides of one ring.
struct Ring {
  Ring() : memory(MemoryRing::kBytes + 128, '\0') {
    begin = memory.data() + (128 - reinterpret_cast<uintptr_t>(memory.data()) % 128) % 128;
    writer = std::make_unique<MemoryRing>(begin);
    reader = std::make_unique<MemoryRing>(begin);
  }
  // As the other process might: its first field is the number of messages that were written.
  void SetNumWritten(uint64_t count) { memcpy(begin, &count, sizeof(count)); }
  void SetNumRead(uint64_t count) { memcpy(begin + 128, &count, sizeof(count)); }
  void SetSizeOfFirst(uint64_t num_bytes) { memcpy(begin + 3 * 128, &num_bytes, sizeof(num_bytes)); }
  std::string Read() {
    std::string message;
    const absl::StatusOr<bool> read = reader->Read(&message);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() && *read ? message : "(nothing)";
  }

  std::vector<char> memory;
  char* begin;
  std::unique_ptr<MemoryRing> writer, reader;
};

TEST(MemoryRingTest, GivesMessagesInOrderAndHasRoomForSome) {
  Ring ring;
  EXPECT_EQ(ring.Read(), "(nothing)");
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < MemoryRing::kSlots; ++i)
      EXPECT_TRUE(ring.writer->Write("message ", absl::StrCat(i)));
    EXPECT_FALSE(ring.writer->Write("one", " too many"));
    for (size_t i = 0; i < MemoryRing::kSlots; ++i) EXPECT_EQ(ring.Read(), absl::StrCat("message ", i));
    EXPECT_FALSE(ring.reader->has_message());
  }
  const std::string longest(MemoryRing::kMaxMessageBytes, 'x');
  EXPECT_FALSE(ring.writer->Write(longest, "y"));
  EXPECT_TRUE(ring.writer->Write(longest, ""));
  EXPECT_TRUE(ring.writer->Write("", ""));
  EXPECT_EQ(ring.Read(), longest);
  EXPECT_EQ(ring.Read(), "");
}

TEST(MemoryRingTest, AReaderThatDoesNotLookHasToBeTold) {
  Ring ring;
  EXPECT_FALSE(ring.writer->NeedsNotice());
  ring.reader->SetIsPolled(true);
  ASSERT_TRUE(ring.writer->Write("a", ""));
  EXPECT_FALSE(ring.writer->NeedsNotice());
  ring.reader->SetIsPolled(false);
  EXPECT_TRUE(ring.writer->NeedsNotice());
  EXPECT_EQ(ring.Read(), "a");
  EXPECT_FALSE(ring.writer->NeedsNotice());
}

TEST(MemoryRingTest, MemoryThatSaysWhatCannotBeIsRefused) {
  const auto refusal = [](Ring& ring) {
    std::string message = "untouched";
    const absl::Status status = ring.reader->Read(&message).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(message, "untouched");
    return std::string(status.message());
  };
  for (const uint64_t count : {uint64_t{MemoryRing::kSlots + 1}, ~uint64_t{0}, uint64_t{1} << 63}) {
    Ring ring;
    ring.SetNumWritten(count);
    EXPECT_THAT(refusal(ring), HasSubstr("has room for 8"));
  }
  {
    Ring ring;
    ASSERT_TRUE(ring.writer->Write("a", ""));
    EXPECT_EQ(ring.Read(), "a");
    ring.SetNumWritten(0);  // backwards
    EXPECT_THAT(refusal(ring), HasSubstr("has room for 8"));
  }
  for (const uint64_t num_bytes : {uint64_t{MemoryRing::kMaxMessageBytes + 1}, ~uint64_t{0}}) {
    Ring ring;
    ASSERT_TRUE(ring.writer->Write("a", ""));
    ring.SetSizeOfFirst(num_bytes);
    EXPECT_THAT(refusal(ring), HasSubstr(absl::StrCat("a message of ", num_bytes, " bytes")));
  }
  // A reader that says that it has read more than there was.
  for (const uint64_t count : {uint64_t{1}, ~uint64_t{0} - 20}) {
    Ring ring;
    ring.SetNumRead(count);
    EXPECT_FALSE(ring.writer->Write("a", "")) << "ahead, or far behind";
  }
}

TEST(SharedMemoryTest, AnotherProcessFindsIt) {
  constexpr size_t kNumBytes = 8192;
  const auto made = SharedMemory::Make(kNumBytes);
  ASSERT_TRUE(made.ok()) << made.status();
  const SharedMemory::Place place = (*made)->place();
  EXPECT_EQ(place.machine, SharedMemory::MachineId());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto opened = SharedMemory::Open(place, kNumBytes);
    if (opened.ok()) memcpy((*opened)->data() + kNumBytes - 5, "hello", 5);
    _exit(opened.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::string((*made)->data() + kNumBytes - 5, 5), "hello");
}

// The descriptor is whatever the other side says.
TEST(SharedMemoryTest, NothingElseIsOpened) {
  constexpr size_t kNumBytes = 8192;
  const auto made = SharedMemory::Make(kNumBytes);
  ASSERT_TRUE(made.ok()) << made.status();
  SharedMemory::Place place = (*made)->place();
  const auto refused = [&] { return SharedMemory::Open(place, kNumBytes).status(); };
  EXPECT_TRUE(absl::IsInvalidArgument(SharedMemory::Open(place, 2 * kNumBytes).status()));
  place.machine = "another";
  EXPECT_TRUE(absl::IsUnavailable(refused())) << refused();
  place.machine = "";
  EXPECT_TRUE(absl::IsUnavailable(refused())) << refused();
  place.machine = SharedMemory::MachineId();
  ++place.file;
  EXPECT_TRUE(absl::IsInvalidArgument(refused())) << refused();
  place.process = 0;
  EXPECT_TRUE(absl::IsUnavailable(refused())) << refused();
  place.process = getpid();
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  place.descriptor = pipe_ends[1];  // opening it would wait for a reader
  EXPECT_TRUE(absl::IsUnavailable(refused())) << refused();
  place.descriptor = 123456;
  EXPECT_TRUE(absl::IsUnavailable(refused())) << refused();
  // Memory that its maker could shrink: an access behind its end would be a SIGBUS.
  const int fd = memfd_create("weir-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(fd, kNumBytes), 0);
  struct stat file {};
  ASSERT_EQ(fstat(fd, &file), 0);
  place.descriptor = fd;
  place.file = file.st_ino;
  EXPECT_TRUE(absl::IsInvalidArgument(refused())) << refused();
  EXPECT_THAT(std::string(refused().message()), HasSubstr("whose size may change"));
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_TRUE(refused().ok()) << refused();
  for (const int end : {pipe_ends[0], pipe_ends[1], fd}) close(end);
}

}  // namespace
}  // namespace weir
