// A checkpoint that cannot be read now, on a disk that fails: here the system's pread does, for the files
// that it is told.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/monitored/checkpoint_claim.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/test_program.h"

namespace {

std::string* unreadable = nullptr;  // a part of the path; null for none

bool FailsToRead(int fd) {
  if (unreadable == nullptr) return false;
  char path[4096];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  return size > 0 && absl::StrContains(absl::string_view(path, size), *unreadable);
}

}  // namespace

// Instead of the C library's.
extern "C" ssize_t pread(int fd, void* buffer, size_t size, off_t offset) {
  if (!FailsToRead(fd)) return syscall(SYS_pread64, fd, buffer, size, offset);
  errno = EIO;
  return -1;
}

namespace weir {
namespace {

using ::testing::HasSubstr;

class ReadErrorsTest : public testing::Test {
 protected:
  ~ReadErrorsTest() override { unreadable = nullptr; }
  const std::string directory_ = EmptyDirectory("read_errors");
};

class UnreadableCheckpointTest : public ReadErrorsTest, public testing::WithParamInterface<const char*> {};

TEST_P(UnreadableCheckpointTest, DoesNotLeadBackToAnOlderOne) {
  {
    TestProgram program;
    auto session = program.Start({.checkpoint_dir = directory_,
                                  .hooks = {StopAtStepHook({.last_step = 4})},
                                  .save_checkpoint_steps = 2});
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(TrainUntilStop(program, **session).ok());
  }
  std::string part = GetParam();
  unreadable = &part;
  {
    TestProgram program;
    const absl::Status failed = program.Start({.checkpoint_dir = directory_}).status();
    EXPECT_THAT(std::string(failed.message()), HasSubstr("Input/output error"));
    EXPECT_THAT(std::string(failed.message()), HasSubstr(part));
    EXPECT_EQ(ExitCodeFor(failed), kExitRetryable) << failed;
  }
  unreadable = nullptr;
  TestProgram program;
  auto session = program.Start({.checkpoint_dir = directory_});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->GlobalStep().value(), 4);
}
INSTANTIATE_TEST_SUITE_P(All, UnreadableCheckpointTest,
                         testing::Values("model.ckpt-4.index", "model.ckpt-4.data-00000-of-00001",
                                         "/checkpoint"));

// It would be removed for one that knows of no checkpoints.
TEST_F(ReadErrorsTest, AManifestThatCannotBeReadNowIsKept) {
  FileSystem& files = PosixFileSystem();
  ASSERT_TRUE(CheckpointClaim::Take(files, directory_, 5).value()->Note("some").ok());
  std::string part = ".manifest-";
  unreadable = &part;
  EXPECT_EQ(ExitCodeFor(CheckpointClaim::Take(files, directory_, 6).status()), kExitRetryable);
  unreadable = nullptr;
  EXPECT_EQ(CheckpointClaim::LatestManifestIn(files, directory_).value().text, "some");
  EXPECT_TRUE(CheckpointClaim::Take(files, directory_, 6).ok());
  EXPECT_EQ(CheckpointClaim::LatestManifestIn(files, directory_).value().text, "some");
}

}  // namespace
}  // namespace weir
