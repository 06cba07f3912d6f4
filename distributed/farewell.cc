#include "distributed/farewell.h"

#include <algorithm>
#include <set>

#include "absl/synchronization/mutex.h"
#include "distributed/membership.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/wire.h"

namespace weir {
namespace {

// To a task that may have left before.
constexpr absl::Duration kRetryFor = absl::Milliseconds(200);
// One round of calls; later ones last longer, for those that are slow.
constexpr absl::Duration kFirstRound = absl::Seconds(1);
constexpr absl::Duration kPause = absl::Milliseconds(100);

}  // namespace

void Farewell::SayDone(absl::Duration patience) const {
  const absl::Time end = peers_.environment().Now() + patience;
  Say(kJobDoneMethod, "", Listeners(/*is_done=*/true), end, end + peers_.membership().lease());
}

void Farewell::SayLeave(absl::Duration patience, absl::string_view failure) const {
  const absl::Time end = peers_.environment().Now() + patience;
  WireWriter body;
  body.String(failure.substr(0, Membership::kMaxFailureText));
  Say(kLeaveMethod, body.Take(), Listeners(/*is_done=*/false), end, end);
}

std::vector<TaskName> Farewell::Listeners(bool is_done) const {
  std::vector<TaskName> told;
  if (IsTrainingJob(task_.job())) told = task_.cluster().tasks("ps");
  const Membership& membership = peers_.membership();
  const TaskName authority = membership.authority();
  // It may have left before, in good order or not.
  const bool is_there = membership.state(authority) == Membership::State::kAlive;
  if (told.empty() && is_there && !membership.is_authority()) told = {authority};
  if (!is_done || !task_.is_chief() || !task_.cluster().HasJob("ps")) return told;
  // They are to know that the chief is done also when they are cut off from the authority, or it dies: nobody
  // restores then what is lost with a ps.
  const std::vector<TaskName> seeds = task_.cluster().tasks();
  std::set<TaskName> others(seeds.begin(), seeds.end());
  for (const TaskName& guest : peers_.membership().RunningTasks()) others.insert(guest);
  others.erase(task_.task());
  for (const TaskName& task : others) {
    if (IsTrainingJob(task.job)) told.push_back(task);
  }
  return told;
}

void Farewell::Tell(const std::vector<TaskName>& tasks, const char* method, const std::string& body,
                    absl::Time deadline, Told* told) const {
  absl::Mutex mutex;
  size_t num_left = tasks.size();
  std::vector<absl::StatusOr<Incarnation>> answers(tasks.size());
  for (size_t i = 0; i < tasks.size(); ++i) {
    PeerCallOptions options{.deadline = deadline, .any_life = true};
    if (tasks[i].job != "ps" || task_.job() == "ps") options.retry_for = kRetryFor;
    peers_.Call(tasks[i], method, body, {}, options,
                [&mutex, &num_left, &answer = answers[i]](const absl::StatusOr<PeerReply>& reply) {
                  absl::MutexLock lock(&mutex);
                  answer = reply.ok() ? absl::StatusOr<Incarnation>(reply->life) : reply.status();
                  --num_left;
                });
  }
  absl::MutexLock lock(&mutex);
  peers_.environment().Await(mutex, absl::Condition(
                                        +[](size_t* left) { return *left == 0; }, &num_left));
  const Membership& membership = peers_.membership();
  for (size_t i = 0; i < tasks.size(); ++i) {
    const absl::Status& status = answers[i].status();
    // Nobody is there where the connection was refused, but at the authority's it is asked why (probes.h).
    const bool is_authority = tasks[i] == membership.authority();
    if (absl::IsDeadlineExceeded(status) || (is_authority && absl::IsUnavailable(status))) continue;
    (*told)[tasks[i]] = answers[i].ok() ? *answers[i] : membership.incarnation_of(tasks[i]);
  }
}

std::vector<TaskName> Farewell::Untold(const std::vector<TaskName>& tasks, const Told& told) const {
  std::vector<TaskName> untold;
  for (const TaskName& task : tasks) {
    const auto found = told.find(task);
    const bool is_new =
        task.job == "ps" && found != told.end() && peers_.membership().incarnation_of(task) > found->second;
    if (found == told.end() || is_new) untold.push_back(task);
  }
  return untold;
}

bool Farewell::MayHear(const std::vector<TaskName>& untold) const {
  const Membership& membership = peers_.membership();
  return std::find(untold.begin(), untold.end(), membership.authority()) != untold.end() &&
         membership.state(membership.authority()) == Membership::State::kAlive;
}

void Farewell::Say(const char* method, const std::string& body, const std::vector<TaskName>& tasks,
                   absl::Time end, absl::Time end_of_authority) const {
  Environment& environment = peers_.environment();
  absl::Duration round = kFirstRound;
  Told told;
  for (std::vector<TaskName> untold = tasks; !untold.empty(); round *= 2) {
    const absl::Time now = environment.Now();
    const absl::Time last = MayHear(untold) ? end_of_authority : end;
    if (now >= last) return;
    Tell(untold, method, body, std::min(last, now + round), &told);
    untold = Untold(tasks, told);
    absl::Mutex mutex;
    bool never = false;
    absl::MutexLock lock(&mutex);
    if (!untold.empty()) environment.Await(mutex, absl::Condition(&never), environment.Now() + kPause);
  }
}

}  // namespace weir
