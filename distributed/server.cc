#include "distributed/server.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/collectives/passing_groups.h"
#include "distributed/descriptor_limit.h"
#include "distributed/election/etcd/etcd_store.h"
#include "distributed/host_name.h"
#include "distributed/keys/certificate.h"
#include "distributed/life.h"
#include "distributed/listen_address.h"
#include "distributed/master/master_service.h"
#include "distributed/metrics/metered_transport.h"
#include "distributed/peers/peers.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/task_network.h"
#include "distributed/task_status.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "distributed/transport/sockets/socket_transport.h"
#include "distributed/transport/tcp/tcp_socket.h"
#include "graph/types/status_macros.h"
#include "graph/version.h"
#include "kernels/formats/allowed_files.h"
#include "kernels/notice.h"
#include "session/local_worker.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/termination.h"

namespace weir {

Server::Server(TaskConfig task, std::unique_ptr<Runtime> runtime, absl::Duration termination_grace)
    : task_(std::move(task)), termination_grace_(termination_grace), runtime_(std::move(runtime)) {}

Server::~Server() { Shutdown(); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const TaskConfig& task, const ServerOptions& options) {
  WEIR_RETURN_IF_ERROR(CheckServerOptions(options));
  RuntimeOptions runtime_options;
  runtime_options.job = task.job();
  runtime_options.task = task.task_index();
  runtime_options.num_cpus = options.num_cpus;
  runtime_options.num_fake_gpus = options.num_fake_gpus;
  runtime_options.num_gpus = options.num_gpus;
  runtime_options.cuda_graphs = options.cuda_graphs;
  runtime_options.num_threads = options.num_threads;
  runtime_options.memory_limit = options.memory_limit;
  runtime_options.ops = options.ops;
  runtime_options.register_kernels = options.register_kernels;
  runtime_options.environment = options.environment;
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Runtime> runtime, Runtime::Create(runtime_options));
  std::unique_ptr<Server> server(new Server(task, std::move(runtime), options.termination_grace));
  const bool is_alone = task.runs_alone() || task.is_evaluator();
  const bool is_elected =
      !is_alone && (options.election_store != nullptr || !options.authority_store.empty());
  server->membership_ =
      std::make_unique<Membership>(MembershipOptions{.self = task.task(),
                                                     .cluster = task.cluster(),
                                                     .lease = options.lease,
                                                     .environment = options.environment,
                                                     .chief_grace = options.chief_grace,
                                                     .max_workers = options.max_workers,
                                                     .names_are_proven = options.security.tls_task_names,
                                                     .is_elected = is_elected});
  if (!options.metrics_port.empty()) server->metrics_ = std::make_unique<Metrics>();
  // An evaluator talks to nobody.
  if (is_alone) {
    server->lone_worker_ = std::make_unique<LocalWorker>(*server->runtime_, server->runtime_->task());
    if (!task.is_evaluator()) {
      server->lone_replica_ = std::make_unique<LoneGroup>(task.task().ToString(), *options.environment);
    }
  } else {
    WEIR_RETURN_IF_ERROR(server->Connect(options));
  }
  WEIR_RETURN_IF_ERROR(server->OfferReplicas());
  WEIR_RETURN_IF_ERROR(server->OfferMetrics(options.metrics_port));
  return server;
}

// Whether a caller with these names in its certificate may send such a message. A question for this task's
// status has no sender.
static absl::Status AdmitsSender(const std::vector<std::string>& names, absl::string_view method,
                                 absl::string_view header) {
  if (!IsFramedMethod(method) || method == kTaskStatusMethod) return absl::OkStatus();
  WireReader reader(header);
  const Envelope envelope = Envelope::DecodeFrom(&reader);
  if (!reader.ok()) return absl::OkStatus();  // the handler says what is wrong
  return CheckCertificateNames(names, envelope.sender);
}

// A certificate that has expired, or is of another task, would be refused by all others.
static absl::Status CheckOwnCertificate(const TaskName& self, const SecurityOptions& security,
                                        const Environment& environment) {
  if (!security.tls_cert_file.empty()) {
    const absl::Status valid = CheckNotExpired(security.tls_cert_file, environment.TimeOfDay());
    if (!valid.ok()) {
      return absl::Status(valid.code(), absl::StrCat(self.ToString(), ": ", valid.message()));
    }
  }
  if (!security.tls_task_names) return absl::OkStatus();
  const std::string name = CertificateNameOf(self);
  WEIR_ASSIGN_OR_RETURN(const bool is_named, CertificateNames(security.tls_cert_file, name));
  if (is_named) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      self.ToString(), ": the certificate '", security.tls_cert_file, "' does not name this task: with ",
      "--tls_task_names (WEIR_TLS_TASK_NAMES) it must be for ", name, "; 'weir keys --tasks' makes such"));
}

static absl::StatusOr<std::optional<PortRange>> DataPorts(absl::string_view text) {
  if (text == "off") return std::nullopt;
  absl::StatusOr<PortRange> ports = ParsePortRange(text);
  if (ports.ok()) return *ports;
  return absl::InvalidArgumentError(absl::StrCat(
      "the ports for tensors (--data_ports, WEIR_DATA_PORTS): ", ports.status().message(), ", or 'off'"));
}

// ResourceExhausted where the system gives this process too few threads to serve with. gRPC has to be spared
// that: it waits for ever for the end of threads that it could not start.
static absl::Status CheckThreads(const std::string& task, Environment& environment) {
  constexpr size_t kThreads = 24;  // as many as one has before it has peers
  absl::Mutex gate;
  std::vector<std::unique_ptr<StartedThread>> threads;
  absl::Status enough;
  {
    absl::MutexLock lock(&gate);
    while (threads.size() < kThreads && enough.ok()) {
      auto thread = environment.StartThread([&gate] { absl::MutexLock wait(&gate); });
      if (thread.ok()) {
        threads.push_back(*std::move(thread));
      } else {
        enough = absl::Status(
            thread.status().code(),
            absl::StrCat(task, " needs ", kThreads, " threads to serve with, beside those ",
                         "that compute, and has got ", threads.size(), ": ", thread.status().message()));
      }
    }
  }
  for (const std::unique_ptr<StartedThread>& thread : threads) thread->Join();
  return enough;
}

// Those of the cluster spec, and the guests that may train beside them.
static int64_t MostTasks(const ClusterSpec& cluster, int max_workers) {
  const std::vector<TaskName> tasks = cluster.tasks();
  const int64_t num_training =
      std::count_if(tasks.begin(), tasks.end(), [](const TaskName& task) { return IsTrainingJob(task.job); });
  return static_cast<int64_t>(tasks.size()) + std::max<int64_t>(0, max_workers - num_training);
}

// gRPC; beside it sockets of our own.
static absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(const TaskConfig& task,
                                                                const ServerOptions& options,
                                                                const Membership& membership,
                                                                RefusedCalls& refused) {
  GrpcOptions grpc;
  grpc.security = options.security;
  grpc.admits = AdmitsSender;
  grpc.on_refused = [&refused](Refusal kind, absl::string_view caller, absl::string_view why) {
    refused.Count(kind, caller, why);
  };
  const int64_t limit = RaiseDescriptorLimit();
  const StrangerRoom room =
      RoomForStrangers(MostTasks(task.cluster(), options.max_workers), options.security.uses_tls(), limit);
  grpc.max_strangers = room.at_grpc;
  grpc.max_descriptors = DescriptorsForConnections(limit);
  grpc.is_serving = [&membership] { return membership.is_serving() && membership.superseded().ok(); };
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, MakeGrpcTransport(grpc));
  SocketTransportOptions sockets;
  sockets.unix_sockets = options.uses_host_sockets;
  WEIR_ASSIGN_OR_RETURN(sockets.tcp_ports, DataPorts(options.data_ports));
  sockets.on_refused = grpc.on_refused;
  sockets.max_strangers = room.at_sockets;
  sockets.max_descriptors = grpc.max_descriptors;
  sockets.encrypts_tcp = options.security.uses_tls();
  if (options.security.tls_task_names) sockets.admits = AdmitsSender;
  sockets.on_unreachable = [](const TaskName& peer, absl::string_view address, int port,
                              absl::string_view why) {
    PrintNotice(absl::StrCat(peer.ToString(), " at ", address, " cannot be reached at its port ", port, ": ",
                             why,
                             ". Tensors for it go over gRPC, which is slower (WEIR_DATA_PORTS says at which "
                             "ports a task listens for them)"));
  };
  const bool has_sockets = sockets.unix_sockets || sockets.tcp_ports.has_value();
  if (!has_sockets) return transport;
  return MakeSocketTransport(std::move(transport), sockets);
}

absl::Status Server::Connect(const ServerOptions& options) {
  refused_ = std::make_unique<RefusedCalls>(task_.task().ToString(), *options.environment);
  std::unique_ptr<Transport> owned;
  Transport* transport = options.transport;
  if (transport == nullptr) {
    WEIR_RETURN_IF_ERROR(CheckDescriptors(task_.task().ToString(), RaiseDescriptorLimit()));
    WEIR_RETURN_IF_ERROR(CheckThreads(task_.task().ToString(), *options.environment));
    const std::string words =
        WordsOfDescriptors(task_.task().ToString(), MostTasks(task_.cluster(), options.max_workers),
                           options.security.uses_tls(), RaiseDescriptorLimit());
    if (!words.empty()) PrintNotice(words);
    WEIR_ASSIGN_OR_RETURN(owned, MakeTransport(task_, options, *membership_, *refused_));
    WEIR_RETURN_IF_ERROR(CheckOwnCertificate(task_.task(), options.security, *options.environment));
    transport = owned.get();
  }
  if (options.election_store == nullptr && !options.authority_store.empty()) {
    WEIR_ASSIGN_OR_RETURN(authority_store_, MakeEtcdStore(options.authority_store, options.security,
                                                          options.authority_store_user_file));
  }
  if (metrics_ != nullptr) {
    metered_transport_ = MakeMeteredTransport(*transport, *metrics_, *options.environment);
    transport = metered_transport_.get();
  }
  WEIR_ASSIGN_OR_RETURN(const std::string cluster_address, task_.cluster().address(task_.task()));
  const absl::StatusOr<HostPort> listen = ListenAddress(options.listen, cluster_address);
  if (!listen.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(task_.task().ToString(), " cannot listen at '",
                                                   options.listen, "': ", listen.status().message()));
  }
  if (options.transport == nullptr) {
    WEIR_ASSIGN_OR_RETURN(
        const HostAddresses addresses,
        AwaitHost(task_.task().ToString(), listen->host, options.environment->Now() + options.name_timeout,
                  [&](const std::string& host) { return LookUpHost(host, absl::Seconds(5)); }));
    if (addresses.is_loopback) WarnOfUnreachable(task_, *listen);
    WEIR_ASSIGN_OR_RETURN(const HostPort own, HostPort::Parse(cluster_address));
    WarnOfStrangers(task_, options.security, own, addresses.is_loopback);
  }
  WEIR_ASSIGN_OR_RETURN(const PeerLimits limits, ParsePeerLimits(options.peer_limits));
  std::shared_ptr<FileSystem> files;
  if (!options.allowed_dirs.empty()) {
    WEIR_ASSIGN_OR_RETURN(files, AllowedFiles::In(options.allowed_dirs));
  }
  TaskNetworkOptions network = {.owned_transport = std::move(owned),
                                .files = files,
                                .limits = limits,
                                .refused = refused_.get(),
                                .simulated_process = options.simulated_process};
  network.master = {.ops = &runtime_->ops(),
                    .environment = options.environment,
                    .threads = &runtime_->step_threads(),
                    .target = [this] { return target_on_all_tasks(); },
                    .is_done = [this](const Worker& worker) { return IsDone(worker); },
                    .host = cluster_address,
                    .files = std::move(files),
                    .limits = limits};
  network_ = std::make_unique<TaskNetwork>(task_, *runtime_, *membership_, *transport, std::move(network));
  absl::StatusOr<std::string> bound =
      network_->Listen(*transport, listen->ToString(),
                       /*serves_clients=*/!options.security.authenticates() && !options.security.uses_tls());
  if (!bound.ok()) {
    return absl::Status(bound.status().code(),
                        absl::StrCat(task_.task().ToString(), " ", bound.status().message()));
  }
  address_ = absl::StrCat("grpc://", *bound);
  WEIR_RETURN_IF_ERROR(network_->NoteOwnAddress(cluster_address, *bound));
  WEIR_RETURN_IF_ERROR(OfferToClients(options));
  if (AuthorityStore* const store = election_store(options); store != nullptr) {
    network_->StartElection(*store);
  }
  network_->StartHeartbeats(options.lease);
  return absl::OkStatus();
}

AuthorityStore* Server::election_store(const ServerOptions& options) const {
  return options.election_store != nullptr ? options.election_store : authority_store_.get();
}

// Where a token or a certificate is asked for, they need an address of their own.
absl::Status Server::OfferToClients(const ServerOptions& options) {
  clients_address_ = options.security.authenticates() || options.security.uses_tls() ? "" : address_;
  if (options.tensorflow_clients.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> bound =
      network_->ListenToClients(options.tensorflow_clients, options.security.insecure);
  if (!bound.ok()) {
    return absl::Status(bound.status().code(),
                        absl::StrCat(task_.task().ToString(), " ", bound.status().message()));
  }
  clients_address_ = absl::StrCat("grpc://", *bound);
  return absl::OkStatus();
}

std::string Server::Describe() const {
  const bool has_own = !clients_address_.empty() && clients_address_ != address_;
  return absl::StrCat("serving ", task_.task().ToDevicePrefix(), " at ", address_,
                      has_own ? absl::StrCat(", TensorFlow's clients at ", clients_address_) : "");
}

SessionTarget Server::TargetOn(const std::vector<TaskName>& tasks) {
  SessionTarget target;
  target.default_task = runtime_->task();
  target.kernels = &runtime_->kernels();
  target.environment = &runtime_->environment();
  if (network_ != nullptr) {
    target.life = [members = membership_.get()] { return members->incarnation(); };
    target.note_life = [members = membership_.get()](uint64_t life) {
      if (life <= kLastLife) members->OnGranted(life);  // else nobody has granted it
    };
    target.chief_is_done = [members = membership_.get(), chief = ChiefOf(task_.cluster())] {
      return members->state(chief) == Membership::State::kDone;
    };
    target.met_chief = [members = membership_.get(), chief = ChiefOf(task_.cluster())] {
      return members->state(chief) == MemberState::kAlive ? SessionTarget::kChiefIsThere
                                                          : members->incarnation_of(chief);
    };
  }
  target.workers.push_back(network_ != nullptr ? network_->local() : lone_worker_.get());
  for (const TaskName& task : tasks) {
    if (task != task_.task()) target.workers.push_back(network_->remote(task));
  }
  return target;
}

bool Server::IsDone(const Worker& worker) const {
  const DeviceName& device = worker.task();
  const TaskName task = {device.job.value_or(""), device.task.value_or(0)};
  return task != task_.task() && membership_->state(task) == Membership::State::kDone;
}

SessionTarget Server::target() {
  return TargetOn(network_ != nullptr ? task_.cluster().tasks("ps") : std::vector<TaskName>());
}

SessionTarget Server::target_on_all_tasks() {
  return TargetOn(network_ != nullptr ? task_.cluster().tasks() : std::vector<TaskName>());
}

absl::StatusOr<std::unique_ptr<Session>> Server::CreateSession(const Graph& graph,
                                                               const SessionOptions& options) {
  SessionOptions own = options;
  own.environment = &runtime_->environment();
  return Session::Create(graph, target().workers, runtime_->kernels(), own);
}

int Server::Join() {
  if (task_.job() != "ps") return ServeUntilTheEnd();
  const absl::StatusOr<std::unique_ptr<Termination>> termination =
      Termination::Watch([this] { OnSigterm(); });
  if (!termination.ok()) {
    // As without it: the signal ends the process.
    PrintNotice(absl::StrCat(task_.task().ToString(), ": ", termination.status().message()));
  }
  if (Termination::IsRequested()) OnSigterm();
  return ServeUntilTheEnd();
}

// Of a ps that knows of no training task that runs; empty when one does, and for others, which wait for
// nobody.
static std::string DescribeAbsentTasks(const TaskConfig& task, const Membership& membership) {
  if (task.job() != "ps") return "";
  std::vector<std::string> names;
  // Without the authority nobody says who runs.
  const bool is_told =
      membership.is_authority() || membership.state(membership.authority()) != MemberState::kLost;
  // Guests may come and go.
  if (!membership.RunningTasks().empty()) return "";
  for (const TaskName& other : task.worker_tasks()) {
    const Membership::State state = membership.state(other);
    if (is_told && state == MemberState::kAlive) return "";
    if (state != Membership::State::kDone) names.push_back(other.ToString());
  }
  return absl::StrJoin(names, ", ");
}

int Server::ServeUntilTheEnd() {
  constexpr absl::Duration kPatience = absl::Seconds(10);
  bool is_over = false;
  while (!is_over && membership_->is_serving()) {
    is_over = membership_->AwaitEndOfJob(membership_->environment().Now() + kPatience);
    if (!membership_->is_serving()) break;
    const std::string chief = is_over ? "" : membership_->DescribeAwaitedChief();
    if (!chief.empty()) {
      PrintNotice(absl::StrCat(task_.task().ToString(), " waits for ", chief,
                               ": only the chief saves what was learned"));
    } else if (const std::string absent = is_over ? "" : DescribeAbsentTasks(task_, *membership_);
               !absent.empty()) {
      PrintNotice(absl::StrCat(task_.task().ToString(), " waits for ", absent,
                               ", and has heard of nobody who trains for a while"));
    }
  }
  is_over = membership_->AwaitEndOfJob(membership_->environment().Now());
  if (const absl::Status superseded = membership_->superseded(); !superseded.ok()) {
    return ExitCodeFor(superseded);
  }
  return is_told_to_leave_ && !is_over ? kExitTerminated : kExitDone;
}

void Server::OnSigterm() {
  if (is_told_to_leave_.exchange(true)) return;
  const std::vector<TaskName> running = membership_->RunningTasks();
  if (!running.empty()) {
    const std::string tasks = absl::StrJoin(
        running, ", ", [](std::string* out, const TaskName& task) { out->append(task.ToString()); });
    PrintNotice(absl::StrCat(task_.task().ToString(), " was told to stop: it serves until ", tasks,
                             running.size() == 1 ? " has" : " have", " ended, for ",
                             absl::FormatDuration(termination_grace_), " at most"));
  }
  membership_->RequestLeave(membership_->environment().Now() + termination_grace_);
}

void Server::Shutdown(const absl::Status& outcome) {
  {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(is_shut_down_, true)) return;
  }
  // A ps that leaves before the end of the job may come again.
  const bool has_ended = membership_->AwaitEndOfJob(absl::InfinitePast());
  membership_->StopWaiting();
  if (network_ == nullptr) return;
  if (network_->replicas() != nullptr) {
    network_->replicas()->Leave(outcome, kFarewell);
  }
  if (outcome.ok() && (IsTrainingJob(task_.job()) || has_ended)) {
    network_->AnnounceDone(kFarewell);
  } else {
    network_->AnnounceLeave(outcome, kFarewell);
  }
  network_->Stop(kFarewell);
}

CollectiveGroup* Server::replicas() {
  return network_ != nullptr ? static_cast<CollectiveGroup*>(network_->replicas()) : lone_replica_.get();
}

// For graphs of TensorFlow's clients.
static absl::Status OfferPassingGroups(Runtime& runtime, Environment& environment) {
  std::vector<std::string> names;
  for (const std::unique_ptr<Device>& device : runtime.devices()) names.push_back(device->name().ToString());
  const RefPtr<PassingGroups> groups = MakePassingGroups(std::move(names), environment);
  for (const std::unique_ptr<Device>& device : runtime.devices()) {
    const auto offered = device->resources().LookupOrCreate<PassingGroups>(
        Communicator::kContainer, PassingGroups::kName,
        [&]() -> absl::StatusOr<RefPtr<PassingGroups>> { return groups; });
    WEIR_RETURN_IF_ERROR(offered.status());
  }
  return absl::OkStatus();
}

// Where the kernels of collective ops look for it.
absl::Status Server::OfferReplicas() {
  WEIR_RETURN_IF_ERROR(OfferPassingGroups(*runtime_, runtime_->environment()));
  if (replicas() == nullptr) return absl::OkStatus();
  const RefPtr<Communicator> ranks = replicas()->ranks();
  for (const std::unique_ptr<Device>& device : runtime_->devices()) {
    const auto offered = device->resources().LookupOrCreate<Communicator>(
        Communicator::kContainer, Communicator::kName,
        [&]() -> absl::StatusOr<RefPtr<Communicator>> { return ranks; });
    WEIR_RETURN_IF_ERROR(offered.status());
  }
  return absl::OkStatus();
}

absl::Status Server::OfferMetrics(const std::string& port) {
  if (port.empty()) return absl::OkStatus();
  const ServerMetrics::Sources sources = {.task = &task_,
                                          .membership = membership_.get(),
                                          .runtime = runtime_.get(),
                                          .worker = &local_worker(),
                                          .use = network_ != nullptr ? &network_->peer_use() : nullptr,
                                          .inbound = network_ != nullptr ? &network_->inbound() : nullptr,
                                          .refused = refused_.get(),
                                          .metrics = metrics_.get()};
  WEIR_ASSIGN_OR_RETURN(pages_, ServerMetrics::Start(port, sources));
  return absl::OkStatus();
}

Runtime& Server::runtime() { return *runtime_; }
Membership& Server::membership() { return *membership_; }
const LocalWorker& Server::local_worker() const {
  return network_ != nullptr ? *network_->local() : *lone_worker_;
}

}  // namespace weir
