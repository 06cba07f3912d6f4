// Which process of a cluster: a job and an index in it.
//
// A value; comparable, so that it can be a key. Devices of a task are DeviceNames with the same job and task.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

struct TaskName {
  std::string job;
  int index = 0;

  // "worker:1": in errors, log prefixes and file names.
  std::string ToString() const { return job + ":" + std::to_string(index); }

  // "/job:worker/replica:0/task:1": as the placer writes it.
  std::string ToDevicePrefix() const { return "/job:" + job + "/replica:0/task:" + std::to_string(index); }

  // Both forms above. InvalidArgument quotes what does not parse.
  static absl::StatusOr<TaskName> Parse(absl::string_view text);

  friend bool operator==(const TaskName& a, const TaskName& b) = default;
  friend auto operator<=>(const TaskName& a, const TaskName& b) = default;

  template <typename H>
  friend H AbslHashValue(H h, const TaskName& task) {
    return H::combine(std::move(h), task.job, task.index);
  }
};

}  // namespace weir
