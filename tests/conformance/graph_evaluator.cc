// Runs the graphs that tensorflow_test.py writes, with gradients of our own.
//
// usage: graph_evaluator GRAPHS RESULTS
// GRAPHS is a TFRecord file of GraphDefs. In each, the placeholders x0, x1... are fed with the values of the
// Consts x0_value...; y0, y1... are fetched, and where a y has a placeholder dy0... (fed alike) the gradients
// of these ys with respect to all floating xs too. RESULTS gets one GraphDef a graph: the Consts y0... and
// g0... (the gradient of x0; none where none flows), or `error`, a string.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/evaluate.h"
#include "kernels/formats/record_io.h"
#include "ops/register_ops.h"

namespace weir {
namespace {

using Feeds = std::vector<std::pair<Output, Tensor>>;

// Nodes prefix0, prefix1... as far as there are.
std::vector<Node*> Numbered(const Graph& graph, const std::string& prefix) {
  std::vector<Node*> nodes;
  while (true) {
    const auto node = graph.LookupNode(absl::StrCat(prefix, nodes.size()));
    if (!node.ok()) return nodes;
    nodes.push_back(*node);
  }
}

class Evaluator {
 public:
  Evaluator() : device_(MakeCpuDevice("test", 0, 0, threads_)) { RegisterCpuKernels(kernels_); }

  // Adds what `bytes`, a GraphDef, asks for to `results`.
  absl::Status Evaluate(const std::string& bytes, GraphBuilder& results) {
    GraphBuilder g(StandardOps());
    tensorflow::GraphDef graph_def;
    if (!graph_def.ParseFromString(bytes)) return absl::InvalidArgumentError("a record is no GraphDef");
    WEIR_RETURN_IF_ERROR(ImportGraphDef(graph_def, {}, &g.graph()));
    std::vector<Output> xs, ys, dys, differentiated, floating;
    Feeds feeds;
    for (Node* x : Numbered(g.graph(), "x")) {
      xs.push_back(x->output(0));
      WEIR_RETURN_IF_ERROR(Feed(g.graph(), *x, &feeds));
    }
    for (Node* y : Numbered(g.graph(), "y")) {
      ys.push_back(y->output(0));
      const auto dy = g.graph().LookupNode("d" + y->name());
      if (!dy.ok()) continue;
      differentiated.push_back(y->output(0));
      dys.push_back((*dy)->output(0));
      WEIR_RETURN_IF_ERROR(Feed(g.graph(), **dy, &feeds));
    }
    WEIR_RETURN_IF_ERROR(Add("y", ys, feeds, results));
    if (dys.empty()) return absl::OkStatus();
    for (const Output& x : xs) {
      if (IsFloating(x.dtype())) floating.push_back(x);
    }
    WEIR_ASSIGN_OR_RETURN(const std::vector<Output> gradients,
                          AddGradients(g, differentiated, floating, dys));
    std::vector<Output> of_all_xs(xs.size());
    for (size_t i = 0, k = 0; i < xs.size(); ++i) {
      if (IsFloating(xs[i].dtype())) of_all_xs[i] = gradients[k++];
    }
    return Add("g", of_all_xs, feeds, results);
  }

 private:
  static absl::Status Feed(const Graph& graph, const Node& placeholder, Feeds* feeds) {
    WEIR_ASSIGN_OR_RETURN(const Node* value, graph.LookupNode(placeholder.name() + "_value"));
    feeds->emplace_back(graph.LookupNode(placeholder.name()).value()->output(0),
                        value->attr<Tensor>("value"));
    return absl::OkStatus();
  }

  absl::Status Add(const std::string& prefix, const std::vector<Output>& outputs, const Feeds& feeds,
                   GraphBuilder& results) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i]) continue;
      WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                            EvaluateGraph({outputs[i]}, feeds, *device_, kernels_));
      results.AddNode("Const", {}, {{"value", values[0]}, {"dtype", values[0].dtype()}},
                      absl::StrCat(prefix, i));
    }
    return results.status();
  }

  ThreadPool threads_{2};
  const std::unique_ptr<Device> device_;
  KernelRegistry kernels_;
};

absl::Status EvaluateAll(const std::string& graphs, const std::string& results) {
  Evaluator evaluator;
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordReader> reader, RecordReader::Open(graphs));
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordWriter> writer, RecordWriter::Create(results));
  std::string bytes;
  while (true) {
    WEIR_ASSIGN_OR_RETURN(const bool is_there, reader->ReadNext(&bytes));
    if (!is_there) return writer->Close();
    auto result = std::make_unique<GraphBuilder>(StandardOps());
    if (const absl::Status status = evaluator.Evaluate(bytes, *result); !status.ok()) {
      result = std::make_unique<GraphBuilder>(StandardOps());
      result->AddNode("Const", {}, {{"value", Tensor::Scalar(status.ToString())}, {"dtype", DType::kString}},
                      "error");
    }
    WEIR_ASSIGN_OR_RETURN(const std::string record, GraphDefBytes(result->graph()));
    WEIR_RETURN_IF_ERROR(writer->Write(record));
  }
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: graph_evaluator GRAPHS RESULTS\n");
    return 2;
  }
  const absl::Status status = weir::EvaluateAll(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
