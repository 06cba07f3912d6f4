// Kernels of one program that run beside one another: when they do, that they do, and that nothing else
// changes.
#include "session/executor/overlap.h"

#include <atomic>
#include <optional>
#include <random>
#include <thread>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "graph/graph_builder.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"
#include "session/executor/overlap_options.h"
#include "session/executor/program.h"
#include "session/local_worker.h"
#include "session/runtime.h"
#include "session/session.h"
#include "session/test_acts.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

// Every kernel is handed over that may be, from the second step on.
OverlapOptions Always() {
  return {.min_kernel = absl::ZeroDuration(),
          .min_gain = -absl::InfiniteDuration(),
          .min_share = -1e9,
          .num_warm_up_steps = 0,
          .num_measured_steps = 1,
          .num_tried_steps = 0,
          .num_threads = 4};
}

class OverlapTest : public ActsTest {
 protected:
  OverlapTest() : ActsTest(/*is_stateful=*/false) {}

  void Start(const OverlapOptions& overlap, Threads* threads = nullptr) {
    session_ = nullptr;
    worker_ = nullptr;
    runtime_ =
        Runtime::Create({.num_threads = 4, .overlap = overlap, .register_kernels = RegisterAct}).value();
    worker_ = std::make_unique<LocalWorker>(*runtime_, runtime_->task(), nullptr, threads);
    EXPECT_TRUE(g_.ok()) << g_.status();
    session_ =
        Session::Create(g_.graph(), {worker_.get()}, runtime_->kernels(), {.rewrites = {.is_enabled = false}})
            .value();
  }

  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LocalWorker> worker_;
  std::unique_ptr<Session> session_;
};

TEST_F(OverlapTest, KernelsOfOneProgramMeet) {
  bool is_first_step = true;  // which measures them, one after another
  absl::Notification begun[3];
  std::atomic<int> num_met{0};
  std::vector<TensorRef> fetches;
  for (int i = 0; i < 3; ++i) {
    fetches.push_back(AddAct(Constant(static_cast<float>(i)), [&, i](KernelContext&) {
      if (is_first_step) return absl::OkStatus();
      begun[i].Notify();
      for (const absl::Notification& other : begun)
        num_met += other.WaitForNotificationWithTimeout(kPatience);
      return absl::OkStatus();
    }));
  }
  Start(Always());
  ASSERT_TRUE(session_->Run({}, fetches).ok());
  is_first_step = false;
  const auto out = session_->Run({}, fetches);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(num_met, 9) << "all three ran at once";
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*out)[i].scalar<float>(), i);
}

// A program is tried and given up between two looks of a step that is just beginning.
TEST_F(OverlapTest, StepsBeginWhileTheProgramIsGivenUp) {
  const auto nothing = [](KernelContext&) { return absl::OkStatus(); };
  const Output one = Constant(1);
  const std::vector<TensorRef> fetches = {AddAct(one, nothing), AddAct(one, nothing)};
  OverlapOptions options = Always();
  options.num_tried_steps = 1;
  Start(options);
  std::atomic<int> num_wrong{0};
  for (int plan = 0; plan < 1000; ++plan) {
    auto session =
        Session::Create(g_.graph(), {worker_.get()}, runtime_->kernels(), {.rewrites = {.is_enabled = false}})
            .value();
    auto step = session->Prepare({}, fetches).value();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 30; ++k) {
          Tensor results[2];
          num_wrong += !step->Run({}, absl::MakeSpan(results)).ok();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(num_wrong, 0);
}

TEST_F(OverlapTest, AnErrorOrACancellationEndsTheStep) {
  bool fails = false;
  std::atomic<int> num_later{0};
  std::vector<Output> acts;
  for (int i = 0; i < 8; ++i) {
    acts.push_back(AddAct(
        Constant(1),
        [&, i](KernelContext&) {
          return fails && i == 5 ? absl::InvalidArgumentError("broken") : absl::OkStatus();
        },
        absl::StrCat("act", i)));
  }
  const Output later = AddAct(acts[5], [&](KernelContext&) {
    ++num_later;
    return absl::OkStatus();
  });
  std::vector<TensorRef> fetches(acts.begin(), acts.end());
  fetches.push_back(later);
  Start(Always());
  for (int i = 0; i < 50; ++i) {
    fails = i % 2 == 1;
    num_later = 0;
    const absl::Status status = session_->Run({}, fetches).status();
    EXPECT_EQ(status.ok(), !fails);
    EXPECT_EQ(num_later, fails ? 0 : 1);
    if (fails) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("'act5'"));
    }
  }
}

TEST_F(OverlapTest, ACancelledStepStartsNoFurtherKernel) {
  bool cancels = false;
  std::atomic<int> num_later{0};
  const Output first = AddAct(Constant(1), [&](KernelContext& context) {
    if (cancels) context.cancellation().Cancel(absl::AbortedError("no longer wanted"));
    return absl::OkStatus();
  });
  std::vector<TensorRef> fetches;
  for (int i = 0; i < 2; ++i) {
    fetches.push_back(AddAct(first, [&](KernelContext&) {
      ++num_later;
      return absl::OkStatus();
    }));
  }
  Start(Always());
  auto prepared = session_->Prepare({}, fetches).value();
  for (int i = 0; i < 20; ++i) {
    cancels = i % 2 == 1;
    num_later = 0;
    const auto results = prepared->Start({})->Await();
    EXPECT_EQ(results.ok(), !cancels);
    // The reason, not an error of the kernel that was about to begin.
    EXPECT_EQ(results.status().message(), cancels ? runtime_->task().ToString() + ": no longer wanted" : "");
    EXPECT_EQ(num_later, cancels ? 0 : 2);
  }
}

// Three variables that are read, used and updated again and again in one step, with random numbers between.
class Model {
 public:
  Model(GraphBuilder& g, uint64_t seed) : g_(g), random_(seed) {
    const AttrMap attrs = {{"dtype", DType::kFloat32}, {"shape", PartialShape({4})}};
    for (int i = 0; i < 3; ++i) {
      AttrMap named = attrs;
      named.emplace("shared_name", absl::StrCat("v", i));
      handles_.push_back(g.AddOp("VarHandleOp", {}, named));
      inits.push_back(g.AddNode("AssignVariableOp", {handles_.back(), Vector(static_cast<float>(i))}));
    }
    // A second handle of the first one.
    handles_.push_back(
        g.AddOp("VarHandleOp", {},
                {{"dtype", DType::kFloat32}, {"shape", PartialShape({4})}, {"shared_name", "v0"}}));
    values_.push_back(Vector(0.5f));
    for (int i = 0; i < 40; ++i) AddNode();
    for (int i = 0; i < 6; ++i) fetches.push_back(Any(values_));
    for (int i = 0; i < 3; ++i) reads.push_back(Read(handles_[i]));
  }

  std::vector<TargetRef> inits, targets;
  std::vector<TensorRef> fetches, reads;

 private:
  size_t Below(size_t limit) { return random_() % limit; }
  Output Any(const std::vector<Output>& of) { return of[Below(of.size())]; }
  Output Vector(float value) {
    return g_.AddOp("Const", {},
                    {{"value", Tensor::Vector<float>({value, 1, 2, value})}, {"dtype", DType::kFloat32}});
  }
  Output Read(Output handle) { return g_.AddOp("ReadVariableOp", {handle}, {{"dtype", DType::kFloat32}}); }
  void AddNode() {
    static constexpr const char* kUpdates[] = {"AssignAddVariableOp", "AssignSubVariableOp",
                                               "AssignVariableOp"};
    switch (Below(6)) {
      case 0:
        return values_.push_back(Read(Any(handles_)));
      case 1:
        return targets.push_back(g_.AddNode(kUpdates[Below(3)], {Any(handles_), Any(values_)}));
      case 2:
        return values_.push_back(g_.AddOp(
            "RandomUniform",
            {g_.AddOp("Const", {}, {{"value", Tensor::Vector<int32_t>({4})}, {"dtype", DType::kInt32}})},
            {{"dtype", DType::kFloat32},
             {"seed", int64_t{7}},
             {"seed2", static_cast<int64_t>(Below(1000))}}));
      case 3:
        return values_.push_back(g_.AddOp("Tanh", {Any(values_)}));
      default:
        return values_.push_back(g_.AddOp("AddV2", {Any(values_), Any(values_)}));
    }
  }

  GraphBuilder& g_;
  std::mt19937_64 random_;
  std::vector<Output> handles_, values_;
};

// What some steps give, and leave in the variables.
std::vector<std::vector<float>> Outcome(Session& session, const Model& model, Scheduler* scheduler) {
  std::vector<std::vector<float>> outcome;
  const auto run = [&](const std::vector<TensorRef>& fetches, const std::vector<TargetRef>& targets) {
    auto step = session.Prepare({}, fetches, targets).value()->Start({});
    while (scheduler != nullptr && scheduler->RunOne()) {
    }
    const auto out = step->Await();
    EXPECT_TRUE(out.ok()) << out.status();
    if (!out.ok()) return;
    for (const Tensor& tensor : *out) {
      outcome.emplace_back(tensor.flat<float>().begin(), tensor.flat<float>().end());
    }
  };
  run({}, model.inits);
  for (int i = 0; i < 6; ++i) run(model.fetches, model.targets);
  run(model.reads, {});
  return outcome;
}

TEST_F(OverlapTest, TheNumbersAreThoseOfOneThread) {
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
    GraphBuilder g(ops_);
    const Model model(g, seed);
    ASSERT_TRUE(g.ok()) << g.status();
    const auto outcome = [&](const OverlapOptions& overlap, Scheduler* scheduler) {
      std::optional<SimulatedEnvironment> simulated;
      if (scheduler != nullptr) simulated.emplace(*scheduler, "worker");
      Environment& environment = simulated ? static_cast<Environment&>(*simulated) : RealEnvironment();
      const auto runtime =
          Runtime::Create({.num_threads = 2, .overlap = overlap, .environment = &environment}).value();
      LocalWorker worker(*runtime, runtime->task());
      const auto session =
          Session::Create(g.graph(), {&worker}, runtime->kernels(), {.environment = &environment}).value();
      return Outcome(*session, model, scheduler);
    };
    const auto expected = outcome({.num_threads = 1}, nullptr);
    for (uint64_t order = 0; order < 5; ++order) {
      Scheduler scheduler(100 * seed + order);
      EXPECT_EQ(outcome(Always(), &scheduler), expected) << "seed " << seed << ", order " << order;
    }
    EXPECT_EQ(outcome(Always(), nullptr), expected) << "seed " << seed << " on real threads";
  }
}

// What is decided for a program of `count` chains of two kernels each, and a last kernel that needs them all.
class DecisionTest : public OverlapTest {
 protected:
  static constexpr int64_t kMicrosecond = 1000;

  void Compile(int count) {
    runtime_ = Runtime::Create({.num_threads = 2}).value();
    std::vector<Output> ends;
    for (int i = 0; i < count; ++i) {
      ends.push_back(g_.AddOp("Neg", {g_.AddOp("Neg", {Constant(static_cast<float>(i))})}));
    }
    g_.AddOp("AddN", {InputArg(ends)});
    ASSERT_TRUE(g_.ok()) << g_.status();
    Device& device = *runtime_->devices()[0];
    auto graph = g_.graph().Clone();
    for (const auto& node : graph->nodes()) graph->SetAssignedDevice(node.get(), device.name());
    auto program = Program::Compile(*graph, device, runtime_->kernels());
    ASSERT_TRUE(program.ok()) << program.status();
    program_ = *std::move(program);
    ASSERT_EQ(program_->instructions().size(), 2 * count + 1);
  }

  // A step in which every kernel takes that long.
  static void Measure(Overlap& overlap, int64_t nanoseconds, bool is_split = false, bool is_ok = true) {
    auto times = overlap.BeginStep();
    if (times == nullptr) return;
    std::fill(times->nanoseconds.begin(), times->nanoseconds.end(), nanoseconds);
    std::fill(times->is_split.begin(), times->is_split.end(), is_split);
    // The step itself takes as long as its kernels one after another.
    times->step_began -= nanoseconds * static_cast<int64_t>(times->nanoseconds.size());
    overlap.EndStep(std::move(times), is_ok);
  }
  bool Decide(int64_t nanoseconds, bool is_split = false, const OverlapOptions& options = {}) {
    Overlap overlap(*program_, options);
    while (overlap.is_undecided()) Measure(overlap, nanoseconds, is_split);
    return overlap.overlaps();
  }

  std::unique_ptr<const Program> program_;
};

TEST_F(DecisionTest, LongKernelsThatDependOnNothingElseOverlap) {
  Compile(4);
  EXPECT_TRUE(Decide(200 * kMicrosecond));
  EXPECT_FALSE(Decide(40 * kMicrosecond)) << "too short";
  EXPECT_FALSE(Decide(200 * kMicrosecond, /*is_split=*/true)) << "they use all cores already";
  EXPECT_FALSE(Decide(200 * kMicrosecond, false, {.num_threads = 1}));
  EXPECT_FALSE(Decide(200 * kMicrosecond, false, {.min_gain = absl::Milliseconds(2)}));
  EXPECT_FALSE(Decide(200 * kMicrosecond, false, {.min_share = 0.6}));
}

TEST_F(DecisionTest, AChainDoesNot) {
  Compile(1);
  EXPECT_FALSE(Decide(1000 * kMicrosecond));
}

TEST_F(DecisionTest, TheScheduleIsSimulatedWithTheThreadsThereAre) {
  Compile(4);
  const std::vector<int64_t> times(9, 100 * kMicrosecond);
  const std::vector<bool> heavy(9, true), light(9, false);
  EXPECT_EQ(SimulateOverlap(*program_, times, light, 2), 900 * kMicrosecond);
  // Each that is handed over costs 10 us more; the last one runs alone.
  EXPECT_EQ(SimulateOverlap(*program_, times, heavy, 1), (8 * 110 + 100) * kMicrosecond);
  EXPECT_EQ(SimulateOverlap(*program_, times, heavy, 2), (4 * 110 + 100) * kMicrosecond);
  EXPECT_EQ(SimulateOverlap(*program_, times, heavy, 4), (2 * 110 + 100) * kMicrosecond);
  EXPECT_EQ(SimulateOverlap(*program_, times, heavy, 64), (2 * 110 + 100) * kMicrosecond);
}

TEST_F(DecisionTest, TheShortestTimeCountsAndFailedStepsDoNot) {
  Compile(4);
  Overlap overlap(*program_, {});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(overlap.BeginStep(), nullptr) << "to warm up";
  for (int i = 0; i < 20; ++i) Measure(overlap, kMicrosecond, false, /*is_ok=*/false);
  for (int i = 0; i < 7; ++i) {
    EXPECT_TRUE(overlap.is_undecided());
    Measure(overlap, (i == 3 ? 10 : 10000) * kMicrosecond);
  }
  auto times = overlap.BeginStep();
  ASSERT_NE(times, nullptr);
  EXPECT_EQ(overlap.BeginStep(), nullptr) << "one step at a time";
  overlap.EndStep(std::move(times), true);
  EXPECT_FALSE(overlap.is_undecided());
  EXPECT_FALSE(overlap.overlaps()) << "in some step they were short";
}

TEST_F(DecisionTest, AScheduleThatIsNoShorterIsGivenUp) {
  Compile(4);
  for (const auto& [tried, is_kept] : {std::pair(1700, true), std::pair(1790, false)}) {
    Overlap overlap(*program_, {});
    while (overlap.is_undecided()) Measure(overlap, 200 * kMicrosecond);
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(overlap.overlaps()) << "it is tried";
      overlap.AddTried((i == 5 ? tried : 5000) * kMicrosecond);
    }
    EXPECT_EQ(overlap.overlaps(), is_kept) << tried;
    overlap.AddTried(1);
    EXPECT_EQ(overlap.overlaps(), is_kept) << "for good";
  }
}

}  // namespace
}  // namespace weir
