// What a task knows of another task of its cluster (membership.h). Values.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "distributed/life.h"
#include "distributed/task_name.h"
#include "distributed/view.h"

namespace weir {

struct KnownTask {
  MemberState state = MemberState::kUnknown;
  bool is_hearsay = false;  // it is done, as only others say: it is alive when it is heard
  bool is_leaving = false;
  Incarnation incarnation = 0;
  absl::Time heard = absl::InfinitePast();
  absl::Time lease_end;
  absl::Time lost_since;  // also: has left
  absl::Time place_until =
      absl::InfinitePast();       // of the authority: kept for a guest that was granted a life
  std::string why;                // it is lost
  std::string failure;            // what it has said when it left
  uint64_t changed = 0;           // of the authority: in which view
  Incarnation alive_in_view = 0;  // of the others: the authority whose view lists this life as alive
  Incarnation reported_done = 0;  // of the authority: the life that others say was done, while it gathered
  absl::Time reported_at = absl::InfinitePast();

  // Nothing that is heard of that life changes it any more.
  bool HasSaidDone() const { return state == MemberState::kDone && !is_hearsay; }
};

using KnownTasks = std::map<TaskName, KnownTask>;

}  // namespace weir
