// Random graphs over several devices, run by simulated threads in random orders: every step must end,
// whatever the order, with the right values. When it does not, the test prints who waits for what.
//
// WEIR_INTERLEAVINGS says how many orders are tried (2,000); WEIR_INTERLEAVINGS_SEED where the seeds begin.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "absl/strings/numbers.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "graph/runtime_ops.h"
#include "graph/shape_inference.h"
#include "gtest/gtest.h"
#include "kernels/simulation/simulated_environment.h"
#include "ops/control_flow.h"
#include "ops/register_ops.h"
#include "session/local_worker.h"
#include "session/partial_run.h"
#include "session/runtime.h"
#include "session/session.h"

namespace weir {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  uint64_t value = 0;
  const char* text = std::getenv(name);
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// Passes its input on some time later, unless its step is cancelled before.
class Later final : public AsyncKernel {
 public:
  explicit Later(const KernelConstruction&) {}
  void ComputeAsync(KernelContext& context, Done done) override {
    context.set_output(0, context.input(0));
    // Whoever comes first, the timer or the cancellation, calls back.
    struct Wait {
      bool is_over = false;
      Done done;
    };
    auto wait = std::make_shared<Wait>();
    wait->done = std::move(done);
    const auto end = [wait](const absl::Status& status) {
      if (std::exchange(wait->is_over, true)) return;
      std::exchange(wait->done, nullptr)(status);
    };
    Cancellation& cancellation = context.cancellation();
    const uint64_t id = cancellation.OnCancel(end);
    if (id == 0) return;
    (void)context.step_threads()->Block([end, wait, &cancellation, id] {
      if (wait->is_over) return;
      cancellation.Remove(id);
      end(absl::OkStatus());
    });
  }
};

// Passes its input on, from a thread that may wait.
class Blocking final : public Kernel {
 public:
  explicit Blocking(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, context.input(0));
    return absl::OkStatus();
  }
  bool may_block() const override { return true; }
};

void RegisterTestKernels(KernelRegistry& registry, absl::string_view type) {
  registry.Register({.op = "Later", .device_type = std::string(type), .create = CreateKernel<Later>});
  registry.Register({.op = "Blocking", .device_type = std::string(type), .create = CreateKernel<Blocking>});
}

// A random graph of floats over four devices, and what each of its nodes gives and depends on.
class RandomGraph {
 public:
  RandomGraph(const OpRegistry& ops, uint64_t seed) : g(ops), random_(seed) {
    predicate = g.AddOp("Placeholder", {}, {{"dtype", DType::kBool}, {"shape", PartialShape({})}});
    for (int i = 0; i < 3; ++i) {
      feeds.push_back(g.AddOp("Placeholder", {}, {{"dtype", DType::kFloat32}, {"shape", PartialShape({})}}));
      Add(feeds.back(), [i](bool) { return FeedValue(i); }, {i});
    }
    num_feeds_ = static_cast<int>(outputs.size());
    Add(g.AddOp("Const", {}, {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}}),
        [](bool) { return 1.0f; }, {});
    const int count = 8 + Below(30);
    for (int i = 0; i < count; ++i) AddNode();
    for (int i = 0; i < 3; ++i) fetches.push_back(num_feeds_ + Below(outputs.size() - num_feeds_));
  }

  static float FeedValue(int feed) { return static_cast<float>(feed) - 1.5f; }
  static constexpr int kPredicate = 3;  // among what `needs` counts

  GraphBuilder g;
  Output predicate;
  std::vector<Output> feeds;
  std::vector<Output> outputs;
  std::vector<std::function<float(bool)>> values;  // for a predicate
  std::vector<std::set<int>> needs;                // feeds
  std::vector<size_t> fetches;

 private:
  static constexpr const char* kDevices[] = {"/cpu:0", "/cpu:1", "/gpu:0", "/gpu:1"};

  size_t Below(size_t limit) { return random_() % limit; }
  void Add(Output output, std::function<float(bool)> value, std::set<int> need) {
    outputs.push_back(output);
    values.push_back(std::move(value));
    needs.push_back(std::move(need));
  }
  void AddNode() {
    auto device = g.DeviceScope(kDevices[Below(4)]);
    const size_t a = Below(outputs.size()), b = Below(outputs.size());
    const size_t before = Below(outputs.size());
    Node* after = Below(4) == 0 ? outputs[before].node : nullptr;
    std::set<int> need = needs[a], both = needs[a];
    both.insert(needs[b].begin(), needs[b].end());
    // Nothing waits for a placeholder that is fed.
    for (std::set<int>* some : {&need, &both}) {
      if (after != nullptr && before >= feeds.size())
        some->insert(needs[before].begin(), needs[before].end());
    }
    auto control = after == nullptr ? g.ControlScope({}) : g.ControlScope({after});
    switch (Below(7)) {
      case 6:
        return AddLoop(a, b, both);
      case 0:
        return Add(g.AddOp("Later", {outputs[a]}), values[a], need);
      case 1:
        return Add(g.AddOp("Blocking", {outputs[a]}), values[a], need);
      case 2: {  // the branch that is taken doubles, the other one negates
        Node* branch = g.AddNode("Switch", {outputs[a], predicate});
        const Output no = g.AddOp("Neg", {branch->output(0)}),
                     yes = g.AddOp("AddV2", {branch->output(1), branch->output(1)});
        auto other = g.DeviceScope(kDevices[Below(4)]);
        Node* merge = g.AddNode("Merge", {InputArg({no, yes})});
        need.insert(kPredicate);
        return Add(
            merge->output(0),
            [value = values[a]](bool taken) { return value(taken) * (taken ? 2.0f : -1.0f); }, need);
      }
      default:
        return Add(
            g.AddOp("Mul", {g.AddOp("AddV2", {outputs[a], outputs[b]}), Half()}),
            [x = values[a], y = values[b]](bool taken) { return (x(taken) + y(taken)) * 0.5f; }, both);
    }
  }
  // A loop over devices, perhaps with another one inside, that takes the mean of its variable and b again and
  // again.
  void AddLoop(size_t a, size_t b, const std::set<int>& need) {
    const auto count = static_cast<float>(Below(6));
    const bool has_inner = Below(2) == 0;
    const int first = g.graph().num_nodes();
    const Output y = CountTo(Number(count), outputs[a], [&](const Output& counter, Output x) {
      const auto take_mean = [&](const Output&, const Output& v) {
        const Output mean = g.AddOp("Mul", {g.AddOp("AddV2", {v, outputs[b]}), Half()});
        return Below(3) == 0 ? g.AddOp(Below(2) == 0 ? "Later" : "Blocking", {mean}) : mean;
      };
      if (has_inner) x = CountTo(counter, x, take_mean);
      return take_mean(counter, x);
    });
    for (int id = first; id < g.graph().num_nodes(); ++id) {
      const DeviceName device = DeviceName::Parse(kDevices[Below(4)]).value();
      if (Below(3) != 0) g.graph().SetRequestedDevice(g.graph().node(id), device);
    }
    const auto value = [count, has_inner, x = values[a], y = values[b]](bool taken) {
      float v = x(taken);
      for (float i = 0; i < count; ++i) {
        const float num_means = has_inner ? i + 1 : 1;
        for (float j = 0; j < num_means; ++j) v = (v + y(taken)) * 0.5f;
      }
      return v;
    };
    Add(y, value, need);
  }
  template <typename Body>
  Output CountTo(const Output& end, const Output& x, Body body) {
    return While(
        g, {Number(0), x},
        [&](const std::vector<Output>& v) {
          return g.AddOp("Less", {v[0], end});
        },
        [&](const std::vector<Output>& v) {
          const Output next = g.AddOp("AddV2", {v[0], Number(1)});
          return std::vector{next, body(v[0], v[1])};
        },
        {.shape_invariants = {PartialShape({}), PartialShape()}})[1];
  }
  Output Number(float value) {
    return g.AddOp("Const", {}, {{"value", Tensor::Scalar(value)}, {"dtype", DType::kFloat32}});
  }
  Output Half() {
    return g.AddOp("Const", {}, {{"value", Tensor::Scalar(0.5f)}, {"dtype", DType::kFloat32}});
  }

  std::mt19937_64 random_;
  int num_feeds_ = 0;
};

class InterleavingsTest : public testing::Test {
 protected:
  InterleavingsTest() {
    EXPECT_TRUE(RegisterOps(ops_).ok());
    EXPECT_TRUE(RegisterRuntimeOps(ops_).ok());
    for (const char* name : {"Later", "Blocking"}) {
      EXPECT_TRUE(ops_.Register({.name = name,
                                 .summary = "Passes its input on.",
                                 .inputs = {"input: float"},
                                 .outputs = {"output: float"},
                                 .is_stateful = true,
                                 .infer_shapes = UnknownShape,
                                 .gradient = NotDifferentiable})
                      .ok());
    }
    runtime_ =
        Runtime::Create(
            {.num_cpus = 2, .num_fake_gpus = 2, .num_threads = 1, .register_kernels = RegisterTestKernels})
            .value();
  }

  // Several steps of one graph at once, in several orders.
  void TryGraph(uint64_t seed, int num_orders, bool in_parts = false) {
    RandomGraph graph(ops_, seed);
    ASSERT_TRUE(graph.g.ok()) << graph.g.status();
    Scheduler scheduler(seed);
    SimulatedEnvironment environment(scheduler, "worker");
    SimulatedThreads threads(environment);
    LocalWorker worker(*runtime_, runtime_->task(), nullptr, &threads);
    auto session =
        Session::Create(graph.g.graph(), {&worker}, runtime_->kernels(),
                        {.operation_timeout = absl::InfiniteDuration(), .environment = &environment})
            .value();
    std::vector<TensorRef> fetches;
    for (const size_t fetch : graph.fetches) fetches.push_back(graph.outputs[fetch]);
    std::vector<TensorRef> feeds(graph.feeds.begin(), graph.feeds.end());
    feeds.push_back(graph.predicate);
    auto prepared = session->Prepare(feeds, fetches);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    for (int order = 0; order < num_orders && !HasFailure(); ++order) {
      SCOPED_TRACE(absl::StrCat("seed ", seed, ", order ", order));
      if (in_parts) {
        TryParts(graph, scheduler, worker, *session, feeds, fetches);
      } else {
        TryOrder(graph, scheduler, worker, **prepared);
      }
    }
  }

  static Tensor Fed(int feed, bool predicate) {
    return feed == RandomGraph::kPredicate ? Tensor::Scalar(predicate)
                                           : Tensor::Scalar(RandomGraph::FeedValue(feed));
  }

  // Several partial runs at once; feeds and fetches in a random order, some of them too early or twice.
  void TryParts(const RandomGraph& graph, Scheduler& scheduler, const LocalWorker& worker, Session& session,
                const std::vector<TensorRef>& feeds, const std::vector<TensorRef>& fetches) {
    struct Part {
      std::unique_ptr<PartialRun> run;
      bool predicate = false;
      bool is_cancelled = false;
      std::set<int> fed, fetched;
      std::optional<absl::Status> end;
      int num_answers_left = 0;
    };
    std::vector<std::unique_ptr<Part>> parts;
    for (size_t i = 1 + scheduler.Below(3); i > 0; --i) {
      auto part = std::make_unique<Part>();
      part->predicate = scheduler.Below(2) == 1;
      auto run = session.StartPartialRun(feeds, fetches);
      ASSERT_TRUE(run.ok()) << run.status();
      part->run = *std::move(run);
      part->run->step().OnDone([&end = part->end](const Step::Results& results) { end = results.status(); });
      parts.push_back(std::move(part));
    }
    for (int call = 0; call < 60; ++call) {
      Part& part = *parts[scheduler.Below(parts.size())];
      const int feed = static_cast<int>(scheduler.Below(feeds.size()));
      const size_t fetch = graph.fetches[scheduler.Below(graph.fetches.size())];
      const bool feeds_one = scheduler.Below(2) == 0, fetches_one = scheduler.Below(3) == 0;
      std::set<int> fed = part.fed;
      bool fits = !(feeds_one && !fed.insert(feed).second);
      if (fetches_one) {
        fits = fits && !part.fetched.contains(fetch) &&
               std::includes(fed.begin(), fed.end(), graph.needs[fetch].begin(), graph.needs[fetch].end());
      }
      Feeds given;
      std::vector<TensorRef> asked;
      if (feeds_one) given.emplace_back(feeds[feed], Fed(feed, part.predicate));
      if (fetches_one) asked.push_back(graph.outputs[fetch]);
      struct Answer {
        bool is_refused = false, comes_at_once = true;
      };
      const auto answer = std::make_shared<Answer>();
      ++part.num_answers_left;
      part.run->Start(given, asked,
                      [&graph, answer, fetch, fits, fetches_one, &part](const Step::Results& results) {
                        --part.num_answers_left;
                        if (answer->comes_at_once && absl::IsInvalidArgument(results.status())) {
                          answer->is_refused = true;
                        }
                        if (!fits || part.is_cancelled) return;
                        ASSERT_TRUE(results.ok()) << results.status();
                        if (fetches_one) {
                          EXPECT_EQ((*results)[0].scalar<float>(), graph.values[fetch](part.predicate));
                        }
                      });
      answer->comes_at_once = false;
      if (!part.is_cancelled) {
        EXPECT_EQ(answer->is_refused, !fits);
      }
      if (fits) {
        part.fed = fed;
        if (fetches_one) part.fetched.insert(static_cast<int>(fetch));
      }
      for (size_t i = scheduler.Below(8); i > 0; --i) scheduler.RunOne();
      if (scheduler.Below(100) == 0) {
        part.is_cancelled = true;
        part.run->step().Cancel(absl::CancelledError("by the test"));
      }
    }
    while (scheduler.RunOne()) {
    }
    for (auto& part : parts) {
      // What was accepted is answered, but the call that waits for an end that needs more feeds.
      std::set<int> needed;
      for (const size_t fetch : graph.fetches)
        needed.insert(graph.needs[fetch].begin(), graph.needs[fetch].end());
      const bool has_all = std::includes(part->fed.begin(), part->fed.end(), needed.begin(), needed.end());
      EXPECT_EQ(part->num_answers_left, 0) << worker.DescribeWaits();
      EXPECT_EQ(part->end.has_value(), has_all || part->is_cancelled) << worker.DescribeWaits();
      part->run = nullptr;
    }
    while (scheduler.RunOne()) {
    }
    for (auto& part : parts) EXPECT_TRUE(part->end.has_value()) << worker.DescribeWaits();
    EXPECT_EQ(worker.num_running_steps(), 0);
  }

  void TryOrder(const RandomGraph& graph, Scheduler& scheduler, const LocalWorker& worker,
                PreparedStep& prepared) {
    struct Run {
      std::shared_ptr<Step> step;
      bool predicate = false;
      std::optional<Step::Results> results;
    };
    std::vector<Run> runs(1 + scheduler.Below(3));
    for (Run& run : runs) {
      run.predicate = scheduler.Below(2) == 1;
      std::vector<Tensor> fed;
      for (int feed = 0; feed <= RandomGraph::kPredicate; ++feed) fed.push_back(Fed(feed, run.predicate));
      run.step = prepared.Start(fed);
      run.step->OnDone([&run](const Step::Results& results) { run.results = results; });
      for (size_t i = scheduler.Below(8); i > 0; --i) scheduler.RunOne();
    }
    // Every third time a step is cancelled somewhere on its way.
    Run* const cancelled = scheduler.Below(3) == 0 ? &runs[scheduler.Below(runs.size())] : nullptr;
    if (cancelled != nullptr) {
      for (size_t i = scheduler.Below(60); i > 0; --i) scheduler.RunOne();
      cancelled->step->Cancel(absl::CancelledError("by the test"));
    }
    while (scheduler.RunOne()) {
    }
    for (const Run& run : runs) {
      ASSERT_TRUE(run.results.has_value()) << "nothing is left to run, but a step is not over:\n"
                                           << worker.DescribeWaits();
      if (&run == cancelled && !run.results->ok()) {
        EXPECT_EQ(run.results->status().message(), "by the test");
        continue;
      }
      ASSERT_TRUE(run.results->ok()) << run.results->status();
      for (size_t i = 0; i < graph.fetches.size(); ++i) {
        EXPECT_EQ((**run.results)[i].scalar<float>(), graph.values[graph.fetches[i]](run.predicate));
      }
    }
    EXPECT_EQ(worker.num_running_steps(), 0);
  }

  OpRegistry ops_;
  std::unique_ptr<Runtime> runtime_;
};

TEST_F(InterleavingsTest, EveryStepEndsInEveryOrder) {
  constexpr int kOrdersPerGraph = 20;
  const uint64_t count = FromEnvironment("WEIR_INTERLEAVINGS", 2000);
  const uint64_t first = FromEnvironment("WEIR_INTERLEAVINGS_SEED", 1);
  for (uint64_t i = 0; i < count / kOrdersPerGraph && !HasFailure(); ++i)
    TryGraph(first + i, kOrdersPerGraph);
}

TEST_F(InterleavingsTest, EveryPartialRunEndsInEveryOrder) {
  constexpr int kOrdersPerGraph = 10;
  const uint64_t count = FromEnvironment("WEIR_INTERLEAVINGS", 1000);
  const uint64_t first = FromEnvironment("WEIR_INTERLEAVINGS_SEED", 1);
  for (uint64_t i = 0; i < count / kOrdersPerGraph && !HasFailure(); ++i)
    TryGraph(first + i, kOrdersPerGraph, /*in_parts=*/true);
}

TEST_F(InterleavingsTest, DevicesOfOneStepAreReadyTogether) {
  GraphBuilder g(ops_);
  std::vector<TensorRef> fetches;
  for (const char* name : {"/cpu:0", "/cpu:1", "/gpu:0"}) {
    auto device = g.DeviceScope(name);
    fetches.push_back(
        g.AddOp("RandomUniform",
                {g.AddOp("Const", {}, {{"value", Tensor::Vector<int32_t>({2})}, {"dtype", DType::kInt32}})},
                {{"dtype", DType::kFloat32}}));
  }
  Scheduler scheduler(1);
  SimulatedEnvironment environment(scheduler, "worker");
  SimulatedThreads threads(environment);
  LocalWorker worker(*runtime_, runtime_->task(), nullptr, &threads);
  auto session =
      Session::Create(g.graph(), {&worker}, runtime_->kernels(), {.environment = &environment}).value();
  const auto step = session->Prepare({}, fetches).value()->Start({});
  EXPECT_EQ(scheduler.num_ready(), 3);
  while (scheduler.RunOne()) {
  }
  EXPECT_TRUE(step->Await().ok());
}

TEST_F(InterleavingsTest, TheDeadlineOfAStepThatWaitsIsATimer) {
  GraphBuilder g(ops_);
  const Output slow =
      g.AddOp("Later", {g.AddOp("Const", {}, {{"value", Tensor::Scalar(1.0f)}, {"dtype", DType::kFloat32}})});
  Output crossing;
  {
    auto device = g.DeviceScope("/gpu:0");
    crossing = g.AddOp("Neg", {slow});
  }
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Scheduler scheduler(seed);
    SimulatedEnvironment environment(scheduler, "worker");
    SimulatedThreads threads(environment);
    LocalWorker worker(*runtime_, runtime_->task(), nullptr, &threads);
    auto session =
        Session::Create(g.graph(), {&worker}, runtime_->kernels(), {.environment = &environment}).value();
    const auto step = session->Prepare({}, {crossing}).value()->Start({});
    while (scheduler.RunOneOrRing()) {
    }
    const Step::Results results = step->Await();
    if (!results.ok()) {
      EXPECT_EQ(results.status().code(), absl::StatusCode::kDeadlineExceeded);
    }
    EXPECT_EQ(worker.num_running_steps(), 0);
  }
}

}  // namespace
}  // namespace weir
