// What the runtime itself costs: executor, session, graph.
#include <algorithm>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/local_session.h"

namespace weir::bench {
namespace {

constexpr int kThreadCounts[] = {1, 2};

// A graph of n NoOps joined by control edges; returns its sink.
Node* NullGraph(GraphBuilder& g, absl::string_view kind, int n) {
  std::vector<Node*> nodes = {NoOp(g)};
  if (kind == "chain") {
    for (int i = 1; i < n; ++i) nodes = {Group(g, nodes)};
    return nodes[0];
  }
  if (kind == "fan") {
    std::vector<Node*> leaves;
    for (int i = 0; i < n - 2; ++i) leaves.push_back(Group(g, nodes));
    return Group(g, leaves);
  }
  std::mt19937 random(0);
  for (int i = 1; i < n - 1; ++i) {
    std::set<Node*> before;
    for (int k = 0; k < std::min(i, 3); ++k) {
      before.insert(nodes[std::uniform_int_distribution<int>(std::max(0, i - 64), i - 1)(random)]);
    }
    nodes.push_back(Group(g, std::vector<Node*>(before.begin(), before.end())));
  }
  return Group(g, nodes);
}

}  // namespace

void ExecutorNull() {
  for (absl::string_view kind : {"chain", "fan", "random"}) {
    for (int threads : kThreadCounts) {
      double seconds[2];
      const int sizes[] = {1000, 11000};
      for (int i : {0, 1}) {
        LocalSession local(threads);
        Node* sink = NullGraph(local.graph, kind, sizes[i]);
        auto step = Must(local.session().Prepare({}, {}, {sink}));
        seconds[i] = MedianSeconds([&] { MustOk(step->Run({}, {})); });
      }
      Emit(absl::StrCat("executor_null_", kind, "_", threads, "t"), (seconds[1] - seconds[0]) / 10000 * 1e9,
           "ns/node", {{"run_1000_us", seconds[0] * 1e6}, {"run_11000_us", seconds[1] * 1e6}});
    }
  }
}

void SmallOps() {
  for (int threads : kThreadCounts) {
    double seconds[2];
    const int sizes[] = {100, 1100};
    for (int i : {0, 1}) {
      LocalSession local(threads, {.fuses_elementwise = false});  // what is measured is the executor
      GraphBuilder& g = local.graph;
      const Tensor ones = Tensor::FromSpan<float>(Shape({16}), std::vector<float>(16, 1));
      const Output x = Placeholder(g, DType::kFloat32, {16}), c = Const(g, ones);
      Output y = x;
      for (int k = 0; k < sizes[i]; ++k) y = AddV2(g, y, c);
      auto step = Must(local.session().Prepare({x}, {}, {y}));
      seconds[i] = MedianSeconds([&] { MustOk(step->Run({ones}, {})); });
    }
    Emit(absl::StrCat("small_add16_", threads, "t"), (seconds[1] - seconds[0]) / 1000 * 1e9, "ns/op",
         {{"run_100_us", seconds[0] * 1e6}});
  }
}

void SessionRun() {
  LocalSession local;
  GraphBuilder& g = local.graph;
  const Output x = Placeholder(g, DType::kFloat32, Shape()), y = Identity(g, x);
  Node* nothing = NoOp(g);
  const Tensor value = Tensor::Scalar(1.0f);
  Session& session = local.session();
  Emit("session_run_python", MedianSeconds([&] { Must(session.Run({{x, value}}, {y})); }) * 1e6, "us");
  auto step = Must(session.Prepare({x}, {y}));
  Tensor result;
  const double prepared = MedianSeconds([&] { MustOk(step->Run({value}, absl::MakeSpan(&result, 1))); });
  Emit("session_make_callable", prepared * 1e6, "us");
  Emit("session_callable_options", prepared * 1e6, "us");
  auto no_op = Must(session.Prepare({}, {}, {nothing}));
  Emit("session_callable_noop", MedianSeconds([&] { MustOk(no_op->Run({}, {})); }) * 1e6, "us");
}

void BigGraph() {
  for (bool optimized : {false, true}) {
    LocalSession local(2);
    GraphBuilder& g = local.graph;
    const Tensor value(DType::kFloat32, Shape({16}));
    Output x, sum;
    const double build = MedianSeconds(
        [&] {
          x = Placeholder(g, DType::kFloat32, {16});
          std::vector<Output> ys(8, x);
          for (int i = 0; i < 36000 / 8; ++i) {
            std::vector<Output> next;
            for (int k = 0; k < 8; ++k) next.push_back(AddV2(g, ys[k], ys[(k + 1) % 8]));
            ys = next;
          }
          sum = AddN(g, ys);
        },
        0);
    Session& session = local.session();
    const auto run = [&] { Must(session.Run({{x, value}}, {sum})); };
    const double first = MedianSeconds(run, 0, 1, 0), next = MedianSeconds(run, 0.5);
    Emit(absl::StrCat("graph36k_first_run", optimized ? "_optimized" : ""), first * 1e3, "ms",
         {{"build_ms", build * 1e3}, {"next_run_ms", next * 1e3}});
  }
}

}  // namespace weir::bench
