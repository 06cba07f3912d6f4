// What a server says about itself to whoever has the job's token: who it is, since when, which version, what
// its clock shows, and which cluster spec it was started with. `weir doctor` asks.
//
// A method of its own, without the envelope of worker_protocol.h: who asks need not be a task, and asking is
// no sign of life. Decoding is safe against hostile bytes: InvalidArgument, nothing else.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/membership.h"
#include "distributed/task_name.h"

namespace weir {

inline constexpr char kTaskStatusMethod[] = "/weir.Server/Status";

struct TaskStatus {
  TaskName task;
  Incarnation incarnation = 0;
  std::string version;
  absl::Time clock;     // microseconds
  std::string cluster;  // what it was told of the others: ClusterSpec::ToFlag
};

std::string EncodeTaskStatus(const TaskStatus& status);
absl::StatusOr<TaskStatus> DecodeTaskStatus(absl::string_view bytes);

}  // namespace weir
