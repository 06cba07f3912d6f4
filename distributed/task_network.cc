#include "distributed/task_network.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/farewell.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/task_status.h"
#include "graph/types/status_macros.h"
#include "graph/version.h"
#include "kernels/notice.h"
#include "session/monitored/exit_code.h"

namespace weir {

// Of the tasks that train, in the order of their ranks. A cluster spec is made of addresses that are whole.
static std::vector<std::string> HostsOf(const TaskConfig& task) {
  std::vector<std::string> hosts;
  for (const TaskName& worker : task.worker_tasks()) {
    const absl::StatusOr<std::string> address = task.cluster().address(worker);
    const absl::StatusOr<HostPort> parsed = HostPort::Parse(address.ok() ? *address : "");
    hosts.push_back(parsed.ok() ? parsed->host : worker.ToString());
  }
  return hosts;
}

TaskNetwork::TaskNetwork(const TaskConfig& task, Runtime& runtime, Membership& membership,
                         Transport& transport, TaskNetworkOptions options)
    : task_(task),
      membership_(membership),
      owned_transport_(std::move(options.owned_transport)),
      peers_(task.cluster(), transport, membership),
      pusher_(std::make_unique<TensorPusher>(peers_, TensorPusherOptions(),
                                             [this](PlanId plan, int64_t step, const absl::Status& reason) {
                                               service_.FailStep(plan, step, reason);
                                             })),
      worker_(std::make_unique<LocalWorker>(runtime, runtime.task(), pusher_.get())),
      service_(*worker_, runtime.ops(), membership, peers_, *pusher_, std::move(options.files),
               options.limits),
      probes_(peers_),
      // What is simulated has a start of its own.
      process_(membership.environment().is_simulated() ? options.simulated_process : OriginOfThisProcess()),
      age_before_(std::max(absl::ZeroDuration(), process_.age - membership.age())),
      members_(membership, peers_, probes_, process_.id, options.refused),
      master_(std::make_unique<MasterService>(options.master)) {
  // Workers of a cluster with parameter servers meet there.
  if (IsTrainingJob(task.job()) && task.num_ps() == 0) {
    replicas_ = std::make_unique<PeerGroup>(task.worker_tasks(), HostsOf(task), peers_);
  }
  membership_.AddLossListener([this](const TaskName& peer, Incarnation incarnation,
                                     const absl::Status& reason) { OnLoss(peer, incarnation, reason); });
  // What a task that is done had here, it needs no more. Its notices of that may have been lost.
  membership_.AddDoneListener([this](const TaskName& peer, Incarnation incarnation) {
    service_.OnLoss(peer, incarnation, absl::OkStatus());
  });
  membership_.AddSupersededListener([this](const absl::Status& why) { OnSuperseded(why); });
}

TaskNetwork::~TaskNetwork() {
  Stop(absl::ZeroDuration());
  master_.reset();
  // Until the last call is over, its reply may still say that somebody was lost, which concerns the worker
  // and the service.
  peers_.ShutdownAndWait();
  probes_.Stop();  // which may just have found that somebody is gone
  // A message that fails ends its step on the worker: none may be under way when the worker goes. Those
  // that its last steps still send fail at once.
  pusher_->WaitUntilIdle();
  {
    absl::MutexLock lock(&end_mutex_);
    has_ended_ = true;
  }
  worker_.reset();
  pusher_.reset();
  replicas_.reset();
}

absl::StatusOr<std::string> TaskNetwork::Listen(Transport& transport, const std::string& address,
                                                bool serves_clients) {
  const auto handle = [this, serves_clients](std::shared_ptr<IncomingCall> call) {
    Handle(std::move(call), serves_clients);
  };
  const auto place = [this](absl::string_view method, absl::string_view header, size_t index,
                            size_t num_bytes) {
    if (replicas_ != nullptr && PeerGroup::Handles(method)) {
      return replicas_->Place(method, header, index, num_bytes);
    }
    return service_.Place(method, header, index, num_bytes);
  };
  WEIR_ASSIGN_OR_RETURN(listener_, transport.Listen(address, handle, place));
  return listener_->address();
}

void TaskNetwork::Handle(std::shared_ptr<IncomingCall> call, bool serves_clients) {
  if (call->method() == kTaskStatusMethod) return ReplyStatus(*call);
  if (replicas_ != nullptr && PeerGroup::Handles(call->method())) {
    return replicas_->Handle(std::move(call));
  }
  if (MembershipService::Handles(call->method())) return members_.Handle(std::move(call));
  if (IsFramedMethod(call->method())) return service_.Handle(std::move(call));
  if (serves_clients && MasterService::Handles(call->method())) return master_->Handle(std::move(call));
  call->Reply(absl::UnimplementedError(
      absl::StrCat(task_.task().ToString(), " does not serve the method ", call->method())));
}

absl::Status TaskNetwork::NoteOwnAddress(const std::string& cluster_address, const std::string& bound) {
  WEIR_ASSIGN_OR_RETURN(HostPort own, HostPort::Parse(cluster_address));
  if (own.port != 0) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const HostPort listening, HostPort::Parse(bound));
  own.port = listening.port;
  peers_.SetOwnAddress(own.ToString());
  return absl::OkStatus();
}

absl::StatusOr<std::string> TaskNetwork::ListenToClients(const std::string& address, bool is_insecure) {
  WEIR_ASSIGN_OR_RETURN(clients_, ClientListener::Listen(address, is_insecure, *master_));
  return clients_->address();
}

void TaskNetwork::ReplyStatus(IncomingCall& call) {
  Frame reply;
  reply.header = EncodeTaskStatus({task_.task(), membership_.incarnation(), WEIR_VERSION,
                                   membership_.environment().TimeOfDay(), task_.cluster().ToFlag()});
  call.Reply(std::move(reply));
}

void TaskNetwork::StartElection(AuthorityStore& store) {
  election_ = std::make_unique<Election>(peers_, store);
}

void TaskNetwork::StartHeartbeats(absl::Duration lease) {
  heartbeats_ = std::make_unique<Heartbeats>(peers_, probes_, lease / 5, age_before_, process_.id);
}

void TaskNetwork::AnnounceDone(absl::Duration patience) {
  is_leaving_ = true;
  if (!membership_.is_authority()) return Farewell(task_, peers_).SayDone(patience);
  membership_.IssueLastView();
  // One that stands still for less than a lease is not lost, and waits for ever without it.
  members_.GiveLastView(std::max(patience, membership_.lease()));
}

void TaskNetwork::AnnounceLeave(const absl::Status& outcome, absl::Duration patience) {
  is_leaving_ = true;
  if (membership_.incarnation() == 0) return;
  // Told to stop, a program has not failed.
  const bool has_failed = ExitCodeFor(outcome) != kExitTerminated;
  Farewell(task_, peers_).SayLeave(patience, has_failed ? outcome.message() : "");
}

void TaskNetwork::Stop(absl::Duration patience) {
  if (is_stopping_.exchange(true)) return;
  if (election_ != nullptr) election_->Resign(patience);
  election_.reset();
  heartbeats_.reset();
  members_.Shutdown();
  if (clients_ != nullptr) clients_->Shutdown();
  if (listener_ != nullptr) listener_->Shutdown();
  peers_.Shutdown();
  master_->Shutdown();
}

Worker* TaskNetwork::remote(const TaskName& task) {
  absl::MutexLock lock(&mutex_);
  std::unique_ptr<RemoteWorker>& worker = remotes_[task];
  if (worker == nullptr) worker = std::make_unique<RemoteWorker>(peers_, task, *pusher_, *worker_);
  return worker.get();
}

void TaskNetwork::FailRunningSteps(const DeviceName* task, const absl::Status& reason) {
  absl::MutexLock lock(&end_mutex_);
  if (!has_ended_) worker_->owners()->FailRunningSteps(task, reason);
}

void TaskNetwork::OnSuperseded(const absl::Status& why) {
  PrintNotice(why.message());
  peers_.Shutdown(why);
  if (replicas_ != nullptr) replicas_->Shutdown(why);
  FailRunningSteps(nullptr, why);
}

void TaskNetwork::OnLoss(const TaskName& peer, Incarnation incarnation, const absl::Status& reason) {
  // Each of a thousand tasks hears of every loss. It concerns who has called the peer, unless that is
  // saying farewell itself: a ps that has heard that all are done goes at once.
  const bool concerns = membership_.is_authority() || peers_.contacted().contains(peer);
  if (concerns && !is_leaving_ && !is_stopping_ && membership_.superseded().ok()) {
    PrintNotice(absl::StrCat(task_.task().ToString(), ": ", reason.message()));
  }
  peers_.OnLoss(peer, incarnation, reason);
  service_.OnLoss(peer, incarnation, reason);
  const DeviceName device = {.job = peer.job, .replica = 0, .task = peer.index};
  FailRunningSteps(&device, reason);
  if (replicas_ != nullptr) replicas_->OnLoss(peer, incarnation, reason);
}

}  // namespace weir
