// Whether a job that a plan befell went as it must (fault_run.h). Pure, but for looking at files, processes
// and ports.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/faults/campaign/cluster.h"
#include "tests/faults/campaign/plan.h"

namespace weir {

// A time in which a thread that only sleeps was not given a processor.
struct Standstill {
  absl::Time begin, end;
};

// What was seen while it happened.
struct History {
  absl::Time fault;              // the first
  absl::Time healed;             // the victim was started again, woke up, or its links were well again
  int checkpoint_at_fault = -1;  // the newest
  bool ended_in_time = false;
  bool was_hit = false;
  bool victim_is_gone_for_good = false;
  std::vector<pid_t> pids;  // of all tasks that a launcher has started
  std::vector<Standstill> standstills;
};

std::vector<std::string> Judge(const Plan& plan, const History& history, Cluster& cluster,
                               const std::string& expected_finish);

}  // namespace weir
