#include "distributed/collectives/passing_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/device_group.h"
#include "kernels/long_wait.h"
#include "kernels/notice.h"
#include "kernels/timers.h"

namespace weir {
namespace {

class Groups final : public PassingGroups {
 public:
  Groups(std::vector<std::string> devices, Environment& environment)
      : devices_(std::move(devices)), environment_(environment) {}
  // Steps know it by their cancellations: a client's Reset may drop it while they wait.
  ~Groups() override {
    while (true) {
      Arrivals all;
      {
        absl::MutexLock lock(&mutex_);
        if (groups_.empty()) break;
        all = EraseLocked(groups_.begin()->first);
      }
      TellAll(std::move(all), absl::CancelledError("the container of collectives has been reset"));
    }
  }

  std::string ToString() const override { return absl::StrCat("groups of ", devices_.size(), " devices"); }

  void Come(const std::string& device, int64_t size, const Communicator::Call& call, Found found) override {
    const Id id = {call.cancellation, call.key};
    Arrival arrival = {std::move(found), call.cancellation};
    if (call.cancellation != nullptr) {
      arrival.callback =
          call.cancellation->OnCancel([this, id](const absl::Status&) { End(id, StepIsOver()); });
    }
    absl::Status wrong;
    Arrivals all;  // those that wait no more
    {
      absl::MutexLock lock(&mutex_);
      Group& group = groups_[id];
      const auto at = std::find(devices_.begin(), devices_.end(), device);
      if (group.arrivals.empty()) BeginLocked(id, size, call.name);
      wrong = CheckLocked(group, at, device, size, call);
      if (wrong.ok()) {
        if (call.timeout != absl::InfiniteDuration()) {
          arrival.limit = TimersLocked().At(
              environment_.Now() + call.timeout, [this, id, number = group.number, name = call.name] {
                End(id,
                    absl::DeadlineExceededError(absl::StrCat(
                        "collective '", name, "': Collective has timed out waiting for other workers.")),
                    number);
              });
        }
        group.arrivals.emplace(at - devices_.begin(), std::move(arrival));
      }
      if (!wrong.ok() || static_cast<int64_t>(group.arrivals.size()) == size) all = EraseLocked(id);
    }
    if (!wrong.ok()) {
      // Not under its number, which may be another's.
      all.emplace(static_cast<int>(devices_.size()), std::move(arrival));
      return TellAll(std::move(all), wrong);
    }
    if (!all.empty()) return Meet(std::move(all));
    // The notice may have come before the device was listed.
    if (call.cancellation != nullptr && call.cancellation->is_cancelled()) End(id, StepIsOver());
  }

 private:
  struct Arrival {
    Found found;
    Cancellation* cancellation = nullptr;
    uint64_t callback = 0;
    Timers::TimerId limit = 0;
  };
  using Arrivals = std::map<int, Arrival>;  // by the device's place
  // The step, and the collective within it.
  using Id = std::pair<const Cancellation*, Communicator::Key>;
  struct Group {
    int64_t number = 0;  // of all that there were: timers may come late
    int64_t size = 0;
    std::string name;  // of the first node that came
    absl::Time since;
    Timers::TimerId next_word = 0;
    Arrivals arrivals;
  };

  static absl::Status StepIsOver() { return absl::CancelledError("the step is over"); }

  Timers& TimersLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (timers_ == nullptr) timers_ = environment_.MakeTimers();
    return *timers_;
  }

  void BeginLocked(const Id& id, int64_t size, const std::string& name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Group& group = groups_[id];
    group.number = ++num_groups_;
    group.size = size;
    group.name = name;
    group.since = environment_.Now();
    if (size > 1) SayLaterLocked(id, group);
  }

  void SayLaterLocked(const Id& id, Group& group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    group.next_word = TimersLocked().At(environment_.Now() + LongWait::kSilence,
                                        [this, id, number = group.number] { Say(id, number); });
  }

  // Who is awaited.
  void Say(const Id& id, int64_t number) {
    std::string word;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = groups_.find(id);
      if (found == groups_.end() || found->second.number != number) return;
      Group& group = found->second;
      std::vector<std::string> here;
      for (const auto& [place, arrival] : group.arrivals) here.push_back(devices_[place]);
      word = absl::StrCat(
          "collective '", group.name, "' waits for ", group.size - static_cast<int64_t>(here.size()),
          " more devices of group_key ", id.second.first, ", instance_key ", id.second.second, " (for ",
          absl::FormatDuration(absl::Trunc(environment_.Now() - group.since, absl::Seconds(1))),
          "); here: ", absl::StrJoin(here, ", "));
      SayLaterLocked(id, group);
    }
    PrintNotice(word);
  }

  // Precondition: it is there.
  Arrivals EraseLocked(Id id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = groups_.find(id);
    if (timers_ != nullptr) timers_->Forget(found->second.next_word);
    Arrivals all = std::move(found->second.arrivals);
    groups_.erase(found);
    for (const auto& [place, arrival] : all) {
      if (timers_ != nullptr) timers_->Forget(arrival.limit);
    }
    return all;
  }

  absl::Status CheckLocked(const Group& group, std::vector<std::string>::const_iterator at,
                           const std::string& device, int64_t size, const Communicator::Call& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (at == devices_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("collective '", call.name, "': ", device, " is none of this task's devices"));
    }
    if (size != group.size) {
      return absl::InvalidArgumentError(
          absl::StrCat("collective '", call.name, "': ", device, " is joining group with size ", size,
                       ", but that group has size ", group.size, " (group_key=", call.key.first, ")"));
    }
    if (size > static_cast<int64_t>(devices_.size())) {
      return absl::InvalidArgumentError(absl::StrCat("collective '", call.name, "': group_size is ", size,
                                                     ", but this task has ", devices_.size(), " devices"));
    }
    if (!group.arrivals.contains(static_cast<int>(at - devices_.begin()))) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("collective '", call.name, "': ", device,
                                                   " comes twice in one step with group_key ", call.key.first,
                                                   " and instance_key ", call.key.second));
  }

  // `number`: only of that group; 0: of any.
  void End(const Id& id, const absl::Status& reason, int64_t number = 0) {
    Arrivals all;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = groups_.find(id);
      if (found == groups_.end() || (number != 0 && found->second.number != number)) return;
      all = EraseLocked(id);
    }
    TellAll(std::move(all), reason);
  }

  void Meet(Arrivals all) const {
    Forget(all);
    std::vector<std::string> names;
    for (const auto& [place, arrival] : all) names.push_back(devices_[place]);
    // Held until all have begun; then each waits with its own.
    std::vector<RefPtr<Communicator>> ranks = MakeDeviceGroup(std::move(names));
    auto rank = ranks.begin();
    for (auto& [place, arrival] : all) arrival.found(*rank++);
  }

  static void Forget(const Arrivals& all) {
    for (const auto& [place, arrival] : all) {
      if (arrival.cancellation != nullptr) arrival.cancellation->Remove(arrival.callback);
    }
  }
  static void TellAll(Arrivals all, const absl::Status& reason) {
    Forget(all);
    for (auto& [place, arrival] : all) arrival.found(reason);
  }

  const std::vector<std::string> devices_;
  Environment& environment_;
  absl::Mutex mutex_;
  absl::flat_hash_map<Id, Group> groups_ ABSL_GUARDED_BY(mutex_);
  int64_t num_groups_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Timers> timers_ ABSL_GUARDED_BY(mutex_);  // when somebody waits
};

}  // namespace

RefPtr<PassingGroups> MakePassingGroups(std::vector<std::string> devices, Environment& environment) {
  return RefPtr<PassingGroups>(new Groups(std::move(devices), environment));
}

}  // namespace weir
