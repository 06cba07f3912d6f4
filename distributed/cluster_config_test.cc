// ClusterSpec, TaskName and TaskConfig: every form they accept and every way a user gets them wrong.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "distributed/cluster_spec.h"
#include "distributed/task_config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status) {
  return status.ok() ? "(no error)" : std::string(status.message());
}

TEST(TaskName, ParsesBothForms) {
  EXPECT_EQ(TaskName::Parse("worker:1").value(), (TaskName{"worker", 1}));
  EXPECT_EQ(TaskName::Parse("/job:ps/replica:0/task:3").value(), (TaskName{"ps", 3}));
  for (const char* bad : {"", "worker", "worker:", "worker:x", ":1", "worker:-1", "/job:ps"}) {
    EXPECT_FALSE(TaskName::Parse(bad).ok()) << bad;
  }
}

TEST(ClusterSpec, ReadsTensorFlowsFlag) {
  const ClusterSpec spec = ClusterSpec::FromFlag("ps|h0:1,worker|h1:2;h2:3").value();
  EXPECT_THAT(spec.jobs(), ElementsAre("ps", "worker"));
  EXPECT_EQ(spec.num_tasks("worker"), 2);
  EXPECT_EQ(spec.num_tasks("chief"), 0);
  EXPECT_EQ(spec.address({"worker", 1}).value(), "h2:3");
  EXPECT_EQ(spec.ToFlag(), "ps|h0:1,worker|h1:2;h2:3");
  EXPECT_EQ(spec.ToJson(), R"({"ps":["h0:1"],"worker":["h1:2","h2:3"]})");
  EXPECT_EQ(ClusterSpec::FromJson(spec.ToJson()).value(), spec);
}

TEST(ClusterSpec, SparseJobsKeepTheirIndices) {
  const ClusterSpec spec =
      ClusterSpec::FromJson(R"({"worker": {"1": "h:1", "10": "h:10", "2": "h:2"}})").value();
  EXPECT_THAT(spec.tasks("worker"),
              ElementsAre(TaskName{"worker", 1}, TaskName{"worker", 2}, TaskName{"worker", 10}));
  EXPECT_EQ(spec.ToFlag(), "worker|1=h:1;2=h:2;10=h:10");
  EXPECT_EQ(ClusterSpec::FromFlag(spec.ToFlag()).value(), spec);
  EXPECT_EQ(ClusterSpec::FromJson(spec.ToJson()).value(), spec);
}

// Each is compared with all before it.
TEST(ClusterSpec, TasksAreBounded) {
  std::string flag = "worker|h0:1";
  for (int i = 1; i <= 10'000; ++i) absl::StrAppend(&flag, ";h", i, ":1");
  EXPECT_EQ(ErrorOf(ClusterSpec::FromFlag(flag).status()), "cluster spec: more than 10000 tasks");
}

TEST(ClusterSpec, UnknownTaskIsNamedWithTheKnownOnes) {
  const ClusterSpec spec = ClusterSpec::FromFlag("ps|h:1,worker|h:2").value();
  EXPECT_EQ(ErrorOf(spec.address({"worker", 7}).status()),
            "the cluster has no task worker:7: it has ps:0, worker:0");
}

TEST(ClusterSpec, PortZeroMayRepeatAndBeSet) {
  ClusterSpec spec = ClusterSpec::FromFlag("worker|localhost:0;localhost:0").value();
  ASSERT_TRUE(spec.SetAddress({"worker", 1}, "localhost:77").ok());
  EXPECT_EQ(spec.address({"worker", 1}).value(), "localhost:77");
  EXPECT_FALSE(spec.SetAddress({"worker", 2}, "localhost:78").ok());
}

TEST(HostPort, BracketsAroundIpv6) {
  const HostPort parsed = HostPort::Parse("[::1]:80").value();
  EXPECT_EQ(parsed.host, "::1");
  EXPECT_EQ(parsed.port, 80);
  EXPECT_EQ(parsed.ToString(), "[::1]:80");
}

struct BadText {
  const char* text;
  const char* error;
};

TEST(ClusterSpec, MalformedFlags) {
  const BadText cases[] = {
      {"", "cluster spec is empty"},
      {"worker", "'worker' is not of the form JOB|HOST:PORT"},
      {"worker|h:1|h:2", "is not of the form JOB|HOST:PORT"},
      {"|h:1", "'' is no job name"},
      {"1st|h:1", "'1st' is no job name"},
      {"my-job|h:1", "'my-job' is no job name"},
      {"worker|", "worker:0: address '' has no port"},
      {"worker|h:1;", "worker:1: address '' has no port"},
      {"worker|h", "worker:0: address 'h' has no port"},
      {"worker|h:", "worker:0: address 'h:': '' is no port"},
      {"worker|h:x", "worker:0: address 'h:x': 'x' is no port"},
      {"worker|h:1;h:65536", "worker:1: address 'h:65536': '65536' is no port"},
      {"worker|h:-1", "'-1' is no port"},
      {"worker|h: 1", "' 1' is no port"},
      {"worker|:80", "address ':80' has no host"},
      {"worker|::1:80", "an IPv6 host needs brackets"},
      {"worker|ho st:80", "' ' cannot be in a host name"},
      {"worker|h:1,worker|h:2", "job 'worker' is given twice"},
      {"ps|h:1,worker|h:1", "worker:0: address 'h:1' already belongs to ps:0"},
      {"worker|x=h:1", "job 'worker': 'x' is no task index"},
      {"worker|1=h:1;1=h:2", "worker:1 is given twice"},
      {"worker|2000000=h:1", "the task index must be in [0, 1000000]"},
  };
  for (const BadText& c : cases) {
    const absl::Status status = ClusterSpec::FromFlag(c.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(ErrorOf(status), HasSubstr(c.error)) << c.text;
  }
}

TEST(TaskConfig, ReadsTfConfig) {
  const TaskConfig config =
      TaskConfig::FromTfConfig(
          R"({"cluster": {"ps": ["h:1"], "worker": ["h:2", "h:3"]}, "task": {"type": "worker", "index": 1},
              "environment": "cloud"})")
          .value();
  EXPECT_EQ(config.job(), "worker");
  EXPECT_EQ(config.task_index(), 1);
  EXPECT_EQ(config.num_ps(), 1);
  EXPECT_EQ(config.num_workers(), 2);
  EXPECT_FALSE(config.is_chief());
  EXPECT_FALSE(config.runs_alone());
  EXPECT_EQ(TaskConfig::FromTfConfig(config.ToTfConfig()).value().ToTfConfig(), config.ToTfConfig());
}

TEST(TaskConfig, WhoIsChief) {
  struct Case {
    const char* cluster;
    const char* type;
    bool is_chief;
    int num_workers;
  };
  const Case cases[] = {
      {R"({"worker": ["h:1", "h:2"]})", "worker", true, 2},
      {R"({"chief": ["h:0"], "worker": ["h:1", "h:2"]})", "worker", false, 3},
      {R"({"chief": ["h:0"], "worker": ["h:1", "h:2"]})", "chief", true, 3},
      {R"({"master": ["h:0"], "worker": ["h:1"]})", "master", true, 2},
      {R"({"ps": ["h:0"], "worker": ["h:1"]})", "ps", false, 1},
      {R"({"worker": ["h:1"]})", "evaluator", false, 1},
  };
  for (const Case& c : cases) {
    const std::string text = std::string("{\"cluster\": ") + c.cluster + ", \"task\": {\"type\": \"" +
                             c.type + "\", \"index\": 0}}";
    absl::StatusOr<TaskConfig> config = TaskConfig::FromTfConfig(text);
    ASSERT_TRUE(config.ok()) << text << config.status();
    EXPECT_EQ(config->is_chief(), c.is_chief) << text;
    EXPECT_EQ(config->num_workers(), c.num_workers) << text;
  }
}

TEST(TaskConfig, AnEvaluatorIsOutsideOfTheCluster) {
  const char kWithout[] = R"({"ps": ["h:1"], "chief": ["h:2"]})";
  const char kWith[] = R"({"ps": ["h:1"], "chief": ["h:2"], "evaluator": ["h:3"]})";
  for (const char* cluster : {kWithout, kWith, "{}"}) {
    const auto config_of = [&](const char* job) {
      return TaskConfig::FromTfConfig(std::string("{\"cluster\": ") + cluster + ", \"task\": {\"type\": \"" +
                                      job + "\", \"index\": 0}}");
    };
    const auto evaluator = config_of("evaluator");
    ASSERT_TRUE(evaluator.ok()) << evaluator.status();
    EXPECT_TRUE(evaluator->is_evaluator());
    EXPECT_FALSE(evaluator->is_chief());
    EXPECT_FALSE(evaluator->cluster().HasJob("evaluator"));
    const auto again = TaskConfig::FromTfConfig(evaluator->ToTfConfig());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->is_evaluator());
    if (evaluator->runs_alone()) continue;
    // Nobody waits for it either.
    EXPECT_FALSE(config_of("chief").value().cluster().HasJob("evaluator"));
  }
  const auto second = TaskConfig::FromTfConfig(
      R"({"cluster": {"worker": ["h:1"]}, "task": {"type": "evaluator", "index": 1}})");
  EXPECT_THAT(ErrorOf(second.status()), HasSubstr("one evaluator"));
}

TEST(TaskConfig, IndexMayBeAString) {
  EXPECT_EQ(
      TaskConfig::FromTfConfig(R"({"cluster":{"worker":["h:1","h:2"]},"task":{"type":"worker","index":"1"}})")
          .value()
          .task_index(),
      1);
}

TEST(TaskConfig, MalformedTfConfig) {
  const BadText cases[] = {
      {"{", "TF_CONFIG is not JSON: line 1, column 2"},
      {"[]", "TF_CONFIG must be an object, found array []"},
      {"{\"cluster\": 3}", "TF_CONFIG: cluster spec must be an object {job: addresses}, found number 3"},
      {R"({"cluster": {"worker": ["h:1"]}})", "TF_CONFIG: cluster is given but task is missing"},
      {R"({"cluster": {"worker": ["h:1"]}, "task": 1})", "TF_CONFIG: task must be an object"},
      {R"({"cluster": {"worker": ["h:1"]}, "task": {"index": 0}})", "TF_CONFIG: task.type is missing"},
      {R"({"cluster": {"worker": ["h:1"]}, "task": {"type": 5, "index": 0}})", "task.type must be a string"},
      {R"({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker"}})", "TF_CONFIG: task.index is missing"},
      {R"({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": -1}})",
       "task.index must be a number"},
      {R"({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": 1.5}})", "found 1.5"},
      {R"({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": "x"}})", "found \"x\""},
      {R"({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": 18446744073709551615}})",
       "task.index must be"},
      {R"({"cluster": {"worker": ["h:1"]}, "task": {"type": "worker", "index": 1}})",
       "this process is to be worker:1, but the cluster has no task worker:1: it has worker:0"},
      {R"({"cluster": {"worker": ["h:1"]}, "task": {"type": "ps", "index": 0}})", "no task ps:0"},
      {R"({"task": {"type": "worker", "index": 0}})", "task is worker:0 but cluster is missing or empty"},
      {R"({"cluster": {"worker": [17]}, "task": {"type": "worker", "index": 0}})",
       "worker:0: the address must be a string 'host:port', found number 17"},
      {R"({"cluster": {"worker": 17}, "task": {"type": "worker", "index": 0}})",
       "job 'worker' must be a list"},
      {R"({"cluster": {"ps": "h:1", "worker": ["h:2"]}, "task": {"type": "ps", "index": 0}})",
       "job 'ps' must be a list of addresses or an object {index: address}, found string \"h:1\": a list of "
       "one "
       "is [\"h:1\"]"},
      {R"({"cluster": {"worker": {"a": "h:1"}}, "task": {"type": "worker", "index": 0}})",
       "'a' is no task index"},
      {R"({"cluster": {"worker": ["h:1", "h"]}, "task": {"type": "worker", "index": 0}})",
       "worker:1: address 'h' has no port"},
      {R"({"cluster": {"worker": ["h:1"], "worker": ["h:2"]}, "task": {"type": "worker", "index": 0}})",
       "has the key 'worker' twice"},
      {R"({"cluster": {"chief": ["h:1", "h:2"]}, "task": {"type": "chief", "index": 0}})",
       "cluster has 2 tasks in job 'chief'"},
      {R"({"cluster": {"chief": ["h:1"], "master": ["h:2"]}, "task": {"type": "chief", "index": 0}})",
       "both a chief and a master"},
  };
  for (const BadText& c : cases) {
    const absl::Status status = TaskConfig::FromTfConfig(c.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(ErrorOf(status), HasSubstr(c.error)) << c.text;
  }
  // What a terminal obeys, and what ends a C string, is shown and not sent.
  for (const auto& [name, shown] : std::vector<std::pair<std::string, std::string>>{
           {"\\u0000", "\\x00"}, {"\\u001b[2J", "\\x1b[2J"}, {"\\n", "\\n"}, {"\\u007f", "\\x7f"}}) {
    const std::string task = R"("task": {"type": "worker", "index": 0}})";
    for (const std::string& text :
         {R"({"cluster": {"worker": ["h)" + name + R"(:1"]}, )" + task,
          R"({"cluster": {"worker": ["h:)" + name + R"("]}, )" + task,
          R"({"cluster": {"worker": ["h)" + name + R"("]}, )" + task,
          R"({"cluster": {"w)" + name + R"(": ["h:1"]}, )" + task,
          R"({"cluster": {"worker": {")" + name + R"(": "h:1"}}, )" + task,
          R"({"cluster": {"worker": ["h:1"]}, "task": {"type": ")" + name + R"(", "index": 0}})",
          R"({"task": {"type": ")" + name + R"(", "index": 0}})"}) {
      const std::string error = ErrorOf(TaskConfig::FromTfConfig(text).status());
      EXPECT_THAT(error, HasSubstr(shown)) << text;
      EXPECT_TRUE(std::none_of(error.begin(), error.end(), absl::ascii_iscntrl)) << text;
    }
  }
  const std::string deep(100'000, '[');
  EXPECT_FALSE(TaskConfig::FromTfConfig(deep).ok());
}

TEST(TaskConfig, EnvironmentDecidesWhetherTheProgramRunsAlone) {
  unsetenv("TF_CONFIG");
  for (const char* alone : {"", " ", "{}", R"({"cluster": {}})", R"({"environment": "cloud"})"}) {
    setenv("TF_CONFIG", alone, 1);
    const TaskConfig config = TaskConfigFromEnvironment().value();
    EXPECT_TRUE(config.runs_alone()) << alone;
    EXPECT_TRUE(config.is_chief()) << alone;
    EXPECT_EQ(config.task().ToString(), "localhost:0");
    EXPECT_EQ(config.num_workers(), 1);
  }
  setenv("TF_CONFIG", R"({"cluster":{"ps":["h:1"]},"task":{"type":"ps","index":0}})", 1);
  EXPECT_EQ(TaskConfigFromEnvironment().value().task().ToString(), "ps:0");
  unsetenv("TF_CONFIG");
  EXPECT_TRUE(TaskConfigFromEnvironment().value().runs_alone());
}

// A variable of the environment, while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* const name_;
};

std::string TaskOf(const absl::StatusOr<TaskConfig>& config) {
  return config.ok() ? config->task().ToString() : std::string(config.status().message());
}

TEST(TaskConfig, SchedulersComeAfterTfConfigUnlessOneIsAskedFor) {
  unsetenv("TF_CONFIG");
  const Variable rank("PMI_RANK", "1");
  const Variable size("PMI_SIZE", "3");
  const Variable local_size("MPI_LOCALNRANKS", "3");
  const Variable num_ps("WEIR_NUM_PS", "1");
  EXPECT_EQ(TaskOf(TaskConfigFromEnvironment()), "worker:0");
  EXPECT_EQ(TaskConfigFromEnvironment(0)->cluster().ToFlag(),
            "worker|127.0.0.1:8888;127.0.0.1:8889;127.0.0.1:8890");
  {
    const Variable asked("WEIR_ENVIRONMENT", "none");
    EXPECT_TRUE(TaskConfigFromEnvironment()->runs_alone());
  }
  {
    const Variable asked("WEIR_ENVIRONMENT", "tf_config");
    EXPECT_THAT(TaskOf(TaskConfigFromEnvironment()), HasSubstr("TF_CONFIG names no task"));
  }
  const Variable tf_config("TF_CONFIG",
                           R"({"cluster":{"ps":["h:1"],"worker":["h:2"]},"task":{"type":"ps","index":0}})");
  EXPECT_EQ(TaskOf(TaskConfigFromEnvironment()), "ps:0");
  EXPECT_EQ(TaskOf(TaskConfigFromEnvironment(1)), "ps:0");
  EXPECT_EQ(TaskOf(TaskConfigFromEnvironment(2)), "--num_ps=2, but TF_CONFIG has 1 tasks in job 'ps'");
  const Variable asked("WEIR_ENVIRONMENT", "mpich");
  EXPECT_EQ(TaskOf(TaskConfigFromEnvironment()), "worker:0");
}

absl::StatusOr<TaskConfig> FromArgs(std::vector<std::string> args, std::vector<std::string>* rest = nullptr) {
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(args.size());
  absl::StatusOr<TaskConfig> config = TaskConfigFromCommandLine(&argc, argv.data());
  if (rest != nullptr) rest->assign(argv.begin(), argv.begin() + argc);
  return config;
}

TEST(TaskConfig, FlagsAreTakenOutOfTheCommandLine) {
  std::vector<std::string> rest;
  const TaskConfig config =
      FromArgs({"prog", "--steps=5", "--job_name=worker", "--task_index", "1", "--ps_hosts=a:1",
                "--worker_hosts=b:2, c:3", "file", "--", "--job_name=x"},
               &rest)
          .value();
  EXPECT_EQ(config.task(), (TaskName{"worker", 1}));
  EXPECT_EQ(config.cluster().ToFlag(), "ps|a:1,worker|b:2;c:3");
  EXPECT_THAT(rest, ElementsAre("prog", "--steps=5", "file", "--", "--job_name=x"));
}

TEST(TaskConfig, MalformedFlags) {
  struct Case {
    std::vector<std::string> args;
    const char* error;
  };
  const Case cases[] = {
      {{"p", "--job_name=worker"}, "--worker_hosts is missing"},
      {{"p", "--worker_hosts=h:1"}, "--job_name must be 'ps' or 'worker', found nothing"},
      {{"p", "--worker_hosts=h:1", "--job_name=x"}, "found 'x'"},
      {{"p", "--worker_hosts=h:1", "--job_name"}, "--job_name needs a value"},
      {{"p", "--worker_hosts=h:1", "--worker_hosts=h:2"}, "--worker_hosts is given twice"},
      {{"p", "--worker_hosts=h:1,h", "--job_name=worker"},
       "--worker_hosts: cluster spec: worker:1: address 'h' has no port"},
      {{"p", "--worker_hosts=h:1", "--job_name=worker", "--task_index=a"}, "--task_index must be a number"},
      {{"p", "--worker_hosts=h:1", "--job_name=worker", "--task_index=1"},
       "--task_index=1: --worker_hosts lists 1 host"},
      {{"p", "--worker_hosts=h:1", "--job_name=ps"}, "--ps_hosts lists 0 hosts"},
      {{"p", "--num_ps=-1"}, "--num_ps must be a number from 0 on, found '-1'"},
      {{"p", "--num_ps=x"}, "--num_ps must be a number from 0 on, found 'x'"},
      {{"p", "--num_ps=1"},
       "--num_ps or $WEIR_NUM_PS asks for 1 parameter servers, but neither TF_CONFIG nor"},
      {{"p", "--num_ps=1", "--job_name=worker", "--worker_hosts=h:1"},
       "--num_ps is for processes that a scheduler started"},
  };
  for (const Case& c : cases) EXPECT_THAT(ErrorOf(FromArgs(c.args).status()), HasSubstr(c.error));
}

TEST(TaskConfigFromCommandLine, HelpHasItsFlags) {
  for (const char* flag : {"--job_name", "--task_index", "--ps_hosts", "--worker_hosts", "--num_ps"}) {
    EXPECT_THAT(TaskFlagsHelp(), HasSubstr(absl::StrCat("\n  ", flag, "="))) << flag;
  }
}

}  // namespace
}  // namespace weir
