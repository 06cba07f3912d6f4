#include "session/monitored/checkpoint_claim.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/forwarding_file_system.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct CheckpointClaimTest : ::testing::Test {
  CheckpointClaimTest() {
    std::filesystem::remove_all(directory);
    EXPECT_TRUE(files.CreateDirectories(directory).ok());
  }
  void Write(FileSystem& through, const std::string& name) {
    EXPECT_TRUE(WriteFileAtomically(through, JoinPath(directory, name), "text").ok());
  }
  std::vector<std::string> Names() { return files.ListDirectory(directory).value(); }

  FileSystem& files = PosixFileSystem();
  const std::string directory = JoinPath(testing::TempDir(), "claimed");
};

TEST_F(CheckpointClaimTest, ALaterLifeTakesTheFolderFromAnEarlierOne) {
  const auto first = CheckpointClaim::Take(files, directory, 0xab).value();
  Write(*first, "one");
  EXPECT_THAT(Names(), ElementsAre(".claim-00000000000000ab", "one"));
  const auto second = CheckpointClaim::Take(files, directory, 0xac).value();
  EXPECT_THAT(Names(), ElementsAre(".claim-00000000000000ac", "one"));
  const std::string one = JoinPath(directory, "one");
  const absl::Status renamed = WriteFileAtomically(*first, one, "changed");
  EXPECT_TRUE(IsSuperseded(renamed)) << renamed;
  EXPECT_THAT(std::string(renamed.message()), HasSubstr("a later chief writes checkpoints to " + directory));
  EXPECT_THAT(Names(), ElementsAre(".claim-00000000000000ac", "one"))
      << "no temporary file of its own is left";
  EXPECT_TRUE(IsSuperseded(first->Remove(one)));
  EXPECT_EQ(ReadWholeFile(files, one).value(), "text");
  EXPECT_TRUE(IsSuperseded(CheckpointClaim::Take(files, directory, 0xab).status()));
  Write(*second, "one");
}

// It was stopped between its look and its file.
TEST_F(CheckpointClaimTest, OneThatComesTooLateLeavesNothing) {
  struct IsOvertaken final : ForwardingFileSystem {
    IsOvertaken(FileSystem& files, std::function<void()> by)
        : ForwardingFileSystem(files), by(std::move(by)) {}
    absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
      if (by != nullptr) std::exchange(by, nullptr)();
      return ForwardingFileSystem::CreateNew(path);
    }
    std::function<void()> by;
  };
  std::shared_ptr<CheckpointClaim> later;
  IsOvertaken overtaken(files, [&] { later = CheckpointClaim::Take(files, directory, 0xac).value(); });
  const absl::Status late = CheckpointClaim::Take(overtaken, directory, 0xab).status();
  EXPECT_TRUE(IsSuperseded(late)) << late;
  ASSERT_TRUE(later->End().ok());
  EXPECT_EQ(CheckpointClaim::EndedLifeIn(files, directory).value(), 0xacu);
  EXPECT_FALSE(CheckpointClaim::IsHeldIn(files, directory).value());
}

TEST_F(CheckpointClaimTest, OneThatHasEndedStopsTheEarlierOnesOfItsJobAndNoOtherJob) {
  const auto zombie = CheckpointClaim::Take(files, directory, 0xa1).value();
  Write(*zombie, "one");
  const auto last = CheckpointClaim::Take(files, directory, 0xac).value();
  EXPECT_TRUE(IsSuperseded(CheckpointClaim::Take(files, directory, 0xa0).status())) << "it still writes";
  ASSERT_TRUE(last->End().ok());
  EXPECT_THAT(Names(), ElementsAre(".claim-00000000000000ac.ended", "one"));
  EXPECT_TRUE(IsSuperseded(WriteFileAtomically(*zombie, JoinPath(directory, "one"), "changed")));
  // Of another job, which was started before and has waited.
  const auto other = CheckpointClaim::Take(files, directory, 0xa0).value();
  Write(*other, "two");
  EXPECT_TRUE(IsSuperseded(WriteFileAtomically(*zombie, JoinPath(directory, "one"), "changed")));
  ASSERT_TRUE(other->End().ok());
  EXPECT_THAT(Names(), ElementsAre(".claim-00000000000000ac.ended", "one", "two"));
  EXPECT_TRUE(IsSuperseded(zombie->Remove(JoinPath(directory, "one"))));
  EXPECT_EQ(ReadWholeFile(files, JoinPath(directory, "one")).value(), "text");
  const auto next = CheckpointClaim::Take(files, directory, 0xad).value();
  EXPECT_THAT(Names(), ElementsAre(".claim-00000000000000ad", "one", "two"));
  EXPECT_TRUE(IsSuperseded(zombie->Remove(JoinPath(directory, "one"))));
  EXPECT_TRUE(last->End().ok()) << "what is not its own stays";
  EXPECT_THAT(Names(), ElementsAre(".claim-00000000000000ad", "one", "two"));
}

TEST_F(CheckpointClaimTest, AFolderThatWasEmptiedIsClaimedAgain) {
  const auto claim = CheckpointClaim::Take(files, directory, 7).value();
  ASSERT_TRUE(files.Remove(JoinPath(directory, ".claim-0000000000000007")).ok());
  Write(*claim, "one");
  EXPECT_THAT(Names(), ElementsAre(".claim-0000000000000007", "one"));
}

TEST_F(CheckpointClaimTest, ALifeMayHaveMany) {
  const auto first = CheckpointClaim::Take(files, directory, 7).value();
  const auto again = CheckpointClaim::Take(files, directory, 7).value();
  Write(*first, "one");
  Write(*again, "two");
  EXPECT_THAT(Names(), ElementsAre(".claim-0000000000000007", "one", "two"));
}

TEST_F(CheckpointClaimTest, IsHeldUntilItEnds) {
  EXPECT_EQ(CheckpointClaim::IsHeldIn(files, directory).value(), false);
  const auto claim = CheckpointClaim::Take(files, directory, 7).value();
  EXPECT_EQ(CheckpointClaim::IsHeldIn(files, directory).value(), true);
  ASSERT_TRUE(claim->Note("text").ok());
  ASSERT_TRUE(claim->End().ok());
  Write(files, ".claim-xyz");
  EXPECT_EQ(CheckpointClaim::IsHeldIn(files, directory).value(), false);
  // Its renaming was not on the disk when the power failed: neither name is left.
  ASSERT_TRUE(files.Remove(JoinPath(directory, ".claim-0000000000000007.ended")).ok());
  EXPECT_EQ(CheckpointClaim::IsHeldIn(files, directory).value(), true);
  EXPECT_FALSE(CheckpointClaim::IsHeldIn(files, directory + "/none").ok());
}

TEST_F(CheckpointClaimTest, OtherFilesAreNoClaims) {
  for (const char* name : {".claim-", ".claim-ffffffffffffffff0", ".claim-xyz", ".claim-00000000000000zz"}) {
    Write(files, name);
  }
  EXPECT_TRUE(CheckpointClaim::Take(files, directory, 1).ok());
  EXPECT_TRUE(absl::IsNotFound(CheckpointClaim::Take(files, directory + "/none", 1).status()));
}

}  // namespace
}  // namespace weir
