#include "distributed/process_age.h"

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

}  // namespace
}  // namespace weir
