// One seed: a network and misfortunes drawn by it, the job run through them, and what was wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/counting_job.h"
#include "tests/simulation/misfortune.h"
#include "tests/simulation/simulated_network.h"

namespace weir {

struct History {
  uint64_t seed = 1;
  NetworkOptions network;
  ClockOptions clocks;
  CountingJobOptions job;  // its checkpoint_dir is set by RunHistory
  bool saves = true;       // false: the chief has no folder for checkpoints
  std::vector<Misfortune> misfortunes;
};

// A network that delays, reorders, repeats and now and then loses a message with its connection, which is
// retried. Nothing that a job may notice.
NetworkOptions BenignNetwork();

// A network some of whose messages take seconds: what was sent last comes long after all else is known.
NetworkOptions SlowNetwork();

// The history of a campaign's seed: one of several networks, one ps or two, clocks that agree or not, up to
// three misfortunes of these kinds. `elects`: a store says which of two ps or three is the authority.
History DrawHistory(uint64_t seed, const std::vector<Misfortune::Kind>& kinds, bool elects = false);

struct Outcome {
  std::vector<std::string> violations;
  uint64_t trace_hash = 0;
  int num_messages = 0;
  int64_t num_acknowledged = 0;
  absl::Duration time;  // virtual
  std::string trace;    // when it was kept
  std::string weights;  // of synchronous replicas
};

// Where checkpoints go for a while: memory, where the system has a folder for it, because a disk that writes
// what it was told to costs more than all else; the directory otherwise.
std::string ScratchDirectory(const std::string& otherwise);

// Writes checkpoints below `scratch_dir`, and removes them. Synchronous replicas that wait for lost ones are
// run without faults first.
Outcome RunHistory(const History& history, const std::string& scratch_dir, bool keeps_trace = false);

}  // namespace weir
