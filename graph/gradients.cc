#include "graph/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status DoesNotFit(DType dtype, double value) {
  return absl::InvalidArgumentError(
      absl::StrCat("a gradient asks for the constant ", value, " of dtype ", DTypeName(dtype)));
}

template <typename T>
absl::StatusOr<Tensor> ScalarOf(double value) {
  if constexpr (std::is_same_v<T, bool>) {
    if (value != 0 && value != 1) return DoesNotFit(DTypeOf<T>, value);
  } else if constexpr (std::is_integral_v<T>) {
    // 2^digits is exact in double, the largest T may not be.
    const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
    const double begin = std::is_signed_v<T> ? -end : 0;
    if (value != std::trunc(value) || value < begin || value >= end) return DoesNotFit(DTypeOf<T>, value);
  }
  return Tensor::Scalar<T>(static_cast<T>(value));
}

absl::StatusOr<Tensor> ScalarTensor(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32:
      return ScalarOf<float>(value);
    case DType::kFloat64:
      return ScalarOf<double>(value);
    case DType::kInt32:
      return ScalarOf<int32_t>(value);
    case DType::kUint8:
      return ScalarOf<uint8_t>(value);
    case DType::kInt16:
      return ScalarOf<int16_t>(value);
    case DType::kInt8:
      return ScalarOf<int8_t>(value);
    case DType::kComplex64:
      return Tensor::Scalar(std::complex<float>(static_cast<float>(value)));
    case DType::kInt64:
      return ScalarOf<int64_t>(value);
    case DType::kBool:
      return ScalarOf<bool>(value);
    case DType::kBfloat16:
      return Tensor::Scalar(Bfloat16(static_cast<float>(value)));
    case DType::kUint16:
      return ScalarOf<uint16_t>(value);
    case DType::kComplex128:
      return Tensor::Scalar(std::complex<double>(value));
    case DType::kHalf:
      return Tensor::Scalar(Half(static_cast<float>(value)));
    case DType::kUint32:
      return ScalarOf<uint32_t>(value);
    case DType::kUint64:
      return ScalarOf<uint64_t>(value);
    case DType::kString:
    case DType::kResource:
    case DType::kVariant:
    case DType::kInvalid:
      break;
  }
  return DoesNotFit(dtype, value);
}

Output AddConstant(GraphBuilder& graph, Tensor value, SourceLocation where) {
  const DType dtype = value.dtype();
  return graph.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}}, "", where);
}

// Null when no scalar of the dtype has that value; the builder then has the error.
Output AddScalar(GraphBuilder& graph, DType dtype, double value, SourceLocation where) {
  absl::StatusOr<Tensor> scalar = ScalarTensor(dtype, value);
  if (scalar.ok()) return AddConstant(graph, *std::move(scalar), where);
  graph.SetError(scalar.status(), where);
  return {};
}

// One pass from the ys back to the xs.
class BackwardPass {
 public:
  BackwardPass(GraphBuilder& graph, SourceLocation where) : graph_(graph), where_(where) {}

  absl::Status Run(absl::Span<const Output> ys, absl::Span<const Output> xs,
                   absl::Span<const Output> grad_ys) {
    WEIR_ASSIGN_OR_RETURN(std::vector<Node*> order, graph_.graph().TopologicalOrder());
    FindPath(order, ys, xs);
    WEIR_RETURN_IF_ERROR(Seed(ys, grad_ys));
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (on_path_[(*node)->id()]) WEIR_RETURN_IF_ERROR(PassThrough(**node));
    }
    return graph_.status();
  }

  // The sum of all that has flowed into the output; null when nothing has.
  Output GradientOf(const Output& output) {
    auto found = flows_.find(output);
    if (found == flows_.end() || found->second.empty()) return {};
    std::vector<Output>& flows = found->second;
    if (flows.size() > 1) flows = {graph_.AddOp("AddN", {InputArg(flows)}, {}, "", output.node->source())};
    return flows[0];
  }

 private:
  // Marks the nodes that lie between some x and some y.
  void FindPath(const std::vector<Node*>& order, absl::Span<const Output> ys, absl::Span<const Output> xs) {
    const int count = graph_.graph().num_nodes();
    std::vector<bool> after_x(count, false), before_y(count, false);
    for (const Output& x : xs) after_x[x.node->id()] = true;
    for (const Output& y : ys) before_y[y.node->id()] = true;
    for (Node* node : order) {
      for (const Output& input : node->inputs()) {
        if (after_x[input.node->id()]) after_x[node->id()] = true;
      }
    }
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (!before_y[(*node)->id()]) continue;
      for (const Output& input : (*node)->inputs()) before_y[input.node->id()] = true;
    }
    on_path_.resize(count);
    for (int id = 0; id < count; ++id) on_path_[id] = after_x[id] && before_y[id];
  }

  absl::Status Seed(absl::Span<const Output> ys, absl::Span<const Output> grad_ys) {
    for (size_t i = 0; i < ys.size(); ++i) {
      if (!IsFloating(ys[i].dtype()) && !IsComplex(ys[i].dtype())) {
        return absl::InvalidArgumentError(absl::StrCat("gradient of '", ys[i].name(), "': it is ",
                                                       DTypeName(ys[i].dtype()), ", not floating point"));
      }
      flows_[ys[i]].push_back(i < grad_ys.size() && grad_ys[i] ? grad_ys[i] : OnesLike(ys[i]));
    }
    return absl::OkStatus();
  }

  Output OnesLike(const Output& y) {
    const Output one = AddScalar(graph_, y.dtype(), 1, where_);
    if (y.shape().rank() == 0) return one;
    const Output shape = graph_.AddOp("Shape", {y}, {}, "", where_);
    return graph_.AddOp("Fill", {shape, one}, {}, "", where_);
  }

  absl::Status PassThrough(Node& node) {
    std::vector<Output> output_grads;
    bool any = false;
    for (int i = 0; i < node.num_outputs(); ++i) {
      output_grads.push_back(GradientOf(node.output(i)));
      any = any || output_grads.back();
    }
    const GradientFunction gradient = node.op().def().gradient;
    if (!any || gradient == NotDifferentiable || !LeadsOn(node)) return absl::OkStatus();
    auto name_scope = graph_.NameScope(absl::StrCat(node.name(), "_grad"));
    auto device_scope = graph_.DeviceScope(node.requested_device().ToString());
    GradientContext context(graph_, node, output_grads);
    absl::Status status = gradient(context);
    if (status.ok()) status = graph_.status();
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("gradient of ", node.Describe(), ": ", status.message()));
    }
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (Output flow = context.input_grads()[i]) flows_[node.input(i)].push_back(flow);
    }
    return absl::OkStatus();
  }

  // False where only the node itself is an x: its inputs need no gradients.
  bool LeadsOn(const Node& node) const {
    return std::any_of(node.inputs().begin(), node.inputs().end(),
                       [this](const Output& input) { return on_path_[input.node->id()]; });
  }

  GraphBuilder& graph_;
  const SourceLocation where_;
  std::vector<bool> on_path_;
  absl::flat_hash_map<Output, std::vector<Output>> flows_;
};

}  // namespace

Output GradientContext::Constant(DType dtype, double value) {
  return AddScalar(graph_, dtype, value, node_.source());
}

Output GradientContext::Integers(std::vector<int32_t> values) {
  const Shape shape({static_cast<int64_t>(values.size())});
  return AddConstant(graph_, Tensor::FromSpan<int32_t>(shape, values), node_.source());
}

absl::StatusOr<std::vector<Output>> AddGradients(GraphBuilder& graph, absl::Span<const Output> ys,
                                                 absl::Span<const Output> xs,
                                                 absl::Span<const Output> grad_ys, SourceLocation where) {
  if (!graph.ok()) return graph.status();
  const auto is_null = [](const Output& output) { return !output; };
  if (std::any_of(ys.begin(), ys.end(), is_null) || std::any_of(xs.begin(), xs.end(), is_null)) {
    graph.SetError(absl::InvalidArgumentError("gradients: some y or x is no node's output"), where);
    return graph.status();
  }
  auto name_scope = graph.NameScope("gradients");
  BackwardPass pass(graph, where);
  if (absl::Status status = pass.Run(ys, xs, grad_ys); !status.ok()) {
    graph.SetError(status, where);
    return graph.status();
  }
  std::vector<Output> result;
  for (const Output& x : xs) result.push_back(pass.GradientOf(x));
  if (!graph.ok()) return graph.status();
  return result;
}

}  // namespace weir
