#include "kernels/cpu/io/matching_paths.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

class MatchingPathsTest : public ::testing::Test {
 protected:
  MatchingPathsTest() { std::ofstream(path_) << "x"; }
  absl::StatusOr<std::vector<std::string>> Match(const std::string& pattern, int64_t* num_bytes_left) {
    return MatchingPaths(files_, pattern, PathKinds::kFiles, num_bytes_left, cancellation_);
  }

  FileSystem& files_ = PosixFileSystem();
  const std::string path_ = ::testing::TempDir() + "one_file";
  Cancellation cancellation_;
};

TEST_F(MatchingPathsTest, APathWithoutSignsIsChargedAsOneThatMatches) {
  const auto num_bytes = static_cast<int64_t>(sizeof(std::string) + path_.size());
  for (const std::string& pattern : {path_, path_.substr(0, path_.size() - 1) + "?"}) {
    int64_t left = num_bytes + 1;
    const auto paths = Match(pattern, &left);
    ASSERT_TRUE(paths.ok()) << paths.status();
    EXPECT_THAT(*paths, ElementsAre(path_));
    EXPECT_EQ(left, 1) << pattern;
    EXPECT_EQ(Match(pattern, &left).status().code(), absl::StatusCode::kResourceExhausted) << pattern;
    EXPECT_EQ(left, 1);
  }
  int64_t left = 1;
  EXPECT_TRUE(Match(path_ + ".none", &left)->empty());
}

}  // namespace
}  // namespace weir
