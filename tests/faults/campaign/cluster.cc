#include "tests/faults/campaign/cluster.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kMostRestarts = 8;
// After the chief's end.
constexpr absl::Duration kPatienceWithStragglers = absl::Seconds(5);

}  // namespace

Cluster::Cluster(const Plan& plan, Surroundings& surroundings, std::string directory)
    : plan_(plan), surroundings_(surroundings), job_(std::move(directory)) {
  for (int i = 0; i < plan.num_ps; ++i) tasks_.push_back(absl::StrCat("ps:", i));
  for (int i = 0; i < plan.num_workers; ++i) tasks_.push_back(absl::StrCat("worker:", i));
  if (plan.has_evaluator) tasks_.push_back("evaluator:0");
  absl::StatusOr<ReservedPorts> ports = ReservedPorts::Take(static_cast<int>(tasks_.size()) + 1);
  if (ports.ok()) ports_ = *std::move(ports);
}

bool Cluster::UsesLinks() const { return plan_.family == Family::kNetwork; }

absl::Status Cluster::StartAll() {
  if (ports_.ports().empty()) return absl::ResourceExhaustedError("no free ports");
  for (size_t i = 0; i < tasks_.size(); ++i) listens_at_[tasks_[i]] = ports_[i];
  const bool moves = plan_.comeback == Comeback::kOtherPort || plan_.stop == Stop::kReplaced ||
                     plan_.stop == Stop::kReplacedUntilOthersEnd;
  if (UsesLinks() || moves) {
    WEIR_ASSIGN_OR_RETURN(network_, Network::Start(plan_.seed));
    for (const std::string& to : tasks_) {
      for (const std::string& from : tasks_) {
        if (from == to || (!UsesLinks() && to != plan_.victim)) continue;
        WEIR_ASSIGN_OR_RETURN(const int link, network_->AddLink(listens_at_.at(to)));
        links_[{from, to}] = link;
      }
    }
  }
  if (plan_.family == Family::kMachine) {
    machines_ = std::make_unique<Machines>(absl::StrCat(plan_.seed % 100'000));
    WEIR_RETURN_IF_ERROR(machines_->Make(static_cast<int>(tasks_.size()) + 1));
    for (size_t i = 0; i < tasks_.size(); ++i) {
      machine_of_[tasks_[i]] = static_cast<int>(i);
      machines_->SetName(HostOf(tasks_[i]), Machines::AddressOf(static_cast<int>(i)));
    }
  }
  for (const std::string& task : tasks_) StartTask(task);
  return absl::OkStatus();
}

std::string Cluster::HostOf(const std::string& task) {
  return absl::StrReplaceAll(task, {{":", "-"}});  // "worker-0"
}

void Cluster::MoveToSpareMachine(const std::string& task) {
  const int spare = static_cast<int>(tasks_.size());
  machine_of_[task] = spare;
  machines_->SetName(HostOf(task), Machines::AddressOf(spare));
}

std::string Cluster::AddressOf(const std::string& task, const std::string& seen_from) const {
  if (machines_ != nullptr) return absl::StrCat(HostOf(task), ":", listens_at_.at(task));
  const auto link = links_.find({seen_from, task});
  return absl::StrCat("127.0.0.1:", link != links_.end() ? link->second : listens_at_.at(task));
}

std::string Cluster::TfConfig(const std::string& task) const {
  std::map<std::string, std::vector<std::string>> jobs;
  for (const std::string& other : tasks_) {
    const std::pair<std::string, std::string> name = absl::StrSplit(other, ':');
    if (name.first == "evaluator") continue;
    jobs[name.first].push_back(absl::StrCat("\"", AddressOf(other, task), "\""));
  }
  std::vector<std::string> texts;
  for (const auto& [job, addresses] : jobs) {
    texts.push_back(absl::StrCat("\"", job, "\": [", absl::StrJoin(addresses, ", "), "]"));
  }
  const std::pair<std::string, std::string> name = absl::StrSplit(task, ':');
  return absl::StrCat("{\"cluster\": {", absl::StrJoin(texts, ", "), "}, \"task\": {\"type\": \"", name.first,
                      "\", \"index\": ", name.second, "}}");
}

std::vector<std::string> Cluster::TrainerCommand() const {
  std::vector<std::string> command = {
      absl::StrCat(surroundings_.programs(), "/tests/faults/",
                   plan_.mode == Mode::kAsync ? "counting_trainer" : "sync_trainer"),
      absl::StrCat("--dir=", job_.directory()),
      absl::StrCat("--last_step=", plan_.last_step),
      absl::StrCat("--step_ms=", plan_.step_ms),
      absl::StrCat("--lease_seconds=", absl::ToDoubleSeconds(plan_.lease)),
      "--recovery_seconds=10",
      "--chief_grace_seconds=6"};
  if (UsesLinks() || machines_ != nullptr) command.push_back("--host_sockets=false");
  if (UsesLinks()) command.push_back("--data_ports=off");  // a link carries gRPC's port alone
  if (plan_.mode == Mode::kSync) command.push_back("--on_loss=wait");
  if (plan_.mode == Mode::kBackup) {
    command.insert(command.end(), {"--on_loss=shrink", "--backup_workers=1"});
  }
  return command;
}

std::vector<std::pair<std::string, std::string>> Cluster::Environment(const std::string& task) const {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"TF_CONFIG", TfConfig(task)},
      {"WEIR_JOB_TOKEN", absl::StrCat("token-of-a-job-with-seed-", plan_.seed)}};
  if (machines_ != nullptr) {
    // Where no DNS server answers, gRPC's own way to find a host by its name takes five seconds longer.
    variables.emplace_back("GRPC_DNS_RESOLVER", "native");
    if (plan_.mishap == Mishap::kProxy) {
      for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy"}) {
        variables.emplace_back(name, "http://10.77.0.250:3128");  // nobody is there
      }
    }
  } else if (task != "evaluator:0") {
    variables.emplace_back("WEIR_LISTEN", absl::StrCat("127.0.0.1:", listens_at_.at(task)));
  }
  return variables;
}

TaskProcess& Cluster::StartTask(const std::string& task) {
  std::vector<std::string> command = TrainerCommand();
  if (machines_ != nullptr) {
    const std::vector<std::string> prefix = machines_->Prefix(machine_of_.at(task));
    command.insert(command.begin(), prefix.begin(), prefix.end());
  }
  return job_.Start(task, command, Environment(task));
}

TaskProcess& Cluster::StartElsewhere(const std::string& task) {
  listens_at_[task] = ports_.ports().back();
  for (const int link : LinksTo(task)) network_->PointTo(link, ports_.ports().back());
  return StartTask(task);
}

void Cluster::StartLauncher() {
  std::vector<std::string> command = {absl::StrCat(surroundings_.programs(), "/distributed/command/weir"),
                                      "launch",
                                      absl::StrCat("--ps=", plan_.num_ps),
                                      absl::StrCat("--workers=", plan_.num_workers),
                                      "--restart=3",
                                      "--ps_grace=30"};
  if (plan_.has_evaluator) command.push_back("--evaluator");
  command.push_back("--");
  const std::vector<std::string> trainer = TrainerCommand();
  command.insert(command.end(), trainer.begin(), trainer.end());
  job_.Start("launcher", command, {});
}

std::vector<int> Cluster::LinksTo(const std::string& task) const {
  std::vector<int> links;
  for (const auto& [ends, link] : links_) {
    if (ends.second == task) links.push_back(link);
  }
  return links;
}

std::vector<int> Cluster::LinksFrom(const std::string& task) const {
  std::vector<int> links;
  for (const auto& [ends, link] : links_) {
    if (ends.first == task) links.push_back(link);
  }
  return links;
}

bool Cluster::ChiefIsDone() {
  TaskProcess* chief = job_.newest("worker:0");
  return chief != nullptr && !chief->is_running() && chief->exit_code() == 0;
}

// As a launcher does it with a ps, and Kubernetes with all pods.
void Cluster::TellStragglers() {
  if (absl::Now() < *job_.newest("worker:0")->ended + kPatienceWithStragglers) return;
  const bool workers_have_ended =
      std::none_of(job_.processes().begin(), job_.processes().end(), [&](const TaskProcess& process) {
        return process.is_running() && absl::StartsWith(process.task, "worker") &&
               process.task != plan_.victim;
      });
  if (!workers_have_ended) return;
  for (TaskProcess& process : job_.processes()) {
    if (!process.is_running() || process.was_told_to_stop) continue;
    const bool is_first_victim = process.task == plan_.victim && &process != job_.newest(plan_.victim);
    if (!is_first_victim && !absl::StartsWith(process.task, "ps")) continue;
    if (plan_.family == Family::kStop && !victim_is_awake_) continue;
    process.was_told_to_stop = true;
    job_.Signal(process, SIGTERM);
  }
}

void Cluster::Supervise() {
  if (ChiefIsDone()) return TellStragglers();
  for (const std::string& task : tasks_) {
    TaskProcess* process = job_.newest(task);
    if (process == nullptr || process->is_running() || left_alone_.count(task) > 0) continue;
    if (process->exit_code() < 128 || num_restarts_ >= kMostRestarts) continue;
    ++num_restarts_;
    StartTask(task);
  }
}

bool Cluster::Await(const std::function<bool()>& is_so, absl::Time deadline) {
  return job_.Await(
      [&] {
        Supervise();
        return is_so();
      },
      std::max(deadline - absl::Now(), absl::ZeroDuration()));
}

bool Cluster::AllHaveEnded() {
  return std::none_of(job_.processes().begin(), job_.processes().end(),
                      [](const TaskProcess& process) { return process.is_running(); });
}

bool Cluster::OthersHaveEnded() {
  return std::none_of(job_.processes().begin(), job_.processes().end(), [&](const TaskProcess& process) {
    return process.is_running() && process.task != plan_.victim;
  });
}

}  // namespace weir
