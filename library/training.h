// Training sessions: MonitoredTrainingSession, its hooks, Scaffold and Saver, Coordinator for threads that
// stop together, evaluation of checkpoints, the exit codes of a training program, and SavedModels.
#pragma once

#include "session/monitored/checkpoint_initializers.h"
#include "session/monitored/checkpoint_iterator.h"
#include "session/monitored/coordinator.h"
#include "session/monitored/evaluation.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/hook.h"
#include "session/monitored/hooks/chrome_trace.h"
#include "session/monitored/hooks/hooks.h"
#include "session/monitored/monitored_session.h"
#include "session/monitored/queue_runner.h"
#include "session/monitored/saved_model.h"
#include "session/monitored/saver.h"
#include "session/monitored/scaffold.h"
#include "session/monitored/session_creator.h"
#include "session/monitored/training_session.h"
