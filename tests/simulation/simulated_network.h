// A network between simulated processes, with every fault a real one has, by seed.
//
// Messages are events of the process that gets them, so a paused process gets its own when it is resumed.
// Each takes a while, each another one: later ones overtake. What else may happen to a message is drawn by
// chance (NetworkOptions), or ordered:
//
// * A link that is cut in one direction drops what is sent there, as a firewall does without a word. Nobody
// is
//   told. What was sent meanwhile comes when the link heals (TCP sends it again), but a connection that is
//   silent for kKeepAlive breaks: its calls end with Unavailable on the caller's side, whether or not they
//   were executed.
// * A link that flaps resets: whatever is sent there ends with Unavailable at once. A reply that is lost so
//   was executed.
// * A process that is killed resets its connections and refuses new ones.
// * A process that is paused keeps its connections for kKeepAlive; then its callers break them.
//
// A channel keeps its connection while it is good, even if another process has the address by now: two
// processes that both take themselves for a task are both heard.
//
// Implements the contract of distributed/transport/transport.h. Thread safety: as the scheduler's.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/transport/transport.h"
#include "kernels/simulation/simulated_environment.h"

namespace weir {

struct NetworkOptions {
  absl::Duration min_delay = absl::Microseconds(200);
  absl::Duration max_delay = absl::Milliseconds(5);
  // The share of messages that take `long_delay` more.
  double slow = 0;
  absl::Duration long_delay = absl::Milliseconds(300);
  // The share of requests, and of replies, that are lost with their connection.
  double lost_requests = 0;
  double lost_replies = 0;
  // The share of requests that come twice.
  double repeated = 0;
};

class SimulatedNetwork {
 public:
  static constexpr absl::Duration kKeepAlive = absl::Seconds(10);
  using Process = Scheduler::Process;

  SimulatedNetwork(Scheduler& scheduler, const NetworkOptions& options);
  ~SimulatedNetwork();

  // A process's own way into the network.
  std::unique_ptr<Transport> MakeTransport(SimulatedEnvironment& environment);

  // Of messages from one process to another: requests and replies alike.
  void Cut(const Process& from, const Process& to);
  void Flap(const Process& from, const Process& to);
  // The end of both.
  void Heal(const Process& from, const Process& to);
  // The system closes its connections and its port.
  void Kill(const Process& process);
  // Frees its addresses for another process, as whoever starts tasks does with one that it thinks dead.
  // Connections to it stay.
  void TakeAddresses(const Process& process);
  // Every call fails from now on.
  void Close();

  int num_messages() const { return num_messages_; }

 private:
  friend class SimulatedListener;
  friend class SimulatedChannel;
  friend class SimulatedCall;
  friend class SimulatedRequest;
  enum class LinkState { kGood, kCut, kFlaps };
  using Link = std::pair<const Process*, const Process*>;
  struct Held {
    Link link;
    absl::AnyInvocable<void()> deliver;
  };

  LinkState StateOf(const Process& from, const Process& to) const;
  absl::Duration Delay();
  bool Happens(double share);
  // Brings a message to `to`, sooner or later; `lost` is told, on the process `caller`, when its connection
  // has broken instead.
  void Send(Process& from, Process& to, Process& caller, absl::string_view what,
            absl::AnyInvocable<void()> deliver, absl::AnyInvocable<void()> lost);
  void Deliver(Process& to, absl::AnyInvocable<void()> deliver);
  void Remember(const std::shared_ptr<class SimulatedCall>& call);
  std::vector<std::shared_ptr<class SimulatedCall>> CallsBetween(const Process& one, const Process* other);

  Scheduler& scheduler_;
  const NetworkOptions options_;
  bool is_closed_ = false;
  std::map<std::string, class SimulatedListener*> listeners_;               // by address
  std::map<const Process*, class SimulatedListener*> listener_of_process_;  // also without its address
  std::map<Link, LinkState> links_;
  std::map<uint64_t, Held> held_;
  uint64_t next_held_ = 1;
  std::map<uint64_t, std::weak_ptr<class SimulatedCall>> calls_;  // in the order in which they were made
  uint64_t next_call_ = 1;
  int num_messages_ = 0;
};

}  // namespace weir
