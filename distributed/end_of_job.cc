#include "distributed/end_of_job.h"

#include "absl/strings/str_cat.h"
#include "distributed/task_config.h"

namespace weir {

using State = MemberState;

bool EndOfJob::IsAbsent(const TaskName& task, const KnownTask& known) const {
  if (guests.IsGuest(task)) return known.state == State::kUnknown || known.is_leaving;
  return known.state == State::kUnknown && !awaits_all_seeds && task != chief;
}

bool EndOfJob::IsSilent(const KnownTask& known) const {
  return authority_lost_since + lease <= now && known.lease_end + lease <= now;
}

bool EndOfJob::HasEnded() const {
  bool somebody_done = false, ps_knows = false;
  for (const auto& [task, known] : tasks) {
    // It says so when it knows that training has ended.
    if (!IsTrainingJob(task.job)) ps_knows = ps_knows || (task.job == "ps" && known.HasSaidDone());
    if (!IsTrainingJob(task.job)) continue;
    if (IsAbsent(task, known)) continue;
    // The chief alone saves what was learned.
    const bool is_over = task != chief && IsSilent(known);
    if (known.state == State::kUnknown || (known.state == State::kAlive && !is_over)) return false;
    // Others say so: it may still come while the authority gathers.
    if (known.state == State::kDone && known.incarnation == 0 && !is_settled) return false;
    somebody_done = somebody_done || known.state == State::kDone;
  }
  return ps_knows || (somebody_done && ChiefGivenUpAt() <= now);
}

absl::Time EndOfJob::ChiefGivenUpAt() const {
  const auto found = tasks.find(chief);
  if (found == tasks.end() || found->second.state != State::kLost) return absl::InfinitePast();
  return found->second.lost_since + chief_grace;
}

std::string EndOfJob::DescribeAwaitedChief() const {
  const absl::Time given_up = ChiefGivenUpAt();
  bool somebody_done = false;
  for (const auto& [task, known] : tasks) {
    if (!IsTrainingJob(task.job) || task == chief) continue;
    if (IsAbsent(task, known)) continue;
    if (known.state == State::kAlive || known.state == State::kUnknown) return "";
    somebody_done = somebody_done || known.state == State::kDone;
  }
  if (!somebody_done || given_up == absl::InfinitePast()) return "";
  const auto seconds = [](absl::Duration time) {
    return absl::FormatDuration(absl::Trunc(time, absl::Seconds(1)));
  };
  return absl::StrCat(chief.ToString(), ", the chief, lost ", seconds(now - (given_up - chief_grace)),
                      " ago (it is given up in ", seconds(given_up - now), ")");
}

std::vector<TaskName> EndOfJob::RunningTasks() const {
  std::vector<TaskName> running;
  for (const auto& [task, known] : tasks) {
    const bool runs = known.state == State::kAlive && !known.is_leaving && !IsSilent(known);
    if (IsTrainingJob(task.job) && runs) running.push_back(task);
  }
  return running;
}

}  // namespace weir
