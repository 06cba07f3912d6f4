// What comes to a rank of a collective before it has started, again, or late, whatever the algorithm.
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/placement.h"
#include "distributed/collectives/test_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

Tensor Rows(int rank, int64_t rows, int64_t columns) {
  const Tensor numbers = Numbers(rank, rows * columns);
  return Tensor::FromSpan<float>(Shape({rows, columns}), numbers.flat<float>());
}

// The ranks of one collective, without groups.
struct Algorithm {
  std::string name;
  int size = 0;
  std::function<std::unique_ptr<Collective>(int rank)> make;
};

std::vector<Algorithm> Algorithms() {
  Allocator& allocator = HostAllocator();
  const auto reduce = [&allocator](int rank, int size, int64_t count, int per_host = 1) {
    return MakeAllReduce({rank, size, per_host}, Numbers(rank, count), Reduction::kSum, true, allocator);
  };
  const auto wired = [&allocator](int rank) {
    return MakeWired(DType::kHalf, Numbers(rank, 50'000), allocator, [&](Tensor input) {
      return MakeAllReduce({rank, 3}, std::move(input), Reduction::kSum, false, allocator);
    });
  };
  return {
      {"wholes", 3, [=](int rank) { return reduce(rank, 3, 100).value(); }},
      {"doubling", 13, [=](int rank) { return reduce(rank, 13, 100).value(); }},
      {"segments", 3, [=](int rank) { return reduce(rank, 3, 50'000).value(); }},
      {"hosts", 8, [=](int rank) { return reduce(rank, 8, 50'000, 2).value(); }},
      {"sixteen bits", 3, [=](int rank) { return wired(rank).value(); }},
      {"alone", 1, [=](int rank) { return reduce(rank, 1, 100).value(); }},
      {"reduce-scatter", 3,
       [&](int rank) {
         return MakeReduceScatter({rank, 3}, Rows(rank, 7, 1000), Reduction::kSum, false, allocator).value();
       }},
      {"Adasum", 5,
       [&](int rank) {
         return MakeAdasum({rank, 5}, Numbers(rank, 1000), allocator).value();
       }},
      {"all-gather", 3,
       [&](int rank) {
         return MakeAllGather({rank, 3}, Rows(rank, rank, 300'000), allocator);
       }},
      {"all-to-all", 3,
       [&](int rank) {
         return MakeAllToAll({rank, 3}, Rows(rank, 4, 300'000), {1, 2, 1}, allocator).value();
       }},
      {"broadcast", 3,
       [&](int rank) {
         return MakeBroadcast({rank, 3}, 1, DType::kFloat32, rank == 1 ? Numbers(1, 300'000) : Tensor(),
                              allocator);
       }},
      {"join", 3, [](int rank) {
         return MakeJoin({rank, 3}, 5 + rank % 2);
       }}};
}

// Parts of one collective that are under way between its ranks, and these.
class Ranks {
 public:
  explicit Ranks(const Algorithm& algorithm) : name_(algorithm.name) {
    for (int rank = 0; rank < algorithm.size; ++rank) ranks_.push_back(algorithm.make(rank));
  }

  Collective& operator[](int rank) { return *ranks_[rank]; }
  int size() const { return static_cast<int>(ranks_.size()); }

  void Start(int rank) { Send(rank, ranks_[rank]->Start()); }

  struct Part {
    int from = 0;
    Collective::Outgoing sent;
  };
  std::optional<Part> Next() {
    if (parts_.empty()) return std::nullopt;
    Part part = std::move(parts_.front());
    parts_.pop_front();
    return part;
  }
  Payload Place(const Part& part) {
    return ranks_[part.sent.to]->Place(part.from, part.sent.part, part.sent.bytes.num_bytes());
  }
  absl::Status Receive(const Part& part, Payload bytes) {
    auto next = ranks_[part.sent.to]->Receive(part.from, part.sent.part, std::move(bytes));
    if (next.ok()) Send(part.sent.to, *std::move(next));
    return next.status();
  }
  // Where it shall go.
  absl::Status Deliver(const Part& part) {
    Payload bytes = Place(part);
    if (bytes.num_bytes() == 0) bytes = Payload::Allocate(part.sent.bytes.num_bytes()).value();
    Write(part, &bytes);
    return Receive(part, std::move(bytes));
  }
  static void Write(const Part& part, Payload* place) {
    if (place->num_bytes() > 0)
      std::memcpy(place->mutable_data(), part.sent.bytes.data(), place->num_bytes());
  }
  void DeliverAll() {
    while (const std::optional<Part> part = Next()) {
      const absl::Status status = Deliver(*part);
      EXPECT_TRUE(status.ok()) << name_ << ": " << status;
    }
  }

  std::string ResultOf(int rank) const {
    EXPECT_TRUE(ranks_[rank]->is_complete()) << name_ << ", rank " << rank;
    const absl::StatusOr<Tensor> result = ranks_[rank]->result();
    if (!ranks_[rank]->is_complete() || !result.ok()) return "none";
    return {static_cast<const char*>(result->data()), result->num_bytes()};
  }
  std::vector<std::string> Results() const {
    std::vector<std::string> results;
    for (int rank = 0; rank < size(); ++rank) results.push_back(ResultOf(rank));
    return results;
  }

 private:
  void Send(int from, std::vector<Collective::Outgoing> sent) {
    for (Collective::Outgoing& one : sent) parts_.push_back({from, std::move(one)});
  }

  const std::string name_;
  std::vector<std::unique_ptr<Collective>> ranks_;
  std::deque<Part> parts_;
};

std::vector<std::string> ExpectedOf(const Algorithm& algorithm) {
  Ranks ranks(algorithm);
  for (int rank = 0; rank < ranks.size(); ++rank) ranks.Start(rank);
  ranks.DeliverAll();
  return ranks.Results();
}

// A rank's collective is known to others' parts before it has started.
TEST(ArrivalsTest, WhatComesBeforeTheStartIsTaken) {
  for (const Algorithm& algorithm : Algorithms()) {
    const std::vector<std::string> expected = ExpectedOf(algorithm);
    for (int late = 0; late < algorithm.size; ++late) {
      Ranks ranks(algorithm);
      for (int rank = 0; rank < ranks.size(); ++rank) {
        if (rank != late) ranks.Start(rank);
      }
      ranks.DeliverAll();
      ranks.Start(late);
      ranks.DeliverAll();
      EXPECT_TRUE(ranks.Results() == expected) << algorithm.name << ", late: rank " << late;
    }
  }
}

// Runs all ranks; `deliver` delivers the parts that have a place, which it is given.
int RunWithPlaces(const Algorithm& algorithm,
                  const std::function<void(Ranks&, const Ranks::Part&, Payload place)>& deliver) {
  const std::vector<std::string> expected = ExpectedOf(algorithm);
  Ranks ranks(algorithm);
  for (int rank = 0; rank < ranks.size(); ++rank) ranks.Start(rank);
  int num_placed = 0;
  while (const std::optional<Ranks::Part> part = ranks.Next()) {
    Payload place = ranks.Place(*part);
    if (place.num_bytes() > 0) {
      ++num_placed;
      deliver(ranks, *part, std::move(place));
    } else {
      EXPECT_TRUE(ranks.Receive(*part, part->sent.bytes).ok());
    }
  }
  EXPECT_TRUE(ranks.Results() == expected) << algorithm.name;
  return num_placed;
}

std::vector<Algorithm> AlgorithmsWithPlaces() {
  std::vector<Algorithm> algorithms = Algorithms();
  std::erase_if(algorithms, [](const Algorithm& algorithm) {
    return RunWithPlaces(algorithm, [](Ranks& ranks, const Ranks::Part& part, Payload place) {
             Ranks::Write(part, &place);
             EXPECT_TRUE(ranks.Receive(part, std::move(place)).ok());
           }) == 0;
  });
  EXPECT_EQ(algorithms.size(), 6u);
  return algorithms;
}

// Its connection has closed, and the sender has sent it again. The thread that reads the first copy goes on
// when the sender has other bytes there.
TEST(ArrivalsTest, ARepetitionWaitsWhileItsFirstCopyIsBeingWritten) {
  for (const Algorithm& algorithm : AlgorithmsWithPlaces()) {
    bool is_first = true;
    RunWithPlaces(algorithm, [&](Ranks& ranks, const Ranks::Part& part, Payload place) {
      if (!std::exchange(is_first, false)) {
        Ranks::Write(part, &place);
        EXPECT_TRUE(ranks.Receive(part, std::move(place)).ok());
        return;
      }
      absl::Notification is_taken;
      std::thread again([&] {
        const absl::Status status = ranks.Receive(part, part.sent.bytes);
        EXPECT_TRUE(status.ok()) << algorithm.name << ": " << status;
        is_taken.Notify();
      });
      EXPECT_FALSE(is_taken.WaitForNotificationWithTimeout(absl::Milliseconds(50))) << algorithm.name;
      std::memset(place.mutable_data(), 0x5a, place.num_bytes());
      place = Payload();
      again.join();
    });
  }
}

TEST(ArrivalsTest, ARepetitionIsTakenWhenItsFirstCopyWasDropped) {
  for (const Algorithm& algorithm : AlgorithmsWithPlaces()) {
    RunWithPlaces(algorithm, [&](Ranks& ranks, const Ranks::Part& part, Payload place) {
      std::memset(place.mutable_data(), 0x5a, place.num_bytes());
      place = Payload();
      EXPECT_EQ(ranks.Place(part).num_bytes(), 0u) << algorithm.name << ": a place is given out once";
      EXPECT_TRUE(ranks.Receive(part, part.sent.bytes).ok());
    });
  }
}

TEST(ArrivalsTest, ARepetitionChangesNothingAfterItsFirstCopyWasTaken) {
  for (const Algorithm& algorithm : AlgorithmsWithPlaces()) {
    bool is_in_place = false;
    RunWithPlaces(algorithm, [&](Ranks& ranks, const Ranks::Part& part, Payload place) {
      is_in_place = !is_in_place;
      Ranks::Write(part, &place);
      if (!is_in_place) place = Payload();
      EXPECT_TRUE(ranks.Receive(part, is_in_place ? std::move(place) : part.sent.bytes).ok());
      EXPECT_EQ(ranks.Place(part).num_bytes(), 0u) << algorithm.name;
      Payload other = Payload::Allocate(part.sent.bytes.num_bytes()).value();
      std::memset(other.mutable_data(), 0x5a, other.num_bytes());
      EXPECT_TRUE(ranks.Receive(part, std::move(other)).ok());
    });
  }
}

// What came elsewhere is the result: nothing may be written there any more.
TEST(ArrivalsTest, WhatHasComeElsewhereHasNoPlaceAnyMore) {
  for (const Algorithm& algorithm : Algorithms()) {
    Ranks ranks(algorithm);
    for (int rank = 0; rank < ranks.size(); ++rank) ranks.Start(rank);
    while (const std::optional<Ranks::Part> part = ranks.Next()) {
      EXPECT_TRUE(ranks.Receive(*part, part->sent.bytes).ok());
      EXPECT_EQ(ranks.Place(*part).num_bytes(), 0u) << algorithm.name;
    }
  }
}

TEST(ArrivalsTest, APlaceThatIsNotGivenBackEndsTheCollective) {
  Placement placement(2);
  char bytes[8] = {};
  const Tensor tensor = Numbers(0, 2);
  const Payload place = placement.Give(1, tensor.buffer(), bytes, sizeof(bytes));
  EXPECT_TRUE(placement.Close(0).ok());
  const absl::Status status = placement.Close(1);
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("segment 1 came again while its first copy was still being written"));
}

}  // namespace
}  // namespace weir
