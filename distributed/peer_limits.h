// How much of this task another task may take: the limits, and who has taken what.
//
// Who may call a task may make it compute anything, within these limits: so that one program that has gone
// wrong does not use up a server that others need. They count for each life of each peer. What a program asks
// beyond them is refused with ResourceExhausted, which names the limit and the option that raises it.
//
// Thread safety: all methods of PeerUse. A Share may be let go by any thread, also after the PeerUse is gone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "distributed/membership.h"
#include "distributed/task_name.h"

namespace weir {

struct PeerLimits {
  // Sessions that have plans here.
  int64_t sessions = 10'000;
  // Plans: a session has one for each set of feeds and fetches that it was run with.
  int64_t plans = 100'000;
  // Edges, arguments and results of all its plans.
  int64_t edges = 20'000'000;
  // Steps that run, or wait for tensors.
  int64_t steps = 20'000;
  // What its plans' constants, its steps' arguments and the tensors that it has sent for steps that are not
  // over take. 0: half of this machine's memory.
  int64_t bytes = 0;
  // Of all peers together, and not a matter of PeerUse: what tensors that they push may take on their way
  // (peers/inbound_budget.h). 0: an eighth of this machine's memory.
  int64_t inbound = 0;
};

// Those that `text` names, "steps=100,bytes=1000000"; the defaults for others. InvalidArgument for a name
// that is none, and a value that is no positive number.
absl::StatusOr<PeerLimits> ParsePeerLimits(absl::string_view text);

// $WEIR_PEER_LIMITS; empty when it is not set.
std::string PeerLimitsFromEnvironment();

class PeerUse {
 public:
  struct Amount {
    int64_t sessions = 0, plans = 0, edges = 0, steps = 0, bytes = 0;
  };

  // What somebody has taken; given back when it is destroyed.
  class Share;

  explicit PeerUse(const PeerLimits& limits);

  // `what` begins the text of the error: "plan 5".
  absl::StatusOr<Share> Take(const TaskName& peer, Incarnation life, const Amount& amount,
                             absl::string_view what);

  // Takes bytes for one more of some tensors, as Take does, and adds the share to those of the others.
  absl::Status TakeBytes(const TaskName& peer, Incarnation life, int64_t num_bytes, absl::string_view what,
                         std::vector<Share>* shares);

  // Of all peers together.
  Amount total() const;

 private:
  struct Counts {
    absl::Mutex mutex;
    absl::flat_hash_map<Incarnation, Amount> of ABSL_GUARDED_BY(mutex);
  };

  PeerLimits limits_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
};

class PeerUse::Share {
 public:
  Share() = default;  // of nothing
  Share(std::shared_ptr<Counts> counts, Incarnation life, const Amount& amount)
      : counts_(std::move(counts)), life_(life), amount_(amount) {}
  Share(Share&& other) noexcept { *this = std::move(other); }
  Share& operator=(Share&& other) noexcept {
    std::swap(counts_, other.counts_);
    std::swap(life_, other.life_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  ~Share();

 private:
  std::shared_ptr<Counts> counts_;
  Incarnation life_ = 0;
  Amount amount_;
};

}  // namespace weir
