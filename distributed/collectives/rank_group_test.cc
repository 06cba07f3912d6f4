// Collectives of ranks in one process, whose parts come in any order and more than once.
#include "distributed/collectives/rank_group.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "distributed/collectives/test_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Outcome = TestGroup::Outcome;

// ((0 + 1) + (2 + 3)) + 4, in float.
float TreeSum(std::vector<float> values) {
  if (values.size() == 1) return values[0];
  const size_t half = std::bit_floor(values.size() - 1);
  return TreeSum({values.begin(), values.begin() + half}) + TreeSum({values.begin() + half, values.end()});
}

class AllReduceTest : public testing::TestWithParam<std::pair<int, int64_t>> {};

TEST_P(AllReduceTest, EveryRankHasTheSameSumInTheOrderOfRanks) {
  const auto [size, count] = GetParam();
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    TestGroup group(size, seed);
    group.Form();
    const std::vector<Outcome> outcomes =
        RunOnAll(group, [&](RankGroup& ranks, int rank, Communicator::Done done) {
          ranks.AllReduce({"sum", {1, 2}}, Numbers(rank, count), Reduction::kSum, false, std::move(done));
        });
    std::vector<Tensor> inputs;
    for (int rank = 0; rank < size; ++rank) inputs.push_back(Numbers(rank, count));
    for (int64_t i = 0; i < count; ++i) {
      std::vector<float> values;
      for (const Tensor& input : inputs) values.push_back(input.flat<float>()[i]);
      const float sum = TreeSum(values);
      for (const Outcome& outcome : outcomes) ASSERT_EQ(Value(outcome).flat<float>()[i], sum) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SizesAndCounts, AllReduceTest,
                         testing::Values(std::pair(1, 10), std::pair(2, 0), std::pair(2, 1),
                                         std::pair(2, 8192), std::pair(2, 8193), std::pair(3, 100000),
                                         std::pair(4, 3), std::pair(5, 700001), std::pair(8, 9001)));

TEST(RankGroupTest, ReducesEveryNumericType) {
  const auto expect = [](Tensor a, Tensor b, Reduction reduction, bool divides, const Tensor& expected) {
    TestGroup group(2);
    group.Form();
    const std::vector<Outcome> outcomes =
        RunOnAll(group, [&](RankGroup& ranks, int rank, Communicator::Done done) {
          ranks.AllReduce({"r", {0, 0}}, rank == 0 ? a : b, reduction, divides, std::move(done));
        });
    for (const Outcome& outcome : outcomes) EXPECT_EQ(Value(outcome).ToString(), expected.ToString());
  };
  expect(Tensor::Vector<int32_t>({7, -3}), Tensor::Vector<int32_t>({4, -4}), Reduction::kSum, true,
         Tensor::Vector<int32_t>({5, -3}));
  expect(Tensor::Vector<int64_t>({7, -3}), Tensor::Vector<int64_t>({4, -4}), Reduction::kProduct, false,
         Tensor::Vector<int64_t>({28, 12}));
  expect(Tensor::Vector<double>({7, -3}), Tensor::Vector<double>({4, -4}), Reduction::kMin, false,
         Tensor::Vector<double>({4, -4}));
  expect(Tensor::Vector<float>({7, -3}), Tensor::Vector<float>({4, -4}), Reduction::kMax, false,
         Tensor::Vector<float>({7, -3}));
  expect(Tensor::Vector<Half>({Half(1), Half(3)}), Tensor::Vector<Half>({Half(2), Half(6)}), Reduction::kSum,
         true, Tensor::Vector<Half>({Half(1.5f), Half(4.5f)}));
  // 256 + 1 + 1 is 258 only if it is rounded once: 257 is no bfloat16.
  TestGroup group(3);
  group.Form();
  for (const Outcome& outcome : RunOnAll(group, [](RankGroup&ranks, int rank, Communicator::Done done) {
         ranks.AllReduce({"b", {0, 0}}, Tensor::Vector<Bfloat16>({Bfloat16(rank == 0 ? 256 : 1)}),
                         Reduction::kSum, false, std::move(done));
       })) {
    EXPECT_EQ(static_cast<float>(Value(outcome).flat<Bfloat16>()[0]), 258);
  }
}

TEST(RankGroupTest, GathersTensorsOfDifferentLengthsInTheOrderOfRanks) {
  TestGroup group(3);
  group.Form();
  const std::vector<Outcome> outcomes =
      RunOnAll(group, [](RankGroup& ranks, int rank, Communicator::Done done) {
        Tensor rows(DType::kInt32, Shape({rank, 2}));
        for (int32_t& value : rows.flat<int32_t>()) value = rank;
        ranks.AllGather({"rows", {1, 1}}, rows, std::move(done));
      });
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(Value(outcome).shape(), Shape({3, 2}));
    EXPECT_THAT(Value(outcome).flat<int32_t>(), ElementsAre(1, 1, 2, 2, 2, 2));
  }
}

TEST(RankGroupTest, BroadcastsWhatTheRootHas) {
  for (const int root : {0, 2}) {
    TestGroup group(3);
    group.Form();
    for (const Outcome& outcome : RunOnAll(group, [&](RankGroup&ranks, int rank, Communicator::Done done) {
           ranks.Broadcast({"w", {1, 1}}, root, DType::kFloat32,
                           rank == root ? Numbers(root, 20000) : Tensor(), std::move(done));
         })) {
      EXPECT_EQ(std::memcmp(Value(outcome).data(), Numbers(root, 20000).data(), 80000), 0);
    }
  }
}

// The same key is the next collective of that key; other keys may be begun in any order.
TEST(RankGroupTest, ManyAreUnderWayAtOnce) {
  TestGroup group(3, 4);
  group.Form();
  std::vector<std::vector<Outcome>> outcomes(3);
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<int> keys(40);
    std::iota(keys.begin(), keys.end(), 0);
    std::shuffle(keys.begin(), keys.end(), std::mt19937(rank));
    outcomes[rank].resize(80);
    for (int turn = 0; turn < 2; ++turn) {
      for (const int key : keys) {
        outcomes[rank][turn * 40 + key] = NewOutcome();
        group[rank].AllReduce({"k", {0, key}}, Tensor::Scalar<int64_t>(1000 * turn + key), Reduction::kSum,
                              false, TestGroup::Into(outcomes[rank][turn * 40 + key]));
      }
    }
  }
  group.DeliverAll();
  for (int rank = 0; rank < 3; ++rank) {
    for (int i = 0; i < 80; ++i) {
      EXPECT_EQ(Value(outcomes[rank][i]).scalar<int64_t>(), 3 * (1000 * (i / 40) + i % 40));
    }
  }
}

TEST(RankGroupTest, RanksThatComputeSomethingElseAreNamed) {
  TestGroup group(2);
  group.Form();
  const std::vector<Outcome> outcomes =
      RunOnAll(group, [](RankGroup& ranks, int rank, Communicator::Done done) {
        ranks.AllReduce({rank == 0 ? "dense" : "conv", {1, 1}}, Numbers(rank, 10 + rank), Reduction::kSum,
                        false, std::move(done));
      });
  for (const absl::Status& error : Errors(outcomes)) {
    EXPECT_TRUE(absl::IsInvalidArgument(error)) << error;
    EXPECT_THAT(std::string(error.message()), AllOf(HasSubstr("rank 0 (worker:0)"), HasSubstr("float[10]"),
                                                    HasSubstr("rank 1 (worker:1)"), HasSubstr("float[11]")));
  }
}

TEST(RankGroupTest, APartThatDoesNotArriveEndsAllOfItsRank) {
  TestGroup group(2);
  group.Form();
  std::vector<Outcome> outcomes = {NewOutcome(), NewOutcome()};
  for (int key = 0; key < 2; ++key) {
    group[0].AllReduce({"k", {0, key}}, Numbers(0, 5), Reduction::kSum, false,
                       TestGroup::Into(outcomes[key]));
  }
  group.FailOnePartTo(1, absl::UnavailableError("the connection broke"));
  for (const absl::Status& error : Errors(outcomes)) {
    EXPECT_TRUE(absl::IsAborted(error)) << error;
    EXPECT_THAT(std::string(error.message()),
                AllOf(HasSubstr("rank 1 (worker:1)"), HasSubstr("the connection broke")));
  }
  ASSERT_THAT(group.ends(), SizeIs(1));  // it is told once, to tell the others
  EXPECT_EQ(group.ends()[0].first, 0);
  // From now on nothing begins, until the group is formed anew.
  outcomes = {NewOutcome()};
  group[0].AllReduce({"k", {0, 9}}, Numbers(0, 5), Reduction::kSum, false, TestGroup::Into(outcomes[0]));
  EXPECT_THAT(std::string(Errors(outcomes)[0].message()), HasSubstr("the connection broke"));
}

// What is still under way of the old generation harms the new one as little as what comes early for it.
TEST(RankGroupTest, AGroupThatIsFormedAnewTakesNothingOld) {
  TestGroup group(3, 9);
  group.Form(7);
  Outcome before = NewOutcome();
  group[0].AllReduce({"k", {0, 0}}, Numbers(0, 100), Reduction::kSum, false, TestGroup::Into(before));
  for (int rank = 0; rank < 3; ++rank) group[rank].End(absl::AbortedError("somebody was lost"));
  EXPECT_TRUE(absl::IsAborted((*before)->status()));
  // Rank 2 hears last that the group is formed, and others have begun by then.
  std::vector<Outcome> outcomes = {NewOutcome(), NewOutcome(), NewOutcome()};
  const auto begin = [&](int rank) {
    group[rank].Begin(8);
    group[rank].AllReduce({"k", {0, 0}}, Tensor::Scalar<int64_t>(rank), Reduction::kSum, false,
                          TestGroup::Into(outcomes[rank]));
  };
  begin(0);
  begin(1);
  group.DeliverAll();
  begin(2);
  group.DeliverAll();
  for (const Outcome& outcome : outcomes) EXPECT_EQ(Value(outcome).scalar<int64_t>(), 3);
  EXPECT_EQ(group.num_under_way(), 0u);
}

// The news that a generation is over may overtake the news that it has begun.
TEST(RankGroupTest, AnEndThatComesBeforeItsBeginCounts) {
  TestGroup group(2);
  group[0].EndGeneration(7, absl::AbortedError("rank 1 was lost"));
  group[0].Begin(7);
  EXPECT_THAT(std::string(group[0].status().message()), HasSubstr("rank 1 was lost"));
  group[0].Begin(8);
  EXPECT_TRUE(group[0].status().ok());
}

TEST(RankGroupTest, ALongReasonForAnEndIsCut) {
  TestGroup group(2);
  const std::string megabyte(1 << 20, 'x');
  group[0].EndGeneration(9, absl::AbortedError(megabyte));  // it comes before its beginning
  group.Form(9);
  absl::Status with_payload = absl::AbortedError(megabyte);
  with_payload.SetPayload("what", absl::Cord("it is"));
  group[1].EndGeneration(9, with_payload);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_LT(group[rank].status().message().size(), 5000u);
    EXPECT_THAT(std::string(group[rank].status().message()), HasSubstr("xxx"));
  }
  EXPECT_EQ(group[1].status().GetPayload("what"), absl::Cord("it is"));
}

TEST(RankGroupTest, ACancelledStepEndsTheGroup) {
  TestGroup group(2);
  group.Form();
  Cancellation cancellation;
  std::vector<Outcome> outcomes = {NewOutcome(), NewOutcome()};
  for (int key = 0; key < 2; ++key) {
    group[0].AllReduce({.name = "k", .key = {0, key}, .cancellation = &cancellation}, Numbers(0, 5),
                       Reduction::kSum, false, TestGroup::Into(outcomes[key]));
  }
  cancellation.Cancel(absl::DeadlineExceededError("the step took too long"));
  for (const absl::Status& error : Errors(outcomes)) {
    EXPECT_THAT(std::string(error.message()), HasSubstr("the step took too long"));
  }
  EXPECT_THAT(group.ends(), SizeIs(1));
}

// What an error says beside its text decides the exit code of a process.
TEST(RankGroupTest, TheErrorOfARankKeepsItsPayloads) {
  TestGroup group(2);
  group.Form();
  Outcome outcome = NewOutcome();
  group[0].AllReduce({"k", {0, 0}}, Numbers(0, 5), Reduction::kSum, false, TestGroup::Into(outcome));
  absl::Status why = absl::FailedPreconditionError("another process is worker:0 now");
  why.SetPayload("superseded", absl::Cord("worker:0 7.0"));
  group[0].End(why);
  ASSERT_TRUE(outcome->has_value());
  EXPECT_TRUE((*outcome)->status().GetPayload("superseded").has_value()) << (*outcome)->status();
}

TEST(RankGroupTest, ARankThatHasLeftIsNotWaitedFor) {
  TestGroup group(2);
  group.Form();
  Outcome outcome = NewOutcome();
  group[0].AllReduce({"last", {0, 0}}, Numbers(0, 5), Reduction::kSum, false, TestGroup::Into(outcome));
  group[0].OnLeave(1, 7);
  EXPECT_TRUE(absl::IsAborted((*outcome)->status())) << (*outcome)->status();
  EXPECT_THAT(std::string((*outcome)->status().message()), HasSubstr("rank 1 (worker:1) has left"));
  // One that is whole without it is not harmed.
  TestGroup other(2);
  other.Form();
  outcome = NewOutcome();
  other[1].OnLeave(0, 6);  // of another generation
  other[1].Broadcast({"w", {0, 0}}, 1, DType::kFloat32, Numbers(1, 5), TestGroup::Into(outcome));
  other[0].Broadcast({"w", {0, 0}}, 1, DType::kFloat32, Tensor(), [](absl::StatusOr<Tensor>) {});
  other[1].OnLeave(0, 7);
  other.DeliverAll();
  EXPECT_EQ(Value(outcome).num_elements(), 5);
}

// All of its rows are there, and those of another rank are not.
TEST(RankGroupTest, ARankThatIsDoneEndsWhatStillNeedsItForGood) {
  for (const bool is_first : {false, true}) {
    TestGroup group(2);
    group.Form();
    const Outcome outcome = NewOutcome();
    if (is_first) group[0].OnFinish(1, 7);
    group[0].AllReduce({"one more", {0, 0}}, Numbers(0, 5), Reduction::kSum, false, TestGroup::Into(outcome));
    group[0].OnFinish(1, 6);  // of another generation
    if (!is_first) group[0].OnFinish(1, 7);
    group[0].OnLeave(1, 7);
    const absl::Status status = outcome->value().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1 (worker:1) is done, while collective 'one more' still needs it"));
  }
}

// A receiver has what it needs before all have begun, and may be done.
TEST(RankGroupTest, ABroadcastNeedsItsRootOnly) {
  TestGroup group(3);
  group.Form();
  const auto begin = [&](int rank) {
    const Outcome outcome = NewOutcome();
    group[rank].Broadcast({"w", {0, 0}}, 0, DType::kFloat32, rank == 0 ? Numbers(0, 5) : Tensor(),
                          TestGroup::Into(outcome));
    group.DeliverAll();
    return outcome;
  };
  const Outcome root = begin(0), first = begin(2);
  EXPECT_EQ(Value(first).num_elements(), 5);
  group[1].OnFinish(2, 7);
  EXPECT_EQ(Value(begin(1)).num_elements(), 5);
  EXPECT_EQ(Value(root).num_elements(), 5);
  // Whoever begins one for a rank that is done does it in vain.
  group[0].OnFinish(2, 7);
  const Outcome another = begin(0);
  ASSERT_TRUE(another->has_value());
  EXPECT_TRUE(absl::IsInvalidArgument((*another)->status())) << (*another)->status();
}

// The part of rank 1 has come early. When this rank sends its own, rank 1 is complete, and done.
TEST(RankGroupTest, ARankMayBeDoneBeforeItsEarlyPartIsTaken) {
  TestGroup group(2);
  group.Form();
  const Outcome last = NewOutcome(), outcome = NewOutcome();
  group[1].AllReduce({"last", {0, 0}}, Numbers(1, 5), Reduction::kSum, false, TestGroup::Into(last));
  group.DeliverAll();
  group.on_send = [&](int from, int) {
    if (from == 0) group[0].OnFinish(1, 7);
  };
  group[0].AllReduce({"last", {0, 0}}, Numbers(0, 5), Reduction::kSum, false, TestGroup::Into(outcome));
  EXPECT_EQ(Value(outcome).num_elements(), 5);
}

TEST(RankGroupTest, ARankIsMissedThatIsGoneWhenACollectiveBegins) {
  TestGroup group(3);
  group.Form();
  const Outcome outcome = NewOutcome();
  group.on_send = [&](int from, int) {
    if (from == 0) group[0].OnFinish(1, 7);
  };
  group[0].AllReduce({"one more", {0, 0}}, Numbers(0, 5), Reduction::kSum, false, TestGroup::Into(outcome));
  ASSERT_TRUE(outcome->has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(outcome->value().status())) << outcome->value().status();
}

// Not only the rank itself: who has sent a part to it, too.
TEST(RankGroupTest, WhoHasSentEarlyIsToldWhoIsDone) {
  TestGroup group(3);
  group.Form();
  const Outcome sender = NewOutcome(), outcome = NewOutcome();
  group[0].AllReduce({"one more", {0, 0}}, Numbers(0, 5), Reduction::kSum, false, TestGroup::Into(sender));
  group.DeliverAll();
  group[2].OnFinish(1, 7);
  group[2].AllReduce({"one more", {0, 0}}, Numbers(2, 5), Reduction::kSum, false, TestGroup::Into(outcome));
  for (const Outcome& one : {outcome, sender}) {
    ASSERT_TRUE(one->has_value());
    EXPECT_THAT(std::string(one->value().status().message()), HasSubstr("rank 1 (worker:1) is done"));
    EXPECT_TRUE(absl::IsInvalidArgument(one->value().status())) << one->value().status();
  }
}

TEST(RankGroupTest, ARankThatHasSentItsRowsMayLeaveAGather) {
  TestGroup group(3);
  group.Form();
  std::vector<Outcome> outcomes = {NewOutcome(), NewOutcome(), NewOutcome()};
  const auto begin = [&](int rank) {
    group[rank].AllGather({"rows", {1, 1}}, Numbers(rank, 2), TestGroup::Into(outcomes[rank]));
    group.DeliverAll();
  };
  begin(0);
  begin(1);
  group[1].OnLeave(0, 7);
  begin(2);
  EXPECT_EQ(Value(outcomes[1]).num_elements(), 6);
}

TEST(RankGroupTest, WhatCannotBeReducedOrSentIsRefused) {
  TestGroup group(2);
  const auto error = [&](const Begin& begin) {
    Outcome outcome = NewOutcome();
    begin(group[0], 0, TestGroup::Into(outcome));
    return Errors({outcome})[0];
  };
  const auto reduce = [](Tensor input) {
    return [input](RankGroup& ranks, int, Communicator::Done done) {
      ranks.AllReduce({"x", {0, 0}}, input, Reduction::kSum, false, std::move(done));
    };
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(error(reduce(Numbers(0, 1)))));  // the group is not formed
  group.Form();
  EXPECT_THAT(std::string(error(reduce(Tensor::Scalar("text"))).message()), HasSubstr("string cannot be"));
  EXPECT_THAT(std::string(error(reduce(Tensor())).message()), HasSubstr("cannot be reduced"));
  EXPECT_THAT(std::string(error([](RankGroup& ranks, int, Communicator::Done done) {
                            ranks.AllGather({"x", {0, 0}}, Tensor::Scalar(1.0f), std::move(done));
                          }).message()),
              HasSubstr("this is a scalar"));
  EXPECT_THAT(std::string(error([](RankGroup& ranks, int, Communicator::Done done) {
                            ranks.Broadcast({"x", {0, 0}}, 2, DType::kFloat32, Tensor(), std::move(done));
                          }).message()),
              HasSubstr("a broadcast from rank 2 of a group of 2"));
  EXPECT_TRUE(group[0].status().ok());  // nothing of it has begun
}

// A part of an all-reduce of float[100000].
CollectiveMessage MessageOf(uint64_t generation, Communicator::Key key, CollectivePart part) {
  CollectiveMessage message;
  message.generation = generation;
  message.key = key;
  message.name = "x";
  message.signature.kind = CollectiveSignature::Kind::kAllReduce;
  message.signature.dtype = DType::kFloat32;
  message.signature.dims = {100000};
  message.part = std::move(part);
  return message;
}

TEST(RankGroupTest, HostilePartsAreRefused) {
  const auto send = [](CollectivePart part, size_t num_bytes) {
    TestGroup group(2);
    group.Form();
    Outcome outcome = NewOutcome();
    group[0].AllReduce({"x", {0, 0}}, Numbers(0, 100000), Reduction::kSum, false, TestGroup::Into(outcome));
    absl::Status reply;
    const CollectiveMessage message = MessageOf(7, {0, 0}, std::move(part));
    Payload place = group[0].Place(1, message, num_bytes);
    EXPECT_EQ(place.num_bytes(), 0u);
    group[0].Receive(1, message, *Payload::Allocate(num_bytes),
                     [&](const absl::Status& status) { reply = status; });
    EXPECT_TRUE(outcome->has_value());
    return reply;
  };
  for (const auto& [part, num_bytes] : std::vector<std::pair<CollectivePart, size_t>>{
           {{CollectivePart::kContribution, 1, {}}, 200000},  // rank 1's own segment
           {{CollectivePart::kResult, 0, {}}, 200000},        // of rank 0's segment
           {{CollectivePart::kContribution, 0, {}}, 199999},
           {{CollectivePart::kContribution, -1, {}}, 200000},
           {{CollectivePart::kContribution, INT64_MAX, {}}, 200000}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(send(part, num_bytes))) << part.segment;
  }
}

// Notes the keys of what is sent.
class NotedLinks final : public RankLinks {
 public:
  void Send(int, CollectiveMessage message, Payload, Done done) override {
    absl::MutexLock lock(&mutex_);
    keys_.insert(message.key);
    done_.push_back(std::move(done));
  }
  void OnEnd(uint64_t, const absl::Status&) override {}
  bool has_sent(const Communicator::Key& key) {
    absl::MutexLock lock(&mutex_);
    return keys_.contains(key);
  }

 private:
  absl::Mutex mutex_;
  std::set<Communicator::Key> keys_;
  std::vector<Done> done_;  // never called
};

// Whichever comes first. Parts of the other one come in all moments of the join.
TEST(RankGroupTest, NothingIsMissedThatComesWhileARankJoins) {
  const Communicator::Key joins = {1, 1}, sums = {0, 0};
  const CollectiveSignature signature = {
      .kind = CollectiveSignature::Kind::kAllReduce, .dtype = DType::kFloat32, .dims = {5}};
  // Where the two threads share a processor a round takes as long as that stays with one of them.
  const absl::Time end = absl::Now() + absl::Seconds(10);
  for (int i = 0; i < 3000 && absl::Now() < end; ++i) {
    NotedLinks links;
    const RefPtr<RankGroup> group(new RankGroup(0, {"worker:0", "worker:1"}, links, RealEnvironment()));
    group->Begin(7);
    std::atomic<bool> is_ready = false, joins_now = false;
    std::thread other([&] {
      CollectiveMessage message = MessageOf(7, sums, {});
      message.signature = signature;
      Payload bytes = *Payload::Allocate(20);
      is_ready = true;
      while (!joins_now) {
      }
      for (int spin = 0; spin < i % 2000; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
      group->Receive(1, std::move(message), std::move(bytes), [](const absl::Status&) {});
    });
    while (!is_ready) {
    }
    joins_now = true;
    group->Join({"join", joins}, [](const absl::StatusOr<int>&) {});
    other.join();
    ASSERT_TRUE(links.has_sent(sums)) << i;
    group->End(absl::AbortedError("over"));
  }
}

// One that keeps to its credit never comes there (credit_test.cc).
TEST(RankGroupTest, ARankThatSendsWithoutCreditIsRefused) {
  TestGroup group(2);
  group.Form();
  absl::Status last;
  int num_answers = 0;
  for (size_t i = 0; i <= RankGroup::kMaxEarlyParts; ++i) {
    group[0].Receive(1, MessageOf(7, {0, static_cast<int64_t>(i)}, {}), Payload(),
                     [&](const absl::Status& status) {
                       ++num_answers;
                       last = status;
                     });
  }
  EXPECT_EQ(num_answers, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(last)) << last;
  group[0].End(absl::AbortedError("over"));
  EXPECT_EQ(num_answers, static_cast<int>(RankGroup::kMaxEarlyParts) + 1);
}

class CountingAllocator final : public Allocator {
 public:
  RefPtr<Buffer> Allocate(size_t num_bytes) override {
    ++count;
    return HostAllocator().Allocate(num_bytes);
  }
  int64_t num_bytes_in_use() const override { return 0; }
  int count = 0;
};

// Not again for each acknowledgement that comes later.
TEST(RankGroupTest, AResultIsMadeOnce) {
  TestGroup group(4);
  group.Form();
  CountingAllocator allocators[4];
  RunOnAll(group, [&](RankGroup& ranks, int rank, Communicator::Done done) {
    ranks.AllGather({"g", {1, 2}, nullptr, &allocators[rank]}, Numbers(rank, 100), std::move(done));
  });
  for (const CountingAllocator& one : allocators) EXPECT_EQ(one.count, 1);
}

TEST(RankGroupTest, HostileTextsAreRefused) {
  const auto decode = [](size_t name, size_t dims) {
    WireWriter writer;
    CollectiveMessage message = MessageOf(7, {0, 0}, {{}, 0, std::vector<int64_t>(dims)});
    message.name = std::string(name, 'x');
    message.EncodeTo(&writer);
    const std::string bytes = writer.Take();
    WireReader reader(bytes);
    return CollectiveMessage::DecodeFrom(&reader).status();
  };
  EXPECT_TRUE(decode(4096, 254).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(decode(4097, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(decode(0, 255)));
}

TEST(RankGroupTest, SaysWhoIsAwaitedForWhat) {
  TestGroup group(3);
  group.Form();
  Outcome outcome = NewOutcome();
  group[0].AllReduce({"dense/grad", {0, 0}}, Numbers(0, 5), Reduction::kSum, false, TestGroup::Into(outcome));
  EXPECT_THAT(
      group[0].TakeWords(LongWait::kSilence),
      ElementsAre(AllOf(HasSubstr("rank 1 (worker:1), rank 2 (worker:2)"), HasSubstr("'dense/grad'"))));
  EXPECT_THAT(group[0].TakeWords(LongWait::kSilence - absl::Seconds(1)), IsEmpty()) << "it was told";
}

// With more than kMostToAll ranks a part has the shares of several: the one that sends it may be innocent.
TEST(RankGroupTest, SaysOfWhomAPartTellsThatIsAwaited) {
  constexpr int kSize = 16;
  TestGroup group(kSize);
  group.Form();
  std::vector<decltype(NewOutcome())> outcomes;
  for (int rank = 0; rank < kSize - 1; ++rank) {
    outcomes.push_back(NewOutcome());
    group[rank].AllReduce({"dense/grad", {0, 0}}, Numbers(rank, 5), Reduction::kSum, false,
                          TestGroup::Into(outcomes.back()));
  }
  group.DeliverAll();
  EXPECT_THAT(group[0].TakeWords(LongWait::kSilence),
              ElementsAre(HasSubstr("waits for rank 8 (worker:8) with what rank 8 (worker:8) to rank 15 "
                                    "(worker:15) have given in")));
  EXPECT_THAT(group[12].TakeWords(LongWait::kSilence),
              ElementsAre(HasSubstr("waits for rank 14 (worker:14) with what rank 14 (worker:14) to rank 15 "
                                    "(worker:15) have given in")));
  EXPECT_THAT(group[14].TakeWords(LongWait::kSilence),
              ElementsAre(HasSubstr("waits for rank 15 (worker:15) in")));
}

// Of the receivers it knows only who has not answered.
TEST(RankGroupTest, SaysWhoHasNotTakenWhatItSent) {
  TestGroup group(3);
  group.Form();
  for (const int rank : {0, 1}) {
    group[rank].Broadcast({"weights", {0, 0}}, /*root=*/0, DType::kFloat32, Numbers(0, 5),
                          TestGroup::Into(NewOutcome()));
  }
  group.DeliverAll();
  EXPECT_THAT(group[0].TakeWords(LongWait::kSilence),
              ElementsAre(HasSubstr("waits for rank 2 (worker:2) to take what it sent in 'weights'")));
}

// Whoever waits for the same rank has no result to give: it is not accused.
TEST(RankGroupTest, ALargeReductionAccusesOnlyWhoMayBeLate) {
  TestGroup group(4);
  group.Form();
  for (const int rank : {0, 1, 3}) {
    group[rank].AllReduce({"dense/grad", {0, 0}}, Numbers(rank, 100'000), Reduction::kSum, false,
                          TestGroup::Into(NewOutcome()));
  }
  group.DeliverAll();
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(group[rank].TakeWords(LongWait::kSilence),
                ElementsAre(HasSubstr("waits for rank 2 (worker:2) in 'dense/grad'")));
  }
}

// Ranks of one host add up for one another, and pass results on that they have not got yet.
TEST(RankGroupTest, AHostsReductionAccusesOnlyWhoMayBeLate) {
  TestGroup group(4, /*seed=*/1, HalfOfMemory(), /*ranks_per_host=*/2);
  group.Form();
  for (const int rank : {0, 1, 3}) {
    group[rank].AllReduce({"dense/grad", {0, 0}}, Numbers(rank, 100'000), Reduction::kSum, false,
                          TestGroup::Into(NewOutcome()));
  }
  group.DeliverAll();
  EXPECT_THAT(group[0].TakeWords(LongWait::kSilence),
              ElementsAre(HasSubstr("waits for rank 2 (worker:2) with what rank 2 (worker:2) to rank 3 "
                                    "(worker:3) have given in 'dense/grad'")));
  EXPECT_THAT(group[1].TakeWords(LongWait::kSilence),
              ElementsAre(HasSubstr("waits for rank 3 (worker:3) with what rank 2 (worker:2) to rank 3 "
                                    "(worker:3) have given in 'dense/grad'")));
  EXPECT_THAT(group[3].TakeWords(LongWait::kSilence),
              ElementsAre(HasSubstr("waits for rank 2 (worker:2) in 'dense/grad'")));
}

// Calls back when something is about to be sent.
class HookedLinks final : public RankLinks {
 public:
  void Send(int, CollectiveMessage message, Payload, Done done) override {
    on_send(message);
    done(absl::OkStatus());
  }
  void OnEnd(uint64_t, const absl::Status&) override {}

  std::function<void(const CollectiveMessage&)> on_send;
};

// A rank that has its result may leave. The others still need what it owes them.
TEST(RankGroupTest, ACollectiveIsDoneWhenAllThatIsOwedHasBeenSent) {
  constexpr int64_t kCount = 10000;  // two segments: rank 0 owns the first, rank 1 the second
  HookedLinks links;
  RefPtr<RankGroup> group(new RankGroup(0, {"worker:0", "worker:1"}, links, RealEnvironment()));
  group->Begin(7);
  CollectiveMessage sent;
  links.on_send = [&sent](const CollectiveMessage& message) { sent = message; };
  const Outcome outcome = NewOutcome();
  group->AllReduce({"sum", {1, 2}}, Numbers(0, kCount), Reduction::kSum, false, TestGroup::Into(outcome));
  const auto receive_from_1 = [&](CollectivePart::Phase phase, int64_t segment) {
    CollectiveMessage message = sent;
    message.part = {phase, segment, {}};
    Payload bytes = Payload::Allocate(kCount / 2 * sizeof(float)).value();
    std::fill_n(bytes.mutable_data(), bytes.num_bytes(), 0);
    group->Receive(1, std::move(message), std::move(bytes), [](const absl::Status&) {});
  };
  bool was_done = false;
  links.on_send = [&](const CollectiveMessage& message) {
    EXPECT_EQ(message.part.phase, CollectivePart::kResult);
    receive_from_1(CollectivePart::kResult, 1);  // the last that this rank lacks
    was_done = outcome->has_value();
  };
  receive_from_1(CollectivePart::kContribution, 0);
  EXPECT_FALSE(was_done) << "before its own result has left";
  EXPECT_EQ(Value(outcome).num_elements(), kCount);
}

}  // namespace
}  // namespace weir
