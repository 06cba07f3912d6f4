// Training the rows of an embedding: what optimizers do with gradients for some rows of a variable.
#include "ops/embedding.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/standard_ops.h"
#include "ops/training/adadelta.h"
#include "ops/training/adagrad.h"
#include "ops/training/adam.h"
#include "ops/training/ftrl.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/momentum.h"
#include "ops/training/rms_prop.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;

// How the gradient reaches the optimizer.
enum class Kind { kRows, kDense };

// A table of rows, of which a step looks some up and pulls them towards zero, each with another force.
class Model {
 public:
  Model(int64_t num_rows, int64_t width, const MakeOptimizer& make, Kind kind, int64_t memory_limit = 0)
      : runtime_(Runtime::Create({.memory_limit = memory_limit}).value()),
        worker_(*runtime_, runtime_->task()),
        g_(runtime_->ops()) {
    const Output ramp = Range(g_, ConstOf(g_, DType::kFloat32, 0),
                              ConstOf(g_, DType::kFloat32, static_cast<double>(num_rows * width)),
                              ConstOf(g_, DType::kFloat32, 1));
    const Output initial = Mul(g_, ramp, Const(g_, 1.0f / 16));
    table_ = MakeVariable(g_, "table", DType::kFloat32, Shape({num_rows, width}),
                          [&](GraphBuilder& g, DType, const Shape& shape) {
                            std::vector<int32_t> dims(shape.dims().begin(), shape.dims().end());
                            return Reshape(g, initial, ConstIntegers(g, dims));
                          });
    ids_ = Placeholder(g_, DType::kInt32, {-1});
    const Output rows = EmbeddingLookup(g_, table_, ids_);
    loss_ = ReduceSum(g_, Square(g_, rows));
    const std::unique_ptr<Optimizer> optimizer = make();
    auto gradients = optimizer->ComputeGradients(g_, loss_);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    if (!gradients.ok()) return;
    EXPECT_TRUE(std::holds_alternative<IndexedSlices>((*gradients)[0].gradient));
    if (kind == Kind::kDense) (*gradients)[0].gradient = Densify(g_, (*gradients)[0].gradient);
    const auto train = optimizer->ApplyGradients(g_, *gradients);
    EXPECT_TRUE(train.ok()) << train.status();
    if (!train.ok()) return;
    train_ = *train;
    Node* const initialize = InitializeVariables(g_);
    session_ = Session::Create(g_.graph(), {&worker_}, runtime_->kernels()).value();
    const auto initialized = session_->Run({}, {}, {initialize});
    EXPECT_TRUE(initialized.ok()) << initialized.status();
  }

  absl::Status Train(std::vector<int32_t> ids) {
    const Tensor fed = Tensor::FromSpan<int32_t>({static_cast<int64_t>(ids.size())}, ids);
    return session_->Run({{ids_, fed}}, {}, {train_}).status();
  }
  std::vector<float> Table() {
    const auto value = session_->Run({}, {table_.value});
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok()) return {};
    const auto flat = (*value)[0].flat<float>();
    return {flat.begin(), flat.end()};
  }
  Device& device() { return *runtime_->devices()[0]; }
  const Graph& graph() const { return g_.graph(); }

 private:
  std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;
  GraphBuilder g_;
  ModelVariable table_;
  Output ids_, loss_;
  Node* train_ = nullptr;
  std::unique_ptr<Session> session_;
};

struct Case {
  const char* name;
  MakeOptimizer make;
};

template <typename T, typename... Arguments>
MakeOptimizer Making(Arguments... arguments) {
  return [=] { return std::make_unique<T>(arguments...); };
}

std::vector<Case> Cases() {
  return {{"GradientDescent", Making<GradientDescent>(0.1)},
          {"Momentum", Making<Momentum>(0.1, 0.9)},
          {"Nesterov", Making<Momentum>(0.1, 0.9, MomentumOptions{.use_nesterov = true})},
          {"Adam", Making<Adam>(0.1)},
          {"Adagrad", Making<Adagrad>(0.1)},
          {"Adadelta", Making<Adadelta>(0.5)},
          {"RMSProp", Making<RMSProp>(0.01, RMSPropOptions{.momentum = 0.5})},
          {"CenteredRMSProp", Making<RMSProp>(0.01, RMSPropOptions{.centered = true})},
          {"Ftrl", Making<Ftrl>(0.1, FtrlOptions{.l1 = 0.01, .l2 = 0.01})},
          {"FtrlShrinkage", Making<Ftrl>(0.1, FtrlOptions{.l2_shrinkage = 0.01})}};
}

class EmbeddingTest : public testing::TestWithParam<Case> {};

TEST_P(EmbeddingTest, RowsGiveWhatAWholeGradientGives) {
  Model rows(4, 3, GetParam().make, Kind::kRows), dense(4, 3, GetParam().make, Kind::kDense);
  const std::vector<float> before = rows.Table();
  for (const std::vector<int32_t>& ids : {std::vector<int32_t>{2, 0, 3, 1}, {0, 1, 2, 3}, {3, 2, 1, 0}}) {
    ASSERT_TRUE(rows.Train(ids).ok());
    ASSERT_TRUE(dense.Train(ids).ok());
  }
  EXPECT_NE(rows.Table(), before);
  EXPECT_THAT(rows.Table(), Pointwise(FloatNear(1e-5), dense.Table()));
}

// A row that comes twice gets the sum of both gradients in one update.
TEST_P(EmbeddingTest, RepeatedRowsAreAddedUp) {
  Model rows(4, 3, GetParam().make, Kind::kRows), dense(4, 3, GetParam().make, Kind::kDense);
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(rows.Train({1, 2, 1, 3, 0, 1}).ok());
    ASSERT_TRUE(dense.Train({1, 2, 1, 3, 0, 1}).ok());
  }
  EXPECT_THAT(rows.Table(), Pointwise(FloatNear(1e-5), dense.Table()));
}

TEST_P(EmbeddingTest, OnlyTheRowsOfAStepMove) {
  if (std::string(GetParam().name) == "Adam") GTEST_SKIP() << "TensorFlow's Adam moves all rows";
  Model model(4, 3, GetParam().make, Kind::kRows);
  const std::vector<float> before = model.Table();
  ASSERT_TRUE(model.Train({1}).ok());
  ASSERT_TRUE(model.Train({3}).ok());
  const std::vector<float> after = model.Table();
  for (int i = 0; i < 12; ++i) {
    const bool moves = i / 3 == 1 || i / 3 == 3;
    EXPECT_EQ(after[i] != before[i], moves) << "element " << i << ": " << before[i] << ", " << after[i];
  }
}

TEST_P(EmbeddingTest, AnIdOutsideOfTheTableChangesNothing) {
  Model model(4, 3, GetParam().make, Kind::kRows);
  const std::vector<float> before = model.Table();
  const absl::Status status = model.Train({1, 4});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("= 4 is not in [0, 4)"));
  EXPECT_EQ(model.Table(), before);
}

// A step has less memory left than the table takes.
TEST_P(EmbeddingTest, AStepNeedsNoMemoryForTheOtherRows) {
  if (std::string(GetParam().name) == "Adam") GTEST_SKIP() << "TensorFlow's Adam moves all rows";
  constexpr int64_t kRows = 20000, kWidth = 16, kTable = kRows * kWidth * sizeof(float), kLimit = 16 * kTable;
  for (const Kind kind : {Kind::kRows, Kind::kDense}) {
    Model model(kRows, kWidth, GetParam().make, kind, kLimit);
    ASSERT_TRUE(model.Train({1, 5, 1}).ok());
    const int64_t left = kLimit - model.device().allocator().num_bytes_in_use() - kTable / 2;
    const auto ballast = Tensor::Allocate(DType::kUint8, Shape({left}), model.device().allocator());
    ASSERT_TRUE(ballast.ok()) << ballast.status();
    const absl::Status status = model.Train({1, 19999, 1});
    const auto wanted = kind == Kind::kRows ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted;
    EXPECT_EQ(status.code(), wanted) << status;
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, EmbeddingTest, testing::ValuesIn(Cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

// Names of slots, as TensorFlow 1.15 gives them.
TEST(SlotsTest, HaveTensorFlowsNames) {
  const auto slots_of = [](const MakeOptimizer& make) {
    Model model(2, 2, make, Kind::kRows);
    std::vector<std::string> names;
    for (const VariableDef& variable : model.graph().variables()) names.push_back(variable.variable_name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(slots_of(Making<Adagrad>(0.1)), (Names{"table", "table/Adagrad"}));
  EXPECT_EQ(slots_of(Making<Adadelta>(0.1)), (Names{"table", "table/Adadelta", "table/Adadelta_1"}));
  EXPECT_EQ(slots_of(Making<RMSProp>(0.1)), (Names{"table", "table/RMSProp", "table/RMSProp_1"}));
  EXPECT_EQ(slots_of(Making<RMSProp>(0.1, RMSPropOptions{.centered = true})),
            (Names{"table", "table/RMSProp", "table/RMSProp_1", "table/RMSProp_2"}));
  EXPECT_EQ(slots_of(Making<Ftrl>(0.1)), (Names{"table", "table/Ftrl", "table/Ftrl_1"}));
}

TEST(OptimizerOptionsTest, AreChecked) {
  GraphBuilder g(StandardOps());
  const ModelVariable w = MakeVariable(g, "w", Tensor::Vector<float>({1, 2}));
  const auto train = Ftrl(0.1, {.l1 = -1}).Minimize(g, ReduceSum(g, Square(g, w.value)));
  EXPECT_EQ(train.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(train.status().message()),
              testing::HasSubstr("Ftrl: l1 must not be negative, is -1"));
}

}  // namespace
}  // namespace weir
