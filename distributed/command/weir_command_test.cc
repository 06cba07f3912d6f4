// The program `weir` as a shell runs it, with an output that cannot be written.
#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "distributed/launch/child_process.h"
#include "distributed/launch/test_processes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kWeir[] = "distributed/command/weir";

struct Outcome {
  int code = -1;
  std::string error;
};

// `before` is a shell's, and `after` says where the output goes.
Outcome RunInShell(const std::string& before, const std::string& args, const std::string& after) {
  const std::string line = absl::StrCat(before, " exec timeout 30 ", kWeir, " ", args, " 2>&1 ", after);
  Outcome outcome;
  FILE* const error = popen(line.c_str(), "r");
  char bytes[1024];
  for (size_t count = 1; count > 0;) {
    count = fread(bytes, 1, sizeof(bytes), error);
    outcome.error.append(bytes, count);
  }
  outcome.code = ExitCodeOf(pclose(error));
  return outcome;
}

// Files that may not grow stand for a disk that is full.
Outcome RunWithoutRoom(const std::string& args) {
  const std::string out = absl::StrCat(MakeTestDir("weir_"), "/out");
  return RunInShell("trap '' XFSZ; ulimit -f 0;", args, absl::StrCat("> '", out, "'"));
}

constexpr char kCheckpoint[] = "inspect checkpoint kernels/formats/testdata/single/model-42";

TEST(WeirCommandTest, AnOutputThatCannotBeWrittenIsAnError) {
  for (const std::string args : {"version", "--version", "--help", "launch --help", kCheckpoint,
                                 "launch --workers=2 --dry_run -- true"}) {
    const Outcome full = RunWithoutRoom(args);
    EXPECT_EQ(full.code, 1) << args;
    EXPECT_THAT(full.error, AllOf(HasSubstr("cannot write"), HasSubstr("File too large\n"))) << args;
    const Outcome taken = RunInShell("", args, "> /dev/null");
    EXPECT_EQ(taken.code, 0) << args;
    EXPECT_EQ(taken.error, "") << args;
  }
}

// More than a stream keeps: the error comes before the end.
TEST(WeirCommandTest, ALongOutputThatCannotBeWrittenIsAnError) {
  const Outcome full = RunWithoutRoom(absl::StrCat(kCheckpoint, " --values=100000"));
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.error, HasSubstr("cannot write"));
}

// The code of what went wrong before stays.
TEST(WeirCommandTest, BadContentIsStillBadContent) {
  const std::string bad = absl::StrCat(MakeTestDir("weir_bad_"), "/bad");
  std::ofstream(bad + ".index") << "no index";
  EXPECT_EQ(RunWithoutRoom("inspect checkpoint " + bad).code, 3);
}

TEST(WeirCommandTest, AFileThatMayNotGrowIsAnErrorAndNoSignal) {
  if (RunInShell("ulimit -f 0;", "version", "").code != 0) {
    GTEST_SKIP() << "a sanitizer in the program writes a file before the program begins";
  }
  const std::string out = absl::StrCat(MakeTestDir("weir_out_"), "/out");
  EXPECT_EQ(RunInShell("ulimit -f 0;", "version", absl::StrCat("> '", out, "'")).code, 1);
}

// A program found those of a Python wheel instead of its own.
TEST(WeirCommandTest, LibrariesOfTheCommandAreNotThoseOfTheProgramsThatItStarts) {
  const auto path_of_program = [](const std::string& path) {
    const Outcome outcome =
        RunInShell(absl::StrCat("export LD_LIBRARY_PATH=", path, " WEIR_OWN_LIBRARIES=/own;"),
                   "launch --workers=1 -- sh -c 'echo \"[$LD_LIBRARY_PATH,$WEIR_OWN_LIBRARIES]\"'", "");
    EXPECT_EQ(outcome.code, 0) << outcome.error;
    return outcome.error;
  };
  EXPECT_THAT(path_of_program("/own:/mine:/other"), HasSubstr("[/mine:/other,]"));
  EXPECT_THAT(path_of_program("/own"), HasSubstr("[,]"));
  EXPECT_THAT(path_of_program("/owner:/own"), HasSubstr("[/owner:/own,]"));
}

TEST(WeirCommandTest, ATaskWithTooFewDescriptorsDoesNotStart) {
  const Outcome refused =
      RunInShell("ulimit -n 40;", "serve '--cluster_spec=ps|127.0.0.1:0,worker|127.0.0.1:1' --job_name=ps",
                 "> /dev/null");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.error,
              HasSubstr("ps:0 may have 40 files and connections open at a time, and needs 100"));
}

}  // namespace
}  // namespace weir
