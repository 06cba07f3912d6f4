// The parts of a task that talk to other tasks: its peers, what it serves them, membership over the network,
// elections, heartbeats, replicas, TensorFlow's clients. A task that runs alone has none of this (server.h).
//
// It is put together in steps, in this order: the constructor, Listen, NoteOwnAddress, StartElection where
// somebody is elected, StartHeartbeats; ListenToClients at any time. It ends with one of AnnounceDone and
// AnnounceLeave, then Stop, then the destructor.
//
// Ownership: borrows the runtime, the membership and the transport, which outlive it. Threads: the steps of
// building and ending are called by one thread; what arrives is handled on the transport's threads meanwhile.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/collectives/peer_group.h"
#include "distributed/election/authority_store.h"
#include "distributed/election/election.h"
#include "distributed/master/client_listener.h"
#include "distributed/master/master_service.h"
#include "distributed/membership.h"
#include "distributed/membership_service.h"
#include "distributed/metrics/refused_calls.h"
#include "distributed/peer_limits.h"
#include "distributed/peers/heartbeats.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/probes.h"
#include "distributed/peers/tensor_pusher.h"
#include "distributed/process_age.h"
#include "distributed/remote_worker.h"
#include "distributed/task_config.h"
#include "distributed/transport/transport.h"
#include "distributed/worker_service.h"
#include "session/local_worker.h"
#include "session/runtime.h"

namespace weir {

struct TaskNetworkOptions {
  std::unique_ptr<Transport> owned_transport;  // that lives as long as the network; or null
  std::shared_ptr<FileSystem> files;           // what graphs of other tasks may read and write; null: all
  PeerLimits limits;
  RefusedCalls* refused = nullptr;  // counts them; borrowed, or null
  MasterOptions master;
  ProcessOrigin simulated_process;  // ServerOptions
};

class TaskNetwork {
 public:
  TaskNetwork(const TaskConfig& task, Runtime& runtime, Membership& membership, Transport& transport,
              TaskNetworkOptions options);
  ~TaskNetwork();

  // Returns the address bound. `serves_clients`: TensorFlow's clients, who have no token and no certificate
  // that names a task, may call. Errors of the transport.
  absl::StatusOr<std::string> Listen(Transport& transport, const std::string& address, bool serves_clients);

  // Of a task that has any free port: the others are told which it is.
  absl::Status NoteOwnAddress(const std::string& cluster_address, const std::string& bound);

  // At an address of their own. Returns the address bound; errors of ClientListener.
  absl::StatusOr<std::string> ListenToClients(const std::string& address, bool is_insecure);

  // Before the heartbeats. Borrows the store.
  void StartElection(AuthorityStore& store);

  // Of two processes the one that was started later is the task, however long the other was stopped before it
  // came here.
  void StartHeartbeats(absl::Duration lease);

  // Says farewell for as long (farewell.h). Done: also when this task has not joined yet, which it does
  // meanwhile, for every ps waits to hear of it.
  void AnnounceDone(absl::Duration patience);
  void AnnounceLeave(const absl::Status& outcome, absl::Duration patience);

  // Nothing arrives any more, and calls under way end, which ends the steps that wait for them. The workers
  // stay: sessions may still hold them. Who is elected resigns first, for up to `patience`.
  void Stop(absl::Duration patience);

  LocalWorker* local() { return worker_.get(); }
  // The same one at every call for one task.
  Worker* remote(const TaskName& task);

  const PeerUse& peer_use() const { return service_.use(); }
  const InboundBudget& inbound() const { return service_.inbound(); }

  // Null where there are parameter servers.
  PeerGroup* replicas() { return replicas_.get(); }

 private:
  void Handle(std::shared_ptr<IncomingCall> call, bool serves_clients);
  void ReplyStatus(IncomingCall& call);
  // Of this process's sessions.
  void FailRunningSteps(const DeviceName* task, const absl::Status& reason);
  // Nothing that this process asks for is done any more. What others ask of it may go on until it ends.
  void OnSuperseded(const absl::Status& why);
  void OnLoss(const TaskName& peer, Incarnation incarnation, const absl::Status& reason);

  const TaskConfig& task_;
  Membership& membership_;
  std::atomic<bool> is_leaving_{false};
  std::atomic<bool> is_stopping_{false};
  const std::unique_ptr<Transport> owned_transport_;
  Peers peers_;
  std::unique_ptr<TensorPusher> pusher_;
  std::unique_ptr<LocalWorker> worker_;
  WorkerService service_;
  Probes probes_;
  const ProcessOrigin process_;
  const absl::Duration age_before_;  // when membership began
  MembershipService members_;
  std::unique_ptr<PeerGroup> replicas_;
  std::unique_ptr<MasterService> master_;
  std::unique_ptr<ClientListener> clients_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Election> election_;  // null where nobody is elected
  std::unique_ptr<Heartbeats> heartbeats_;
  absl::Mutex end_mutex_;
  bool has_ended_ ABSL_GUARDED_BY(end_mutex_) = false;  // the worker goes, or has gone
  absl::Mutex mutex_;
  std::map<TaskName, std::unique_ptr<RemoteWorker>> remotes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
