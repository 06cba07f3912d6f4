// Which workers of an elastic job are to run, and on which hosts: as many as the hosts have slots for,
// between a least and a greatest number.
//
// Worker 0, the chief, is not touched: it runs as long as the job. A worker that failed in a way that trying
// again may help is followed by another one, but not at once on its host, which is left alone for a while
// that doubles with every failure in a row; and no more often than reset_limit. The place of one that failed
// otherwise stays empty, until its host has fewer slots (the empty one is the first to go). When a worker has
// ended well the training is over: nobody is started any more.
//
// A worker that has worked for long and fails then is no failure that counts: machines are taken away, and a
// job may run for weeks. It even makes up for one that does count, for after it its host is often tried once
// more, in vain.
//
// Where the connection to a host was lost, what ran there may not have noticed: it may still have its port.
// The host is left alone for at least `cut_off_pause`, and what fails there soon, in whatever way, is tried
// again, until one has worked there for long.
//
// When there are too many workers those that were started last are told to stop.
//
// A worker that is started takes the least index that nobody has. Those that the job began with are in the
// cluster spec, with their addresses: such an index is only taken again on its host.
//
// Pure bookkeeping; the caller starts and stops processes, and says what time it is. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "distributed/environment/host_list.h"

namespace weir {

struct WorkerPoolOptions {
  int min_workers = 1;
  int max_workers = 1;
  // Of all workers together; of failures that count (see above).
  int reset_limit = 100;
  // After the first failure on a host.
  absl::Duration cooldown = absl::Seconds(1);
  static constexpr int kLongestCooldown = 64;  // times the first; what works longer has worked for long
  absl::Duration cut_off_pause = absl::ZeroDuration();
  // How long there may be fewer than min_workers.
  absl::Duration patience = absl::Minutes(10);
  // Whether SetHosts may come again.
  bool hosts_may_change = false;
};

class WorkerPool {
 public:
  enum class End {
    kDone,        // well
    kTold,        // because it was told to
    kToldInVain,  // it was told to, and the connection to its host was lost: it may still run
    kAgain,       // failed; trying again may help
    kCutOff,      // the connection to its host was lost, or not made: the same
    kBroken       // failed; trying again does not help
  };
  struct Start {
    int index = 0;
    std::string host;
  };
  struct Plan {
    std::vector<Start> starts;
    std::vector<int> stops;
  };

  explicit WorkerPool(const WorkerPoolOptions& options) : options_(options) {}

  // Worker i of those that the job begins with runs on hosts[i].
  void Begin(const std::vector<std::string>& hosts, absl::Time now);
  void SetHosts(const std::vector<HostSlots>& hosts);

  // What is to be done now; counts as done.
  Plan Next(absl::Time now);
  // When Next should be asked again, whatever happens.
  absl::Time next_time() const { return next_time_; }
  // Returns what it was taken for: kAgain of one that is tried again although it failed as if for good.
  End OnEnded(int index, End end, absl::Time now);
  // No worker is started any more.
  void Close() { is_over_ = true; }

  // Until when nothing is started on that host.
  absl::Time cools_until(const std::string& host) const;
  int num_resets() const { return num_resets_; }
  // Those that run and were not told to stop, the chief too.
  int num_running() const;
  // Why the job cannot go on; empty while it can.
  std::string WhyGivenUp(absl::Time now) const;

 private:
  struct Worker {
    std::string host;
    absl::Time started;
    int64_t number = 0;  // in the order of starts
    bool is_stopping = false;
  };
  struct Host {
    int num_failures = 0;  // in a row
    int num_broken = 0;    // slots that stay empty
    absl::Time cools_until = absl::InfinitePast();
    bool was_cut_off = false;  // since somebody has worked there for long
  };

  int num_slots(const std::string& host) const;
  absl::Duration longest_cooldown() const { return options_.cooldown * WorkerPoolOptions::kLongestCooldown; }
  void NoteFailure(Host& host, bool has_worked_for_long, absl::Duration least_pause, absl::Time now);
  void PlanStops(Plan* plan);
  void PlanStarts(absl::Time now, Plan* plan);
  int FreeIndex(const std::string& host) const;

  const WorkerPoolOptions options_;
  std::vector<HostSlots> hosts_;
  std::map<std::string, Host> states_;
  std::vector<std::string> seeds_;  // their hosts
  std::map<int, Worker> workers_;
  int64_t num_started_ = 0;
  bool is_over_ = false;
  int num_resets_ = 0;
  absl::Time too_few_since_ = absl::InfiniteFuture();
  absl::Time next_time_ = absl::InfiniteFuture();
};

}  // namespace weir
