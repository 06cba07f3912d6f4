#include "tests/gpu/gtest_part.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace weir::gpu_check {
namespace {

std::string NameOf(const testing::TestInfo& test) {
  return absl::StrCat(test.test_suite_name(), ".", test.name());
}

// The texts of what went wrong in a test, or why it was skipped.
std::string TextOf(const testing::TestResult& result) {
  std::vector<std::string> texts;
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.passed()) continue;
    texts.emplace_back(part.message());
  }
  return absl::StrJoin(texts, "\n");
}

class Listener final : public testing::EmptyTestEventListener {
 public:
  Listener(const GtestPart& part, Progress& progress) : part_(part), progress_(progress) {}

  void OnTestIterationStart(const testing::UnitTest& tests, int) override {
    for (int i = 0; i < tests.total_test_suite_count(); ++i) {
      const testing::TestSuite& suite = *tests.GetTestSuite(i);
      for (int k = 0; k < suite.total_test_count(); ++k) {
        const testing::TestInfo& test = *suite.GetTestInfo(k);
        if (test.should_run()) progress_.Plan(NameOf(test));
      }
    }
  }

  void OnTestStart(const testing::TestInfo& test) override { progress_.Start(NameOf(test)); }

  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    const std::string text = TextOf(result);
    if (result.Failed()) {
      progress_.End(NameOf(test), Outcome::kFailed, text);
    } else if (!result.Skipped()) {
      progress_.End(NameOf(test), Outcome::kPassed);
    } else if (!part_.left_out_text.empty() && absl::StrContains(text, part_.left_out_text)) {
      progress_.LeaveOut(NameOf(test));
    } else {
      progress_.End(NameOf(test), Outcome::kSkipped, text);
    }
    if (!part_.is_lost()) return;
    std::printf("The device is lost: another process goes on.\n");
    std::fflush(nullptr);
    progress_.GiveUp();
    _exit(0);  // without destructors: they would wait for the device
  }

 private:
  const GtestPart& part_;
  Progress& progress_;
};

}  // namespace

bool InitializeTests(int argc, char** argv) {
  // What it would take for its own: --help.
  std::vector<char*> own = {argv[0]};
  for (int i = 1; i < argc; ++i) {
    if (absl::StartsWith(argv[i], "--gtest_")) own.push_back(argv[i]);
  }
  int count = static_cast<int>(own.size());
  const bool has_flags = count > 1;
  own.push_back(nullptr);
  testing::InitGoogleTest(&count, own.data());
  return has_flags;
}

int RunGtestPart(const GtestPart& part, Progress& progress, const std::vector<std::string>& done) {
  std::string filter = part.filter;
  if (!done.empty()) {
    absl::StrAppend(&filter, absl::StrContains(filter, '-') ? ":" : "-", absl::StrJoin(done, ":"));
  }
  GTEST_FLAG_SET(filter, filter);
  GTEST_FLAG_SET(color, "no");
  testing::UnitTest::GetInstance()->listeners().Append(new Listener(part, progress));
  return RUN_ALL_TESTS();
}

}  // namespace weir::gpu_check
