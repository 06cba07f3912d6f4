#include "graph/rewrite/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "graph/loops.h"
#include "graph/rewrite/constant_operand.h"
#include "graph/rewrite/consumers.h"
#include "graph/rewrite/known_shape.h"
#include "graph/rewrite/symbolic_shapes.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr int kMaxVisits = 3;

bool IsInteger(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
      return true;
    default:
      return false;
  }
}

bool IsUnsigned(DType dtype) {
  return dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 ||
         dtype == DType::kUint64;
}

// Bits of the values that a type holds exactly: those of an integer without its sign, those of a mantissa.
int Digits(DType dtype) {
  switch (dtype) {
    case DType::kHalf:
      return 11;
    case DType::kBfloat16:
      return 8;
    case DType::kFloat32:
      return 24;
    case DType::kFloat64:
      return 53;
    default:
      return static_cast<int>(8 * DTypeSize(dtype)) - (IsUnsigned(dtype) ? 0 : 1);
  }
}

// True when every value of `from` is a value of `to`.
bool IsLossless(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::kBool) return IsInteger(to) || IsFloating(to);
  if (IsInteger(from) && IsInteger(to)) {
    return Digits(from) <= Digits(to) && (IsUnsigned(from) || !IsUnsigned(to));
  }
  if (IsInteger(from)) return IsFloating(to) && to != DType::kHalf && Digits(from) <= Digits(to);
  if (IsFloating(from)) {  // half and bfloat16 have values that the other one has not
    return (to == DType::kFloat32 || to == DType::kFloat64) && Digits(from) <= Digits(to);
  }
  return false;
}

// The product of the known dims, and how many are unknown; nullopt without a rank, or where a dim is 0 or the
// product too large.
struct KnownCount {
  int64_t product = 1;
  int num_unknown = 0;
};
std::optional<KnownCount> CountKnown(const PartialShape& shape) {
  if (!shape.has_rank()) return std::nullopt;
  KnownCount count;
  for (const int64_t dim : shape.dims()) {
    if (dim == 0) return std::nullopt;
    if (dim == PartialShape::kUnknownDim) {
      ++count.num_unknown;
    } else if (!MultiplyWithoutOverflow(count.product, dim, &count.product)) {
      return std::nullopt;
    }
  }
  return count;
}

// A tensor of the one shape that is reshaped to the other keeps its dims: none unknown, or one, in one place.
bool ReshapeKeepsShape(const PartialShape& from, const PartialShape& to) {
  if (HaveOneKnownShape(from, to)) return true;
  const std::optional<KnownCount> count = CountKnown(from);
  return count && count->num_unknown == 1 && from == to;
}

// True when a tensor that cannot take the first shape cannot take the second one either.
bool SecondReshapeChecksFirst(const PartialShape& first, const PartialShape& second) {
  const std::optional<KnownCount> a = CountKnown(first), b = CountKnown(second);
  if (!a || !b || a->num_unknown > 1 || b->num_unknown > 1) return false;
  if (a->num_unknown == 0) return b->num_unknown == 0 && a->product == b->product;
  return b->product % a->product == 0;
}

bool IsIdentityPermutation(const std::vector<int64_t>& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool IsPermutation(const std::vector<int64_t>& permutation) {
  std::vector<bool> seen(permutation.size(), false);
  for (const int64_t axis : permutation) {
    if (axis < 0 || axis >= static_cast<int64_t>(seen.size()) || seen[axis]) return false;
    seen[axis] = true;
  }
  return true;
}

bool AllAre(const std::vector<int64_t>& numbers, int64_t value) {
  return std::all_of(numbers.begin(), numbers.end(), [value](int64_t number) { return number == value; });
}

class Simplifier {
 public:
  Simplifier(Graph& graph, const RewriteOptions& options);

  absl::Status Simplify() {
    WEIR_ASSIGN_OR_RETURN(order_, graph_.TopologicalOrder());
    for (Node* node : order_) {
      if (is_changed_) UseReplacements(*node);
      const auto rule = rules_.find(&node->op());
      if (rule == rules_.end()) continue;
      for (int visit = 0; visit < kMaxVisits && replaced_by_[node->id()].node == nullptr; ++visit) {
        if (!(this->*rule->second)(*node)) break;
        is_changed_ = true;
      }
    }
    if (!is_changed_) return absl::OkStatus();
    // What a NextIteration leads back may have come later in the order.
    for (Node* node : order_) {
      if (!IsReplaced(*node)) UseReplacements(*node);
    }
    DropUnused();
    return absl::OkStatus();
  }

 private:
  // True when the node was changed or replaced.
  using Rule = bool (Simplifier::*)(Node&);
  static const std::pair<const char*, Rule> kRules[];

  bool IsReplaced(const Node& node) const {
    return node.id() < static_cast<int>(replaced_by_.size()) && replaced_by_[node.id()].node != nullptr;
  }

  // --- Replacing a node by an output that it would only repeat. ---

  bool ReplaceBy(Node& node, Output output) {
    if (!node.control_inputs().empty() || output.dtype() == DType::kResource ||
        output.dtype() == DType::kVariant || node.requested_device() != output.node->requested_device()) {
      return false;
    }
    // A control edge from a Switch would not tell which branch was taken.
    const auto edges = ConsumersOf(node);
    if (IsControlFlow(*output.node) &&
        std::any_of(edges.begin(), edges.end(),
                    [](const Consumers::Edge& edge) { return edge.is_control(); })) {
      return false;
    }
    if (IsNamedByOthers(node)) return false;
    replaced_by_[node.id()] = output;
    return true;
  }

  // Most graphs have few nodes that rules fire on, so the index is made when the first one asks.
  absl::Span<const Consumers::Edge> ConsumersOf(const Node& node) {
    if (!consumers_) consumers_.emplace(graph_);
    return consumers_->Of(node);
  }

  bool IsNamedByOthers(const Node& node) {
    if (!colocation_names_) {
      colocation_names_.emplace();
      for (const auto& other : graph_.nodes()) {
        if (other->op_name() == kRetvalOp) continue;  // it moves to what stands in for its input
        for (std::string& name : other->colocation_names()) colocation_names_->insert(std::move(name));
      }
    }
    return colocation_names_->contains(node.name());
  }

  void UseReplacements(Node& node) {
    for (int i = 0; i < node.num_inputs(); ++i) {
      const Output input = node.input(i);
      if (!IsReplaced(*input.node)) continue;
      const Output output = replaced_by_[input.node->id()];
      graph_.SetInput(&node, i, output);
      if (node.op_name() == kRetvalOp) {
        graph_.SetAttr(&node, "_class", std::vector<std::string>{absl::StrCat("loc:@", output.node->name())});
      }
    }
    const auto is_replaced = [this](const Node* before) { return IsReplaced(*before); };
    if (std::none_of(node.control_inputs().begin(), node.control_inputs().end(), is_replaced)) return;
    std::vector<Node*> control_inputs;
    absl::flat_hash_set<const Node*> sources;
    for (Node* before : node.control_inputs()) {
      Node* const source = IsReplaced(*before) ? replaced_by_[before->id()].node : before;
      if (sources.insert(source).second) control_inputs.push_back(source);
    }
    graph_.Connect(&node, {node.inputs().begin(), node.inputs().end()}, std::move(control_inputs));
  }

  // Drops what was replaced, and what had consumers and has none now.
  void DropUnused() {
    std::vector<int> num_users(graph_.num_nodes(), 0);
    std::vector<bool> keep(graph_.num_nodes(), true);
    for (const auto& node : graph_.nodes()) {
      if (IsReplaced(*node)) continue;
      for (const Output& input : node->inputs()) ++num_users[input.node->id()];
      for (const Node* before : node->control_inputs()) ++num_users[before->id()];
    }
    const auto drop = [&](const Node& node) {
      keep[node.id()] = false;
      if (IsReplaced(node)) return;  // its edges were not counted
      for (const Output& input : node.inputs()) --num_users[input.node->id()];
    };
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const Node& node = **it;
      const bool is_free = !node.op().is_stateful() && node.num_outputs() > 0 && !IsControlFlow(node) &&
                           node.control_inputs().empty() && !ConsumersOf(node).empty();
      if (IsReplaced(node) || (is_free && num_users[node.id()] == 0)) drop(node);
    }
    for (int id = static_cast<int>(order_.size()); id < graph_.num_nodes(); ++id) {
      if (num_users[id] == 0) keep[id] = false;  // a constant that one rule added and another made useless
    }
    graph_.KeepOnly(keep);
  }

  // --- What the rules are made of. ---

  // The node that makes the input, when a rule may read what it reads in its stead.
  Node* Producer(const Node& node, int input, absl::string_view op) const {
    Node* const producer = node.input(input).node;
    if (producer->op_name() != op || !producer->control_inputs().empty() ||
        producer->requested_device() != node.requested_device()) {
      return nullptr;
    }
    return producer;
  }

  void ReadInstead(Node& node, int input, Output source) {
    if (!consumers_) consumers_.emplace(graph_);
    graph_.SetInput(&node, input, source);
  }

  bool IsReadOnce(const Node& node) { return ConsumersOf(node).size() == 1; }

  // The tensors have one shape in every step. Never sure where branches decide which of them there are.
  bool HaveOneShape(const Output& a, const Output& b) {
    if (!symbolic_shapes_) {
      has_control_flow_ = HasControlFlow(graph_);
      symbolic_shapes_.emplace(order_);
    }
    return !has_control_flow_ && symbolic_shapes_->AreEqual(a, b);
  }

  // The constant leaves the shape of the other operand as it is.
  static bool KeepsShape(const Node& node, int constant) {
    return node.input(constant).shape().rank() == 0 ||
           HaveOneKnownShape(node.output_shape(0), node.input(1 - constant).shape());
  }

  // Replaces the node by its other input when this one is a constant of `value`.
  bool DropNeutral(Node& node, int constant, double value) {
    return !IsComplex(node.output_type(0)) && IsConstantOf(node.input(constant), value) &&
           KeepsShape(node, constant) && ReplaceBy(node, node.input(1 - constant));
  }

  std::optional<Output> AddConstant(const Node& for_node, Tensor value) {
    std::string name;
    do {
      name = absl::StrCat(for_node.name(), "/simplified_", num_added_++);
    } while (graph_.FindNode(name) != nullptr);
    const DType dtype = value.dtype();
    const absl::StatusOr<Node*> constant =
        graph_.AddNode({.op = "Const",
                        .name = std::move(name),
                        .attrs = {{"value", std::move(value)}, {"dtype", dtype}},
                        .device = for_node.requested_device(),
                        .source = for_node.source()});
    if (!constant.ok()) return std::nullopt;  // the graph's registry has no Const
    replaced_by_.resize(graph_.num_nodes());
    return (*constant)->output(0);
  }

  // --- The rules. ---

  bool Pass(Node& node) { return ReplaceBy(node, node.input(0)); }

  bool Multiply(Node& node) {
    return DropNeutral(node, 0, 1) || DropNeutral(node, 1, 1) || JoinFactors(node, 0) || JoinFactors(node, 1);
  }

  // (x*c)*d -> x*(c*d)
  bool JoinFactors(Node& node, int constant) {
    const DType dtype = node.output_type(0);
    if (dtype != DType::kFloat32 && dtype != DType::kFloat64 && dtype != DType::kInt32 &&
        dtype != DType::kInt64) {
      return false;
    }
    if (!IsInteger(dtype) && !options_.may_change_rounding) return false;
    Node* const inner = Producer(node, 1 - constant, "Mul");
    const Tensor* const outer_factor = ConstantValue(node.input(constant));
    if (inner == nullptr || !IsReadOnce(*inner) || !IsScalar(outer_factor)) return false;
    for (int i = 0; i < 2; ++i) {
      const Tensor* const factor = ConstantValue(inner->input(i));
      if (!IsScalar(factor)) continue;
      std::optional<Tensor> product = Product(*factor, *outer_factor);
      if (!product) return false;
      const std::optional<Output> joined = AddConstant(node, *std::move(product));
      if (!joined) return false;
      ReadInstead(node, 1 - constant, inner->input(1 - i));
      ReadInstead(node, constant, *joined);
      return true;
    }
    return false;
  }

  static bool IsScalar(const Tensor* tensor) { return tensor != nullptr && tensor->shape().is_scalar(); }

  // Of two scalars. Nullopt where the product of floats is not a normal number: x*0 or x*inf where (x*c)*d is
  // neither. Where only x*c overflows or underflows the joined product is the exact one, as in TensorFlow.
  static std::optional<Tensor> Product(const Tensor& a, const Tensor& b) {
    const auto of_floats = []<typename T>(T x, T y) -> std::optional<Tensor> {
      if (!std::isnormal(x) || !std::isnormal(y) || !std::isnormal(x * y)) return std::nullopt;
      return Tensor::Scalar<T>(x * y);
    };
    switch (a.dtype()) {
      case DType::kFloat32:
        return of_floats(a.scalar<float>(), b.scalar<float>());
      case DType::kFloat64:
        return of_floats(a.scalar<double>(), b.scalar<double>());
      case DType::kInt32:  // wraps around
        return Tensor::Scalar(static_cast<int32_t>(static_cast<uint32_t>(a.scalar<int32_t>()) *
                                                   static_cast<uint32_t>(b.scalar<int32_t>())));
      case DType::kInt64:
        return Tensor::Scalar(static_cast<int64_t>(static_cast<uint64_t>(a.scalar<int64_t>()) *
                                                   static_cast<uint64_t>(b.scalar<int64_t>())));
      default:
        return std::nullopt;
    }
  }

  bool Divide(Node& node) { return DropNeutral(node, 1, 1); }
  bool Subtract(Node& node) { return DropNeutral(node, 1, 0.0); }
  // Of floats only -0.0 changes nothing: -0.0 + 0.0 is 0.0.
  bool Add(Node& node) {
    const double zero = IsInteger(node.output_type(0)) ? 0.0 : -0.0;
    return DropNeutral(node, 0, zero) || DropNeutral(node, 1, zero);
  }

  // f(f(x)) -> x
  bool CancelTwice(Node& node) {
    Node* const inner = Producer(node, 0, node.op_name());
    return inner != nullptr && ReplaceBy(node, inner->input(0));
  }

  bool Transpose(Node& node) {
    const std::optional<std::vector<int64_t>> permutation = ConstantIntegers(node.input(1));
    if (!permutation || !IsPermutation(*permutation)) return false;
    if (IsIdentityPermutation(*permutation)) {
      return node.input(0).shape().has_rank() && ReplaceBy(node, node.input(0));
    }
    Node* const inner = Producer(node, 0, "Transpose");
    if (inner == nullptr || !inner->input(0).shape().has_rank()) return false;
    const std::optional<std::vector<int64_t>> first = ConstantIntegers(inner->input(1));
    if (!first || first->size() != permutation->size() || !IsPermutation(*first)) return false;
    std::vector<int64_t> both;
    for (const int64_t axis : *permutation) both.push_back((*first)[axis]);
    if (IsIdentityPermutation(both)) return ReplaceBy(node, inner->input(0));
    const Shape shape({static_cast<int64_t>(both.size())});
    const bool is_wide = node.input_type(1) == DType::kInt64;
    const std::optional<Output> joined = AddConstant(
        node, is_wide ? Tensor::FromSpan<int64_t>(shape, both)
                      : Tensor::FromSpan<int32_t>(shape, std::vector<int32_t>(both.begin(), both.end())));
    if (!joined) return false;
    ReadInstead(node, 0, inner->input(0));
    ReadInstead(node, 1, *joined);
    return true;
  }

  bool Reshape(Node& node) {
    const Output x = node.input(0);
    const Node* const shape = Producer(node, 1, "Shape");
    if (shape != nullptr) return HaveOneShape(x, shape->input(0)) && ReplaceBy(node, x);
    // Only a constant shape surely fits what was inferred.
    if (ConstantValue(node.input(1)) == nullptr) return false;
    if (ReshapeKeepsShape(x.shape(), node.output_shape(0))) return ReplaceBy(node, x);
    Node* const inner = Producer(node, 0, "Reshape");
    if (inner == nullptr || ConstantValue(inner->input(1)) == nullptr) return false;
    const std::optional<std::vector<int64_t>> dims = ConstantIntegers(node.input(1));
    if (!dims) return false;
    // Beside a 0, -1 depends on which dimensions the tensor has, not on how many elements.
    const auto asks_for = [&](int64_t dim) {
      return std::find(dims->begin(), dims->end(), dim) != dims->end();
    };
    if (asks_for(0) && asks_for(-1)) return false;
    // What a shape that is known fits was checked when the node was made. The second shape counts as it is
    // asked for: what it leaves open, -1, was inferred from the first.
    if (!inner->input(0).shape().is_fully_known()) {
      const absl::StatusOr<PartialShape> asked = PartialShape::FromDims(*dims);
      if (!asked.ok() || !SecondReshapeChecksFirst(inner->output_shape(0), *asked)) return false;
    }
    ReadInstead(node, 0, inner->input(0));
    return true;
  }

  bool Cast(Node& node) {
    const DType to = node.attr<DType>("DstT");
    if (node.attr<DType>("SrcT") == to) return ReplaceBy(node, node.input(0));
    Node* const inner = Producer(node, 0, "Cast");
    if (inner == nullptr || node.attr<bool>("Truncate") || inner->attr<bool>("Truncate")) return false;
    const DType from = inner->attr<DType>("SrcT"), middle = inner->attr<DType>("DstT");
    if (!IsLossless(from, middle)) return false;
    if (from == to) return ReplaceBy(node, inner->input(0));
    // A float that no integer stands for becomes what the conversion of its own type makes of it.
    const bool is_same = IsFloating(to) || (IsInteger(from) && IsInteger(middle) && IsInteger(to));
    if (!is_same) return false;
    ReadInstead(node, 0, inner->input(0));
    graph_.SetAttr(&node, "SrcT", from);
    return true;
  }

  bool Reduce(Node& node) {
    const std::optional<std::vector<int64_t>> axes = ConstantIntegers(node.input(1));
    const bool sums_nothing = axes ? axes->empty() : UndoesNoBroadcast(node);
    return sums_nothing && ReplaceBy(node, node.input(0));
  }
  // The axes are those over which one of two tensors was repeated, and they have one shape.
  bool UndoesNoBroadcast(const Node& node) {
    const Node* const axes = Producer(node, 1, "BroadcastGradientArgs");
    if (axes == nullptr) return false;
    const Node *const a = Producer(*axes, 0, "Shape"), *const b = Producer(*axes, 1, "Shape");
    return a != nullptr && b != nullptr && HaveOneShape(a->input(0), b->input(0));
  }

  bool AddMany(Node& node) { return node.num_inputs() == 1 && ReplaceBy(node, node.input(0)); }

  bool Split(Node& node) {
    return node.num_outputs() == 1 && ConstantValue(node.input(0)) != nullptr &&
           HaveOneKnownShape(node.input(1).shape(), node.output_shape(0)) && ReplaceBy(node, node.input(1));
  }

  bool Repeat(Node& node) {
    const std::optional<std::vector<int64_t>> multiples = ConstantIntegers(node.input(1));
    return multiples && AllAre(*multiples, 1) && node.input(0).shape().has_rank() &&
           ReplaceBy(node, node.input(0));
  }

  bool BroadcastTo(Node& node) {
    return ConstantValue(node.input(1)) != nullptr &&
           HaveOneKnownShape(node.input(0).shape(), node.output_shape(0)) && ReplaceBy(node, node.input(0));
  }

  bool Pad(Node& node) {
    const std::optional<std::vector<int64_t>> paddings = ConstantIntegers(node.input(1));
    return paddings && AllAre(*paddings, 0) && node.input(0).shape().has_rank() &&
           ReplaceBy(node, node.input(0));
  }

  bool Slice(Node& node) {
    const std::optional<std::vector<int64_t>> begin = ConstantIntegers(node.input(1));
    const std::optional<std::vector<int64_t>> size = ConstantIntegers(node.input(2));
    if (!begin || !size || !AllAre(*begin, 0) || !node.input(0).shape().has_rank()) return false;
    const bool takes_all =
        AllAre(*size, -1) || HaveOneKnownShape(node.input(0).shape(), node.output_shape(0));
    return takes_all && ReplaceBy(node, node.input(0));
  }

  // The operand as the product reads it when it is transposed.
  bool MatMul(Node& node) {
    return TakeTransposed(node, 0, "transpose_a") || TakeTransposed(node, 1, "transpose_b");
  }
  bool BatchMatMul(Node& node) {
    // adj_x also conjugates.
    return !IsComplex(node.output_type(0)) &&
           (TakeTransposed(node, 0, "adj_x") || TakeTransposed(node, 1, "adj_y"));
  }
  bool TakeTransposed(Node& node, int input, absl::string_view attr) {
    if (!options_.may_change_rounding) return false;
    Node* const transpose = Producer(node, input, "Transpose");
    if (transpose == nullptr || !transpose->input(0).shape().has_rank()) return false;
    std::optional<std::vector<int64_t>> permutation = ConstantIntegers(transpose->input(1));
    if (!permutation || permutation->size() < 2) return false;
    std::swap(*permutation->rbegin(), *(permutation->rbegin() + 1));
    if (!IsIdentityPermutation(*permutation)) return false;
    ReadInstead(node, input, transpose->input(0));
    graph_.SetAttr(&node, attr, !node.attr<bool>(attr));
    return true;
  }

  Graph& graph_;
  const RewriteOptions options_;
  std::vector<Node*> order_;  // of the graph as it came
  std::optional<SymbolicShapes> symbolic_shapes_;
  bool has_control_flow_ = false;       // known as soon as there are symbolic_shapes_
  std::optional<Consumers> consumers_;  // as the graph was before the first rule fired
  std::vector<Output> replaced_by_;     // by node id; null for nodes that stay
  absl::flat_hash_map<const Op*, Rule> rules_;
  std::optional<absl::flat_hash_set<std::string>> colocation_names_;
  int num_added_ = 0;
  bool is_changed_ = false;
};

const std::pair<const char*, Simplifier::Rule> Simplifier::kRules[] = {
    {"Identity", &Simplifier::Pass},
    {"StopGradient", &Simplifier::Pass},
    {"PreventGradient", &Simplifier::Pass},
    {"Snapshot", &Simplifier::Pass},
    {"Mul", &Simplifier::Multiply},
    {"Div", &Simplifier::Divide},
    {"RealDiv", &Simplifier::Divide},
    {"DivNoNan", &Simplifier::Divide},
    {"Sub", &Simplifier::Subtract},
    {"Add", &Simplifier::Add},
    {"AddV2", &Simplifier::Add},
    {"Neg", &Simplifier::CancelTwice},
    {"LogicalNot", &Simplifier::CancelTwice},
    {"Invert", &Simplifier::CancelTwice},
    {"Conj", &Simplifier::CancelTwice},
    {"Transpose", &Simplifier::Transpose},
    {"Reshape", &Simplifier::Reshape},
    {"Cast", &Simplifier::Cast},
    {"Sum", &Simplifier::Reduce},
    {"Mean", &Simplifier::Reduce},
    {"Prod", &Simplifier::Reduce},
    {"Max", &Simplifier::Reduce},
    {"Min", &Simplifier::Reduce},
    {"All", &Simplifier::Reduce},
    {"Any", &Simplifier::Reduce},
    {"AddN", &Simplifier::AddMany},
    {"Split", &Simplifier::Split},
    {"Tile", &Simplifier::Repeat},
    {"BroadcastTo", &Simplifier::BroadcastTo},
    {"Pad", &Simplifier::Pad},
    {"PadV2", &Simplifier::Pad},
    {"Slice", &Simplifier::Slice},
    {"MatMul", &Simplifier::MatMul},
    {"BatchMatMul", &Simplifier::BatchMatMul},
    {"BatchMatMulV2", &Simplifier::BatchMatMul},
};

Simplifier::Simplifier(Graph& graph, const RewriteOptions& options)
    : graph_(graph), options_(options), replaced_by_(graph.num_nodes()) {
  for (const auto& [op, rule] : kRules) {
    if (const Op* known = graph.ops().Find(op)) rules_.emplace(known, rule);
  }
}

}  // namespace

absl::Status SimplifyArithmetic(Graph& graph, const RewriteOptions& options) {
  return Simplifier(graph, options).Simplify();
}

}  // namespace weir
