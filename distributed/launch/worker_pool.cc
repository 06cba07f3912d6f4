#include "distributed/launch/worker_pool.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace weir {

void WorkerPool::Begin(const std::vector<std::string>& hosts, absl::Time now) {
  seeds_ = hosts;
  for (size_t i = 0; i < hosts.size(); ++i) workers_[static_cast<int>(i)] = {hosts[i], now};
}

int WorkerPool::num_slots(const std::string& host) const {
  const auto found =
      std::find_if(hosts_.begin(), hosts_.end(), [&](const HostSlots& slots) { return slots.host == host; });
  if (found == hosts_.end()) return 0;
  const auto state = states_.find(host);
  return std::max(0, found->num_slots - (state == states_.end() ? 0 : state->second.num_broken));
}

int WorkerPool::num_running() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const auto& worker) { return !worker.second.is_stopping; }));
}

WorkerPool::Plan WorkerPool::Next(absl::Time now) {
  Plan plan;
  next_time_ = absl::InfiniteFuture();
  if (is_over_) return plan;
  PlanStops(&plan);
  PlanStarts(now, &plan);
  if (num_running() >= options_.min_workers) {
    too_few_since_ = absl::InfiniteFuture();
  } else {
    too_few_since_ = std::min(too_few_since_, now);
    next_time_ = std::min(next_time_, too_few_since_ + options_.patience);
  }
  return plan;
}

// Those that came last go first.
void WorkerPool::PlanStops(Plan* plan) {
  std::map<std::string, int> num_kept;
  int num_all = 0;
  for (auto& [index, worker] : workers_) {
    if (worker.is_stopping) continue;
    const bool has_slot = num_kept[worker.host] < num_slots(worker.host) && num_all < options_.max_workers;
    if (index == 0 || has_slot) {
      ++num_kept[worker.host];
      ++num_all;
    } else {
      worker.is_stopping = true;
      plan->stops.push_back(index);
    }
  }
}

void WorkerPool::PlanStarts(absl::Time now, Plan* plan) {
  for (const HostSlots& slots : hosts_) {
    const std::string& host = slots.host;
    // Who is about to stop has its slot until then.
    int num_used = static_cast<int>(std::count_if(
        workers_.begin(), workers_.end(), [&](const auto& worker) { return worker.second.host == host; }));
    for (; num_used < num_slots(host) && static_cast<int>(workers_.size()) < options_.max_workers;
         ++num_used) {
      if (cools_until(host) > now) {
        next_time_ = std::min(next_time_, cools_until(host));
        break;
      }
      const int index = FreeIndex(host);
      workers_[index] = {host, now};
      plan->starts.push_back({index, host});
    }
  }
}

int WorkerPool::FreeIndex(const std::string& host) const {
  int index = 1;
  const auto is_of_another_host = [&](int i) {
    return i < static_cast<int>(seeds_.size()) && seeds_[static_cast<size_t>(i)] != host;
  };
  while (workers_.contains(index) || is_of_another_host(index)) ++index;
  return index;
}

void WorkerPool::OnEnded(int index, End end, absl::Time now) {
  const auto found = workers_.find(index);
  if (found == workers_.end()) return;
  const Worker worker = found->second;
  workers_.erase(found);
  Host& host = states_[worker.host];
  const absl::Duration longest = options_.cooldown * WorkerPoolOptions::kLongestCooldown;
  switch (end) {
    case End::kDone:
      is_over_ = true;
      return;
    case End::kTold:
      return;
    case End::kBroken:
      ++host.num_broken;
      return;
    case End::kAgain:
      ++num_resets_;
      // One that has worked for long is no failure in a row.
      if (now - worker.started > longest) host.num_failures = 0;
      host.cools_until =
          now + std::min(longest, options_.cooldown * (int64_t{1} << std::min(host.num_failures, 30)));
      ++host.num_failures;
  }
}

absl::Time WorkerPool::cools_until(const std::string& host) const {
  const auto found = states_.find(host);
  return found == states_.end() ? absl::InfinitePast() : found->second.cools_until;
}

std::string WorkerPool::WhyGivenUp(absl::Time now) const {
  if (is_over_) return "";
  if (num_resets_ > options_.reset_limit) {
    return absl::StrCat("workers have failed ", num_resets_, " times (--reset_limit=", options_.reset_limit,
                        ")");
  }
  const int num = num_running();
  if (num >= options_.min_workers) return "";
  const std::string too_few =
      absl::StrCat(num, " workers run, and --min_workers=", options_.min_workers, " are needed");
  if (now >= too_few_since_ + options_.patience) {
    return absl::StrCat(too_few, ", for ", absl::FormatDuration(options_.patience));
  }
  int num_possible = 0;
  for (const HostSlots& slots : hosts_) num_possible += num_slots(slots.host);
  if (options_.hosts_may_change || num_possible >= options_.min_workers) return "";
  return absl::StrCat(too_few, "; the others have failed for good");
}

}  // namespace weir
