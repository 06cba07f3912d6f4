#include "distributed/command/launch_command.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// The hosts of -H are those of the parameter servers, and there is no slot left for a worker.
TEST(LaunchCommandTest, WithAScriptTheWorkersNeedNoSlotsOfTheirOwn) {
  std::vector<std::string> args = {"-H",        "node1:1", "--ps=1", "--host_discovery_script=echo node2:4",
                                   "--dry_run", "--",      "./train"};
  const absl::StatusOr<int> unbounded = RunLaunch(args);
  EXPECT_EQ(unbounded.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unbounded.status().message()), HasSubstr("say with --max_workers how many"));
  args.insert(args.begin(), "--max_workers=4");
  const absl::StatusOr<int> launched = RunLaunch(args);
  EXPECT_TRUE(launched.ok()) << launched.status();
}

// As horovodrun is given them.
TEST(LaunchCommandTest, AProgramWithFlagsComesAfterTheDashes) {
  const absl::StatusOr<int> refused = RunLaunch({"-np", "2", "./train", "--epochs=1"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("unknown flag --epochs: if it is a flag of './train', the program and its flags come "
                        "after '--' (weir launch [flags] -- PROGRAM ARGS)"));
  EXPECT_THAT(std::string(RunLaunch({"--epochs=1"}).status().message()),
              HasSubstr("unknown flag --epochs (weir launch --help lists the flags)"));
}

}  // namespace
}  // namespace weir
