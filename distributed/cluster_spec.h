// The tasks of a cluster and the addresses they serve at.
//
// A value: built once from a flag, from TF_CONFIG or task by task, then only read (safe from many threads).
// Jobs keep the order of their names, tasks the order of their indices; the indices of a job may have gaps
// (TensorFlow's sparse form: a worker that knows only some of its peers).
//
// Addresses are "host:port" or "[ipv6]:port". Port 0 stands for "any free port" and is of use only for the
// task that binds it. No two tasks share an address.
//
// Formats: TensorFlow's --cluster_spec flag (jobs by commas, tasks by semicolons) and the "cluster" object of
// TF_CONFIG. Every error is InvalidArgument and names the task and the field.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distributed/task_name.h"

namespace weir {

class ClusterSpec {
 public:
  ClusterSpec() = default;  // no tasks

  // "ps|host:2222,worker|host:2223;host:2224". A task may give its index, "worker|1=host:2223", so that
  // ToFlag can write sparse jobs too.
  static absl::StatusOr<ClusterSpec> FromFlag(absl::string_view text);

  // {"ps": ["host:2222"], "worker": {"1": "host:2223"}}: dense jobs are lists, sparse jobs are
  // objects.
  static absl::StatusOr<ClusterSpec> FromJson(absl::string_view text);

  // InvalidArgument for a job name or an address that does not parse, a negative index, a task that is
  // already there, an address that another task has.
  absl::Status AddTask(const TaskName& task, absl::string_view address);

  // Replaces the address of a task; NotFound when the task is not there. For a server that bound port 0.
  absl::Status SetAddress(const TaskName& task, absl::string_view address);

  bool is_empty() const { return tasks_.empty(); }
  bool HasJob(absl::string_view job) const { return num_tasks(job) > 0; }
  int num_tasks(absl::string_view job) const;
  std::vector<std::string> jobs() const;
  std::vector<TaskName> tasks() const;
  std::vector<TaskName> tasks(absl::string_view job) const;

  // NotFound names the task and the tasks that exist.
  absl::StatusOr<std::string> address(const TaskName& task) const;

  // The inverse of FromFlag, and the value of TF_CONFIG's "cluster".
  std::string ToFlag() const;
  std::string ToJson() const;

  friend bool operator==(const ClusterSpec& a, const ClusterSpec& b) = default;

 private:
  std::map<TaskName, std::string> tasks_;
};

// "host:port" taken apart. InvalidArgument when the text is not of that form or the port is above 65535.
struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;

  static absl::StatusOr<HostPort> Parse(absl::string_view text);
  std::string ToString() const;
};

}  // namespace weir
