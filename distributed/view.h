// Who of the cluster lives, as the authority says: a view, and the order of views.
//
// Views are totally ordered by the life of the authority that issued them, then by their number, which grows
// with every change. A message carries what has changed since a view that its receiver has: the whole one
// when `since` is 0. A member that was never heard of is in no view, except a guest that was let in.
//
// For its first lease an authority only gathers: it knows nothing of those who have not asked it yet, and its
// views are not settled. Whoever is missing in a settled view does not live.
//
// The chief of a view is the member that ChiefOf(cluster) names. Pure values.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "distributed/life.h"
#include "distributed/task_name.h"

namespace weir {

// Left: told to stop before it was done, it has said so and has not been heard for a lease.
enum class MemberState { kUnknown, kAlive, kDone, kLost, kLeft };

struct ViewNumber {
  Incarnation authority = 0;  // 0: no view at all
  uint64_t number = 0;

  auto operator<=>(const ViewNumber&) const = default;
};

struct Member {
  TaskName task;
  Incarnation life = 0;
  MemberState state = MemberState::kUnknown;
  bool is_leaving = false;
  std::string why;      // of one that is lost; of one that is done, if only others say so: that they do
  std::string address;  // of a guest (guests.h) that is there; the cluster spec has those of the others
};

struct View {
  ViewNumber number;
  uint64_t since = 0;  // of the same authority: what has changed after that view
  bool is_settled = false;
  // The newest view in which somebody was lost or a guest came, or the last one of all. Whoever has an older
  // one asks for it at once; other changes may wait for the next heartbeat.
  uint64_t last_loss = 0;
  std::vector<Member> members;
};

}  // namespace weir
