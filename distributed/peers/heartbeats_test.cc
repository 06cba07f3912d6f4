#include "distributed/peers/heartbeats.h"

#include <map>
#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// A ps that watches two workers, which count and answer: with `answer_`, as the life 1.
class HeartbeatsTest : public ::testing::Test {
 protected:
  explicit HeartbeatsTest(const TaskName& self = {"ps", 0})
      : cluster_(ClusterSpec::FromFlag("ps|127.0.0.1:5002,worker|127.0.0.1:5000;127.0.0.1:5001").value()),
        transport_(MakeInprocTransport(MakeInprocNetwork())),
        membership_({.self = self, .cluster = cluster_}),
        peers_(cluster_, *transport_, membership_) {
    for (const std::string address : {"127.0.0.1:5000", "127.0.0.1:5001"}) Listen(address);
  }

  void Listen(const std::string& address) {
    listeners_.push_back(
        transport_
            ->Listen(address, [this, address](std::shared_ptr<IncomingCall> call) { Answer(address, *call); })
            .value());
  }

  void Answer(const std::string& address, IncomingCall& call) {
    WireWriter writer;
    absl::MutexLock lock(&mutex_);
    EncodeReplyStatus(1, answer_, &writer);
    if (call.method() == kJoinMethod && answer_.ok()) {
      WireReader reader(call.request().header);
      const Envelope envelope = Envelope::DecodeFrom(&reader);
      joined_with_.push_back(envelope.sender_incarnation);
      known_.push_back(DecodeJoin(&reader).value().highest_known);
      EncodeJoinReply(kGranted, &writer);
    }
    call.Reply(Frame{writer.Take(), {}});
    ++num_heartbeats_[address];
  }

  bool AwaitHeartbeats(const std::string& address, int count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return num_heartbeats_[address] >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(60));
  }

  static constexpr Incarnation kGranted = 77;
  const ClusterSpec cluster_;
  absl::Mutex mutex_;
  absl::Status answer_;
  std::map<std::string, int> num_heartbeats_;
  std::vector<Incarnation> joined_with_, known_;  // of each request to join
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

TEST_F(HeartbeatsTest, WhoIsToldOfALaterLifeIsSuperseded) {
  // As the worker knows it.
  Membership workers({.self = {"worker", 1}, .cluster = cluster_});
  ASSERT_TRUE(workers.OnSignOfLife({"ps", 0}, membership_.incarnation() + 1).ok());
  answer_ = workers.OnSignOfLife({"ps", 0}, membership_.incarnation());
  absl::Notification told;
  membership_.AddSupersededListener([&](const absl::Status&) { told.Notify(); });
  const Heartbeats heartbeats(peers_, {{"worker", 1}}, absl::Milliseconds(1));
  EXPECT_TRUE(told.WaitForNotificationWithTimeout(absl::Seconds(60)));
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

// A worker whose ps grants lives.
struct JoiningTest : HeartbeatsTest {
  JoiningTest() : HeartbeatsTest({"worker", 0}) {}
};

TEST_F(JoiningTest, CallsWaitUntilTheAuthorityHasGrantedALife) {
  absl::Notification before, after;
  absl::Status gave_up;
  peers_.Call({"worker", 1}, kListDevicesMethod, "", {}, {.deadline = absl::Now() + absl::Milliseconds(50)},
              [&](absl::StatusOr<PeerReply> reply) {
                gave_up = reply.status();
                before.Notify();
              });
  peers_.Call({"worker", 1}, kListDevicesMethod, "", {}, {}, [&](absl::StatusOr<PeerReply> reply) {
    EXPECT_TRUE(reply.ok()) << reply.status();
    after.Notify();
  });
  const Heartbeats heartbeats(peers_, {{"ps", 0}}, absl::Milliseconds(10));
  before.WaitForNotification();
  EXPECT_TRUE(absl::IsDeadlineExceeded(gave_up));
  EXPECT_THAT(std::string(gave_up.message()),
              HasSubstr("worker:0 has not joined the cluster, because ps:0 at 127.0.0.1:5002"));
  EXPECT_FALSE(after.HasBeenNotified());
  EXPECT_EQ(num_heartbeats_["127.0.0.1:5001"], 0);
  Listen("127.0.0.1:5002");
  after.WaitForNotification();
  EXPECT_EQ(membership_.incarnation(), kGranted);
  absl::MutexLock lock(&mutex_);
  // Some heartbeats were on their way before the answer came.
  const auto says_so = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return joined_with_.back() == kGranted && known_.back() == kGranted;
  };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&says_so), absl::Seconds(30)));
  EXPECT_EQ(joined_with_[0], 0u);
}

TEST_F(JoiningTest, CallsThatWaitMayBeCancelled) {
  absl::Notification done;
  const auto call =
      peers_.Call({"worker", 1}, kListDevicesMethod, "", {}, {}, [&](absl::StatusOr<PeerReply> reply) {
        EXPECT_EQ(reply.status(), absl::CancelledError("enough"));
        done.Notify();
      });
  call->Cancel(absl::CancelledError("enough"));
  done.WaitForNotification();
  peers_.Shutdown();
  peers_.Call({"worker", 1}, kListDevicesMethod, "", {}, {},
              [](absl::StatusOr<PeerReply> reply) { EXPECT_TRUE(absl::IsCancelled(reply.status())); });
}

}  // namespace
}  // namespace weir
