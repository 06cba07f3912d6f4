#include "distributed/collectives/passing_groups.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/device_group.h"

namespace weir {
namespace {

class Groups final : public PassingGroups {
 public:
  explicit Groups(std::vector<std::string> devices) : devices_(std::move(devices)) {}

  std::string ToString() const override { return absl::StrCat("groups of ", devices_.size(), " devices"); }

  void Come(const std::string& device, int64_t size, const Communicator::Call& call, Found found) override {
    const Id id = {call.cancellation, call.key};
    Arrival arrival = {std::move(found), call.cancellation, 0};
    if (call.cancellation != nullptr) {
      arrival.callback = call.cancellation->OnCancel([this, id](const absl::Status&) { End(id); });
    }
    absl::Status wrong;
    Arrivals all;  // those that wait no more
    {
      absl::MutexLock lock(&mutex_);
      Group& group = groups_[id];
      const auto at = std::find(devices_.begin(), devices_.end(), device);
      if (group.arrivals.empty()) group.size = size;
      wrong = CheckLocked(group, at, device, size, call);
      if (wrong.ok()) group.arrivals.emplace(at - devices_.begin(), std::move(arrival));
      if (!wrong.ok() || static_cast<int64_t>(group.arrivals.size()) == size) {
        all = std::move(group.arrivals);
        groups_.erase(id);
      }
    }
    if (!wrong.ok()) {
      // Not under its number, which may be another's.
      all.emplace(static_cast<int>(devices_.size()), std::move(arrival));
      return TellAll(std::move(all), wrong);
    }
    if (!all.empty()) return Meet(std::move(all));
    // The notice may have come before the device was listed.
    if (call.cancellation != nullptr && call.cancellation->is_cancelled()) End(id);
  }

 private:
  struct Arrival {
    Found found;
    Cancellation* cancellation = nullptr;
    uint64_t callback = 0;
  };
  using Arrivals = std::map<int, Arrival>;  // by the device's place
  // The step, and the collective within it.
  using Id = std::pair<const Cancellation*, Communicator::Key>;
  struct Group {
    int64_t size = 0;
    Arrivals arrivals;
  };

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

  void End(const Id& id) {
    Arrivals all;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = groups_.find(id);
      if (found == groups_.end()) return;
      all = std::move(found->second.arrivals);
      groups_.erase(found);
    }
    TellAll(std::move(all), absl::CancelledError("the step is over"));
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
  absl::Mutex mutex_;
  absl::flat_hash_map<Id, Group> groups_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

RefPtr<PassingGroups> MakePassingGroups(std::vector<std::string> devices) {
  return RefPtr<PassingGroups>(new Groups(std::move(devices)));
}

}  // namespace weir
