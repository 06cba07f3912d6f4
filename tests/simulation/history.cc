#include "tests/simulation/history.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr absl::Duration kLimit = absl::Minutes(20);

}  // namespace

std::string ScratchDirectory(const std::string& otherwise) {
  return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : otherwise;
}

NetworkOptions BenignNetwork() {
  NetworkOptions network;
  network.slow = 0.02;
  network.lost_requests = 0.01;
  network.lost_replies = 0.01;
  network.repeated = 0.02;
  return network;
}

NetworkOptions SlowNetwork() {
  NetworkOptions network;
  network.slow = 0.1;
  network.long_delay = absl::Milliseconds(1500);
  return network;
}

History DrawHistory(uint64_t seed, const std::vector<Misfortune::Kind>& kinds, bool elects) {
  History history;
  history.seed = seed;
  if (seed % 2 == 0) history.network = BenignNetwork();
  if (seed % 8 == 5) {
    history.network = SlowNetwork();
    history.job.patience = 15 * history.network.long_delay;
  }
  // Short leases are over before a keepalive: a task is replaced while others are still connected to it.
  if (seed / 4 % 2 == 1) history.job.lease = absl::Seconds(3);
  if (seed / 8 % 4 == 0) history.job.longest_delay_of_work = absl::Milliseconds(100);
  history.job.num_workers = 1 + static_cast<int>(seed / 2 % 2);
  if (seed / 32 % 4 == 1) history.job.num_ps = 2;
  // Machines whose clocks are set well differ by milliseconds; those that are not, by hours.
  if (seed / 128 % 4 == 1) history.clocks = {.most_ahead = absl::Hours(3), .most_drift = 20'000};
  if (seed / 512 % 4 == 1) {
    history.job.sync_replicas = seed / 2048 % 4 == 0 ? OnLoss::kShrink : OnLoss::kWait;
    history.job.last_step = 20;
  }
  if (elects) {
    history.job.elects = true;
    history.job.num_ps = 2 + static_cast<int>(seed / 64 % 2);
    // Candidates wait for a lease until they take office.
    history.job.patience += history.job.lease;
  }
  std::vector<TaskName> tasks;
  for (int i = 0; i < history.job.num_ps; ++i) tasks.push_back({"ps", i});
  tasks.push_back({"chief", 0});
  for (int i = 0; i < history.job.num_workers; ++i) tasks.push_back({"worker", i});
  history.misfortunes = DrawMisfortunes(seed, tasks, kinds);
  return history;
}

// In a folder of its own.
static Outcome RunIn(const std::string& folder, const History& history, bool keeps_trace) {
  CountingJobOptions options = history.job;
  if (history.saves) options.checkpoint_dir = folder;
  World world(history.seed, history.network, history.clocks);
  if (keeps_trace) world.scheduler().KeepTrace();
  CountingJob job(world, options, history.network);
  job.StartAll();
  Befall(world, job, history.misfortunes);
  job.RunToTheEnd(kLimit);
  Outcome outcome;
  outcome.violations = job.Violations();
  outcome.num_acknowledged = job.num_acknowledged();
  outcome.trace_hash = world.scheduler().trace_hash();
  outcome.trace = world.scheduler().trace();
  outcome.num_messages = world.network().num_messages();
  outcome.time = world.time();
  if (options.sync_replicas) outcome.weights = job.SavedWeights();
  return outcome;
}

static Outcome RunBelow(const std::string& scratch_dir, const History& history, bool keeps_trace) {
  // Not the number of this process: sandboxes that share the folder have the same ones.
  std::string folder = absl::StrCat(scratch_dir, "/weir_simulation_XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) {
    return {.violations = {absl::StrCat("failed: no folder below ", scratch_dir)}};
  }
  const Outcome outcome = RunIn(folder, history, keeps_trace);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return outcome;
}

Outcome RunHistory(const History& history, const std::string& scratch_dir, bool keeps_trace) {
  if (history.job.sync_replicas != OnLoss::kWait) return RunBelow(scratch_dir, history, keeps_trace);
  History without_faults = history;
  without_faults.misfortunes.clear();
  without_faults.network = {};
  const Outcome expected = RunBelow(scratch_dir, without_faults, false);
  if (!expected.violations.empty()) return expected;
  History with_faults = history;
  with_faults.job.expected_weights = expected.weights;
  return RunBelow(scratch_dir, with_faults, keeps_trace);
}

}  // namespace weir
