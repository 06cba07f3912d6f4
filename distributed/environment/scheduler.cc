#include "distributed/environment/scheduler.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "distributed/environment/host_list.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kMaxPort = 65535;

// The variables of one scheduler. A null pointer: it has no such variable.
struct Scheduler {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  // Also needed, because rank and size alone have names that anybody may use.
  const char* mark;
};

// In the order of the header's table.
constexpr Scheduler kSchedulers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"},
    {"horovod", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", nullptr},
    {"open_mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr},
    {"slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, nullptr},
};
// Slurm's variables of a whole job. They count only when Slurm is asked for by name and there is no step.
constexpr Scheduler kSlurmJob = {"slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, nullptr};

// A process among those that one scheduler started.
struct Process {
  const Scheduler* scheduler = nullptr;
  int rank = 0;
  int size = 1;
  std::optional<int> local_rank;
  std::optional<int> local_size;
};

// Where a rank runs: the host, and which of the host's processes it is.
struct Seat {
  std::string host;
  int index_on_host = 0;
};

class Environment {
 public:
  explicit Environment(EnvironmentVariables variables) : variables_(variables) {}

  std::optional<std::string> Find(const char* name) const {
    const char* value = name == nullptr ? nullptr : variables_(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  }

  absl::StatusOr<std::optional<int>> FindNumber(const char* name, int min, int max) const {
    const std::optional<std::string> text = Find(name);
    if (!text) return std::nullopt;
    int value = 0;
    if (absl::SimpleAtoi(*text, &value) && value >= min && value <= max) return value;
    return absl::InvalidArgumentError(absl::StrCat("$", name, " must be a number from ", min, " to ", max,
                                                   ", found '", absl::string_view(*text).substr(0, 50), "'"));
  }

  absl::StatusOr<std::string> Get(const char* name) const {
    if (std::optional<std::string> text = Find(name)) return *std::move(text);
    return absl::InvalidArgumentError(absl::StrCat("$", name, " is not set"));
  }

 private:
  const EnvironmentVariables variables_;
};

bool IsThere(const Environment& env, const Scheduler& scheduler) {
  return env.Find(scheduler.size) && (scheduler.mark == nullptr || env.Find(scheduler.mark)) &&
         env.Find(scheduler.rank);
}

// Half of it is a mistake of whoever set it. Not of Slurm, whose batch scripts have a rank and no step, nor
// of torchrun, whose names are everybody's.
absl::Status CheckWhole(const Environment& env, const Scheduler& scheduler) {
  if (scheduler.mark != nullptr || absl::string_view(scheduler.name) == "slurm") return absl::OkStatus();
  const bool has_rank = env.Find(scheduler.rank).has_value();
  if (has_rank == env.Find(scheduler.size).has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("$", has_rank ? scheduler.rank : scheduler.size,
                                                 " is set but $", has_rank ? scheduler.size : scheduler.rank,
                                                 " is not"));
}

absl::StatusOr<Process> ReadProcess(const Environment& env, const Scheduler& scheduler) {
  Process process;
  process.scheduler = &scheduler;
  WEIR_ASSIGN_OR_RETURN(const std::optional<int> size,
                        env.FindNumber(scheduler.size, 1, kMaxHostListEntries));
  WEIR_ASSIGN_OR_RETURN(const std::optional<int> rank,
                        env.FindNumber(scheduler.rank, 0, kMaxHostListEntries - 1));
  process.size = size.value_or(1);
  process.rank = rank.value_or(0);
  if (process.rank >= process.size) {
    return absl::InvalidArgumentError(absl::StrCat("$", scheduler.rank, " is ", process.rank, " but $",
                                                   scheduler.size, " is ", process.size,
                                                   ": ranks count from 0"));
  }
  WEIR_ASSIGN_OR_RETURN(process.local_rank, env.FindNumber(scheduler.local_rank, 0, kMaxHostListEntries - 1));
  WEIR_ASSIGN_OR_RETURN(process.local_size, env.FindNumber(scheduler.local_size, 1, kMaxHostListEntries));
  return process;
}

absl::StatusOr<Process> ReadNamed(const Environment& env, absl::string_view name) {
  std::vector<std::string> names;
  for (const Scheduler& scheduler : kSchedulers) {
    names.emplace_back(scheduler.name);
    if (name != scheduler.name) continue;
    if (IsThere(env, scheduler)) return ReadProcess(env, scheduler);
    if (name == kSlurmJob.name && IsThere(env, kSlurmJob)) return ReadProcess(env, kSlurmJob);
    return absl::InvalidArgumentError(
        absl::StrCat("$WEIR_ENVIRONMENT asks for ", name, ", but $", scheduler.rank, " or $", scheduler.size,
                     scheduler.mark == nullptr ? "" : absl::StrCat(" or $", scheduler.mark), " is not set"));
  }
  return absl::InvalidArgumentError(absl::StrCat("$WEIR_ENVIRONMENT is '", name.substr(0, 50),
                                                 "': expected tf_config, ", absl::StrJoin(names, ", "),
                                                 " or none"));
}

// The innermost one; a process without a scheduler when there is none.
absl::StatusOr<Process> FindProcess(const Environment& env) {
  std::optional<Process> innermost;
  for (const Scheduler& scheduler : kSchedulers) {
    WEIR_RETURN_IF_ERROR(CheckWhole(env, scheduler));
    if (!IsThere(env, scheduler)) continue;
    WEIR_ASSIGN_OR_RETURN(const Process process, ReadProcess(env, scheduler));
    if (!innermost) {
      innermost = process;
    } else if (innermost->size == 1 && process.size > 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          innermost->scheduler->name, " says that this process is alone ($", innermost->scheduler->size,
          "=1), but ", scheduler.name, " started ", process.size, " ($", scheduler.size,
          "): say which one counts, WEIR_ENVIRONMENT=", innermost->scheduler->name, " or ", scheduler.name));
    }
  }
  return innermost.value_or(Process());
}

std::vector<Seat> SeatsOf(const std::vector<HostSlots>& hosts) {
  std::vector<Seat> seats;
  for (const HostSlots& host : hosts) {
    for (int i = 0; i < host.num_slots; ++i) seats.push_back({host.host, i});
  }
  return seats;
}

absl::Status NotByBlocks(const Process& process, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "rank ", process.rank, " is not where a layout by blocks puts it (", what,
      "): let ranks fill one host after the other (srun --distribution=block, mpirun --map-by slot)"));
}

absl::Status CheckSeat(const Process& process, const std::vector<Seat>& seats) {
  const int computed = seats[process.rank].index_on_host;
  if (!process.local_rank || *process.local_rank == computed) return absl::OkStatus();
  return NotByBlocks(
      process, absl::StrCat("it would be process ", computed, " of ", seats[process.rank].host, ", but $",
                            process.scheduler->local_rank, " is ", *process.local_rank));
}

// The node's number and the ranks that Slurm runs there.
absl::Status CheckSlurmLayout(const Environment& env, const Process& process,
                              const std::vector<int>& tasks_per_node) {
  int node = 0;
  int first = 0;
  while (process.rank >= first + tasks_per_node[node]) first += tasks_per_node[node++];
  WEIR_ASSIGN_OR_RETURN(const std::optional<int> node_id,
                        env.FindNumber("SLURM_NODEID", 0, kMaxHostListEntries));
  if (node_id && *node_id != node) {
    return NotByBlocks(process,
                       absl::StrCat("it would be on node ", node, ", but $SLURM_NODEID is ", *node_id));
  }
  const std::optional<std::string> ranks = env.Find("SLURM_GTIDS");
  std::vector<int> expected(tasks_per_node[node]);
  for (int i = 0; i < tasks_per_node[node]; ++i) expected[i] = first + i;
  if (!ranks || *ranks == absl::StrJoin(expected, ",")) return absl::OkStatus();
  return NotByBlocks(process,
                     absl::StrCat("its node would run ", tasks_per_node[node], " tasks from rank ", first,
                                  " on, but $SLURM_GTIDS is ", absl::string_view(*ranks).substr(0, 50)));
}

absl::StatusOr<std::vector<Seat>> SlurmSeats(const Environment& env, const Process& process) {
  const bool is_step = env.Find("SLURM_STEP_NODELIST").has_value();
  const char* const list_name = is_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const char* const counts_name = is_step ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  WEIR_ASSIGN_OR_RETURN(const std::string list, env.Get(list_name));
  WEIR_ASSIGN_OR_RETURN(const std::string counts_text, env.Get(counts_name));
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        ExpandHostList(absl::StrCat("$", list_name), list));
  WEIR_ASSIGN_OR_RETURN(const std::vector<int> counts,
                        ExpandTaskCounts(absl::StrCat("$", counts_name), counts_text));
  int64_t total = 0;
  for (const int count : counts) total += count;
  if (names.size() != counts.size() || total != process.size) {
    return absl::InvalidArgumentError(absl::StrCat("$", list_name, " names ", names.size(), " nodes and $",
                                                   counts_name, " says ", total, " tasks on ", counts.size(),
                                                   " nodes, but ", process.size, " tasks were started"));
  }
  WEIR_RETURN_IF_ERROR(CheckSlurmLayout(env, process, counts));
  std::vector<HostSlots> hosts;
  for (size_t i = 0; i < names.size(); ++i) hosts.push_back({names[i], counts[i]});
  return SeatsOf(hosts);
}

// From $WEIR_HOSTS or $WEIR_HOSTFILE; none when neither is set.
absl::StatusOr<std::vector<HostSlots>> GivenHosts(const Environment& env) {
  const std::optional<std::string> list = env.Find("WEIR_HOSTS");
  const std::optional<std::string> file = env.Find("WEIR_HOSTFILE");
  if (list && file) {
    return absl::InvalidArgumentError("$WEIR_HOSTS and $WEIR_HOSTFILE are both set: one of them is enough");
  }
  if (list) return ParseHostSlots("$WEIR_HOSTS", *list);
  if (file) return ReadHostFile(*file);
  return std::vector<HostSlots>();
}

// A Slurm step around the scheduler whose processes are the same: Slurm knows where they are.
absl::StatusOr<bool> IsSlurmStep(const Environment& env, const Process& process) {
  const Scheduler& slurm = *std::prev(std::end(kSchedulers));
  if (process.scheduler->name == absl::string_view(slurm.name)) return true;
  if (!IsThere(env, slurm)) return false;
  WEIR_ASSIGN_OR_RETURN(const Process step, ReadProcess(env, slurm));
  return step.rank == process.rank && step.size == process.size;
}

absl::StatusOr<std::vector<Seat>> FindSeats(const Environment& env, const Process& process) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<HostSlots> given, GivenHosts(env));
  std::vector<Seat> seats = SeatsOf(given);
  if (given.empty()) {
    WEIR_ASSIGN_OR_RETURN(const bool is_slurm_step, IsSlurmStep(env, process));
    if (is_slurm_step) {
      WEIR_ASSIGN_OR_RETURN(seats, SlurmSeats(env, process));
    } else if (process.local_size && *process.local_size == process.size) {
      seats = SeatsOf({{"127.0.0.1", process.size}});
    } else {
      return absl::InvalidArgumentError(absl::StrCat(process.scheduler->name, " started ", process.size,
                                                     " processes ($", process.scheduler->size,
                                                     ") and does not say on which hosts: list them in rank "
                                                     "order in $WEIR_HOSTS ('host1:2,host2:2') or in "
                                                     "the file $WEIR_HOSTFILE"));
    }
  }
  if (static_cast<int>(seats.size()) < process.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        env.Find("WEIR_HOSTS") ? "$WEIR_HOSTS" : "$WEIR_HOSTFILE", " has ", seats.size(), " slots, but ",
        process.scheduler->name, " started ", process.size, " processes ($", process.scheduler->size, ")"));
  }
  seats.resize(process.size);
  WEIR_RETURN_IF_ERROR(CheckSeat(process, seats));
  return seats;
}

absl::Status CheckNumPs(const Process& process, std::optional<int> num_ps) {
  if (!num_ps) {
    return absl::InvalidArgumentError(absl::StrCat(
        process.scheduler->name, " started ", process.size, " processes ($", process.scheduler->size,
        "): say how many of them are parameter servers with $WEIR_NUM_PS or --num_ps, 0 for none; or "
        "WEIR_ENVIRONMENT=none for programs that run alone"));
  }
  if (*num_ps >= 0 && *num_ps < process.size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("of ", process.size, " processes ", *num_ps,
                                                 " cannot be parameter servers ($WEIR_NUM_PS or --num_ps): a "
                                                 "worker is needed too"));
}

TaskName TaskOfRank(int rank, int num_ps) {
  return rank < num_ps ? TaskName{"ps", rank} : TaskName{"worker", rank - num_ps};
}

absl::StatusOr<ClusterSpec> BuildCluster(const std::vector<Seat>& seats, int num_ps, int port_base) {
  ClusterSpec cluster;
  for (size_t rank = 0; rank < seats.size(); ++rank) {
    const int port = port_base + seats[rank].index_on_host;
    if (port > kMaxPort) {
      return absl::InvalidArgumentError(absl::StrCat("$WEIR_PORT_BASE: process ", seats[rank].index_on_host,
                                                     " of ", seats[rank].host, " would listen at port ",
                                                     port));
    }
    WEIR_RETURN_IF_ERROR(cluster.AddTask(TaskOfRank(static_cast<int>(rank), num_ps),
                                         HostPort{seats[rank].host, port}.ToString()));
  }
  return cluster;
}

}  // namespace

absl::StatusOr<ScheduledTask> TaskFromScheduler(EnvironmentVariables variables, absl::string_view environment,
                                                std::optional<int> num_ps) {
  const Environment env(variables);
  if (!num_ps) {
    WEIR_ASSIGN_OR_RETURN(num_ps, env.FindNumber("WEIR_NUM_PS", 0, kMaxHostListEntries));
  }
  Process process;
  if (environment.empty()) {
    WEIR_ASSIGN_OR_RETURN(process, FindProcess(env));
  } else {
    WEIR_ASSIGN_OR_RETURN(process, ReadNamed(env, environment));
  }
  if (process.scheduler == nullptr && num_ps.value_or(0) > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--num_ps or $WEIR_NUM_PS asks for ", *num_ps,
        " parameter servers, but neither TF_CONFIG nor a scheduler says which task this process is; "
        "WEIR_ENVIRONMENT=none runs it alone"));
  }
  if (process.size == 1 && num_ps.value_or(0) == 0) return ScheduledTask{ClusterSpec(), {"localhost", 0}};
  WEIR_RETURN_IF_ERROR(CheckNumPs(process, num_ps));
  WEIR_ASSIGN_OR_RETURN(const std::vector<Seat> seats, FindSeats(env, process));
  WEIR_ASSIGN_OR_RETURN(const std::optional<int> port_base, env.FindNumber("WEIR_PORT_BASE", 1, kMaxPort));
  WEIR_ASSIGN_OR_RETURN(ClusterSpec cluster,
                        BuildCluster(seats, *num_ps, port_base.value_or(kDefaultPortBase)));
  return ScheduledTask{std::move(cluster), TaskOfRank(process.rank, *num_ps)};
}

}  // namespace weir
