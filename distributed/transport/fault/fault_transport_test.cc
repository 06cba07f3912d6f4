#include "distributed/transport/fault/fault_transport.h"

#include <atomic>
#include <memory>

#include "absl/time/clock.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "distributed/transport/test_calls.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

struct FaultTest : ::testing::Test {
  FaultTransport transport{MakeInprocTransport(MakeInprocNetwork())};
  std::atomic<int> num_served{0};
  std::unique_ptr<Listener> listener = transport
                                           .Listen("127.0.0.1:0",
                                                   [this](std::shared_ptr<IncomingCall> call) {
                                                     ++num_served;
                                                     Echo(call);
                                                   })
                                           .value();
  std::unique_ptr<Channel> channel = transport.Connect({"ps", 0}, listener->address()).value();

  absl::Status CallOnce(absl::Duration within = absl::Minutes(1)) {
    return CallAndWait(*channel, "/weir.T/E", {}, Within(within)).status();
  }
};

TEST_F(FaultTest, EachActionDoesWhatItSays) {
  transport.Add(
      {.action = Fault::Action::kClose, .method = "E", .job = "ps", .task = 0, .skip = 1, .count = 1});
  EXPECT_TRUE(CallOnce().ok());
  EXPECT_TRUE(absl::IsUnavailable(CallOnce()));
  EXPECT_TRUE(CallOnce().ok());
  EXPECT_EQ(num_served, 2);

  transport.Clear();
  transport.Add({.action = Fault::Action::kDropRequest, .count = 1});
  EXPECT_TRUE(absl::IsDeadlineExceeded(CallOnce(absl::Milliseconds(300))));
  EXPECT_EQ(num_served, 2);

  transport.Add({.action = Fault::Action::kDropReply, .count = 1});
  EXPECT_TRUE(absl::IsUnavailable(CallOnce()));
  EXPECT_EQ(num_served, 3);

  transport.Add({.action = Fault::Action::kDuplicate, .count = 1});
  EXPECT_TRUE(CallOnce().ok());
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (num_served < 5 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(num_served, 5);

  const absl::Time start = absl::Now();
  transport.Add({.action = Fault::Action::kDelay, .delay = absl::Milliseconds(100), .count = 1});
  EXPECT_TRUE(CallOnce().ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(100));
  EXPECT_EQ(transport.num_hits(), 5);
}

TEST_F(FaultTest, OtherTasksAreNotHit) {
  transport.Add({.action = Fault::Action::kClose, .job = "worker"});
  transport.Add({.action = Fault::Action::kClose, .task = 1});
  transport.Add({.action = Fault::Action::kClose, .method = "Other"});
  EXPECT_TRUE(CallOnce().ok());
}

}  // namespace
}  // namespace weir
