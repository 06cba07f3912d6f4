// Many steps at once take from one iterator whose elements are computed on several threads: while it begins
// again, is saved, loses its session, and steps are given up. What ThreadSanitizer is to look at.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "graph/function_bodies.h"
#include "graph/interchange/graph_def.h"
#include "gtest/gtest.h"
#include "session/test_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::AnyOf;
using ::testing::ElementsAre;

AttrMap Numbers() {
  return {{"output_types", std::vector<DType>{D::kInt64}},
          {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0)}}};
}
Output Number(GraphBuilder& g, int64_t value) {
  return g.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", D::kInt64}});
}

class DatasetThreadsTest : public TestSession {
 protected:
  static constexpr int64_t kCount = 60;

  // The numbers below kCount, through a parallel map, a parallel interleaving and a prefetch.
  DatasetThreadsTest() {
    const Output range =
        g_.AddOp("RangeDataset", {Number(g_, 0), Number(g_, kCount), Number(g_, 1)}, Numbers());
    const Output mapped =
        g_.AddOp("ParallelMapDatasetV2", {range, std::vector<Output>(), Number(g_, 3)}, Calling(Same()));
    const Output interleaved = g_.AddOp("ParallelInterleaveDatasetV4",
                                        {mapped, std::vector<Output>(), Number(g_, 3), Number(g_, 2),
                                         Number(g_, 2), Number(g_, 0), Number(g_, 2)},
                                        Calling(DatasetOfOne()));
    const Output ahead = g_.AddOp("PrefetchDataset", {interleaved, Number(g_, 4)}, Numbers());
    const Output iterator = g_.AddOp("IteratorV2", {}, Named(Numbers()));
    make_ = g_.AddNode("MakeIterator", {ahead, iterator});
    next_ = g_.AddOp("IteratorGetNext", {iterator}, Numbers());
    save_ = g_.AddNode("SerializeIterator", {iterator});
  }

  static AttrMap Named(AttrMap attrs) {
    attrs["shared_name"] = std::string();
    attrs["container"] = std::string();
    return attrs;
  }
  static AttrMap Calling(std::string body) {
    AttrMap attrs = Numbers();
    attrs["f"] = FunctionName{"body"};
    attrs[BodyAttr("f")] = std::move(body);
    attrs["Targuments"] = std::vector<DType>();
    return attrs;
  }
  // Bodies of functions of a number x: x, and the dataset of x alone.
  std::string Same() {
    GraphBuilder g(runtime_->ops());
    const Output x = Argument(g);
    return Returning(g, g.AddOp("AddV2", {x, Number(g, 0)}), D::kInt64);
  }
  std::string DatasetOfOne() {
    GraphBuilder g(runtime_->ops());
    const Output x = Argument(g);
    const Output end = g.AddOp("AddV2", {x, Number(g, 1)});
    return Returning(g, g.AddOp("RangeDataset", {x, end, Number(g, 1)}, Numbers()), D::kVariant);
  }
  static Output Argument(GraphBuilder& g) { return g.AddOp("_Arg", {}, {{"T", D::kInt64}, {"index", 0}}); }
  static std::string Returning(GraphBuilder& g, Output result, DType dtype) {
    g.AddNode("_Retval", {result}, {{"T", dtype}, {"index", 0}});
    EXPECT_TRUE(g.ok()) << g.status();
    return GraphDefBytes(g.graph()).value();
  }

  absl::Status Begin() { return session().Run({}, {}, {make_}).status(); }
  absl::Status Take(std::vector<int64_t>* values, absl::Duration timeout = absl::InfiniteDuration()) {
    const auto result = session().Run({}, {next_}, {}, {.timeout = timeout});
    if (result.ok()) values->push_back((*result)[0].scalar<int64_t>());
    return result.status();
  }
  // All that is left, in the order of the numbers: `num_threads` take.
  std::vector<int64_t> TakeAll(int num_threads) {
    absl::Mutex mutex;
    std::vector<int64_t> all;
    std::vector<std::thread> threads;
    for (int i = 0; i < num_threads; ++i) {
      threads.emplace_back([&] {
        std::vector<int64_t> values;
        absl::Status status;
        while (status.ok()) status = Take(&values);
        EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
        absl::MutexLock lock(&mutex);
        all.insert(all.end(), values.begin(), values.end());
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::sort(all.begin(), all.end());
    return all;
  }
  static std::vector<int64_t> All() {
    std::vector<int64_t> all(kCount);
    std::iota(all.begin(), all.end(), int64_t{0});
    return all;
  }

  Node* make_ = nullptr;
  Output next_;
  Node* save_ = nullptr;
};

TEST_F(DatasetThreadsTest, StepsThatShareAPassGetEachElementOnce) {
  for (int pass = 0; pass < 5; ++pass) {
    ASSERT_TRUE(Begin().ok());
    EXPECT_EQ(TakeAll(4), All());
  }
}

TEST_F(DatasetThreadsTest, StepsTakeAndAreGivenUpWhileTheIteratorBeginsAgainAndIsSaved) {
  ASSERT_TRUE(Begin().ok());
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      std::vector<int64_t> values;
      for (int n = 0; !is_over; ++n) {
        const absl::Status status = Take(&values, absl::Microseconds(100 + 700 * ((n + i) % 5)));
        EXPECT_THAT(status.code(), AnyOf(absl::StatusCode::kOk, absl::StatusCode::kOutOfRange,
                                         absl::StatusCode::kDeadlineExceeded))
            << status;
      }
      for (const int64_t value : values) EXPECT_TRUE(value >= 0 && value < kCount) << value;
    });
  }
  threads.emplace_back([&] {
    while (!is_over) {
      const absl::Status status = session().Run({}, {}, {save_}).status();
      EXPECT_TRUE(status.ok()) << status;
    }
  });
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(Begin().ok());
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(TakeAll(2), All());
}

TEST_F(DatasetThreadsTest, ASessionEndsWhileItsIteratorComputesAhead) {
  for (int round = 0; round < 30; ++round) {
    ASSERT_TRUE(Begin().ok());
    std::vector<int64_t> values;
    ASSERT_TRUE(Take(&values).ok());
    EXPECT_THAT(values, ElementsAre(0));
    session_.reset();
  }
  ASSERT_TRUE(Begin().ok());
  EXPECT_EQ(TakeAll(1), All());
}

}  // namespace
}  // namespace weir
