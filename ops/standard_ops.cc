#include "ops/standard_ops.h"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

// The constant axes of a reduction, or all axes of x.
Output ReductionAxes(GraphBuilder& g, Output x, const std::vector<int32_t>* axes, const std::string& name,
                     SourceLocation where) {
  // The reduction itself says what is wrong with x.
  if (!x || x.index < 0 || x.index >= x.node->num_outputs()) return {};
  const std::string axes_name = absl::StrCat(name, "/reduction_indices");
  if (axes != nullptr) return ConstIntegers(g, *axes, {.name = axes_name}, where);
  if (x.shape().has_rank()) {
    std::vector<int32_t> all(x.shape().rank());
    std::iota(all.begin(), all.end(), 0);
    return ConstIntegers(g, all, {.name = axes_name}, where);
  }
  const Output rank = Rank(g, x, {.name = absl::StrCat(name, "/rank")}, where);
  return Range(g, Const(g, 0, {}, where), rank, Const(g, 1, {}, where), {.name = axes_name}, where);
}

Output Reduce(GraphBuilder& g, absl::string_view op, Output x, const std::vector<int32_t>* axes,
              const ReduceOptions& options, SourceLocation where) {
  const std::string name(options.name.empty() ? op : options.name);
  const Output axes_output = ReductionAxes(g, x, axes, name, where);
  return g.AddOp(op, {x, axes_output}, {{"keep_dims", options.keep_dims}}, name, where);
}

template <typename T>
Tensor ScalarOf(double value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    return Tensor::Scalar(T(static_cast<float>(value)));
  } else {
    return Tensor::Scalar(static_cast<T>(value));
  }
}

// Whether the integer type has the number, rounded towards zero.
template <typename T>
bool Has(double value) {
  // The bounds are powers of two, and so exact.
  const double end = std::ldexp(1.0, std::numeric_limits<T>::digits);
  const double rounded = std::trunc(value);
  return std::is_signed_v<T> ? rounded >= -end && rounded < end : rounded >= 0 && rounded < end;
}

template <typename T>
std::optional<Tensor> IntegerOf(double value) {
  if (!Has<T>(value)) return std::nullopt;
  return ScalarOf<T>(value);
}

std::optional<Tensor> NumberOf(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32:
      return ScalarOf<float>(value);
    case DType::kFloat64:
      return ScalarOf<double>(value);
    case DType::kHalf:
      return ScalarOf<Half>(value);
    case DType::kBfloat16:
      return ScalarOf<Bfloat16>(value);
    case DType::kInt8:
      return IntegerOf<int8_t>(value);
    case DType::kInt16:
      return IntegerOf<int16_t>(value);
    case DType::kInt32:
      return IntegerOf<int32_t>(value);
    case DType::kInt64:
      return IntegerOf<int64_t>(value);
    case DType::kUint8:
      return IntegerOf<uint8_t>(value);
    case DType::kUint16:
      return IntegerOf<uint16_t>(value);
    case DType::kUint32:
      return IntegerOf<uint32_t>(value);
    case DType::kUint64:
      return IntegerOf<uint64_t>(value);
    default:
      return std::nullopt;
  }
}

}  // namespace

Output Const(GraphBuilder& g, Tensor value, const NodeOptions& options, SourceLocation where) {
  const DType dtype = value.dtype();
  if (!value.is_valid()) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat("Const '", options.name, "': the value is no tensor")),
               where);
    return {};
  }
  return g.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}}, options.name, where);
}

Output ConstOf(GraphBuilder& g, DType dtype, double value, const NodeOptions& options, SourceLocation where) {
  if (auto tensor = NumberOf(dtype, value)) return Const(g, *std::move(tensor), options, where);
  g.SetError(absl::InvalidArgumentError(absl::StrCat("ConstOf: ", value, " is no ", DTypeName(dtype))),
             where);
  return {};
}

Output ConstIntegers(GraphBuilder& g, const std::vector<int32_t>& values, const NodeOptions& options,
                     SourceLocation where) {
  const auto count = static_cast<int64_t>(values.size());
  return Const(g, Tensor::FromSpan<int32_t>(Shape({count}), values), options, where);
}

Output Placeholder(GraphBuilder& g, DType dtype, PartialShape shape, const NodeOptions& options,
                   SourceLocation where) {
  return g.AddOp("Placeholder", {}, {{"dtype", dtype}, {"shape", std::move(shape)}}, options.name, where);
}

Output ReduceSum(GraphBuilder& g, Output x, const ReduceOptions& options, SourceLocation where) {
  return Reduce(g, "Sum", x, nullptr, options, where);
}
Output ReduceMean(GraphBuilder& g, Output x, const ReduceOptions& options, SourceLocation where) {
  return Reduce(g, "Mean", x, nullptr, options, where);
}
Output ReduceMax(GraphBuilder& g, Output x, const ReduceOptions& options, SourceLocation where) {
  return Reduce(g, "Max", x, nullptr, options, where);
}
Output ReduceSum(GraphBuilder& g, Output x, const std::vector<int32_t>& axes, const ReduceOptions& options,
                 SourceLocation where) {
  return Reduce(g, "Sum", x, &axes, options, where);
}
Output ReduceMean(GraphBuilder& g, Output x, const std::vector<int32_t>& axes, const ReduceOptions& options,
                  SourceLocation where) {
  return Reduce(g, "Mean", x, &axes, options, where);
}
Output ReduceMax(GraphBuilder& g, Output x, const std::vector<int32_t>& axes, const ReduceOptions& options,
                 SourceLocation where) {
  return Reduce(g, "Max", x, &axes, options, where);
}

// max(x, 0) - x * z + log(1 + exp(-|x|)). Both halves are chosen by x >= 0 and not by Relu and Abs, whose
// gradients at 0 would not add up to that of the whole.
Output SigmoidCrossEntropyWithLogits(GraphBuilder& g, Output logits, Output labels,
                                     const NodeOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "logistic_loss" : options.name);
  const Output zeros = ZerosLike(g, logits, {}, where);
  const Output is_positive = GreaterEqual(g, logits, zeros, {}, where);
  const Output positive = SelectV2(g, is_positive, logits, zeros, {}, where);
  const Output minus_magnitude = SelectV2(g, is_positive, Neg(g, logits, {}, where), logits, {}, where);
  const Output linear = Sub(g, positive, Mul(g, logits, labels, {}, where), {}, where);
  return AddV2(g, linear, Log1p(g, Exp(g, minus_magnitude, {}, where), {}, where), {}, where);
}

// Nodes are gathered on each device first, so that one edge per device crosses to the node that gathers them
// all.
Node* Group(GraphBuilder& g, const std::vector<Node*>& nodes, const NodeOptions& options,
            SourceLocation where) {
  std::map<std::string, std::vector<Node*>> by_device;
  for (Node* node : nodes) {
    if (node != nullptr) by_device[node->requested_device().ToString()].push_back(node);
  }
  const absl::string_view name = options.name.empty() ? "group_deps" : options.name;
  std::vector<Node*> gathered = nodes;
  if (by_device.size() > 1) {
    gathered.clear();
    for (const auto& [device, members] : by_device) {
      const auto after_members = g.ControlScope(members);
      const auto beside_members = g.ColocationScope(members.front());
      gathered.push_back(NoOp(g, {.name = absl::StrCat(name, "/NoOp")}, where));
    }
  }
  const auto after_all = g.ControlScope(gathered);
  return NoOp(g, {.name = name}, where);
}

}  // namespace weir
