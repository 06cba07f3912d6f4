#include "kernels/notice.h"

#include "gtest/gtest.h"

namespace weir {
namespace {

TEST(NoticeTest, IsOneLineWhateverTheNames) {
  testing::internal::CaptureStderr();
  PrintNotice("restored a\nweir: \x1b[2Jb");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weir: restored a\\nweir: \\x1b[2Jb\n");
}

}  // namespace
}  // namespace weir
