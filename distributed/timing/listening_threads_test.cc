#include "distributed/timing/listening_threads.h"

#include <atomic>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "distributed/timing/timer_queue.h"
#include "gtest/gtest.h"
#include "kernels/no_more_threads.h"

namespace weir {
namespace {

// A source of events that are closures.
class Source {
 public:
  explicit Source(const ListeningThreads::Options& options)
      : threads_(options, [this](ListeningThreads& threads) { Listen(threads); }) {}
  ~Source() {
    absl::MutexLock lock(&mutex_);
    has_ended_ = true;
  }

  void Happen(std::function<void()> event) {
    absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }
  // Whether a thread takes an event.
  bool Answers() {
    auto answered = std::make_shared<absl::Notification>();
    Happen([answered] { answered->Notify(); });
    return answered->WaitForNotificationWithTimeout(absl::Seconds(10));
  }
  ListeningThreads& threads() { return threads_; }

 private:
  void Listen(ListeningThreads& threads) {
    while (!threads.MayLeave()) {
      std::function<void()> event;
      {
        absl::MutexLock lock(&mutex_);
        const auto has_news = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
          return has_ended_ || !events_.empty();
        };
        mutex_.Await(absl::Condition(&has_news));
        if (events_.empty()) return;
        event = std::move(events_.front());
        events_.pop_front();
      }
      event();
    }
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> events_ ABSL_GUARDED_BY(mutex_);
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  ListeningThreads threads_;
};

bool Becomes(const std::atomic<int>& value, int wanted) {
  for (int i = 0; i < 10'000 && value != wanted; ++i) absl::SleepFor(absl::Milliseconds(1));
  return value == wanted;
}

TEST(ListeningThreads, OneListensWhileTheOthersCompute) {
  Source source({.num_threads = 2, .max_threads = 6});
  absl::Notification release;
  std::atomic<int> num_begun{0}, num_done{0};
  for (int i = 0; i < 9; ++i) {
    source.Happen([&] {
      source.threads().Compute([&] {
        ++num_begun;
        release.WaitForNotification();
        ++num_done;
      });
    });
    EXPECT_TRUE(source.Answers()) << i;
  }
  EXPECT_TRUE(Becomes(num_begun, 5));
  EXPECT_EQ(source.threads().num_threads(), 6);
  EXPECT_TRUE(source.Answers());
  release.Notify();
  EXPECT_TRUE(Becomes(num_done, 9));
  // The burst is over: those that nobody needs leave when they next wake up.
  for (int i = 0; i < 10'000 && source.threads().num_threads() > 4; ++i) {
    EXPECT_TRUE(source.Answers());
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(source.threads().num_threads(), 4);
  EXPECT_TRUE(source.Answers());
}

TEST(ListeningThreads, ASingleThreadComputesItself) {
  Source source({.num_threads = 1, .max_threads = 1});
  std::atomic<int> num_done{0};
  for (int i = 0; i < 3; ++i) {
    source.Happen([&] { source.threads().Compute([&] { ++num_done; }); });
  }
  EXPECT_TRUE(Becomes(num_done, 3));
}

TEST(ListeningThreads, WorkThatHasNotBegunIsDroppedAtTheEnd) {
  absl::Notification release;
  std::atomic<int> num_begun{0};
  auto source = std::make_unique<Source>(ListeningThreads::Options{.num_threads = 1, .max_threads = 2});
  for (int i = 0; i < 4; ++i) {
    source->Happen([&] {
      source->threads().Compute([&] {
        ++num_begun;
        release.WaitForNotification();
      });
    });
  }
  EXPECT_TRUE(Becomes(num_begun, 1));
  EXPECT_TRUE(source->Answers());
  std::thread releaser([&] {
    absl::SleepFor(absl::Milliseconds(50));
    release.Notify();
  });
  source.reset();
  releaser.join();
  EXPECT_EQ(num_begun, 1);
}

// What is left of threads that have gone is joined, also by who finds that the system gives no others.
TEST(ListeningThreads, WorkWaitsWhenTheSystemGivesNoFurtherThread) {
  Source source({.num_threads = 1, .max_threads = 4});
  absl::Notification burst_is_over, release;
  std::atomic<int> num_done{0};
  const auto compute = [&](absl::Notification& until) {
    source.Happen([&] {
      source.threads().Compute([&] {
        until.WaitForNotification();
        ++num_done;
      });
    });
    EXPECT_TRUE(source.Answers());
  };
  for (int i = 0; i < 3; ++i) compute(burst_is_over);
  EXPECT_EQ(source.threads().num_threads(), 4);
  burst_is_over.Notify();
  for (int i = 0; i < 10'000 && source.threads().num_threads() > 2; ++i) {
    EXPECT_TRUE(source.Answers());
    absl::SleepFor(absl::Milliseconds(1));
  }
  ASSERT_EQ(source.threads().num_threads(), 2);
  const NoMoreThreads none;
  for (int i = 0; i < 2; ++i) compute(release);
  EXPECT_EQ(source.threads().num_threads(), 2);
  release.Notify();
  EXPECT_TRUE(Becomes(num_done, 5));
  EXPECT_TRUE(source.Answers());
}

TEST(ListeningThreads, WithoutAThreadNobodyListens) {
  const NoMoreThreads none;
  Source source({.num_threads = 3, .max_threads = 4});
  EXPECT_EQ(source.threads().num_threads(), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(source.threads().status())) << source.threads().status();
}

TEST(TimerQueue, SaysThatTheSystemGivesItNoThread) {
  EXPECT_TRUE(TimerQueue(2).status().ok());
  const NoMoreThreads none;
  TimerQueue queue(2);
  queue.Run([] { ADD_FAILURE(); });
  EXPECT_TRUE(absl::IsResourceExhausted(queue.status())) << queue.status();
}

TEST(TimerQueue, TimersGoOffWhileAClosureComputes) {
  TimerQueue queue(ListeningThreads::Options{.num_threads = 1, .max_threads = 3});
  absl::Notification release, rang;
  queue.Run([&] { queue.Compute([&] { release.WaitForNotification(); }); });
  queue.Schedule(absl::Now() + absl::Milliseconds(5), [&] { rang.Notify(); });
  EXPECT_TRUE(rang.WaitForNotificationWithTimeout(absl::Seconds(10)));
  release.Notify();
}

}  // namespace
}  // namespace weir
