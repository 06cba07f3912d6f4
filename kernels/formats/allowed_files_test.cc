#include "kernels/formats/allowed_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

class AllowedFilesTest : public testing::Test {
 protected:
  AllowedFilesTest() : root_(NewTestDirectory()), inside_(root_ + "/inside"), outside_(root_ + "/outside") {
    for (const std::string& folder : {inside_, outside_, root_ + "/inside2"}) {
      EXPECT_EQ(mkdir(folder.c_str(), 0700), 0);
    }
    WriteBytes(outside_ + "/secret", "secret");
    WriteBytes(root_ + "/inside2/secret", "secret");
    WriteBytes(inside_ + "/file", "content");
    EXPECT_EQ(symlink(outside_.c_str(), (inside_ + "/out").c_str()), 0);
    EXPECT_EQ(symlink((outside_ + "/none").c_str(), (inside_ + "/dangling").c_str()), 0);
    EXPECT_EQ(symlink(inside_.c_str(), (outside_ + "/in").c_str()), 0);
    files_ = AllowedFiles::In({inside_}).value();
  }

  const std::string root_, inside_, outside_;
  std::unique_ptr<AllowedFiles> files_;
};

TEST_F(AllowedFilesTest, WhatLeadsInsideIsReachedHoweverItIsNamed) {
  for (const std::string& path :
       {inside_ + "/file", inside_ + "/./file", inside_ + "/../inside/file", outside_ + "/in/file"}) {
    EXPECT_EQ(ReadWholeFile(*files_, path).value_or("none"), "content") << path;
    EXPECT_EQ(files_->FileSize(path).value_or(0), 7u) << path;
  }
  EXPECT_TRUE(files_->CreateDirectories(inside_ + "/a/b").ok());
  EXPECT_TRUE(WriteFileAtomically(*files_, inside_ + "/a/b/c", "new").ok());
  EXPECT_EQ(ReadBytes(inside_ + "/a/b/c"), "new");
  EXPECT_TRUE(files_->Rename(inside_ + "/a/b/c", inside_ + "/c").ok());
  EXPECT_TRUE(files_->RemoveEmptyDirectory(inside_ + "/a/b").ok());
  EXPECT_EQ(files_->ListDirectory(inside_ + "/a").value().size(), 0u);
  // A link itself is an entry of the folder that it is in.
  EXPECT_TRUE(files_->Remove(inside_ + "/out").ok());
  EXPECT_EQ(ReadBytes(outside_ + "/secret"), "secret");
}

TEST_F(AllowedFilesTest, WhatLeadsElsewhereIsRefused) {
  std::vector<absl::Status> refusals;
  for (const std::string& path :
       {outside_ + "/secret", inside_ + "/../outside/secret", inside_ + "/out/secret",
        inside_ + "/none/../../x", root_ + "/inside2/secret", inside_ + "/dangling", root_, std::string("/"),
        std::string(), std::string("relative")}) {
    refusals.push_back(files_->OpenForReading(path).status());
    EXPECT_THAT(
        std::string(refusals.back().message()),
        HasSubstr(absl::StrCat("'", path, "' ", path == inside_ + "/dangling" ? "leads" : "is outside")));
    refusals.push_back(files_->Create(path).status());
    refusals.push_back(files_->CreateNew(path).status());
    refusals.push_back(files_->OpenForAppending(path).status());
    refusals.push_back(files_->CreateDirectories(path));
    refusals.push_back(files_->SyncDirectory(path));
    refusals.push_back(files_->FileSize(path).status());
    refusals.push_back(files_->ListDirectory(path).status());
  }
  for (const std::string& path : {outside_ + "/secret", inside_ + "/out/secret", inside_ + "/..", root_}) {
    refusals.push_back(files_->Remove(path));
    refusals.push_back(files_->RemoveEmptyDirectory(path));
    refusals.push_back(files_->Rename(path, inside_ + "/stolen"));
    refusals.push_back(files_->Rename(inside_ + "/file", path));
  }
  for (const absl::Status& status : refusals) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(inside_));
  }
  EXPECT_EQ(ReadBytes(outside_ + "/secret"), "secret");
  EXPECT_FALSE(PosixFileSystem().Exists(outside_ + "/none"));
}

TEST_F(AllowedFilesTest, ALinkInsideThatLeadsNowhereIsNamed) {
  ASSERT_EQ(symlink("loop", (inside_ + "/loop").c_str()), 0);
  ASSERT_EQ(symlink((root_ + "/none").c_str(), (outside_ + "/dangling").c_str()), 0);
  for (const char* name : {"dangling", "loop"}) {
    for (const char* rest : {"", "/file"}) {
      const std::string link = absl::StrCat(inside_, "/", name);
      const absl::Status refused = files_->FileSize(link + rest).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
      EXPECT_THAT(std::string(refused.message()),
                  HasSubstr(absl::StrCat("'", link, rest, "' leads over the symbolic link '", link,
                                         "', which leads nowhere")));
    }
  }
  // Of other folders nothing is said.
  for (const std::string& path : {inside_ + "/out/dangling", outside_ + "/dangling"}) {
    const absl::Status refused = files_->FileSize(path).status();
    EXPECT_THAT(std::string(refused.message()), HasSubstr(absl::StrCat("'", path, "' is outside")));
  }
}

TEST_F(AllowedFilesTest, APathIsBoundedAndFollowedOnce) {
  std::string deep = inside_;
  for (int i = 0; i < 200; ++i) deep += "/a";
  EXPECT_TRUE(files_->CreateDirectories(deep).ok());
  EXPECT_TRUE(WriteFileAtomically(*files_, deep + "/file", "content").ok());
  EXPECT_EQ(ReadWholeFile(*files_, deep + "/../a/none/../file").value_or("none"), "content");
  // What is not there cannot hide a link.
  EXPECT_TRUE(absl::IsPermissionDenied(files_->FileSize(inside_ + "/none/../out/secret").status()));
  std::string many = inside_, wide = inside_;
  for (int i = 0; i < 300; ++i) many += "/a";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&wide, "/", std::string(100, 'b'));
  for (const std::string& path : {many, wide, many + "/.."}) {
    for (const absl::Status& refused : {files_->Create(path).status(), files_->CreateDirectories(path),
                                        files_->Rename(path, inside_ + "/x"), files_->Remove(path)}) {
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("256 parts are possible here"));
      EXPECT_LT(refused.message().size(), 600u);
    }
  }
}

TEST_F(AllowedFilesTest, FoldersMustBeThere) {
  EXPECT_EQ(AllowedFiles::In({inside_, root_ + "/none"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AllowedFiles::In({inside_ + "/file"}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AllowedFiles::In({""}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(AllowedFiles::In({"/"}).value()->OpenForReading(outside_ + "/secret").ok());
}

}  // namespace
}  // namespace weir
