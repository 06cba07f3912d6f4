// Tasks on other hosts: where they go, what is said to a shell there, and how they end. In the place of ssh a
// script that runs the command here.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "distributed/launch/launcher.h"
#include "distributed/launch/remote_command.h"
#include "distributed/launch/task_placement.h"
#include "distributed/launch/test_processes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(ShellQuote, WhatAShellReadsIsWhatWasMeant) {
  const std::string out = absl::StrCat(::testing::TempDir(), "/quoted");
  for (const std::string& text :
       {std::string("plain"), std::string(""), std::string("two words"), std::string("it's"),
        std::string("$HOME"), std::string("`id`"), std::string("a\nb"), std::string("*?[x]"),
        std::string("\\'\"!#&|;<>()"), std::string("-n"), std::string("\x01\xff\t"), std::string("~")}) {
    const std::string command = absl::StrCat("printf '%s' ", ShellQuote(text), " > ", ShellQuote(out));
    ASSERT_EQ(std::system(absl::StrCat("sh -c ", ShellQuote(command)).c_str()), 0) << text;
    EXPECT_EQ(ReadFile(out), text);
  }
}

// The signal lies in the pipe before the program has a group of its own.
TEST(RemoteScript, ASignalThatIsThereAlreadyIsNotLost) {
  RemoteTask task;
  task.directory = "/";
  task.command = {"sleep", "60"};
  task.stop_grace = absl::Seconds(30);
  // The sleep that holds the pipe open is ended too.
  const std::string command =
      absl::StrCat("exec >/dev/null 2>&1; sh -c ", ShellQuote(RemoteScript(task)),
                   " < <(printf 'token\\nTERM\\n'; exec sleep 61); code=$?; kill $!; exit $code");
  for (int i = 0; i < 5; ++i) {
    const int status = std::system(absl::StrCat("bash -c ", ShellQuote(command)).c_str());
    EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  }
}

std::string Placed(const std::vector<HostSlots>& hosts, int num_ps, int num_workers, int port_base = 8888) {
  const auto placed = PlaceTasks(hosts, num_ps, num_workers, port_base);
  if (!placed.ok()) return std::string(placed.status().message());
  std::string text;
  for (const PlacedTask& task : *placed)
    absl::StrAppend(&text, task.task.ToString(), "@", task.host, ":", task.port, " ");
  return text;
}

TEST(PlaceTasks, ParameterServersAreSpreadAndWorkersFill) {
  EXPECT_EQ(Placed({{"a", 3}, {"b", 3}}, 2, 4),
            "ps:0@a:8888 ps:1@b:8888 worker:0@a:8889 worker:1@a:8890 worker:2@b:8889 worker:3@b:8890 ");
  EXPECT_EQ(Placed({{"a", 1}, {"b", 3}}, 3, 1, 10), "ps:0@a:10 ps:1@b:10 ps:2@b:11 worker:0@b:12 ");
  EXPECT_EQ(Placed({{"a", 2}}, 0, 1), "worker:0@a:8888 ");
}

TEST(PlaceTasks, WhatDoesNotFitIsNamed) {
  EXPECT_EQ(Placed({{"a", 2}}, 1, 2), "--ps=1 and --workers=2 need a slot each, but the hosts have 2");
  EXPECT_EQ(Placed({}, 0, 1), "--ps=0 and --workers=1 need a slot each, but the hosts have 0");
  EXPECT_THAT(Placed({{"a", 2}}, 1, 1, 65535), HasSubstr("task 1 of a would get port 65536"));
  EXPECT_THAT(Placed({{"a", 2}}, 1, 1, -5), HasSubstr("task 0 of a would get port -5"));
  EXPECT_THAT(Placed({{"localhost", 1}, {"b", 1}}, 1, 1),
              HasSubstr("tasks on b could not reach those on localhost"));
}

struct Result {
  absl::StatusOr<int> code;
  std::string output;
  std::string error;
};

class RemoteLaunchTest : public ::testing::Test {
 protected:
  RemoteLaunchTest() {
    dir_ = MakeTestDir("remote it's ");  // a name that needs quotes
    // ssh gets options, the host, and one word for the shell there.
    ssh_ = absl::StrCat(::testing::TempDir(), "/fake_ssh_", getpid());
    std::ofstream(ssh_) << "#!/bin/sh\n[ \"$1\" = -o ] || exit 1\nshift 2\n"
                           "[ \"$1\" = gone ] && exit 255\necho \"$@\" >> \"$SSH_LOG\"\nexec sh -c \"$2\"\n";
    chmod(ssh_.c_str(), 0700);
    setenv("SSH_LOG", (dir_ + "/ssh.log").c_str(), 1);
  }
  ~RemoteLaunchTest() override { unlink(ssh_.c_str()); }

  // Every task runs `script` in dir_ with $TASK ("ps0") set.
  LaunchOptions Job(int num_ps, int num_workers, const std::string& script) {
    LaunchOptions options;
    options.num_ps = num_ps;
    options.num_workers = num_workers;
    options.hosts = {{"a", 2}, {"b", 2}};
    options.ssh = ssh_ + " -o x=y";
    options.directory = dir_;
    options.command = {
        "sh", "-c",
        "TASK=$(echo \"$TF_CONFIG\" | sed 's/.*\"index\":\\([0-9]*\\).*\"type\":\"\\([a-z]*\\)\".*"
        "/\\2\\1/'); " +
            script};
    options.ps_grace = absl::Seconds(5);
    options.stop_grace = absl::Seconds(5);
    return options;
  }

  Result Launch(LaunchOptions options) {
    options.output_fd = open((dir_ + "/out").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    options.error_fd = open((dir_ + "/err").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    Result result{Launcher(options).Run(), "", ""};
    close(options.output_fd);
    close(options.error_fd);
    result.output = ReadFile(dir_ + "/out");
    result.error = ReadFile(dir_ + "/err");
    return result;
  }

  // In a process of its own, so that signals can be sent to it.
  TestProcess ForkLauncher(const LaunchOptions& options) {
    return TestProcess::Fork([&] { return Launch(options).code.value_or(99); });
  }

  std::string Read(const std::string& name) const { return ReadFile(absl::StrCat(dir_, "/", name)); }

  bool AwaitFile(const std::string& name) const { return weir::AwaitFile(absl::StrCat(dir_, "/", name)); }
  // Of the process whose number is there.
  bool AwaitDeath(const std::string& name) const {
    return weir::AwaitDeath(ReadNumber(absl::StrCat(dir_, "/", name)));
  }

  // Writes the task's number to a file named after it, whole or not at all.
  static constexpr char kSayPid[] = "echo $$ > t$TASK; mv t$TASK $TASK; ";

  std::string dir_;
  std::string ssh_;
};

TEST_F(RemoteLaunchTest, TasksKnowTheirPlaceAndTheirLinesAreNamed) {
  setenv("WEIR_NUM_THREADS", "it's 3", 1);
  LaunchOptions options =
      Job(1, 2,
          "echo \"I am $TASK in $(pwd), $WEIR_NUM_THREADS $WEIR_LISTEN $X\"; "
          "echo \"$TF_CONFIG\" > $TASK; echo \"$WEIR_JOB_TOKEN\" > token$TASK; echo oops >&2");
  options.environment = {{"X", "a 'b' $c\nd"}};
  const Result result = Launch(options);
  unsetenv("WEIR_NUM_THREADS");
  ASSERT_EQ(result.code.value(), 0) << result.error;
  for (const char* task : {"ps", "worker"}) {
    EXPECT_THAT(result.output, HasSubstr(absl::StrCat("[", task, ":0] I am ", task, "0 in ", dir_,
                                                      ", it's 3 0.0.0.0 a 'b' $c\n[", task, ":0] d\n")));
  }
  EXPECT_THAT(result.error, HasSubstr("[worker:1] oops\n"));
  EXPECT_THAT(Read("worker1"),
              StartsWith(R"({"cluster":{"ps":["a:8888"],"worker":["a:8889","b:8888"]},"task":{"index":1,)"));
  // One token for all, and on no command line.
  const std::string token = Read("tokenps0");
  EXPECT_EQ(token.size(), 33u);
  EXPECT_EQ(Read("tokenworker1"), token);
  const std::string log = Read("ssh.log");
  EXPECT_THAT(log, HasSubstr("b exec sh -c "));
  EXPECT_THAT(log, Not(HasSubstr(token.substr(0, 32))));
}

TEST_F(RemoteLaunchTest, ExitCodesComeBackAndDecideWhoStartsAgain) {
  LaunchOptions options = Job(0, 2, "[ $TASK = worker1 ] || exit 0; echo life >> lives; exit 3");
  options.restarts = 2;
  Result result = Launch(options);
  EXPECT_EQ(result.code.value(), 3);
  EXPECT_EQ(Read("lives"), "life\n");
  EXPECT_THAT(result.error, HasSubstr("worker:1 (on a) died: exited with code 3"));

  result = Launch(Job(0, 1, "kill -9 $$"));
  EXPECT_EQ(result.code.value(), 137);

  options = Job(0, 1, "[ -e again ] && exit 0; touch again; exit 160");
  options.restarts = 1;
  result = Launch(options);
  EXPECT_EQ(result.code.value(), 0) << result.error;
  EXPECT_THAT(result.error,
              HasSubstr("worker:0 (on a) died: exited with code 160; starting it again (0 restarts left)"));
}

TEST_F(RemoteLaunchTest, AHostThatCannotBeReachedIsNamed) {
  LaunchOptions options = Job(0, 1, "true");
  options.hosts = {{"gone", 1}};
  options.restarts = 1;
  options.stop_grace = absl::Milliseconds(1);
  const Result result = Launch(options);
  EXPECT_EQ(result.code.value(), 255);
  EXPECT_THAT(result.error,
              HasSubstr("worker:0 (on gone) died: exited with code 255 (ssh's own: the host cannot be "
                        "reached, or the connection was lost); starting it again in 1.001s"));
}

// What ran there may still have its port: the next one cannot listen, and says so with a small exit code.
TEST_F(RemoteLaunchTest, WhereAConnectionWasLostWhatFailsIsTriedAgain) {
  LaunchOptions options =
      Job(0, 1, "[ -e second ] && exit 0; [ -e first ] && touch second && exit 1; touch first; exit 255");
  options.restarts = 2;
  options.stop_grace = absl::Milliseconds(1);
  const Result result = Launch(options);
  EXPECT_EQ(result.code.value(), 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("died: exited with code 1; starting it again"));
}

// An ssh that is killed says nothing of what it ran.
TEST_F(RemoteLaunchTest, AKilledSshIsALostConnection) {
  std::ofstream(ssh_) << "#!/bin/sh\n[ -e '" << absl::StrReplaceAll(dir_, {{"'", "'\\''"}})
                      << "/dead' ] && exit 0\ntouch '" << absl::StrReplaceAll(dir_, {{"'", "'\\''"}})
                      << "/dead'\nkill -9 $$\n";
  LaunchOptions options = Job(0, 1, "true");
  options.restarts = 1;
  options.stop_grace = absl::Milliseconds(1);
  const Result result = Launch(options);
  EXPECT_EQ(result.code.value(), 0) << result.error;
  EXPECT_THAT(result.error, HasSubstr("died: killed by signal 9 (Killed)"));
  EXPECT_THAT(result.error, HasSubstr("; starting it again in 1.001s"));
}

TEST_F(RemoteLaunchTest, WhatCannotRunThereIsAnError) {
  LaunchOptions options = Job(0, 1, "true");
  options.command = {"/no/such/program"};
  Result result = Launch(options);
  EXPECT_EQ(result.code.value(), 127);
  EXPECT_THAT(result.error, HasSubstr("/no/such/program"));
  options = Job(0, 1, "true");
  options.directory = "/no/such/directory";
  result = Launch(options);
  EXPECT_NE(result.code.value(), 0);
  EXPECT_THAT(result.error, HasSubstr("/no/such/directory"));
}

TEST_F(RemoteLaunchTest, ASignalReachesTheTasks) {
  const std::string wait =
      absl::StrCat("trap 'echo $TASK got it; exit 0' TERM; ", kSayPid, "while true; do sleep 0.05; done");
  TestProcess launcher = ForkLauncher(Job(1, 2, wait));
  for (const char* task : {"ps0", "worker0", "worker1"}) ASSERT_TRUE(AwaitFile(task));
  launcher.Signal(SIGINT);
  EXPECT_EQ(launcher.AwaitExit(), 128 + SIGINT);
  EXPECT_THAT(Read("out"), HasSubstr("[worker:1] worker1 got it"));
  EXPECT_THAT(Read("out"), HasSubstr("[ps:0] ps0 got it"));
}

TEST_F(RemoteLaunchTest, WhoIgnoresTheStopIsKilled) {
  LaunchOptions options = Job(1, 1,
                              absl::StrCat("if [ $TASK = ps0 ]; then trap '' TERM; ", kSayPid,
                                           "sleep 60; sleep 60; fi; "
                                           "while [ ! -e ps0 ]; do sleep 0.05; done; exit 2"));
  options.stop_grace = absl::Milliseconds(300);
  const Result result = Launch(options);
  EXPECT_EQ(result.code.value(), 2);
  EXPECT_THAT(result.error, HasSubstr("ps:0 (on a) still runs 300ms after it was told to stop: killing it"));
  EXPECT_TRUE(AwaitDeath("ps0"));
}

TEST_F(RemoteLaunchTest, AKilledLauncherLeavesNobodyBehind) {
  TestProcess launcher = ForkLauncher(Job(1, 1, absl::StrCat(kSayPid, "exec sleep 60")));
  for (const char* task : {"ps0", "worker0"}) ASSERT_TRUE(AwaitFile(task));
  launcher.Signal(SIGKILL);
  EXPECT_EQ(launcher.AwaitExit(), 128 + SIGKILL);
  for (const char* task : {"ps0", "worker0"}) EXPECT_TRUE(AwaitDeath(task));
}

TEST_F(RemoteLaunchTest, GrandchildrenDoNotSurviveTheirTask) {
  EXPECT_EQ(Launch(Job(0, 1, "sleep 60 & echo $! > pid")).code.value(), 0);
  EXPECT_TRUE(AwaitDeath("pid"));
}

TEST_F(RemoteLaunchTest, ADryRunPrintsWhatWouldRun) {
  LaunchOptions options = Job(1, 1, "touch ran-$TASK");
  options.dry_run = true;
  Result result = Launch(options);
  EXPECT_EQ(result.code.value(), 0);
  EXPECT_THAT(result.output, HasSubstr(absl::StrCat("# worker:0\n{ echo \"$WEIR_JOB_TOKEN\"; cat; } | ", ssh_,
                                                    " -o x=y a 'exec sh -c ")));
  EXPECT_NE(access((dir_ + "/ran-ps0").c_str(), F_OK), 0);
  // What is printed is what runs. In the place of a terminal something that stays until the task has ended:
  // it sends signal 0, which does nothing.
  std::ofstream(dir_ + "/script") << "WEIR_JOB_TOKEN=t\ncd " << ShellQuote(dir_) << "\n"
                                  << absl::StrReplaceAll(
                                         result.output,
                                         {{"; cat", "; while echo 0 2> /dev/null; do sleep 0.05; done"}});
  EXPECT_EQ(std::system(absl::StrCat("sh ", ShellQuote(dir_ + "/script")).c_str()), 0);
  EXPECT_EQ(access((dir_ + "/ran-ps0").c_str(), F_OK), 0);
  EXPECT_EQ(access((dir_ + "/ran-worker0").c_str(), F_OK), 0);

  options.hosts.clear();
  result = Launch(options);
  EXPECT_THAT(result.output, HasSubstr("# ps:0\nTF_CONFIG='{\"cluster\":{\"ps\":[\"127.0.0.1:"));
}

TEST_F(RemoteLaunchTest, MistakesAreNamed) {
  LaunchOptions options = Job(0, 1, "true");
  options.environment = {{"a;b", "c"}};
  EXPECT_EQ(Launch(options).code.status().message(), "--env: 'a;b' is no name of a variable");
  for (const char* name : {"WEIR_JOB_TOKEN", "TF_CONFIG"}) {
    options.environment = {{name, "c"}};
    EXPECT_THAT(std::string(Launch(options).code.status().message()), HasSubstr("is the launcher's to give"));
  }
  options = Job(0, 1, "true");
  options.ssh = " ";
  EXPECT_EQ(Launch(options).code.status().message(), "--ssh names no program");
  options = Job(3, 2, "true");
  EXPECT_THAT(std::string(Launch(options).code.status().message()), HasSubstr("but the hosts have 4"));
}

}  // namespace
}  // namespace weir
