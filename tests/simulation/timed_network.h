// How long messages between machines take: the part of a simulation that predicts speed instead of looking
// for faults. Nothing is lost, and nothing depends on chance.
//
// A message goes through five stages, and waits in front of each until what came before it is through:
//
// 1. a core of the sending machine, for `message_cost` and its bytes at `core_bytes_per_second`;
// 2. the sending machine's link, for its bytes at `link_bytes_per_second`;
// 3. the way, for `latency`;
// 4. the receiving machine's link, likewise, beginning with the first byte that comes (a switch that cuts
//    through, and has room for what waits);
// 5. a core of the receiving machine, as in 1.
//
// A message within one machine has stages 1 and 5 alone. Links are full duplex.
//
// Thread safety: as the scheduler's.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "kernels/simulation/scheduler.h"

namespace weir {

struct MachineOptions {
  int num_cores = 4;  // that work for messages
  double link_bytes_per_second = 1.25e9;
  absl::Duration latency = absl::Microseconds(20);
  absl::Duration message_cost = absl::Microseconds(50);
  double core_bytes_per_second = 2.85e9;
};

class TimedNetwork {
 public:
  // Borrows the scheduler.
  TimedNetwork(Scheduler& scheduler, int num_machines, const MachineOptions& options);

  // Calls `arrive` when the message is through. Machines are numbered from 0.
  void Send(int from, int to, int64_t num_bytes, absl::AnyInvocable<void()> arrive);

  int64_t num_messages() const { return num_messages_; }
  // The greatest share of the time since the beginning that a machine's link was busy in one direction.
  double busiest_link() const;

 private:
  // What one message after the other occupies.
  struct Machine {
    std::vector<absl::Time> cores;  // until when each is busy
    absl::Time sends_until, receives_until;
    absl::Duration sent, received;  // how long its link was busy
  };

  absl::Time OccupyCore(Machine& machine, int64_t num_bytes);
  absl::Duration OnLink(int64_t num_bytes) const;
  void LeaveMachine(int from, int to, int64_t num_bytes, absl::AnyInvocable<void()> arrive);
  void ReachMachine(int to, int64_t num_bytes, absl::AnyInvocable<void()> arrive);
  void TakeMessage(int to, int64_t num_bytes, absl::AnyInvocable<void()> arrive);
  void At(absl::Time time, absl::AnyInvocable<void()> what);

  Scheduler& scheduler_;
  Scheduler::Process& process_;
  const MachineOptions options_;
  const absl::Time begin_;
  std::vector<Machine> machines_;
  int64_t num_messages_ = 0;
};

}  // namespace weir
