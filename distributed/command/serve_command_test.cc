#include "distributed/command/serve_command.h"

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

}  // namespace
}  // namespace weir
