// What the exit code of a training program tells a launcher, Slurm or Kubernetes.
//
//     0  done
//     1  user or configuration error
//     3  bad data
//     4  diverged (NaN loss)
//     5  superseded: another process has taken this one's place in the cluster
//   143  stopped by SIGTERM. The chief has saved the model as it was then, unless a parameter server was gone
//        before or nothing could be written: then what it saved last counts
//   160  retryable: a peer was lost, the program was cancelled or ran out of time
//
// Codes from 128 on mean that starting again may help.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

inline constexpr int kExitDone = 0;
inline constexpr int kExitUserError = 1;
inline constexpr int kExitBadData = 3;
inline constexpr int kExitDiverged = 4;
inline constexpr int kExitSuperseded = 5;
inline constexpr int kExitTerminated = 143;  // as a shell says of a process that SIGTERM ended
inline constexpr int kExitRetryable = 160;

int ExitCodeFor(const absl::Status& status);

// An error that says the model diverged; ExitCodeFor gives kExitDiverged for it.
absl::Status DivergedError(absl::string_view message);

// An OutOfRange error that says that the program has nothing left to do; ExitCodeFor gives kExitDone for it.
absl::Status TrainingIsOverError(absl::string_view message);

// An error that says that a later process has taken the place of an earlier one, so that nothing the earlier
// one asks for is done any more; ExitCodeFor gives kExitSuperseded for it. FailedPrecondition: a new session
// fails as well. `life` says which process: its task and life.
absl::Status SupersededError(absl::string_view message, absl::string_view life);
bool IsSuperseded(const absl::Status& status);
// Its `life`; empty for another error.
std::string SupersededLife(const absl::Status& status);

// A Cancelled error that says that SIGTERM stopped the program; ExitCodeFor gives kExitTerminated for it.
absl::Status TerminatedError(absl::string_view message);
// The same for an error that came of it, with its own code and message.
absl::Status CausedBySigterm(absl::Status error);

// True when a peer was lost or restarted, so that a new session may succeed where this one failed.
bool IsRecoverable(const absl::Status& status);

}  // namespace weir
