#include "distributed/command/serve_command.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "distributed/launch/test_processes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

TEST(ServeCommand, MistakesAreNamed) {
  setenv("WEIR_JOB_TOKEN", "x", 1);
  for (const auto& [flag, error] : std::vector<std::pair<std::string, std::string>>{
           {"--lease_seconds=-1", "--lease_seconds='-1' must be from 0.1 to 86400"},
           {"--lease_seconds=0", "must be from 0.1 to 86400"},
           {"--lease_seconds=nan", "--lease_seconds='nan' is not a number"},
           {"--lease_seconds=1e300", "must be from 0.1 to 86400"},
           {"--termination_grace_seconds=-1", "must be from 0 to 86400"},
           {"--num_threads=1000000", "--num_threads='1000000' must be from 0 to 1024"},
           {"--num_threads=-1", "must be from 0 to 1024"},
           {"--num_cpus=0", "must be from 1 to 64"},
           {"--num_fake_gpus=65", "must be from 0 to 64"},
           {"--num_gpus=65", "must be from 0 to 64"},
           {"--task_index=-1", "--task_index='-1' must be at least 0"},
           {"--insecure", "the token (of $WEIR_JOB_TOKEN) has 1 characters"},  // it is read and checked
           {"now", "'now' is no flag"},
       }) {
    const absl::Status status =
        RunServe({"--cluster_spec=ps|127.0.0.1:0,worker|127.0.0.1:1", "--job_name=ps", flag}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << flag;
    EXPECT_THAT(std::string(status.message()), HasSubstr(error)) << flag;
  }
  unsetenv("WEIR_JOB_TOKEN");
}

TEST(ServeCommand, AllowedFoldersThatAreNoneAreRefused) {
  for (const char* flag : {"--allow_dir=:", "--allow_dir="}) {
    const absl::Status status = RunServe({"--cluster_spec=ps|127.0.0.1:0,worker|127.0.0.1:1",
                                          "--job_name=worker", "--listen=a b", flag})
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << flag << " " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("names no folder")) << flag;
  }
}

// A worker whose start waits, for as long as nobody writes its certificate. It does not keep a descriptor
// that is not its own.
struct WaitingServer {
  TestProcess process;
  FileDescriptor writer;
};
WaitingServer ForkWaiting(const std::string& dir, const std::string& flag = "--num_threads=1",
                          int not_its_own = -1) {
  const std::string pipe = dir + "/cert.pem";
  EXPECT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  WaitingServer serve;
  serve.process = TestProcess::Fork([&] {
    close(not_its_own);
    const std::vector<std::string> args = {"--cluster_spec=ps|127.0.0.1:0,worker|127.0.0.1:1",
                                           "--job_name=worker", "--tls_cert=" + pipe, "--tls_key=" + pipe,
                                           flag};
    return RunServe(args).value_or(99);
  });
  // A writer is let in once there is a reader, who then waits for what it writes.
  EXPECT_TRUE(Await([&] {
    serve.writer = FileDescriptor(open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    return serve.writer.is_open();
  }));
  return serve;
}

TEST(ServeCommand, ASignalEndsAServerThatIsStillStarting) {
  for (const int signal : {SIGTERM, SIGINT}) {
    WaitingServer serve = ForkWaiting(MakeTestDir("serve_"));
    serve.process.Signal(signal);
    EXPECT_EQ(serve.process.AwaitExit(absl::Seconds(20)), 128 + signal);
  }
}

TEST(ServeCommand, TheEndOfItsProgramEndsAServerThatIsStillStarting) {
  for (const std::string input : {"", "done\n"}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const int before = dup(STDIN_FILENO);
    ASSERT_EQ(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    WaitingServer serve = ForkWaiting(MakeTestDir("serve_"), "--ends_with_stdin", ends[1]);
    EXPECT_EQ(write(ends[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
    close(ends[1]);
    EXPECT_EQ(serve.process.AwaitExit(absl::Seconds(20)), input.empty() ? 128 + SIGTERM : 0);
    dup2(before, STDIN_FILENO);
    close(before);
    close(ends[0]);
  }
}

}  // namespace
}  // namespace weir
