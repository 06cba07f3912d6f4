#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(PosixFileSystemTest, AFifoIsNoFileAndNobodyWaitsForIt) {
  const std::string fifo = NewTestDirectory() + "/checkpoint";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const absl::Status status = PosixFileSystem().OpenForReading(fifo).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(fifo), HasSubstr("it is a FIFO")));
}

TEST(PosixFileSystemTest, ALinkToItselfIsNoFile) {
  const std::string link = NewTestDirectory() + "/link";
  ASSERT_EQ(symlink("link", link.c_str()), 0);
  EXPECT_EQ(PosixFileSystem().OpenForReading(link).status().code(), absl::StatusCode::kFailedPrecondition);
}

// The system takes "a\0b" for "a": another file.
TEST(PosixFileSystemTest, APathWithAZeroByteIsRefused) {
  const std::string directory = NewTestDirectory();
  const std::string path = directory + std::string("/a\0b", 4);
  FileSystem& files = PosixFileSystem();
  for (const absl::Status& status :
       {files.OpenForReading(path).status(), files.Create(path).status(), files.CreateNew(path).status(),
        files.OpenForAppending(path).status(), files.Rename(path, directory), files.Rename(directory, path),
        files.Remove(path), files.CreateDirectories(path), files.SyncDirectory(path),
        files.FileSize(path).status(), files.ListDirectory(path).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("/a\\000b'"));
  }
  EXPECT_THAT(files.ListDirectory(directory).value(), IsEmpty());
}

}  // namespace
}  // namespace weir
