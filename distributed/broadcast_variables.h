// The hook that gives all ranks of a group the variables of one, and forms the group anew when a rank was
// lost.
//
// What it does about faults is in horovod.h. Variables that are mirrored on several devices of a process
// (ops/mirrored_variables.h) are set on all of them.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "distributed/collectives/collective_group.h"
#include "distributed/server.h"
#include "kernels/environment.h"
#include "session/monitored/hook.h"

namespace weir {

// Waits until every rank has asked for it. FailedPrecondition where the server's task is no replica of a
// model: its cluster has parameter servers, or it evaluates. Other errors: those of CollectiveGroup::Form.
absl::Status FormReplicas(Server& server, absl::Duration timeout);

// Where a rank is several devices.
struct RankDevices {
  int num_devices = 1;    // that have copies of the variables
  int64_t group_key = 0;  // of the collectives between them and those of other ranks; 0: there are none
};

// `timeout`: how long the ranks wait for one another when the group is formed anew. A session is refused with
// InvalidArgument where another rank has more or fewer devices, or other collectives. Borrows group and
// environment.
HookPtr BroadcastVariablesHook(CollectiveGroup& group, Environment& environment, absl::Duration timeout,
                               const RankDevices& devices = {});

}  // namespace weir
