#include "tests/simulation/timed_network.h"

#include <algorithm>
#include <utility>

namespace weir {

TimedNetwork::TimedNetwork(Scheduler& scheduler, int num_machines, const MachineOptions& options)
    : scheduler_(scheduler),
      process_(scheduler.AddProcess("network")),
      options_(options),
      begin_(scheduler.now()) {
  const Machine idle = {.cores = std::vector<absl::Time>(options.num_cores, begin_),
                        .sends_until = begin_,
                        .receives_until = begin_};
  machines_.assign(num_machines, idle);
}

double TimedNetwork::busiest_link() const {
  absl::Duration busiest;
  for (const Machine& machine : machines_) busiest = std::max({busiest, machine.sent, machine.received});
  const absl::Duration all = scheduler_.now() - begin_;
  return all > absl::ZeroDuration() ? absl::FDivDuration(busiest, all) : 0;
}

void TimedNetwork::Send(int from, int to, int64_t num_bytes, absl::AnyInvocable<void()> arrive) {
  ++num_messages_;
  At(OccupyCore(machines_[from], num_bytes),
     [this, from, to, num_bytes, arrive = std::move(arrive)]() mutable {
       if (from == to) return TakeMessage(to, num_bytes, std::move(arrive));
       LeaveMachine(from, to, num_bytes, std::move(arrive));
     });
}

void TimedNetwork::LeaveMachine(int from, int to, int64_t num_bytes, absl::AnyInvocable<void()> arrive) {
  Machine& sender = machines_[from];
  const absl::Duration length = OnLink(num_bytes);
  const absl::Time leaves = std::max(scheduler_.now(), sender.sends_until);
  sender.sends_until = leaves + length;
  sender.sent += length;
  At(leaves + options_.latency, [this, to, num_bytes, arrive = std::move(arrive)]() mutable {
    ReachMachine(to, num_bytes, std::move(arrive));
  });
}

void TimedNetwork::ReachMachine(int to, int64_t num_bytes, absl::AnyInvocable<void()> arrive) {
  Machine& receiver = machines_[to];
  const absl::Duration length = OnLink(num_bytes);
  const absl::Time comes = std::max(scheduler_.now(), receiver.receives_until);
  receiver.receives_until = comes + length;
  receiver.received += length;
  At(receiver.receives_until, [this, to, num_bytes, arrive = std::move(arrive)]() mutable {
    TakeMessage(to, num_bytes, std::move(arrive));
  });
}

void TimedNetwork::TakeMessage(int to, int64_t num_bytes, absl::AnyInvocable<void()> arrive) {
  At(OccupyCore(machines_[to], num_bytes), std::move(arrive));
}

absl::Time TimedNetwork::OccupyCore(Machine& machine, int64_t num_bytes) {
  absl::Time& core = *std::min_element(machine.cores.begin(), machine.cores.end());
  core = std::max(core, scheduler_.now()) + options_.message_cost +
         absl::Seconds(static_cast<double>(num_bytes) / options_.core_bytes_per_second);
  return core;
}

absl::Duration TimedNetwork::OnLink(int64_t num_bytes) const {
  return absl::Seconds(static_cast<double>(num_bytes) / options_.link_bytes_per_second);
}

void TimedNetwork::At(absl::Time time, absl::AnyInvocable<void()> what) {
  scheduler_.AddEvent(process_, time, std::move(what));
}

}  // namespace weir
