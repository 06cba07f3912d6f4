// What the cluster specs of all tasks of one job must agree on: who is the chief, and which parameter servers
// there are. A task that joins says it (Join); another chief would set the variables of a running job anew,
// and with another number of parameter servers variables are not where the others have them. Addresses may
// differ: another name may stand for the same place, and a port be a forwarded one.
//
// Values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "distributed/cluster_spec.h"
#include "distributed/task_name.h"

namespace weir {

struct JobOutline {
  struct Ps {
    int index = 0;
    std::string address;
  };

  TaskName chief;  // without a job: not said
  std::vector<Ps> ps;
};

JobOutline OutlineOf(const ClusterSpec& cluster);

// InvalidArgument, with both values, when the task says another chief or other parameter servers than `self`
// has. OK of a task that says nothing.
absl::Status CheckOutline(const TaskName& task, const JobOutline& said, const TaskName& self,
                          const ClusterSpec& cluster);
// "ps:1 at b:2222, while that of ps:0 has it at c:2222"; several by "; ". Of parameter servers that both
// have.
std::string DescribeOtherAddresses(const JobOutline& said, const TaskName& self, const ClusterSpec& cluster);

}  // namespace weir
