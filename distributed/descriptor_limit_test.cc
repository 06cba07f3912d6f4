#include "distributed/descriptor_limit.h"

#include <sys/resource.h>

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

TEST(DescriptorLimitTest, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lowered = before;
  lowered.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
  const int64_t limit = RaiseDescriptorLimit();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_GT(limit, 64);
  EXPECT_EQ(RaiseDescriptorLimit(), limit);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(DescriptorLimitTest, AJobThatCannotHaveEnoughIsNamed) {
  EXPECT_EQ(WordsOfDescriptors("worker:1", 16, false, 1024), "");
  EXPECT_EQ(WordsOfDescriptors("worker:1", 220, false, 1024), "");
  EXPECT_THAT(
      WordsOfDescriptors("worker:1", 221, false, 1024),
      HasSubstr("worker:1 may have 1024 files and connections open at a time, and a job of 221 tasks may "
                "need 1028"));
  EXPECT_EQ(WordsOfDescriptors("worker:1", 212, true, 1024), "");
  EXPECT_NE(WordsOfDescriptors("worker:1", 213, true, 1024), "");
}

TEST(DescriptorLimitTest, ATaskNeedsSomeForItself) {
  EXPECT_TRUE(CheckDescriptors("ps:0", 1024).ok());
  EXPECT_TRUE(CheckDescriptors("ps:0", 100).ok());
  const absl::Status refused = CheckDescriptors("ps:0", 40);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("ps:0 may have 40 files and connections open at a time, and needs 100 for itself"));
}

TEST(DescriptorLimitTest, StrangersGetWhatTheJobLeaves) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  for (const bool uses_tls : {false, true}) {
    const int64_t each = uses_tls ? 2 : 1;
    EXPECT_EQ(RoomForStrangers(4, uses_tls, kNoLimit).at_grpc, 256u);
    EXPECT_EQ(RoomForStrangers(4, uses_tls, kNoLimit).at_sockets, 64u);
    for (const int64_t num_tasks : {1, 2, 4, 50, 88, 150, 212, 1000}) {
      for (const int64_t limit : {64, 300, 1024, 4096}) {
        const StrangerRoom room = RoomForStrangers(num_tasks, uses_tls, limit);
        EXPECT_GE(room.at_grpc, 32u);
        EXPECT_GE(room.at_sockets, 16u);
        if (!WordsOfDescriptors("worker:1", num_tasks, uses_tls, limit).empty()) continue;
        EXPECT_LE(static_cast<int64_t>(room.at_grpc) * each + static_cast<int64_t>(room.at_sockets) +
                      4 * (num_tasks - 1) + 100,
                  limit)
            << num_tasks << " tasks, " << limit;
      }
    }
  }
  EXPECT_LT(RoomForStrangers(4, true, 300).at_grpc, 100u);
}

TEST(DescriptorLimitTest, ConnectionsLeaveDescriptorsForFiles) {
  EXPECT_EQ(DescriptorsForConnections(1024), 960);
  EXPECT_EQ(DescriptorsForConnections(100), 50);
  EXPECT_EQ(DescriptorsForConnections(std::numeric_limits<int64_t>::max()), std::numeric_limits<int>::max());
}

}  // namespace
}  // namespace weir
