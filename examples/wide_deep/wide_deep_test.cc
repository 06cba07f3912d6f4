#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "examples/wide_deep/click_log.h"
#include "examples/wide_deep/model.h"
#include "examples/wide_deep/roc_curve.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"
#include "ops/training/adagrad.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir::examples {
namespace {

std::string Write(const std::string& name, const std::string& content) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

// A line whose first integer is `number` and whose categories are all `value`.
std::string Line(const std::string& label, const std::string& number, const std::string& value) {
  std::string line = absl::StrCat(label, "\t", number);
  for (int i = 1; i < kClickNumbers; ++i) absl::StrAppend(&line, "\t", i);
  for (int i = 0; i < kClickSlots; ++i) absl::StrAppend(&line, "\t", value);
  return line;
}

absl::Status ErrorOf(const std::string& content) {
  const auto log = ClickLog::Open(Write("damaged.tsv", content), {});
  return log.ok() ? (*log)->Next(10).status() : log.status();
}

TEST(ClickLogTest, LinesBecomeNumbersAndBuckets) {
  const std::string path =
      Write("log.tsv", Line("1", "", "a") + "\n" + Line("0", "-3", "b") + "\n" + Line("0", "7", "a"));
  const auto log = ClickLog::Open(path, {.rows = 1000});
  ASSERT_TRUE(log.ok()) << log.status();
  const auto batch = (*log)->Next(10);
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_EQ(batch->size(), 3);
  EXPECT_EQ(batch->labels.flat<float>()[0], 1);
  EXPECT_EQ(batch->labels.flat<float>()[1], 0);
  const auto numbers = batch->numbers.flat<float>();
  EXPECT_EQ(numbers[0], 0);
  EXPECT_FLOAT_EQ(numbers[12], std::log(13.0f));
  EXPECT_FLOAT_EQ(numbers[kClickNumbers], -std::log(4.0f));
  const auto ids = batch->ids.flat<int64_t>();
  // FNV-1a of "a" is 0xaf63dc4c8601ec8c.
  EXPECT_EQ(ids[0], static_cast<int64_t>(0xaf63dc4c8601ec8c % 1000));
  EXPECT_EQ(ids[2 * kClickSlots + 25], ids[0]);
  EXPECT_NE(ids[kClickSlots], ids[0]);
  EXPECT_EQ((*log)->Next(10)->size(), 0);
}

TEST(ClickLogTest, ReadersShareTheLinesAndBeginAnew) {
  std::string content;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&content, Line(i % 2 == 0 ? "0" : "1", "5", "x"), "\n");
  const std::string path = Write("shared.tsv", content);
  const auto log = ClickLog::Open(path, {.reader = 1, .num_readers = 2});
  ASSERT_TRUE(log.ok()) << log.status();
  for (int i = 0; i < 3; ++i) {
    const auto batch = (*log)->NextOfMany(400);
    ASSERT_TRUE(batch.ok()) << batch.status();
    ASSERT_EQ(batch->size(), 400);
    for (float label : batch->labels.flat<float>()) EXPECT_EQ(label, 1);
  }
  const auto idle = ClickLog::Open(Write("short.tsv", Line("1", "1", "x")), {.reader = 1, .num_readers = 2});
  ASSERT_TRUE(idle.ok());
  const absl::Status status = (*idle)->NextOfMany(4).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "none is left for reader 1")) << status;
  EXPECT_FALSE(ClickLog::Open(path, {.reader = 2, .num_readers = 2}).ok());
}

TEST(ClickLogTest, DamagedLinesAreNamed) {
  const std::string good = Line("1", "1", "x") + "\n";
  const std::map<std::string, std::string> cases = {
      {good + Line("2", "1", "x"), "line 2: the label is '2'"},
      {Line("1", "1.5", "x"), "line 1: field 2 is '1.5', must be an integer"},
      {good + good + "1\t2\t3", "line 3: has 3 fields, must have 40"},
      {Line("1", "1", "x") + "\ty", "line 1: has 41 fields"},
      {"\n", "line 1: the label is ''"},
      {std::string(1 << 20, 'x'), "line 1: has more than 65536 bytes"},
      {Line("1", "99999999999999999999", "x"), "must be an integer"}};
  for (const auto& [content, message] : cases) {
    const absl::Status status = ErrorOf(content);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), message)) << status;
  }
  EXPECT_TRUE(absl::IsNotFound(ClickLog::Open(testing::TempDir() + "/nowhere", {}).status()));
}

TEST(RocCurveTest, AreaIsTheShareOfPairsInOrder) {
  EXPECT_EQ(AreaUnderRocCurve({{1, false}, {2, true}, {3, true}}), 1);
  EXPECT_EQ(AreaUnderRocCurve({{3, false}, {2, true}, {1, true}}), 0);
  EXPECT_EQ(AreaUnderRocCurve({{1, false}, {3, false}, {2, true}, {4, true}}), 0.75);
  EXPECT_EQ(AreaUnderRocCurve({{1, false}, {1, true}}), 0.5);
  EXPECT_EQ(AreaUnderRocCurve({{1, true}}), 0.5);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(AreaUnderRocCurve({{nan, true}, {1, false}, {nan, true}, {0, false}}), 0);
}

// A table is much larger than what a step looks up: everything else in it, and in its accumulator, must stay.
TEST(WideDeepTest, AStepTouchesOnlyTheRowsOfItsBatch) {
  constexpr int64_t kRows = 50, kSlots = 3;
  const auto runtime = Runtime::Create().value();
  LocalWorker worker(*runtime, runtime->task());
  GraphBuilder g(runtime->ops());
  g.set_random_seed(1);  // with some weights no hidden unit passes a gradient on to a row of the batch
  const Output ids = Placeholder(g, DType::kInt64, {-1, kSlots});
  const Output numbers = Placeholder(g, DType::kFloat32, {-1, 2}),
               labels = Placeholder(g, DType::kFloat32, {-1, 1});
  const Output logits = WideDeep(g, ids, numbers, {.rows = kRows, .embedding_size = 4, .hidden_units = {5}});
  EXPECT_EQ(logits.shape().ToString(), "[?,1]");
  const Output loss = ReduceMean(g, SigmoidCrossEntropyWithLogits(g, logits, labels));
  Node* const train = Adagrad(0.1).Minimize(g, loss).value();
  Node* const init = InitializeVariables(g);
  std::vector<TensorRef> tables;
  std::vector<std::string> names;
  for (const ModelVariable& variable : AllVariables(g)) {
    if (!absl::StrContains(variable.name, "embedding") && !absl::StrContains(variable.name, "weights"))
      continue;
    tables.push_back(variable.value);
    names.push_back(variable.name);
  }
  ASSERT_EQ(tables.size(), 2u * 2 * kSlots);  // each with its accumulator
  auto session = Session::Create(g.graph(), {&worker}, runtime->kernels()).value();
  ASSERT_TRUE(session->Run({}, {}, {init}).ok());
  const auto before = session->Run({}, tables).value();
  const Tensor batch_ids = Tensor::From<int64_t>({3, kSlots}, {7, 8, 49, 7, 9, 0, 6, 8, 0});
  const Feeds feeds = {{ids, batch_ids},
                       {numbers, Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6})},
                       {labels, Tensor::From<float>({3, 1}, {1, 0, 1})}};
  const float first = session->Run(feeds, {loss}, {train}).value()[0].scalar<float>();
  const auto after = session->Run({}, tables).value();
  const std::vector<std::set<int64_t>> touched = {{6, 7}, {8, 9}, {0, 49}};
  for (size_t i = 0; i < tables.size(); ++i) {
    const int slot = absl::StrContains(names[i], "_1") ? 1 : absl::StrContains(names[i], "_2") ? 2 : 0;
    const int64_t width = before[i].shape().dim(1);
    for (int64_t row = 0; row < kRows; ++row) {
      bool is_same = true;
      for (int64_t k = row * width; k < (row + 1) * width; ++k) {
        is_same = is_same && before[i].flat<float>()[k] == after[i].flat<float>()[k];
      }
      EXPECT_EQ(is_same, touched[slot].count(row) == 0) << names[i] << " row " << row;
    }
  }
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(session->Run(feeds, {}, {train}).ok());
  EXPECT_LT(session->Run(feeds, {loss}).value()[0].scalar<float>(), first / 2);
}

TEST(WideDeepTest, UnknownSlotsAreRefused) {
  GraphBuilder g(StandardOps());
  WideDeep(g, Placeholder(g, DType::kInt64, {-1, -1}), Placeholder(g, DType::kFloat32, {-1, 2}));
  EXPECT_TRUE(absl::StrContains(g.status().message(), "ids must be [batch,slots] with known slots"))
      << g.status();
}

}  // namespace
}  // namespace weir::examples
