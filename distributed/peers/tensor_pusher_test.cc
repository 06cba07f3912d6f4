#include "distributed/peers/tensor_pusher.h"

#include <atomic>

#include "absl/time/clock.h"
#include "distributed/transport/inproc/inproc_transport.h"
#include "gtest/gtest.h"
#include "kernels/environment.h"

namespace weir {
namespace {

// The real one, on whose steady clock a test lets time pass.
class ShiftedEnvironment final : public Environment {
 public:
  ShiftedEnvironment() : Environment(/*is_simulated=*/false) {}
  void Pass(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    passed_ += duration;
  }
  absl::Time SteadyNow() const override {
    absl::MutexLock lock(&mutex_);
    return real_.SteadyNow() + passed_;
  }
  uint64_t Random() override { return real_.Random(); }
  bool Await(absl::Mutex& mutex, const absl::Condition& condition, absl::Time deadline) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return real_.Await(mutex, condition, deadline);
  }
  absl::StatusOr<std::unique_ptr<Threads>> MakeThreads(int num_threads, int max_blocked_threads) override {
    return real_.MakeThreads(num_threads, max_blocked_threads);
  }
  std::unique_ptr<Timers> MakeTimers() override { return real_.MakeTimers(); }
  absl::StatusOr<std::unique_ptr<StartedThread>> StartThread(absl::AnyInvocable<void()> run) override {
    return real_.StartThread(std::move(run));
  }

 private:
  Environment& real_ = RealEnvironment();
  mutable absl::Mutex mutex_;
  absl::Duration passed_ ABSL_GUARDED_BY(mutex_);
};

// A ps that pushes to a worker whose listener answers only when it is told to.
class TensorPusherTest : public ::testing::Test {
 protected:
  TensorPusherTest()
      : cluster_(ClusterSpec::FromFlag("ps|127.0.0.1:1,worker|127.0.0.1:5000").value()),
        transport_(MakeInprocTransport(MakeInprocNetwork())),
        listener_(transport_
                      ->Listen("127.0.0.1:5000",
                               [this](std::shared_ptr<IncomingCall> call) {
                                 absl::MutexLock lock(&mutex_);
                                 arrived_.push_back(std::move(call));
                               })
                      .value()),
        membership_({.self = {"ps", 0}, .cluster = cluster_, .environment = &environment_}),
        peers_(cluster_, *transport_, membership_) {}

  // True when, in time, `count` calls have come and no more.
  bool AwaitArrivals(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return arrived_.size() >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20)) && arrived_.size() == count;
  }

  // is_wanted: what a piece is told of those that follow it. `window`: number 0 for none.
  void Answer(size_t index, const absl::Status& status, bool is_wanted = true,
              const InboundWindow& window = {}, Incarnation life = 1) {
    WireWriter writer;
    EncodeReplyStatus(life, status, &writer);
    absl::MutexLock lock(&mutex_);
    if (status.ok() && arrived_[index]->method() == kPushPieceMethod) EncodePieceReply(is_wanted, &writer);
    if (window.number != 0) window.EncodeTo(&writer);
    arrived_[index]->Reply(Frame{writer.Take(), {}});
  }

  ShiftedEnvironment environment_;
  const ClusterSpec cluster_;
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<IncomingCall>> arrived_;
  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<Listener> listener_;
  Membership membership_;
  Peers peers_;
};

TEST_F(TensorPusherTest, BundlesByDestinationAndBoundsWhatIsUnderWay) {
  std::atomic<int> num_failures{0};
  {
    TensorPusher pusher(peers_, {.bundle_bytes = 1000, .max_bytes_under_way = 2500},
                        [&](PlanId plan, int64_t step, const absl::Status& reason) {
                          EXPECT_EQ(plan, 7u);
                          EXPECT_EQ(step, 3);
                          EXPECT_TRUE(absl::IsNotFound(reason)) << reason;
                          ++num_failures;
                        });
    const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
    const Tensor small = Tensor::Scalar(1.0f), large(DType::kUint8, {1000});
    // Small tensors wait for Flush and leave together.
    for (int edge = 0; edge < 5; ++edge)
      ASSERT_TRUE(pusher.Send(7, 1, edge, kOnlyTurn, worker, small, false).ok());
    ASSERT_TRUE(pusher.Send(7, 2, 0, kOnlyTurn, worker, small, false).ok());
    pusher.Discard(7, 2);
    pusher.Flush(7, 2);
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_TRUE(AwaitArrivals(0));
    pusher.Flush(7, 1);
    ASSERT_TRUE(AwaitArrivals(1));
    {
      absl::MutexLock lock(&mutex_);
      WireReader reader(arrived_[0]->request().header);
      EXPECT_EQ(Envelope::DecodeFrom(&reader).sender, (TaskName{"ps", 0}));
      EXPECT_EQ(DecodePush(&reader, arrived_[0]->request().payloads)->entries.size(), 5u);
    }
    Answer(0, absl::OkStatus());
    // Large ones leave by themselves, but only two fit.
    for (int edge = 0; edge < 4; ++edge)
      ASSERT_TRUE(pusher.Send(7, 3, edge, kOnlyTurn, worker, large, false).ok());
    ASSERT_TRUE(AwaitArrivals(3));
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_TRUE(AwaitArrivals(3));
    Answer(1, absl::OkStatus());
    ASSERT_TRUE(AwaitArrivals(4));
    Answer(2, absl::NotFoundError("no plan"), true, {1, 1 << 20});
    ASSERT_TRUE(AwaitArrivals(5));
    Answer(3, absl::OkStatus());
    Answer(4, absl::OkStatus());
    EXPECT_FALSE(
        pusher.Send(7, 4, 0, kOnlyTurn, DeviceName::Parse("/job:worker").value(), small, false).ok());
  }
  EXPECT_EQ(num_failures, 1);
}

TEST_F(TensorPusherTest, ThePeerSaysHowMuchMayBeUnderWay) {
  const TaskName peer{"worker", 0};
  TensorPusher pusher(peers_, {.bundle_bytes = 1000}, [](PlanId, int64_t, const absl::Status&) {});
  const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
  const Tensor large(DType::kUint8, {1000});
  const auto send = [&](int count) {
    for (int edge = 0; edge < count; ++edge) {
      ASSERT_TRUE(pusher.Send(7, 1, edge, kOnlyTurn, worker, large, false).ok());
    }
  };
  EXPECT_EQ(pusher.WindowTo(peer), InboundBudget::kFirstWindow);
  send(1);
  ASSERT_TRUE(AwaitArrivals(1));
  Answer(0, absl::OkStatus(), true, {5, 2500});
  send(4);
  ASSERT_TRUE(AwaitArrivals(3));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_TRUE(AwaitArrivals(3)) << "only two fit";
  // An answer that was given before and comes later changes nothing.
  Answer(1, absl::OkStatus(), true, {4, 1 << 20});
  ASSERT_TRUE(AwaitArrivals(4));
  EXPECT_EQ(pusher.WindowTo(peer), 2500);
  // Less than a message: one at a time.
  Answer(2, absl::OkStatus(), true, {6, 1});
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_TRUE(AwaitArrivals(4));
  Answer(3, absl::OkStatus());
  ASSERT_TRUE(AwaitArrivals(5));
  // A later life of the peer has granted nothing yet.
  Answer(4, absl::OkStatus(), true, {1, 3000}, /*life=*/2);
  pusher.WaitUntilIdle();
  EXPECT_EQ(pusher.WindowTo(peer), 3000);
  send(1);
  ASSERT_TRUE(AwaitArrivals(6));
  EXPECT_TRUE(membership_.OnSignOfLife(peer, 3).ok());
  Answer(5, absl::OkStatus(), true, {9, 5000}, /*life=*/2);
  pusher.WaitUntilIdle();
  EXPECT_EQ(pusher.WindowTo(peer), InboundBudget::kFirstWindow);
}

// Nobody reads them any more, and they would keep what others send waiting.
TEST_F(TensorPusherTest, WhatWaitsForRoomGoesWithItsStep) {
  std::atomic<int> num_failures{0};
  {
    TensorPusher pusher(peers_,
                        {.bundle_bytes = 1000, .piece_bytes = kMinPieceBytes, .max_bytes_before_piece = 1},
                        [&](PlanId, int64_t, const absl::Status&) { ++num_failures; });
    const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
    const Tensor bundle(DType::kUint8, {1000}), pieces(DType::kUint8, {4 * kMinPieceBytes});
    ASSERT_TRUE(pusher.Send(7, 1, 0, kOnlyTurn, worker, pieces, false).ok());  // one piece leaves
    ASSERT_TRUE(pusher.Send(7, 1, 1, kOnlyTurn, worker, pieces, false).ok());
    ASSERT_TRUE(pusher.Send(7, 1, 2, kOnlyTurn, worker, bundle, false).ok());
    ASSERT_TRUE(pusher.Send(8, 1, 0, kOnlyTurn, worker, bundle, false).ok());
    ASSERT_TRUE(pusher.Send(7, 1, 3, kOnlyTurn, worker, Tensor::Scalar(1.0f), false).ok());
    ASSERT_TRUE(AwaitArrivals(1));
    pusher.Withdraw(7, 1);
    pusher.Withdraw(7, 1);
    pusher.Flush(7, 1);
    Answer(0, absl::OkStatus());
    ASSERT_TRUE(AwaitArrivals(2)) << "that of plan 8 only";
    {
      absl::MutexLock lock(&mutex_);
      WireReader reader(arrived_[1]->request().header);
      Envelope::DecodeFrom(&reader);
      const PushRequest push = DecodePush(&reader, arrived_[1]->request().payloads).value();
      EXPECT_EQ(push.plan, 8u);
      EXPECT_EQ(push.message.answered_below, push.message.number) << "no piece is waited for";
    }
    Answer(1, absl::OkStatus());
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_TRUE(AwaitArrivals(2));
  }
  EXPECT_EQ(num_failures, 0);
}

// Otherwise its sender would keep the one before, which the receiver does not know of any more.
TEST_F(TensorPusherTest, AnAnswerThatIsAnErrorSaysTheWindowToo) {
  const TaskName peer{"worker", 0};
  std::vector<absl::Status> failures;
  TensorPusher pusher(peers_, {.bundle_bytes = 1000, .piece_bytes = kMinPieceBytes},
                      [&](PlanId, int64_t, const absl::Status& reason) { failures.push_back(reason); });
  const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
  const Tensor bundle(DType::kUint8, {1000}), pieces(DType::kUint8, {kMinPieceBytes + 1});
  ASSERT_TRUE(pusher.Send(7, 1, 0, kOnlyTurn, worker, bundle, false).ok());
  ASSERT_TRUE(AwaitArrivals(1));
  Answer(0, absl::NotFoundError("no plan"), true, {3, 2500});
  pusher.WaitUntilIdle();
  EXPECT_EQ(pusher.WindowTo(peer), 2500);
  ASSERT_TRUE(pusher.Send(7, 1, 0, kOnlyTurn, worker, pieces, false).ok());
  ASSERT_TRUE(AwaitArrivals(2));
  Answer(1, absl::ResourceExhaustedError("too much"), true, {4, 3500});
  pusher.WaitUntilIdle();
  EXPECT_EQ(pusher.WindowTo(peer), 3500);
  EXPECT_EQ(failures, (std::vector<absl::Status>{absl::NotFoundError("no plan"),
                                                 absl::ResourceExhaustedError("too much")}));
}

TEST_F(TensorPusherTest, WhoGetsNoAnswerSendsOneMessageAtATime) {
  const TaskName peer{"worker", 0};
  TensorPusher pusher(peers_, {.bundle_bytes = 1000}, [](PlanId, int64_t, const absl::Status&) {});
  const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
  const Tensor large(DType::kUint8, {1000});
  const auto send = [&](int count) {
    for (int edge = 0; edge < count; ++edge) {
      ASSERT_TRUE(pusher.Send(7, 1, edge, kOnlyTurn, worker, large, false).ok());
    }
  };
  send(1);
  ASSERT_TRUE(AwaitArrivals(1));
  Answer(0, absl::OkStatus(), true, {3, 1 << 20});
  pusher.WaitUntilIdle();
  EXPECT_EQ(pusher.WindowTo(peer), 1 << 20);
  send(1);
  ASSERT_TRUE(AwaitArrivals(2));
  {
    absl::MutexLock lock(&mutex_);
    arrived_[1]->Reply(absl::DeadlineExceededError("nobody has answered"));
  }
  pusher.WaitUntilIdle();
  send(3);
  ASSERT_TRUE(AwaitArrivals(3));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_TRUE(AwaitArrivals(3)) << "what it may have was lost with the answer";
  Answer(2, absl::OkStatus(), true, {4, 1 << 20});
  ASSERT_TRUE(AwaitArrivals(5));
  for (size_t i = 3; i < 5; ++i) Answer(i, absl::OkStatus());
}

// The receiver has given it to others by then (inbound_budget.h).
TEST_F(TensorPusherTest, AWindowThatWasNotUsedForLongIsGivenBack) {
  const TaskName peer{"worker", 0};
  TensorPusher pusher(peers_, {.bundle_bytes = 1000}, [](PlanId, int64_t, const absl::Status&) {});
  const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
  const Tensor large(DType::kUint8, {1000});
  std::vector<int64_t> windows;  // when each message was sent
  const auto send_and_answer = [&](size_t index, const InboundWindow& window) {
    ASSERT_TRUE(pusher.Send(7, 1, 0, kOnlyTurn, worker, large, false).ok());
    ASSERT_TRUE(AwaitArrivals(index + 1));
    windows.push_back(pusher.WindowTo(peer));
    Answer(index, absl::OkStatus(), true, window);
    pusher.WaitUntilIdle();
  };
  send_and_answer(0, {1, 64 << 20});
  environment_.Pass(InboundBudget::kWindowLasts - absl::Seconds(4));
  send_and_answer(1, {2, 64 << 20});
  environment_.Pass(InboundBudget::kWindowLasts + absl::Milliseconds(1));
  send_and_answer(2, {3, 64 << 20});
  send_and_answer(3, {4, 1000});
  environment_.Pass(InboundBudget::kWindowLasts + absl::Milliseconds(1));
  send_and_answer(4, {5, 64 << 20});
  EXPECT_EQ(windows, (std::vector<int64_t>{InboundBudget::kFirstWindow, 64 << 20, InboundBudget::kFirstWindow,
                                           64 << 20, 1000}));
}

TEST_F(TensorPusherTest, ALargeTensorLeavesInPiecesAndStopsWhenItIsNotWanted) {
  std::atomic<int> num_failures{0};
  const Tensor large(DType::kUint8, {10 * kMinPieceBytes - 1}), small = Tensor::Scalar(1.0f);
  {
    TensorPusher pusher(peers_, {.piece_bytes = kMinPieceBytes, .max_bytes_before_piece = 2 * kMinPieceBytes},
                        [&](PlanId, int64_t, const absl::Status&) { ++num_failures; });
    const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
    ASSERT_TRUE(pusher.Send(7, 1, 4, kOnlyTurn, worker, large, false).ok());  // without a Flush
    ASSERT_TRUE(AwaitArrivals(2));
    Answer(0, absl::OkStatus());
    ASSERT_TRUE(AwaitArrivals(3));
    {
      absl::MutexLock lock(&mutex_);
      WireReader reader(arrived_[2]->request().header);
      Envelope::DecodeFrom(&reader);
      const TensorPiece piece = DecodePiece(&reader).value();
      EXPECT_EQ(piece.num_pieces(), 10);
      EXPECT_EQ(piece.plan, 7u);
      EXPECT_EQ(piece.edge, 4);
      EXPECT_EQ(piece.type.shape, large.shape());
      // No copy was made.
      EXPECT_EQ(arrived_[2]->request().payloads[0].data(),
                static_cast<const char*>(large.data()) + piece.index * kMinPieceBytes);
    }
    // What is behind it waits, and goes as soon as the rest is not wanted any more.
    ASSERT_TRUE(pusher.Send(7, 2, 0, kOnlyTurn, worker, small, false).ok());
    pusher.Flush(7, 2);
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_TRUE(AwaitArrivals(3));
    Answer(1, absl::OkStatus(), false);
    ASSERT_TRUE(AwaitArrivals(4));
    {
      absl::MutexLock lock(&mutex_);
      EXPECT_EQ(arrived_[3]->method(), kPushTensorsMethod);
    }
    Answer(2, absl::OkStatus(), false);
    Answer(3, absl::OkStatus());
    EXPECT_EQ(num_failures, 0);
    // An error ends the step and the rest as well.
    ASSERT_TRUE(pusher.Send(7, 3, 4, kOnlyTurn, worker, large, false).ok());
    ASSERT_TRUE(AwaitArrivals(6));
    Answer(4, absl::NotFoundError("no plan"));
    Answer(5, absl::NotFoundError("no plan"));
  }
  EXPECT_EQ(num_failures, 2);
  EXPECT_TRUE(AwaitArrivals(6));
}

TEST_F(TensorPusherTest, MessagesSayWhatHasBeenAnsweredAndKeepToAWindow) {
  TensorPusher pusher(peers_, {}, [](PlanId, int64_t, const absl::Status&) {});
  const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
  const auto send = [&](int64_t step) {
    ASSERT_TRUE(pusher.Send(7, step, 0, kOnlyTurn, worker, Tensor::Scalar(1.0f), false).ok());
    pusher.Flush(7, step);
  };
  // What the message with this number says of those before it, and where its call is; calls may overtake
  // one another. 0 when it has not arrived.
  const auto find = [&](uint64_t number) -> std::pair<uint64_t, size_t> {
    absl::MutexLock lock(&mutex_);
    for (size_t index = 0; index < arrived_.size(); ++index) {
      WireReader reader(arrived_[index]->request().header);
      Envelope::DecodeFrom(&reader);
      const MessageNumber message = DecodePush(&reader, arrived_[index]->request().payloads)->message;
      if (message.number == number) return {message.answered_below, index};
    }
    return {0, 0};
  };
  const auto answered_below = [&](uint64_t number) { return find(number).first; };
  const auto answer = [&](uint64_t number) { Answer(find(number).second, absl::OkStatus()); };
  for (int64_t step = 0; step < 3; ++step) send(step);
  ASSERT_TRUE(AwaitArrivals(3));
  for (uint64_t number = 1; number <= 3; ++number) EXPECT_EQ(answered_below(number), 1u);
  answer(2);
  send(3);
  ASSERT_TRUE(AwaitArrivals(4));
  EXPECT_EQ(answered_below(4), 1u) << "the first one may yet be repeated";
  answer(1);
  send(4);
  ASSERT_TRUE(AwaitArrivals(5));
  EXPECT_EQ(answered_below(5), 3u);
  // The third one stays without an answer: the window ends with what a receiver remembers.
  constexpr size_t kMost = 2 + DeliveredMessages::kWindow;
  for (size_t step = 5; step < kMost + 10; ++step) send(static_cast<int64_t>(step));
  ASSERT_TRUE(AwaitArrivals(kMost));
  const size_t third = find(3).second;
  for (size_t index = 2; index < kMost; ++index) {
    if (index != third) Answer(index, absl::OkStatus());  // a second answer to a call changes nothing
  }
  absl::SleepFor(absl::Milliseconds(20));
  ASSERT_TRUE(AwaitArrivals(kMost));
  Answer(third, absl::OkStatus());
  ASSERT_TRUE(AwaitArrivals(kMost + 10));
  for (size_t number = kMost + 1; number <= kMost + 10; ++number) {
    EXPECT_EQ(answered_below(number), kMost + 1) << number;
    answer(number);
  }
}

// What two parts of one step say to one another takes no message of its own where one of them begins, or
// ends, with it.
TEST_F(TensorPusherTest, TensorsGoWithTheMessageThatBeginsAPart) {
  const Tensor small = Tensor::Scalar(1.0f);
  TensorPusher pusher(peers_, {},
                      [](PlanId, int64_t, const absl::Status& reason) { ADD_FAILURE() << reason; });
  const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
  std::vector<absl::StatusOr<std::vector<EdgeTensor>>> begun;
  const auto begin = [&begun](absl::StatusOr<std::vector<EdgeTensor>> first) { begun.push_back(first); };
  pusher.BeginAtFlush(7, 1, {"worker", 0}, begin);
  for (int edge = 0; edge < 2; ++edge)
    ASSERT_TRUE(pusher.Send(7, 1, edge, kOnlyTurn, worker, small, false).ok());
  pusher.Flush(7, 2);  // another step
  EXPECT_TRUE(begun.empty());
  pusher.Flush(7, 1);
  ASSERT_EQ(begun.size(), 1u);
  ASSERT_TRUE(begun[0].ok());
  EXPECT_EQ(begun[0]->size(), 2u);
  pusher.Flush(7, 1);
  EXPECT_EQ(begun.size(), 1u);

  // A part begins also when there is nothing for it.
  pusher.BeginAtFlush(7, 2, {"worker", 0}, begin);
  pusher.FlushLast(7, 2);
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_TRUE(begun[1].ok() && begun[1]->empty());

  // One that is given up never does.
  pusher.BeginAtFlush(7, 3, {"worker", 0}, begin);
  pusher.GiveUp(7, 3, {"worker", 1}, absl::CancelledError("another"));
  EXPECT_EQ(begun.size(), 2u);
  pusher.GiveUp(7, 3, {"worker", 0}, absl::CancelledError("enough"));
  pusher.Flush(7, 3);
  ASSERT_EQ(begun.size(), 3u);
  EXPECT_EQ(begun[2].status(), absl::CancelledError("enough"));
  EXPECT_TRUE(AwaitArrivals(0));
}

TEST_F(TensorPusherTest, SmallTensorsForWhoRunsTheStepGoWithItsAnswer) {
  const Tensor small = Tensor::Scalar(1.0f), large(DType::kUint8, {TensorPusher::kMaxAnswerBytes + 1}),
               text = Tensor::Scalar(std::string("any length"));
  {
    TensorPusher pusher(peers_, {},
                        [](PlanId, int64_t, const absl::Status& reason) { ADD_FAILURE() << reason; });
    const DeviceName worker = DeviceName::Parse("/job:worker/task:0").value();
    const auto finish = [&](int64_t step, const Tensor& tensor) {
      pusher.AnswerWith(7, step, {"worker", 0});
      EXPECT_TRUE(pusher.Send(7, step, 4, kOnlyTurn, worker, tensor, false).ok());
      pusher.FlushLast(7, step);
      pusher.Discard(7, step);  // as the step does when it is over
      return pusher.TakeAnswer(7, step);
    };
    const std::vector<EdgeTensor> answer = finish(1, small);
    ASSERT_EQ(answer.size(), 1u);
    EXPECT_EQ(answer[0].edge, 4);
    EXPECT_TRUE(pusher.TakeAnswer(7, 1).empty()) << "it is taken once";
    EXPECT_TRUE(AwaitArrivals(0));
    // What is large, or may be, is pushed.
    EXPECT_TRUE(finish(2, large).empty());
    EXPECT_TRUE(finish(3, text).empty());
    EXPECT_TRUE(AwaitArrivals(2));
    // Before the end nothing waits.
    pusher.AnswerWith(7, 4, {"worker", 0});
    EXPECT_TRUE(pusher.Send(7, 4, 4, kOnlyTurn, worker, small, false).ok());
    pusher.Flush(7, 4);
    EXPECT_TRUE(AwaitArrivals(3));
    EXPECT_TRUE(pusher.TakeAnswer(7, 4).empty());
    for (size_t i = 0; i < 3; ++i) Answer(i, absl::OkStatus());
  }
}

}  // namespace
}  // namespace weir
