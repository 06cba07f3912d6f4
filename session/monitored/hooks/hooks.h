// All hooks: include this to train.
#pragma once

#include "session/monitored/hooks/checkpoint_saver_hook.h"
#include "session/monitored/hooks/feed_fn_hook.h"
#include "session/monitored/hooks/final_ops_hook.h"
#include "session/monitored/hooks/global_step_waiter_hook.h"
#include "session/monitored/hooks/logging_tensor_hook.h"
#include "session/monitored/hooks/nan_tensor_hook.h"
#include "session/monitored/hooks/profiler_hook.h"
#include "session/monitored/hooks/progress_hook.h"
#include "session/monitored/hooks/step_counter_hook.h"
#include "session/monitored/hooks/stop_after_evals_hook.h"
#include "session/monitored/hooks/stop_at_step_hook.h"
#include "session/monitored/hooks/summary_saver_hook.h"
#include "session/monitored/hooks/sync_replicas_hook.h"
