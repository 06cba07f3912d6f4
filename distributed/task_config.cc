#include "distributed/task_config.h"

#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "distributed/environment/scheduler.h"
#include "distributed/json.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr char kEvaluator[] = "evaluator";

absl::StatusOr<ClusterSpec> ParseCluster(const Json& config) {
  auto cluster = config.find("cluster");
  if (cluster == config.end() || cluster->is_null()) return ClusterSpec();
  return ClusterSpec::FromJson(cluster->dump());
}

absl::StatusOr<std::string> ParseTaskType(const Json& task) {
  auto type = task.find("type");
  if (type == task.end()) return absl::InvalidArgumentError("TF_CONFIG: task.type is missing");
  if (!type->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat("TF_CONFIG: task.type must be a string, found ",
                                                   type->type_name(), " ", Excerpt(*type)));
  }
  return type->get<std::string>();
}

// TensorFlow accepts the index as a string too: schedulers fill it in from an environment variable.
absl::StatusOr<int> ParseTaskIndex(const Json& task) {
  auto index = task.find("index");
  if (index == task.end()) return absl::InvalidArgumentError("TF_CONFIG: task.index is missing");
  int64_t value = -1;
  if (index->is_number_integer()) {
    value = index->is_number_unsigned() && index->get<uint64_t>() > INT32_MAX ? -1 : index->get<int64_t>();
  } else if (index->is_string() && !absl::SimpleAtoi(index->get<std::string>(), &value)) {
    value = -1;
  }
  if (value < 0 || value > INT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("TF_CONFIG: task.index must be a number from 0 on, found ", Excerpt(*index)));
  }
  return static_cast<int>(value);
}

absl::StatusOr<TaskName> ParseTask(const Json& config) {
  auto task = config.find("task");
  if (task == config.end()) {
    return absl::InvalidArgumentError(
        "TF_CONFIG: cluster is given but task is missing: which task is this process?");
  }
  if (!task->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TF_CONFIG: task must be an object {\"type\": ..., \"index\": ...}, found ",
                     task->type_name(), " ", Excerpt(*task)));
  }
  WEIR_ASSIGN_OR_RETURN(std::string job, ParseTaskType(*task));
  WEIR_ASSIGN_OR_RETURN(const int index, ParseTaskIndex(*task));
  return TaskName{std::move(job), index};
}

absl::Status CheckLeader(const ClusterSpec& cluster) {
  if (cluster.HasJob("chief") && cluster.HasJob("master")) {
    return absl::InvalidArgumentError("cluster has both a chief and a master job: one task leads");
  }
  for (const char* job : {"chief", "master"}) {
    if (cluster.num_tasks(job) > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("cluster has ", cluster.num_tasks(job), " tasks in job '", job, "': it may have one"));
    }
  }
  return absl::OkStatus();
}

// Evaluators talk to nobody and nobody waits for them.
absl::StatusOr<ClusterSpec> WithoutEvaluators(const ClusterSpec& cluster) {
  if (!cluster.HasJob(kEvaluator)) return cluster;
  ClusterSpec result;
  for (const TaskName& task : cluster.tasks()) {
    if (task.job == kEvaluator) continue;
    WEIR_ASSIGN_OR_RETURN(const std::string address, cluster.address(task));
    WEIR_RETURN_IF_ERROR(result.AddTask(task, address));
  }
  return result;
}

using FlagValues = std::map<std::string, std::string, std::less<>>;

bool IsTaskFlag(absl::string_view name) {
  return name == "job_name" || name == "task_index" || name == "ps_hosts" || name == "worker_hosts" ||
         name == "num_ps";
}

// Takes these flags out of argv, keeping the order of the rest; everything after "--" belongs to the
// program.
absl::StatusOr<FlagValues> TakeTaskFlags(int* argc, char** argv) {
  FlagValues values;
  int kept = 0;
  bool past_flags = false;
  for (int i = 0; i < *argc; ++i) {
    absl::string_view name = argv[i];
    past_flags = past_flags || (i > 0 && name == "--");
    const bool is_flag =
        i > 0 && !past_flags && (absl::ConsumePrefix(&name, "--") || absl::ConsumePrefix(&name, "-"));
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(name, absl::MaxSplits('=', 1));
    if (!is_flag || !IsTaskFlag(parts.first)) {
      argv[kept++] = argv[i];
      continue;
    }
    absl::string_view value = parts.second;
    if (!absl::StrContains(name, '=')) {
      if (i + 1 >= *argc) return absl::InvalidArgumentError(absl::StrCat("--", name, " needs a value"));
      value = argv[++i];
    }
    if (!values.emplace(std::string(parts.first), std::string(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat("--", parts.first, " is given twice"));
    }
  }
  *argc = kept;
  argv[kept] = nullptr;
  return values;
}

absl::Status AddHosts(const FlagValues& flags, const std::string& flag, const std::string& job,
                      ClusterSpec* cluster) {
  auto it = flags.find(flag);
  if (it == flags.end() || absl::StripAsciiWhitespace(it->second).empty()) return absl::OkStatus();
  int index = 0;
  for (absl::string_view address : absl::StrSplit(it->second, ',')) {
    const absl::Status added = cluster->AddTask({job, index++}, absl::StripAsciiWhitespace(address));
    if (!added.ok()) return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", added.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<TaskConfig> FromTaskFlags(const FlagValues& flags) {
  ClusterSpec cluster;
  WEIR_RETURN_IF_ERROR(AddHosts(flags, "ps_hosts", "ps", &cluster));
  WEIR_RETURN_IF_ERROR(AddHosts(flags, "worker_hosts", "worker", &cluster));
  if (!cluster.HasJob("worker")) {
    return absl::InvalidArgumentError("--worker_hosts is missing: expected host:port,host:port");
  }
  auto job = flags.find("job_name");
  if (job == flags.end() || (job->second != "ps" && job->second != "worker")) {
    return absl::InvalidArgumentError(absl::StrCat("--job_name must be 'ps' or 'worker', found ",
                                                   job == flags.end() ? "nothing" : "'" + job->second + "'"));
  }
  auto index_flag = flags.find("task_index");
  int index = 0;
  if (index_flag != flags.end() && (!absl::SimpleAtoi(index_flag->second, &index) || index < 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--task_index must be a number from 0 on, found '", index_flag->second, "'"));
  }
  const int num_tasks = cluster.num_tasks(job->second);
  if (index >= num_tasks) {
    return absl::InvalidArgumentError(absl::StrCat("--task_index=", index, ": --", job->second,
                                                   "_hosts lists ", num_tasks,
                                                   num_tasks == 1 ? " host" : " hosts"));
  }
  return TaskConfig::Create(std::move(cluster), {job->second, index});
}

absl::StatusOr<TaskConfig> CheckNumPs(TaskConfig config, std::optional<int> num_ps) {
  if (!num_ps || *num_ps == config.num_ps() || config.is_evaluator()) return config;
  return absl::InvalidArgumentError(
      absl::StrCat("--num_ps=", *num_ps, ", but TF_CONFIG has ", config.num_ps(), " tasks in job 'ps'"));
}

}  // namespace

absl::StatusOr<TaskConfig> TaskConfig::Create(ClusterSpec cluster, TaskName task) {
  WEIR_RETURN_IF_ERROR(CheckLeader(cluster));
  TaskConfig config;
  config.task_ = std::move(task);
  WEIR_ASSIGN_OR_RETURN(config.cluster_, WithoutEvaluators(cluster));
  if (config.is_evaluator()) {
    if (config.task_.index == 0 && cluster.num_tasks(kEvaluator) <= 1) return config;
    return absl::InvalidArgumentError(
        absl::StrCat("this process is to be ", config.task_.ToString(),
                     ", but a job has one evaluator: all of them would evaluate the same checkpoints"));
  }
  if (absl::Status found = config.cluster_.address(config.task_).status(); !found.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "this process is to be ", PrintableText(config.task_.ToString()), ", but ", found.message()));
  }
  return config;
}

absl::StatusOr<TaskConfig> TaskConfig::FromTfConfig(absl::string_view json) {
  WEIR_ASSIGN_OR_RETURN(const Json config, ParseJson("TF_CONFIG", json));
  if (!config.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TF_CONFIG must be an object, found ", config.type_name(), " ", Excerpt(config)));
  }
  absl::StatusOr<ClusterSpec> cluster = ParseCluster(config);
  if (!cluster.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("TF_CONFIG: ", cluster.status().message()));
  }
  if (cluster->is_empty() && !config.contains("task")) return TaskConfig();
  WEIR_ASSIGN_OR_RETURN(TaskName task, ParseTask(config));
  if (cluster->is_empty() && task.job != kEvaluator) {
    return absl::InvalidArgumentError(absl::StrCat("TF_CONFIG: task is ", PrintableText(task.ToString()),
                                                   " but cluster is missing or empty"));
  }
  absl::StatusOr<TaskConfig> result = Create(*std::move(cluster), std::move(task));
  if (!result.ok()) return absl::InvalidArgumentError(absl::StrCat("TF_CONFIG: ", result.status().message()));
  return result;
}

bool TaskConfig::is_chief() const {
  if (runs_alone()) return !is_evaluator();
  return task_ == ChiefOf(cluster_);
}

TaskName ChiefOf(const ClusterSpec& cluster) {
  for (const char* job : {"chief", "master"}) {
    if (cluster.HasJob(job)) return cluster.tasks(job).front();
  }
  return {"worker", 0};
}

std::vector<TaskName> TaskConfig::worker_tasks() const {
  std::vector<TaskName> workers;
  for (const TaskName& task : cluster_.tasks()) {
    if (IsTrainingJob(task.job)) workers.push_back(task);
  }
  return workers;
}

int TaskConfig::num_workers() const { return runs_alone() ? 1 : static_cast<int>(worker_tasks().size()); }

std::string TaskConfig::ToTfConfig() const {
  const Json task = {{"type", task_.job}, {"index", task_.index}};
  if (!runs_alone()) return Json{{"cluster", Json::parse(cluster_.ToJson())}, {"task", task}}.dump();
  return is_evaluator() ? Json{{"task", task}}.dump() : "{}";
}

bool IsTrainingJob(absl::string_view job) { return job == "worker" || job == "chief" || job == "master"; }

absl::StatusOr<TaskConfig> TaskConfigFromEnvironment(std::optional<int> num_ps) {
  const auto variable = [](const char* name) -> const char* { return std::getenv(name); };
  const char* const asked = variable("WEIR_ENVIRONMENT");
  const absl::string_view environment = asked == nullptr ? "" : asked;
  if (environment == "none") return TaskConfig();
  if (environment.empty() || environment == "tf_config") {
    const char* text = variable("TF_CONFIG");
    const bool is_set = text != nullptr && !absl::StripAsciiWhitespace(text).empty();
    WEIR_ASSIGN_OR_RETURN(TaskConfig config, TaskConfig::FromTfConfig(is_set ? text : "{}"));
    if (!config.runs_alone() || config.is_evaluator()) return CheckNumPs(std::move(config), num_ps);
    if (environment == "tf_config") {
      return absl::InvalidArgumentError("$WEIR_ENVIRONMENT asks for tf_config, but TF_CONFIG names no task");
    }
  }
  WEIR_ASSIGN_OR_RETURN(ScheduledTask found, TaskFromScheduler(variable, environment, num_ps));
  if (found.cluster.is_empty()) return TaskConfig();
  return TaskConfig::Create(std::move(found.cluster), std::move(found.task));
}

absl::StatusOr<TaskConfig> TaskConfigFromCommandLine(int* argc, char** argv) {
  WEIR_ASSIGN_OR_RETURN(const FlagValues flags, TakeTaskFlags(argc, argv));
  const auto num_ps_flag = flags.find("num_ps");
  if (num_ps_flag == flags.end()) return flags.empty() ? TaskConfigFromEnvironment() : FromTaskFlags(flags);
  int num_ps = 0;
  if (!absl::SimpleAtoi(num_ps_flag->second, &num_ps) || num_ps < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--num_ps must be a number from 0 on, found '", num_ps_flag->second, "'"));
  }
  if (flags.size() == 1) return TaskConfigFromEnvironment(num_ps);
  return absl::InvalidArgumentError(
      "--num_ps is for processes that a scheduler started: beside --job_name, --ps_hosts lists them");
}

std::string TaskFlagsHelp() {
  return "flags of a task that neither TF_CONFIG nor a scheduler describes:\n"
         "  --job_name=string          ps or worker\n"
         "  --task_index=number        which of them this process is (default 0)\n"
         "  --ps_hosts=string          the parameter servers' addresses: host:port,host:port\n"
         "  --worker_hosts=string      the workers'\n"
         "with a scheduler:\n"
         "  --num_ps=number            how many of its processes are parameter servers\n";
}

}  // namespace weir
