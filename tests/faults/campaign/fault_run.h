// One job of real processes to which a plan happens, and what must hold of every such job.
//
// What must hold (each violation begins with its class):
//   exit        every process ends by itself with the code that it should have, or of a signal that it was
//   sent crash       nobody prints that a check failed, an exception was thrown or memory was misused bound
//   the job ends in time (Bound) silence     who waits says for whom, at least every ten seconds result
//   asynchronous: the counter, the sum of all tasks' counts and the global step are one number, and
//               nobody's count skips or repeats a number without a restore; synchronous and replicas: the
//               bits of a run without faults
//   durability  what is restored is not older than the newest checkpoint at the time of the fault
//   naming      only who was hurt is said to be lost, and an error that ends a process names it
//   leftover    no process (and so no port), no temporary file, no part of a checkpoint
//
// Thread safety: one thread for a run; several runs may go on in one process.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/faults/campaign/plan.h"

namespace weir {

// What runs share.
class Surroundings {
 public:
  // `programs`: the folder that has distributed/command/weir and tests/faults/*_trainer; `scratch`: where
  // runs have their folders.
  Surroundings(std::string programs, std::string scratch)
      : programs_(std::move(programs)), scratch_(std::move(scratch)) {}

  const std::string& programs() const { return programs_; }
  const std::string& scratch() const { return scratch_; }

  // What the chief of a synchronous job of so many workers prints at its end when nothing befalls it, and is
  // found by running it once.
  std::string ExpectedFinish(int num_workers, int last_step);

 private:
  const std::string programs_;
  const std::string scratch_;
  absl::Mutex expected_mutex_;
  std::map<int, std::string> expected_ ABSL_GUARDED_BY(expected_mutex_);
};

struct Outcome {
  std::vector<std::string> violations;
  absl::Duration time;
  // From the fault until another process said something of the victim.
  std::optional<absl::Duration> detection;
  // From the fault's end (the new process, or the victim's wake-up) until the next step.
  std::optional<absl::Duration> recovery;
  bool was_hit = false;   // false: the victim had ended before the plan could befall it
  std::string directory;  // kept when there are violations
};

// How long the job may take. Without faults it takes below 3 s on an idle machine; five times that on a
// loaded one, what reliability asks of recovery (15 s), leases, and what the plan itself takes; all of it at
// the plan's pace.
absl::Duration Bound(const Plan& plan);

Outcome RunPlan(const Plan& plan, Surroundings& surroundings);

}  // namespace weir
