#include "session/monitored/kept_checkpoints.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kBegin = absl::UnixEpoch() + absl::Hours(1000);

std::vector<std::string> AddAt(KeptCheckpoints& kept, const std::string& path, absl::Duration since_begin) {
  kept.Add(path, kBegin + since_begin);
  return kept.RemoveOutdated();
}

TEST(KeptCheckpointsTest, TheOldestFallOut) {
  KeptCheckpoints kept(2, absl::Hours(10000), kBegin);
  EXPECT_THAT(AddAt(kept, "a", absl::Hours(1)), IsEmpty());
  EXPECT_THAT(AddAt(kept, "b", absl::Hours(2)), IsEmpty());
  EXPECT_THAT(kept.Add("c", kBegin + absl::Hours(3)).all, ElementsAre("b", "c"));
  EXPECT_THAT(kept.paths(), ElementsAre("a", "b", "c")) << "a is there until nothing names it";
  EXPECT_THAT(kept.RemoveOutdated(), ElementsAre("a"));
  EXPECT_THAT(AddAt(kept, "b", absl::Hours(4)), IsEmpty()) << "written again";
  EXPECT_THAT(kept.paths(), ElementsAre("c", "b"));
}

// The same calls and times give tf.compat.v1.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=2) the
// same files.
TEST(KeptCheckpointsTest, OneInEveryIntervalStaysForGood) {
  KeptCheckpoints kept(1, absl::Hours(2), kBegin);
  std::vector<std::string> deleted;
  for (int i = 0; i <= 8; ++i) {
    for (std::string& path : AddAt(kept, absl::StrCat(i), absl::Minutes(45) * i)) {
      deleted.push_back(std::move(path));
    }
  }
  // Younger than 120 minutes: 3 (at 135), then, above 240: 6 (at 270).
  EXPECT_THAT(deleted, ElementsAre("0", "1", "2", "4", "5", "7"));
  EXPECT_THAT(kept.paths(), ElementsAre("8"));
}

TEST(KeptCheckpointsTest, IntervalsGoOnAfterARestart) {
  CheckpointState state;
  {
    KeptCheckpoints kept(1, absl::Hours(2), kBegin);
    AddAt(kept, "a", absl::Hours(3));
    AddAt(kept, "b", absl::Hours(3.5));  // a stays for good
    state = kept.Add("c", kBegin + absl::Hours(4.5));
    EXPECT_THAT(kept.RemoveOutdated(), ElementsAre("b"));
  }
  KeptCheckpoints kept(1, absl::Hours(2), kBegin + absl::Hours(100));
  kept.Recover(state);
  EXPECT_THAT(AddAt(kept, "d", absl::Hours(100)), IsEmpty()) << "c is younger than the 4 hours";
  EXPECT_THAT(kept.paths(), ElementsAre("d"));
}

TEST(KeptCheckpointsTest, WithoutALimitOnlyTheNewestIsListed) {
  KeptCheckpoints kept(0, absl::Hours(2), kBegin);
  for (const char* path : {"a", "b"}) EXPECT_THAT(kept.Add(path, kBegin).all, ElementsAre(path));
  EXPECT_THAT(kept.RemoveOutdated(), IsEmpty());
  EXPECT_TRUE(kept.is_empty());
}

}  // namespace
}  // namespace weir
