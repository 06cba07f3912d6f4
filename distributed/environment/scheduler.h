// Which task this process is, as told by what started it: torchrun, Horovod, Open MPI, MPICH, Slurm.
//
// Each of them gives every process a rank and says how many there are. What none of them knows is how many
// are to be parameter servers, and most do not say where the other processes are:
//
//   name        variables of rank and size, which must be set              hosts of the others
//   torchrun    RANK, WORLD_SIZE, and MASTER_ADDR                          known if all are on this machine
//   horovod     HOROVOD_RANK, HOROVOD_SIZE                                 likewise
//   open_mpi    OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE                 likewise
//   mpich       PMI_RANK, PMI_SIZE (MPICH, Intel MPI, srun --mpi=pmi2)     likewise
//   slurm       SLURM_PROCID, SLURM_STEP_NUM_TASKS (a step: srun)          SLURM_STEP_NODELIST
//
// Choice. $WEIR_ENVIRONMENT names one; otherwise the first of this table that is there, which is the
// innermost: mpirun and torchrun run inside a Slurm job, not the other way round. A batch script and the
// shell of an interactive allocation are no step, so a program that is started there without srun runs alone;
// it is one process. So does a program of which one process was started, unless a scheduler further out says
// that there are several: then nobody knows whether that is one model or many, and it is an error.
//
// Jobs. Ranks 0 to num_ps - 1 are the tasks of job "ps", the rest are workers: TensorFlow's
// SlurmClusterResolver does the same with jobs={"ps": num_ps, "worker": the rest}. With more than one process
// the number of parameter servers must be given ($WEIR_NUM_PS or --num_ps, 0 for none): a guess could make
// every process train a model of its own.
//
// Hosts. From $WEIR_HOSTS ("gpu[1-2]:4,login:1") or the file $WEIR_HOSTFILE (host_list.h has both forms),
// whose slots the ranks fill in order; or from a Slurm step with the same rank and size; or 127.0.0.1 where
// the scheduler says that all processes are on one machine. Ports count from $WEIR_PORT_BASE (8888, as
// TensorFlow's resolver has it) on each host. Where rank and host can be compared with what the scheduler
// says (SLURM_NODEID, SLURM_LOCALID, SLURM_GTIDS, local ranks), a layout that is not by blocks is refused.
//
// Pure functions of the variables they are given. Every error is InvalidArgument (a host file that cannot be
// read: NotFound) and names the variable.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "distributed/cluster_spec.h"
#include "distributed/task_name.h"

namespace weir {

// As getenv: null when the variable is not set.
using EnvironmentVariables = absl::FunctionRef<const char*(const char* name)>;

inline constexpr int kDefaultPortBase = 8888;

struct ScheduledTask {
  ClusterSpec cluster;  // empty: this process runs alone
  TaskName task;
};

// `environment` is one of the table's names, or empty: whichever is there. `num_ps` is the flag's value;
// without it $WEIR_NUM_PS counts. InvalidArgument when one that was asked for is not there; and when
// parameter servers are asked for but no scheduler is there.
absl::StatusOr<ScheduledTask> TaskFromScheduler(EnvironmentVariables variables, absl::string_view environment,
                                                std::optional<int> num_ps);

}  // namespace weir
