#include "tests/gpu/part_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace weir::gpu_check {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Done = std::vector<std::string>;
// What a test of a part does; true when it has passed.
using Body = std::function<bool()>;

// A part whose tests are these, one after the other.
Part PartOf(std::vector<std::pair<std::string, Body>> tests) {
  return {.name = "part", .run = [tests = std::move(tests)](Progress& progress, const Done& done) {
            const auto is_done = [&](const std::string& test) {
              return std::find(done.begin(), done.end(), test) != done.end();
            };
            for (const auto& [test, body] : tests) {
              if (!is_done(test)) progress.Plan(test);
            }
            bool all = true;
            for (const auto& [test, body] : tests) {
              if (is_done(test)) continue;
              progress.Start(test);
              const bool has_passed = body();
              all = all && has_passed;
              progress.End(test, has_passed ? Outcome::kPassed : Outcome::kFailed,
                           has_passed ? "" : "no\tgood\n");
            }
            return all ? 0 : 1;
          }};
}

const Body kPasses = [] { return true; }, kFails = [] { return false; };
const Body kHangs = [] {
  absl::SleepFor(absl::Hours(1));
  return true;
};
const Body kCrashes = [] {
  std::signal(SIGSEGV, SIG_DFL);
  return std::raise(SIGSEGV) == 0;
};

std::string LogFile() { return absl::StrCat(testing::TempDir(), "/part.log"); }

PartResult RunNow(const Part& part, absl::Time deadline = absl::InfiniteFuture()) {
  std::remove(LogFile().c_str());
  return RunPart(part, deadline, LogFile());
}

// "first passed", "second failed: why".
std::vector<std::string> TextsOf(const PartResult& result) {
  std::vector<std::string> texts;
  for (const TestResult& test : result.tests) {
    const char* const word = test.outcome == Outcome::kPassed    ? " passed"
                             : test.outcome == Outcome::kSkipped ? " skipped"
                                                                 : " failed";
    texts.push_back(absl::StrCat(test.test, word, test.text.empty() ? "" : ": ", test.text));
  }
  return texts;
}

TEST(PartRunner, CountsWhatPassesAndWhatFails) {
  const PartResult result = RunNow(PartOf({{"a", kPasses}, {"b", kFails}, {"c", kPasses}}));
  EXPECT_THAT(TextsOf(result), ElementsAre("a passed", "b failed: no\tgood\n", "c passed"));
  EXPECT_EQ(result.num_processes, 1);
  EXPECT_EQ(result.Count(Outcome::kPassed), 2);
  EXPECT_EQ(result.Count(Outcome::kFailed), 1);
}

TEST(PartRunner, ACrashIsAFailureOfItsTestAndTheOthersRun) {
  const PartResult result =
      RunNow(PartOf({{"a", kPasses}, {"b", kCrashes}, {"c", kPasses}, {"d", kCrashes}}));
  EXPECT_THAT(TextsOf(result),
              ElementsAre("a passed", HasSubstr("b failed: its process was killed by signal 11 ("),
                          "c passed", HasSubstr("d failed: its process was killed by signal 11 (")));
  EXPECT_EQ(result.num_processes, 2);
}

TEST(PartRunner, SoIsAProcessThatEnds) {
  const Body exits = [] {
    std::_Exit(0);
    return true;
  };
  const PartResult result = RunNow(PartOf({{"a", exits}, {"b", kPasses}}));
  EXPECT_THAT(TextsOf(result), ElementsAre("a failed: its process ended with exit code 0", "b passed"));
}

TEST(PartRunner, ATestThatHangsIsKilledAndTheOthersRun) {
  Part part = PartOf({{"a", kHangs}, {"b", kPasses}});
  part.limit_of_test = absl::Milliseconds(300);
  EXPECT_THAT(TextsOf(RunNow(part)), ElementsAre("a failed: it took longer than 300ms", "b passed"));
}

TEST(PartRunner, AfterItsTimeTheTestThatRunsHasFailedAndTheOthersAreSkipped) {
  Part part = PartOf({{"a", kPasses}, {"b", kHangs}, {"c", kPasses}});
  part.limit = absl::Milliseconds(500);
  EXPECT_THAT(TextsOf(RunNow(part)), ElementsAre("a passed", "b failed: the time of its part was over",
                                                 "c skipped: the time of its part was over"));
  part.limit = absl::Hours(1);
  EXPECT_THAT(TextsOf(RunNow(part, absl::Now() + absl::Milliseconds(500))),
              ElementsAre("a passed", "b skipped: the minutes were over", HasSubstr("c skipped")))
      << "that the minutes of the check are over is nobody's fault";
}

TEST(PartRunner, ALostDeviceTakesAnotherProcess) {
  Part part{.name = "part", .run = [](Progress& progress, const Done& done) {
              for (const char* const test : {"a", "b"}) {
                if (done.empty() || test[0] == 'b') progress.Plan(test);
              }
              const char* const test = done.empty() ? "a" : "b";
              progress.Start(test);
              progress.End(test, Outcome::kPassed);
              progress.GiveUp();
              _exit(0);
              return 0;
            }};
  const PartResult result = RunNow(part);
  EXPECT_THAT(TextsOf(result), ElementsAre("a passed", "b passed"));
  EXPECT_EQ(result.num_processes, 2);
}

TEST(PartRunner, WhatDoesNotEvenStartHasFailed) {
  for (const bool crashes : {false, true}) {
    const Part part{.name = "part", .run = [crashes](Progress&, const Done&) {
                      if (crashes) std::abort();
                      return 7;
                    }};
    EXPECT_THAT(TextsOf(RunNow(part)), ElementsAre(HasSubstr("(process 1) failed: its process ")));
  }
}

// Between two tests, or after the last one.
TEST(PartRunner, ACrashOutsideOfTestsIsAFailureToo) {
  const Part part{.name = "part", .run = [](Progress& progress, const Done&) {
                    progress.Plan("a");
                    progress.Start("a");
                    progress.End("a", Outcome::kPassed);
                    std::abort();
                    return 0;
                  }};
  EXPECT_THAT(TextsOf(RunNow(part)),
              ElementsAre("a passed", HasSubstr("(process 1) failed: its process was killed by signal 6")));
}

// It has planned something and begins nothing: another process would do the same.
TEST(PartRunner, AProcessThatRunsNothingIsNotStartedAgain) {
  const Part part{.name = "part", .run = [](Progress& progress, const Done&) {
                    progress.Plan("a");
                    return 3;
                  }};
  const PartResult result = RunNow(part);
  EXPECT_THAT(TextsOf(result), ElementsAre("a failed: it was not run: its process ended with exit code 3"));
  EXPECT_EQ(result.num_processes, 1);
}

TEST(PartRunner, WhatIsLeftOutDoesNotCount) {
  const Part part{.name = "part", .run = [](Progress& progress, const Done&) {
                    progress.Plan("a");
                    progress.Start("a");
                    progress.LeaveOut("a");
                    return 0;
                  }};
  EXPECT_THAT(TextsOf(RunNow(part)), IsEmpty());
}

TEST(PartRunner, WhatItPrintsIsInTheLogAndMetricsAreFoundThere) {
  const Body prints = [] {
    std::printf("something\n{\"peer\": \"weir\", \"metric\": \"x\", \"value\": 1}\n");
    std::fprintf(stderr, "else\n");
    return true;
  };
  const PartResult result = RunNow(PartOf({{"a", prints}}));
  EXPECT_THAT(result.metrics, ElementsAre("{\"peer\": \"weir\", \"metric\": \"x\", \"value\": 1}"));
  std::ifstream log(LogFile());
  const std::string text((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("something\n"));
  EXPECT_THAT(text, HasSubstr("else\n"));
}

// A process of a test's own that would hold a pipe, or a GPU, for ever.
TEST(PartRunner, NothingThatWasStartedIsLeft) {
  const std::string note = absl::StrCat(testing::TempDir(), "/child");
  const Body starts = [note] {
    const pid_t child = fork();
    if (child == 0) {
      absl::SleepFor(absl::Hours(1));
      _exit(0);
    }
    std::ofstream(note) << child;
    return true;
  };
  EXPECT_THAT(TextsOf(RunNow(PartOf({{"a", starts}}))), ElementsAre("a passed"));
  pid_t child = 0;
  std::ifstream(note) >> child;
  ASSERT_GT(child, 0);
  // Whoever is init here may take a while to see that it is over.
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  const auto is_alive = [child] {
    std::ifstream stat(absl::StrCat("/proc/", child, "/stat"));
    std::string number, name, state;
    return static_cast<bool>(stat >> number >> name >> state) && state != "Z";
  };
  while (is_alive() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_FALSE(is_alive());
}

}  // namespace
}  // namespace weir::gpu_check
