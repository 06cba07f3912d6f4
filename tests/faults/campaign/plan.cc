#include "tests/faults/campaign/plan.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace weir {
namespace {

constexpr Role kRoles[] = {Role::kPs, Role::kChief, Role::kWorker, Role::kEvaluator, Role::kLauncher};
constexpr Mode kModes[] = {Mode::kAsync, Mode::kSync, Mode::kBackup, Mode::kReplicas};
constexpr Phase kPhases[] = {Phase::kBeforeInit, Phase::kMidStep, Phase::kPushed, Phase::kCheckpoint,
                             Phase::kShutdown};
constexpr Stop kStops[] = {Stop::kOneSecond, Stop::kTwoLeases, Stop::kUntilOthersEnd, Stop::kReplaced,
                           Stop::kReplacedUntilOthersEnd};
constexpr Trouble kTroubles[] = {Trouble::kPartition, Trouble::kDeafPartition, Trouble::kMutePartition,
                                 Trouble::kReset,     Trouble::kFlap,          Trouble::kHostDeath,
                                 Trouble::kDelay,     Trouble::kSlow,          Trouble::kCut};

constexpr Mishap kMishaps[] = {Mishap::kCable, Mishap::kLooseCable, Mishap::kPower,
                               Mishap::kName,  Mishap::kRate,       Mishap::kProxy};

const char* Named(Role role) {
  const char* const names[] = {"ps", "chief", "worker", "evaluator", "launcher"};
  return names[static_cast<int>(role)];
}
const char* Named(Mode mode) {
  const char* const names[] = {"async", "sync", "backup", "replicas"};
  return names[static_cast<int>(mode)];
}
const char* Named(Phase phase) {
  const char* const names[] = {"before init", "mid-step", "pushed", "in checkpoint", "at shutdown"};
  return names[static_cast<int>(phase)];
}
const char* Named(Comeback comeback) {
  const char* const names[] = {"again", "elsewhere", "never"};
  return names[static_cast<int>(comeback)];
}
const char* Named(Stop stop) {
  const char* const names[] = {"1s", "two leases", "until others end", "replaced",
                               "replaced, until others end"};
  return names[static_cast<int>(stop)];
}
const char* Named(Trouble trouble) {
  const char* const names[] = {"partition",  "deaf",  "mute", "reset", "flap",
                               "host death", "delay", "slow", "cut"};
  return names[static_cast<int>(trouble)];
}

const char* Named(Mishap mishap) {
  const char* const names[] = {"cable", "loose cable", "power", "name", "rate", "proxy"};
  return names[static_cast<int>(mishap)];
}

bool Waits(Mode mode) { return mode == Mode::kSync || mode == Mode::kReplicas; }

std::vector<Plan> KillCells() {
  std::vector<Plan> cells;
  for (const Phase phase : kPhases) {
    for (const Mode mode : kModes) {
      for (const Role role : kRoles) {
        if (role == Role::kPs && mode == Mode::kReplicas) continue;
        if (role == Role::kEvaluator && phase == Phase::kPushed) continue;  // it pushes nothing
        Plan cell;
        cell.family = Family::kKill, cell.role = role, cell.mode = mode, cell.phase = phase;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

std::vector<Plan> StopCells() {
  std::vector<Plan> cells;
  for (const Stop stop : kStops) {
    const bool replaces = stop == Stop::kReplaced || stop == Stop::kReplacedUntilOthersEnd;
    for (const Mode mode : kModes) {
      for (const Role role : kRoles) {
        if (role == Role::kPs && mode == Mode::kReplicas) continue;
        // They are no members of the cluster: nobody can tell them that they were replaced.
        if (replaces && (role == Role::kEvaluator || role == Role::kLauncher)) continue;
        // The others cannot end without it.
        const bool drives = role == Role::kChief && mode == Mode::kBackup;
        if (stop == Stop::kUntilOthersEnd &&
            (drives || (Waits(mode) && (role == Role::kChief || role == Role::kWorker)))) {
          continue;
        }
        Plan cell;
        cell.family = Family::kStop, cell.role = role, cell.mode = mode, cell.stop = stop;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

std::vector<Plan> NetworkCells() {
  std::vector<Plan> cells;
  for (const Trouble trouble : kTroubles) {
    for (const Mode mode : kModes) {
      for (const Role role : {Role::kPs, Role::kChief, Role::kWorker}) {
        if (role == Role::kPs && mode == Mode::kReplicas) continue;
        Plan cell;
        cell.family = Family::kNetwork, cell.role = role, cell.mode = mode, cell.trouble = trouble;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

std::vector<Plan> MachineCells() {
  std::vector<Plan> cells;
  for (const Mishap mishap : kMishaps) {
    for (const Mode mode : kModes) {
      for (const Role role : {Role::kPs, Role::kChief, Role::kWorker}) {
        if (role == Role::kPs && mode == Mode::kReplicas) continue;
        Plan cell;
        cell.family = Family::kMachine, cell.role = role, cell.mode = mode, cell.mishap = mishap;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

std::vector<Plan> CellsOf(Family family) {
  switch (family) {
    case Family::kKill:
      return KillCells();
    case Family::kStop:
      return StopCells();
    case Family::kNetwork:
      return NetworkCells();
    default:
      return MachineCells();
  }
}

}  // namespace

std::string NameOf(Family family) {
  const char* const names[] = {"kill", "stop", "network", "machine"};
  return names[static_cast<int>(family)];
}

int NumCells(Family family) { return static_cast<int>(CellsOf(family).size()); }

Plan DrawPlan(uint64_t seed, Family family) {
  const std::vector<Plan> cells = CellsOf(family);
  // 37 divides no number of cells: neighbours of a short row of seeds differ in all that there is.
  Plan plan = cells[seed * 37 % cells.size()];
  plan.seed = seed;
  std::mt19937_64 random(seed * 3 + static_cast<uint64_t>(family));
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  plan.num_ps = plan.mode == Mode::kReplicas ? 0 : plan.mode == Mode::kAsync ? 1 : draw(1, 2);
  plan.num_workers = plan.mode == Mode::kBackup ? 3 : draw(2, 3);
  plan.has_evaluator = plan.role == Role::kEvaluator || draw(1, 4) == 1;
  switch (plan.role) {
    case Role::kPs:
      plan.victim = absl::StrCat("ps:", draw(0, plan.num_ps - 1));
      break;
    case Role::kChief:
      plan.victim = "worker:0";
      break;
    case Role::kWorker:
      plan.victim = absl::StrCat("worker:", draw(1, plan.num_workers - 1));
      break;
    case Role::kEvaluator:
      plan.victim = "evaluator:0";
      break;
    case Role::kLauncher:
      plan.victim = "launcher";
  }
  // What has been pushed is applied by a ps, or by all replicas when the last has come.
  const std::string last_worker = absl::StrCat("worker:", plan.num_workers - 1);
  const bool needs_no_other = plan.mode == Mode::kAsync || plan.mode == Mode::kBackup;
  plan.frozen = needs_no_other               ? plan.role == Role::kPs ? plan.victim : "ps:0"
                : plan.victim == last_worker ? "worker:0"
                                             : last_worker;
  plan.lease = absl::Milliseconds(draw(1000, 2000));
  plan.at_step = draw(3, 40);
  plan.delay = absl::Microseconds(draw(0, plan.phase == Phase::kCheckpoint ? 3000 : 60'000));
  plan.pause = absl::Milliseconds(draw(0, 2) == 0 ? 0 : draw(0, 2500));
  plan.outage = absl::Milliseconds(draw(1, 3) == 1 ? draw(100, 500) : draw(1000, 5000));
  if (plan.family == Family::kMachine) plan.has_evaluator = false;
  const int comeback = plan.family == Family::kKill ? draw(0, 5) : 3;
  const bool is_member = plan.role != Role::kEvaluator && plan.role != Role::kLauncher;
  if (comeback >= 4 && is_member) plan.comeback = Comeback::kOtherPort;
  if (comeback == 0 && plan.role == Role::kPs && plan.phase != Phase::kShutdown) {
    plan.comeback = Comeback::kNever;
  }
  if (comeback == 0 && plan.role == Role::kWorker && !Waits(plan.mode) && plan.phase != Phase::kBeforeInit) {
    plan.comeback = Comeback::kNever;
  }
  return plan;
}

std::string Plan::Cell() const {
  std::string what;
  switch (family) {
    case Family::kKill:
      what = Named(phase);
      break;
    case Family::kStop:
      what = Named(stop);
      break;
    case Family::kNetwork:
      what = Named(trouble);
      break;
    default:
      what = Named(mishap);
  }
  return absl::StrCat(NameOf(family), " ", Named(role), " ", Named(mode), ", ", what);
}

std::string Plan::ToString() const {
  std::string text = absl::StrCat("seed ", seed, ": ", Cell(), ": ", victim, " of ", num_ps, " ps and ",
                                  num_workers, " workers", has_evaluator ? " with an evaluator" : "",
                                  ", lease ", absl::FormatDuration(lease), ", from step ", at_step, " after ",
                                  absl::FormatDuration(delay));
  if (family == Family::kKill) {
    absl::StrAppend(&text, ", ", Named(comeback), " after ", absl::FormatDuration(pause));
    if (phase == Phase::kPushed) absl::StrAppend(&text, ", while ", frozen, " is stopped");
  }
  if (family == Family::kNetwork || family == Family::kMachine)
    absl::StrAppend(&text, ", for ", absl::FormatDuration(outage));
  return text;
}

absl::StatusOr<std::vector<Family>> FamiliesOf(const std::string& words) {
  std::vector<Family> families;
  for (const absl::string_view word : absl::StrSplit(words, ',')) {
    bool is_known = false;
    for (const Family family : {Family::kKill, Family::kStop, Family::kNetwork, Family::kMachine}) {
      if (word != NameOf(family)) continue;
      families.push_back(family);
      is_known = true;
    }
    if (!is_known) {
      return absl::InvalidArgumentError(
          absl::StrCat("--families takes kill, stop, network and machine, got '", word, "'"));
    }
  }
  return families;
}

}  // namespace weir
