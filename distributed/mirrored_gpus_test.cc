// MirroredStrategy over the GPUs of the recording stand-in, against CPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "distributed/mirrored_strategy.h"
#include "kernels/cuda/cuda_error.h"
#include "kernels/cuda/recording_cuda_api.h"
#include "kernels/cuda/test_cuda_backend.h"
#include "kernels/formats/file_system.h"
#include "ops/standard_ops.h"
#include "ops/training/momentum.h"
#include "ops/variable.h"
#include "session/local_worker.h"
#include "session/monitored/exit_code.h"
#include "session/monitored/test_hook.h"
#include "session/monitored/training_session.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRows = 4;

// What a tower is: a regression; a classifier, whose labels the device looks at; a table of rows, whose
// gradient is sparse.
enum class Model { kRegression, kClassifier, kTable };

// One tower on each device of the strategy; every tower is fed.
class Towers {
 public:
  Towers(const RuntimeOptions& options, const MirroredOptions& mirrored, Model model = Model::kRegression)
      : runtime_(Runtime::Create(options).value()),
        worker_(*runtime_, runtime_->task()),
        g_(runtime_->ops()) {
    strategy_ = MirroredStrategy::Create(*runtime_, mirrored).value();
    std::vector<ModelVariable> weights(size());
    const std::vector<Output> losses = strategy_->Run(g_, [&](const Replica& replica) {
      const bool has_labels = model == Model::kClassifier, has_rows = model == Model::kTable;
      xs_.push_back(has_rows ? Placeholder(g_, DType::kInt32, {kRows})
                             : Placeholder(g_, DType::kFloat32, {kRows, 3}));
      targets_.push_back(has_labels ? Placeholder(g_, DType::kInt32, {kRows})
                                    : Placeholder(g_, DType::kFloat32, {kRows, 2}));
      weights[replica.index] = MakeVariable(g_, "w", Tensor::From<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
      const ModelVariable& w = weights[replica.index];
      const Output y = has_rows ? ResourceGather(g_, w.handle, xs_.back(), DType::kFloat32)
                                : MatMul(g_, xs_.back(), w.value);
      if (has_labels) {
        Node* const entropy =
            g_.AddNode("SparseSoftmaxCrossEntropyWithLogits", {y, targets_.back()}, {}, "entropy");
        return entropy == nullptr ? Output() : Mean(g_, entropy->output(0), ConstIntegers(g_, {0}));
      }
      return Mean(g_, Square(g_, Sub(g_, y, targets_.back())), ConstIntegers(g_, {0, 1}));
    });
    const auto optimizer = strategy_->MakeOptimizer([] { return Momentum(0.1, 0.9); });
    train_ = optimizer->Minimize(g_, losses, ModelVariable()).value();
    loss_ = losses[0];
    for (const ModelVariable& w : weights) weights_.push_back(w.value);
    EXPECT_TRUE(g_.ok()) << g_.status();
    Node* const of_first = InitializeVariables(g_);
    Node* const of_others = size() > 1 ? InitializeLocalVariables(g_) : of_first;
    session_ = Session::Create(g_.graph(), {&worker_}, runtime_->kernels()).value();
    for (Node* const initialize : {of_first, of_others}) {
      const absl::Status begun = session_->Run({}, {}, {initialize}).status();
      EXPECT_TRUE(begun.ok()) << begun;
    }
  }

  int size() const { return strategy_->num_devices(); }
  MirroredStrategy& strategy() { return *strategy_; }
  Runtime& runtime() { return *runtime_; }

  // A step that fetches nothing.
  absl::Status ReadWeights() { return session_->Run({}, {}, {weights_[0].node}).status(); }

  absl::StatusOr<float> Step(int64_t step, int bad_tower = -1) {
    Feeds feeds;
    for (int i = 0; i < size(); ++i) {
      const bool has_rows = xs_[i].dtype() == DType::kInt32;
      Tensor x(xs_[i].dtype(), has_rows ? Shape({kRows}) : Shape({kRows, 3}));
      for (int k = 0; k < x.num_elements(); ++k) {
        if (has_rows) {
          x.flat<int32_t>()[k] = static_cast<int32_t>((k * (i + 1) + step) % 3);
        } else {
          x.flat<float>()[k] = std::sin(static_cast<float>(k + 20 * i + 100 * step));
        }
      }
      feeds.push_back({xs_[i], x});
      Tensor target(targets_[i].dtype(),
                    targets_[i].dtype() == DType::kInt32 ? Shape({kRows}) : Shape({kRows, 2}));
      for (int k = 0; k < target.num_elements(); ++k) {
        if (target.dtype() == DType::kInt32) {
          target.flat<int32_t>()[k] = i == bad_tower ? 7 : k % 2;
        } else {
          target.flat<float>()[k] = std::cos(static_cast<float>(k + i + step));
        }
      }
      feeds.push_back({targets_[i], target});
    }
    const auto result = session_->Run(feeds, {loss_}, {train_});
    if (!result.ok()) return result.status();
    return (*result)[0].scalar<float>();
  }

  std::vector<std::vector<float>> Weights() {
    std::vector<std::vector<float>> all;
    for (const Output& w : weights_) {
      const Tensor value = session_->Run({}, {w}).value()[0];
      all.emplace_back(value.flat<float>().begin(), value.flat<float>().end());
    }
    return all;
  }

 private:
  const std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;
  GraphBuilder g_;
  std::unique_ptr<MirroredStrategy> strategy_;
  std::vector<Output> xs_, targets_, weights_;
  Output loss_;
  Node* train_ = nullptr;
  std::unique_ptr<Session> session_;
};

// A training program on the GPUs of a stand-in, which saves all its steps in `checkpoint_dir`.
class Program {
 public:
  Program(const RuntimeOptions& options, const std::string& checkpoint_dir)
      : runtime_(Runtime::Create(options).value()),
        worker_(*runtime_, runtime_->task()),
        g_(runtime_->ops()),
        strategy_(MirroredStrategy::Create(*runtime_).value()) {
    const std::vector<Output> losses = strategy_->Run(g_, [&](const Replica& replica) {
      const ModelVariable w = MakeVariable(g_, "w", Tensor::Vector<float>({1, 2}));
      if (replica.index == 0) w_ = w.value;
      return Mean(g_, Square(g_, w.value), ConstIntegers(g_, {0}));
    });
    const auto optimizer = strategy_->MakeOptimizer([] { return Momentum(0.1, 0.9); });
    global_step_ = GlobalStep(g_);
    train_ = optimizer->Minimize(g_, losses, global_step_).value();
    auto hook = std::make_shared<TestHook>();
    hook->after_create_session = [this](Session&, Coordinator&) {
      ++num_sessions_;
      return absl::OkStatus();
    };
    session_ = MonitoredTrainingSession(g_, {.target = {.workers = {&worker_},
                                                        .default_task = runtime_->task(),
                                                        .kernels = &runtime_->kernels()},
                                             .checkpoint_dir = checkpoint_dir,
                                             .hooks = {hook},
                                             .save_checkpoint_steps = 1,
                                             .save_summaries_steps = 0,
                                             .log_step_count_steps = 0})
                   .value();
  }

  MonitoredSession& session() { return *session_; }
  int num_sessions() const { return num_sessions_; }
  absl::Status Step() { return session_->Run({}, {}, {train_}).status(); }
  std::vector<float> Weights() {
    const Tensor w = session_->Run({}, {w_}).value()[0];
    return {w.flat<float>().begin(), w.flat<float>().end()};
  }

 private:
  const std::unique_ptr<Runtime> runtime_;
  LocalWorker worker_;
  GraphBuilder g_;
  const std::unique_ptr<MirroredStrategy> strategy_;
  Output w_;
  ModelVariable global_step_;
  Node* train_ = nullptr;
  std::atomic<int> num_sessions_{0};
  std::unique_ptr<MonitoredSession> session_;
};

class MirroredGpusTest : public ::testing::Test {
 protected:
  RuntimeOptions Gpus(int count, int num_cpus = 1) {
    return {.num_cpus = num_cpus, .num_gpus = count, .num_threads = 2, .cuda = &cuda_.backend()};
  }
  int CountOf(const std::string& begin) const {
    const std::vector<std::string> log = api_.log();
    return static_cast<int>(std::count_if(
        log.begin(), log.end(), [&](const std::string& line) { return absl::StartsWith(line, begin); }));
  }
  static void ExpectNear(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
  }

  RecordingCudaApi api_{{.num_devices = 4}};
  TestCudaBackend cuda_{api_};
};

TEST_F(MirroredGpusTest, GpusTrainAsCpusAndCopyNothingButWhatIsFedAndFetched) {
  for (const int size : {2, 4}) {
    Towers on_cpus({.num_cpus = size, .num_threads = 2}, {});
    Towers on_gpus(Gpus(size), {});
    ASSERT_EQ(on_gpus.strategy().devices()[0], "/device:GPU:0");
    for (int64_t step = 0; step < 20; ++step) {
      api_.ClearLog();
      cuda_.nccl().ClearLog();
      const absl::StatusOr<float> loss = on_gpus.Step(step), expected = on_cpus.Step(step);
      ASSERT_TRUE(loss.ok()) << loss.status();
      ASSERT_TRUE(expected.ok()) << expected.status();
      EXPECT_NEAR(*loss, *expected, 1e-5f * std::abs(*expected));
      if (step < 2) continue;                            // the divisor, constants
      EXPECT_EQ(CountOf("cudaMemcpyAsync to_host"), 1);  // the loss
      EXPECT_EQ(CountOf("cudaMemcpyAsync to_device"), 2 * size);
      EXPECT_EQ(CountOf("cudaLaunchKernel ncclAllReduce"), size);
      EXPECT_THAT(cuda_.nccl().log(),
                  ::testing::Contains("ncclAllReduce 6 float sum, rank 1 of " + absl::StrCat(size)));
    }
    const auto weights = on_gpus.Weights(), expected = on_cpus.Weights();
    for (int i = 0; i < size; ++i) {
      EXPECT_EQ(weights[i], weights[0]);
      ExpectNear(weights[i], expected[i], 1e-4f);
    }
  }
}

// The rows of sparse gradients are gathered by NCCL, their indices on the host.
TEST_F(MirroredGpusTest, TablesTrainAsOnCpus) {
  Towers on_cpus({.num_cpus = 2, .num_threads = 2}, {}, Model::kTable);
  Towers on_gpus(Gpus(2), {}, Model::kTable);
  for (int64_t step = 0; step < 10; ++step) {
    const absl::StatusOr<float> loss = on_gpus.Step(step), expected = on_cpus.Step(step);
    ASSERT_TRUE(loss.ok()) << loss.status();
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_NEAR(*loss, *expected, 1e-5f * std::abs(*expected));
  }
  const auto weights = on_gpus.Weights(), expected = on_cpus.Weights();
  EXPECT_EQ(weights[0], weights[1]);
  ExpectNear(weights[0], expected[0], 1e-4f);
  EXPECT_THAT(cuda_.nccl().log(), ::testing::Contains("ncclAllGather 32 bytes, rank 1 of 2"));
}

TEST_F(MirroredGpusTest, WithoutNcclTheyTrainThroughTheHost) {
  cuda_.nccl().SetMissing(absl::NotFoundError("NCCL cannot be opened"));
  Towers on_cpus({.num_cpus = 2, .num_threads = 2}, {});
  Towers on_gpus(Gpus(2), {});
  for (int64_t step = 0; step < 5; ++step) {
    ASSERT_TRUE(on_gpus.Step(step).ok() && on_cpus.Step(step).ok());
  }
  ExpectNear(on_gpus.Weights()[1], on_cpus.Weights()[1], 1e-4f);
  EXPECT_THAT(cuda_.nccl().log(), ::testing::IsEmpty());
}

// The group is no GPUs alone: their kernels use the host's group.
TEST_F(MirroredGpusTest, AGpuAndACpuTrainThroughTheHost) {
  Towers on_cpus({.num_cpus = 2, .num_threads = 2}, {});
  Towers mixed(Gpus(1), {.devices = {"/gpu:0", "/cpu:0"}});
  for (int64_t step = 0; step < 5; ++step) {
    const absl::StatusOr<float> loss = mixed.Step(step);
    ASSERT_TRUE(loss.ok()) << loss.status();
    ASSERT_TRUE(on_cpus.Step(step).ok());
  }
  for (int i = 0; i < 2; ++i) ExpectNear(mixed.Weights()[i], on_cpus.Weights()[i], 1e-4f);
  EXPECT_THAT(cuda_.nccl().log(), ::testing::IsEmpty());
}

// The other GPU does not know what this one has found, and must not apply a mean with its numbers.
TEST_F(MirroredGpusTest, WrongDataOfOneTowerChangeNoVariable) {
  Towers towers(Gpus(2), {}, Model::kClassifier);
  ASSERT_TRUE(towers.Step(0).ok());
  const auto before = towers.Weights();
  for (const int bad : {0, 1}) {
    const absl::Status status = towers.Step(1, bad).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("GPU:", bad)));
    EXPECT_EQ(towers.Weights(), before);
  }
  ASSERT_TRUE(towers.Step(2).ok());
  const auto after = towers.Weights();
  EXPECT_NE(after, before);
  EXPECT_EQ(after[0], after[1]);
  EXPECT_THAT(cuda_.nccl().log(), Not(::testing::IsEmpty()));
}

TEST_F(MirroredGpusTest, AGpuThatIsLostEndsTheStepAndIsNamed) {
  {
    Towers towers(Gpus(2), {});
    ASSERT_TRUE(towers.Step(0).ok());
    api_.LoseDevice(1, kCudaIllegalAddress);
    const absl::Status status = towers.Step(1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("GPU:1"));
  }
  // An abort lets a real stream go on; the stand-in's keeps what it has not done.
  for (const std::string& problem : api_.TakeProblems()) {
    EXPECT_THAT(problem, ::testing::AnyOf("pinned memory was freed before its copies were over",
                                          HasSubstr("events were never destroyed")));
  }
}

// The GPUs are well, but their variables have got what an abort leaves.
TEST_F(MirroredGpusTest, AfterAnAbortNothingIsReadAndNoStepSucceeds) {
  Towers towers(Gpus(2), {});
  ASSERT_TRUE(towers.Step(0).ok());
  cuda_.nccl().BreakLinks();
  cuda_.nccl().SetAsyncError(0, absl::InternalError("NCCL error 6 (remote error)"));
  // Its loss may have been copied before the abort.
  absl::Status status = towers.Step(1).status();
  const absl::Time limit = absl::Now() + absl::Seconds(60);
  while (status.ok() && absl::Now() < limit) status = towers.ReadWeights();
  for (const absl::Status& failed : {status, towers.Step(2).status(), towers.ReadWeights()}) {
    EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable) << failed;
    EXPECT_THAT(std::string(failed.message()), HasSubstr("the collectives between "));
    EXPECT_THAT(std::string(failed.message()), HasSubstr("GPU:0: NCCL error 6 (remote error)"));
    EXPECT_EQ(ExitCodeFor(failed), kExitRetryable);
    EXPECT_FALSE(IsRecoverable(failed));
  }
}

std::string Directory(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  EXPECT_TRUE(PosixFileSystem().CreateDirectories(path).ok());
  return path;
}

// Weights on CPUs that go on from what was saved.
std::vector<float> SavedWeights(const std::string& directory) {
  return Program({.num_cpus = 2, .num_threads = 2}, directory).Weights();
}

TEST_F(MirroredGpusTest, AnAbortEndsTheProgramAndIsNotSaved) {
  const std::string directory = Directory("abort");
  {
    Program program(Gpus(2), directory);
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(program.Step().ok());
    cuda_.nccl().BreakLinks();
    cuda_.nccl().SetAsyncError(1, absl::InternalError("NCCL error 6 (remote error)"));
    absl::Status status;
    const absl::Time limit = absl::Now() + absl::Seconds(60);
    while (status.ok() && absl::Now() < limit) status = program.Step();
    EXPECT_EQ(ExitCodeFor(status), kExitRetryable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the collectives between "));
    EXPECT_EQ(program.session().Close(), status);
    EXPECT_EQ(program.num_sessions(), 1);
  }
  for (const float w : SavedWeights(directory)) EXPECT_LT(std::abs(w), 10);
}

// The stop comes first: what is saved last is not what the abort leaves.
TEST_F(MirroredGpusTest, AnAbortWhileTheProgramIsStoppedIsNotSaved) {
  const std::string directory = Directory("stopped");
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        auto* const program = new Program(Gpus(2), directory);
        for (int step = 0; step < 3; ++step) {
          if (!program->Step().ok()) _exit(1);
        }
        cuda_.nccl().BreakLinks();
        cuda_.nccl().ClearLog();
        // In the step, whose checkpoint waits for the collective.
        std::thread breaks([&] {
          while (cuda_.nccl().log().empty()) absl::SleepFor(absl::Milliseconds(1));
          kill(getpid(), SIGTERM);
          while (!program->session().should_stop()) absl::SleepFor(absl::Milliseconds(1));
          cuda_.nccl().SetAsyncError(1, absl::InternalError("NCCL error 6 (remote error)"));
        });
        program->Step().IgnoreError();
        breaks.join();
        const absl::Status status = program->session().Close();
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        _exit(ExitCodeFor(status));
      },
      ::testing::ExitedWithCode(kExitRetryable), "the collectives between ");
  for (const float w : SavedWeights(directory)) EXPECT_LT(std::abs(w), 10);
}

// So it is with any lost GPU.
TEST_F(MirroredGpusTest, AGpuThatIsLostEndsTheProgram) {
  const std::string directory = Directory("lost");
  {
    Program program(Gpus(1), directory);
    ASSERT_TRUE(program.Step().ok());
    api_.LoseDevice(0, kCudaIllegalAddress);
    const absl::Status status = program.Step();
    EXPECT_EQ(ExitCodeFor(status), kExitRetryable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorIllegalAddress"));
    EXPECT_EQ(program.num_sessions(), 1);
  }
  api_.TakeProblems();  // what a lost device has, nobody gives back
}

TEST_F(MirroredGpusTest, WithoutNcclIfTheProgramWantsNone) {
  Towers on_cpus({.num_cpus = 2, .num_threads = 2}, {});
  Towers on_gpus(Gpus(2), {.nccl = false});
  for (int64_t step = 0; step < 5; ++step) {
    ASSERT_TRUE(on_gpus.Step(step).ok() && on_cpus.Step(step).ok());
  }
  ExpectNear(on_gpus.Weights()[1], on_cpus.Weights()[1], 1e-4f);
  EXPECT_THAT(cuda_.nccl().log(), ::testing::IsEmpty());
}

TEST_F(MirroredGpusTest, OneGpuNeedsNoNccl) {
  Towers alone(Gpus(1), {});
  for (int64_t step = 0; step < 3; ++step) {
    api_.ClearLog();
    ASSERT_TRUE(alone.Step(step).ok());
  }
  EXPECT_EQ(CountOf("cudaMemcpyAsync to_host"), 1);
  EXPECT_THAT(cuda_.nccl().log(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace weir
