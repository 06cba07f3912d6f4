#include "distributed/peer_limits.h"

#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "distributed/machine_memory.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

struct Kind {
  const char* name;
  const char* what;
  int64_t PeerLimits::*limit;
  int64_t PeerUse::Amount::*amount;
};

constexpr Kind kKinds[] = {
    {"sessions", "sessions", &PeerLimits::sessions, &PeerUse::Amount::sessions},
    {"plans", "plans", &PeerLimits::plans, &PeerUse::Amount::plans},
    {"edges", "edges, arguments and results of plans", &PeerLimits::edges, &PeerUse::Amount::edges},
    {"steps", "steps under way", &PeerLimits::steps, &PeerUse::Amount::steps},
    {"bytes", "bytes of constants and arguments", &PeerLimits::bytes, &PeerUse::Amount::bytes},
};

}  // namespace

absl::StatusOr<PeerLimits> ParsePeerLimits(absl::string_view text) {
  PeerLimits limits;
  if (text.empty()) return limits;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> setting =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    int64_t PeerLimits::*limit = setting.first == "inbound" ? &PeerLimits::inbound : nullptr;
    for (const Kind& kind : kKinds) {
      if (setting.first == kind.name) limit = kind.limit;
    }
    int64_t value = 0;
    if (limit == nullptr || !absl::SimpleAtoi(setting.second, &value) || value <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "peer limits '", text, "': '", part,
          "' is none: write sessions=N, plans=N, edges=N, steps=N, bytes=N or inbound=N, N above 0"));
    }
    limits.*limit = value;
  }
  return limits;
}

std::string PeerLimitsFromEnvironment() {
  const char* const text = std::getenv("WEIR_PEER_LIMITS");
  return text == nullptr ? "" : text;
}

PeerUse::PeerUse(const PeerLimits& limits) : limits_(limits) {
  if (limits_.bytes == 0) limits_.bytes = HalfOfMemory();
}

absl::StatusOr<PeerUse::Share> PeerUse::Take(const TaskName& peer, Incarnation life, const Amount& amount,
                                             absl::string_view what) {
  absl::MutexLock lock(&counts_->mutex);
  const auto known = counts_->of.find(life);
  const Amount used = known == counts_->of.end() ? Amount() : known->second;
  for (const Kind& kind : kKinds) {
    const int64_t more = amount.*kind.amount, before = used.*kind.amount, limit = limits_.*kind.limit;
    if (more == 0 || (more <= limit && before <= limit - more)) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        what, " of ", peer.ToString(), ": ", more, " more ", kind.what, " beside the ", before,
        " that it has are above this task's limit of ", limit, " for a peer: give the task --peer_limits=",
        kind.name, "=N, or WEIR_PEER_LIMITS, with a larger N, or ask for less at a time"));
  }
  Amount& now = counts_->of[life];
  for (const Kind& kind : kKinds) now.*kind.amount += amount.*kind.amount;
  return Share(counts_, life, amount);
}

absl::Status PeerUse::TakeBytes(const TaskName& peer, Incarnation life, int64_t num_bytes,
                                absl::string_view what, std::vector<Share>* shares) {
  WEIR_ASSIGN_OR_RETURN(Share share, Take(peer, life, {.bytes = num_bytes}, what));
  shares->push_back(std::move(share));
  return absl::OkStatus();
}

PeerUse::Share::~Share() {
  if (counts_ == nullptr) return;
  absl::MutexLock lock(&counts_->mutex);
  const auto known = counts_->of.find(life_);
  if (known == counts_->of.end()) return;
  bool is_empty = true;
  for (const Kind& kind : kKinds) {
    known->second.*kind.amount -= amount_.*kind.amount;
    is_empty = is_empty && known->second.*kind.amount == 0;
  }
  if (is_empty) counts_->of.erase(known);
}

PeerUse::Amount PeerUse::total() const {
  absl::MutexLock lock(&counts_->mutex);
  Amount total;
  for (const auto& [life, amount] : counts_->of) {
    for (const Kind& kind : kKinds) total.*kind.amount += amount.*kind.amount;
  }
  return total;
}

}  // namespace weir
