// What schedulers set, as far as it is known from their manuals and from TensorFlow's resolver, and how it is
// damaged.
#include "distributed/environment/scheduler.h"

#include <fstream>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<ScheduledTask> Find(const Variables& variables, absl::string_view environment = "",
                                   std::optional<int> num_ps = std::nullopt) {
  return TaskFromScheduler(
      [&](const char* name) {
        const auto it = variables.find(name);
        return it == variables.end() ? nullptr : it->second.c_str();
      },
      environment, num_ps);
}

// "worker:1 of ps|a:1,worker|a:2;b:1", "alone", or the error.
std::string Found(const Variables& variables, absl::string_view environment = "",
                  std::optional<int> num_ps = std::nullopt) {
  const absl::StatusOr<ScheduledTask> found = Find(variables, environment, num_ps);
  if (!found.ok()) return std::string(found.status().message());
  return found->cluster.is_empty() ? "alone"
                                   : absl::StrCat(found->task.ToString(), " of ", found->cluster.ToFlag());
}

Variables With(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

// srun -N2 -n3: what the task of rank 2 sees.
const Variables kSlurmStep = {{"SLURM_JOB_ID", "7"},
                              {"SLURM_NTASKS", "3"},
                              {"SLURM_PROCID", "2"},
                              {"SLURM_NODEID", "1"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_GTIDS", "2"},
                              {"SLURM_STEP_NUM_TASKS", "3"},
                              {"SLURM_STEP_NODELIST", "n[1-2]"},
                              {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                              {"WEIR_NUM_PS", "1"}};
// mpirun -n 4 -H a:2,b:2: rank 3.
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"WEIR_NUM_PS", "2"}};

TEST(Slurm, AStepSaysEverythingButTheNumberOfParameterServers) {
  EXPECT_EQ(Found(kSlurmStep), "worker:1 of ps|n1:8888,worker|n1:8889;n2:8888");
  EXPECT_EQ(Found(With(kSlurmStep, {{"WEIR_NUM_PS", "0"}, {"WEIR_PORT_BASE", "2222"}})),
            "worker:2 of worker|n1:2222;n1:2223;n2:2222");
  // The flag is stronger than the variable.
  EXPECT_EQ(Found(kSlurmStep, "", 2), "worker:0 of ps|n1:8888;n1:8889,worker|n2:8888");
  EXPECT_THAT(
      Found(With(kSlurmStep, {{"WEIR_NUM_PS", ""}})),
      HasSubstr("slurm started 3 processes ($SLURM_STEP_NUM_TASKS): say how many of them are parameter "
                "servers with $WEIR_NUM_PS or --num_ps"));
  EXPECT_THAT(Found(kSlurmStep, "", 3), HasSubstr("of 3 processes 3 cannot be parameter servers"));
}

TEST(Slurm, WhatIsNoStepRunsAlone) {
  // A batch script, and the shell of `salloc`, see their job's size; the shell of an interactive step is a
  // step of one task.
  const Variables batch = {{"SLURM_JOB_ID", "7"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_NTASKS", "4"},
                           {"SLURM_JOB_NODELIST", "n[1-2]"},
                           {"SLURM_TASKS_PER_NODE", "2(x2)"}};
  EXPECT_EQ(Found(batch), "alone");
  EXPECT_EQ(Found(With(batch, {{"SLURM_STEP_NUM_TASKS", "1"}})), "alone");
  EXPECT_THAT(Found(With(batch, {{"WEIR_NUM_PS", "1"}})),
              HasSubstr("neither TF_CONFIG nor a scheduler says"));
  EXPECT_THAT(Found(With(batch, {{"SLURM_STEP_NUM_TASKS", "1"}, {"WEIR_NUM_PS", "1"}})),
              HasSubstr("of 1 processes 1 cannot be parameter servers"));
  // Asked for by name, the job's variables count.
  EXPECT_EQ(Found(batch, "slurm", 1), "ps:0 of ps|n1:8888,worker|n1:8889;n2:8888;n2:8889");
}

TEST(Slurm, AnotherLayoutThanByBlocksIsRefused) {
  for (const Variables& change : {Variables{{"SLURM_NODEID", "0"}}, Variables{{"SLURM_LOCALID", "1"}},
                                  Variables{{"SLURM_GTIDS", "1,2"}}}) {
    EXPECT_THAT(Found(With(kSlurmStep, change)), HasSubstr("rank 2 is not where a layout by blocks puts it"));
  }
}

TEST(Slurm, DamagedVariablesAreNamed) {
  const std::pair<Variables, const char*> cases[] = {
      {{{"SLURM_PROCID", "-1"}}, "$SLURM_PROCID must be a number from 0 to 9999, found '-1'"},
      {{{"SLURM_PROCID", "3"}}, "$SLURM_PROCID is 3 but $SLURM_STEP_NUM_TASKS is 3"},
      {{{"SLURM_STEP_NUM_TASKS", "0"}}, "$SLURM_STEP_NUM_TASKS must be a number from 1 to 10000, found '0'"},
      {{{"SLURM_STEP_NUM_TASKS", "99999999999999999999"}}, "$SLURM_STEP_NUM_TASKS must be"},
      {{{"SLURM_STEP_NUM_TASKS", "4"}}, "says 3 tasks on 2 nodes, but 4 tasks were started"},
      {{{"SLURM_STEP_NODELIST", "n[1-3]"}}, "$SLURM_STEP_NODELIST names 3 nodes"},
      {{{"SLURM_STEP_NODELIST", "n[1-"}}, "$SLURM_STEP_NODELIST: 'n[1-': a bracket is not closed"},
      {{{"SLURM_STEP_NODELIST", "n1,n1"}}, "address 'n1:8888' already belongs to"},
      {{{"SLURM_STEP_NODELIST", ""}}, "$SLURM_JOB_NODELIST is not set"},
      {{{"SLURM_STEP_TASKS_PER_NODE", "2(x2"}}, "$SLURM_STEP_TASKS_PER_NODE: '2(x2'"},
      {{{"SLURM_STEP_TASKS_PER_NODE", "10000(x10000)"}}, "but 3 tasks were started"},
      {{{"WEIR_NUM_PS", "-1"}}, "$WEIR_NUM_PS must be a number"},
      {{{"WEIR_PORT_BASE", "65536"}}, "$WEIR_PORT_BASE must be a number from 1 to 65535"},
      {{{"WEIR_PORT_BASE", "65535"}}, "process 1 of n1 would listen at port 65536"},
  };
  for (const auto& [change, error] : cases) {
    const Variables variables = With(kSlurmStep, change);
    EXPECT_EQ(Find(variables).status().code(), absl::StatusCode::kInvalidArgument) << error;
    EXPECT_THAT(Found(variables), HasSubstr(error));
  }
}

TEST(Mpi, WhereTheOthersAreMustBeSaid) {
  EXPECT_THAT(Found(kOpenMpi),
              HasSubstr("open_mpi started 4 processes ($OMPI_COMM_WORLD_SIZE) and does not say "
                        "on which hosts: list them in rank order in $WEIR_HOSTS"));
  EXPECT_EQ(Found(With(kOpenMpi, {{"WEIR_HOSTS", "a:2,b:2"}})),
            "worker:1 of ps|a:8888;a:8889,worker|b:8888;b:8889");
  const std::string path = absl::StrCat(::testing::TempDir(), "/mpi_hosts");
  std::ofstream(path) << "a slots=2\nb slots=3\n";
  EXPECT_EQ(Found(With(kOpenMpi, {{"WEIR_HOSTFILE", path}})),
            "worker:1 of ps|a:8888;a:8889,worker|b:8888;b:8889");
  EXPECT_THAT(Found(With(kOpenMpi, {{"WEIR_HOSTS", "a:2,b:2"}, {"WEIR_HOSTFILE", path}})),
              HasSubstr("are both set"));
  EXPECT_THAT(Found(With(kOpenMpi, {{"WEIR_HOSTS", "a:2,b"}})), HasSubstr("$WEIR_HOSTS has 3 slots"));
  EXPECT_THAT(Found(With(kOpenMpi, {{"WEIR_HOSTS", "a:1,b:3"}})),
              HasSubstr("it would be process 2 of b, but $OMPI_COMM_WORLD_LOCAL_RANK is 1"));
  EXPECT_EQ(Find(With(kOpenMpi, {{"WEIR_HOSTFILE", "/no/file"}})).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Mpi, OneMachineNeedsNoHosts) {
  EXPECT_EQ(Found(With(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "3"}})),
            "worker:1 of ps|127.0.0.1:8888;127.0.0.1:8889,worker|127.0.0.1:8890;127.0.0.1:8891");
  EXPECT_EQ(Found({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}, {"WEIR_NUM_PS", "1"}}),
            "ps:0 of ps|127.0.0.1:8888,worker|127.0.0.1:8889");
  EXPECT_EQ(
      Found(
          {{"HOROVOD_RANK", "1"}, {"HOROVOD_SIZE", "2"}, {"HOROVOD_LOCAL_SIZE", "2"}, {"WEIR_NUM_PS", "0"}}),
      "worker:1 of worker|127.0.0.1:8888;127.0.0.1:8889");
  EXPECT_EQ(Found({{"RANK", "1"},
                   {"WORLD_SIZE", "2"},
                   {"LOCAL_WORLD_SIZE", "2"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"WEIR_NUM_PS", "1"}}),
            "worker:0 of ps|127.0.0.1:8888,worker|127.0.0.1:8889");
}

TEST(Mpi, HalfOfTheVariablesIsAMistake) {
  EXPECT_EQ(Found({{"PMI_RANK", "0"}}), "$PMI_RANK is set but $PMI_SIZE is not");
  EXPECT_EQ(Found({{"OMPI_COMM_WORLD_SIZE", "2"}}),
            "$OMPI_COMM_WORLD_SIZE is set but $OMPI_COMM_WORLD_RANK is not");
  // Names that anybody may use.
  EXPECT_EQ(Found({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), "alone");
  EXPECT_EQ(Found({{"RANK", "x"}}), "alone");
}

TEST(Choice, TheInnermostCounts) {
  // mpirun in a batch script starts its daemons as a Slurm step of one task a node.
  const Variables daemons = With(kOpenMpi, {{"SLURM_PROCID", "1"},
                                            {"SLURM_STEP_NUM_TASKS", "2"},
                                            {"SLURM_STEP_NODELIST", "a,b"},
                                            {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
  EXPECT_THAT(Found(daemons), HasSubstr("open_mpi started 4 processes"));
  EXPECT_EQ(Found(With(daemons, {{"WEIR_HOSTS", "a:2,b:2"}})),
            "worker:1 of ps|a:8888;a:8889,worker|b:8888;b:8889");
  // srun --mpi=pmi2 and scripts that set RANK from SLURM_PROCID mean the same processes: Slurm knows where.
  EXPECT_EQ(Found(With(kSlurmStep, {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}})), Found(kSlurmStep));
  EXPECT_EQ(Found(With(kSlurmStep, {{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "n1"}})),
            Found(kSlurmStep));
}

TEST(Choice, OneProcessInsideOfSeveralIsNotGuessed) {
  const Variables nested = With(kSlurmStep, {{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_THAT(Found(nested),
              HasSubstr("mpich says that this process is alone ($PMI_SIZE=1), but slurm started 3"));
  EXPECT_EQ(Found(nested, "mpich", 0), "alone");
  EXPECT_EQ(Found(nested, "slurm"), Found(kSlurmStep));
}

TEST(Choice, ByName) {
  EXPECT_THAT(Found({}, "slurm"), HasSubstr("$WEIR_ENVIRONMENT asks for slurm, but $SLURM_PROCID or"));
  EXPECT_THAT(Found({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, "torchrun"),
              HasSubstr("or $MASTER_ADDR is not set"));
  EXPECT_EQ(
      Found({}, "lsf"),
      "$WEIR_ENVIRONMENT is 'lsf': expected tf_config, torchrun, horovod, open_mpi, mpich, slurm or none");
  EXPECT_EQ(Found({}), "alone");
  EXPECT_EQ(Found({{"WEIR_NUM_PS", "0"}}), "alone");
}

TEST(Choice, RandomVariablesGiveAnAnswer) {
  std::mt19937 random(11);
  const std::vector<std::string> values = {"",      "0",   "1",   "2", "-1", "n[1-2]",
                                           "2(x1)", "1,1", "a:2", "x", "[",  "99999999999"};
  Variables base = With(With(kSlurmStep, kOpenMpi), {{"PMI_RANK", "0"},
                                                     {"PMI_SIZE", "2"},
                                                     {"WEIR_HOSTS", "a:2"},
                                                     {"WEIR_PORT_BASE", "1"},
                                                     {"RANK", "0"},
                                                     {"WORLD_SIZE", "2"},
                                                     {"MASTER_ADDR", "a"}});
  for (int i = 0; i < 5000; ++i) {
    Variables variables;
    for (const auto& [name, value] : base) {
      if (random() % 2 == 0) variables[name] = random() % 2 == 0 ? value : values[random() % values.size()];
    }
    const absl::StatusCode code = Find(variables).status().code();
    ASSERT_TRUE(code == absl::StatusCode::kOk || code == absl::StatusCode::kInvalidArgument) << i;
  }
}

}  // namespace
}  // namespace weir
