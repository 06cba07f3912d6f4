#include "distributed/restorer.h"

#include "distributed/cluster_spec.h"
#include "gtest/gtest.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

const TaskName kChief{"chief", 0}, kWorker{"worker", 0};

struct RestorerTest : ::testing::Test {
  // Whether it begins a restore.
  bool Begins(const TaskName& task, Incarnation life) {
    bool begins = false;
    const absl::Status begun = restorer.Begin(members, task, life, [&] { begins = true; });
    EXPECT_EQ(begins, begun.ok()) << begun;
    EXPECT_EQ(!begins, IsSuperseded(begun)) << begun;
    return begins;
  }

  Membership members{
      {.self = {"ps", 0}, .cluster = ClusterSpec::FromFlag("ps|h:1,chief|h:2,worker|h:3").value()}};
  Restorer restorer;
};

// The request of the earlier life was let in, and its thread was held up.
TEST_F(RestorerTest, AnEarlierLifeBeginsNoRestoreAfterALaterOne) {
  ASSERT_TRUE(members.OnSignOfLife(kChief, 11).ok());
  EXPECT_TRUE(Begins(kChief, 11));
  ASSERT_TRUE(members.OnSignOfLife(kChief, 12).ok());
  EXPECT_EQ(restorer.LifeThatIsOver(members), 11u);
  EXPECT_TRUE(Begins(kChief, 12));
  EXPECT_FALSE(Begins(kChief, 11));
  EXPECT_EQ(restorer.LifeThatIsOver(members), 0u);
  EXPECT_TRUE(Begins(kChief, 12));
}

TEST_F(RestorerTest, LivesOfOtherTasksDoNotMatter) {
  ASSERT_TRUE(members.OnSignOfLife(kChief, 11).ok());
  ASSERT_TRUE(members.OnSignOfLife(kWorker, 21).ok());
  EXPECT_TRUE(Begins(kWorker, 21));
  EXPECT_TRUE(Begins(kChief, 11));
  ASSERT_TRUE(members.OnSignOfLife(kChief, 31).ok());
  EXPECT_TRUE(Begins(kWorker, 21));
  EXPECT_FALSE(Begins(kChief, 11));
  EXPECT_EQ(restorer.LifeThatIsOver(members), 0u);
}

}  // namespace
}  // namespace weir
