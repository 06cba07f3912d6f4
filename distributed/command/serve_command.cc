#include "distributed/command/serve_command.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "distributed/command/flag_parser.h"
#include "distributed/command/idle_memory.h"
#include "distributed/command/program_input.h"
#include "distributed/server.h"
#include "graph/types/status_macros.h"
#include "kernels/environment.h"
#include "kernels/notice.h"
#include "kernels/system_thread.h"

namespace weir {
namespace {

struct ServeFlags {
  std::string cluster_spec;
  std::string job_name;
  int task_index = 0;
  std::string token_file;
  std::string allowed_dirs;
  bool ends_with_stdin = false;
  double lease_seconds;
  double termination_grace_seconds;
  ServerOptions server;

  explicit ServeFlags(const ServerOptions& options)
      : lease_seconds(absl::ToDoubleSeconds(options.lease)),
        termination_grace_seconds(absl::ToDoubleSeconds(options.termination_grace)),
        server(options) {}
};

void Declare(ServeFlags* values, FlagParser* flags) {
  flags->Add("cluster_spec", &values->cluster_spec,
             "all tasks: 'ps|host:port,worker|host:port;host:port' (or $TF_CONFIG)");
  flags->Add("job_name", &values->job_name, "which job this task belongs to");
  flags->Add("task_index", &values->task_index, "its index in the job", {.least = 0});
  flags->Add(
      "listen", &values->server.listen,
      "listen here instead of at the cluster's address: '0.0.0.0' for all interfaces, with ':port' for "
      "another port (or $WEIR_LISTEN)");
  flags->Add(
      "data_ports", &values->server.data_ports,
      "where tasks of other machines connect to for tensors, without gRPC: '7000-7099', the first free "
      "one, or 'off' (or $WEIR_DATA_PORTS); default: any free port");
  flags->Add("num_cpus", &values->server.num_cpus, "CPU devices", {.least = 1, .most = Runtime::kMaxDevices});
  flags->Add("num_fake_gpus", &values->server.num_fake_gpus,
             "GPU devices on host memory, to try out placement", {.least = 0, .most = Runtime::kMaxDevices});
  flags->Add("num_gpus", &values->server.num_gpus,
             "GPU devices that are GPUs of NVIDIA's in this machine; not beside fake ones",
             {.least = 0, .most = Runtime::kMaxDevices});
  flags->Add("cuda_graphs", &values->server.cuda_graphs,
             "whether steps that repeat what earlier ones have asked of a GPU launch it as one");
  flags->Add("num_threads", &values->server.num_threads, "threads to compute with; 0: all cores",
             {.least = 0, .most = Runtime::kMaxThreads});
  flags->Add("max_workers", &values->server.max_workers,
             "of the first ps: workers that the cluster spec does not name may join the running job while "
             "fewer than so many tasks train (or $WEIR_MAX_WORKERS); 0: none",
             {.least = 0, .most = ServerOptions::kMostWorkers});
  flags->Add(
      "authority_store", &values->server.authority_store,
      "elect the task that says who is alive, so that the job survives its loss: "
      "'etcd://host:port,host:port/job', the same on all tasks (or $WEIR_AUTHORITY_STORE); default: the "
      "first ps is that task, or the chief");
  flags->Add("authority_store_user_file", &values->server.authority_store_user_file,
             "a file with the line 'name:password' of a user of that etcd (or "
             "$WEIR_AUTHORITY_STORE_USER_FILE); default: etcd is asked as nobody");
  flags->Add("allow_dir", &values->allowed_dirs,
             "graphs of other tasks may read and write files in these folders only, '/models:/scratch' (or "
             "$WEIR_ALLOWED_DIRS); default: all that this process may");
  flags->Add("tensorflow_clients", &values->server.tensorflow_clients,
             "where TensorFlow's clients may call a task that demands a token or a certificate, which they "
             "cannot show: '127.0.0.1:4712' (or $WEIR_TENSORFLOW_CLIENTS); default: nowhere");
  flags->Add("metrics_port", &values->server.metrics_port,
             "port of /metrics, for Prometheus, and of /healthz, for probes, on loopback; '0.0.0.0:9100' for "
             "other machines too (or $WEIR_METRICS_PORT); default: none");
  flags->Add(
      "peer_limits", &values->server.peer_limits,
      "how much of this task each other task may take: sessions=N,plans=N,edges=N,steps=N,bytes=N; what "
      "all may have on their way to it: inbound=N (or $WEIR_PEER_LIMITS)");
  flags->Add("token_file", &values->token_file,
             "file with the secret that every call must carry (or $WEIR_JOB_TOKEN)");
  flags->Add("tls_cert", &values->server.security.tls_cert_file,
             "certificate of this server, PEM (or $WEIR_TLS_CERT)");
  flags->Add("tls_key", &values->server.security.tls_key_file, "its key, PEM (or $WEIR_TLS_KEY)");
  flags->Add("tls_ca", &values->server.security.tls_ca_file,
             "CA that others' certificates are checked with, PEM (or $WEIR_TLS_CA)");
  flags->Add("tls_revoked", &values->server.security.tls_revoked_file,
             "certificates that the CA has taken back, PEM (weir keys --revoke; or $WEIR_TLS_REVOKED)");
  flags->Add("tls_task_names", &values->server.security.tls_task_names,
             "each task speaks for itself only: its certificate must name it (weir keys --tasks; or "
             "$WEIR_TLS_TASK_NAMES=1)");
  flags->Add("insecure", &values->server.security.insecure,
             "listen where other machines reach this task, though neither a token nor a CA keeps them out; a "
             "token is checked all the same");
  flags->Add("ends_with_stdin", &values->ends_with_stdin,
             "is a part of the program that holds its standard input: ends when that ends; a line 'done' "
             "before says that the program has done its work");
  flags->Add("lease_seconds", &values->lease_seconds, "a task without a sign of life for this long is lost",
             {.least = absl::ToDoubleSeconds(ServerOptions::kMinLease),
              .most = absl::ToDoubleSeconds(ServerOptions::kMaxLease)});
  flags->Add("termination_grace_seconds", &values->termination_grace_seconds,
             "how long a ps serves after SIGTERM while training tasks run; a second SIGTERM ends it",
             {.least = 0, .most = absl::ToDoubleSeconds(ServerOptions::kMaxTerminationGrace)});
}

absl::StatusOr<TaskConfig> TaskOf(const ServeFlags& flags) {
  if (flags.cluster_spec.empty() && flags.job_name.empty()) {
    WEIR_ASSIGN_OR_RETURN(TaskConfig task, TaskConfigFromEnvironment());
    if (!task.runs_alone()) return task;
  }
  if (flags.cluster_spec.empty()) {
    return absl::InvalidArgumentError(
        "weir serve: --cluster_spec is missing: 'ps|host:port,worker|host:port;host:port'");
  }
  if (flags.job_name.empty()) return absl::InvalidArgumentError("weir serve: --job_name is missing");
  absl::StatusOr<ClusterSpec> cluster = ClusterSpec::FromFlag(flags.cluster_spec);
  if (!cluster.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("weir serve: --cluster_spec: ", cluster.status().message()));
  }
  absl::StatusOr<TaskConfig> task =
      TaskConfig::Create(*std::move(cluster), {flags.job_name, flags.task_index});
  if (!task.ok()) return absl::InvalidArgumentError(absl::StrCat("weir serve: ", task.status().message()));
  return task;
}

// Those that end the server at once. What SIGTERM means to a ps Server::Join says.
sigset_t StopSignals(const TaskConfig& task) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  if (task.job() != "ps") sigaddset(&signals, SIGTERM);
  return signals;
}

// Ends the process when the server takes too long to end: kernels that compute long do not all ask whether
// their step is still wanted, and the server waits for them.
class EndInTime {
 public:
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  explicit EndInTime(std::string task) : task_(std::move(task)) {}
  ~EndInTime() {
    {
      absl::MutexLock lock(&mutex_);
      has_ended_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }

  // From now on the patience counts; the first call does. `code`: that the process ends with then.
  void Begin(int code) {
    absl::MutexLock lock(&mutex_);
    if (thread_.joinable()) return;
    absl::StatusOr<std::thread> thread = StartSystemThread([this, code] { Wait(code); });
    if (thread.ok()) thread_ = *std::move(thread);
  }

 private:
  void Wait(int code) {
    Environment& environment = RealEnvironment();
    const absl::Time deadline = environment.Now() + kPatience;
    {
      absl::MutexLock lock(&mutex_);
      if (environment.Await(mutex_, absl::Condition(&has_ended_), deadline)) return;
    }
    PrintNotice(absl::StrCat(task_, " ends though a kernel still computes: it was to end ",
                             absl::FormatDuration(kPatience), " ago"));
    _exit(code);
  }

  const std::string task_;
  absl::Mutex mutex_;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // started under mutex_
};

// Waits on its own thread for a signal to stop, which every other thread leaves blocked, and for the end of
// the program that the server is a part of. While the server starts there is nothing to shut down, and its
// start, which may wait long for files, names of hosts and other machines, cannot be cut short: the process
// ends at once.
class StopWaiter {
 public:
  StopWaiter(sigset_t signals, EndInTime& end_in_time, bool ends_with_stdin)
      : signals_(signals), end_in_time_(end_in_time) {
    if (ends_with_stdin) program_.emplace(STDIN_FILENO);
  }
  ~StopWaiter() { Finish(); }

  // ResourceExhausted when the system gives no thread.
  absl::Status Start() {
    WEIR_ASSIGN_OR_RETURN(thread_, StartSystemThread([this] { Wait(); }));
    return absl::OkStatus();
  }

  // Has started, and is shut down from now on. It must live until Finish.
  void SetServer(Server* server) {
    absl::MutexLock lock(&mutex_);
    server_ = server;
  }

  // The signal that came: SIGTERM when the program ended before it was done. 0 for none.
  int Finish() {
    given_up_ = true;
    if (thread_.joinable()) {
      pthread_kill(thread_.native_handle(), SIGINT);  // to this thread alone, which need not wait any longer
      thread_.join();
    }
    return signal_;
  }

 private:
  void Wait() {
    const timespec moment = {0, 100'000'000};
    while (!given_up_) {
      const int signal = sigtimedwait(&signals_, nullptr, &moment);
      if (given_up_) return;
      if (signal > 0) {
        signal_ = signal;
        return End(128 + signal, absl::CancelledError("told to stop by a signal"));
      }
      if (const std::optional<absl::Status> end = program_ ? program_->TakeEnd() : std::nullopt) {
        signal_ = end->ok() ? 0 : SIGTERM;
        return End(end->ok() ? 0 : 128 + SIGTERM, *end);
      }
    }
  }

  void End(int code, const absl::Status& outcome) {
    Server* server = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      if (server_ == nullptr) _exit(code);
      server = server_;
    }
    end_in_time_.Begin(code);
    server->Shutdown(outcome);
  }

  const sigset_t signals_;
  EndInTime& end_in_time_;
  absl::Mutex mutex_;
  Server* server_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::optional<ProgramInput> program_;
  std::atomic<bool> given_up_{false};
  std::atomic<int> signal_{0};
  std::thread thread_;
};

}  // namespace

absl::StatusOr<int> RunServe(const std::vector<std::string>& args, const ServerOptions& options) {
  ServeFlags values(options);
  FlagParser flags(
      "weir serve", "--cluster_spec=SPEC --job_name=JOB --task_index=N [flags]",
      "Serves one task of a cluster: its devices run what sessions of other tasks ask for.\n"
      "A ps leaves by itself when all workers are done that are programs of Weir (or of weir_tf), and at\n"
      "SIGTERM when they have ended; others, and the ps of clients of TensorFlow, serve until SIGTERM or\n"
      "Ctrl-C.");
  Declare(&values, &flags);
  WEIR_RETURN_IF_ERROR(flags.Parse(args));
  if (flags.wants_help()) {
    std::fputs(flags.Help().c_str(), stdout);
    return 0;
  }
  if (!flags.positional().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("weir serve: '", flags.positional()[0], "' is no flag"));
  }
  WEIR_RETURN_IF_ERROR(flags.CheckNotEmpty({"token_file", "tls_cert", "tls_key", "tls_ca", "tls_revoked"}));
  if (!values.token_file.empty()) {
    WEIR_ASSIGN_OR_RETURN(values.server.security.token, ReadTokenFile(values.token_file));
  }
  if (flags.WasGiven("allow_dir")) {
    values.server.allowed_dirs = absl::StrSplit(values.allowed_dirs, ':', absl::SkipEmpty());
    if (values.server.allowed_dirs.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("weir serve: --allow_dir='", values.allowed_dirs,
                       "' names no folder: name one, or leave it out to allow all files"));
    }
  }
  values.server.lease = absl::Seconds(values.lease_seconds);
  values.server.termination_grace = absl::Seconds(values.termination_grace_seconds);
  WEIR_ASSIGN_OR_RETURN(const TaskConfig task, TaskOf(values));
  const sigset_t signals = StopSignals(task);
  sigprocmask(SIG_BLOCK, &signals, nullptr);      // before the server starts threads, which inherit it
  EndInTime end_in_time(task.task().ToString());  // counts until the server has gone
  StopWaiter stop(signals, end_in_time, values.ends_with_stdin);
  WEIR_RETURN_IF_ERROR(stop.Start());
  IdleMemory idle_memory(RealEnvironment());
  WEIR_RETURN_IF_ERROR(idle_memory.Start());
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Start(task, values.server));
  stop.SetServer(server.get());
  std::printf("%s\n", server->Describe().c_str());
  std::fflush(stdout);
  const int code = server->Join();
  end_in_time.Begin(code);
  const int signal = stop.Finish();
  return signal == 0 ? code : 128 + signal;
}

}  // namespace weir
