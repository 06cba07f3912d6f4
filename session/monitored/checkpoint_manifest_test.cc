#include "session/monitored/checkpoint_manifest.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/forwarding_file_system.h"
#include "session/monitored/checkpoint_claim.h"
#include "session/monitored/checkpoint_iterator.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/saver.h"
#include "session/monitored/test_program.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The disk of a process whose reading can fail once, and that is stopped before it renames a file to a name
// with that end, or creates one whose name has that part, once: others go on meanwhile.
class StoppedBeforeRename final : public ForwardingFileSystem {
 public:
  StoppedBeforeRename() : ForwardingFileSystem(PosixFileSystem()) {}

  void StopAt(std::string end, std::function<void()> meanwhile) {
    end_ = std::move(end);
    part_.reset();
    meanwhile_ = std::move(meanwhile);
  }
  void StopBeforeCreating(std::string part, std::function<void()> meanwhile) {
    StopAt("", std::move(meanwhile));
    part_ = std::move(part);
  }
  bool was_stopped() const { return meanwhile_ == nullptr; }
  // The next look at a file whose name has that end.
  void FailOnce(std::string end) { fails_ = std::move(end); }
  bool has_failed() const { return !fails_.has_value(); }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    if (const absl::Status failed = Look(path); !failed.ok()) return failed;
    return ForwardingFileSystem::OpenForReading(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    const bool stops = meanwhile_ != nullptr && part_.has_value() && absl::StrContains(path, *part_);
    if (stops) std::exchange(meanwhile_, nullptr)();
    return ForwardingFileSystem::Create(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (meanwhile_ != nullptr && !part_.has_value() && absl::EndsWith(to, end_))
      std::exchange(meanwhile_, nullptr)();
    return ForwardingFileSystem::Rename(from, to);
  }
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    if (const absl::Status failed = Look(path); !failed.ok()) return failed;
    return ForwardingFileSystem::FileSize(path);
  }

 private:
  absl::Status Look(const std::string& path) {
    if (!fails_.has_value() || !absl::EndsWith(path, *fails_)) return absl::OkStatus();
    fails_.reset();
    return absl::InternalError("Stale file handle");
  }

  std::optional<std::string> fails_;
  std::string end_;
  std::optional<std::string> part_;
  std::function<void()> meanwhile_;
};

// A chief with that life.
struct Chief {
  Chief(const std::string& directory, uint64_t life, FileSystem& files = PosixFileSystem())
      : directory(directory), life(life), files(files) {
    auto built = Saver::Build(program.g, {.write_meta_graph = false, .file_system = &files});
    EXPECT_TRUE(built.ok()) << built.status();
    saver = *std::move(built);
    auto started = program.Start({});
    EXPECT_TRUE(started.ok()) << started.status();
    session = *std::move(started);
  }
  absl::Status Take() {
    auto claim = CheckpointClaim::Take(files, directory, life);
    return claim.ok() ? saver->SetClaim(*claim) : claim.status();
  }
  absl::Status Save(int64_t step) { return saver->Save(session->session(), directory + "/m", step).status(); }
  absl::StatusOr<std::string> Restore() { return saver->RestoreNewest(session->session(), directory); }

  const std::string directory;
  const uint64_t life;
  FileSystem& files;
  TestProgram program;
  std::unique_ptr<Saver> saver;
  std::unique_ptr<MonitoredSession> session;
};

struct CheckpointManifestTest : ::testing::Test {
  CheckpointOrigin Origin(const std::string& checkpoint) {
    return OriginOf(*BundleReader::Open(checkpoint).value()).value();
  }
  const std::string directory = EmptyDirectory("manifest");
  const std::string m = directory + "/m";
  StoppedBeforeRename stopped;
};

TEST_F(CheckpointManifestTest, CheckpointsAndTheClaimSayTheirOrigin) {
  Chief first(directory, 0xa1);
  ASSERT_TRUE(first.Take().ok());
  ASSERT_TRUE(first.Save(5).ok());
  EXPECT_EQ(Origin(m + "-5"), (CheckpointOrigin{0xa1, 0, 5}));
  Chief second(directory, 0xa2);
  ASSERT_EQ(second.Restore().value(), m + "-5");
  ASSERT_TRUE(second.Take().ok());
  ASSERT_TRUE(second.Save(7).ok());
  EXPECT_EQ(Origin(m + "-7"), (CheckpointOrigin{0xa2, 1, 7}));
  EXPECT_EQ(ReadWholeFile(PosixFileSystem(), directory + "/.manifest-00000000000000a2").value(),
            "weir checkpoints 1\nepoch 00000000000000a2\nstate checkpoint\n"
            "checkpoint 00000000000000a1 0 5 m-5\ncheckpoint 00000000000000a2 1 7 m-7\n");
  EXPECT_EQ(ReadCheckpointState(directory).value().written_by, 0xa2u);
}

// They say which checkpoints are kept for good.
TEST_F(CheckpointManifestTest, TheTimesOfCheckpointsOutliveTheirChief) {
  Chief first(directory, 0xa1);
  ASSERT_TRUE(first.Take().ok());
  ASSERT_TRUE(first.Save(5).ok());
  const std::vector<double> times = ReadCheckpointState(directory).value().timestamps;
  ASSERT_EQ(times.size(), 1u);
  EXPECT_GT(times[0], 0);
  Chief second(directory, 0xa2);
  ASSERT_EQ(second.Restore().value(), m + "-5");
  ASSERT_TRUE(second.Take().ok());
  const CheckpointState state = ReadNewestState(directory).value();
  EXPECT_EQ(state.written_by, 0xa2u);
  EXPECT_EQ(state.timestamps, times);
}

TEST_F(CheckpointManifestTest, AFileCheckpointThatAZombieRenamesLateIsNotBelieved) {
  Chief zombie(directory, 1, stopped);
  ASSERT_TRUE(zombie.Take().ok());
  ASSERT_TRUE(zombie.Save(5).ok());
  Chief next(directory, 2);
  stopped.StopAt("/checkpoint", [&] {
    EXPECT_EQ(next.Restore().value(), m + "-5");
    ASSERT_TRUE(next.Take().ok());
    ASSERT_TRUE(next.Save(7).ok());
  });
  (void)zombie.Save(10);
  ASSERT_TRUE(stopped.was_stopped());
  ASSERT_EQ(ReadCheckpointState(directory).value().newest, m + "-10");
  EXPECT_EQ(Chief(directory, 3).Restore().value(), m + "-7");
  EXPECT_EQ(CheckpointsIn(directory).value().front(), m + "-7");
  // And the next chief does not give up what it knows when it takes the folder.
  Chief last(directory, 4);
  ASSERT_TRUE(last.Take().ok());
  EXPECT_EQ(Chief(directory, 5).Restore().value(), m + "-7");
}

TEST_F(CheckpointManifestTest, WhatAZombieSavesAfterTheFolderWasTakenIsNotRestored) {
  Chief zombie(directory, 1, stopped);
  ASSERT_TRUE(zombie.Take().ok());
  Chief next(directory, 2);
  stopped.StopAt("/checkpoint", [&] { ASSERT_TRUE(next.Take().ok()); });
  (void)zombie.Save(10);
  ASSERT_TRUE(stopped.was_stopped());
  // The successor has died before it saved.
  EXPECT_TRUE(absl::IsNotFound(Chief(directory, 3).Restore().status()));
}

// Its successor has removed its claim, and has ended. What it writes then brings its claim back no more.
TEST_F(CheckpointManifestTest, AManifestThatAZombieWritesAfterItsSuccessorsEndIsNotBelieved) {
  Chief zombie(directory, 0xa1, stopped);
  ASSERT_TRUE(zombie.Take().ok());
  ASSERT_TRUE(zombie.Save(5).ok());
  Chief next(directory, 0xa2);
  stopped.StopBeforeCreating("00000000000000a1", [&] {
    auto claim = CheckpointClaim::Take(PosixFileSystem(), directory, 0xa2).value();
    ASSERT_TRUE(next.saver->SetClaim(claim).ok());
    ASSERT_TRUE(next.Save(9).ok());
    ASSERT_TRUE(claim->End().ok());
  });
  const absl::Status saved = zombie.Save(6);
  ASSERT_TRUE(stopped.was_stopped());
  EXPECT_TRUE(IsSuperseded(saved)) << saved;
  EXPECT_TRUE(IsSuperseded(zombie.Save(7)));
  EXPECT_EQ(CheckpointsIn(directory).value().front(), m + "-9");
  EXPECT_EQ(Chief(directory, 0xa3).Restore().value(), m + "-9");
}

TEST_F(CheckpointManifestTest, ACheckpointThatAZombieReplacesIsDamaged) {
  Chief zombie(directory, 1, stopped);
  ASSERT_TRUE(zombie.Take().ok());
  ASSERT_TRUE(zombie.Save(3).ok());
  Chief next(directory, 2);
  stopped.StopAt("/m-5.data-00000-of-00001", [&] {
    ASSERT_TRUE(next.Take().ok());
    ASSERT_TRUE(next.Save(5).ok());
    // Its look for the index's rename comes before that.
    ASSERT_TRUE(PosixFileSystem().Remove(directory + "/.claim-0000000000000002").ok());
  });
  // In its index too: a claim that is not there any more stops nobody.
  (void)zombie.Save(5);
  ASSERT_TRUE(stopped.was_stopped());
  ASSERT_EQ(Origin(m + "-5").epoch, 1u);
  CheckpointManifest manifest = {.epoch = 2};
  manifest.checkpoints = {{m + "-3", {1, 0, 3}}, {m + "-5", {2, 0, 5}}};
  EXPECT_TRUE(CheckNotReplaced(m + "-3", manifest, PosixFileSystem()).ok());
  const absl::Status replaced = CheckNotReplaced(m + "-5", manifest, PosixFileSystem());
  EXPECT_TRUE(absl::IsDataLoss(replaced)) << replaced;
  ASSERT_TRUE(CheckpointClaim::Take(PosixFileSystem(), directory, 2).ok());
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), directory + "/.manifest-0000000000000002",
                                  manifest.Encode(directory))
                  .ok());
  EXPECT_EQ(Chief(directory, 3).Restore().value(), m + "-3");
  // Who evaluates would take the one's values for the other's.
  const absl::Status none = CheckpointIterator(directory, {.timeout = absl::ZeroDuration()}).Next().status();
  EXPECT_EQ(none.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(none), HasSubstr("m-5, is left out: it was replaced"));
  // Nor when that chief has noted what there is, and has died.
  ASSERT_TRUE(Chief(directory, 3).Take().ok());
  EXPECT_EQ(Chief(directory, 4).Restore().value(), m + "-3");
}

// What could not be looked at for once is no reason to note that there are no checkpoints: if the chief died
// before it saved, the next one would begin anew.
TEST_F(CheckpointManifestTest, AChiefThatCannotLookAtTheCheckpointsDoesNotNoteThem) {
  Chief first(directory, 1);
  ASSERT_TRUE(first.Take().ok());
  ASSERT_TRUE(first.Save(5).ok());
  uint64_t life = 1;
  for (const char* file : {"/checkpoint", "/m-5.index"}) {
    Chief chief(directory, ++life, stopped);
    stopped.FailOnce(file);
    const absl::Status taken = chief.Take();
    ASSERT_TRUE(stopped.has_failed());
    EXPECT_THAT(Message(taken), HasSubstr("Stale file handle"));
    EXPECT_EQ(Chief(directory, 9).Restore().value(), m + "-5");
    EXPECT_TRUE(chief.Take().ok());
    EXPECT_EQ(Chief(directory, 9).Restore().value(), m + "-5");
  }
}

TEST_F(CheckpointManifestTest, WhatCannotBeLookedAtForOnceIsNotTakenForMissing) {
  Chief first(directory, 1);
  ASSERT_TRUE(first.Take().ok());
  ASSERT_TRUE(first.Save(4).ok());
  ASSERT_TRUE(first.Save(5).ok());
  Chief reader(directory, 2, stopped);
  for (const char* file : {"/checkpoint", "/m-5.index"}) {
    stopped.FailOnce(file);
    const absl::StatusOr<std::string> restored = reader.Restore();
    ASSERT_TRUE(stopped.has_failed());
    EXPECT_THAT(Message(restored.status()), HasSubstr("Stale file handle"));
  }
  EXPECT_EQ(reader.Restore().value(), m + "-5");
}

// A chief has left its claim, and died before it had a manifest: that of the chief before counts on.
TEST_F(CheckpointManifestTest, AChiefThatDiesWhileItTakesTheFolderCostsNoManifest) {
  Chief zombie(directory, 1, stopped);
  ASSERT_TRUE(zombie.Take().ok());
  ASSERT_TRUE(zombie.Save(5).ok());
  Chief next(directory, 2);
  stopped.StopAt("/checkpoint", [&] {
    ASSERT_TRUE(next.Take().ok());
    ASSERT_TRUE(next.Save(7).ok());
  });
  (void)zombie.Save(10);
  ASSERT_TRUE(stopped.was_stopped());
  ASSERT_TRUE(
      WriteFileAtomically(PosixFileSystem(), directory + "/.claim-0000000000000003", "").ok());  // and died
  EXPECT_EQ(Chief(directory, 4).Restore().value(), m + "-7");
  ASSERT_TRUE(CheckpointClaim::Take(PosixFileSystem(), directory, 4).ok());
  EXPECT_EQ(Chief(directory, 5).Restore().value(), m + "-7");
  // One that could not read it tries again.
  stopped.FailOnce("/.manifest-0000000000000004");
  EXPECT_FALSE(CheckpointClaim::Take(stopped, directory, 5).ok());
  ASSERT_TRUE(CheckpointClaim::Take(stopped, directory, 5).ok());
  EXPECT_EQ(Chief(directory, 6).Restore().value(), m + "-7");
}

// Whoever goes back to an older checkpoint by hand, or with TensorFlow, is believed.
TEST_F(CheckpointManifestTest, AFileCheckpointOfSomebodyElseIsBelieved) {
  Chief chief(directory, 1);
  ASSERT_TRUE(chief.Take().ok());
  ASSERT_TRUE(chief.Save(5).ok());
  Chief next(directory, 2);
  ASSERT_TRUE(next.Take().ok());
  ASSERT_TRUE(next.Save(7).ok());
  ASSERT_TRUE(
      WriteFileAtomically(PosixFileSystem(), directory + "/checkpoint", "model_checkpoint_path: \"m-5\"\n")
          .ok());
  EXPECT_EQ(Chief(directory, 3).Restore().value(), m + "-5");
}

// Its life may be an earlier one (checkpoint_claim.h).
TEST_F(CheckpointManifestTest, AnotherJobThatHasWaitedForTheFolderIsBelieved) {
  Chief first(directory, 9);
  auto claim = CheckpointClaim::Take(PosixFileSystem(), directory, 9).value();
  ASSERT_TRUE(first.saver->SetClaim(claim).ok());
  ASSERT_TRUE(first.Save(5).ok());
  ASSERT_TRUE(claim->End().ok());
  Chief other(directory, 4);
  auto others = CheckpointClaim::Take(PosixFileSystem(), directory, 4).value();
  ASSERT_TRUE(other.saver->SetClaim(others).ok());
  ASSERT_TRUE(other.Save(7).ok());
  EXPECT_EQ(CheckpointsIn(directory).value().front(), m + "-7");
  ASSERT_TRUE(others->End().ok());
  EXPECT_EQ(CheckpointsIn(directory).value().front(), m + "-7");
}

// Its listeners would tell others of a checkpoint that nobody believes.
TEST_F(CheckpointManifestTest, ASaveWhoseLastRenameComesAfterASuccessorFails) {
  Chief zombie(directory, 1, stopped);
  ASSERT_TRUE(zombie.Take().ok());
  ASSERT_TRUE(zombie.Save(5).ok());
  Chief next(directory, 2);
  stopped.StopAt("/checkpoint", [&] {
    EXPECT_EQ(next.Restore().value(), m + "-5");
    ASSERT_TRUE(next.Take().ok());
  });
  const absl::Status saved = zombie.Save(10);
  ASSERT_TRUE(stopped.was_stopped());
  EXPECT_TRUE(IsSuperseded(saved)) << saved;
  EXPECT_EQ(Chief(directory, 3).Restore().value(), m + "-5");
}

TEST_F(CheckpointManifestTest, AManifestIsReadOrRefused) {
  CheckpointManifest manifest = {.epoch = 0xab, .state_file = "other \n name"};
  manifest.checkpoints = {{m + " 1\n", {0xaa, 3, -1}}, {"/elsewhere/m-2", {}}};
  const auto again = CheckpointManifest::Decode(manifest.Encode(directory), directory);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->Encode(directory), manifest.Encode(directory));
  EXPECT_EQ(again->Find(m + " 1\n")->origin, (CheckpointOrigin{0xaa, 3, -1}));
  const std::string good = "weir checkpoints 1\nepoch 00000000000000ab\nstate checkpoint\n";
  ASSERT_TRUE(CheckpointManifest::Decode(good, directory).ok());
  for (const std::string& bad :
       {std::string("weir checkpoints 2\n"), std::string("weir checkpoints 1\n"),
        std::string("weir checkpoints 1\nepoch 0000000000000000\nstate c\n"), good + "checkpoint\n",
        good + "checkpoint 00000000000000aa 0 5\n", good + "checkpoint 00000000000000aa 0 5 \n",
        good + "checkpoint 00000000000000aa -1 5 m\n", good + "checkpoint aa 0 5 m\n",
        good + "checkpoint 00000000000000aa 0 99999999999999999999 m\n", good + std::string(1, '\0')}) {
    EXPECT_TRUE(absl::IsDataLoss(CheckpointManifest::Decode(bad, directory).status())) << bad;
  }
  // One that is damaged does not keep anybody from training.
  Chief chief(directory, 1);
  ASSERT_TRUE(chief.Take().ok());
  ASSERT_TRUE(chief.Save(5).ok());
  ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), directory + "/.manifest-0000000000000002", "?").ok());
  EXPECT_EQ(Chief(directory, 3).Restore().value(), m + "-5");
}

}  // namespace
}  // namespace weir
