#include "distributed/transport/grpc/rapid_resets.h"

#include <algorithm>

namespace weir {

std::vector<std::string> RapidResets::Note(const std::string& client, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (now >= settles_at_) closed_.clear();
  if (closed_.count(client) > 0) settles_at_ = std::max(settles_at_, now + kSettled);
  if (now >= window_end_) {
    window_end_ = now + kWindow;
    total_ = 0;
    counts_.clear();
  }
  ++counts_[client];
  if (++total_ < kLimit) return {};
  window_end_ = now;  // the next call begins another count
  std::vector<std::string> closing;
  for (const auto& [name, count] : counts_) {
    if (count > kFew) closing.push_back(name);
  }
  if (closing.empty()) return {};
  // One that was closed already is the same flood.
  if (now >= settles_at_) {
    pause_ = now - last_flood_ < kWindow ? std::min(2 * pause_, kLongestPause) : kSettled;
    last_flood_ = now;
  }
  settles_at_ = now + pause_;
  closed_.insert(closing.begin(), closing.end());
  return closing;
}

absl::Time RapidResets::settles_at() const {
  absl::MutexLock lock(&mutex_);
  return settles_at_;
}

}  // namespace weir
