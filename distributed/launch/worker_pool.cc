#include "distributed/launch/worker_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

int SlotsOf(const std::vector<HostSlots>& hosts, const std::string& host) {
  const auto found =
      std::find_if(hosts.begin(), hosts.end(), [&](const HostSlots& slots) { return slots.host == host; });
  return found == hosts.end() ? 0 : found->num_slots;
}

}  // namespace

void WorkerPool::Begin(const std::vector<std::string>& hosts, absl::Time now) {
  seeds_ = hosts;
  for (size_t i = 0; i < hosts.size(); ++i) workers_[static_cast<int>(i)] = {hosts[i], now, num_started_++};
}

void WorkerPool::SetHosts(const std::vector<HostSlots>& hosts) {
  for (auto& [host, state] : states_) {
    const int num_gone = SlotsOf(hosts_, host) - SlotsOf(hosts, host);
    state.num_broken = std::max(0, state.num_broken - std::max(0, num_gone));
  }
  hosts_ = hosts;
}

int WorkerPool::num_slots(const std::string& host) const {
  const auto state = states_.find(host);
  return std::max(0, SlotsOf(hosts_, host) - (state == states_.end() ? 0 : state->second.num_broken));
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

// Those that came last go first. The chief stays, and takes its slot before all others.
void WorkerPool::PlanStops(Plan* plan) {
  std::vector<std::pair<int, Worker*>> in_order;
  for (auto& [index, worker] : workers_) {
    if (!worker.is_stopping) in_order.push_back({index, &worker});
  }
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.first != 0, a.second->number) < std::make_pair(b.first != 0, b.second->number);
  });
  std::map<std::string, int> num_kept;
  int num_all = 0;
  for (const auto& [index, worker] : in_order) {
    const bool has_slot = num_kept[worker->host] < num_slots(worker->host) && num_all < options_.max_workers;
    if (index == 0 || has_slot) {
      ++num_kept[worker->host];
      ++num_all;
    } else {
      worker->is_stopping = true;
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
      workers_[index] = {host, now, num_started_++};
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

WorkerPool::End WorkerPool::OnEnded(int index, End end, absl::Time now) {
  const auto found = workers_.find(index);
  if (found == workers_.end()) return end;
  const Worker worker = found->second;
  workers_.erase(found);
  Host& host = states_[worker.host];
  const bool has_worked_for_long = now - worker.started > longest_cooldown();
  if (has_worked_for_long) host.was_cut_off = false;
  if (end == End::kBroken && host.was_cut_off) end = End::kAgain;
  switch (end) {
    case End::kDone:
      is_over_ = true;
      break;
    case End::kTold:
      break;
    case End::kToldInVain:
      host.was_cut_off = true;
      host.cools_until = std::max(host.cools_until, now + options_.cut_off_pause);
      break;
    case End::kBroken:
      ++host.num_broken;
      break;
    case End::kCutOff:
      host.was_cut_off = true;
      NoteFailure(host, has_worked_for_long, options_.cut_off_pause, now);
      break;
    case End::kAgain:
      NoteFailure(host, has_worked_for_long, absl::ZeroDuration(), now);
      break;
  }
  return end;
}

void WorkerPool::NoteFailure(Host& host, bool has_worked_for_long, absl::Duration least_pause,
                             absl::Time now) {
  if (has_worked_for_long) {
    host.num_failures = 0;
    num_resets_ = std::max(0, num_resets_ - 1);
  } else {
    ++num_resets_;
  }
  const absl::Duration pause =
      std::min(longest_cooldown(), options_.cooldown * (int64_t{1} << std::min(host.num_failures, 30)));
  host.cools_until = now + std::max(pause, least_pause);
  ++host.num_failures;
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
