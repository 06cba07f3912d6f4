#include "distributed/master/open_partial_runs.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {

std::vector<TensorRef> OpenPartialRun::FetchesOf(const std::vector<std::string>& names) const {
  std::vector<TensorRef> fetches;
  for (const std::string& asked : names) {
    const TensorRef ref(asked);
    const absl::StatusOr<std::string> name = ref.Name();
    const auto value = name.ok() ? values->find(*name) : values->end();
    fetches.push_back(value == values->end() ? ref : TensorRef(value->second));
  }
  return fetches;
}

absl::Status OpenPartialRuns::Add(const std::string& handle, OpenPartialRun run, PeerUse::Share room) {
  Entry dropped;  // after the lock
  absl::MutexLock lock(&mutex_);
  if (runs_.size() >= kMaxRuns) {
    dropped = DropOldest();
    if (runs_.size() >= kMaxRuns) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the session has ", kMaxRuns, " partial runs, and a part of each is under way"));
    }
  }
  Entry& entry = runs_[handle];
  entry.open = std::move(run);
  entry.room.push_back(std::move(room));
  entry.last_use = ++num_uses_;
  return absl::OkStatus();
}

OpenPartialRuns::Entry OpenPartialRuns::DropOldest() {
  auto oldest = runs_.end();
  for (auto run = runs_.begin(); run != runs_.end(); ++run) {
    if (run->second.num_parts > 0) continue;
    if (oldest == runs_.end() || run->second.last_use < oldest->second.last_use) oldest = run;
  }
  if (oldest == runs_.end()) return {};
  Entry dropped = std::move(oldest->second);
  runs_.erase(oldest);
  return dropped;
}

absl::StatusOr<OpenPartialRun> OpenPartialRuns::BeginPart(absl::string_view handle) {
  absl::MutexLock lock(&mutex_);
  const auto known = runs_.find(handle);
  if (known == runs_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Must run PartialRunSetup before performing partial runs. (No such run is open: it is over "
        "when all its feeds have come and all its fetches are taken, and the oldest of more than ",
        kMaxRuns, " is ended.)"));
  }
  Entry& entry = known->second;
  entry.last_use = ++num_uses_;
  if (entry.open.run == nullptr) return entry.failure;
  ++entry.num_parts;
  return entry.open;
}

void OpenPartialRuns::EndPart(absl::string_view handle, std::vector<PeerUse::Share> room) {
  Entry dropped;  // after the lock
  absl::MutexLock lock(&mutex_);
  const auto known = runs_.find(handle);
  if (known == runs_.end()) return;
  Entry& entry = known->second;
  --entry.num_parts;
  if (entry.open.run == nullptr) return;
  if (entry.open.run->is_over()) {
    dropped = std::move(entry);
    runs_.erase(known);
  } else {
    std::move(room.begin(), room.end(), std::back_inserter(entry.room));
  }
}

void OpenPartialRuns::EndStep(absl::string_view handle, const absl::Status& status) {
  Entry dropped;  // after the lock
  absl::MutexLock lock(&mutex_);
  const auto known = runs_.find(handle);
  if (known == runs_.end()) return;
  Entry& entry = known->second;
  if (!status.ok()) {
    std::swap(dropped.open, entry.open);
    std::swap(dropped.room, entry.room);
    entry.failure = status;
  } else if (entry.open.run != nullptr && entry.num_parts == 0 && entry.open.run->is_over()) {
    dropped = std::move(entry);
    runs_.erase(known);
  }
}

void OpenPartialRuns::Clear() {
  Entries dropped;  // after the lock
  absl::MutexLock lock(&mutex_);
  dropped.swap(runs_);
}

}  // namespace weir
