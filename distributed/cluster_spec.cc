#include "distributed/cluster_spec.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "distributed/json.h"
#include "graph/types/printable_text.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Beyond this an index is a typing error; it also bounds what a hostile spec makes us loop over.
constexpr int kMaxTaskIndex = 1'000'000;

// Every task that is added is compared with those that are there. Lists of hosts have this bound, too
// (environment/host_list.h).
constexpr size_t kMaxTasks = 10'000;

// A spec comes from schedulers and peers, and its errors go to terminals.
absl::Status Invalid(absl::string_view message) { return absl::InvalidArgumentError(PrintableText(message)); }

bool IsJobName(absl::string_view name) {
  if (name.empty() || !absl::ascii_isalpha(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

absl::Status CheckJobName(absl::string_view job) {
  if (IsJobName(job)) return absl::OkStatus();
  return Invalid(absl::StrCat("cluster spec: '", job,
                              "' is no job name (a letter, then letters, digits and underscores)"));
}

absl::StatusOr<int> ParseTaskIndex(absl::string_view job, absl::string_view text) {
  int index = 0;
  if (absl::SimpleAtoi(text, &index) && index >= 0) return index;
  return Invalid(
      absl::StrCat("cluster spec: job '", job, "': '", text, "' is no task index (a number from 0 on)"));
}

absl::Status AddFlagTask(absl::string_view job, int position, absl::string_view text, ClusterSpec* spec) {
  TaskName task{std::string(job), position};
  if (const size_t equals = text.find('='); equals != absl::string_view::npos) {
    WEIR_ASSIGN_OR_RETURN(task.index, ParseTaskIndex(job, text.substr(0, equals)));
    text.remove_prefix(equals + 1);
  }
  return spec->AddTask(task, text);
}

absl::Status AddFlagJob(absl::string_view text, ClusterSpec* spec) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '|');
  if (parts.size() != 2) {
    return Invalid(absl::StrCat("cluster spec: '", text, "' is not of the form JOB|HOST:PORT;HOST:PORT"));
  }
  WEIR_RETURN_IF_ERROR(CheckJobName(parts[0]));
  if (spec->HasJob(parts[0])) {
    return Invalid(absl::StrCat("cluster spec: job '", parts[0], "' is given twice"));
  }
  int position = 0;
  for (absl::string_view address : absl::StrSplit(parts[1], ';')) {
    WEIR_RETURN_IF_ERROR(AddFlagTask(parts[0], position++, address, spec));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AddressOf(const TaskName& task, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return Invalid(absl::StrCat("cluster spec: ", task.ToString(),
                              ": the address must be a string 'host:port', found ", value.type_name(), " ",
                              Excerpt(value)));
}

absl::Status AddJsonTask(const TaskName& task, const Json& value, ClusterSpec* spec) {
  WEIR_ASSIGN_OR_RETURN(const std::string address, AddressOf(task, value));
  return spec->AddTask(task, address);
}

absl::Status AddJsonJob(const std::string& job, const Json& value, ClusterSpec* spec) {
  WEIR_RETURN_IF_ERROR(CheckJobName(job));
  if (value.is_array()) {
    int position = 0;
    for (const Json& address : value) WEIR_RETURN_IF_ERROR(AddJsonTask({job, position++}, address, spec));
    return absl::OkStatus();
  }
  if (value.is_object()) {
    for (const auto& [index_text, address] : value.items()) {
      WEIR_ASSIGN_OR_RETURN(const int index, ParseTaskIndex(job, index_text));
      WEIR_RETURN_IF_ERROR(AddJsonTask({job, index}, address, spec));
    }
    return absl::OkStatus();
  }
  return Invalid(absl::StrCat(
      "cluster spec: job '", job, "' must be a list of addresses or an object {index: address}, found ",
      value.type_name(), " ", Excerpt(value),
      value.is_string() ? absl::StrCat(": a list of one is [", Excerpt(value), "]") : std::string()));
}

bool HasGaps(const std::vector<TaskName>& tasks) {
  return !tasks.empty() && tasks.back().index + 1 != static_cast<int>(tasks.size());
}

bool NamesFreePort(absl::string_view address) { return absl::EndsWith(address, ":0"); }

}  // namespace

absl::StatusOr<HostPort> HostPort::Parse(absl::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) {
    return Invalid(absl::StrCat("address '", text, "' has no port (expected host:port)"));
  }
  absl::string_view host = text.substr(0, colon);
  const absl::string_view port_text = text.substr(colon + 1);
  HostPort result;
  const bool all_digits =
      !port_text.empty() && std::all_of(port_text.begin(), port_text.end(), absl::ascii_isdigit);
  if (!all_digits || !absl::SimpleAtoi(port_text, &result.port) || result.port > 65535) {
    return Invalid(absl::StrCat("address '", text, "': '", port_text, "' is no port (0 to 65535)"));
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (absl::StrContains(host, ':')) {
    return Invalid(
        absl::StrCat("address '", text, "': an IPv6 host needs brackets, [", host, "]:", port_text));
  }
  if (host.empty()) return Invalid(absl::StrCat("address '", text, "' has no host"));
  for (const char c : host) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '-' && c != '_' && c != ':' && c != '%') {
      return Invalid(
          absl::StrCat("address '", text, "': '", absl::string_view(&c, 1), "' cannot be in a host name"));
    }
  }
  result.host = std::string(host);
  return result;
}

std::string HostPort::ToString() const {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<ClusterSpec> ClusterSpec::FromFlag(absl::string_view text) {
  ClusterSpec spec;
  if (absl::StripAsciiWhitespace(text).empty()) {
    return Invalid("cluster spec is empty: expected 'ps|host:port,worker|host:port;host:port'");
  }
  for (absl::string_view job : absl::StrSplit(text, ',')) WEIR_RETURN_IF_ERROR(AddFlagJob(job, &spec));
  return spec;
}

absl::StatusOr<ClusterSpec> ClusterSpec::FromJson(absl::string_view text) {
  WEIR_ASSIGN_OR_RETURN(const Json value, ParseJson("cluster spec", text));
  if (!value.is_object()) {
    return Invalid(absl::StrCat("cluster spec must be an object {job: addresses}, found ", value.type_name(),
                                " ", Excerpt(value)));
  }
  ClusterSpec spec;
  for (const auto& [job, tasks] : value.items()) WEIR_RETURN_IF_ERROR(AddJsonJob(job, tasks, &spec));
  return spec;
}

absl::Status ClusterSpec::AddTask(const TaskName& task, absl::string_view address) {
  if (tasks_.size() >= kMaxTasks) {
    return Invalid(absl::StrCat("cluster spec: more than ", kMaxTasks, " tasks"));
  }
  WEIR_RETURN_IF_ERROR(CheckJobName(task.job));
  if (task.index < 0 || task.index > kMaxTaskIndex) {
    return Invalid(absl::StrCat("cluster spec: ", task.ToString(), ": the task index must be in [0, ",
                                kMaxTaskIndex, "]"));
  }
  if (absl::StatusOr<HostPort> parsed = HostPort::Parse(address); !parsed.ok()) {
    return Invalid(absl::StrCat("cluster spec: ", task.ToString(), ": ", parsed.status().message()));
  }
  for (const auto& [other, other_address] : tasks_) {
    if (other_address == address && !NamesFreePort(address)) {
      return Invalid(absl::StrCat("cluster spec: ", task.ToString(), ": address '", address,
                                  "' already belongs to ", other.ToString()));
    }
  }
  if (!tasks_.emplace(task, std::string(address)).second) {
    return Invalid(absl::StrCat("cluster spec: ", task.ToString(), " is given twice"));
  }
  return absl::OkStatus();
}

absl::Status ClusterSpec::SetAddress(const TaskName& task, absl::string_view address) {
  WEIR_RETURN_IF_ERROR(this->address(task).status());
  WEIR_RETURN_IF_ERROR(HostPort::Parse(address).status());
  tasks_[task] = std::string(address);
  return absl::OkStatus();
}

int ClusterSpec::num_tasks(absl::string_view job) const { return static_cast<int>(tasks(job).size()); }

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> jobs;
  for (const auto& [task, address] : tasks_) {
    if (jobs.empty() || jobs.back() != task.job) jobs.push_back(task.job);
  }
  return jobs;
}

std::vector<TaskName> ClusterSpec::tasks() const {
  std::vector<TaskName> tasks;
  for (const auto& [task, address] : tasks_) tasks.push_back(task);
  return tasks;
}

std::vector<TaskName> ClusterSpec::tasks(absl::string_view job) const {
  std::vector<TaskName> tasks;
  auto it = tasks_.lower_bound(TaskName{std::string(job), 0});
  for (; it != tasks_.end() && it->first.job == job; ++it) tasks.push_back(it->first);
  return tasks;
}

absl::StatusOr<std::string> ClusterSpec::address(const TaskName& task) const {
  if (auto it = tasks_.find(task); it != tasks_.end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [other, address] : tasks_) known.push_back(other.ToString());
  return absl::NotFoundError(absl::StrCat("the cluster has no task ", PrintableText(task.ToString()),
                                          ": it has ",
                                          known.empty() ? "no tasks" : absl::StrJoin(known, ", ")));
}

std::string ClusterSpec::ToFlag() const {
  std::vector<std::string> job_texts;
  for (const std::string& job : jobs()) {
    const std::vector<TaskName> job_tasks = tasks(job);
    const bool write_indices = HasGaps(job_tasks);
    std::vector<std::string> addresses;
    for (const TaskName& task : job_tasks) {
      const std::string& address = tasks_.at(task);
      addresses.push_back(write_indices ? absl::StrCat(task.index, "=", address) : address);
    }
    job_texts.push_back(absl::StrCat(job, "|", absl::StrJoin(addresses, ";")));
  }
  return absl::StrJoin(job_texts, ",");
}

std::string ClusterSpec::ToJson() const {
  Json cluster = Json::object();
  for (const std::string& job : jobs()) {
    const std::vector<TaskName> job_tasks = tasks(job);
    if (HasGaps(job_tasks)) {
      for (const TaskName& task : job_tasks) cluster[job][std::to_string(task.index)] = tasks_.at(task);
    } else {
      for (const TaskName& task : job_tasks) cluster[job].push_back(tasks_.at(task));
    }
  }
  return cluster.dump();
}

}  // namespace weir
