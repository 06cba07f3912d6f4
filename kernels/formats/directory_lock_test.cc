#include "kernels/formats/directory_lock.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Takes the right to open any file from this thread, which root has.
class WithoutPrivileges {
 public:
  WithoutPrivileges() {
    EXPECT_EQ(syscall(SYS_capget, &header_, before_), 0);
    __user_cap_data_struct now[2] = {before_[0], before_[1]};
    now[0].effective &= ~((1u << CAP_DAC_OVERRIDE) | (1u << CAP_DAC_READ_SEARCH));
    EXPECT_EQ(syscall(SYS_capset, &header_, now), 0);
  }
  ~WithoutPrivileges() { EXPECT_EQ(syscall(SYS_capset, &header_, before_), 0); }

 private:
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[2] = {};
};

class DirectoryLockTest : public testing::Test {
 protected:
  DirectoryLockTest() : directory_(absl::StrCat(testing::TempDir(), "/lock_XXXXXX")) {
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
  }
  ~DirectoryLockTest() override {
    unlink(file().c_str());
    rmdir(directory_.c_str());
  }
  std::string file() const { return directory_ + "/.lock"; }

  absl::Status AcquireWithFileMode(mode_t mode) {
    EXPECT_EQ(chmod(file().c_str(), mode), 0);
    const WithoutPrivileges unprivileged;
    return DirectoryLock::Acquire(directory_).status();
  }

  std::string directory_;
};

TEST_F(DirectoryLockTest, IsHeldByOneAtATime) {
  auto lock = DirectoryLock::Acquire(directory_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const absl::Status refused = DirectoryLock::Acquire(directory_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(directory_), HasSubstr(absl::StrCat("process ", getpid(), " on "))));
  EXPECT_TRUE(absl::IsFailedPrecondition(DirectoryLock::Acquire(directory_, absl::Milliseconds(1)).status()));
  *lock = nullptr;
  EXPECT_TRUE(DirectoryLock::Acquire(directory_).ok());
}

TEST_F(DirectoryLockTest, WaitsForItsHolderAndSaysSo) {
  auto lock = DirectoryLock::Acquire(directory_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  testing::internal::CaptureStderr();
  absl::Status status;
  std::thread waits([&] { status = DirectoryLock::Acquire(directory_, absl::Minutes(1)).status(); });
  *lock = nullptr;
  waits.join();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(status.ok()) << status;
  if (!said.empty()) {  // it came before the holder went
    EXPECT_THAT(said, AllOf(HasSubstr(directory_), HasSubstr(absl::StrCat("process ", getpid(), " on ")),
                            HasSubstr("1m")));
  }
}

// A predecessor of a chief may be stopped, and then be killed.
TEST_F(DirectoryLockTest, AHolderThatWasStoppedIsNoMistakeForGood) {
  const pid_t holder = fork();
  if (holder == 0) {
    const auto lock = DirectoryLock::Acquire(directory_);
    raise(SIGSTOP);
    _exit(lock.ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(holder, &status, WUNTRACED), holder);
  ASSERT_TRUE(WIFSTOPPED(status));
  const absl::Status refused = DirectoryLock::Acquire(directory_).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(directory_), HasSubstr(absl::StrCat("process ", holder, " on ")),
                    HasSubstr("was stopped")));
  kill(holder, SIGKILL);
  waitpid(holder, &status, 0);
  EXPECT_TRUE(DirectoryLock::Acquire(directory_).ok());
}

TEST_F(DirectoryLockTest, AFileOfAnotherUserIsLockedWhereItMayBeRead) {
  ASSERT_TRUE(DirectoryLock::Acquire(directory_).ok());
  const absl::Status status = AcquireWithFileMode(0444);
  EXPECT_TRUE(status.ok()) << status;
  auto lock = DirectoryLock::Acquire(directory_);
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(AcquireWithFileMode(0444)));
}

TEST_F(DirectoryLockTest, ALinkInItsPlaceIsRefusedAndCalledOne) {
  ASSERT_EQ(symlink("elsewhere", file().c_str()), 0);
  const absl::Status status = DirectoryLock::Acquire(directory_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(file()), HasSubstr("is a symbolic link")));
}

TEST_F(DirectoryLockTest, AFolderThatMayNotBeWrittenToIsSaidToBeSo) {
  ASSERT_EQ(chmod(directory_.c_str(), 0555), 0);
  const WithoutPrivileges unprivileged;
  const absl::Status status = DirectoryLock::Acquire(directory_).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(file()));
}

TEST_F(DirectoryLockTest, AFileThatMayNotBeOpenedIsNamedWithItsOwner) {
  ASSERT_TRUE(DirectoryLock::Acquire(directory_).ok());
  const absl::Status status = AcquireWithFileMode(0);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(file()), HasSubstr(absl::StrCat("the user ", geteuid())), HasSubstr("0000")));
}

}  // namespace
}  // namespace weir
