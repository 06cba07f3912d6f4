// A check with a part that fails, one that crashes, one that hangs, one that loses its device, and good ones:
// what check_test.py runs.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/gpu/check.h"
#include "tests/gpu/gtest_part.h"

namespace weir::gpu_check {
namespace {

bool is_lost = false;  // of this program's process

TEST(Good, First) {}
TEST(Good, Second) {
  std::printf("{\"peer\": \"weir\", \"metric\": \"of_good\", \"value\": 2.5, \"unit\": \"us\"}\n");
}
TEST(Failing, First) { EXPECT_EQ(1, 2) << "on purpose"; }
TEST(Failing, Second) {}
TEST(Crashing, First) {
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}
TEST(Crashing, Second) {}
TEST(Hanging, First) { absl::SleepFor(absl::Hours(1)); }
TEST(Hanging, Second) {}
TEST(Skipping, First) { GTEST_SKIP() << "there is no such thing here"; }
TEST(Skipping, Second) { GTEST_SKIP() << "not for this machine"; }
TEST(Losing, First) { is_lost = true; }
TEST(Losing, Second) { EXPECT_FALSE(is_lost); }

Part Tests(const std::string& name, const std::string& filter) {
  const GtestPart part{
      .filter = filter, .is_lost = [] { return is_lost; }, .left_out_text = "not for this machine"};
  return {.name = name,
          .limit_of_test = absl::Seconds(1),
          .run = [part](Progress& progress, const std::vector<std::string>& done) {
            return RunGtestPart(part, progress, done);
          }};
}

}  // namespace
}  // namespace weir::gpu_check

int main(int argc, char** argv) {
  using namespace weir::gpu_check;
  if (InitializeTests(argc, argv)) return RUN_ALL_TESTS();
  return RunCheck(
      {.name = "on_purpose",
       .parts = {Tests("good", "Good.*"), Tests("failing", "Failing.*"), Tests("crashing", "Crashing.*"),
                 Tests("hanging", "Hanging.*"), Tests("skipping", "Skipping.*"),
                 Tests("losing", "Losing.*-None.*"), Tests("empty", "None.*")},
       .facts = {{"on", "purpose"}}},
      {argv + 1, argv + argc});
}
