// Small parts between two ranks of one machine, each of which is an object of this process here.
#include "distributed/collectives/memory_links.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kGeneration = 7;

// One rank of two: notes what it takes, and whom it tells.
struct Rank {
  explicit Rank(int own_rank)
      : other(1 - own_rank),
        links(
            2,
            [this](int from, uint64_t generation, absl::StatusOr<std::string> message) {
              if (while_taking) while_taking();
              absl::MutexLock lock(&mutex);
              EXPECT_EQ(from, other);
              EXPECT_EQ(generation, kGeneration);
              if (message.ok()) taken.push_back(*std::move(message));
              if (!message.ok()) error = message.status();
            },
            [this](int to, uint64_t) {
              EXPECT_EQ(to, other);
              ++num_told;
            }) {}

  size_t num_taken() {
    absl::MutexLock lock(&mutex);
    return taken.size();
  }
  // Looks until it has so many.
  void Look(size_t count) {
    if (!links.BeginLook(kGeneration)) return;
    links.Await(kGeneration, [&] { return num_taken() >= count; });
  }

  const int other;
  absl::Mutex mutex;
  std::vector<std::string> taken;
  absl::Status error;
  std::atomic<int> num_told{0};
  std::function<void()> while_taking;
  MemoryLinks links;
};

class MemoryLinksTest : public testing::Test {
 protected:
  MemoryLinksTest() : first_(0), second_(1) {
    const absl::StatusOr<SharedMemory::Place> place = first_.links.Offer(1, kGeneration);
    EXPECT_TRUE(place.ok()) << place.status();
    const absl::Status accepted = second_.links.Accept(0, kGeneration, *place);
    EXPECT_TRUE(accepted.ok()) << accepted;
    EXPECT_FALSE(first_.links.has_link(1)) << "before the other one says that it has it";
    first_.links.Open(1, kGeneration);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) has_cores_ = false;
  }

  bool has_cores_ = true;
  Rank first_, second_;
};

TEST_F(MemoryLinksTest, WhoDoesNotLookIsToldAfterwards) {
  if (!has_cores_) GTEST_SKIP() << "with one core nobody looks";
  EXPECT_FALSE(first_.links.Send(1, kGeneration, "a", "b")) << "neither of them looks";
  ASSERT_TRUE(first_.links.BeginLook(kGeneration));
  EXPECT_TRUE(first_.links.Send(1, kGeneration, "header ", "bytes"));
  EXPECT_EQ(first_.num_told, 0);
  first_.links.Await(kGeneration, [] { return false; });
  EXPECT_EQ(first_.num_told, 1);
  EXPECT_THAT(second_.taken, IsEmpty());
  second_.links.ReadAll(0, kGeneration);
  EXPECT_THAT(second_.taken, ElementsAre("header bytes"));
  second_.links.ReadAll(0, kGeneration);
  EXPECT_THAT(second_.taken, ElementsAre("header bytes"));
}

// Who hears that a rank has gone does so after its last part, also when another thread is just taking that.
TEST_F(MemoryLinksTest, WhatIsBeingTakenComesFirst) {
  if (!has_cores_) GTEST_SKIP() << "with one core nobody looks";
  ASSERT_TRUE(first_.links.BeginLook(kGeneration));
  EXPECT_TRUE(first_.links.Send(1, kGeneration, "last", ""));
  absl::Notification takes, may_go_on;
  second_.while_taking = [&] {
    takes.Notify();
    may_go_on.WaitForNotification();
  };
  std::thread taking([&] { second_.links.ReadAll(0, kGeneration); });
  takes.WaitForNotification();
  std::atomic<size_t> num_before{99};
  second_.links.ReadAllThen(0, kGeneration, [&] { num_before = second_.num_taken(); });
  EXPECT_EQ(num_before, 99u) << "the part has not been taken";
  may_go_on.Notify();
  taking.join();
  EXPECT_EQ(num_before, 1u);
  second_.links.ReadAllThen(0, kGeneration, [&] { num_before = 7; });
  EXPECT_EQ(num_before, 7u) << "at once";
  first_.links.Await(kGeneration, [] { return true; });
}

TEST_F(MemoryLinksTest, WhoLooksIsNotTold) {
  if (!has_cores_) GTEST_SKIP() << "with one core nobody looks";
  ASSERT_TRUE(second_.links.BeginLook(kGeneration));
  EXPECT_FALSE(second_.links.BeginLook(kGeneration)) << "one thread does";
  EXPECT_TRUE(first_.links.Send(1, kGeneration, "a", "")) << "by a thread that does not look itself";
  EXPECT_EQ(first_.num_told, 0);
  second_.links.Await(kGeneration, [&] { return second_.num_taken() == 1; });
  EXPECT_THAT(second_.taken, ElementsAre("a"));
  EXPECT_EQ(second_.num_told, 0);
}

// Neither side misses a message, whenever the other begins and ends to look.
// Of three: rank 2 offers memory while rank 0 looks at that of rank 1, and is sent something at once.
TEST_F(MemoryLinksTest, WhoIsLinkedDuringALookIsToldAfterwards) {
  if (!has_cores_) GTEST_SKIP() << "with one core nobody looks";
  std::vector<int> told;
  MemoryLinks looking(
      3, [](int, uint64_t, const absl::StatusOr<std::string>&) {},
      [&told](int to, uint64_t) { told.push_back(to); });
  MemoryLinks early(
      3, [](int, uint64_t, const absl::StatusOr<std::string>&) {}, [](int, uint64_t) {});
  MemoryLinks late(
      3, [](int, uint64_t, const absl::StatusOr<std::string>&) {}, [](int, uint64_t) {});
  ASSERT_TRUE(looking.Accept(1, kGeneration, early.Offer(0, kGeneration).value()).ok());
  const SharedMemory::Place place = late.Offer(0, kGeneration).value();
  ASSERT_TRUE(looking.BeginLook(kGeneration));
  bool has_sent = false;
  looking.Await(kGeneration, [&] {
    if (!std::exchange(has_sent, true)) {
      EXPECT_TRUE(looking.Accept(2, kGeneration, place).ok());
      EXPECT_TRUE(looking.Send(2, kGeneration, "header", "bytes"));
    }
    return true;
  });
  EXPECT_THAT(told, ElementsAre(2));
}

TEST_F(MemoryLinksTest, NothingIsLost) {
  if (!has_cores_) GTEST_SKIP() << "with one core nobody looks";
  constexpr int kMessages = 3000;
  std::atomic<int> num_done{0};
  const auto run = [&num_done](Rank& self) {
    for (int i = 1; i <= kMessages; ++i) {
      const bool looks = self.links.BeginLook(kGeneration);
      while (!self.links.Send(self.other, kGeneration, absl::StrCat(i), "")) {
        // The network's part of it.
        self.links.ReadAll(self.other, kGeneration);
        if (!looks) self.Look(self.num_taken() + 1);
      }
      if (looks) self.links.Await(kGeneration, [&] { return static_cast<int>(self.num_taken()) >= i; });
    }
    ++num_done;
    while (num_done < 2) self.links.ReadAll(self.other, kGeneration);  // the other one needs room
  };
  std::thread thread([&] { run(second_); });
  run(first_);
  thread.join();
  for (Rank* rank : {&first_, &second_}) {
    rank->links.ReadAll(rank->other, kGeneration);
    ASSERT_EQ(rank->taken.size(), size_t{kMessages});
    for (int i = 1; i <= kMessages; ++i) ASSERT_EQ(rank->taken[i - 1], absl::StrCat(i));
  }
}

TEST_F(MemoryLinksTest, RanksThatAreNotInStepStopLooking) {
  if (!has_cores_) GTEST_SKIP() << "with one core nobody looks";
  int num_looks = 0;
  for (int i = 0; i < 160; ++i) {
    if (!first_.links.BeginLook(kGeneration)) continue;
    ++num_looks;
    first_.links.Await(kGeneration, [] { return false; });
  }
  EXPECT_EQ(num_looks, 16 + (160 - 16) / 16);
  // One look that pays, and they do it again.
  for (int i = 0; i < 16; ++i) {
    if (!first_.links.BeginLook(kGeneration)) continue;
    first_.links.Await(kGeneration, [] { return true; });
  }
  EXPECT_TRUE(first_.links.BeginLook(kGeneration));
  first_.links.Await(kGeneration, [] { return true; });
}

TEST_F(MemoryLinksTest, ALinkIsOfOneGeneration) {
  EXPECT_FALSE(first_.links.BeginLook(kGeneration + 1));
  EXPECT_FALSE(first_.links.CanSend(1, kGeneration + 1));
  first_.links.KeepOnly(kGeneration);
  EXPECT_TRUE(first_.links.has_link(1));
  first_.links.KeepOnly(kGeneration + 1);
  EXPECT_FALSE(first_.links.has_link(1));
  EXPECT_FALSE(first_.links.Send(1, kGeneration, "a", ""));
}

// An offer that was on its way when the group was formed anew.
TEST_F(MemoryLinksTest, AnOfferOfAnotherGenerationThanTheOneUnderWayIsRefused) {
  auto memory = SharedMemory::Make(2 * MemoryRing::kBytes).value();
  second_.links.KeepOnly(kGeneration + 1);
  EXPECT_TRUE(second_.links.Accept(0, kGeneration + 1, memory->place()).ok());
  auto late = SharedMemory::Make(2 * MemoryRing::kBytes).value();
  EXPECT_TRUE(absl::IsAborted(second_.links.Accept(0, kGeneration, late->place())));
  second_.links.KeepOnly(kGeneration + 1);
  EXPECT_TRUE(second_.links.has_link(0)) << "its link is not replaced";
  // The next one may be offered before this rank knows of it, when this one has ended.
  second_.links.OnEnd(kGeneration + 1);
  EXPECT_TRUE(second_.links.Accept(0, kGeneration + 2, late->place()).ok());
}

// Offered twice, because an answer was lost: what has been said in between stays.
TEST_F(MemoryLinksTest, ARepeatedOfferChangesNothing) {
  if (!has_cores_) GTEST_SKIP() << "with one core nobody looks";
  ASSERT_TRUE(first_.links.BeginLook(kGeneration));
  EXPECT_TRUE(first_.links.Send(1, kGeneration, "a", ""));
  first_.links.Await(kGeneration, [] { return true; });
  EXPECT_TRUE(second_.links.Accept(0, kGeneration, SharedMemory::Place()).ok());
  second_.links.ReadAll(0, kGeneration);
  EXPECT_THAT(second_.taken, ElementsAre("a"));
}

// What the other process writes may be anything.
TEST(MemoryLinksHostileTest, MemoryThatLiesEndsTheLink) {
  Rank rank(1);
  auto memory = SharedMemory::Make(2 * MemoryRing::kBytes).value();
  ASSERT_TRUE(rank.links.Accept(0, kGeneration, memory->place()).ok());
  const uint64_t count = 1000;
  memcpy(memory->data(), &count, sizeof(count));
  rank.links.ReadAll(0, kGeneration);
  EXPECT_TRUE(absl::IsInvalidArgument(rank.error)) << rank.error;
  EXPECT_THAT(rank.taken, IsEmpty());
  EXPECT_FALSE(rank.links.CanSend(0, kGeneration));
  rank.error = absl::OkStatus();
  rank.links.ReadAll(0, kGeneration);
  EXPECT_TRUE(rank.error.ok()) << "it is said once";
}

}  // namespace
}  // namespace weir
