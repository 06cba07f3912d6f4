// What a worker of synchronous replicas does beside its steps (ops/training/sync_replicas.h; the hook of
// tf.train.SyncReplicasOptimizer.make_session_run_hook).
//
// Every worker joins its groups when its session is created, and leaves them when it ends: the others go on
// without it. A thread keeps it there in between, so that its end, however it comes, is noticed.
//
// The chief resets the groups first, because it may have restored an earlier step, and a thread of it runs
// the step that applies what was aggregated. When the chief ends, training ends for all: should_stop()
// becomes true, and what the others contribute until they look is dropped.
#pragma once

#include "session/monitored/hook.h"

namespace weir {

// Every session of a graph with SyncReplicas needs one. FailedPrecondition when the graph has none.
HookPtr SyncReplicasHook(bool is_chief);

}  // namespace weir
