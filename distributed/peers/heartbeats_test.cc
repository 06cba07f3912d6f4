#include "distributed/peers/heartbeats.h"

#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

// A ps that watches two workers, which count and answer: with `answer_`, as the life 1.
class HeartbeatsTest : public ::testing::Test {
 protected:
  HeartbeatsTest()
      : cluster_(ClusterSpec::FromFlag("ps|127.0.0.1:1,worker|127.0.0.1:5000;127.0.0.1:5001").value()),
        transport_(MakeInprocTransport(MakeInprocNetwork())),
        membership_({.self = {"ps", 0}, .cluster = cluster_}),
        peers_(cluster_, *transport_, membership_) {
    for (const std::string address : {"127.0.0.1:5000", "127.0.0.1:5001"}) {
      listeners_.push_back(
          transport_
              ->Listen(address,
                       [this, address](std::shared_ptr<IncomingCall> call) { Answer(address, *call); })
              .value());
    }
  }

  void Answer(const std::string& address, IncomingCall& call) {
    WireWriter writer;
    absl::MutexLock lock(&mutex_);
    EncodeReplyStatus(1, answer_, &writer);
    call.Reply(Frame{writer.Take(), {}});
    ++num_heartbeats_[address];
  }

  bool AwaitHeartbeats(const std::string& address, int count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return num_heartbeats_[address] >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(60));
  }

  const ClusterSpec cluster_;
  absl::Mutex mutex_;
  absl::Status answer_;
  std::map<std::string, int> num_heartbeats_;
  const std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Membership membership_;
  Peers peers_;
};

TEST_F(HeartbeatsTest, GoOnToWhoeverMayStillNeedThem) {
  const TaskName done{"worker", 0}, there{"worker", 1};
  ASSERT_TRUE(membership_.OnDone(done, 11).ok());
  {
    const Heartbeats heartbeats(peers_, {done, there}, absl::Milliseconds(1));
    EXPECT_TRUE(AwaitHeartbeats("127.0.0.1:5001", 5));
  }
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(num_heartbeats_["127.0.0.1:5000"], 0);  // who is done has left, or soon will
}

// The worker has declared this task lost.
TEST_F(HeartbeatsTest, WhoIsRefusedBeginsANewLife) {
  answer_ = absl::AbortedError("declared lost");
  const Incarnation before = membership_.incarnation();
  const Heartbeats heartbeats(peers_, {{"worker", 1}}, absl::Milliseconds(1));
  for (int i = 1; i < 1000 && membership_.incarnation() == before; ++i) {
    ASSERT_TRUE(AwaitHeartbeats("127.0.0.1:5001", i));
  }
  EXPECT_NE(membership_.incarnation(), before);
}

TEST_F(HeartbeatsTest, TheAnswerOfALifeThatIsOverSaysNothingAboutThisTask) {
  const TaskName restarted{"worker", 1};
  ASSERT_TRUE(membership_.OnSignOfLife(restarted, 1).ok());
  ASSERT_TRUE(membership_.OnSignOfLife(restarted, 2).ok());
  const Incarnation before = membership_.incarnation();
  {
    const Heartbeats heartbeats(peers_, {restarted}, absl::Milliseconds(1));
    EXPECT_TRUE(AwaitHeartbeats("127.0.0.1:5001", 5));
  }
  EXPECT_EQ(membership_.incarnation(), before);
}

}  // namespace
}  // namespace weir
