#include "session/monitored/kept_checkpoints.h"

#include <algorithm>

namespace weir {
namespace {

// Seconds since the epoch, as the file `checkpoint` has them; 0 for a time that is not known.
double Timestamp(absl::Time time) {
  return time == absl::InfinitePast() ? 0 : absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

absl::Time TimeOf(double timestamp) {
  return timestamp > 0 ? absl::UnixEpoch() + absl::Seconds(timestamp) : absl::InfinitePast();
}

}  // namespace

KeptCheckpoints::KeptCheckpoints(int max_to_keep, absl::Duration keep_every, absl::Time now)
    : max_to_keep_(max_to_keep), keep_every_(keep_every), next_preserved_(now + keep_every) {}

void KeptCheckpoints::Recover(const CheckpointState& state) {
  kept_.clear();
  if (max_to_keep_ <= 0) return;
  for (size_t i = 0; i < state.all.size(); ++i) {
    kept_.push_back(
        {state.all[i], i < state.timestamps.size() ? TimeOf(state.timestamps[i]) : absl::InfinitePast()});
  }
  if (state.last_preserved_timestamp > 0) {
    last_preserved_timestamp_ = state.last_preserved_timestamp;
    next_preserved_ = TimeOf(state.last_preserved_timestamp) + keep_every_;
  }
}

std::vector<std::string> KeptCheckpoints::paths() const {
  std::vector<std::string> result;
  for (const Kept& kept : kept_) result.push_back(kept.path);
  return result;
}

size_t KeptCheckpoints::num_outdated() const {
  const size_t limit = std::max(max_to_keep_, 0);
  return kept_.size() > limit ? kept_.size() - limit : 0;
}

CheckpointState KeptCheckpoints::Add(const std::string& path, absl::Time now) {
  CheckpointState state;
  state.newest = path;
  state.last_preserved_timestamp = last_preserved_timestamp_;
  if (max_to_keep_ <= 0) {
    state.all = {path};
    state.timestamps = {Timestamp(now)};
    return state;
  }
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), [&](const Kept& kept) { return kept.path == path; }),
              kept_.end());
  kept_.push_back({path, now});
  for (size_t i = num_outdated(); i < kept_.size(); ++i) {
    state.all.push_back(kept_[i].path);
    state.timestamps.push_back(Timestamp(kept_[i].written));
  }
  return state;
}

std::vector<std::string> KeptCheckpoints::RemoveOutdated() {
  std::vector<std::string> removed;
  const size_t count = num_outdated();
  for (size_t i = 0; i < count; ++i) {
    if (kept_[i].written > next_preserved_) {
      last_preserved_timestamp_ = Timestamp(next_preserved_);
      next_preserved_ += keep_every_;
    } else {
      removed.push_back(kept_[i].path);
    }
  }
  kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(count));
  return removed;
}

}  // namespace weir
