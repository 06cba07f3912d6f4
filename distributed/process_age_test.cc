#include "distributed/process_age.h"

#include <sys/wait.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

TEST(ProcessAgeTest, GrowsWithTheClockFromTheStartOfTheProcess) {
  const absl::Time begin = absl::Now();
  const absl::Duration first = ProcessAge();
  EXPECT_GT(first, absl::ZeroDuration());
  EXPECT_LT(first, absl::Hours(1)) << "the system's age, or a field beside it";
  absl::Duration second = first;
  while (second == first && absl::Now() < begin + absl::Minutes(1)) second = ProcessAge();
  EXPECT_GT(second, first);
}

TEST(ProcessAgeTest, AProcessIsTheSameEachTime) {
  const ProcessOrigin first = OriginOfThisProcess(), second = OriginOfThisProcess();
  EXPECT_NE(first.id, 0u);
  EXPECT_EQ(first.id, second.id);
  EXPECT_GT(second.age, absl::ZeroDuration());
}

TEST(ProcessAgeTest, AChildIsAnotherProcess) {
  const uint64_t id = OriginOfThisProcess().id;
  const pid_t child = fork();
  if (child == 0) _exit(OriginOfThisProcess().id == id ? 1 : 0);
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace weir
