// Reduce-scatter, all-to-all, barrier, Adasum, 16-bit wires and joining, of ranks in one process whose parts
// come in any order and more than once.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "distributed/collectives/collective.h"
#include "distributed/collectives/rank_group.h"
#include "distributed/collectives/reduction.h"
#include "distributed/collectives/test_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Outcome = TestGroup::Outcome;

Tensor Rows(int rank, int64_t rows, int64_t columns) {
  const Tensor numbers = Numbers(rank, rows * columns);
  return Tensor::FromSpan<float>(Shape({rows, columns}), numbers.flat<float>());
}

Tensor SumOf(int size, int64_t count) {
  TestGroup group(size);
  group.Form();
  return Value(RunOnAll(group, [&](RankGroup& ranks, int rank, Communicator::Done done) {
    ranks.AllReduce({"sum", {1, 2}}, Numbers(rank, count), Reduction::kSum, false, std::move(done));
  })[0]);
}

// Elements of any dtype, which differ in size from rank to rank, so that the order of sums shows.
Tensor Elements(DType dtype, int rank, int64_t count) {
  Tensor tensor(dtype, Shape({count}));
  Tensor floats(DType::kFloat32, Shape({count}));
  for (int64_t i = 0; i < count; ++i) {
    const double number = std::sin(static_cast<double>(i * 31 + rank * 7)) * std::exp2(rank * 3 % 8);
    floats.flat<float>()[i] = static_cast<float>(number);
    if (dtype == DType::kFloat64) tensor.flat<double>()[i] = number;
    if (dtype == DType::kInt32) tensor.flat<int32_t>()[i] = static_cast<int32_t>(1e3 * number);
    if (dtype == DType::kInt64) tensor.flat<int64_t>()[i] = static_cast<int64_t>(1e15 * number);
  }
  if (dtype == DType::kFloat32) return floats;
  if (DTypeSize(dtype) == 2) ToWire(DType::kFloat32, floats.data(), dtype, count, tensor.data());
  return tensor;
}

// Whatever the algorithm: the bits are those of the tree over ranks.
TEST(CollectivesTest, EveryNumberOfRanksReducesAnyTensorToTheBitsOfTheTree) {
  std::mt19937_64 random(5);
  const auto draw = [&](int64_t first, int64_t last) {
    return std::uniform_int_distribution<int64_t>(first, last)(random);
  };
  constexpr DType kDTypes[] = {DType::kFloat32,  DType::kFloat64, DType::kHalf,
                               DType::kBfloat16, DType::kInt32,   DType::kInt64};
  constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kProduct, Reduction::kMin,
                                       Reduction::kMax};
  for (int size = 1; size <= 37; ++size) {
    for (int draws = 0; draws < 4; ++draws) {
      const DType dtype = kDTypes[draw(0, 5)];
      const Reduction reduction = kReductions[draw(0, 3)];
      const bool divides = reduction == Reduction::kSum && draw(0, 1) == 1;
      const int64_t count = draws == 0 ? draw(0, 3) : draw(1, draws == 1 && size <= 12 ? 50'000 : 2000);
      std::vector<Tensor> inputs;
      std::vector<const char*> contributions;
      for (int rank = 0; rank < size; ++rank) inputs.push_back(Elements(dtype, rank, count));
      for (const Tensor& input : inputs) contributions.push_back(static_cast<const char*>(input.data()));
      Tensor expected(dtype, Shape({count}));
      ReduceContributions(dtype, reduction, contributions, divides ? size : 1, count,
                          static_cast<char*>(expected.data()));
      TestGroup group(size, random());
      group.Form();
      for (const Outcome& outcome : RunOnAll(group, [&](RankGroup&ranks, int rank, Communicator::Done done) {
             ranks.AllReduce({"x", {1, 2}}, inputs[rank], reduction, divides, std::move(done));
           })) {
        const Tensor value = Value(outcome);
        ASSERT_EQ(value.num_bytes(), expected.num_bytes());
        if (count == 0) continue;
        ASSERT_EQ(std::memcmp(value.data(), expected.data(), value.num_bytes()), 0)
            << size << " ranks, " << count << " of " << DTypeName(dtype) << ", reduction "
            << static_cast<int>(reduction);
      }
    }
  }
}

// Each byte crosses once for a host, whatever the number of its ranks, and the bits stay those of the tree.
TEST(CollectivesTest, RanksOfOneHostReduceTogetherBeforeTheySendToOthers) {
  std::mt19937_64 random(6);
  constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kInt32, DType::kInt64};
  constexpr std::pair<int, int> kSizes[] = {{4, 2}, {6, 2}, {12, 4}, {16, 2}, {16, 8}, {32, 16}};
  for (const auto& [size, per_host] : kSizes) {
    for (const DType dtype : kDTypes) {
      const Reduction reduction = dtype == DType::kInt32 ? Reduction::kMax : Reduction::kSum;
      const bool divides = dtype == DType::kFloat32;
      const int64_t count = Collective::kWholeBytes / 2 + 1 + static_cast<int64_t>(random() % 1000);
      std::vector<Tensor> inputs;
      std::vector<const char*> contributions;
      for (int rank = 0; rank < size; ++rank) inputs.push_back(Elements(dtype, rank, count));
      for (const Tensor& input : inputs) contributions.push_back(static_cast<const char*>(input.data()));
      Tensor expected(dtype, Shape({count}));
      ReduceContributions(dtype, reduction, contributions, divides ? size : 1, count,
                          static_cast<char*>(expected.data()));
      TestGroup group(size, random(), HalfOfMemory(), per_host);
      group.Form();
      for (const Outcome& outcome : RunOnAll(group, [&](RankGroup&ranks, int rank, Communicator::Done done) {
             ranks.AllReduce({"x", {1, 2}}, inputs[rank], reduction, divides, std::move(done));
           })) {
        const Tensor value = Value(outcome);
        ASSERT_EQ(value.num_bytes(), expected.num_bytes());
        ASSERT_EQ(std::memcmp(value.data(), expected.data(), value.num_bytes()), 0)
            << size << " ranks, " << per_host << " for each host, " << DTypeName(dtype);
      }
      // The sums of all hosts but the owner's, and the results back; 16-bit numbers are not reduced by hosts.
      const int num_hosts = size / per_host;
      const int64_t least = 2 * (num_hosts - 1) * static_cast<int64_t>(expected.num_bytes());
      EXPECT_EQ(group.num_bytes_between_hosts(), DTypeSize(dtype) == 2 ? least * per_host : least)
          << size << " ranks, " << per_host << " for each host, " << DTypeName(dtype);
    }
  }
}

TEST(CollectivesTest, PartsOfAReductionByHostsThatDoNotFitAreRefused) {
  constexpr int64_t kCount = 16'384;  // four segments of 16 KiB
  const auto make = [](int rank) {
    return MakeHostReduce({rank, 4, 2}, Numbers(rank, kCount), Reduction::kSum, false, HostAllocator())
        .value();
  };
  const auto receive = [](Collective& collective, int from, CollectivePart part, size_t num_bytes) {
    return collective.Receive(from, part, Payload::Allocate(num_bytes).value()).status();
  };
  const auto collective = make(0);  // collects segments 0 and 2, and owns 0
  collective->Start();
  using Part = CollectivePart;
  const std::tuple<int, Part, size_t> wrong[] = {
      {1, {Part::kContribution, 1, {}}, 16'384}, {3, {Part::kContribution, 0, {}}, 16'384},
      {2, {Part::kContribution, 2, {}}, 16'384}, {1, {Part::kContribution, 0, {}}, 16'380},
      {1, {Part::kContribution, 4, {}}, 16'384}, {1, {Part::kContribution, -1, {}}, 16'384},
      {0, {Part::kContribution, 0, {}}, 16'384}, {4, {Part::kContribution, 0, {}}, 16'384},
      {2, {Part::kResult, 0, {}}, 16'384},       {1, {Part::kResult, 2, {}}, 16'384},
      {3, {Part::kResult, 1, {}}, 16'384},       {1, {Part::kDots, 0, {}}, 16'384}};
  for (const auto& [from, part, num_bytes] : wrong) {
    EXPECT_TRUE(absl::IsInvalidArgument(receive(*collective, from, part, num_bytes)))
        << "rank " << from << ", phase " << part.phase << ", segment " << part.segment;
  }
  EXPECT_TRUE(receive(*collective, 1, {Part::kContribution, 0, {}}, 16'384).ok());
  EXPECT_TRUE(receive(*collective, 1, {Part::kContribution, 0, {}}, 16'384).ok()) << "a repetition";
  EXPECT_FALSE(collective->Awaits(4 - 4));
  EXPECT_TRUE(collective->Awaits(2));
  EXPECT_EQ(collective->SpeaksFor(2), std::make_pair(2, 3));
}

TEST(CollectivesTest, HowManyRanksOfAHostReduceTogether) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(RanksPerHost(Hosts{"a", "a", "b", "b"}), 2);
  EXPECT_EQ(RanksPerHost(Hosts{"a", "b", "a", "b"}), 1);
  EXPECT_EQ(RanksPerHost(Hosts{"a", "a", "a", "b", "b", "b"}), 1);
  EXPECT_EQ(RanksPerHost(Hosts{"a", "a", "b"}), 1);
  EXPECT_EQ(RanksPerHost(Hosts{"a", "a", "a", "a", "b", "b", "c", "c"}), 2);
  EXPECT_EQ(RanksPerHost(Hosts{"a", "a", "a", "a"}), 4);
  EXPECT_EQ(RanksPerHost(Hosts{"a"}), 1);
}

TEST(CollectivesTest, ManyRanksDoNotEachTellAllOthersWhatIsSmall) {
  for (const int size : {9, 16, 100}) {
    TestGroup group(size, 3);
    group.Form();
    std::vector<Outcome> outcomes;
    for (int rank = 0; rank < size; ++rank) {
      outcomes.push_back(NewOutcome());
      group[rank].AllReduce({"x", {1, 2}}, Numbers(rank, 100), Reduction::kSum, false,
                            TestGroup::Into(outcomes.back()));
    }
    // One each, of the first level; a rank without a neighbour tells those of its first block that has one.
    EXPECT_LT(group.num_under_way(), static_cast<size_t>(2 * size));
    group.DeliverAll();
    for (const Outcome& outcome : outcomes) Value(outcome);
  }
}

// The bits are those of an all-reduce; the first ranks have one row more.
TEST(CollectivesTest, AReduceScatterGivesEachRankItsRowsOfTheSum) {
  for (const auto& [size, rows, columns] :
       {std::tuple(1, 3, 2), std::tuple(2, 7, 3), std::tuple(3, 2, 5), std::tuple(4, 0, 3),
        std::tuple(3, 10, 0), std::tuple(3, 5, 300000)}) {
    const Tensor sum = SumOf(size, rows * columns);
    TestGroup group(size, 3);
    group.Form();
    const std::vector<Outcome> outcomes = RunOnAll(
        group, [&, rows = rows, columns = columns](RankGroup& ranks, int rank, Communicator::Done done) {
          ranks.ReduceScatter({"scatter", {1, 2}}, Rows(rank, rows, columns), Reduction::kSum, false,
                              std::move(done));
        });
    int64_t first = 0;
    for (int rank = 0; rank < size; ++rank) {
      const Tensor mine = Value(outcomes[rank]);
      EXPECT_EQ(mine.shape(), Shape({rows / size + (rank < rows % size), columns}));
      if (mine.num_bytes() > 0) {
        EXPECT_EQ(std::memcmp(mine.data(), sum.flat<float>().data() + first, mine.num_bytes()), 0);
      }
      first += mine.num_elements();
    }
    EXPECT_EQ(first, rows * columns);
    EXPECT_LE(group.largest_part(), Collective::kSegmentBytes);
  }
}

TEST(CollectivesTest, AnAllToAllMovesAsManyRowsAsEachRankSays) {
  constexpr int kSize = 3;
  for (const int64_t columns : {1, 200000}) {
    TestGroup group(kSize, 5);
    group.Form();
    std::vector<Communicator::Exchanged> exchanged(kSize);
    for (int rank = 0; rank < kSize; ++rank) {
      // Rank r sends (r + to) rows to rank `to`, all of them 10 r + to.
      const int64_t num_rows = 3 * rank + 3;
      Tensor rows(DType::kInt32, Shape({num_rows, columns}));
      std::vector<int64_t> splits;
      int64_t next = 0;
      for (int to = 0; to < kSize; ++to) {
        splits.push_back(rank + to);
        for (int64_t i = 0; i < (rank + to) * columns; ++i) rows.flat<int32_t>()[next++] = 10 * rank + to;
      }
      group[rank].AllToAll({"x", {1, 1}}, rows, splits,
                           [&exchanged, rank](absl::StatusOr<Communicator::Exchanged> came) {
                             ASSERT_TRUE(came.ok()) << came.status();
                             exchanged[rank] = *std::move(came);
                           });
    }
    group.DeliverAll();
    for (int rank = 0; rank < kSize; ++rank) {
      EXPECT_THAT(exchanged[rank].splits, ElementsAre(rank, rank + 1, rank + 2));
      ASSERT_EQ(exchanged[rank].rows.shape(), Shape({3 * rank + 3, columns}));
      int64_t next = 0;
      for (int from = 0; from < kSize; ++from) {
        for (int64_t i = 0; i < (rank + from) * columns; ++i) {
          ASSERT_EQ(exchanged[rank].rows.flat<int32_t>()[next++], 10 * from + rank);
        }
      }
    }
  }
}

TEST(CollectivesTest, WrongSplitsAreRefusedBeforeAnythingBegins) {
  TestGroup group(2);
  group.Form();
  const auto error = [&](std::vector<int64_t> splits, int64_t rows) {
    absl::Status status;
    group[0].AllToAll({"x", {1, 1}}, Tensor(DType::kInt32, Shape({rows})), std::move(splits),
                      [&](absl::StatusOr<Communicator::Exchanged> came) { status = came.status(); });
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error({}, 3), HasSubstr("3 rows cannot be divided evenly among 2 ranks"));
  EXPECT_THAT(error({1}, 1), HasSubstr("of 2 ranks is given 1 splits"));
  EXPECT_THAT(error({-1, 2}, 1), HasSubstr("a split of -1 rows"));
  EXPECT_THAT(error({1, 1}, 3), HasSubstr("add up to 2, but the input has 3 rows"));
  EXPECT_THAT(error({INT64_MAX, INT64_MAX}, 3), HasSubstr("a split of"));
  EXPECT_TRUE(group[0].status().ok());
}

TEST(CollectivesTest, ABarrierEndsWhenAllHaveComeToIt) {
  TestGroup group(3);
  group.Form();
  int num_done = 0;
  const auto come = [&](int rank) {
    group[rank].Barrier({"b", {1, 1}}, [&](const absl::Status& status) { num_done += status.ok(); });
    group.DeliverAll();
  };
  come(0);
  come(2);
  EXPECT_EQ(num_done, 0);
  come(1);
  EXPECT_EQ(num_done, 3);
}

// The formula, in double, over the tree of ranks.
std::vector<double> AdasumOf(std::vector<std::vector<double>> vectors) {
  if (vectors.size() == 1) return vectors[0];
  const auto half = static_cast<int64_t>(std::bit_floor(vectors.size() - 1));
  const std::vector<double> a = AdasumOf({vectors.begin(), vectors.begin() + half});
  const std::vector<double> b = AdasumOf({vectors.begin() + half, vectors.end()});
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  std::vector<double> sum;
  for (size_t i = 0; i < a.size(); ++i) {
    sum.push_back((1 - (aa > 0 ? ab / (2 * aa) : 0)) * a[i] + (1 - (bb > 0 ? ab / (2 * bb) : 0)) * b[i]);
  }
  return sum;
}

TEST(CollectivesTest, AdasumIsTheSumOfWhatIsOrthogonalAndTheMeanOfWhatIsParallel) {
  const auto adasum = [](Tensor a, Tensor b) {
    TestGroup group(2);
    group.Form();
    return Value(RunOnAll(group, [&](RankGroup& ranks, int rank, Communicator::Done done) {
      ranks.AllReduce({"a", {1, 1}}, rank == 0 ? a : b, Reduction::kAdasum, false, std::move(done));
    })[1]);
  };
  EXPECT_THAT(adasum(Tensor::Vector<float>({1, 0}), Tensor::Vector<float>({0, 2})).flat<float>(),
              ElementsAre(1, 2));
  EXPECT_THAT(adasum(Tensor::Vector<double>({3, 4}), Tensor::Vector<double>({3, 4})).flat<double>(),
              ElementsAre(3, 4));
  EXPECT_THAT(adasum(Tensor::Vector<float>({0, 0}), Tensor::Vector<float>({5, 6})).flat<float>(),
              ElementsAre(5, 6));
}

TEST(CollectivesTest, AdasumFollowsTheFormulaAndIsTheSameOnAllRanks) {
  for (const auto& [size, count] :
       {std::pair(1, 5), std::pair(2, 1), std::pair(3, 17), std::pair(4, 2), std::pair(5, 700001)}) {
    std::vector<std::vector<double>> vectors;
    for (int rank = 0; rank < size; ++rank) {
      const Tensor numbers = Numbers(rank, count);
      vectors.emplace_back(numbers.flat<float>().begin(), numbers.flat<float>().end());
    }
    const std::vector<double> expected = AdasumOf(vectors);
    std::optional<Tensor> first;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      TestGroup group(size, seed);
      group.Form();
      for (const Outcome& outcome :
           RunOnAll(group, [&, count = count](RankGroup&ranks, int rank, Communicator::Done done) {
             ranks.AllReduce({"a", {1, 1}}, Numbers(rank, count), Reduction::kAdasum, false, std::move(done));
           })) {
        const Tensor value = Value(outcome);
        ASSERT_EQ(value.num_elements(), count);
        for (int i = 0; i < count; ++i) {
          ASSERT_NEAR(value.flat<float>()[i], expected[i], 2e-6 * std::exp2(3 * size)) << i;
        }
        if (!first) first = value;
        EXPECT_EQ(std::memcmp(value.data(), first->data(), value.num_bytes()), 0);
      }
    }
  }
}

TEST(CollectivesTest, ReductionsThatAreNoneAreRefused) {
  TestGroup group(2);
  group.Form();
  const auto error = [&](Communicator::Call call, Tensor input, Reduction reduction, bool divides,
                         bool scatters) {
    Outcome outcome = NewOutcome();
    if (scatters) {
      group[0].ReduceScatter(call, input, reduction, divides, TestGroup::Into(outcome));
    } else {
      group[0].AllReduce(call, input, reduction, divides, TestGroup::Into(outcome));
    }
    return std::string(Errors({outcome})[0].message());
  };
  const Tensor floats = Numbers(0, 4), integers = Tensor::Vector<int32_t>({1});
  EXPECT_THAT(error({"x"}, integers, Reduction::kAdasum, false, false), HasSubstr("of floating-point types"));
  EXPECT_THAT(error({"x"}, floats, Reduction::kAdasum, true, false), HasSubstr("is not divided"));
  EXPECT_THAT(error({"x"}, floats, Reduction::kAdasum, false, true), HasSubstr("cannot be scattered"));
  EXPECT_THAT(error({"x"}, Tensor::Scalar(1.0f), Reduction::kSum, false, true),
              HasSubstr("this is a scalar"));
  Communicator::Call wired = {"x"};
  wired.wire = DType::kHalf;
  EXPECT_THAT(error(wired, integers, Reduction::kSum, false, false), HasSubstr("not int32 as half"));
  wired.wire = DType::kInt32;
  EXPECT_THAT(error(wired, floats, Reduction::kSum, false, false), HasSubstr("not float as int32"));
  EXPECT_TRUE(group[0].status().ok());
}

// The bits are those of a cast before the all-reduce and one after it.
TEST(CollectivesTest, TensorsThatTravelInSixteenBitsAreAddedUpInFloat) {
  for (const DType wire : {DType::kHalf, DType::kBfloat16}) {
    for (const int64_t count : {3, 300000}) {
      const auto cast = [&](int rank) {
        const Tensor numbers = Numbers(rank, count);
        Tensor rounded(wire, Shape({count}));
        ToWire(DType::kFloat32, numbers.data(), wire, count, rounded.data());
        return rounded;
      };
      TestGroup plain(3);
      plain.Form();
      const Tensor sum = Value(RunOnAll(plain, [&](RankGroup& ranks, int rank, Communicator::Done done) {
        ranks.AllReduce({"x"}, cast(rank), Reduction::kSum, true, std::move(done));
      })[0]);
      Tensor expected(DType::kFloat32, Shape({count}));
      FromWire(wire, sum.data(), DType::kFloat32, count, expected.data());
      TestGroup group(3);
      group.Form();
      for (const Outcome& outcome : RunOnAll(group, [&](RankGroup&ranks, int rank, Communicator::Done done) {
             Communicator::Call call = {"x"};
             call.wire = wire;
             ranks.AllReduce(call, Numbers(rank, count), Reduction::kSum, true, std::move(done));
           })) {
        EXPECT_EQ(Value(outcome).dtype(), DType::kFloat32);
        EXPECT_EQ(std::memcmp(Value(outcome).data(), expected.data(), expected.num_bytes()), 0);
      }
      EXPECT_LE(group.largest_part(), plain.largest_part());
    }
  }
}

// A rank that has run out of data changes no sum, and sends no rows.
TEST(CollectivesTest, ARankThatHasJoinedContributesZerosUntilAllHave) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    TestGroup group(3, seed);
    group.Form();
    int last[3] = {-1, -1, -1};
    const auto join = [&](int rank) {
      group[rank].Join({"join", {9, 9}}, [&last, rank](absl::StatusOr<int> one) {
        ASSERT_TRUE(one.ok()) << one.status();
        last[rank] = *one;
      });
    };
    for (int turn = 0; turn < 2; ++turn) {
      join(1);
      for (int step = 0; step < 3; ++step) {
        const auto two = [] { return std::vector<Outcome>{NewOutcome(), NewOutcome()}; };
        const std::vector<Outcome> sums = two(), wide = two(), rows = two(), parts = two();
        int num_through = 0;
        for (int i = 0; i < 2; ++i) {
          const int rank = 2 * i;
          group[rank].AllReduce({"a", {1, 1}}, Tensor::Vector<float>({1, 2}), Reduction::kSum, true,
                                TestGroup::Into(sums[i]));
          group[rank].AllReduce({"b", {1, 2}}, Numbers(0, 50000), Reduction::kSum, false,
                                TestGroup::Into(wide[i]));
          group[rank].AllGather({"c", {1, 3}}, Tensor::Vector<int32_t>({rank}), TestGroup::Into(rows[i]));
          group[rank].ReduceScatter({"d", {1, 4}}, Rows(0, 1, 3), Reduction::kSum, false,
                                    TestGroup::Into(parts[i]));
          group[rank].Barrier({"e", {1, 5}}, [&](const absl::Status& status) { num_through += status.ok(); });
        }
        group.DeliverAll();
        EXPECT_THAT(Value(sums[0]).flat<float>(), ElementsAre(2.0f / 3, 4.0f / 3));
        EXPECT_EQ(Value(wide[1]).flat<float>()[49999], 2 * Numbers(0, 50000).flat<float>()[49999]);
        EXPECT_THAT(Value(rows[0]).flat<int32_t>(), ElementsAre(0, 2));
        EXPECT_EQ(Value(parts[0]).num_elements(), 3);
        EXPECT_EQ(Value(parts[1]).num_elements(), 0);
        EXPECT_EQ(num_through, 2);
      }
      // One does one more than the other, which has joined too by then: in the second turn the other one.
      const int most = 2 * turn, other = 2 - most;
      join(other);
      Outcome alone = NewOutcome();
      group[most].AllReduce({"a", {1, 1}}, Tensor::Vector<float>({3, 6}), Reduction::kSum, false,
                            TestGroup::Into(alone));
      group.DeliverAll();
      EXPECT_THAT(Value(alone).flat<float>(), ElementsAre(3, 6));
      EXPECT_THAT(last, testing::Each(-1));
      join(most);
      group.DeliverAll();
      EXPECT_THAT(last, testing::Each(most)) << "the one that has done the most";
      std::fill(std::begin(last), std::end(last), -1);
      // All are there again.
      for (const Outcome& outcome : RunOnAll(group, [](RankGroup&ranks, int rank, Communicator::Done done) {
             ranks.AllReduce({"a", {1, 1}}, Tensor::Scalar<int64_t>(rank), Reduction::kSum, false,
                             std::move(done));
           })) {
        EXPECT_EQ(Value(outcome).scalar<int64_t>(), 3);
      }
    }
    EXPECT_EQ(group.num_under_way(), 0u);
  }
}

// Ranks of a tree send what others send them. When all have joined nobody needs that any more, so each may go
// as soon as its own parts are answered.
TEST(CollectivesTest, RanksThatHaveAllJoinedMayGo) {
  constexpr int kSize = 13;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    TestGroup group(kSize, seed);
    group.Form();
    std::vector<int> last(kSize, -1);
    std::vector<bool> is_done(kSize, false);
    const auto join = [&](int rank) {
      group[rank].Join({"join", {9, 9}}, [&last, rank](absl::StatusOr<int> one) {
        EXPECT_TRUE(one.ok()) << one.status();
        last[rank] = one.ok() ? *one : -2;
      });
    };
    for (int rank = 1; rank < kSize; ++rank) join(rank);
    Outcome sum = NewOutcome();
    group[0].AllReduce({"a", {1, 1}}, Tensor::Scalar<float>(3), Reduction::kSum, false, TestGroup::Into(sum));
    bool has_joined = false;
    while (group.Deliver()) {
      if (sum->has_value() && !std::exchange(has_joined, true)) join(0);
      for (int rank = 0; rank < kSize; ++rank) {
        if (last[rank] < 0 || is_done[rank] || group.num_unanswered_of(rank) > 0) continue;
        is_done[rank] = true;
        for (int other = 0; other < kSize; ++other) {
          if (other != rank) group[other].OnFinish(rank, 7);
        }
      }
    }
    EXPECT_THAT(group.ends(), testing::IsEmpty()) << "seed " << seed;
    EXPECT_THAT(last, testing::Each(0)) << "seed " << seed;
  }
}

// One that goes without having joined is an error, also where only those that have joined would hear of it.
TEST(CollectivesTest, ARankThatGoesWhileItIsNeededIsAnErrorAfterAWhile) {
  constexpr int kSize = 13;
  TestGroup group(kSize);
  group.Form();
  for (int rank = 1; rank < kSize; ++rank) {
    if (rank != 7) group[rank].Join({"join", {9, 9}}, [](const absl::StatusOr<int>&) {});
  }
  Outcome sum = NewOutcome();
  group[0].AllReduce({"a", {1, 1}}, Tensor::Scalar<float>(3), Reduction::kSum, false, TestGroup::Into(sum));
  group.DeliverAll();
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank != 7) group[rank].OnFinish(7, 7);
  }
  for (int rank = 1; rank < kSize; ++rank) group[rank].EndVainProxies(absl::InfiniteFuture());
  ASSERT_THAT(group.ends(), Not(testing::IsEmpty()));
  EXPECT_THAT(std::string(group.ends()[0].second.message()), HasSubstr("rank 7 (worker:7) is done, while"));
}

TEST(CollectivesTest, WhatNeedsARankThatHasJoinedIsAnErrorThatNamesIt) {
  const auto error = [](const std::function<void(RankGroup&, Communicator::Done)>& begin) {
    TestGroup group(2);
    group.Form();
    absl::Status joined;
    group[1].Join({"join", {9, 9}}, [&](absl::StatusOr<int> last) { joined = last.status(); });
    Outcome outcome = NewOutcome();
    begin(group[0], TestGroup::Into(outcome));
    group.DeliverAll();
    EXPECT_TRUE(absl::IsInvalidArgument(joined)) << joined;
    EXPECT_TRUE(absl::IsInvalidArgument(Errors({outcome})[0])) << Errors({outcome})[0];
    return std::string(Errors({outcome})[0].message());
  };
  EXPECT_THAT(error([](RankGroup& ranks, Communicator::Done done) {
                ranks.AllReduce({"most", {1, 1}}, Numbers(0, 3), Reduction::kMax, false, std::move(done));
              }),
              AllOf(HasSubstr("rank 1 (worker:1) has joined"), HasSubstr("'most', all-reduce(max)")));
  EXPECT_THAT(error([](RankGroup& ranks, Communicator::Done done) {
                ranks.Join({"other", {9, 8}}, [done](absl::StatusOr<int> last) { done(last.status()); });
              }),
              HasSubstr("join in different nodes"));
}

// What it is made to compute is what others say, one of whom may lie.
TEST(CollectivesTest, ARankThatHasJoinedComputesNoMoreThanItHasMemoryFor) {
  constexpr int64_t kMaxBytes = 1 << 20;
  const int64_t with_share = kMaxBytes / (3 * sizeof(float)) + 1;  // zeros, the result, what others send
  const int64_t with_wire = kMaxBytes / (4 * sizeof(float)) + 1;   // zeros and result as halves, too
  for (const auto& [count, wire] :
       {std::pair(with_share, DType::kInvalid), std::pair(with_wire, DType::kHalf),
        std::pair(int64_t{1} << 33, DType::kInvalid), std::pair(int64_t{1} << 61, DType::kInvalid)}) {
    TestGroup group(2, 1, kMaxBytes);
    group.Form();
    absl::Status joined;
    group[0].Join({"join", {9, 9}}, [&](absl::StatusOr<int> last) { joined = last.status(); });
    CollectiveMessage message;
    message.generation = 7;
    message.name = "huge";
    message.signature.kind = CollectiveSignature::Kind::kAllReduce;
    message.signature.dtype = DType::kFloat32;
    message.signature.dims = {count};
    message.signature.wire = wire;
    absl::Status reply;
    group[0].Receive(1, message, Payload(), [&](const absl::Status& status) { reply = status; });
    EXPECT_TRUE(absl::IsResourceExhausted(reply)) << reply;
    EXPECT_TRUE(absl::IsResourceExhausted(joined)) << joined;
  }
}

TEST(CollectivesTest, WhatARankThatHasJoinedHasComputedCountsNoMore) {
  TestGroup group(2, 1, 1 << 20);
  group.Form();
  group[0].Join({"join", {9, 9}}, [](absl::StatusOr<int>) {});
  for (int i = 0; i < 20; ++i) {  // each takes most of what there is
    TestGroup::Outcome outcome = NewOutcome();
    group[1].AllReduce({"x", {0, 0}}, Numbers(1, 80'000), Reduction::kSum, false, TestGroup::Into(outcome));
    group.DeliverAll();
    Value(outcome);
  }
}

TEST(CollectivesTest, ARankJoinsWhenItHasNothingElseToDo) {
  TestGroup group(2);
  group.Form();
  absl::Status joined;
  Outcome outcome = NewOutcome();
  group[0].AllReduce({"busy", {1, 1}}, Numbers(0, 3), Reduction::kSum, false, TestGroup::Into(outcome));
  group[0].Join({"join", {9, 9}}, [&](absl::StatusOr<int> last) { joined = last.status(); });
  EXPECT_TRUE(absl::IsFailedPrecondition(joined)) << joined;
  EXPECT_THAT(std::string(joined.message()), HasSubstr("'busy' is under way"));
  EXPECT_FALSE(outcome->has_value());
}

}  // namespace
}  // namespace weir
