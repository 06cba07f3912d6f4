// Errors of disks that a test cannot have: here the system's rename and readdir fail as they are told.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"

namespace {
int error_of_rename = 0;
int error_of_readdir = 0;
}  // namespace

// Instead of the C library's.
extern "C" int rename(const char* from, const char* to) noexcept {
  if (error_of_rename == 0) return static_cast<int>(syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
  errno = error_of_rename;
  return -1;
}

// A list that breaks off where it has hardly begun.
extern "C" dirent* readdir(DIR* directory) {
  using Function = dirent* (*)(DIR*);
  static const auto of_system = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "readdir"));
  if (error_of_readdir == 0) return of_system(directory);
  errno = error_of_readdir;
  return nullptr;
}

namespace weir {
namespace {

using ::testing::AnyOf;
using ::testing::Not;
using Code = absl::StatusCode;

absl::Status RenameWith(int error) {
  error_of_rename = error;
  return PosixFileSystem().Rename("/nowhere/a", "/nowhere/b");
}

TEST(FileErrorsTest, SayWhatWasTriedWhereAndWhyNot) {
  const absl::Status failed = RenameWith(ENOENT);
  EXPECT_EQ(failed.code(), Code::kNotFound);
  EXPECT_THAT(std::string(failed.message()), testing::AllOf(testing::HasSubstr("/nowhere/a"),
                                                            testing::HasSubstr("No such file or directory")));
  EXPECT_EQ(RenameWith(ENOSPC).code(), Code::kResourceExhausted);
}

// A session would be made anew, again and again, for what no new session mends.
TEST(FileErrorsTest, AreNeverThoseOfALostPeer) {
  for (int error = 1; error < 134; ++error) {
    EXPECT_THAT(RenameWith(error).code(), Not(AnyOf(Code::kOk, Code::kUnavailable, Code::kAborted,
                                                    Code::kCancelled, Code::kDeadlineExceeded)))
        << error;
  }
  EXPECT_FALSE(RenameWith(ENOENT).GetPayload("exit code").has_value());
}

// Of a file that they say nothing of, nobody may think that it is not there.
TEST(FileErrorsTest, ThatMayPassSayNothingOfTheFile) {
  for (const int error : {EIO, ESTALE, ENODEV, ENXIO, ENOMEDIUM, ENOTCONN, ESHUTDOWN, EREMOTEIO, ENOLINK,
                          ENOLCK, EAGAIN, ETIMEDOUT, EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ECONNRESET, EPIPE}) {
    const absl::Status passing = RenameWith(error);
    EXPECT_EQ(passing.code(), Code::kInternal) << passing;
    EXPECT_EQ(passing.GetPayload("exit code"), absl::Cord("160")) << "a new start may help: " << passing;
  }
}

TEST(FileErrorsTest, AListThatBreaksOffIsNone) {
  EXPECT_TRUE(PosixFileSystem().ListDirectory(testing::TempDir()).ok());
  error_of_readdir = EIO;
  const absl::Status listed = PosixFileSystem().ListDirectory(testing::TempDir()).status();
  error_of_readdir = 0;
  EXPECT_EQ(listed.code(), Code::kInternal) << listed;
}

}  // namespace
}  // namespace weir
