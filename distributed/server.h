// One task of a cluster: its runtime, its place among the others, and sessions over them.
//
//   TaskConfig task = TaskConfigFromEnvironment().value();
//   auto server = Server::Start(task).value();
//   if (task.job() == "ps") return server->Join();
//   auto session = MonitoredTrainingSession(g, {.target = server->target(), .is_chief = task.is_chief()});
//
// A program that runs alone gets a server without a network: same code, one process.
//
// Threads: the transport's (a few), one timer, the runtime's pool. Thread safety: all methods.
// Lifetime: destroy sessions before the server. Its destructor calls Shutdown(OK).
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "distributed/collectives/collective_group.h"
#include "distributed/election/authority_store.h"
#include "distributed/membership.h"
#include "distributed/server_metrics.h"
#include "distributed/server_options.h"
#include "distributed/task_config.h"
#include "distributed/transport/transport.h"
#include "kernels/environment.h"
#include "session/runtime.h"
#include "session/session.h"
#include "session/session_target.h"

namespace weir {

class TaskNetwork;

class LocalWorker;

class Server {
 public:
  // Possible errors: InvalidArgument (options, an address that is none, an allowed folder that is none),
  // AlreadyExists (the port is in use), FailedPrecondition (reachable by others without protection, too few
  // descriptors),
  // Unavailable (the name of the host where it listens did not resolve within options.name_timeout).
  static absl::StatusOr<std::unique_ptr<Server>> Start(const TaskConfig& task,
                                                       const ServerOptions& options = {});
  ~Server();

  const TaskConfig& task() const { return task_; }
  // "grpc://127.0.0.1:4711"; "local" when the program runs alone.
  const std::string& address() const { return address_; }
  // Where TensorFlow's clients call, "grpc://127.0.0.1:4712"; empty for a process alone.
  const std::string& clients_address() const { return clients_address_; }
  // Of /metrics; 0 when there are none.
  int metrics_port() const { return pages_ != nullptr ? pages_->port() : 0; }
  // "serving /job:ps/replica:0/task:0 at grpc://127.0.0.1:4711".
  std::string Describe() const;

  // What this task's sessions run on: itself and every ps. Other workers may come and go.
  SessionTarget target();
  // Every task of the cluster: for graphs that name devices of other workers, and for serving other programs'
  // graphs.
  SessionTarget target_on_all_tasks();

  // A session on target(); waits for the tasks to come up, until options.operation_timeout.
  absl::StatusOr<std::unique_ptr<Session>> CreateSession(const Graph& graph,
                                                         const SessionOptions& options = {});

  // Serves until the job is over (membership.h says when) or Shutdown is called. A ps takes the first SIGTERM
  // meanwhile (termination.h) as a request to leave: it serves until all training tasks have gone, for
  // options.termination_grace at most; a second one ends it. Returns the process's exit code: 0, 143 when it
  // was told to leave before the job was over, or 5 when another process has taken its place.
  int Join();

  // Leaves the cluster. A training task first tells every ps, for up to `kFarewell`: with OK that it is done
  // (for a lease more while the authority is silent: farewell.h); with an error that it leaves, and may come
  // again. Then it counts as lost until it is back. Calls and steps under way end with Cancelled. Idempotent.
  void Shutdown(const absl::Status& outcome = absl::OkStatus());

  static constexpr absl::Duration kFarewell = absl::Seconds(3);

  // The workers as replicas of one model, each with variables of its own; null where parameter servers hold
  // the variables, and for an evaluator. Not formed yet.
  CollectiveGroup* replicas();

  Runtime& runtime();
  Membership& membership();
  // What runs on this task.
  const LocalWorker& local_worker() const;

 private:
  Server(TaskConfig task, std::unique_ptr<Runtime> runtime, absl::Duration termination_grace);
  absl::Status Connect(const ServerOptions& options);
  // Null when no task is elected.
  AuthorityStore* election_store(const ServerOptions& options) const;
  absl::Status OfferToClients(const ServerOptions& options);
  absl::Status OfferReplicas();
  absl::Status OfferMetrics(const std::string& port);
  void OnSigterm();
  int ServeUntilTheEnd();
  bool IsDone(const Worker& worker) const;
  SessionTarget TargetOn(const std::vector<TaskName>& tasks);

  TaskConfig task_;
  const absl::Duration termination_grace_;
  std::atomic<bool> is_told_to_leave_{false};
  std::string address_ = "local";
  std::string clients_address_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<AuthorityStore> authority_store_;  // null when no task is elected
  std::unique_ptr<RefusedCalls> refused_;            // null for one that talks to nobody
  std::unique_ptr<Metrics> metrics_;                 // null when nobody asks for them
  std::unique_ptr<Transport> metered_transport_;     // likewise
  std::unique_ptr<TaskNetwork> network_;             // null for a server that is alone
  std::unique_ptr<LocalWorker> lone_worker_;
  std::unique_ptr<CollectiveGroup> lone_replica_;
  std::unique_ptr<ServerMetrics> pages_;
  absl::Mutex mutex_;
  bool is_shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace weir
