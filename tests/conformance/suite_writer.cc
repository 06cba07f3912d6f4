// Writes every call of the suite, with what Weir answers, for suite_with_tensorflow_test.py to ask
// TensorFlow.
//
// usage: suite_writer CALLS [OP]
// CALLS becomes a TFRecord file with one GraphDef for each call (of the one op). In each:
//   x0, x1...              placeholders for the inputs; x0_value... are Consts with their values
//   tested                 the op; y0, y1... are Identities of its outputs
//   found_y0...            Consts with Weir's outputs
//   dy0_value...           Consts with what flows back into the outputs whose gradient is compared
//   found_g0...            Consts with Weir's gradients of the inputs (none where none flows)
//   no_gradient            a Const, there when Weir refuses to differentiate complex numbers
//   tolerance              a Const; 0: that of the dtype
//   error                  a Const string, in place of what Weir could not answer
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/graph_builder.h"
#include "graph/interchange/graph_def.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/evaluate.h"
#include "kernels/formats/record_io.h"
#include "kernels/reference/array.h"
#include "ops/register_ops.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;

Output AddConst(GraphBuilder& g, const std::string& name, const Tensor& value) {
  return g.AddOp("Const", {}, {{"value", value}, {"dtype", value.dtype()}}, name);
}

bool HasGradient(DType dtype) { return IsFloating(dtype) || IsComplex(dtype); }

// Not 1, and not the same everywhere.
Tensor Weights(const Tensor& like) {
  Array weights(reference::Index(like.shape().dims().begin(), like.shape().dims().end()));
  for (int64_t i = 0; i < weights.size(); ++i) weights[i] = 0.5 + 0.125 * static_cast<double>(i * 7 % 9);
  return weights.ToTensor(like.dtype());
}

// The graph of a call.
struct CallGraph {
  GraphBuilder g{StandardOps()};
  std::vector<Output> xs, ys;
  std::vector<std::pair<Output, Tensor>> feeds;
};

bool HasResources(const OpCase& call) {
  for (const CaseInput& input : call.inputs) {
    for (const Tensor& tensor : input.tensors) {
      if (tensor.dtype() == DType::kResource) return true;
    }
  }
  return false;
}

absl::StatusOr<std::unique_ptr<CallGraph>> Build(const OpCase& call) {
  auto graph = std::make_unique<CallGraph>();
  GraphBuilder& g = graph->g;
  std::vector<InputArg> args;
  std::vector<Output> variables;
  std::vector<Node*> assignments;
  for (const CaseInput& input : call.inputs) {
    std::vector<Output> outputs;
    for (const Tensor& tensor : input.tensors) {
      const std::string name = absl::StrCat("x", graph->xs.size());
      outputs.push_back(g.AddOp("Placeholder", {},
                                {{"dtype", tensor.dtype()}, {"shape", PartialShape(tensor.shape())}}, name));
      AddConst(g, name + "_value", tensor);
      graph->xs.push_back(outputs.back());
      graph->feeds.emplace_back(outputs.back(), tensor);
      if (!input.is_variable) continue;
      const std::string shared_name = absl::StrCat(DTypeName(tensor.dtype()), variables.size());
      const Output handle = g.AddOp(
          "VarHandleOp", {},
          {{"dtype", tensor.dtype()}, {"shape", PartialShape(tensor.shape())}, {"shared_name", shared_name}});
      assignments.push_back(g.AddNode("AssignVariableOp", {handle, outputs.back()}));
      variables.push_back(handle);
      outputs.back() = handle;
    }
    args.push_back(input.is_list ? InputArg(outputs) : InputArg(outputs[0]));
  }
  if (!g.ok()) return g.status();
  Node* node = nullptr;
  {
    const auto after_assignments = g.ControlScope(assignments);
    node = g.AddNode(call.op, std::move(args), call.attrs, "tested");
  }
  if (node == nullptr) return g.status();
  const auto add_result = [&](Output value) {
    graph->ys.push_back(g.AddOp("Identity", {value}, {}, absl::StrCat("y", graph->ys.size())));
  };
  for (int i = 0; i < node->num_outputs(); ++i) add_result(node->output(i));
  const auto after_update = g.ControlScope({node});
  for (const Output& variable : variables) {
    const DType dtype = variable.node->attr<DType>("dtype");
    add_result(g.AddOp("ReadVariableOp", {variable}, {{"dtype", dtype}}));
  }
  if (!g.ok()) return g.status();
  return graph;
}

class SuiteWriter {
 public:
  SuiteWriter() : device_(MakeCpuDevice("test", 0, 0, threads_)) { RegisterCpuKernels(kernels_); }

  absl::StatusOr<std::unique_ptr<CallGraph>> Answer(const OpCase& call) {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<CallGraph> answer, Build(call));
    AddConst(answer->g, "tolerance", Tensor::Scalar(call.tolerance));
    WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                          EvaluateGraph(answer->ys, answer->feeds, *device_, kernels_));
    for (size_t i = 0; i < values.size(); ++i) AddConst(answer->g, absl::StrCat("found_y", i), values[i]);
    const bool has_gradient = StandardOps().Find(call.op)->def().gradient != NotDifferentiable;
    if (call.check_gradient && has_gradient) {
      WEIR_RETURN_IF_ERROR(AnswerGradients(call, values, answer->g));
    }
    return answer;
  }

 private:
  // Nodes of gradients must not be in the graph that TensorFlow reads: they are in one of their own.
  absl::Status AnswerGradients(const OpCase& call, const std::vector<Tensor>& values, GraphBuilder& answer) {
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<CallGraph> graph, Build(call));
    std::vector<Output> xs, ys, dys;
    std::vector<std::string> names;
    for (size_t i = 0; i < graph->xs.size(); ++i) {
      if (!HasGradient(graph->xs[i].dtype())) continue;
      xs.push_back(graph->xs[i]);
      names.push_back(absl::StrCat("found_g", i));
    }
    for (size_t i = 0; i < graph->ys.size(); ++i) {
      const std::vector<int>& chosen = call.gradient_outputs;
      const bool is_chosen = chosen.empty() || std::find(chosen.begin(), chosen.end(), i) != chosen.end();
      if (!is_chosen || !HasGradient(graph->ys[i].dtype())) continue;
      const Tensor weights = Weights(values[i]);
      ys.push_back(graph->ys[i]);
      dys.push_back(AddConst(graph->g, absl::StrCat("dy", i), weights));
      AddConst(answer, absl::StrCat("dy", i, "_value"), weights);
    }
    if (xs.empty() || ys.empty()) return answer.status();
    const absl::StatusOr<std::vector<Output>> added = AddGradients(graph->g, ys, xs, dys);
    // Few gradients of complex numbers are written: the others are refused, never wrong.
    if (absl::IsUnimplemented(added.status()) && IsComplex(xs[0].dtype())) {
      AddConst(answer, "no_gradient", Tensor::Scalar(true));
      return answer.status();
    }
    WEIR_RETURN_IF_ERROR(added.status());
    const std::vector<Output>& gradients = *added;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i]) continue;
      WEIR_ASSIGN_OR_RETURN(const std::vector<Tensor> found,
                            EvaluateGraph({gradients[i]}, graph->feeds, *device_, kernels_));
      AddConst(answer, names[i], found[0]);
    }
    return answer.status();
  }

  ThreadPool threads_{2};
  const std::unique_ptr<Device> device_;
  KernelRegistry kernels_;
};

absl::Status WriteAll(const std::string& path, const std::string& op) {
  SuiteWriter suite;
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<RecordWriter> writer, RecordWriter::Create(path));
  std::vector<OpCase> calls = Suite::Whole().calls();
  for (OpCase& update : Suite::Whole().updates()) calls.push_back(std::move(update));
  for (const OpCase& call : calls) {
    if ((!op.empty() && call.op != op) || HasResources(call)) continue;  // no GraphDef holds a resource
    absl::StatusOr<std::unique_ptr<CallGraph>> answer = suite.Answer(call);
    if (!answer.ok()) {
      const std::string error = absl::StrCat(call.op, " ", call.label, ": ", answer.status().ToString());
      answer = std::make_unique<CallGraph>();
      AddConst((*answer)->g, "error", Tensor::Scalar(error));
    }
    WEIR_ASSIGN_OR_RETURN(const std::string record, GraphDefBytes((*answer)->g.graph()));
    WEIR_RETURN_IF_ERROR(writer->Write(record));
  }
  return writer->Close();
}

}  // namespace
}  // namespace weir::conformance

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: suite_writer CALLS [OP]\n");
    return 2;
  }
  const absl::Status status = weir::conformance::WriteAll(argv[1], argc == 3 ? argv[2] : "");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
