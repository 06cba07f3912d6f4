#include "distributed/peers/heartbeats.h"

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distributed/cluster_spec.h"
#include "distributed/peers/probes.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

// A task whose peers count what comes and answer: with `answer_`, as the life 1. The authority holds each
// Watch.
class HeartbeatsTest : public ::testing::Test {
 protected:
  explicit HeartbeatsTest(const TaskName& self = {"ps", 0}, absl::Duration lease = absl::Seconds(10))
      : cluster_(ClusterSpec::FromFlag("ps|127.0.0.1:5002,worker|127.0.0.1:5000;127.0.0.1:5001").value()),
        transport_(MakeInprocTransport(MakeInprocNetwork())),
        membership_({.self = self, .cluster = cluster_, .lease = lease}),
        peers_(cluster_, *transport_, membership_) {
    for (const std::string address : {"127.0.0.1:5000", "127.0.0.1:5001"}) Listen(address);
  }

  void Listen(const std::string& address) {
    listeners_.push_back(transport_
                             ->Listen(address,
                                      [this, address](std::shared_ptr<IncomingCall> call) {
                                        Answer(address, std::move(call));
                                      })
                             .value());
  }

  void Answer(const std::string& address, std::shared_ptr<IncomingCall> call) {
    WireWriter writer;
    absl::MutexLock lock(&mutex_);
    ++num_requests_[address];
    WireReader reader(call->request().header);
    const Envelope envelope = Envelope::DecodeFrom(&reader);
    if (call->method() == kWatchMethod) {
      watches_.push_back(std::move(call));
      return;
    }
    EncodeReplyStatus(1, answer_, &writer);
    if (call->method() == kJoinMethod && answer_.ok()) {
      joined_with_.push_back(envelope.sender_incarnation);
      known_.push_back(DecodeJoin(&reader).value());
      EncodeJoinReply({.spoken = spoken_, .life = kGranted, .view = view_}, &writer);
    }
    call->Reply(Frame{writer.Take(), {}});
  }

  bool AwaitRequests(const std::string& address, int count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return num_requests_[address] >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(60));
  }

  // Why a call to another worker waits, as soon as that says `text`, or else after a minute.
  std::string AwaitReason(const std::string& text) {
    std::string why;
    const absl::Time end = peers_.environment().Now() + absl::Seconds(60);
    while (why.find(text) == std::string::npos && peers_.environment().Now() < end) {
      const absl::Time deadline = peers_.environment().Now() + absl::Milliseconds(20);
      why = std::string(peers_.CallAndWait({"worker", 1}, kListDevicesMethod, "", {}, {.deadline = deadline})
                            .status()
                            .message());
    }
    return why;
  }

  static constexpr Incarnation kGranted = 77;
  const ClusterSpec cluster_;
  absl::Mutex mutex_;
  absl::Status answer_;
  View view_ = {.number = {1, 1}};
  SpokenVersion spoken_;
  std::map<std::string, int> num_requests_;
  std::vector<Incarnation> joined_with_;  // of each request to join
  std::vector<JoinCall> known_;
  std::vector<std::shared_ptr<IncomingCall>> watches_;
  const std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  Membership membership_;
  Peers peers_;
  Probes probes_{peers_};
};

// An authority that declares everybody lost at once.
struct ForgottenAuthorityTest : HeartbeatsTest {
  ForgottenAuthorityTest() : HeartbeatsTest({"ps", 0}, absl::Milliseconds(20)) {}
};

TEST_F(ForgottenAuthorityTest, AsksThoseItHasLostAndIsToldOfItsSuccessor) {
  // As the worker knows it.
  Membership workers({.self = {"worker", 1}, .cluster = cluster_});
  ASSERT_TRUE(workers.OnSignOfLife({"ps", 0}, membership_.incarnation() + 1).ok());
  answer_ = workers.OnSignOfLife({"ps", 0}, membership_.incarnation());
  ASSERT_TRUE(membership_.OnSignOfLife({"worker", 1}, 1).ok());
  absl::Notification told;
  membership_.AddSupersededListener([&](const absl::Status&) { told.Notify(); });
  const Heartbeats heartbeats(peers_, probes_, absl::Milliseconds(1));
  EXPECT_TRUE(told.WaitForNotificationWithTimeout(absl::Seconds(60)));
}

TEST_F(ForgottenAuthorityTest, TheAnswerOfALifeThatIsOverSaysNothingAboutThisTask) {
  const TaskName restarted{"worker", 1};
  ASSERT_TRUE(membership_.OnSignOfLife(restarted, 1).ok());
  ASSERT_TRUE(membership_.OnSignOfLife(restarted, 2).ok());
  const Incarnation before = membership_.incarnation();
  {
    const Heartbeats heartbeats(peers_, probes_, absl::Milliseconds(1));
    EXPECT_TRUE(AwaitRequests("127.0.0.1:5001", 5));
  }
  EXPECT_EQ(membership_.incarnation(), before);
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(num_requests_["127.0.0.1:5000"], 0);  // of whom it has never heard
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
  const Heartbeats heartbeats(peers_, probes_, absl::Milliseconds(10));
  before.WaitForNotification();
  EXPECT_TRUE(absl::IsDeadlineExceeded(gave_up));
  EXPECT_THAT(std::string(gave_up.message()),
              HasSubstr("worker:0 has not joined the cluster, because ps:0 at 127.0.0.1:5002"));
  EXPECT_FALSE(after.HasBeenNotified());
  EXPECT_EQ(num_requests_["127.0.0.1:5001"], 0);
  Listen("127.0.0.1:5002");
  after.WaitForNotification();
  EXPECT_EQ(membership_.incarnation(), kGranted);
  EXPECT_TRUE(AwaitRequests("127.0.0.1:5002", 8));
  absl::MutexLock lock(&mutex_);
  // Some heartbeats were on their way before the answer came.
  const auto says_so = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return joined_with_.back() == kGranted && known_.back().highest_known == kGranted;
  };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&says_so), absl::Seconds(30)));
  EXPECT_EQ(joined_with_[0], 0u);
  EXPECT_EQ(num_requests_["127.0.0.1:5001"], 1) << "heartbeats go to the authority only";
}

TEST_F(JoiningTest, AnAuthorityThatRefusesConnectionsIsGone) {
  Listen("127.0.0.1:5002");
  absl::Notification lost;
  membership_.AddLossListener([&](const TaskName&, Incarnation, const absl::Status& reason) {
    EXPECT_EQ(reason, absl::UnavailableError("ps:0 was lost: its process is gone: 127.0.0.1:5002 refuses "
                                             "connections"));
    lost.Notify();
  });
  // The process has not come to its membership for a while.
  const Heartbeats heartbeats(peers_, probes_, absl::Hours(1), absl::Hours(5));
  EXPECT_TRUE(AwaitRequests("127.0.0.1:5002", 3));
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_GE(known_[0].age, absl::Hours(5));
  }
  listeners_.back()->Shutdown();  // which breaks the Watch
  EXPECT_TRUE(lost.WaitForNotificationWithTimeout(absl::Seconds(60)));
}

TEST_F(JoiningTest, NewsThatCannotWaitComesInTheAnswerToAWatch) {
  Listen("127.0.0.1:5002");
  absl::Notification lost;
  membership_.AddLossListener([&](const TaskName& task, Incarnation, const absl::Status& reason) {
    EXPECT_EQ(task, (TaskName{"worker", 1}));
    EXPECT_EQ(reason, absl::UnavailableError("worker:1 was lost: it is gone"));
    lost.Notify();
  });
  view_.members = {{{"worker", 1}, 5, MemberState::kAlive}};
  const Heartbeats heartbeats(peers_, probes_, absl::Hours(1));
  const auto await_watches = [this](size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return watches_.size() >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(60));
  };
  ASSERT_TRUE(await_watches(1));
  EXPECT_EQ(membership_.state({"worker", 1}), Membership::State::kAlive);
  WireWriter writer;
  EncodeReplyStatus(1, absl::OkStatus(), &writer);
  EncodeView({.number = {1, 2},
              .since = 1,
              .last_loss = 2,
              .members = {{{"worker", 1}, 5, MemberState::kLost, false, "it is gone"}}},
             &writer);
  watches_[0]->Reply(Frame{writer.Take(), {}});
  EXPECT_TRUE(lost.WaitForNotificationWithTimeout(absl::Seconds(60)));
  EXPECT_TRUE(await_watches(2)) << "it goes on watching";
  EXPECT_EQ(membership_.last_loss(), (ViewNumber{1, 2}));
}

TEST_F(JoiningTest, CallsThatWaitSayWhatTheAuthorityHasAnswered) {
  answer_ = absl::InvalidArgumentError("here ps:7 does that");
  Listen("127.0.0.1:5002");
  const Heartbeats heartbeats(peers_, probes_, absl::Milliseconds(10));
  EXPECT_THAT(
      AwaitReason("has refused it"),
      HasSubstr("worker:0 has not joined the cluster, because ps:0 at 127.0.0.1:5002, which lets tasks "
                "join, has refused it: here ps:7 does that"));
  EXPECT_TRUE(membership_.superseded().ok()) << "not before three leases are over";
}

TEST_F(JoiningTest, CallsThatWaitSayWhyTheAuthorityCannotBeReached) {
  const Heartbeats heartbeats(peers_, probes_, absl::Milliseconds(10));
  EXPECT_THAT(AwaitReason("cannot be reached"),
              HasSubstr("which lets tasks join, cannot be reached: ps:0 at 127.0.0.1:5002"));
}

// It was granted one that is too low.
TEST_F(JoiningTest, ATaskTakesTheGreaterLifeThatAHeartbeatIsAnsweredWith) {
  membership_.SetIncarnation(kGranted - 1);
  Listen("127.0.0.1:5002");
  const Heartbeats heartbeats(peers_, probes_, absl::Milliseconds(10));
  absl::MutexLock lock(&mutex_);
  const auto says_so = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !joined_with_.empty() && joined_with_.back() == kGranted;
  };
  ASSERT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&says_so), absl::Seconds(60)))
      << "it does not say that it has taken it";
  EXPECT_EQ(joined_with_[0], kGranted - 1);
  EXPECT_EQ(membership_.incarnation(), kGranted);
}

struct RefusedTest : HeartbeatsTest {
  RefusedTest() : HeartbeatsTest({"worker", 0}, absl::Milliseconds(50)) {}

  // What the task ends with; OK when it goes on until the authority was asked so often.
  absl::Status EndsWith(int num_requests) {
    absl::Notification told;
    absl::Status end;
    membership_.AddSupersededListener([&](const absl::Status& why) {
      end = why;
      told.Notify();
    });
    Listen("127.0.0.1:5002");
    const Heartbeats heartbeats(peers_, probes_, absl::Milliseconds(10));
    if (num_requests == 0) {
      EXPECT_TRUE(told.WaitForNotificationWithTimeout(absl::Seconds(60)));
    } else {
      EXPECT_TRUE(AwaitRequests("127.0.0.1:5002", num_requests));
    }
    return membership_.superseded();
  }
};

TEST_F(RefusedTest, ATaskThatIsRefusedForWhatItWasStartedWithEnds) {
  answer_ = absl::UnauthenticatedError("another token");
  const absl::Status end = EndsWith(0);
  EXPECT_TRUE(absl::IsUnauthenticated(end)) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("has refused it: another token"));
}

TEST_F(RefusedTest, ATaskDoesNotJoinAnAuthorityOfAnotherVersion) {
  spoken_ = {kWireProtocol + 5, "9.8.7"};
  const absl::Status end = EndsWith(0);
  EXPECT_TRUE(absl::IsInvalidArgument(end)) << end;
  EXPECT_THAT(std::string(end.message()),
              HasSubstr(absl::StrCat("ps:0 runs Weir 9.8.7 (protocol ", kWireProtocol + 5,
                                     "), and worker:0 runs Weir ", WEIR_VERSION, " (protocol ", kWireProtocol,
                                     "): they do not understand each other")));
  EXPECT_EQ(membership_.incarnation(), 0u);
}

TEST_F(JoiningTest, AnotherVersionWithTheSameProtocolIsSaidOnce) {
  spoken_ = {kWireProtocol, "0.0.9"};
  ::testing::internal::CaptureStderr();
  Listen("127.0.0.1:5002");
  {
    const Heartbeats heartbeats(peers_, probes_, absl::Milliseconds(10));
    absl::MutexLock lock(&mutex_);
    // Who watches has read more answers than the one that let it in.
    const auto is_told_again = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return !watches_.empty() && known_.back().outline.ps.empty();
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&is_told_again), absl::Seconds(60)))
        << "a heartbeat need not say again which parameter servers there are";
  }
  const std::string printed = ::testing::internal::GetCapturedStderr();
  const std::string line = absl::StrCat("ps:0 runs Weir 0.0.9, and worker:0 runs Weir ", WEIR_VERSION, ": ");
  EXPECT_THAT(printed, HasSubstr(line));
  EXPECT_EQ(printed.find(line), printed.rfind(line));
  EXPECT_EQ(membership_.incarnation(), kGranted);
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(known_[0].outline.ps.at(0).address, "127.0.0.1:5002");
}

TEST_F(RefusedTest, ATaskThatIsToAskAgainDoes) {
  answer_ = absl::UnavailableError("a later process has just asked");
  EXPECT_TRUE(EndsWith(40).ok());
}

// The authority is silent, and so it may count this task among the lost by now.
struct SilencedTest : HeartbeatsTest {
  SilencedTest() : HeartbeatsTest({"worker", 0}, absl::Milliseconds(50)) {}
};

TEST_F(SilencedTest, StepsWaitUntilTheAuthorityAnswersAgain) {
  membership_.SetIncarnation(kGranted);
  ASSERT_TRUE(membership_.OnSignOfLife({"worker", 1}, 1).ok());
  ASSERT_FALSE(membership_.HoldsLease());
  absl::Notification before, after;
  absl::Status gave_up;
  peers_.Call({"worker", 1}, kRunPartitionMethod, "", {},
              {.deadline = absl::Now() + absl::Milliseconds(50), .needs_lease = true},
              [&](absl::StatusOr<PeerReply> reply) {
                gave_up = reply.status();
                before.Notify();
              });
  peers_.Call({"worker", 1}, kRunPartitionMethod, "", {}, {.needs_lease = true},
              [&](absl::StatusOr<PeerReply> reply) {
                EXPECT_TRUE(reply.ok()) << reply.status();
                after.Notify();
              });
  before.WaitForNotification();
  EXPECT_TRUE(absl::IsDeadlineExceeded(gave_up));
  EXPECT_THAT(std::string(gave_up.message()),
              HasSubstr("worker:0 begins no steps, because ps:0 at 127.0.0.1:5002"));
  EXPECT_FALSE(after.HasBeenNotified());
  EXPECT_EQ(num_requests_["127.0.0.1:5001"], 0);
  // What begins no step does not wait.
  EXPECT_TRUE(peers_.CallAndWait({"worker", 1}, kCancelStepMethod, "", {}, {}).ok());
  Listen("127.0.0.1:5002");
  const Heartbeats heartbeats(peers_, probes_, absl::Milliseconds(10));
  after.WaitForNotification();
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
