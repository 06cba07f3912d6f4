// Running a graph: a Runtime owns the devices of this process, a LocalWorker runs steps on them, a Session
// compiles a graph for its workers.
#pragma once

#include "graph/interchange/step_stats.h"
#include "graph/rewrite/rewrite_options.h"
#include "session/local_worker.h"
#include "session/partial_run.h"
#include "session/runtime.h"
#include "session/session.h"
#include "session/session_target.h"
#include "session/step.h"
