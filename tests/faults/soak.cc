// What long use leaves behind: many sessions against one `weir serve`, and many tasks that join it, do a step
// and leave. Memory, file descriptors and threads of both processes are read meanwhile; none may grow.
//
//   bazel run -c opt //tests/faults:soak -- --sessions=10000 --joins=1000
//
// A process grows at the beginning, until its pools are filled: the first third does not count. Exits with 1
// when memory has grown by more than --most_bytes for each session or join in the rest, or descriptors or
// threads by more than come and go.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "distributed/command/flag_parser.h"
#include "distributed/launch/free_ports.h"
#include "distributed/replica_device_setter.h"
#include "distributed/server.h"
#include "distributed/task_config.h"
#include "graph/graph_builder.h"
#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"

namespace weir {
namespace {

constexpr char kToken[] = "a-token-of-sixteen-characters";

struct Flags {
  std::string weir = "distributed/command/weir";
  int sessions = 10'000;
  int joins = 1000;
  int most_bytes = 1000;
};

// Of a process, as the kernel counts it.
struct Use {
  int64_t memory_kib = 0;
  int64_t num_threads = 0;
  int64_t num_descriptors = 0;
};

Use UseOf(pid_t pid) {
  Use use;
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() < 2) continue;
    int64_t* const value = words[0] == "VmRSS:"     ? &use.memory_kib
                           : words[0] == "Threads:" ? &use.num_threads
                                                    : nullptr;
    if (value != nullptr && !absl::SimpleAtoi(words[1], value)) *value = -1;
  }
  std::error_code ignored;
  const std::filesystem::directory_iterator descriptors(absl::StrCat("/proc/", pid, "/fd"), ignored);
  use.num_descriptors = std::distance(begin(descriptors), end(descriptors));
  return use;
}

// A ps that runs until this goes.
class Serving {
 public:
  Serving(const std::string& weir, const std::string& cluster) {
    std::vector<std::string> words = {weir, "serve", absl::StrCat("--cluster_spec=", cluster),
                                      "--job_name=ps", "--num_threads=1"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    setenv("WEIR_JOB_TOKEN", kToken, 1);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    execv(argv[0], argv.data());
    _exit(126);
  }
  ~Serving() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

// One session: made, run once, closed.
absl::Status RunOnce(const TaskConfig& task, Server& server) {
  GraphBuilder g(StandardOps(), ReplicaDeviceSetter(task));
  const auto on_ps = g.DeviceScope("/job:ps/task:0");
  const Output three = g.AddOp("Const", {}, {{"value", Tensor::Scalar(3.0f)}, {"dtype", DType::kFloat32}});
  const Output nine = g.AddOp("Square", {three});
  WEIR_RETURN_IF_ERROR(g.status());
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, server.CreateSession(g.graph()));
  WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session->Run({}, {nine}));
  return values[0].scalar<float>() == 9 ? absl::OkStatus() : absl::InternalError("the square of 3 is not 9");
}

absl::StatusOr<std::unique_ptr<Server>> StartTask(const TaskConfig& task) {
  ServerOptions options;
  options.num_threads = 1;
  options.security.token = kToken;
  return Server::Start(task, options);
}

// Does something often, and says how the processes grow. False when they grow too much.
class Watch {
 public:
  Watch(const Flags& flags, pid_t ps) : flags_(flags), processes_{{"ps", ps}, {"worker", getpid()}} {}

  absl::StatusOr<bool> Repeat(const char* what, int count, absl::FunctionRef<absl::Status()> once) {
    std::vector<Use> first;
    const int begin = count / 3;
    const absl::Time start = absl::Now();
    for (int i = 0; i <= count; ++i) {
      if (i == begin || i == count || (count >= 10 && i % (count / 10) == 0)) {
        if (i == count) AwaitClosedConnections(first);
        const std::vector<Use> now = Look(absl::StrCat(what, " ", i));
        if (i == begin) first = now;
        if (i == count) {
          std::printf("%d %s in %s\n", count, what, absl::FormatDuration(absl::Now() - start).c_str());
          return IsSteady(first, now, what, count - begin);
        }
      }
      WEIR_RETURN_IF_ERROR(once());
    }
    return true;
  }

 private:
  std::vector<Use> Look(const std::string& when) const {
    std::vector<Use> uses;
    std::printf("%-16s", when.c_str());
    for (const auto& [name, pid] : processes_) {
      uses.push_back(UseOf(pid));
      std::printf("  %s: %lld KiB, %lld threads, %lld descriptors", name,
                  static_cast<long long>(uses.back().memory_kib),
                  static_cast<long long>(uses.back().num_threads),
                  static_cast<long long>(uses.back().num_descriptors));
    }
    std::printf("\n");
    std::fflush(stdout);
    return uses;
  }

  // Connections to tasks that have gone are closed with the next heartbeat, every two seconds: until then
  // there are as many as tasks came meanwhile.
  void AwaitClosedConnections(const std::vector<Use>& first) const {
    const absl::Time patience = absl::Now() + absl::Seconds(20);
    const auto is_closed = [&] {
      for (size_t i = 0; i < processes_.size(); ++i) {
        if (UseOf(processes_[i].second).num_descriptors > first[i].num_descriptors) return false;
      }
      return true;
    };
    while (!is_closed() && absl::Now() < patience) absl::SleepFor(absl::Milliseconds(100));
  }

  bool IsSteady(const std::vector<Use>& first, const std::vector<Use>& last, const char* what,
                int count) const {
    // Threads of pools come and go.
    constexpr int64_t kMoreThreads = 8;
    // Pages that the allocator happens to hold.
    constexpr int64_t kSlackBytes = 4 << 20;
    bool is_steady = true;
    for (size_t i = 0; i < processes_.size(); ++i) {
      const int64_t bytes = (last[i].memory_kib - first[i].memory_kib) * 1024;
      std::printf("%s: %.1f bytes for each of the last %d %s\n", processes_[i].first,
                  static_cast<double>(bytes) / count, count, what);
      is_steady = is_steady && bytes <= kSlackBytes + int64_t{flags_.most_bytes} * count &&
                  last[i].num_threads <= first[i].num_threads + kMoreThreads &&
                  last[i].num_descriptors <= first[i].num_descriptors + kMoreDescriptors;
    }
    if (!is_steady) std::printf("FAILED: it grows with %s\n", what);
    return is_steady;
  }

  static constexpr int64_t kMoreDescriptors = 80;

  const Flags& flags_;
  const std::vector<std::pair<const char*, pid_t>> processes_;
};

absl::StatusOr<bool> Soak(const Flags& flags) {
  WEIR_ASSIGN_OR_RETURN(const ReservedPorts ports, ReservedPorts::Take(3));
  const std::string spec =
      absl::StrCat("ps|127.0.0.1:", ports[0], ",worker|127.0.0.1:", ports[1], ";127.0.0.1:", ports[2]);
  const Serving ps(flags.weir, spec);
  WEIR_ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::FromFlag(spec));
  WEIR_ASSIGN_OR_RETURN(const TaskConfig chief, TaskConfig::Create(cluster, {"worker", 0}));
  WEIR_ASSIGN_OR_RETURN(const TaskConfig guest, TaskConfig::Create(cluster, {"worker", 1}));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, StartTask(chief));
  Watch watch(flags, ps.pid());
  WEIR_ASSIGN_OR_RETURN(const bool sessions_are_steady,
                        watch.Repeat("sessions", flags.sessions, [&] { return RunOnce(chief, *server); }));
  WEIR_ASSIGN_OR_RETURN(const bool joins_are_steady,
                        watch.Repeat("joins", flags.joins, [&]() -> absl::Status {
                          WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Server> visitor, StartTask(guest));
                          const absl::Status status = RunOnce(guest, *visitor);
                          visitor->Shutdown(status);
                          return status;
                        }));
  return sessions_are_steady && joins_are_steady;
}

int Main(int argc, char** argv) {
  Flags flags;
  FlagParser parser("soak", "[flags]", "Looks for what long use leaves behind.");
  parser.Add("weir", &flags.weir, "the command weir");
  parser.Add("sessions", &flags.sessions, "how many sessions are made and closed", {.least = 3});
  parser.Add("joins", &flags.joins, "how often a task joins and leaves", {.least = 3});
  parser.Add("most_bytes", &flags.most_bytes, "how much memory may grow for each");
  absl::Status status = parser.Parse({argv + 1, argv + argc});
  if (parser.wants_help()) return std::fputs(parser.Help().c_str(), stdout) < 0;
  // A child that cannot be started would be waited for.
  if (status.ok() && access(flags.weir.c_str(), X_OK) != 0) {
    status = absl::NotFoundError(
        absl::StrCat("--weir: no program ", flags.weir, "; `bazel run` starts this where it is"));
  }
  if (status.ok()) {
    const absl::StatusOr<bool> is_steady = Soak(flags);
    if (is_steady.ok()) return *is_steady ? 0 : 1;
    status = is_steady.status();
  }
  std::fprintf(stderr, "soak: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) { return weir::Main(argc, argv); }
