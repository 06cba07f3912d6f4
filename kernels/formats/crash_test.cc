// What is left of checkpoints when the power fails or the process dies at any call.
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/types/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/failing_power.h"

namespace weir {
namespace {

using ::testing::ElementsAre;

absl::Status Save(FileSystem& files, const std::string& prefix, int32_t value) {
  BundleWriter::Options options;
  options.file_system = &files;
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer, BundleWriter::Create(prefix, options));
  WEIR_RETURN_IF_ERROR(writer->Add("v", Tensor::Vector<int32_t>({value, value, value})));
  return writer->Finish();
}

// What the checkpoint holds; -1 when there is none.
absl::StatusOr<int32_t> ValueIn(FileSystem& files, const std::string& prefix) {
  if (!BundleExists(prefix, files)) return -1;
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<BundleReader> reader, BundleReader::Open(prefix, files));
  WEIR_RETURN_IF_ERROR(reader->Verify());
  WEIR_ASSIGN_OR_RETURN(const Tensor v, reader->Read("v"));
  return v.flat<int32_t>()[0];
}

// Runs `change` until the power fails at its first, second... call, and at last through. Whatever the disk
// keeps, the checkpoint holds the old value or the new one; the new one once `change` has returned.
template <typename Prepare, typename Change>
void FailEverywhere(const std::string& prefix, int32_t old_value, int32_t new_value, Prepare prepare,
                    Change change) {
  int num_calls = 0;
  for (bool is_done = false; !is_done; ++num_calls) {
    FailingPower files;
    prepare(files);
    files.SyncEverything();
    files.FailAfter(num_calls);
    const absl::Status status = change(files);
    is_done = !files.has_failed();
    ASSERT_TRUE(status.ok() || !is_done) << status;
    for (const auto& disk : files.PossibleDisks()) {
      const absl::StatusOr<int32_t> value = ValueIn(*disk, prefix);
      ASSERT_TRUE(value.ok()) << "after " << num_calls << " calls: " << value.status();
      const bool may_be_old = !status.ok() && *value == old_value;
      EXPECT_TRUE(*value == new_value || may_be_old) << *value << " after " << num_calls << " calls";
    }
  }
  EXPECT_GT(num_calls, 5);
}

TEST(CrashTest, ANewCheckpointIsThereWhollyOrNotAtAll) {
  FailEverywhere(
      "/models/new/m", -1, 7, [](FileSystem&) {},
      [](FileSystem& files) { return Save(files, "/models/new/m", 7); });
}

TEST(CrashTest, AnOverwrittenCheckpointIsTheOldOneOrTheNewOne) {
  for (int num_before : {1, 2, 3}) {
    const auto prepare = [&](FileSystem& files) {
      for (int i = 1; i <= num_before; ++i) ASSERT_TRUE(Save(files, "/models/m", i).ok());
      ASSERT_TRUE(Save(files, "/models/m.data-1", 99).ok());
    };
    FailEverywhere("/models/m", num_before, 7, prepare,
                   [](FileSystem& files) { return Save(files, "/models/m", 7); });
    FailEverywhere("/models/m.data-1", 99, 99, prepare,
                   [](FileSystem& files) { return Save(files, "/models/m", 7); });
  }
}

TEST(CrashTest, AMergeKeepsTheCheckpointThatItReplaces) {
  const auto prepare = [](FileSystem& files) {
    ASSERT_TRUE(Save(files, "/models/m", 1).ok());
    ASSERT_TRUE(Save(files, "/models/part", 7).ok());
  };
  FailEverywhere("/models/m", 1, 7, prepare,
                 [](FileSystem& files) { return MergeBundles({"/models/part"}, "/models/m", files); });
}

TEST(CrashTest, OverwritingLeavesNoOldShards) {
  MemoryFiles files;
  ASSERT_TRUE(Save(files, "/m", 1).ok());
  ASSERT_TRUE(Save(files, "/m-2", 1).ok());
  const std::vector<std::string> other = {"m-2.data-00000-of-00001", "m-2.index"};
  const auto names = [&] {
    std::vector<std::string> result;
    const std::vector<std::string> all = files.ListDirectory("/").value();
    for (const std::string& name : all) {
      if (name != other[0] && name != other[1]) result.push_back(name);
    }
    return result;
  };
  EXPECT_THAT(names(), ElementsAre("m.data-00000-of-00001", "m.index"));
  ASSERT_TRUE(Save(files, "/m", 2).ok());
  EXPECT_THAT(names(), ElementsAre("m.data-00000-of-00002", "m.data-00001-of-00002", "m.index"));
  EXPECT_EQ(ValueIn(files, "/m").value(), 2);
  ASSERT_TRUE(Save(files, "/m", 3).ok());
  EXPECT_THAT(names(), ElementsAre("m.data-00000-of-00001", "m.index"));
  EXPECT_EQ(ValueIn(files, "/m").value(), 3);
  ASSERT_TRUE(Save(files, "/m", 4).ok());
  ASSERT_TRUE(RemoveBundle("/m", files).ok());
  EXPECT_THAT(names(), ElementsAre());
  EXPECT_EQ(ValueIn(files, "/m-2").value(), 1);
  EXPECT_EQ(RemoveBundle("/m", files).code(), absl::StatusCode::kNotFound);
}

TEST(CrashTest, ACheckpointStateIsTheOldOneOrTheNewOne) {
  const CheckpointState before = {.newest = "/models/m-1", .all = {"/models/m-1"}};
  const CheckpointState after = {.newest = "/models/m-2", .all = {"/models/m-1", "/models/m-2"}};
  for (int num_calls = 0;; ++num_calls) {
    FailingPower files;
    ASSERT_TRUE(files.CreateDirectories("/models").ok());
    ASSERT_TRUE(WriteCheckpointState("/models", before, files).ok());
    files.SyncEverything();
    files.FailAfter(num_calls);
    const absl::Status status = WriteCheckpointState("/models", after, files);
    for (const auto& disk : files.PossibleDisks()) {
      const absl::StatusOr<CheckpointState> state = ReadCheckpointState("/models", *disk);
      ASSERT_TRUE(state.ok()) << state.status();
      const bool may_be_old = !status.ok() && state->newest == before.newest;
      EXPECT_TRUE(state->newest == after.newest || may_be_old) << state->newest << " after " << num_calls;
    }
    if (!files.has_failed()) break;
  }
}

}  // namespace
}  // namespace weir
