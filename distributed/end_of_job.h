// When a job has ended, from the point of view of one task (membership.h has the rules), and whom it waits
// for until then.
//
// Nobody waits for a guest that is not there. Where guests may come, a task of the cluster spec that has not
// come in time is waited for no longer either (places.h): it may have trained and left before the authority
// was started again.
//
// Pure functions. Called with the lock of Membership.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "distributed/guests.h"
#include "distributed/known_task.h"
#include "distributed/task_name.h"

namespace weir {

struct EndOfJob {
  const KnownTasks& tasks;
  const Guests& guests;
  const TaskName& chief;
  absl::Duration chief_grace;
  absl::Time now;
  bool is_settled = false;        // the newest view
  bool awaits_all_seeds = false;  // those too that have not come
  absl::Duration lease;
  // Of a ps where no other task may become the authority: since when it is lost.
  absl::Time authority_lost_since = absl::InfiniteFuture();

  bool HasEnded() const;
  // Training tasks that are alive, are not silent, and have not said that they leave, in order.
  std::vector<TaskName> RunningTasks() const;
  // Membership::DescribeAwaitedChief.
  std::string DescribeAwaitedChief() const;

 private:
  // That has not come, or has said that it goes: nobody waits for it.
  bool IsAbsent(const TaskName& task, const KnownTask& known) const;
  // Whether it has not been heard for long, and is alive only in the last view of an authority that is gone.
  bool IsSilent(const KnownTask& known) const;
  // When a lost chief, the only one that is awaited, is given up; the infinite past when there is none.
  absl::Time ChiefGivenUpAt() const;
};

}  // namespace weir
