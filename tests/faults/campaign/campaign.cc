// Runs jobs of real processes to which something happens, drawn by seeds, and judges each (fault_run.h,
// README.md).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "distributed/command/flag_parser.h"
#include "tests/faults/campaign/fault_run.h"
#include "tests/faults/campaign/machines.h"

namespace weir {
namespace {

struct Flags {
  int seed = 1;
  int runs = 0;
  double minutes = 0;
  std::string families = "kill,stop,network";
  int jobs = 4;
  std::string programs = ".";
  std::string scratch;
  bool verbose = false;
};

double Percentile(std::vector<double>& values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(part * static_cast<double>(values.size())))];
}

class Campaign {
 public:
  Campaign(const Flags& flags, std::vector<Family> families, std::string scratch)
      : flags_(flags),
        families_(std::move(families)),
        surroundings_(std::filesystem::absolute(flags.programs), std::move(scratch)),
        end_(absl::Now() + absl::Minutes(flags.minutes)) {}

  // The exit code.
  int Run() {
    std::vector<std::thread> threads;
    for (int i = 0; i < flags_.jobs; ++i) {
      threads.emplace_back([this] {
        for (int64_t number; (number = Next()) >= 0;) {
          const Family family = families_[static_cast<size_t>(number) % families_.size()];
          const uint64_t seed =
              static_cast<uint64_t>(flags_.seed) + static_cast<uint64_t>(number) / families_.size();
          const Plan plan = DrawPlan(seed, family);
          Note(plan, RunPlan(plan, surroundings_));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Print();
    absl::MutexLock lock(&mutex_);
    return num_bad_ == 0 ? 0 : 1;
  }

 private:
  int64_t Next() {
    absl::MutexLock lock(&mutex_);
    return num_begun_ < flags_.runs * static_cast<int64_t>(families_.size()) || absl::Now() < end_
               ? num_begun_++
               : -1;
  }

  void Note(const Plan& plan, const Outcome& outcome) {
    absl::MutexLock lock(&mutex_);
    ++num_runs_[NameOf(plan.family)];
    num_hit_ += outcome.was_hit ? 1 : 0;
    if (outcome.detection) detections_.push_back(absl::ToDoubleSeconds(*outcome.detection));
    if (outcome.recovery) recoveries_.push_back(absl::ToDoubleSeconds(*outcome.recovery));
    times_.push_back(absl::ToDoubleSeconds(outcome.time));
    if (outcome.violations.empty()) {
      if (flags_.verbose) {
        std::printf("good %s, %s\n", plan.ToString().c_str(), absl::FormatDuration(outcome.time).c_str());
        std::fflush(stdout);
      }
      return;
    }
    ++num_bad_;
    std::printf("bad  %s, %s%s\n", plan.ToString().c_str(), absl::FormatDuration(outcome.time).c_str(),
                outcome.was_hit ? "" : ", not hit");
    std::map<std::string, bool> classes;
    for (const std::string& violation : outcome.violations) {
      std::printf("  ! %s\n", violation.c_str());
      classes[violation.substr(0, violation.find(':'))] = true;
    }
    for (const auto& [name, is_there] : classes) ++num_bad_of_class_[name];
    std::printf(
        "  logs: %s\n  again: bazel run //tests/faults/campaign -- --families=%s --seed=%d --runs=1\n",
        outcome.directory.c_str(), NameOf(plan.family).c_str(), static_cast<int>(plan.seed));
    std::fflush(stdout);
  }

  void Print() {
    absl::MutexLock lock(&mutex_);
    int total = 0;
    for (const auto& [family, count] : num_runs_) {
      std::printf("%s: %d runs of %d cells\n", family.c_str(), count, NumCells(FamiliesOf(family)->front()));
      total += count;
    }
    std::printf("%d runs, %d hit their victim, %d bad\n", total, num_hit_, num_bad_);
    for (const auto& [name, count] : num_bad_of_class_) std::printf("  %s: %d\n", name.c_str(), count);
    for (auto& [name, values] : {std::make_pair("detection", &detections_),
                                 std::make_pair("recovery", &recoveries_), std::make_pair("run", &times_)}) {
      std::printf("%s: p50 %.2f s, p99 %.2f s (%d measured)\n", name, Percentile(*values, 0.5),
                  Percentile(*values, 0.99), static_cast<int>(values->size()));
    }
  }

  const Flags& flags_;
  const std::vector<Family> families_;
  Surroundings surroundings_;
  const absl::Time end_;
  absl::Mutex mutex_;
  int64_t num_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> num_runs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> num_bad_of_class_ ABSL_GUARDED_BY(mutex_);
  int num_hit_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_bad_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<double> detections_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> recoveries_ ABSL_GUARDED_BY(mutex_);
  std::vector<double> times_ ABSL_GUARDED_BY(mutex_);
};

int Main(int argc, char** argv) {
  Flags flags;
  FlagParser parser("campaign", "[flags]", "Runs jobs of real processes to which something happens.");
  parser.Add("seed", &flags.seed, "the first seed", {.least = 0});
  parser.Add("runs", &flags.runs, "how many seeds of each family", {.least = 0});
  parser.Add("minutes", &flags.minutes, "or how long to go on", {.least = 0});
  parser.Add("families", &flags.families, "of kill, stop, network and machine (which needs root)");
  parser.Add("jobs", &flags.jobs, "how many runs at a time", {.least = 1, .most = 64});
  parser.Add("programs", &flags.programs, "the folder that has distributed/command/weir and the trainers");
  parser.Add("scratch", &flags.scratch, "where runs have their folders; default: a new one in /tmp");
  parser.Add("verbose", &flags.verbose, "name good runs too");
  absl::Status status = parser.Parse({argv + 1, argv + argc});
  absl::StatusOr<std::vector<Family>> families = FamiliesOf(flags.families);
  if (status.ok()) status = families.status();
  if (!status.ok()) {
    std::fprintf(stderr, "campaign: %s\n", std::string(status.message()).c_str());
    return 2;
  }
  if (parser.wants_help()) {
    std::printf("%s", parser.Help().c_str());
    return 0;
  }
  if (absl::StrContains(flags.families, NameOf(Family::kMachine))) {
    if (const absl::Status allowed = Machines::AreAllowed(); !allowed.ok()) {
      std::fprintf(stderr, "campaign: no network namespaces: %s\n", std::string(allowed.message()).c_str());
      return 2;
    }
  }
  std::string scratch = flags.scratch;
  if (scratch.empty()) {
    scratch = "/tmp/weir_campaign_XXXXXX";
    if (mkdtemp(scratch.data()) == nullptr) return 2;
  }
  const int code = Campaign(flags, *families, scratch).Run();
  std::error_code ignored;
  if (code == 0 && flags.scratch.empty()) std::filesystem::remove_all(scratch, ignored);
  return code;
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) { return weir::Main(argc, argv); }
