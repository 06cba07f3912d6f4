#include "session/executor/inbox.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

TEST(InboxTest, GivesEventsInTheOrderTheyCame) {
  Inbox inbox;
  Event events[3];
  for (int i = 0; i < 3; ++i) {
    events[i].instruction = i;
    EXPECT_FALSE(inbox.Post(&events[i])) << "the owner is there";
  }
  std::vector<int> taken;
  for (const Event* event = inbox.TakeOrPark(); event != nullptr; event = event->next) {
    taken.push_back(event->instruction);
  }
  EXPECT_THAT(taken, testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(inbox.TakeOrPark(), nullptr);
  EXPECT_TRUE(inbox.Post(&events[1])) << "it was parked";
  EXPECT_FALSE(inbox.Post(&events[0]));
  EXPECT_EQ(inbox.TakeOrPark(), &events[1]);
}

// Whoever finds the owner parked becomes the owner. No event may be lost and no two may be owners at once;
// what an owner writes needs no lock, which ThreadSanitizer checks.
TEST(InboxTest, ManyThreadsPostAndOwnByTurns) {
  constexpr int kThreads = 4, kEvents = 20000;
  Inbox inbox;
  int64_t num_taken = 0;  // the owner's
  const auto own = [&] {
    while (Event* event = inbox.TakeOrPark()) {
      while (event != nullptr) {
        event = event->next;
        ++num_taken;
      }
    }
  };
  own();
  std::vector<std::vector<Event>> events(kThreads, std::vector<Event>(kEvents));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (Event& event : events[t]) {
        if (inbox.Post(&event)) own();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_taken, int64_t{kThreads} * kEvents);
}

}  // namespace
}  // namespace weir
