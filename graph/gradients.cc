#include "graph/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/node_of_graph.h"
#include "graph/types/float8.h"
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
  if (IsFloat8(dtype)) {
    Tensor scalar(dtype, Shape({}));
    scalar.flat<uint8_t>()[0] = FloatToFloat8(dtype, static_cast<float>(value));
    return scalar;
  }
  if (StoredAs(dtype) != dtype) {
    WEIR_ASSIGN_OR_RETURN(const Tensor stored, ScalarTensor(StoredAs(dtype), value));
    return Tensor(dtype, stored.shape(), stored.buffer());
  }
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
    default:
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

// The first element of a vector; a constant when the vector is one.
Output FirstElement(GraphBuilder& graph, Output vector, SourceLocation where) {
  if (vector && vector.node->op_name() == "Const") {
    const Tensor& value = vector.node->attr<Tensor>("value");
    if (value.dtype() == DType::kInt32 && value.num_elements() > 0) {
      return AddConstant(graph, Tensor::Scalar(value.flat<int32_t>()[0]), where);
    }
  }
  const auto vector_of = [&](int32_t number) {
    return AddConstant(graph, Tensor::Vector<int32_t>({number}), where);
  };
  return graph.AddOp("StridedSlice", {vector, vector_of(0), vector_of(1), vector_of(1)},
                     {{"shrink_axis_mask", 1}}, "", where);
}

// What leads from an x to a y: a gradient never flows through an integer, a bool or a string.
bool CarriesGradient(DType dtype) {
  return IsFloating(dtype) || IsComplex(dtype) || dtype == DType::kResource || dtype == DType::kVariant;
}

// The values, indices or shapes of some slices one below the other.
Output Concatenate(GraphBuilder& graph, const std::vector<Output>& parts, SourceLocation where) {
  const Output axis = AddScalar(graph, DType::kInt32, 0, where);
  return graph.AddOp("ConcatV2", {InputArg(parts), axis}, {}, "", where);
}

// The sum of some gradients by rows: all of them, one below the other.
IndexedSlices Collect(GraphBuilder& graph, const std::vector<Gradient>& flows, SourceLocation where) {
  std::vector<Output> values, indices;
  for (const Gradient& flow : flows) {
    const auto& slices = std::get<IndexedSlices>(flow);
    values.push_back(slices.values);
    indices.push_back(slices.indices);
  }
  const auto differs = [&](const Output& index) {
    return index && indices[0] && index.dtype() != indices[0].dtype();
  };
  if (std::any_of(indices.begin(), indices.end(), differs)) {
    for (Output& index : indices) {
      if (index.dtype() == DType::kInt64) continue;
      index = graph.AddOp("Cast", {index}, {{"DstT", DType::kInt64}}, "", where);
    }
  }
  return {Concatenate(graph, values, where), Concatenate(graph, indices, where),
          std::get<IndexedSlices>(flows[0]).dense_shape};
}

// One pass from the ys back to the xs.
class BackwardPass {
 public:
  BackwardPass(GraphBuilder& graph, SourceLocation where) : graph_(graph), where_(where) {}

  absl::Status Run(absl::Span<const Output> ys, absl::Span<const Output> xs,
                   absl::Span<const Output> grad_ys) {
    WEIR_ASSIGN_OR_RETURN(std::vector<Node*> order, graph_.graph().TopologicalOrder());
    FindPath(order, ys, xs);
    xs_ = xs;
    ys_ = ys;
    WEIR_RETURN_IF_ERROR(Seed(ys, grad_ys));
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (on_path_[(*node)->id()]) WEIR_RETURN_IF_ERROR(PassThrough(**node));
    }
    return graph_.status();
  }

  // The sum of all that has flowed into the output; null when nothing has.
  Gradient GradientOf(const Output& output) {
    auto found = flows_.find(output);
    if (found == flows_.end() || found->second.empty()) return Output();
    std::vector<Gradient>& flows = found->second;
    if (flows.size() > 1) flows = {SumOf(flows, output.node->source())};
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
        if (after_x[input.node->id()] && CarriesGradient(input.dtype())) after_x[node->id()] = true;
      }
    }
    for (auto node = order.rbegin(); node != order.rend(); ++node) {
      if (!before_y[(*node)->id()]) continue;
      for (const Output& input : (*node)->inputs()) {
        if (CarriesGradient(input.dtype())) before_y[input.node->id()] = true;
      }
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

  // Rows stay rows only where nothing else flows.
  Gradient SumOf(const std::vector<Gradient>& flows, SourceLocation where) {
    const auto is_slices = [](const Gradient& flow) { return std::holds_alternative<IndexedSlices>(flow); };
    if (std::all_of(flows.begin(), flows.end(), is_slices)) return Collect(graph_, flows, where);
    std::vector<Output> dense;
    for (const Gradient& flow : flows) dense.push_back(Densify(graph_, flow, where));
    return graph_.AddOp("AddN", {InputArg(dense)}, {}, "", where);
  }

  absl::Status PassThrough(Node& node) {
    const GradientFunction gradient = node.op().def().gradient;
    if (gradient == NotDifferentiable || !LeadsOn(node)) return absl::OkStatus();
    std::vector<Gradient> flows;
    for (int i = 0; i < node.num_outputs(); ++i) flows.push_back(GradientOf(node.output(i)));
    if (std::all_of(flows.begin(), flows.end(), IsNull)) return absl::OkStatus();
    auto name_scope = graph_.NameScope(absl::StrCat(node.name(), "_grad"));
    auto device_scope = graph_.DeviceScope(node.requested_device().ToString());
    GradientContext context(graph_, node, std::move(flows));
    absl::Status status = gradient(context);
    if (status.ok()) status = graph_.status();
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("gradient of ", node.Describe(), ": ", status.message(),
                                                      gradient == GradientMissing ? PathOf(node) : ""));
    }
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Gradient& flow = context.input_grads()[i];
      if (!IsNull(flow)) flows_[node.input(i)].push_back(flow);
    }
    return absl::OkStatus();
  }

  // "; it lies between y 'loss:0' and x 'w:0'".
  std::string PathOf(const Node& node) const {
    const auto precedes = [](const Node& before, const Node& after) {
      std::vector<const Node*> open = {&after};
      absl::flat_hash_set<const Node*> seen(open.begin(), open.end());
      while (!open.empty()) {
        const Node* const at = open.back();
        open.pop_back();
        if (at == &before) return true;
        for (const Output& input : at->inputs()) {
          if (CarriesGradient(input.dtype()) && seen.insert(input.node).second) open.push_back(input.node);
        }
      }
      return false;
    };
    const auto y =
        std::find_if(ys_.begin(), ys_.end(), [&](const Output& y) { return precedes(node, *y.node); });
    const auto x =
        std::find_if(xs_.begin(), xs_.end(), [&](const Output& x) { return precedes(*x.node, node); });
    if (y == ys_.end() || x == xs_.end()) return "";
    return absl::StrCat("; it lies between y '", y->name(), "' and x '", x->name(), "'");
  }

  // False where only the node itself is an x: its inputs need no gradients.
  bool LeadsOn(const Node& node) const {
    return std::any_of(node.inputs().begin(), node.inputs().end(), [this](const Output& input) {
      return on_path_[input.node->id()] && CarriesGradient(input.dtype());
    });
  }

  GraphBuilder& graph_;
  const SourceLocation where_;
  std::vector<bool> on_path_;
  absl::Span<const Output> ys_, xs_;
  absl::flat_hash_map<Output, std::vector<Gradient>> flows_;
};

absl::Status CheckIsOf(const Graph& graph, const Output& output) {
  if (!output) return absl::InvalidArgumentError("gradients: some y or x is no node's output");
  const Node& node = *output.node;
  if (const absl::Status status = CheckNodeOf(graph, node); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("gradients: ", status.message()));
  }
  if (output.index >= 0 && output.index < node.num_outputs()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gradients: asked for '", output.name(), "', but ",
                                                 node.Describe(), " has ", node.num_outputs(), " outputs"));
}

absl::Status CheckFits(const Graph& graph, const Output& y, const Output& grad_y) {
  if (!grad_y) return absl::OkStatus();
  WEIR_RETURN_IF_ERROR(CheckIsOf(graph, grad_y));
  if (grad_y.dtype() == y.dtype() && grad_y.shape().IsCompatibleWith(y.shape())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gradients: the grad_y of '", y.name(), "' must be ",
                                                 TypeString(y.dtype(), y.shape()), ", '", grad_y.name(),
                                                 "' is ", TypeString(grad_y.dtype(), grad_y.shape())));
}

absl::StatusOr<std::vector<Gradient>> RunBackward(GraphBuilder& graph, absl::Span<const Output> ys,
                                                  absl::Span<const Output> xs,
                                                  absl::Span<const Output> grad_ys, SourceLocation where) {
  for (const absl::Span<const Output> outputs : {ys, xs}) {
    for (const Output& output : outputs) graph.SetError(CheckIsOf(graph.graph(), output), where);
  }
  if (grad_ys.size() > ys.size()) {
    graph.SetError(absl::InvalidArgumentError(
                       absl::StrCat("gradients: ", grad_ys.size(), " grad_ys for ", ys.size(), " ys")),
                   where);
  }
  for (size_t i = 0; i < grad_ys.size() && graph.ok(); ++i) {
    graph.SetError(CheckFits(graph.graph(), ys[i], grad_ys[i]), where);
  }
  if (!graph.ok()) return graph.status();
  BackwardPass pass(graph, where);
  if (absl::Status status = pass.Run(ys, xs, grad_ys); !status.ok()) {
    graph.SetError(status, where);
    return graph.status();
  }
  std::vector<Gradient> result;
  for (const Output& x : xs) result.push_back(pass.GradientOf(x));
  if (!graph.ok()) return graph.status();
  return result;
}

}  // namespace

absl::Status GradientMissing(GradientContext&) {
  return absl::UnimplementedError("the gradient of this op is not written yet");
}

bool IsNull(const Gradient& gradient) {
  const Output* const dense = std::get_if<Output>(&gradient);
  return dense != nullptr && !*dense;
}

Output Densify(GraphBuilder& graph, const Gradient& gradient, SourceLocation where) {
  if (const Output* const dense = std::get_if<Output>(&gradient)) return *dense;
  const auto& slices = std::get<IndexedSlices>(gradient);
  const Output num_rows = FirstElement(graph, slices.dense_shape, where);
  return graph.AddOp("UnsortedSegmentSum", {slices.values, slices.indices, num_rows}, {}, "", where);
}

Output GradientContext::grad(int index) {
  Gradient& flow = flows_[index];
  if (std::holds_alternative<IndexedSlices>(flow)) flow = Densify(graph_, flow, node_.source());
  return std::get<Output>(flow);
}

Output GradientContext::Constant(DType dtype, double value) {
  return AddScalar(graph_, dtype, value, node_.source());
}

Output GradientContext::Integers(std::vector<int32_t> values) {
  const Shape shape({static_cast<int64_t>(values.size())});
  return AddConstant(graph_, Tensor::FromSpan<int32_t>(shape, values), node_.source());
}

absl::StatusOr<std::vector<Gradient>> AddGradientFlows(GraphBuilder& graph, absl::Span<const Output> ys,
                                                       absl::Span<const Output> xs,
                                                       absl::Span<const Output> grad_ys,
                                                       SourceLocation where) {
  if (!graph.ok()) return graph.status();
  auto name_scope = graph.NameScope("gradients");
  return RunBackward(graph, ys, xs, grad_ys, where);
}

absl::StatusOr<std::vector<Output>> AddGradients(GraphBuilder& graph, absl::Span<const Output> ys,
                                                 absl::Span<const Output> xs,
                                                 absl::Span<const Output> grad_ys, SourceLocation where) {
  if (!graph.ok()) return graph.status();
  auto name_scope = graph.NameScope("gradients");
  WEIR_ASSIGN_OR_RETURN(const std::vector<Gradient> flows, RunBackward(graph, ys, xs, grad_ys, where));
  std::vector<Output> result;
  for (const Gradient& flow : flows) result.push_back(Densify(graph, flow, where));
  if (!graph.ok()) return graph.status();
  return result;
}

}  // namespace weir
