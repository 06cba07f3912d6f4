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

History DrawHistory(uint64_t seed, const std::vector<Misfortune::Kind>& kinds) {
  History history;
  history.seed = seed;
  if (seed % 2 == 0) history.network = BenignNetwork();
  // Short leases are over before a keepalive: a task is replaced while others are still connected to it.
  if (seed / 4 % 2 == 1) history.job.lease = absl::Seconds(3);
  if (seed / 8 % 4 == 0) history.job.longest_delay_of_work = absl::Milliseconds(100);
  history.job.num_workers = 1 + static_cast<int>(seed / 2 % 2);
  std::vector<TaskName> tasks = {{"ps", 0}, {"chief", 0}};
  for (int i = 0; i < history.job.num_workers; ++i) tasks.push_back({"worker", i});
  history.misfortunes = DrawMisfortunes(seed, tasks, kinds);
  return history;
}

Outcome RunHistory(const History& history, const std::string& scratch_dir, bool keeps_trace) {
  CountingJobOptions options = history.job;
  // Not the number of this process: sandboxes that share the folder have the same ones.
  std::string folder = absl::StrCat(scratch_dir, "/weir_simulation_XXXXXX");
  Outcome outcome;
  if (mkdtemp(folder.data()) == nullptr) {
    outcome.violations = {absl::StrCat("failed: no folder below ", scratch_dir)};
    return outcome;
  }
  options.checkpoint_dir = folder;
  {
    World world(history.seed, history.network);
    if (keeps_trace) world.scheduler().KeepTrace();
    CountingJob job(world, options);
    job.StartAll();
    Befall(world, job, history.misfortunes);
    job.RunToTheEnd(kLimit);
    outcome.violations = job.Violations();
    outcome.num_acknowledged = job.num_acknowledged();
    outcome.trace_hash = world.scheduler().trace_hash();
    outcome.trace = world.scheduler().trace();
    outcome.num_messages = world.network().num_messages();
    outcome.time = world.time();
  }
  std::error_code ignored;
  std::filesystem::remove_all(options.checkpoint_dir, ignored);
  return outcome;
}

}  // namespace weir
