#include "kernels/threads.h"

#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/no_more_threads.h"
#include "kernels/real_threads.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

class Call final : public Runnable {
 public:
  Call(std::function<void()> call, bool is_heavy) : call_(std::move(call)), is_heavy_(is_heavy) {}
  bool Run(int64_t) override {
    call_();
    return false;
  }
  bool is_heavy() const override { return is_heavy_; }

 private:
  const std::function<void()> call_;
  const bool is_heavy_;
};

TEST(ThreadsTest, HeavyWorkOfOneThreadOverlaps) {
  const auto made = RealThreads::Create({.num_threads = 2}).value();
  RealThreads& threads = *made;
  absl::Notification second_began, first_over;
  bool overlapped = false;
  Call first(
      [&] {
        overlapped = second_began.WaitForNotificationWithTimeout(kPatience);
        first_over.Notify();
      },
      true);
  Call second([&] { second_began.Notify(); }, true);
  {
    RunScope scope;
    threads.Compute(&first);
    threads.Compute(&second);
  }
  first_over.WaitForNotification();
  EXPECT_TRUE(overlapped);
}

// It stays as long as its thread has its turn, which may end early on a busy machine.
TEST(ThreadsTest, LightWorkBeginsOnItsThreadAndRunsWhenTheOutermostFrameIsReached) {
  const auto made = RealThreads::Create({.num_threads = 2}).value();
  RealThreads& threads = *made;
  const auto me = std::this_thread::get_id();
  static thread_local int depth = 0;
  int deepest = 0, left = 100'000;
  std::vector<std::unique_ptr<Call>> calls;
  bool began_here = false;
  absl::Notification is_over;
  std::function<void()> call_next = [&] {
    deepest = std::max(deepest, ++depth);
    if (left == 100'000) began_here = std::this_thread::get_id() == me;
    EXPECT_TRUE(RunScope::IsInside());
    RunScope nested;
    if (--left > 0) {
      threads.Compute(calls[left % 2].get());
    } else {
      is_over.Notify();
    }
    --depth;
  };
  for (int i = 0; i < 2; ++i) calls.push_back(std::make_unique<Call>(call_next, false));
  {
    RunScope scope;
    threads.Compute(calls[0].get());
    EXPECT_EQ(left, 100'000) << "nothing runs on the stack of Compute";
  }
  is_over.WaitForNotification();
  EXPECT_EQ(left, 0);
  EXPECT_EQ(deepest, 1);
  EXPECT_TRUE(began_here);
  EXPECT_FALSE(RunScope::IsInside());
}

TEST(ThreadsTest, WorkFromOutsideIsComputedElsewhere) {
  const auto made = RealThreads::Create({.num_threads = 1}).value();
  RealThreads& threads = *made;
  absl::Notification done;
  Call call([&] { done.Notify(); }, false);
  threads.Compute(&call);
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(kPatience));
}

// A loop: it can always go on, or wakes itself, until it is told to end.
class Loop final : public Runnable {
 public:
  Loop(Threads& threads, bool wakes_itself, bool is_heavy)
      : threads_(threads), wakes_itself_(wakes_itself), is_heavy_(is_heavy) {}
  bool Run(int64_t) override {
    if (shall_end_) {
      has_ended_.Notify();
      return false;
    }
    if (!wakes_itself_) return true;
    threads_.Compute(this);
    return false;
  }
  bool is_heavy() const override { return is_heavy_; }
  void End() {
    shall_end_ = true;
    has_ended_.WaitForNotification();
  }

 private:
  Threads& threads_;
  const bool wakes_itself_, is_heavy_;
  std::atomic<bool> shall_end_{false};
  absl::Notification has_ended_;
};

TEST(ThreadsTest, LoopsWithoutEndLeaveOthersTheirTurn) {
  for (const bool wakes_itself : {false, true}) {
    for (const bool is_heavy : {false, true}) {
      const auto made = RealThreads::Create({.num_threads = 2}).value();
      std::deque<Loop> loops;
      for (int i = 0; i < 5; ++i) loops.emplace_back(*made, wakes_itself, is_heavy);
      for (Loop& loop : loops) made->Compute(&loop);
      for (int i = 0; i < 3; ++i) {
        absl::Notification done;
        Call other([&] { done.Notify(); }, is_heavy);
        made->Compute(&other);
        EXPECT_TRUE(done.WaitForNotificationWithTimeout(kPatience))
            << "wakes itself: " << wakes_itself << ", heavy: " << is_heavy;
        if (!done.HasBeenNotified()) std::abort();  // the loops would never end
      }
      for (Loop& loop : loops) loop.End();
    }
  }
}

// What a caller's step wakes may be somebody's loop.
TEST(ThreadsTest, ACallerIsNotKeptByALoopThatItHasWoken) {
  for (const bool wakes_itself : {false, true}) {
    const auto made = RealThreads::Create({.num_threads = 1}).value();
    Loop loop(*made, wakes_itself, /*is_heavy=*/false);
    absl::Notification has_returned;
    std::thread caller([&] {
      {
        RunScope scope;
        made->Compute(&loop);
      }
      has_returned.Notify();
    });
    EXPECT_TRUE(has_returned.WaitForNotificationWithTimeout(kPatience)) << "wakes itself: " << wakes_itself;
    loop.End();
    caller.join();
  }
}

TEST(ThreadsTest, AThreadTakesBackWhatNobodyHasBegun) {
  const auto made = RealThreads::Create({.num_threads = 2}).value();
  RealThreads& threads = *made;
  absl::Notification may_end, all_done;
  absl::BlockingCounter busy(2);
  Call hog1([&] { busy.DecrementCount(), may_end.WaitForNotification(); }, true);
  Call hog2([&] { busy.DecrementCount(), may_end.WaitForNotification(); }, true);
  threads.Compute(&hog1);
  threads.Compute(&hog2);
  busy.Wait();
  int num_run = 0;
  Call a([&] { ++num_run; }, true), b([&] { ++num_run; }, true);
  {
    RunScope scope;
    threads.Compute(&a);
    threads.Compute(&b);
  }
  EXPECT_EQ(num_run, 2) << "no thread of the pool was free";
  may_end.Notify();
}

TEST(ThreadsTest, BlockingWorkNeverQueuesBehindBlockedWork) {
  absl::Notification last_began;
  std::atomic<int> num_done{0};
  {
    const auto made = RealThreads::Create({.num_threads = 1, .max_blocked_threads = 3}).value();
    RealThreads& threads = *made;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(threads
                      .Block([&, i] {
                        if (i == 2) last_began.Notify();
                        if (last_began.WaitForNotificationWithTimeout(kPatience)) ++num_done;
                      })
                      .ok());
    }
  }
  EXPECT_EQ(num_done, 3);
}

TEST(ThreadsTest, TooMuchBlockedWorkIsAnError) {
  absl::Notification may_end;
  const auto made = RealThreads::Create({.num_threads = 1, .max_blocked_threads = 2}).value();
  RealThreads& threads = *made;
  absl::Status status;
  int num_accepted = 0;
  while (status.ok()) {
    status = threads.Block([&] { may_end.WaitForNotification(); });
    num_accepted += status.ok();
  }
  EXPECT_EQ(num_accepted, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("all 2 threads"));
  may_end.Notify();
}

TEST(ThreadsTest, ASystemWithoutFurtherThreadsIsAnErrorAndNoEnd) {
  const auto made = RealThreads::Create({.num_threads = 3}).value();
  const NoMoreThreads no_more;
  const absl::Status none = RealThreads::Create({.num_threads = 1}).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(none.message()), HasSubstr("no further thread"));
  const absl::Status blocked = made->Block([] {});
  EXPECT_EQ(blocked.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(blocked.message()),
              HasSubstr("beside 0: the system gives this process no further"));
  // What was asked for before goes on, on the threads that are there.
  absl::BlockingCounter over(4);
  Call call([&] { over.DecrementCount(); }, true);
  for (int i = 0; i < 4; ++i) made->Compute(&call);
  over.Wait();
  absl::Notification rung;
  made->At(absl::Now(), [&] { rung.Notify(); });
  EXPECT_TRUE(rung.WaitForNotificationWithTimeout(kPatience));
}

TEST(ThreadsTest, TimersRingInOrderUnlessForgotten) {
  const auto made = RealThreads::Create({.num_threads = 1}).value();
  RealThreads& threads = *made;
  const absl::Time soon = absl::Now() + absl::Milliseconds(20);
  std::vector<int> rung;
  absl::Notification last;
  const auto forgotten = threads.At(soon, [&] { rung.push_back(0); });
  threads.At(soon + absl::Milliseconds(1), [&] {
    rung.push_back(2);
    last.Notify();
  });
  threads.At(soon, [&] { rung.push_back(1); });
  const auto never = threads.At(absl::InfiniteFuture(), [&] { rung.push_back(3); });
  EXPECT_TRUE(threads.Forget(forgotten));
  EXPECT_FALSE(threads.Forget(forgotten));
  ASSERT_TRUE(last.WaitForNotificationWithTimeout(kPatience));
  EXPECT_THAT(rung, testing::ElementsAre(1, 2));
  EXPECT_TRUE(threads.Forget(never));
  EXPECT_FALSE(threads.Forget(0));
}

}  // namespace
}  // namespace weir
