#include "distributed/command/doctor_command.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Result {
  absl::StatusOr<int> code;
  std::string output;
};

Result Ask(const std::vector<std::string>& args) {
  ::testing::internal::CaptureStdout();
  absl::StatusOr<int> code = RunDoctor(args);
  return {std::move(code), ::testing::internal::GetCapturedStdout()};
}

TEST(DoctorCommand, OneLineAFindingAndAnExitCode) {
  unsetenv("TF_CONFIG");
  Result result = Ask({});
  EXPECT_EQ(result.code.value(), 0);
  EXPECT_THAT(result.output, StartsWith("ok     cluster  none: the program runs alone\nok     gpus     "));

  result = Ask({"--ps_hosts=127.0.0.1:1", "--worker_hosts=127.0.0.1:2, 127.0.0.1:3", "--timeout=20"});
  EXPECT_EQ(result.code.value(), 0);
  EXPECT_THAT(result.output, HasSubstr("ok     cluster   1 ps, 2 workers\n"));
  EXPECT_THAT(result.output, HasSubstr("note   worker:1  nobody listens at 127.0.0.1:3: it does not run"));

  result = Ask({"--cluster_spec=worker|no-such-host.invalid:1", "--timeout=20"});
  EXPECT_EQ(result.code.value(), 1);
  EXPECT_THAT(result.output, HasSubstr("WRONG  worker:0  host name 'no-such-host.invalid': "));

  setenv("TF_CONFIG", R"({"cluster":{"worker":["127.0.0.1:1"]},"task":{"type":"worker","index":0}})", 1);
  EXPECT_THAT(Ask({"--timeout=20"}).output, HasSubstr("1 worker; this is worker:0\n"));
  unsetenv("TF_CONFIG");
}

TEST(DoctorCommand, MistakesAreNamed) {
  for (const auto& [args, error] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--ps_hosts=a:1"}, "--worker_hosts with or without --ps_hosts"},
           {{"--cluster_spec=worker|a:1", "--worker_hosts=a:1"}, "or --cluster_spec alone"},
           {{"--cluster_spec=worker"}, "'worker' is not of the form JOB|HOST:PORT"},
           {{"--worker_hosts=a:1,b"}, "address 'b' has no port"},
           {{"--worker_hosts=a:1", "--job_name=ps"}, "no task ps:0"},
           {{"--timeout=0"}, "--timeout='0' must be from 0.001 to 3600"},
           {{"--timeout=nan"}, "--timeout='nan' is not a number"},
           {{"--token_file=/no/file"}, "cannot read the token file"},
           {{"now"}, "'now' is no flag"}}) {
    EXPECT_THAT(std::string(Ask(args).code.status().message()), HasSubstr(error));
  }
}

}  // namespace
}  // namespace weir
