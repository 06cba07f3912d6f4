// What a server is told when it starts, and what the environment says where it is told nothing.
//
// A value. Thread safety: none is needed. The functions that read the environment are called where options
// are made, and do not fail: what is wrong with a value CheckServerOptions says, or who uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "distributed/election/authority_store.h"
#include "distributed/peer_limits.h"
#include "distributed/process_age.h"
#include "distributed/security.h"
#include "distributed/server_metrics.h"
#include "distributed/transport/transport.h"
#include "kernels/environment.h"
#include "session/runtime.h"

namespace weir {

// What the environment variable says; empty when it is not set.
std::string TextFromEnvironment(const char* variable);

// $WEIR_ALLOWED_DIRS, "/models:/scratch".
std::vector<std::string> AllowedDirsFromEnvironment();

// $WEIR_MAX_WORKERS; 0 when it is not set, -1 when it is no number.
int MaxWorkersFromEnvironment();

struct ServerOptions {
  int num_cpus = 1;
  int num_fake_gpus = 0;
  int num_gpus = 0;          // of this machine; not beside fake ones
  bool cuda_graphs = true;   // RuntimeOptions
  int num_threads = 0;       // 0: $WEIR_NUM_THREADS, else all cores
  int64_t memory_limit = 0;  // bytes per device; 0: unlimited
  // Ops and kernels of the program's own (RuntimeOptions). Every task that such a node is placed on needs
  // them.
  const OpRegistry* ops = nullptr;
  std::function<void(KernelRegistry& registry, absl::string_view device_type)> register_kernels;
  // Where to listen, when it is not the address that the cluster spec tells the others: "0.0.0.0" or "[::]"
  // for all interfaces, another host, each with or without a port of its own. $WEIR_LISTEN.
  std::string listen = TextFromEnvironment("WEIR_LISTEN");
  // How long this task waits until the name of the host where it listens is known (Kubernetes gives a pod its
  // name when it runs).
  absl::Duration name_timeout = absl::Minutes(2);
  SecurityOptions security = SecurityFromEnvironment();
  // A peer without a sign of life for this long is lost. kMinLease to kMaxLease.
  absl::Duration lease = absl::Seconds(10);
  static constexpr absl::Duration kMinLease = absl::Milliseconds(100);
  static constexpr absl::Duration kMaxLease = absl::Hours(24);
  // How long a ps waits for a chief that is lost when all others are done: it may have been stopped, or be
  // started again, and nobody else saves what the ps holds. 0 to kMaxChiefGrace.
  absl::Duration chief_grace = absl::Minutes(10);
  static constexpr absl::Duration kMaxChiefGrace = absl::Hours(24 * 7);
  // How long a ps that is told to stop (SIGTERM) goes on serving while training tasks still run: told at the
  // same time, they may be saving what it holds. Kubernetes and Slurm kill after 30 s.
  // 0 to kMaxTerminationGrace.
  absl::Duration termination_grace = absl::Seconds(25);
  static constexpr absl::Duration kMaxTerminationGrace = absl::Hours(24);
  // How many tasks may train at a time. Those of the cluster spec have a place each until they are done or
  // lost; while there are others, workers that the cluster spec does not name may join the running job
  // (guests.h). 0: none may. Of the first ps, which lets tasks in. At most kMostWorkers. $WEIR_MAX_WORKERS.
  int max_workers = MaxWorkersFromEnvironment();
  static constexpr int kMostWorkers = 10'000;
  // The folders that graphs of other tasks may read and write on this machine (SaveV2, RestoreV2...). None:
  // all that this process may. $WEIR_ALLOWED_DIRS, with ':' between them.
  std::vector<std::string> allowed_dirs = AllowedDirsFromEnvironment();
  // How much of this task each other task may take, "steps=100,bytes=1000000" (peer_limits.h).
  // $WEIR_PEER_LIMITS.
  std::string peer_limits = PeerLimitsFromEnvironment();
  // Where Prometheus and probes find /metrics and /healthz: "9100", for this machine, or "0.0.0.0:9100" for
  // others too; "0" is a free port. Empty: nowhere. $WEIR_METRICS_PORT.
  std::string metrics_port = MetricsPortFromEnvironment();
  // An address for TensorFlow's clients, "127.0.0.1:4712", where this task demands a token or a certificate,
  // which they cannot show (docs/security.md). Without either they use the task's own address.
  // $WEIR_TENSORFLOW_CLIENTS.
  std::string tensorflow_clients = TextFromEnvironment("WEIR_TENSORFLOW_CLIENTS");
  // Unix sockets between tasks of one machine (transport/sockets). They are not encrypted, with TLS either:
  // nothing leaves the machine.
  bool uses_host_sockets = true;
  // Where tasks of other machines connect to for what is faster without gRPC (transport/sockets):
  // "7000-7099", the first of these ports that is free; empty: any free one; "off": nowhere, and this task
  // connects to no such port either. With TLS these connections are encrypted too. $WEIR_DATA_PORTS.
  std::string data_ports = TextFromEnvironment("WEIR_DATA_PORTS");
  // Where an election says which task the authority is (election/election.h):
  // "etcd://host:port,host:port/job", with a name of the job's own. Spoken to with TLS, and this job's
  // certificate, where the job has them. The same on all tasks. Empty: the first ps is the authority, without
  // a ps the chief. $WEIR_AUTHORITY_STORE.
  std::string authority_store = TextFromEnvironment("WEIR_AUTHORITY_STORE");
  // A file with one line "name:password": as whom etcd is asked, where it has users. Empty: as nobody.
  // $WEIR_AUTHORITY_STORE_USER_FILE.
  std::string authority_store_user_file = TextFromEnvironment("WEIR_AUTHORITY_STORE_USER_FILE");
  // For tests: instead of that one. Borrowed.
  AuthorityStore* election_store = nullptr;
  // For tests: instead of gRPC. Borrowed.
  Transport* transport = nullptr;
  // Its clock, threads and waits. A simulated one needs a transport of the simulation. Borrowed.
  Environment* environment = &RealEnvironment();
  // Which process this is, and how old it is by now. Of simulated ones; otherwise the system knows.
  ProcessOrigin simulated_process;
};

// InvalidArgument for a duration or a number of workers that is out of bounds, and for folders that are set
// but name none.
absl::Status CheckServerOptions(const ServerOptions& options);

}  // namespace weir
