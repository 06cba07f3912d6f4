// What a step copies between the host and a device that has memory of its own. Nothing else may touch that
// memory: every other test of a session with a fake GPU would crash.
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/fake/fake_device.h"
#include "ops/control_flow.h"
#include "ops/standard_ops.h"
#include "ops/training/gradient_descent.h"
#include "ops/variable.h"
#include "session/test_acts.h"
#include "session/test_session.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Copies {
  int64_t in = 0, out = 0;
  friend bool operator==(const Copies&, const Copies&) = default;
  friend std::ostream& operator<<(std::ostream& to, const Copies& copies) {
    return to << copies.in << " in, " << copies.out << " out";
  }
};

class MemoryKindsTest : public TestSession {
 protected:
  Output Fed(DType dtype, const PartialShape& shape) { return Placeholder(g_, dtype, shape); }

  FakeDevice& Gpu(int index) {
    for (const auto& device : runtime_->devices()) {
      if (device->type() == "GPU" && device->name().index == index) return dynamic_cast<FakeDevice&>(*device);
    }
    ADD_FAILURE() << "no GPU " << index;
    return dynamic_cast<FakeDevice&>(*runtime_->devices().back());
  }

  // Of the second of two steps: the first one makes the plan and its constants.
  Copies CopiesOf(const Feeds& feeds, const std::vector<TensorRef>& fetches,
                  const std::vector<TargetRef>& targets = {}, int gpu = 0) {
    EXPECT_TRUE(session().Run(feeds, fetches, targets).ok());
    const Copies before = {Gpu(gpu).num_copies_in(), Gpu(gpu).num_copies_out()};
    const auto result = session().Run(feeds, fetches, targets);
    EXPECT_TRUE(result.ok()) << result.status();
    if (result.ok()) results_ = *result;
    return {Gpu(gpu).num_copies_in() - before.in, Gpu(gpu).num_copies_out() - before.out};
  }

  std::vector<float> Floats(int result) const {
    const absl::Span<const float> values = results_.at(result).flat<float>();
    return {values.begin(), values.end()};
  }

  std::vector<Tensor> results_;
};

TEST_F(MemoryKindsTest, AStepOfAModelCopiesWhatIsFedAndWhatIsFetched) {
  Output x, labels, loss;
  Node* train = nullptr;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {-1, 4});
    labels = Fed(DType::kInt32, {-1});
    const Output w1 =
        MakeVariable(g_, "w1", Tensor::FromSpan<float>({4, 8}, std::vector<float>(32, 0.1f))).value;
    const Output b1 = MakeVariable(g_, "b1", Tensor::FromSpan<float>({8}, std::vector<float>(8, 0.0f))).value;
    const Output w2 =
        MakeVariable(g_, "w2", Tensor::FromSpan<float>({8, 3}, std::vector<float>(24, 0.1f))).value;
    const Output hidden = Relu(g_, BiasAdd(g_, MatMul(g_, x, w1), b1));
    const Output losses = SparseSoftmaxCrossEntropyWithLogits(g_, MatMul(g_, hidden, w2), labels).loss;
    loss = Mean(g_, losses, ConstIntegers(g_, {0}));
    train = GradientDescent(0.1).Minimize(g_, loss).value();
  }
  std::vector<Node*> initializers;
  for (const VariableDef& variable : g_.graph().variables()) {
    initializers.push_back(g_.graph().FindNode(variable.initializer_name));
  }
  ASSERT_TRUE(session().Run({}, {}, {initializers.begin(), initializers.end()}).ok());
  const Feeds feeds = {{x, Tensor::FromSpan<float>({2, 4}, std::vector<float>(8, 1.0f))},
                       {labels, Tensor::Vector<int32_t>({0, 2})}};
  // Beside what is fed: the number of losses, by which the gradient of their mean is divided.
  EXPECT_EQ(CopiesOf(feeds, {loss}, {train}), (Copies{3, 1}));
  EXPECT_GT(Floats(0)[0], 0.5f);
  EXPECT_EQ(CopiesOf(feeds, {}, {train}), (Copies{3, 0}));
}

// What a variable holds is in the device's memory, whichever op works on it.
TEST_F(MemoryKindsTest, AVariableIsCountedAndChangedInPartOnTheDevice) {
  auto device = g_.DeviceScope("/gpu:0");
  const ModelVariable v = MakeVariable(g_, "v", Tensor::Vector<float>({1, 2, 3}));
  Node* const change = g_.AddNode("ResourceStridedSliceAssign",
                                  {v.handle, ConstIntegers(g_, {1}), ConstIntegers(g_, {2}),
                                   ConstIntegers(g_, {1}), Const(g_, Tensor::Vector<float>({9}))});
  const ModelVariable n = MakeVariable(g_, "n", Tensor::Scalar<int64_t>(4));
  const Output counted =
      g_.AddOp("ResourceCountUpTo", {n.handle}, {{"limit", int64_t{7}}, {"T", DType::kInt64}});
  ASSERT_TRUE(session().Run({}, {}, {v.initializer, n.initializer}).ok());
  const auto result = session().Run({}, {counted}, {change});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].scalar<int64_t>(), 4);
  const auto values = session().Run({}, {v.value, n.value});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT((*values)[0].flat<float>(), ElementsAre(1, 9, 3));
  EXPECT_EQ((*values)[1].scalar<int64_t>(), 5);
}

TEST_F(MemoryKindsTest, ArithmeticOfShapesStaysOnTheHost) {
  Output x, y;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {-1, -1});
    const Output shape = g_.AddOp("Shape", {x});
    const Output rows =
        StridedSlice(g_, shape, ConstIntegers(g_, {0}), ConstIntegers(g_, {1}), ConstIntegers(g_, {1}));
    const Output columns =
        StridedSlice(g_, shape, ConstIntegers(g_, {1}), ConstIntegers(g_, {2}), ConstIntegers(g_, {1}));
    y = Reshape(g_, Neg(g_, x), Mul(g_, rows, columns));
  }
  EXPECT_EQ(CopiesOf({{x, Tensor::From<float>({2, 2}, {1, 2, 3, 4})}}, {y}), (Copies{1, 1}));
  EXPECT_THAT(Floats(0), ElementsAre(-1, -2, -3, -4));
}

TEST_F(MemoryKindsTest, ATensorThatManyWantIsCopiedOnce) {
  Output x, a, b;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {2});
    const Output y = Neg(g_, x);
    // The other device twice.
    auto other = g_.DeviceScope("/gpu:1");
    a = Square(g_, y);
    b = Exp(g_, y);
  }
  const Feeds feeds = {{x, Tensor::Vector<float>({1, 2})}};
  EXPECT_EQ(CopiesOf(feeds, {a, b}), (Copies{1, 1}));
  EXPECT_THAT(Floats(0), ElementsAre(1, 4));
  EXPECT_EQ(CopiesOf(feeds, {a, b}, {}, 1), (Copies{1, 2}));
}

TEST_F(MemoryKindsTest, ALoopCountsOnTheHostAndCarriesItsTensorsOnTheDevice) {
  Output x, y;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {2});
    y = While(
        g_, {Const(g_, int32_t{0}), x}, [&](const auto& v) { return Less(g_, v[0], Const(g_, int32_t{50})); },
        [&](const auto& v) {
          return std::vector<Output>{AddV2(g_, v[0], Const(g_, int32_t{1})), AddV2(g_, v[1], v[1])};
        })[1];
  }
  const Copies few = CopiesOf({{x, Tensor::Vector<float>({1, -1})}}, {y});
  EXPECT_EQ(few, (Copies{1, 1}));
  EXPECT_THAT(Floats(0), ElementsAre(std::exp2(50.0f), -std::exp2(50.0f)));
}

TEST_F(MemoryKindsTest, AConstantIsThereInBothMemories) {
  Output x, y, axes;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kInt32, {-1, -1});
    axes = ConstIntegers(g_, {1});
    y = AddV2(g_, Sum(g_, x, axes), axes);  // an axis on the host, a summand on the device
  }
  Tensor ones(DType::kInt32, Shape({2, 3}));
  std::fill(ones.flat<int32_t>().begin(), ones.flat<int32_t>().end(), 1);
  EXPECT_EQ(CopiesOf({{x, ones}}, {y, axes}), (Copies{1, 1}));
  EXPECT_THAT(results_[0].flat<int32_t>(), ElementsAre(4, 4));
  EXPECT_THAT(results_[1].flat<int32_t>(), ElementsAre(1));
}

// Strings never leave the host, and an op that computes there gets its arguments there.
TEST_F(MemoryKindsTest, AnOpThatComputesOnTheHostGetsItsArgumentsThere) {
  Output x, y;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {2});
    y = AsString(g_, Neg(g_, x));
  }
  EXPECT_EQ(CopiesOf({{x, Tensor::Vector<float>({1, 2})}}, {y}), (Copies{1, 1}));
  EXPECT_EQ(results_[0].flat<std::string>()[1].substr(0, 2), "-2");
}

TEST_F(MemoryKindsTest, AClientCannotSayThatANodeComputesOnTheHost) {
  Output x, y;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {2});
    const Output twice = AddV2(g_, x, x);
    y = Neg(g_, Exp(g_, twice));
    g_.graph().SetAttr(y.node, "_on_host", AttrValue(true));
    g_.graph().SetAttr(twice.node, "_on_host", AttrValue(std::string("yes")));
  }
  EXPECT_EQ(CopiesOf({{x, Tensor::Vector<float>({0, 0})}}, {y}), (Copies{1, 1}));
  EXPECT_THAT(Floats(0), ElementsAre(-1, -1));
}

TEST_F(MemoryKindsTest, StringsOfAVariableStayOnTheHostWhenSomeAreReplaced) {
  Output variable, read;
  Node *assign = nullptr, *update = nullptr;
  {
    auto device = g_.DeviceScope("/gpu:0");
    variable = g_.AddOp("VarHandleOp", {},
                        {{"dtype", DType::kString}, {"shape", PartialShape({2})}, {"shared_name", "names"}});
    const std::string longer(100, 'x');
    assign =
        g_.AddNode("AssignVariableOp", {variable, Const(g_, Tensor::Vector<std::string>({longer, "b"}))});
    update = g_.AddNode("ResourceScatterUpdate", {variable, Const(g_, Tensor::Vector<int32_t>({1})),
                                                  Const(g_, Tensor::Vector<std::string>({longer + "y"}))});
    read = g_.AddOp("ReadVariableOp", {variable}, {{"dtype", DType::kString}});
  }
  ASSERT_TRUE(session().Run({}, {}, {assign}).ok());
  ASSERT_TRUE(session().Run({}, {}, {update}).ok());
  const auto result = session().Run({}, {read});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].flat<std::string>()[1], std::string(100, 'x') + "y");
}

// Copies are held where they are: what is there all the same was not waited for.
class LateCopiesTest : public MemoryKindsTest {
 protected:
  LateCopiesTest() {
    for (const int gpu : {0, 1}) Gpu(gpu).set_copies(FakeCopies::kLate);
  }

  // Runs a step on a thread of its own while the copies of `gpu` are held.
  class HeldStep {
   public:
    HeldStep(LateCopiesTest& test, int gpu, Feeds feeds, std::vector<TensorRef> fetches)
        : gpu_(test.Gpu(gpu)) {
      gpu_.HoldCopies(true);
      thread_ = std::thread([this, &test, feeds = std::move(feeds), fetches = std::move(fetches)] {
        result_ = test.session().Run(feeds, fetches);
        is_over_.Notify();
      });
    }
    ~HeldStep() { Release(); }
    bool is_over() const { return is_over_.HasBeenNotified(); }
    const absl::StatusOr<std::vector<Tensor>>& Release() {
      gpu_.HoldCopies(false);
      if (thread_.joinable()) thread_.join();
      return result_;
    }

   private:
    FakeDevice& gpu_;
    absl::Notification is_over_;
    absl::StatusOr<std::vector<Tensor>> result_;
    std::thread thread_;
  };

  // Runs the step, so that its plan is made, and once more.
  absl::StatusOr<std::vector<Tensor>> RunHeld(const Feeds& feeds, const std::vector<TensorRef>& fetches) {
    const auto first = session().Run(feeds, fetches);
    if (!first.ok()) return first.status();
    HeldStep step(*this, 0, feeds, fetches);
    absl::SleepFor(absl::Milliseconds(30));  // one that does not wait is over then
    EXPECT_FALSE(step.is_over());
    return step.Release();
  }
};

TEST_F(LateCopiesTest, AStepIsOverWhenItsFetchesHaveCome) {
  Output x, y, z;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {2});
    y = Neg(g_, x);
    z = Exp(g_, x);
  }
  const auto result = RunHeld({{x, Tensor::Vector<float>({0, 0})}}, {y, z});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT((*result)[0].flat<float>(), ElementsAre(0, 0));
  EXPECT_THAT((*result)[1].flat<float>(), ElementsAre(1, 1));
}

TEST_F(LateCopiesTest, ANodeOfTheHostWaitsForItsArguments) {
  Output x, y, z;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {2});
    y = AsString(g_, Neg(g_, x));
    auto cpu = g_.DeviceScope("/cpu:0");
    z = Square(g_, x);
  }
  const auto result = RunHeld({{x, Tensor::Vector<float>({1, 2})}}, {y, z});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].flat<std::string>()[1].substr(0, 2), "-2");
}

TEST_F(LateCopiesTest, AnotherDeviceWaitsForWhatIsSentToIt) {
  Output x, y;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {2});
    const Output negative = Neg(g_, x);
    auto other = g_.DeviceScope("/gpu:1");
    y = Exp(g_, negative);
  }
  const auto result = RunHeld({{x, Tensor::Vector<float>({0, 0})}}, {y});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT((*result)[0].flat<float>(), ElementsAre(1, 1));
}

// The step's caller may change what it fed as soon as the step is over.
TEST_F(LateCopiesTest, AStepThatFetchesNothingWaitsForWhatWasFed) {
  Output x;
  Node* assign = nullptr;
  {
    auto device = g_.DeviceScope("/gpu:0");
    x = Fed(DType::kFloat32, {2});
    const Output handle =
        g_.AddOp("VarHandleOp", {},
                 {{"dtype", DType::kFloat32}, {"shape", PartialShape({2})}, {"shared_name", "fed_later"}});
    assign = g_.AddNode("AssignVariableOp", {handle, x});
  }
  const Feeds feeds = {{x, Tensor::Vector<float>({1, 2})}};
  ASSERT_TRUE(session().Run(feeds, {}, {assign}).ok());
  Gpu(0).HoldCopies(true);
  absl::Notification is_over;
  std::thread step([&] {
    EXPECT_TRUE(session().Run(feeds, {}, {assign}).ok());
    is_over.Notify();
  });
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_FALSE(is_over.HasBeenNotified());
  Gpu(0).HoldCopies(false);
  step.join();
}

TEST_F(LateCopiesTest, WhatIsFetchedStaysAsItWasWhenTheVariableChanges) {
  Output variable, read;
  Node *assign = nullptr, *add = nullptr;
  {
    auto device = g_.DeviceScope("/gpu:0");
    variable = g_.AddOp("VarHandleOp", {},
                        {{"dtype", DType::kFloat32}, {"shape", PartialShape({2})}, {"shared_name", "late"}});
    assign = g_.AddNode("AssignVariableOp", {variable, Const(g_, Tensor::Vector<float>({1, 1}))});
    add = g_.AddNode("AssignAddVariableOp", {variable, Const(g_, Tensor::Vector<float>({1, 1}))});
    read = g_.AddOp("ReadVariableOp", {variable}, {{"dtype", DType::kFloat32}});
  }
  ASSERT_TRUE(session().Run({}, {}, {assign}).ok());
  ASSERT_TRUE(session().Run({}, {}, {add}).ok());
  ASSERT_TRUE(session().Run({}, {read}).ok());
  const int64_t num_copies = Gpu(0).num_copies_out();
  HeldStep step(*this, 0, {}, {read});
  while (Gpu(0).num_copies_out() == num_copies) absl::SleepFor(absl::Milliseconds(1));
  ASSERT_TRUE(session().Run({}, {}, {add}).ok());
  const auto& result = step.Release();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT((*result)[0].flat<float>(), ElementsAre(2, 2));
}

TEST_F(LateCopiesTest, APlanThatIsDroppedKeepsWhatItsCopiesNeed) {
  Output x, y, z;
  {
    auto cpu = g_.DeviceScope("/cpu:0");
    x = Fed(DType::kFloat32, {2});
    z = Neg(g_, x);
    auto gpu = g_.DeviceScope("/gpu:0");
    y = Neg(g_, x);
  }
  session_ =
      Session::Create(g_.graph(), {&worker_}, runtime_->kernels(), {.max_cached_signatures = 1}).value();
  const Feeds feeds = {{x, Tensor::Vector<float>({1, 2})}};
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(session().Run(feeds, {y}).ok());
    const int64_t num_copies = Gpu(0).num_copies_in();
    HeldStep step(*this, 0, feeds, {y});
    while (Gpu(0).num_copies_in() == num_copies) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_TRUE(session().Run(feeds, {z}).ok());  // drops the plan of the other
    const auto& result = step.Release();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT((*result)[0].flat<float>(), ElementsAre(-1, -2));
  }
}

// An op of the test's own whose kernel gives a tensor of the host where its definition promises the device's.
class WrongKernelTest : public ActsTest {
 protected:
  WrongKernelTest() : ActsTest(/*is_stateful=*/true) {
    EXPECT_TRUE(ops_.Register({.name = "Forgetful",
                               .summary = "Gives a tensor of the host.",
                               .inputs = {"input: float"},
                               .outputs = {"output: float"},
                               .attrs = {},
                               .is_elementwise = true,
                               .infer_shapes = UnknownShape,
                               .gradient = NotDifferentiable})
                    .ok());
  }

  static absl::Status GiveOfHost(KernelContext& context) {
    context.set_output(0, Tensor::Scalar<float>(1));
    return absl::OkStatus();
  }
};

TEST_F(WrongKernelTest, AKernelThatGivesATensorInTheWrongMemoryIsFound) {
  const auto runtime =
      Runtime::Create({.num_fake_gpus = 1,
                       .ops = &ops_,
                       .register_kernels =
                           [](KernelRegistry& registry, absl::string_view type) {
                             registry.Register({.op = "Forgetful",
                                                .device_type = std::string(type),
                                                .create = CreateKernel<FunctionKernel<GiveOfHost>>});
                           }})
          .value();
  LocalWorker worker(*runtime, runtime->task());
  auto device = g_.DeviceScope("/gpu:0");
  const Output x = g_.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}});
  const Output y = g_.AddOp("Forgetful", {x}, {});
  const auto session = Session::Create(g_.graph(), {&worker}, runtime->kernels()).value();
  const auto result = session->Run({{x, Tensor::Scalar<float>(2)}}, {y});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(
      std::string(result.status().message()),
      HasSubstr("output 0, float[], is in the host's memory, and the kernel's definition says the device's"));
}

}  // namespace
}  // namespace weir
