// Parts of a check, each in processes of its own: a crash, a hang or a lost device costs the test that was
// running, and the others are run by another process.
//
// A process says over a pipe which tests it is going to run, and how each of them ends; what it prints goes
// to a log. Precondition of RunPart: the calling process has one thread, and has not touched a GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace weir::gpu_check {

enum class Outcome { kPassed, kFailed, kSkipped };

struct TestResult {
  std::string test;
  Outcome outcome = Outcome::kPassed;
  std::string text;  // why
};

// The end of the pipe that a part's process writes to.
class Progress {
 public:
  explicit Progress(int descriptor) : descriptor_(descriptor) {}

  void Plan(absl::string_view test) { Say("plan", test, ""); }
  void Start(absl::string_view test) { Say("start", test, ""); }
  void End(absl::string_view test, Outcome outcome, absl::string_view text = "");
  // It was planned, and is none of the tests after all.
  void LeaveOut(absl::string_view test) { Say("leave_out", test, ""); }
  // The process is of no use any more and ends: the tests that are left want another one.
  void GiveUp() { Say("give_up", "", ""); }

 private:
  void Say(absl::string_view word, absl::string_view test, absl::string_view text);

  const int descriptor_;
};

struct Part {
  std::string name;
  absl::Duration limit = absl::Minutes(5);           // of all its processes together
  absl::Duration limit_of_test = absl::Seconds(60);  // a test that takes longer hangs
  // In a process of the part: runs its tests, but for those in `done`. Returns the exit code, which says
  // nothing that was not said to `progress`.
  std::function<int(Progress& progress, const std::vector<std::string>& done)> run;
};

struct PartResult {
  std::string part;
  std::vector<TestResult> tests;
  std::vector<std::string> metrics;  // lines of JSON that it printed
  absl::Duration took;
  int num_processes = 0;

  int Count(Outcome outcome) const;
};

// Ends by the limit, or the deadline if that is earlier: tests that were not run by then are skipped, and the
// one that was running has failed, unless it is the deadline that came. Everything that its processes started
// is killed; one that cannot be, as within a driver, is left after 20 s, and the part's other tests fail.
PartResult RunPart(const Part& part, absl::Time deadline, const std::string& log_file);

}  // namespace weir::gpu_check
