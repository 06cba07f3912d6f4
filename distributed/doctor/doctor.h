// Looks for what is wrong with a cluster, from the machine of one of its tasks: names, ports, who answers
// there, tokens, versions, clocks, and the disk of the model.
//
// It changes nothing and joins nothing: it may be asked before a job, while it runs, and when it hangs. A
// task that does not run yet is doubtful, not bad. Each question has `timeout`; tasks are asked side by side,
// at most kMaxSideBySide of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/host_name.h"
#include "distributed/security.h"
#include "distributed/task_name.h"
#include "distributed/transport/transport.h"
#include "kernels/cuda/gpu_report.h"

namespace weir {

struct Finding {
  enum class Kind { kGood, kDoubtful, kBad };
  Kind kind = Kind::kGood;
  std::string subject;  // "worker:1", "token"
  std::string text;     // one line
};

struct DoctorOptions {
  ClusterSpec cluster;
  std::optional<TaskName> self;  // the task of this machine
  std::string listen;            // ServerOptions::listen
  SecurityOptions security = SecurityFromEnvironment();
  std::string model_dir;  // empty: not looked at
  absl::Duration timeout = absl::Seconds(5);
  // For tests: instead of the system's names and of gRPC. Borrowed.
  HostLookup lookup;
  Transport* transport = nullptr;
};

inline constexpr int kMaxSideBySide = 16;

// In the order: cluster, token, disk, and the tasks in theirs.
std::vector<Finding> Examine(const DoctorOptions& options);

// What the disk of `directory`, or of its nearest parent that exists, has left; whether it can be written.
Finding ExamineDisk(const std::string& directory);

// This machine's GPUs, which no task uses yet: none is good, too.
std::vector<Finding> ExamineGpus(const GpuReport& report);

}  // namespace weir
