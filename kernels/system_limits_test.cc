#include "kernels/system_limits.h"

#include <pthread.h>
#include <sys/resource.h>

#include <new>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// While it lives new threads have stacks of that size.
class StacksOf {
 public:
  explicit StacksOf(size_t size) {
    pthread_getattr_default_np(&before_);
    pthread_attr_t changed;
    pthread_getattr_default_np(&changed);
    pthread_attr_setstacksize(&changed, size);
    pthread_setattr_default_np(&changed);
    pthread_attr_destroy(&changed);
  }
  ~StacksOf() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

TEST(SystemLimitsTest, StacksOfThreadsAreLargeEnough) {
  EXPECT_TRUE(CheckStacks().ok()) << CheckStacks();
  {
    const StacksOf enough(kLeastStack);
    EXPECT_TRUE(CheckStacks().ok()) << CheckStacks();
  }
  const StacksOf small(64 << 10);
  EXPECT_EQ(CheckStacks().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(CheckStacks().message()),
              HasSubstr("stacks of 64 KiB, and needs 256 KiB: raise the limit (ulimit -s)"));
}

TEST(SystemLimitsTest, TheStackOfTheFirstThreadIsLargeEnough) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &before), 0);
  rlimit small = before;
  small.rlim_cur = 128 << 10;
  ASSERT_EQ(setrlimit(RLIMIT_STACK, &small), 0);
  const absl::Status checked = CheckStacks();
  ASSERT_EQ(setrlimit(RLIMIT_STACK, &before), 0);
  EXPECT_THAT(std::string(checked.message()), HasSubstr("stacks of 128 KiB"));
}

// It leaves nothing to be done to whoever would catch the error.
TEST(SystemLimitsTest, MemoryThatRunsOutIsSaidOnce) {
  ASSERT_EQ(std::get_new_handler(), nullptr);
  ReportMemoryThatRunsOut();
  const std::new_handler handler = std::get_new_handler();
  ASSERT_NE(handler, nullptr);
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(handler(), std::bad_alloc);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              StartsWith("weir: the system gives this process no further memory"));
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(handler(), std::bad_alloc);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  std::set_new_handler(nullptr);
}

TEST(SystemLimitsTest, AHandlerOfTheProgramStays) {
  const std::new_handler own = [] { throw std::bad_alloc(); };
  std::set_new_handler(own);
  ReportMemoryThatRunsOut();
  EXPECT_EQ(std::get_new_handler(), own);
  std::set_new_handler(nullptr);
}

}  // namespace
}  // namespace weir
