// Who may train in a job that guests join (guests.h): so many training tasks have a place, those of the
// cluster spec among them.
//
// A training task has a place while it is alive and has not said that it leaves. A guest that was granted a
// life has one for a lease, in which it shows that life. A task of the cluster spec that has not come keeps
// one while it may still be starting, for kStart; then it is let in all the same, but guests may have taken
// its place meanwhile. Whoever holds a life has a place: it had one when it was granted that life.
//
// Pure functions. Called with the lock of Membership.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/guests.h"
#include "distributed/known_task.h"
#include "distributed/task_name.h"

namespace weir {

struct Places {
  // How long after the authority was started a task of the cluster spec may take to come.
  static constexpr absl::Duration kStart = absl::Minutes(1);

  const KnownTasks& tasks;
  const Guests& guests;
  int max_workers = 0;
  absl::Duration lease;
  absl::Time now;
  bool starts = false;  // tasks of the cluster spec that have not come may be starting

  // Whether one more training task may have a place; `counts_absent`: tasks that may still come have theirs.
  // ResourceExhausted.
  absl::Status Check(const TaskName& task, bool counts_absent) const;
  // InvalidArgument when another guest is where this one says that it is.
  absl::Status CheckAddress(const TaskName& task, absl::string_view address) const;
  // The guest that has ended first, whose name may be given away; null when each of them may still come back.
  const TaskName* FindEndedGuest() const;
};

// Whether nobody is to be looked for where this guest was: it has left, or was lost so long ago that somebody
// else may be there.
bool IsGoneForGood(const KnownTask& guest, absl::Duration lease, absl::Time now);

}  // namespace weir
