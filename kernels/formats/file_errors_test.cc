// Errors of disks that a test cannot have: here the system's rename fails as it is told.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"

namespace {
int error_of_rename = 0;
}  // namespace

// Instead of the C library's.
extern "C" int rename(const char* from, const char* to) noexcept {
  if (error_of_rename == 0) return static_cast<int>(syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
  errno = error_of_rename;
  return -1;
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
  for (const int error : {ESTALE, ENOLINK, ENOLCK, EAGAIN, EINTR, ETIMEDOUT, ECANCELED, EHOSTUNREACH,
                          ECONNREFUSED, ECONNRESET, EPIPE, ENETDOWN, ENOTCONN, EDEADLK}) {
    EXPECT_THAT(RenameWith(error).code(), Not(AnyOf(Code::kOk, Code::kUnavailable, Code::kAborted,
                                                    Code::kCancelled, Code::kDeadlineExceeded)))
        << error;
  }
  for (const int error : {ESTALE, EIO}) {
    const absl::Status passing = RenameWith(error);
    EXPECT_EQ(passing.code(), Code::kInternal);
    EXPECT_EQ(passing.GetPayload("exit code"), absl::Cord("160")) << "a new start may help";
  }
  EXPECT_FALSE(RenameWith(ENOENT).GetPayload("exit code").has_value());
}

}  // namespace
}  // namespace weir
