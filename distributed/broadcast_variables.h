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

// `timeout`: how long the ranks wait for one another when the group is formed anew. `num_devices`: of this
// process that have copies of the variables; a session is refused with InvalidArgument where another rank has
// more or fewer. Borrows both.
HookPtr BroadcastVariablesHook(CollectiveGroup& group, Environment& environment, absl::Duration timeout,
                               int num_devices = 1);

}  // namespace weir
