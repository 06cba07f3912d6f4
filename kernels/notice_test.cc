#include "kernels/notice.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

TEST(NoticeTest, IsOneLineWhateverTheNames) {
  testing::internal::CaptureStderr();
  PrintNotice("restored a\nweir: \x1b[2Jb");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weir: restored a\\nweir: \\x1b[2Jb\n");
}

// stderr is a pipe that is full, until the test reads it.
class FullStderr {
 public:
  FullStderr() : stderr_(dup(STDERR_FILENO)) {
    EXPECT_EQ(pipe(ends_), 0);
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string piece(4096, '.');
    while (write(ends_[1], piece.data(), piece.size()) > 0) {
    }
    fcntl(ends_[1], F_SETFL, 0);
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~FullStderr() {
    dup2(stderr_, STDERR_FILENO);
    for (const int descriptor : {stderr_, ends_[0], ends_[1]}) close(descriptor);
  }

  std::string Read() {
    std::string text(1 << 20, '\0');
    size_t size = 0;
    for (ssize_t count; (count = read(ends_[0], text.data() + size, text.size() - size)) > 0;) size += count;
    text.resize(size);
    return text;
  }

 private:
  const int stderr_;
  int ends_[2] = {-1, -1};
};

TEST(NoticeTest, AReaderThatHasStoppedStopsNobody) {
  FullStderr reader;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 1000; ++i) PrintNotice(absl::StrCat("line ", i));
  // Not a second for each.
  EXPECT_LT(absl::Now() - begin, absl::Seconds(60));
  EXPECT_EQ(reader.Read().find("line"), std::string::npos);
  PrintNotice("a line");
  PrintNotice("another line");
  EXPECT_EQ(reader.Read(),
            "weir: 1000 lines are missing here: nothing could be written to stderr\n"
            "weir: a line\nweir: another line\n");
}

// A terminal says that it takes more while there is room for one byte.
TEST(NoticeTest, ATerminalThatNobodyReadsStopsNobody) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(grantpt(terminal) + unlockpt(terminal), 0);
  const int end = open(ptsname(terminal), O_WRONLY | O_NOCTTY);
  ASSERT_GE(end, 0);
  const int before = dup(STDERR_FILENO);
  dup2(end, STDERR_FILENO);
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 1000; ++i) PrintNotice(std::string(191, 'x'));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(60));
  EXPECT_EQ(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0);
  dup2(before, STDERR_FILENO);
  PrintNotice("stderr is read again");
  for (const int descriptor : {before, end, terminal}) close(descriptor);
}

TEST(NoticeTest, ALineMayBeLongerThanAPipeTakesAtOnce) {
  FullStderr reader;
  reader.Read();
  PrintNotice(std::string(30000, 'x'));
  EXPECT_EQ(reader.Read(), absl::StrCat("weir: ", std::string(30000, 'x'), "\n"));
}

}  // namespace
}  // namespace weir
