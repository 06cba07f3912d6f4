#include "distributed/places.h"

#include "absl/strings/str_cat.h"
#include "distributed/task_config.h"

namespace weir {
namespace {

// In leases. It says itself that it is there, if it is: every fifth of a lease.
constexpr int kLookedForFor = 3;

}  // namespace

absl::Status Places::Check(const TaskName& task, bool counts_absent) const {
  int num_taken = 0, num_absent = 0;
  for (const auto& [other, known] : tasks) {
    if (other == task || !IsTrainingJob(other.job)) continue;
    const bool may_come =
        (starts && guests.IsSeed(other) && known.state == MemberState::kUnknown) || known.place_until > now;
    const bool is_there = known.state == MemberState::kAlive && !known.is_leaving;
    num_taken += is_there ? 1 : 0;
    num_absent += !is_there && may_come && counts_absent ? 1 : 0;
  }
  if (num_taken + num_absent < max_workers) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the job has ", num_taken + num_absent, " tasks that train",
                   num_absent > 0 ? ", or may still come," : ",", " and may have ", max_workers,
                   " (WEIR_MAX_WORKERS): ", task.ToString(), " waits for one of them to end"));
}

absl::Status Places::CheckAddress(const TaskName& task, absl::string_view address) const {
  const TaskName* const other = guests.FindAt(address);
  if (other == nullptr || *other == task) return absl::OkStatus();
  const auto known = tasks.find(*other);
  if (known == tasks.end() || known->second.state != MemberState::kAlive || known->second.is_leaving) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(task.ToString(), " joins from ", address, ", where ", other->ToString(), " is"));
}

const TaskName* Places::FindEndedGuest() const {
  const TaskName* first = nullptr;
  absl::Time since = absl::InfiniteFuture();
  for (const auto& [task, known] : tasks) {
    const bool never_came = known.state == MemberState::kUnknown && known.incarnation == 0;
    const bool has_ended = known.place_until <= now && (never_came || IsGoneForGood(known, lease, now));
    if (!guests.IsGuest(task) || guests.IsSeed(task) || !has_ended || known.heard >= since) continue;
    first = &task;
    since = known.heard;
  }
  return first;
}

bool IsGoneForGood(const KnownTask& guest, absl::Duration lease, absl::Time now) {
  switch (guest.state) {
    case MemberState::kUnknown:
    case MemberState::kAlive:
      return false;
    case MemberState::kDone:
    case MemberState::kLeft:
      return true;
    case MemberState::kLost:
      return now - guest.lost_since > kLookedForFor * lease;
  }
  return false;
}

}  // namespace weir
