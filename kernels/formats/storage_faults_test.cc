// A checkpoint of three shards, as three parameter servers write it, on a disk that fails, loses power or
// damages it: whatever happens, what is loaded is a checkpoint as it was saved, or an error.
//
// WEIR_STORAGE_FLIPS=N: so many random flips of each shard, for long runs (2000 by default).
#include <cstdlib>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/failing_calls.h"
#include "kernels/formats/failing_power.h"
#include "kernels/formats/memory_files.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr int kShards = 3;
constexpr char kFolder[] = "/models";

std::string PrefixOf(int step) { return absl::StrCat(kFolder, "/m-", step); }
std::string ShardOf(int step, int shard) {
  return absl::StrCat(PrefixOf(step), ".data-0000", shard, "-of-0000", kShards);
}

// As a Saver does: each shard by itself, a common index, and the file that names it.
absl::Status Save(FileSystem& files, int step) {
  std::vector<std::string> parts;
  for (int shard = 0; shard < kShards; ++shard) {
    parts.push_back(absl::StrCat(PrefixOf(step), "_temp/part", shard));
    BundleWriter::Options options;
    options.file_system = &files;
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer,
                          BundleWriter::Create(parts.back(), options));
    const int32_t value = 10 * step + shard;
    WEIR_RETURN_IF_ERROR(
        writer->Add(absl::StrCat("v", shard), Tensor::Vector<int32_t>({value, value, value})));
    WEIR_RETURN_IF_ERROR(writer->AddSlice("sliced", Shape({kShards}), TensorSlice{{{shard, 1}}},
                                          Tensor::Vector<int32_t>({value})));
    WEIR_RETURN_IF_ERROR(writer->Finish());
  }
  WEIR_RETURN_IF_ERROR(MergeBundles(parts, PrefixOf(step), files));
  CheckpointState state;
  state.newest = PrefixOf(step);
  if (step > 1) state.all.push_back(PrefixOf(step - 1));
  state.all.push_back(state.newest);
  return WriteCheckpointState(kFolder, state, files);
}

// OK when all of it is as it was saved; DataLoss, or another error, when the reader says so. A value that is
// wrong and was loaded is Internal.
absl::Status Load(FileSystem& files, int step) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader,
                        BundleReader::Open(PrefixOf(step), files));
  WEIR_ASSIGN_OR_RETURN(const Tensor sliced, reader->Read("sliced"));
  for (int shard = 0; shard < kShards; ++shard) {
    WEIR_ASSIGN_OR_RETURN(const Tensor v, reader->Read(absl::StrCat("v", shard)));
    const int32_t value = 10 * step + shard;
    const bool is_right = v.num_elements() == 3 && sliced.num_elements() == kShards &&
                          v.flat<int32_t>()[0] == value && v.flat<int32_t>()[2] == value &&
                          sliced.flat<int32_t>()[shard] == value;
    if (!is_right) return absl::InternalError(absl::StrCat("silently loaded ", v.ToString()));
  }
  return reader->Verify();
}

// The newest checkpoint that can be loaded, of those that the folder's state names; 0 for none. What a wrong
// value in it would be is told by Load.
int NewestGood(FileSystem& files) {
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(kFolder, files);
  if (!state.ok()) return 0;
  for (auto prefix = state->all.rbegin(); prefix != state->all.rend(); ++prefix) {
    int step = 0;
    EXPECT_TRUE(absl::SimpleAtoi(prefix->substr(prefix->rfind('-') + 1), &step)) << *prefix;
    const absl::Status loaded = Load(files, step);
    EXPECT_FALSE(absl::IsInternal(loaded)) << loaded;
    if (loaded.ok()) return step;
  }
  return 0;
}

bool HasTemporaryFiles(FileSystem& files) {
  const std::vector<std::string> names = files.ListDirectory(kFolder).value();
  for (const std::string& name : names) {
    if (absl::StrContains(name, "tempstate")) return true;
  }
  return false;
}

TEST(StorageFaultsTest, AnyCallThatFailsOnceIsAnErrorOrHarmless) {
  for (const absl::StatusCode code : {absl::StatusCode::kInternal, absl::StatusCode::kResourceExhausted}) {
    int num_calls = 0, num_errors = 0;
    for (;; ++num_calls) {
      MemoryFiles disk;
      ASSERT_TRUE(Save(disk, 1).ok());
      FailingCalls files(disk);
      files.Fail(num_calls, code);
      const absl::Status saved = Save(files, 2);
      const bool is_done = !files.has_failed();
      if (saved.ok()) {
        EXPECT_EQ(NewestGood(disk), 2) << "after " << num_calls << " calls";
      } else {
        ++num_errors;
        EXPECT_EQ(saved.code(), code) << saved;
        EXPECT_THAT(std::string(saved.message()), HasSubstr("injected"));
        EXPECT_GE(NewestGood(disk), 1) << "after " << num_calls << " calls: " << saved;
        EXPECT_FALSE(HasTemporaryFiles(disk)) << "after " << num_calls << " calls: " << saved;
        // The disk is well again: so is the next save.
        const absl::Status again = Save(disk, 3);
        EXPECT_TRUE(again.ok()) << again;
        EXPECT_EQ(NewestGood(disk), 3);
      }
      if (is_done) break;
    }
    EXPECT_GT(num_errors, 30);
    std::printf("%d calls failed one by one, %d of them were reported\n", num_calls, num_errors);
  }
}

TEST(StorageFaultsTest, PowerThatFailsAtAnyCallLosesNoCheckpointThatWasSaved) {
  int num_calls = 0;
  int64_t num_disks = 0;
  for (;; ++num_calls) {
    FailingPower files;
    ASSERT_TRUE(files.CreateDirectories(kFolder).ok());
    ASSERT_TRUE(Save(files, 1).ok());
    files.SyncEverything();
    files.FailAfter(num_calls);
    const absl::Status saved = Save(files, 2);
    for (const auto& disk : files.PossibleDisks()) {
      ++num_disks;
      const int newest = NewestGood(*disk);
      EXPECT_TRUE(newest == 2 || (newest == 1 && !saved.ok()))
          << newest << " after " << num_calls << " calls: " << saved;
    }
    if (!files.has_failed()) break;
  }
  EXPECT_GT(num_calls, 30);
  std::printf("%d calls, %lld disks\n", num_calls, static_cast<long long>(num_disks));
}

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() {
    EXPECT_TRUE(Save(files_, 1).ok());
    EXPECT_TRUE(Save(files_, 2).ok());
    for (int shard = 0; shard < kShards; ++shard) names_.push_back(ShardOf(2, shard));
    names_.push_back(PrefixOf(2) + ".index");
    for (const std::string& name : names_) good_.push_back(ReadWholeFile(files_, name).value());
  }

  // The damaged checkpoint is an error that names it, and the one before is found.
  void ExpectDamage(const std::string& what) {
    const absl::Status loaded = Load(files_, 2);
    EXPECT_TRUE(absl::IsDataLoss(loaded) || absl::IsNotFound(loaded)) << what << ": " << loaded;
    EXPECT_THAT(std::string(loaded.message()), HasSubstr("m-2")) << what;
    ++num_damaged_;
  }

  void ExpectDamageOf(size_t file, const std::string& bytes, const std::string& what) {
    files_.Put(names_[file], bytes);
    ExpectDamage(absl::StrCat(what, " of ", names_[file]));
    files_.Put(names_[file], good_[file]);
  }

  void TearDown() override {
    EXPECT_TRUE(Load(files_, 2).ok());
    std::printf("%d damages, none loaded\n", num_damaged_);
  }

  static int NumFlips() {
    const char* const text = std::getenv("WEIR_STORAGE_FLIPS");
    int count = 2000;
    if (text != nullptr) {
      EXPECT_TRUE(absl::SimpleAtoi(text, &count)) << text;
    }
    return count;
  }

  MemoryFiles files_;
  std::vector<std::string> names_, good_;  // the index is the last
  int num_damaged_ = 0;
};

TEST_F(DamageTest, EveryByteOfTheIndex) {
  for (size_t i = 0; i < good_[kShards].size(); ++i) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string bytes = good_[kShards];
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      ExpectDamageOf(kShards, bytes, absl::StrCat("byte ", i, " ^ ", mask));
    }
  }
}

TEST_F(DamageTest, RandomFlipsOfShards) {
  std::mt19937 random(11);
  for (int i = 0; i < NumFlips(); ++i) {
    const size_t file = random() % kShards;
    std::string bytes = good_[file];
    for (int n = 1 + static_cast<int>(random() % 3); n > 0; --n) {
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << (random() % 8));
    }
    if (bytes != good_[file]) ExpectDamageOf(file, bytes, absl::StrCat("flip ", i));
  }
}

TEST_F(DamageTest, EveryTruncationAndWhatIsMissing) {
  for (size_t file = 0; file < names_.size(); ++file) {
    for (size_t length = 0; length < good_[file].size(); ++length) {
      ExpectDamageOf(file, good_[file].substr(0, length), absl::StrCat("the first ", length, " bytes"));
    }
    ASSERT_TRUE(files_.Remove(names_[file]).ok());
    ExpectDamage("without " + names_[file]);
    EXPECT_EQ(NewestGood(files_), 1);
    files_.Put(names_[file], good_[file]);
  }
}

TEST_F(DamageTest, ShardsThatAreSwappedOrOfAnotherCheckpoint) {
  for (int a = 0; a < kShards; ++a) {
    for (int b = 0; b < a; ++b) {
      files_.Put(names_[a], good_[b]);
      files_.Put(names_[b], good_[a]);
      ExpectDamage(absl::StrCat("swapped ", a, " and ", b));
      files_.Put(names_[a], good_[a]);
      files_.Put(names_[b], good_[b]);
    }
    ExpectDamageOf(a, ReadWholeFile(files_, ShardOf(1, a)).value(), "a shard of the step before instead");
  }
  ExpectDamageOf(kShards, ReadWholeFile(files_, PrefixOf(1) + ".index").value(),
                 "the index of the step before instead");
  ExpectDamageOf(kShards, good_[0], "a shard instead");
}

TEST_F(DamageTest, AnExtraShardChangesNothing) {
  files_.Put(absl::StrCat(PrefixOf(2), ".data-00003-of-00004"), "stray");
  files_.Put(absl::StrCat(PrefixOf(2), ".data-00000-of-00001"), good_[0]);
  EXPECT_TRUE(Load(files_, 2).ok());
  EXPECT_EQ(NewestGood(files_), 2);
}

// Of the file that names the checkpoints: one that is behind, or names what is gone.
TEST_F(DamageTest, AStateThatIsStaleLeadsToWhatItNames) {
  ASSERT_TRUE(WriteCheckpointState(kFolder, {.newest = PrefixOf(1), .all = {PrefixOf(1)}}, files_).ok());
  EXPECT_EQ(NewestGood(files_), 1);
  ASSERT_TRUE(WriteCheckpointState(
                  kFolder, {.newest = PrefixOf(9), .all = {PrefixOf(1), PrefixOf(2), PrefixOf(9)}}, files_)
                  .ok());
  EXPECT_EQ(NewestGood(files_), 2);
}

// A byte of it changed or cut: an error, or a state whose names are there as good checkpoints or not at all.
TEST_F(DamageTest, ADamagedStateLoadsNothingWrong) {
  const std::string path = absl::StrCat(kFolder, "/checkpoint");
  const std::string good = ReadWholeFile(files_, path).value();
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int mask : {0x01, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ mask);
      files_.Put(path, bytes);
      const absl::StatusOr<CheckpointState> state = ReadCheckpointState(kFolder, files_);
      if (!state.ok()) continue;
      for (const std::string& prefix : state->all) {
        if (prefix == PrefixOf(1) || prefix == PrefixOf(2)) continue;
        EXPECT_FALSE(BundleExists(prefix, files_)) << prefix;
      }
    }
  }
  files_.Put(path, good);
}

}  // namespace
}  // namespace weir
