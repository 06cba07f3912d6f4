// Steps on CUDA devices that launch what was recorded, usually without a GPU: CUDA is the recording stand-in
// (see cuda_training_test.cc), which does the work of a graph once more for each launch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kernels/cancellation.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/device.h"
#include "kernels/kernel_context.h"
#include "kernels/pending_work.h"
#include "kernels/variable.h"
#include "ops/standard_ops.h"
#include "ops/training/adam.h"
#include "ops/training/gradient_descent.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "session/executor/program.h"
#include "session/executor/recorded_runs.h"
#include "session/executor/static_schedule.h"
#include "session/executor/update_ledger.h"
#include "session/runtime.h"
#include "session/test_cuda_models.h"
#include "session/test_cuda_session.h"

namespace weir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Launched = RecordingCudaApi::Launched;

std::unique_ptr<Optimizer> Descent() { return std::make_unique<GradientDescent>(0.1); }
std::unique_ptr<Optimizer> MakeAdam() { return std::make_unique<Adam>(0.01); }

bool AreSameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

// A model on a device, and its training.
template <typename Model>
struct Trained {
  template <typename Build>
  Trained(const RuntimeOptions& options, const Build& build) : place(options), model(build(place.g)) {
    const auto initialized = place.session().Run({}, {}, model.initializers);
    EXPECT_TRUE(initialized.ok()) << initialized.status();
  }

  absl::StatusOr<Tensor> TryStep(const Feeds& feeds) {
    auto result = place.session().Run(feeds, {model.loss}, {model.train});
    if (!result.ok()) return result.status();
    return std::move((*result)[0]);
  }
  // The loss.
  Tensor Step(int step, std::optional<int64_t> examples = std::nullopt) {
    auto loss = TryStep(examples ? Batch(model, step, *examples) : Batch(model, step));
    EXPECT_TRUE(loss.ok()) << loss.status();
    return loss.ok() ? *std::move(loss) : Tensor::Scalar(0.0f);
  }
  std::vector<Tensor> Values() {
    auto values = place.session().Run({}, model.variables);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? *std::move(values) : std::vector<Tensor>();
  }
  int64_t num_bytes_on_device() {
    for (const auto& device : place.runtime->devices()) {
      if (device->type() == "GPU") return device->allocator().num_bytes_in_use();
    }
    return 0;
  }

  Place place;
  const Model model;
};

Mlp MlpOn(GraphBuilder& g, const std::string& device, const MakeOptimizer& make = Descent) {
  return BuildMlp(g, device, device, make);
}
Mlp MlpOnGpu(GraphBuilder& g) { return MlpOn(g, "/gpu:0"); }
Mlp MlpWithAdam(GraphBuilder& g) { return MlpOn(g, "/gpu:0", MakeAdam); }
ConvNet ConvNetOnGpu(GraphBuilder& g) { return ConvNetBuilder(g).Build("/gpu:0"); }

class CudaGraphsTest : public CudaSessionTest {
 protected:
  RuntimeOptions Gpu(bool cuda_graphs = true) {
    RuntimeOptions options = Gpus(1);
    options.cuda_graphs = cuda_graphs;
    return options;
  }

  int64_t num_launches() const { return cuda_.num_calls("cudaLaunchKernel"); }
  int64_t num_graph_launches() const { return cuda_.num_calls("cudaGraphLaunch"); }
  int64_t num_recordings() const { return cuda_.num_calls("cudaStreamBeginCapture"); }

  // The lines of the log that are work on the device alone, without the stream.
  std::vector<std::string> WorkOfLog() const {
    std::vector<std::string> lines;
    for (const std::string& line : cuda_.log()) {
      if (!absl::StartsWith(line, "cudaLaunchKernel") && !absl::StartsWith(line, "cudaMemsetAsync") &&
          !absl::StartsWith(line, "cudaMemcpyAsync on_device")) {
        continue;
      }
      lines.push_back(line.substr(0, line.find(" on stream ")));
    }
    return lines;
  }

  // Whether two launches differ in addresses of the device, and of pinned memory, alone.
  void ExpectSameLaunch(const Launched& a, const Launched& b) {
    EXPECT_STREQ(a.function.name, b.function.name);
    EXPECT_EQ(a.grid.blocks, b.grid.blocks) << a.function.name;
    EXPECT_EQ(a.grid.threads, b.grid.threads) << a.function.name;
    ASSERT_EQ(a.arguments.size(), b.arguments.size()) << a.function.name;
    // What stands in for libraries has one argument, with bytes in it that mean nothing.
    const absl::string_view name = a.function.name;
    if (absl::StartsWith(name, "cublasLt") || absl::StrContains(name, "Conv2")) return;
    for (size_t i = 0; i < a.arguments.size(); ++i) {
      ASSERT_EQ(a.arguments[i].size(), b.arguments[i].size());
      if (a.arguments[i] == b.arguments[i]) continue;
      for (size_t at = 0; at + sizeof(uintptr_t) <= a.arguments[i].size(); at += sizeof(uintptr_t)) {
        uintptr_t one = 0, other = 0;
        std::memcpy(&one, a.arguments[i].data() + at, sizeof(one));
        std::memcpy(&other, b.arguments[i].data() + at, sizeof(other));
        // An integer of 32 bits may be followed by such bytes.
        if (static_cast<uint32_t>(one) == static_cast<uint32_t>(other)) continue;
        EXPECT_TRUE(IsAddress(one) && IsAddress(other)) << a.function.name << " " << i;
      }
    }
  }
  bool IsAddress(uintptr_t word) const {
    for (const auto& [begin, num_bytes] : cuda_.stand_in().segments(0)) {
      if (word >= begin && word < begin + static_cast<uintptr_t>(num_bytes)) return true;
    }
    return word > uintptr_t{1} << 32;  // on the host; no count or size of these models is as large
  }

  template <typename Model, typename Build>
  void ExpectSameWork(const Build& build, size_t at_least) {
    if (!cuda_.is_stand_in()) GTEST_SKIP() << kOnlyOnTheStandIn;
    Trained<Model> eager(Gpu(false), build), recorded(Gpu(), build);
    for (int step = 0; step < 2; ++step) {
      cuda_.ClearLog();
      eager.Step(step);
    }
    const std::vector<std::string> expected = WorkOfLog();
    const std::vector<Launched> launches = cuda_.stand_in().launches();
    EXPECT_GE(expected.size(), at_least);
    recorded.Step(0);
    cuda_.ClearLog();
    recorded.Step(1);
    EXPECT_EQ(num_graph_launches(), 1);
    EXPECT_THAT(WorkOfLog(), ElementsAreArray(expected));
    const std::vector<Launched> found = cuda_.stand_in().launches();
    ASSERT_EQ(found.size(), launches.size());
    for (size_t i = 0; i < found.size(); ++i) ExpectSameLaunch(found[i], launches[i]);
  }

  // The recorded steps give the same bits as those that go kernel by kernel.
  template <typename Model, typename Build>
  void ExpectSameNumbers(const Build& build, int steps) {
    Trained<Model> eager(Gpu(false), build), recorded(Gpu(), build);
    for (int step = 0; step < steps; ++step) {
      EXPECT_TRUE(AreSameBits(eager.Step(step), recorded.Step(step))) << step;
    }
    ExpectSameValues(eager.Values(), recorded.Values());
    EXPECT_EQ(num_graph_launches(), steps - 1);
    EXPECT_EQ(num_recordings(), 1);
  }
  static void ExpectSameValues(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(AreSameBits(a[i], b[i])) << i;
  }
};

TEST_F(CudaGraphsTest, WhatIsRecordedOfAPerceptronIsWhatIsEnqueuedOtherwise) {
  ExpectSameWork<Mlp>(MlpOnGpu, 15);
}

TEST_F(CudaGraphsTest, WhatIsRecordedOfAConvolutionalNetworkIsWhatIsEnqueuedOtherwise) {
  ExpectSameWork<ConvNet>(ConvNetOnGpu, 80);
}

// The powers of beta are assigned: in place.
TEST_F(CudaGraphsTest, WhatIsRecordedWithAdamIsWhatIsEnqueuedOtherwise) {
  ExpectSameWork<Mlp>(MlpWithAdam, 15);
}

TEST_F(CudaGraphsTest, APerceptronLearnsTheSame) { ExpectSameNumbers<Mlp>(MlpOnGpu, 25); }

TEST_F(CudaGraphsTest, APerceptronWithAdamLearnsTheSame) { ExpectSameNumbers<Mlp>(MlpWithAdam, 25); }

TEST_F(CudaGraphsTest, AConvolutionalNetworkLearnsTheSame) { ExpectSameNumbers<ConvNet>(ConvNetOnGpu, 25); }

TEST_F(CudaGraphsTest, AStepCostsOneLaunch) {
  Trained<ConvNet> net(Gpu(), ConvNetOnGpu);
  for (int step = 0; step < 4; ++step) {
    cuda_.RunAll();
    cuda_.ClearLog();
    net.Step(step);
  }
  EXPECT_THAT(WorkOfLog(), IsEmpty());
  int64_t num_launches = 0;
  for (const std::string& line : cuda_.log()) num_launches += absl::StartsWith(line, "cudaGraphLaunch");
  EXPECT_EQ(num_launches, 1);
  // The images, the labels, the loss, and the wait for it.
  EXPECT_EQ(CountsOfLog(), (Counts{.in = 2, .out = 1, .waits = 1, .allocations = 0}));
}

TEST_F(CudaGraphsTest, EachShapeOfABatchHasItsOwnRecording) {
  Trained<Mlp> eager(Gpu(false), MlpOnGpu), recorded(Gpu(), MlpOnGpu);
  for (int step = 0; step < 12; ++step) {
    const int64_t examples = step % 3 == 2 ? 5 : 24;
    EXPECT_TRUE(AreSameBits(eager.Step(step, examples), recorded.Step(step, examples))) << step;
  }
  ExpectSameValues(eager.Values(), recorded.Values());
  EXPECT_EQ(num_recordings(), 2);
  EXPECT_EQ(num_graph_launches(), 12 - 2);
}

// A model, one of whose variables can be set to what is fed. Each way to do so is run once, kernel by kernel:
// then the variable takes the memory of the value.
struct Resettable : Mlp {
  Output value;
  std::vector<Node*> assignments;
};

Resettable ResettableOnGpu(GraphBuilder& g) {
  Resettable model{MlpOnGpu(g), Output(), {}};
  auto scope = g.DeviceScope("/gpu:0");
  model.value = Placeholder(g, DType::kFloat32, {16, 5});
  for (int i = 0; i < 8; ++i) {
    Node* const handle = g.graph().FindNode("w2");
    model.assignments.push_back(g.AddNode("AssignVariableOp", {handle->output(0), model.value}));
  }
  return model;
}

void Reset(Trained<Resettable>& trained, int time) {
  Tensor value(DType::kFloat32, Shape({16, 5}));
  for (float& v : value.flat<float>()) v = static_cast<float>(time) / 8;
  const Resettable& model = trained.model;
  const absl::Status status =
      trained.place.session().Run({{model.value, value}}, {}, {model.assignments.at(time)}).status();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(CudaGraphsTest, AVariableThatIsSetAnewIsRecordedAnew) {
  Trained<Resettable> eager(Gpu(false), ResettableOnGpu), recorded(Gpu(), ResettableOnGpu);
  for (int step = 0; step < 10; ++step) {
    if (step == 5) {
      Reset(eager, 0);
      Reset(recorded, 0);
    }
    EXPECT_TRUE(AreSameBits(eager.Step(step), recorded.Step(step))) << step;
  }
  ExpectSameValues(eager.Values(), recorded.Values());
  EXPECT_EQ(num_recordings(), 2);
  EXPECT_EQ(num_graph_launches(), 4 + 4);  // not the first step, nor the one after
}

TEST_F(CudaGraphsTest, VariablesThatMoveAgainAndAgainEndIt) {
  testing::internal::CaptureStderr();
  Trained<Resettable> eager(Gpu(false), ResettableOnGpu), recorded(Gpu(), ResettableOnGpu);
  for (int step = 0; step < 20; ++step) {
    if (step % 3 == 2) {
      Reset(eager, step / 3);
      Reset(recorded, step / 3);
    }
    EXPECT_TRUE(AreSameBits(eager.Step(step), recorded.Step(step))) << step;
  }
  ExpectSameValues(eager.Values(), recorded.Values());
  EXPECT_EQ(num_recordings(), RecordedRuns::kMostWasted);
  const std::string notices = testing::internal::GetCapturedStderr();
  EXPECT_THAT(notices,
              HasSubstr("on /job:localhost/replica:0/task:0/device:GPU:0 launch each kernel by itself "
                        "from now on: its variables get other memory again and again"));
  EXPECT_EQ(notices.find("from now on"), notices.rfind("from now on"));
}

// As at checkpoints: each recording has been of use.
TEST_F(CudaGraphsTest, VariablesThatMoveNowAndThenDoNot) {
  Trained<Resettable> recorded(Gpu(), ResettableOnGpu);
  int step = 0;
  for (int i = 0; i < RecordedRuns::kMostWasted + 2; ++i) {
    for (int k = 0; k < RecordedRuns::kOfUse + 2; ++k) recorded.Step(step++);
    Reset(recorded, i);
  }
  EXPECT_EQ(num_recordings(), RecordedRuns::kMostWasted + 2);
}

class FailuresTest : public CudaGraphsTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(FailuresTest, AFailedRecordingIsSaidOnceAndTheStepRuns) {
  if (!cuda_.is_stand_in()) GTEST_SKIP() << kOnlyOnTheStandIn;
  testing::internal::CaptureStderr();
  Trained<Mlp> eager(Gpu(false), MlpOnGpu), recorded(Gpu(), MlpOnGpu);
  cuda_.stand_in().FailCall(GetParam(), kCudaStreamCaptureUnsupported);
  for (int step = 0; step < 6; ++step) {
    EXPECT_TRUE(AreSameBits(eager.Step(step), recorded.Step(step))) << step;
  }
  ExpectSameValues(eager.Values(), recorded.Values());
  EXPECT_EQ(num_recordings(), 1);
  const std::string notices = testing::internal::GetCapturedStderr();
  EXPECT_THAT(notices, AllOf(HasSubstr("launch each kernel by itself from now on: it could not be "),
                             HasSubstr(absl::StrCat(GetParam(), ": CUDA error 900"))));
  EXPECT_EQ(notices.find("from now on"), notices.rfind("from now on"));
  EXPECT_EQ(num_graph_launches(), absl::StrContains(GetParam(), "GraphLaunch") ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(Calls, FailuresTest,
                         ::testing::Values("cudaStreamBeginCapture", "cudaStreamEndCapture",
                                           "cudaGraphInstantiate", "cudaGraphLaunch"));

TEST_F(CudaGraphsTest, BeyondEightSignaturesNothingIsRecorded) {
  testing::internal::CaptureStderr();
  Trained<Mlp> eager(Gpu(false), MlpOnGpu), recorded(Gpu(), MlpOnGpu);
  const auto step_both = [&](int step, int64_t examples) {
    EXPECT_TRUE(AreSameBits(eager.Step(step, examples), recorded.Step(step, examples))) << step;
  };
  for (int step = 0; step < 24; ++step) step_both(step, 1 + step % 8);
  EXPECT_EQ(num_recordings(), 8);
  EXPECT_EQ(num_graph_launches(), 16);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  for (int step = 0; step < 12; ++step) step_both(step, 1 + step % 9 + 2 * (step == 0));
  const std::string notices = testing::internal::GetCapturedStderr();
  EXPECT_THAT(notices, HasSubstr("what it is fed has more than 8 combinations of shapes"));
  EXPECT_EQ(notices.find("from now on"), notices.rfind("from now on"));
  const int64_t launched_before = num_graph_launches();
  for (int step = 0; step < 12; ++step) step_both(step, 1 + step % 3);
  EXPECT_EQ(num_graph_launches(), launched_before);
  EXPECT_EQ(num_recordings(), 8);
  // Nothing is left of them.
  EXPECT_EQ(recorded.num_bytes_on_device(), eager.num_bytes_on_device());
  EXPECT_EQ(cuda_.num_calls("cudaGraphExecDestroy"), 8);
}

// A label that is no class: found late, nothing is applied, and the steps after it are.
TEST_F(CudaGraphsTest, WrongDataPreventUpdates) {
  const auto build = [](GraphBuilder& g) { return MlpWithAdam(g); };
  Trained<Mlp> eager(Gpu(false), build), recorded(Gpu(), build);
  const auto bad_batch = [](const Mlp& model) {
    Feeds feeds = Batch(model, 3);
    for (auto& [output, tensor] : feeds) {
      if (tensor.dtype() == DType::kInt32) tensor.flat<int32_t>()[7] = 5;
    }
    return feeds;
  };
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(AreSameBits(eager.Step(step), recorded.Step(step)));
  const std::vector<Tensor> before = recorded.Values();
  const int64_t launched_before = num_graph_launches();
  const absl::Status expected = eager.TryStep(bad_batch(eager.model)).status();
  const absl::Status found = recorded.TryStep(bad_batch(recorded.model)).status();
  EXPECT_EQ(num_graph_launches(), launched_before + 1);
  EXPECT_THAT(found.message(), HasSubstr("Received a label value of 5 which is outside the valid range of "
                                         "[0, 5), at example 7"));
  EXPECT_EQ(found, expected);
  ExpectSameValues(recorded.Values(), before);
  for (int step = 4; step < 8; ++step)
    EXPECT_TRUE(AreSameBits(eager.Step(step), recorded.Step(step))) << step;
  ExpectSameValues(eager.Values(), recorded.Values());
  EXPECT_EQ(num_graph_launches(), launched_before + 1 + 4);
}

// Nobody waits for such steps: a recorded one may not begin before it is known how the last one has ended.
TEST_F(CudaGraphsTest, StepsWithoutFetchesAreLaunchedWhenTheLastOneIsKnownToBeOver) {
  if (!cuda_.is_stand_in()) GTEST_SKIP() << kOnlyOnTheStandIn;
  Trained<Mlp> eager(Gpu(false), MlpWithAdam), recorded(Gpu(), MlpWithAdam);
  const auto run = [](Trained<Mlp>& one, int step, bool is_bad) {
    Feeds feeds = Batch(one.model, step);
    for (auto& [output, tensor] : feeds) {
      if (is_bad && tensor.dtype() == DType::kInt32) tensor.flat<int32_t>()[0] = -1;
    }
    return one.place.session().Run(feeds, {}, {one.model.train}).status();
  };
  const auto run_both = [&](int step, bool is_bad = false) {
    const absl::Status expected = run(eager, step, is_bad), found = run(recorded, step, is_bad);
    EXPECT_EQ(found.code(), expected.code()) << found;
    return found;
  };
  for (int step = 0; step < 6; ++step) EXPECT_TRUE(run_both(step).ok());
  EXPECT_EQ(num_graph_launches(), 1);  // the recorder has done nothing so far
  for (int step = 6; step < 9; ++step) {
    cuda_.RunAll();
    EXPECT_TRUE(run_both(step).ok());
  }
  EXPECT_EQ(num_graph_launches(), 1 + 3);
  cuda_.RunAll();
  EXPECT_TRUE(run_both(9, /*is_bad=*/true).ok());
  cuda_.RunAll();
  const absl::Status status = run_both(10);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("an earlier step, which nobody waited for, has failed: "),
                                      HasSubstr("a label value of -1")));
  for (int step = 11; step < 14; ++step) {
    cuda_.RunAll();
    EXPECT_TRUE(run_both(step).ok());
  }
  EXPECT_GT(num_graph_launches(), 1 + 3 + 1);
  ExpectSameValues(eager.Values(), recorded.Values());
}

// Signatures share what their kernels need in between, and all of it goes with the session.
TEST_F(CudaGraphsTest, MemoryIsBoundedAndGoesWithTheSession) {
  Trained<ConvNet> eager(Gpu(false), ConvNetOnGpu), recorded(Gpu(), ConvNetOnGpu);
  const int64_t at_first = recorded.num_bytes_on_device();
  for (int step = 0; step < 4; ++step) {
    eager.Step(step, 16);
    recorded.Step(step, 16);
  }
  const int64_t with_one = recorded.num_bytes_on_device();
  EXPECT_GT(with_one, at_first);
  for (int step = 0; step < 8; ++step) recorded.Step(step, 16);
  EXPECT_EQ(recorded.num_bytes_on_device(), with_one);
  constexpr int kMore = 6;
  for (int step = 0; step < 4 * kMore; ++step) recorded.Step(step, 15 - step % kMore);
  EXPECT_EQ(num_recordings(), 1 + kMore);
  // The images of more batches, the labels, and numbers.
  const int64_t most_fed = kMore * (16 * 12 * 12 * 3 * 4 + 16 * 512);
  EXPECT_LE(recorded.num_bytes_on_device(), with_one + most_fed);
  for (Trained<ConvNet>* const one : {&eager, &recorded}) one->place.made.reset();
  // The thread that has ended the last step may still be letting go of its plan.
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (recorded.num_bytes_on_device() != eager.num_bytes_on_device() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(recorded.num_bytes_on_device(), eager.num_bytes_on_device());
}

TEST_F(CudaGraphsTest, ItCanBeTurnedOff) {
  Trained<Mlp> eager(Gpu(false), MlpOnGpu);
  for (int step = 0; step < 4; ++step) eager.Step(step);
  EXPECT_EQ(num_recordings(), 0);
  EXPECT_EQ(num_graph_launches(), 0);
}

// A model, and a variable that can take the value of one of its own.
struct WithCopy : Mlp {
  ModelVariable copy;
  Node* take = nullptr;
};

WithCopy WithCopyOnGpu(GraphBuilder& g) {
  WithCopy model{MlpOnGpu(g), {}, nullptr};
  auto scope = g.DeviceScope("/gpu:0");
  model.copy = MakeVariable(g, "copy", Tensor::Vector<float>({1, 2, 3, 4, 5}));
  const Output read =
      g.AddOp("ReadVariableOp", {g.graph().FindNode("b2")->output(0)}, {{"dtype", DType::kFloat32}});
  model.take = g.AddNode("AssignVariableOp", {model.copy.handle, read});
  model.initializers.push_back(model.copy.initializer);
  model.variables.push_back(model.copy.value);
  return model;
}

// Both variables have one buffer then: an update needs another one.
TEST_F(CudaGraphsTest, AVariableThatSomebodyElseHoldsIsNotOverwritten) {
  Trained<WithCopy> eager(Gpu(false), WithCopyOnGpu), recorded(Gpu(), WithCopyOnGpu);
  for (int step = 0; step < 6; ++step) {
    if (step == 3) {
      for (Trained<WithCopy>* const one : {&eager, &recorded}) {
        ASSERT_TRUE(one->place.session().Run({}, {}, {one->model.take}).ok());
      }
    }
    EXPECT_TRUE(AreSameBits(eager.Step(step), recorded.Step(step))) << step;
  }
  ExpectSameValues(eager.Values(), recorded.Values());
  EXPECT_EQ(num_recordings(), 2);
}

// Programs of which something must be done anew in each step.
class NotRecordedTest : public CudaGraphsTest {
 protected:
  // What a step gives when it is run five times.
  std::vector<Tensor> RunOften(Place& place, const std::vector<Feeds>& feeds, const Output& fetch) {
    std::vector<Tensor> results;
    for (const Feeds& fed : feeds) {
      const auto result = place.session().Run(fed, {fetch});
      EXPECT_TRUE(result.ok()) << result.status();
      results.push_back(result.ok() ? (*result)[0] : Tensor::Scalar(0.0f));
    }
    return results;
  }

  // A few kernels, so that there is something to record.
  static Output Sums(GraphBuilder& g, Output x) { return Relu(g, AddV2(g, Mul(g, x, x), x)); }
};

TEST_F(NotRecordedTest, AShapeThatIsFed) {
  Place gpu(Gpu());
  auto scope = gpu.g.DeviceScope("/gpu:0");
  const Output dims = Placeholder(gpu.g, DType::kInt32, {1});
  const Output x = Placeholder(gpu.g, DType::kFloat32, {});
  const Output y = Sums(gpu.g, gpu.g.AddOp("Fill", {dims, x}));
  std::vector<Feeds> feeds;
  for (int32_t i = 1; i < 6; ++i) {
    const Feeds fed = {{dims, Tensor::Vector<int32_t>({i})}, {x, Tensor::Scalar(2.0f)}};
    feeds.push_back(fed);
  }
  const std::vector<Tensor> results = RunOften(gpu, feeds, y);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(results[i].num_elements(), i + 1);
  EXPECT_EQ(num_recordings(), 0);
}

TEST_F(NotRecordedTest, RandomNumbersWhoseCountersAreOnTheHost) {
  Place gpu(Gpu());
  auto scope = gpu.g.DeviceScope("/gpu:0");
  const Output x = Placeholder(gpu.g, DType::kFloat32, {3});
  const Output noise =
      gpu.g.AddOp("RandomUniform", {ConstIntegers(gpu.g, {3})}, {{"dtype", DType::kFloat32}});
  const Output y = Sums(gpu.g, AddV2(gpu.g, x, noise));
  const Feeds fed = {{x, Tensor::Vector<float>({1, 2, 3})}};
  const std::vector<Tensor> results = RunOften(gpu, std::vector<Feeds>(5, fed), y);
  for (int i = 1; i < 5; ++i) EXPECT_FALSE(AreSameBits(results[i], results[i - 1]));
  EXPECT_EQ(num_recordings(), 0);
}

// Digamma has no kernel for GPUs: it computes on the host, in the middle.
TEST_F(NotRecordedTest, ACopyToTheHostInTheMiddle) {
  Place gpu(Gpu());
  auto scope = gpu.g.DeviceScope("/gpu:0");
  const Output x = Placeholder(gpu.g, DType::kFloat32, {3});
  const Output y = Sums(gpu.g, gpu.g.AddOp("Digamma", {Sums(gpu.g, x)}));
  std::vector<Feeds> feeds;
  for (int i = 1; i < 6; ++i) {
    const auto value = static_cast<float>(i);
    const Feeds fed = {{x, Tensor::Vector<float>({value, value, value})}};
    feeds.push_back(fed);
  }
  const std::vector<Tensor> results = RunOften(gpu, feeds, y);
  for (int i = 1; i < 5; ++i) EXPECT_FALSE(AreSameBits(results[i], results[i - 1]));
  EXPECT_EQ(num_recordings(), 0);
}

// Shapes are known when those of the arguments are: what follows from them is the recording's.
TEST_F(CudaGraphsTest, ArithmeticOnShapesIsRecorded) {
  Place gpu(Gpu());
  auto scope = gpu.g.DeviceScope("/gpu:0");
  const Output x = Placeholder(gpu.g, DType::kFloat32, {-1, 2});
  const Output size = gpu.g.AddOp("Size", {x});
  const Output y = Relu(gpu.g, Mul(gpu.g, x, Cast(gpu.g, size, DType::kFloat32)));
  for (int step = 0; step < 9; ++step) {
    const int64_t rows = 1 + step % 3;
    const Tensor fed = Tensor::FromSpan<float>({rows, 2}, std::vector<float>(2 * rows, step));
    const auto result = gpu.session().Run({{x, fed}}, {y, size});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ((*result)[0].flat<float>()[0], step * 2.0f * rows);
    EXPECT_EQ((*result)[1].scalar<int32_t>(), 2 * rows);
  }
  EXPECT_EQ(num_recordings(), 3);
  EXPECT_EQ(num_graph_launches(), 6);
}

// An evaluation of a model reads what its training updates.
TEST_F(CudaGraphsTest, TrainingAndEvaluationAreBothRecorded) {
  Trained<Mlp> eager(Gpu(false), MlpOnGpu), recorded(Gpu(), MlpOnGpu);
  for (int step = 0; step < 8; ++step) {
    EXPECT_TRUE(AreSameBits(eager.Step(step), recorded.Step(step))) << step;
    std::vector<Tensor> losses;
    for (Trained<Mlp>* const one : {&eager, &recorded}) {
      const auto loss = one->place.session().Run(Batch(one->model, 100), {one->model.loss});
      ASSERT_TRUE(loss.ok()) << loss.status();
      losses.push_back((*loss)[0]);
    }
    EXPECT_TRUE(AreSameBits(losses[0], losses[1])) << step;
  }
  EXPECT_EQ(num_recordings(), 2);
  EXPECT_EQ(num_graph_launches(), 2 * 7);
}

// The ledger is locked before variables are, here as by kernels: a checkpoint that is just noting what has
// been applied reads them under the ledger's lock.
TEST_F(CudaGraphsTest, ALaunchThatWaitsForTheLedgerHoldsNoVariable) {
  const auto runtime = Runtime::Create(Gpu()).value();
  const auto gpu = std::find_if(runtime->devices().begin(), runtime->devices().end(),
                                [](const auto& device) { return device->type() == "GPU"; });
  ASSERT_NE(gpu, runtime->devices().end());
  const auto compile = [&](const char* update) {
    GraphBuilder g(runtime->ops());
    const auto value = [&](float value) {
      return g.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", DType::kFloat32}});
    };
    for (const char* const name : {"a", "b"}) {
      const Output handle =
          g.AddOp("VarHandleOp", {},
                  {{"dtype", DType::kFloat32}, {"shape", PartialShape(Shape())}, {"shared_name", name}});
      g.AddNode(update, {handle, value(1)});
    }
    EXPECT_TRUE(g.ok()) << g.status();
    for (const auto& node : g.graph().nodes()) g.graph().SetAssignedDevice(node.get(), (*gpu)->name());
    return Program::Compile(g.graph(), **gpu, runtime->kernels()).value();
  };
  struct NothingPending final : PendingWork {
    void Begin() override {}
    void End(const absl::Status&) override {}
  } pending;
  Cancellation cancellation;
  const StepContext context{.cancellation = &cancellation, .pending = &pending};
  const auto init = compile("AssignVariableOp"), train = compile("AssignAddVariableOp");
  ProgramFrame init_frame(*init);
  ASSERT_TRUE(RunStaticSchedule(*init, init_frame, context, absl::InfiniteFuture()).ok());
  const auto runs = RecordedRuns::Create(*train);
  ASSERT_NE(runs, nullptr);
  UpdateLedger ledger;
  const auto begin = [&](int64_t number) {
    return ledger.BeginStep({.writer = 5, .number = number, .settled_below = number}).value();
  };
  const auto run = [&](UpdateLedger::Attempt attempt) {
    ProgramFrame frame(*train);
    frame.updates = &attempt;
    const absl::Status status = runs->Run(frame, context, absl::InfiniteFuture());
    EXPECT_TRUE(status.ok()) << status;
  };
  for (int64_t number = 1; number <= 2; ++number) run(begin(number));
  ASSERT_EQ(num_graph_launches(), 1);

  const auto variable = (*gpu)->resources().Lookup<Variable>("", "a").value();
  UpdateLedger::Attempt attempt = begin(3);
  std::thread third;
  bool was_free = true;
  ledger.Capture([&] {
    third = std::thread(run, std::move(attempt));
    for (int i = 0; i < 100 && was_free; ++i) {
      absl::SleepFor(absl::Milliseconds(1));
      was_free = variable->mutex.TryLock();
      if (was_free) variable->mutex.Unlock();
    }
    EXPECT_EQ(num_graph_launches(), 1);
  });
  third.join();
  EXPECT_TRUE(was_free);
  EXPECT_EQ(num_graph_launches(), 2);
}

TEST_F(CudaGraphsTest, ALostDeviceIsUnavailable) {
  Trained<Mlp> recorded(Gpu(), MlpOnGpu);
  for (int step = 0; step < 4; ++step) recorded.Step(step);
  cuda_.LoseDevice(0);
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = recorded.TryStep(Batch(recorded.model, 5)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(status.message(), HasSubstr("is lost"));
  }
  recorded.place.made.reset();
  if (cuda_.is_stand_in()) cuda_.stand_in().TakeProblems();  // what a lost device has, nobody gives back
}

}  // namespace
}  // namespace weir
