// What shall befall a job, drawn by a seed.
//
// The cells of a family (role, mode, phase...) are gone through in order, so that so many seeds meet each of
// them equally often; all else is random. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace weir {

enum class Family { kKill, kStop, kNetwork, kMachine };
enum class Role { kPs, kChief, kWorker, kEvaluator, kLauncher };
enum class Mode { kAsync, kSync, kBackup, kReplicas };
// When a process is killed.
enum class Phase { kBeforeInit, kMidStep, kPushed, kCheckpoint, kShutdown };
// Where the killed process is started again.
enum class Comeback { kSameAddress, kOtherPort, kNever };
// For how long a process is stopped.
enum class Stop { kOneSecond, kTwoLeases, kUntilOthersEnd, kReplaced, kReplacedUntilOthersEnd };
// What befalls the links between the victim and all others.
enum class Trouble {
  kPartition,
  kDeafPartition,
  kMutePartition,
  kReset,
  kFlap,
  kHostDeath,
  kDelay,
  kSlow,
  kCut
};

// What befalls the victim's machine: its cable is pulled and put back, once or ten times; it loses its power,
// and another one gets its name; the victim is killed and comes again, but its name is not known for a while;
// its link is slow; or nothing, but that $http_proxy is set on all machines.
enum class Mishap { kCable, kLooseCable, kPower, kName, kRate, kProxy };

struct Plan {
  uint64_t seed = 0;
  Family family = Family::kKill;
  Role role = Role::kWorker;
  Mode mode = Mode::kAsync;
  Phase phase = Phase::kMidStep;
  Comeback comeback = Comeback::kSameAddress;
  Stop stop = Stop::kOneSecond;
  Trouble trouble = Trouble::kPartition;
  Mishap mishap = Mishap::kCable;

  int num_ps = 1;
  int num_workers = 2;
  bool has_evaluator = false;
  std::string victim;  // "ps:1"
  std::string frozen;  // Phase::kPushed: who is stopped meanwhile, so that what is pushed is not applied
  absl::Duration lease;
  double slowness = 1;  // of the machine; the bound of the run is as many times as long
  int last_step = 60;
  int step_ms = 20;
  int at_step = 0;        // not before this step
  absl::Duration delay;   // after what is awaited for the phase
  absl::Duration pause;   // before the killed process is started again
  absl::Duration outage;  // how long a link is in trouble

  // In one line.
  std::string ToString() const;
  // "kill ps async kMidStep", the class that statistics count.
  std::string Cell() const;
};

Plan DrawPlan(uint64_t seed, Family family);
int NumCells(Family family);
// "kill,stop,network,machine". InvalidArgument names the word that is none of these.
absl::StatusOr<std::vector<Family>> FamiliesOf(const std::string& words);
std::string NameOf(Family family);

}  // namespace weir
