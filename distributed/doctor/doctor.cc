#include "distributed/doctor/doctor.h"

#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "distributed/keys/certificate.h"
#include "distributed/task_config.h"
#include "distributed/task_status.h"
#include "distributed/tcp_probe.h"
#include "distributed/transport/grpc/grpc_transport.h"
#include "graph/types/status_macros.h"
#include "graph/version.h"
#include "kernels/process_clock.h"
#include "kernels/system_thread.h"

namespace weir {
namespace {

using Kind = Finding::Kind;

constexpr absl::Duration kClocksApart = absl::Seconds(1);
constexpr absl::Duration kSoon = absl::Hours(7 * 24);
constexpr size_t kMaxShown = 500;
constexpr double kFewBytes = 1e9;
constexpr double kTooFewBytes = 1e8;

// What another process sent, made fit for a line of a terminal.
std::string Printable(absl::string_view text) {
  std::string printable;
  for (const char c : text.substr(0, kMaxShown)) {
    if (absl::ascii_isprint(c)) {
      printable += c;
    } else {
      absl::StrAppendFormat(&printable, "\\x%02x", static_cast<unsigned char>(c));
    }
  }
  return printable;
}

// What another task was told of the cluster and this program was not, or otherwise; an empty text for
// nothing. A ps knows all tasks; a worker need not know other workers. Another name may stand for the same
// host.
std::pair<Kind, std::string> DifferenceOf(const ClusterSpec& own, const ClusterSpec& its,
                                          const TaskName& task) {
  const auto must_know = [&task](const TaskName& other) { return task.job == "ps" || other.job == "ps"; };
  for (const TaskName& other : own.tasks()) {
    const absl::StatusOr<std::string> address = its.address(other);
    const std::string expected = own.address(other).value_or("");
    if (!address.ok() && must_know(other)) {
      return {Kind::kBad, absl::StrCat("there is no ", other.ToString(), " in it")};
    }
    if (!address.ok() || *address == expected) continue;
    const auto port = [](absl::string_view text) { return text.substr(text.rfind(':') + 1); };
    return {port(*address) == port(expected) ? Kind::kDoubtful : Kind::kBad,
            absl::StrCat(other.ToString(), " is at ", *address, " in it, not at ", expected)};
  }
  for (const TaskName& other : its.tasks()) {
    if (must_know(other) && !own.address(other).ok()) {
      return {Kind::kBad, absl::StrCat("it has ", other.ToString(), " too")};
    }
  }
  return {Kind::kGood, ""};
}

// One task of the cluster, asked by one thread.
class TaskExamination {
 public:
  TaskExamination(const DoctorOptions& options, Transport* transport, const TaskName& task)
      : options_(options), transport_(transport), task_(task) {}

  std::vector<Finding> Run() {
    const absl::StatusOr<HostPort> address = HostPort::Parse(options_.cluster.address(task_).value_or(""));
    if (!address.ok()) {
      Add(Kind::kBad, std::string(address.status().message()));
      return std::move(findings_);
    }
    address_ = *address;
    const absl::StatusOr<HostAddresses> found = options_.lookup(address_.host);
    if (!found.ok()) {
      Add(Kind::kBad, Printable(found.status().message()));
    } else if (ExamineName(*found), ExaminePort(*found)) {
      ExamineServer();
    }
    return std::move(findings_);
  }

 private:
  bool is_self() const { return options_.self == task_; }

  void Add(Kind kind, std::string text) { findings_.push_back({kind, task_.ToString(), std::move(text)}); }

  void ExamineName(const HostAddresses& found) {
    const std::string text = absl::StrCat(address_.host, " is ", absl::StrJoin(found.addresses, ", "));
    const bool listens_elsewhere = is_self() && !options_.listen.empty();
    if (found.is_loopback && !listens_elsewhere && HasOtherHosts()) {
      return Add(Kind::kBad, absl::StrCat(text,
                                          ", which only its own machine can reach, but other tasks are "
                                          "elsewhere: mend /etc/hosts; a task that shall listen on all "
                                          "interfaces wants WEIR_LISTEN=0.0.0.0"));
    }
    if (is_self() && !listens_elsewhere && !IsOwn(found)) {
      return Add(Kind::kBad,
                 absl::StrCat(text, ", which is no address of this machine: is it really ", task_.ToString(),
                              "? (Behind an address translation set "
                              "WEIR_LISTEN=0.0.0.0)"));
    }
    if (found.addresses != std::vector<std::string>{address_.host}) Add(Kind::kGood, text);
  }

  bool HasOtherHosts() const {
    for (const TaskName& other : options_.cluster.tasks()) {
      const absl::StatusOr<HostPort> address = HostPort::Parse(options_.cluster.address(other).value_or(""));
      if (address.ok() && address->host != address_.host) {
        const absl::StatusOr<HostAddresses> found = options_.lookup(address->host);
        if (found.ok() && !found->is_loopback) return true;
      }
    }
    return false;
  }

  static bool IsOwn(const HostAddresses& found) {
    return std::any_of(found.addresses.begin(), found.addresses.end(), [](const std::string& address) {
      return !absl::IsNotFound(CheckOwnAddress(address));
    });
  }

  // Whether somebody listens there.
  bool ExaminePort(const HostAddresses& found) {
    absl::Status status = absl::NotFoundError("no address");
    for (const std::string& address : found.addresses) {
      status = TryConnect(address, address_.port, options_.timeout);
      if (status.ok()) return true;
    }
    const std::string where = address_.ToString();
    if (absl::IsNotFound(status)) {
      Add(Kind::kDoubtful,
          absl::StrCat("nobody listens at ", where, ": it does not run",
                       is_self() ? ", and its port is free" : " (yet), or listens elsewhere"));
    } else if (absl::IsDeadlineExceeded(status)) {
      Add(Kind::kBad, absl::StrCat("no sign of ", where, " within ", absl::FormatDuration(options_.timeout),
                                   ": the host is down, or a firewall drops what is sent there"));
    } else {
      Add(Kind::kBad, absl::StrCat(where, " cannot be reached: ", status.message()));
    }
    return false;
  }

  void ExamineServer() {
    const absl::Time asked = ProcessNow();
    const absl::StatusOr<TaskStatus> status = AskServer();
    const absl::Duration took = ProcessNow() - asked;
    if (!status.ok()) return Add(Kind::kBad, NoAnswer(status.status()));
    if (status->task != task_) {
      return Add(Kind::kBad,
                 absl::StrCat("at ", address_.ToString(), " is ", Printable(status->task.ToString()),
                              ", a task of another job or of another cluster spec"));
    }
    Add(Kind::kGood, absl::StrCat("answers at ", address_.ToString(), " in ",
                                  absl::StrFormat("%.1f ms", absl::ToDoubleMilliseconds(took))));
    ExamineSpec(status->cluster);
    if (status->version != WEIR_VERSION) {
      Add(Kind::kBad,
          absl::StrCat("has version ", Printable(status->version), ", this program has ", WEIR_VERSION));
    }
    // Its clock was read somewhere between the question and the answer.
    const absl::Duration apart = status->clock - (asked + took / 2);
    if (absl::AbsDuration(apart) - took / 2 > kClocksApart) {
      Add(Kind::kDoubtful,
          absl::StrCat("its clock is ",
                       absl::FormatDuration(absl::Trunc(absl::AbsDuration(apart), absl::Milliseconds(1))),
                       apart > absl::ZeroDuration() ? " ahead of" : " behind",
                       " this machine's: times in logs and event files will not fit, and "
                       "certificates may count as expired"));
    }
  }

  void ExamineSpec(const std::string& text) {
    const absl::StatusOr<ClusterSpec> its = ClusterSpec::FromFlag(text);
    if (!its.ok()) {
      return Add(Kind::kBad,
                 absl::StrCat("has a cluster spec that nobody can read: '", Printable(text), "'"));
    }
    const auto [kind, difference] = DifferenceOf(options_.cluster, *its, task_);
    if (!difference.empty()) {
      Add(kind, absl::StrCat("was started with another cluster spec: ", Printable(difference)));
    }
  }

  absl::StatusOr<TaskStatus> AskServer() {
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<Channel> channel,
                          transport_->Connect(task_, address_.ToString()));
    absl::StatusOr<Frame> reply = absl::UnknownError("no reply");
    absl::Notification done;
    channel->Call(kTaskStatusMethod, Frame(), {.deadline = ProcessNow() + options_.timeout},
                  [&](absl::StatusOr<Frame> frame) {
                    reply = std::move(frame);
                    done.Notify();
                  });
    done.WaitForNotification();
    WEIR_RETURN_IF_ERROR(reply.status());
    return DecodeTaskStatus(reply->header);
  }

  std::string NoAnswer(const absl::Status& status) const {
    const std::string said = Printable(status.message());
    switch (status.code()) {
      case absl::StatusCode::kUnauthenticated:
        return absl::StrCat(
            "does not accept this program's token: both need the same ($WEIR_JOB_TOKEN or "
            "--token_file): ",
            said);
      case absl::StatusCode::kUnimplemented:
        return absl::StrCat("is a server of another program or of an older version: ", said);
      case absl::StatusCode::kInvalidArgument:
        return absl::StrCat("answered what nobody can read: ", said);
      case absl::StatusCode::kDeadlineExceeded:
        return absl::StrCat(
            "somebody listens, but gives no answer (it was stopped, is too busy, or is another "
            "program): ",
            said);
      default:
        return absl::StrCat(
            "somebody listens, but gives no answer (another program, a certificate that is "
            "refused, or TLS on one side only): ",
            said);
    }
  }

  const DoctorOptions& options_;
  Transport* const transport_;
  const TaskName task_;
  HostPort address_;
  std::vector<Finding> findings_;
};

Finding ExamineCluster(const DoctorOptions& options) {
  int num_training = 0;
  for (const TaskName& task : options.cluster.tasks()) num_training += IsTrainingJob(task.job);
  const int num_ps = options.cluster.num_tasks("ps");
  const std::string text =
      absl::StrCat(num_ps, " ps, ", num_training, num_training == 1 ? " worker" : " workers",
                   options.self ? absl::StrCat("; this is ", options.self->ToString()) : "");
  if (num_training == 0) return {Kind::kBad, "cluster", text + ": nobody trains"};
  if (num_ps == 0 && num_training > 1) {
    return {Kind::kDoubtful, "cluster",
            text + ": without a ps every worker has variables of its own, unless the program joins them"};
  }
  return {Kind::kGood, "cluster", text};
}

bool IsOnOneMachine(const DoctorOptions& options) {
  for (const TaskName& task : options.cluster.tasks()) {
    const absl::StatusOr<HostPort> address = HostPort::Parse(options.cluster.address(task).value_or(""));
    const absl::StatusOr<HostAddresses> found =
        address.ok() ? options.lookup(address->host) : absl::StatusOr<HostAddresses>(address.status());
    if (!found.ok() || !found->is_loopback) return false;
  }
  return true;
}

Finding ExamineToken(const DoctorOptions& options) {
  const SecurityOptions& security = options.security;
  if (absl::Status status = CheckSecurityOptions(security); !status.ok()) {
    return {Kind::kBad, "token", Printable(status.message())};
  }
  if (!security.authenticates()) {
    if (IsOnOneMachine(options)) return {Kind::kGood, "token", "none, and all tasks are on this machine"};
    if (security.insecure) return {Kind::kDoubtful, "token", "none: who reaches a server may run code there"};
    return {Kind::kBad, "token",
            "none: servers refuse to listen where other machines reach them; give all tasks the same "
            "$WEIR_JOB_TOKEN or --token_file, or TLS with a CA"};
  }
  if (!security.tls_cert_file.empty()) {
    const absl::StatusOr<absl::Time> end = CertificateEnd(security.tls_cert_file);
    absl::Status valid = end.status();
    if (valid.ok()) valid = CheckNotExpired(security.tls_cert_file, absl::Now());
    if (!valid.ok()) return {Kind::kBad, "token", Printable(valid.message())};
    if (*end < absl::Now() + kSoon) {
      return {Kind::kDoubtful, "token",
              absl::StrCat("TLS, but the certificate '", Printable(security.tls_cert_file), "' expires on ",
                           absl::FormatTime("%Y-%m-%d %H:%M UTC", *end, absl::UTCTimeZone()))};
    }
  }
  return {Kind::kGood, "token", security.uses_tls() ? "TLS" : "given; without TLS the network can read it"};
}

// Calls `work` with every number below `count`, several side by side where the system gives threads.
void ForEachSideBySide(size_t count, absl::FunctionRef<void(size_t)> work) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  const auto run = [&] {
    for (size_t item = next++; item < count; item = next++) work(item);
  };
  for (size_t i = 1; i < std::min<size_t>(count, kMaxSideBySide); ++i) {
    absl::StatusOr<std::thread> thread = StartSystemThread(run);
    if (!thread.ok()) break;
    threads.push_back(*std::move(thread));
  }
  run();
  for (std::thread& thread : threads) thread.join();
}

// The hosts of all tasks, each looked up once.
HostLookup LookUpAll(const ClusterSpec& cluster, const HostLookup& lookup) {
  auto known = std::make_shared<std::map<std::string, absl::StatusOr<HostAddresses>>>();
  for (const TaskName& task : cluster.tasks()) {
    const absl::StatusOr<HostPort> address = HostPort::Parse(cluster.address(task).value_or(""));
    if (address.ok()) known->emplace(address->host, absl::NotFoundError("not looked up"));
  }
  std::vector<std::string> hosts;
  for (const auto& [host, found] : *known) hosts.push_back(host);
  ForEachSideBySide(hosts.size(), [&](size_t i) { known->at(hosts[i]) = lookup(hosts[i]); });
  return [known](const std::string& host) { return known->at(host); };
}

std::vector<Finding> ExamineTasks(const DoctorOptions& options, Transport* transport) {
  const std::vector<TaskName> tasks = options.cluster.tasks();
  std::vector<std::vector<Finding>> found(tasks.size());
  ForEachSideBySide(tasks.size(),
                    [&](size_t i) { found[i] = TaskExamination(options, transport, tasks[i]).Run(); });
  std::vector<Finding> findings;
  for (std::vector<Finding>& of_task : found) {
    for (Finding& finding : of_task) findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace

Finding ExamineDisk(const std::string& directory) {
  std::error_code error;
  std::filesystem::path existing = std::filesystem::absolute(directory, error);
  while (!std::filesystem::exists(existing, error) && existing.has_relative_path())
    existing = existing.parent_path();
  const std::string path = existing.string();
  struct statvfs disk {};
  if (!std::filesystem::is_directory(existing, error) || statvfs(path.c_str(), &disk) != 0) {
    return {Kind::kBad, "model_dir", absl::StrCat("'", Printable(path), "' is no directory")};
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    return {Kind::kBad, "model_dir",
            absl::StrCat("'", Printable(path), "' cannot be written: ", strerror(errno))};
  }
  if (disk.f_blocks == 0) {
    return {Kind::kBad, "model_dir",
            absl::StrCat("'", Printable(path), "' is on no disk that keeps files (of the system, as /proc)")};
  }
  const double free_bytes = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const Kind kind = free_bytes < kTooFewBytes ? Kind::kBad
                    : free_bytes < kFewBytes  ? Kind::kDoubtful
                                              : Kind::kGood;
  return {kind, "model_dir",
          absl::StrCat("'", Printable(path), "' can be written and has ",
                       absl::StrFormat("%.1f GB", free_bytes / 1e9), " left")};
}

std::vector<Finding> ExamineGpus(const GpuReport& report) {
  if (!report.why_none.empty()) return {{Kind::kGood, "gpus", absl::StrCat("none: ", report.why_none)}};
  std::vector<Finding> findings = {
      {Kind::kGood, "gpus", absl::StrCat(report.versions, "; no task computes on GPUs yet")}};
  for (const std::vector<GpuReport::Line>& lines : {report.gpus, report.libraries}) {
    for (const GpuReport::Line& line : lines) {
      findings.push_back({line.is_good ? Kind::kGood : Kind::kDoubtful, "gpus", Printable(line.text)});
    }
  }
  return findings;
}

std::vector<Finding> Examine(const DoctorOptions& given) {
  DoctorOptions options = given;
  if (options.lookup == nullptr) {
    options.lookup = [timeout = options.timeout](const std::string& host) {
      return LookUpHost(host, timeout);
    };
  }
  std::vector<Finding> findings;
  if (!options.model_dir.empty()) findings.push_back(ExamineDisk(options.model_dir));
  if (options.cluster.is_empty()) {
    findings.insert(findings.begin(), {Kind::kGood, "cluster", "none: the program runs alone"});
    return findings;
  }
  options.lookup = LookUpAll(options.cluster, options.lookup);
  findings.insert(findings.begin(), {ExamineCluster(options), ExamineToken(options)});
  std::unique_ptr<Transport> owned;
  if (options.transport == nullptr) {
    GrpcOptions grpc;
    grpc.security = options.security;
    absl::StatusOr<std::unique_ptr<Transport>> made = MakeGrpcTransport(grpc);
    if (!made.ok()) return findings;  // the token's finding says why
    owned = *std::move(made);
    options.transport = owned.get();
  }
  for (Finding& finding : ExamineTasks(options, options.transport)) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace weir
