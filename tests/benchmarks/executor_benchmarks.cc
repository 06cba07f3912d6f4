// What the executors cost with kernels that really run: graphs of additions of float[16].
//
// Graphs of NoOps measure nothing here, because a NoOp does not outlive compiling. No two additions of these
// graphs have equal inputs, so none is merged with another; that they become one node is switched off.
// tests/benchmarks/peers/tensorflow_executor.py builds the same graphs with TensorFlow.
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/control_flow.h"
#include "ops/standard_ops.h"
#include "tests/benchmarks/benchmarks.h"
#include "tests/benchmarks/local_session.h"

namespace weir::bench {
namespace {

Tensor Vector(float value) { return Tensor::FromSpan<float>(Shape({16}), std::vector<float>(16, value)); }

struct AddGraph {
  Output x;     // fed: float [16]
  Output pred;  // fed: bool
  Output sink;
};

// Each addition waits for the one before it.
Output Chain(GraphBuilder& g, const AddGraph& graph, int n) {
  const Output c = Const(g, Vector(1));
  Output y = graph.x;
  for (int i = 0; i < n; ++i) y = AddV2(g, y, c);
  return y;
}

// All additions are ready at once.
Output Fan(GraphBuilder& g, const AddGraph& graph, int n) {
  std::vector<Output> sums;
  for (int i = 0; i < n; ++i) sums.push_back(AddV2(g, graph.x, Const(g, Vector(static_cast<float>(i)))));
  return AddN(g, sums);
}

// Each adds two different ones of the 64 before it.
Output Random(GraphBuilder& g, const AddGraph& graph, int n) {
  std::vector<Output> sums = {graph.x, AddV2(g, graph.x, Const(g, Vector(1)))};
  std::mt19937 random(0);
  std::set<std::pair<int, int>> pairs;
  std::set<int> unread = {1};
  while (static_cast<int>(sums.size()) < n + 1) {
    const int count = static_cast<int>(sums.size());
    std::uniform_int_distribution<int> pick(std::max(0, count - 64), count - 1);
    const auto [a, b] = std::minmax({pick(random), pick(random)});
    // Few pairs are there in the beginning: without a new one the next sum begins anew from x.
    const bool is_new = a != b && pairs.insert({a, b}).second;
    sums.push_back(is_new ? AddV2(g, sums[a], sums[b])
                          : AddV2(g, graph.x, Const(g, Vector(static_cast<float>(count)))));
    if (is_new) unread.erase(a), unread.erase(b);
    unread.insert(count);
  }
  std::vector<Output> ends;
  for (int i : unread) ends.push_back(sums[i]);
  return AddN(g, ends);
}

// A chain of conditionals with an addition in either branch: Switch, two additions of which one runs, Merge.
Output Conds(GraphBuilder& g, const AddGraph& graph, int n) {
  const Output c = Const(g, Vector(1)), d = Const(g, Vector(2));
  Output y = graph.x;
  for (int i = 0; i < n; ++i) {
    y = Cond(
        g, graph.pred, [&] { return std::vector{AddV2(g, y, c)}; },
        [&] { return std::vector{AddV2(g, y, d)}; })[0];
  }
  return y;
}

struct Kind {
  absl::string_view name;
  Output (*build)(GraphBuilder& g, const AddGraph& graph, int n);
  absl::string_view unit;
};

double SecondsOfGraph(const Kind& kind, int n, int threads) {
  LocalSession local(threads, {.fuses_elementwise = false});
  GraphBuilder& g = local.graph;
  AddGraph graph = {Placeholder(g, DType::kFloat32, {16}), Placeholder(g, DType::kBool, Shape()), {}};
  graph.sink = kind.build(g, graph, n);
  auto step = Must(local.session().Prepare({graph.x, graph.pred}, {}, {graph.sink}));
  const std::vector<Tensor> feeds = {Vector(0), Tensor::Scalar(true)};
  return MedianSeconds([&] { MustOk(step->Run(feeds, {})); });
}

}  // namespace

void ExecutorAdd() {
  const Kind kinds[] = {{"chain", Chain, "ns/op"},
                        {"fan", Fan, "ns/op"},
                        {"random", Random, "ns/op"},
                        {"cond", Conds, "ns/cond"}};
  for (const Kind& kind : kinds) {
    for (int threads : {1, 2}) {
      const double small = SecondsOfGraph(kind, 1000, threads);
      const double large = SecondsOfGraph(kind, 11000, threads);
      Emit(absl::StrCat("executor_add16_", kind.name, "_", threads, "t"), (large - small) / 10000 * 1e9,
           kind.unit, {{"run_1000_us", small * 1e6}, {"run_11000_us", large * 1e6}});
    }
  }
}

}  // namespace weir::bench
