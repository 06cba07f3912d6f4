#include "tests/random_graphs/generator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/types/status_macros.h"
#include "ops/control_flow.h"
#include "ops/register_ops.h"
#include "tests/random_graphs/catalogue.h"
#include "tests/random_graphs/interpreter.h"
#include "tests/random_graphs/mutable_variables.h"
#include "tests/random_graphs/pool.h"

namespace weir::random_graphs {
namespace {

constexpr int kMaxDepth = 2;
constexpr int64_t kMaxElements = 200;

// In training the derivative of FusedBatchNormGrad computes the statistics from x, as in TensorFlow. It is
// the op's own only where its inputs 3 and 4 are these.
bool TakesOtherStatistics(const Node& node) {
  return absl::StartsWith(node.op_name(), "FusedBatchNormGrad") && node.attr<bool>("is_training") &&
         !absl::StartsWith(node.input(3).node->op_name(), "FusedBatchNorm");
}

bool DependsOn(const Node& node, const Node& source) {
  std::set<const Node*> seen;
  std::vector<const Node*> to_visit = {&node};
  while (!to_visit.empty()) {
    const Node& visited = *to_visit.back();
    to_visit.pop_back();
    if (&visited == &source) return true;
    if (!seen.insert(&visited).second) continue;
    for (int i = 0; i < visited.num_inputs(); ++i) to_visit.push_back(visited.input(i).node);
  }
  return false;
}

// TensorFlow differentiates FusedBatchNormGrad by tf.gradients over what lies between its inputs and outputs.
// Where its gradient depends on its x, or x on the gradient, that path is counted twice.
bool HasDependentInputs(const Node& node) {
  if (!absl::StartsWith(node.op_name(), "FusedBatchNormGrad")) return false;
  const Node& gradient = *node.input(0).node;
  const Node& x = *node.input(1).node;
  return DependsOn(gradient, x) || DependsOn(x, gradient);
}

bool IsNotDifferentiated(const Node& node) {
  static const auto* const ops = new std::set<std::string>{"Enter", "Exit", "LRNGrad"};
  return ops->count(node.op_name()) > 0 || node.op().def().gradient == GradientMissing ||
         TakesOtherStatistics(node) || HasDependentInputs(node);
}

// Inputs that an op's value depends on and its gradient leaves out, in TensorFlow as well: what is filled in.
bool LeavesOut(const Node& node, int input) {
  static const auto* const fillings = new std::map<std::string, int>{{"MatrixDiagPartV2", 2},
                                                                     {"MatrixDiagPartV3", 2},
                                                                     {"MatrixDiagV2", 4},
                                                                     {"MatrixDiagV3", 4},
                                                                     {"PadV2", 2}};
  const auto found = fillings->find(node.op_name());
  return found != fillings->end() && found->second == input;
}

bool IsTame(const Array& value, DType dtype) {
  if (value.size() > kMaxElements || value.rank() > 6) return false;
  const double limit = IsFloating(dtype) ? 1e3 : 1e5;
  // Kernels may take a smaller number for 0, as TensorFlow's do.
  const double smallest = std::numeric_limits<float>::min();
  for (int64_t i = 0; i < value.size(); ++i) {
    const double size = std::abs(value[i].real());
    if (!(size <= limit) || (size > 0 && size < smallest)) return false;
  }
  return true;
}

class Generator {
 public:
  Generator(uint64_t seed, const GeneratorOptions& options)
      : random_(seed),
        options_(options),
        rows_(options.rows.empty() ? AllRows() : options.rows),
        pool_(Prepared(), random_),
        variables_(case_, pool_, random_) {
    for (const OpRow& row : rows_) sum_of_weights_ += row.weight;
  }

  absl::StatusOr<GraphCase> Make() {
    case_.num_steps = random_.Chance(60) ? 2 : 1;
    const int64_t count = random_.Between(4, options_.max_nodes);
    for (int64_t i = 0; i < count && g().ok(); ++i) AddSomething(0);
    if (g().ok()) AddGradient();
    if (g().ok()) ReadVariables();
    WEIR_RETURN_IF_ERROR(g().status());
    ChooseFetches();
    WEIR_RETURN_IF_ERROR(g().status());
    return std::move(case_);
  }

 private:
  GraphCase& Prepared() {
    case_.builder = std::make_unique<GraphBuilder>(StandardOps());
    case_.initializer = case_.builder->AddNode("NoOp", {}, {}, "initialize_variables");
    return case_;
  }

  GraphBuilder& g() { return *case_.builder; }

  void AddSomething(int depth) {
    const int64_t kind = random_.Below(100);
    if (kind < 5 && depth < kMaxDepth) return AddCond(depth);
    if (kind < 8 && depth < kMaxDepth) return AddWhile(depth);
    if (kind < 20 && loop_depth_ == 0) return UseVariable();
    if (kind < 24 && depth == 0) return AddGradient();
    AddCall();
  }

  // ---- Ops ----

  const OpRow& PickRow() {
    int64_t at = random_.Below(sum_of_weights_);
    for (const OpRow& row : rows_) {
      at -= row.weight;
      if (at < 0) return row;
    }
    return rows_[0];
  }

  void AddCall() {
    const OpRow& row = PickRow();
    const DType dtype = PickDType(random_, row.dtypes);
    pool_.BeginNode();
    std::optional<OpCall> call = row.draw(pool_, dtype);
    if (!call || !g().ok()) return;
    auto control = g().ControlScope(RandomControl());
    Node* node = g().AddNode(row.op, std::move(call->inputs), std::move(call->attrs));
    if (node != nullptr) AddResults(*node, row.num_offered < 0 ? node->num_outputs() : row.num_offered);
  }

  // Sometimes a node or two that are there already.
  std::vector<Node*> RandomControl() {
    std::vector<Node*> before;
    const std::vector<Operand>& near = pool_.innermost();
    while (!near.empty() && before.size() < 2 && random_.Chance(12)) {
      before.push_back(random_.Pick(near).output.node);
    }
    if (!pool_.is_inside() && !case_.feeds.empty() && random_.Chance(5)) {
      before.push_back(random_.Pick(case_.feeds).first.node);
    }
    return before;
  }

  // Computes the node and offers its first outputs to later ones.
  void AddResults(Node& node, int num_offered) {
    std::vector<Array> inputs;
    bool varies = false;
    for (const Output& input : node.inputs()) {
      const Operand* operand = pool_.Find(input);
      if (operand == nullptr) {
        inputs.push_back(ConstantOf(input));
      } else {
        varies = varies || operand->varies;
        inputs.push_back(operand->value);
      }
    }
    const absl::StatusOr<std::vector<Array>> outputs = EvaluateReference(node, std::move(inputs));
    if (!outputs.ok()) return g().SetError(outputs.status());
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (!IsTame((*outputs)[i], node.output_type(i))) return;
    }
    for (int i = 0; i < num_offered; ++i) {
      bool is_undefined = false;
      Operand result = {node.output(i), Represented((*outputs)[i], node.output_type(i), true, &is_undefined),
                        varies};
      if (is_undefined) continue;  // overflows its dtype
      if (!pool_.is_inside() && random_.Chance(2)) pool_.FeedInterior(&result);
      pool_.Add(std::move(result));
    }
  }

  // Of an input that is in no pool: what a row made to steer its op.
  Array ConstantOf(const Output& output) {
    if (output.node->op_name() == "Const") return Array::FromTensor(output.node->attr<Tensor>("value"));
    for (const auto& [fed, value] : case_.feeds) {
      if (fed == output) return Array::FromTensor(value);
    }
    if (output.node->op_name() == "PlaceholderWithDefault") return ConstantOf(output.node->input(0));
    g().SetError(absl::InternalError(absl::StrCat("the generator knows no value of '", output.name(), "'")));
    return Array();
  }

  void UseVariable() {
    Node* const node = variables_.Use();
    if (node != nullptr) writes_.push_back(node);
  }

  // What the writes have done is fetched at the end.
  void ReadVariables() {
    for (MutableVariable& variable : variables_.all()) {
      if (!variable.is_touched || !random_.Chance(60)) continue;
      auto after = g().ControlScope({variable.last});
      const Output value =
          g().AddOp("ReadVariableOp", {variable.handle}, {{"dtype", variable.dtype}}, "read_at_end");
      if (value) final_reads_.push_back(value);
    }
  }

  // ---- Conditionals and loops ----

  struct Branch {
    std::vector<Operand> results;
    std::vector<Node*> touches;
  };

  // Some calls, then results of the wanted types; `wanted` empty: any.
  Branch MakeBranch(int depth, const std::vector<Operand>& wanted) {
    Branch branch;
    std::vector<Node*> before;
    for (const MutableVariable& variable : variables_.all()) before.push_back(variable.last);
    pool_.BeginScope();
    for (int64_t count = random_.Below(5); count > 0 && g().ok(); --count) AddSomething(depth + 1);
    if (wanted.empty()) {
      for (int64_t count = 1 + random_.Below(3); count > 0; --count) {
        branch.results.push_back(random_.Chance(25) ? DrawSizes() : DrawAnything());
      }
    }
    for (const Operand& like : wanted) {
      branch.results.push_back(random_.Chance(50) ? DrawSizesLike(like) : DrawLike(like));
    }
    pool_.EndScope();
    // What touches variables in here is part of the first result.
    for (size_t i = 0; i < before.size(); ++i) {
      Node*& last = variables_.all()[i].last;
      if (last != before[i]) branch.touches.push_back(last);
      last = before[i];
    }
    if (!branch.touches.empty() && g().ok()) {
      auto control = g().ControlScope(branch.touches);
      branch.results[0].output = g().AddOp("Identity", {branch.results[0].output}, {}, "after_effects");
    }
    return branch;
  }

  Operand DrawAnything() {
    pool_.BeginNode();
    return pool_.Any(PickDType(random_, Anything()));
  }
  Operand DrawLike(const Operand& like) {
    pool_.BeginNode();
    return pool_.OfShape(like.dtype(), like.dims());
  }

  // What is known of a tensor without its value, and yet must not be there in a branch that is not taken.
  Operand DrawSizes() {
    const Operand x = DrawAnything();
    return AddSizes(random_.Pick<const char*>({"Shape", "Size", "Rank"}), x);
  }
  Operand DrawSizesLike(const Operand& like) {
    if (like.dtype() != DType::kInt32 || like.rank() > 1 || like.value.size() > 5) return DrawLike(like);
    pool_.BeginNode();
    const DType dtype = PickDType(random_, Anything());
    if (like.rank() == 0) return AddSizes("Size", pool_.Any(dtype));
    return AddSizes("Shape", pool_.OfRank(dtype, static_cast<int>(like.value.size())));
  }
  Operand AddSizes(const char* op, const Operand& x) {
    Node* const node = g().AddNode(op, {x.output});
    const size_t before = pool_.innermost().size();
    if (node != nullptr) AddResults(*node, 1);
    return pool_.innermost().size() > before ? pool_.innermost().back() : x;
  }

  static std::vector<Output> OutputsOf(const std::vector<Operand>& operands) {
    std::vector<Output> outputs;
    for (const Operand& operand : operands) outputs.push_back(operand.output);
    return outputs;
  }

  void AddCond(int depth) {
    pool_.BeginNode();
    const Operand pred = pool_.OfShape(DType::kBool, {});
    Branch when_true, when_false;  // the one that is made second follows the first
    const std::vector<Output> merged = Cond(
        g(), pred.output,
        [&] {
          when_true = MakeBranch(depth, when_false.results);
          return OutputsOf(when_true.results);
        },
        [&] {
          when_false = MakeBranch(depth, when_true.results);
          return OutputsOf(when_false.results);
        });
    if (!g().ok()) return;
    const bool chosen = !pred.value[0].is_zero();
    const bool has_effects = !when_true.touches.empty() || !when_false.touches.empty();
    for (size_t i = 0; i < merged.size(); ++i) {
      const Operand& taken = chosen ? when_true.results[i] : when_false.results[i];
      const bool varies = pred.varies || when_true.results[i].varies || when_false.results[i].varies;
      pool_.Add({merged[i], taken.value, varies});
    }
    if (!has_effects) return;
    writes_.push_back(merged[0].node);
    for (MutableVariable& variable : variables_.all()) {
      if (!variable.is_touched) continue;
      // Also after what came before the conditional: the branch that was taken may not have touched it.
      auto control =
          g().ControlScope(variable.last == nullptr ? std::vector<Node*>{merged[0].node}
                                                    : std::vector<Node*>{merged[0].node, variable.last});
      variable.last = g().AddNode("NoOp", {}, {}, "after_cond");
    }
  }

  // A counter and one or two variables that the body computes anew.
  void AddWhile(int depth) {
    pool_.BeginNode();
    std::vector<Operand> initial = {pool_.Leaf(DType::kInt32, {}, 0, 0)};
    for (int64_t count = 1 + random_.Below(2); count > 0; --count) {
      initial.push_back(pool_.Any(PickDType(random_, Numbers())));
    }
    if (!g().ok()) return;
    const int64_t num_iterations = random_.Below(5);
    std::vector<PartialShape> invariants;
    for (const Operand& operand : initial) invariants.push_back(operand.output.shape());
    ++loop_depth_;
    const std::vector<Output> exits = While(
        g(), OutputsOf(initial),
        [&](const std::vector<Output>& variables) {
          const Output limit = g().AddOp(
              "Const", {},
              {{"value", Tensor::Scalar(static_cast<int32_t>(num_iterations))}, {"dtype", DType::kInt32}},
              "limit");
          return g().AddOp("Less", {variables[0], limit});
        },
        [&](const std::vector<Output>& variables) { return MakeBody(depth, initial, variables); },
        {.shape_invariants = invariants});
    --loop_depth_;
    if (!g().ok()) return;
    AddLoopResults(exits);
  }

  std::vector<Output> MakeBody(int depth, const std::vector<Operand>& initial,
                               const std::vector<Output>& variables) {
    if (!g().ok()) return variables;
    pool_.BeginScope();
    std::vector<Operand> inside;
    for (size_t i = 0; i < variables.size(); ++i) {
      inside.push_back({variables[i], initial[i].value, /*varies=*/true});
      pool_.Add(inside.back());
    }
    for (int64_t count = 1 + random_.Below(5); count > 0 && g().ok(); --count) AddSomething(depth + 1);
    const Output one =
        g().AddOp("Const", {}, {{"value", Tensor::Scalar<int32_t>(1)}, {"dtype", DType::kInt32}}, "one");
    std::vector<Output> results = {g().AddOp("AddV2", {variables[0], one})};
    for (size_t i = 1; i < variables.size() && g().ok(); ++i) {
      pool_.BeginNode();
      const PartialShape& invariant = initial[i].output.shape();
      const Operand next = pool_.Draw(
          inside[i].dtype(),
          [&](const Operand& operand) {
            return operand.dims() == inside[i].dims() && operand.output.shape() == invariant;
          },
          [&] { return inside[i]; });
      results.push_back(next.output);
    }
    pool_.EndScope();
    return results;
  }

  // Interprets the loop alone: what is visible here is fed.
  void AddLoopResults(const std::vector<Output>& exits) {
    const absl::StatusOr<Trace> trace = Interpret(exits);
    if (!trace.ok()) return g().SetError(trace.status());
    for (size_t i = 0; i < exits.size(); ++i) {
      const NodeValues& values = trace->at({exits[i].node->id(), {}});
      if (values.is_dead || values.is_undefined) continue;
      if (!IsTame(*values.outputs[0], exits[i].dtype())) continue;
      pool_.Add({exits[i], *values.outputs[0], /*varies=*/true});
    }
  }

  absl::StatusOr<Trace> Interpret(const std::vector<Output>& outputs) {
    Interpreter::Feeds feeds;
    for (const auto& [fed, value] : case_.feeds) feeds.emplace(fed, Array::FromTensor(value));
    for (const Operand& operand : pool_.Visible()) feeds.emplace(operand.output, operand.value);
    Variables variables;
    for (const MutableVariable& variable : variables_.all()) {
      variables[variable.handle.node->attr<std::string>("shared_name")].value = variable.initial;
    }
    return Interpreter(g().graph()).Step(feeds, outputs, {}, &variables);
  }

  // ---- Gradients ----

  // The nodes between xs and y may be differentiated: no loops, as AddGradients refuses those.
  bool CanDifferentiate(const Output& y, const std::vector<Output>& xs) {
    std::set<const Node*> before_y, after_x;
    std::vector<const Node*> stack = {y.node};
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if (!before_y.insert(node).second) continue;
      for (const Output& input : node->inputs()) stack.push_back(input.node);
    }
    const auto order = g().graph().TopologicalOrder();
    if (!order.ok()) return false;
    for (const Output& x : xs) after_x.insert(x.node);
    for (const Node* node : *order) {
      for (const Output& input : node->inputs()) {
        if (after_x.count(input.node) > 0) after_x.insert(node);
      }
    }
    bool reaches = false;
    for (const Node* node : before_y) {
      if (after_x.count(node) == 0) continue;
      reaches = reaches || std::any_of(xs.begin(), xs.end(), [&](const Output& x) { return x.node == node; });
      if (IsNotDifferentiated(*node)) return false;
      for (int i = 0; i < node->num_inputs(); ++i) {
        if (LeavesOut(*node, i) && after_x.count(node->input(i).node) > 0) return false;
      }
    }
    return reaches;
  }

  void AddGradient() {
    std::vector<Operand> floating;
    for (const Operand& operand : pool_.outermost()) {
      if (IsFloating(operand.dtype())) floating.push_back(operand);
    }
    if (floating.size() < 2 || g().graph().num_nodes() > 500) return;
    const auto count = static_cast<int64_t>(floating.size());
    const Operand y = floating[std::max(random_.Below(count), random_.Below(count))];
    GradientRequest request = {.y = y.output};
    // Half of them see one op alone: on a long way a wrong gradient often meets a kink or a zero.
    const bool is_of_one_op = random_.Chance(50);
    for (int64_t left = 1 + random_.Below(3); left > 0; --left) {
      const Operand* x = &random_.Pick(floating);
      if (is_of_one_op && y.output.node->num_inputs() > 0) {
        x = pool_.Find(y.output.node->input(static_cast<int>(random_.Below(y.output.node->num_inputs()))));
      }
      if (x == nullptr || !IsFloating(x->dtype()) || x->output == y.output) continue;
      request.xs.push_back(x->output);
    }
    if (request.xs.empty() || !CanDifferentiate(y.output, request.xs)) return;
    if (random_.Chance(40)) {
      pool_.BeginNode();
      request.grad_y = pool_.OfShape(y.dtype(), y.dims()).output;
    }
    const std::vector<Output> grad_ys =
        request.grad_y ? std::vector<Output>{request.grad_y} : std::vector<Output>{};
    absl::StatusOr<std::vector<Output>> results = AddGradients(g(), {request.y}, request.xs, grad_ys);
    if (!results.ok()) return;  // the builder has the error
    request.results = *std::move(results);
    AddGradientResults(request);
    case_.gradients.push_back(std::move(request));
  }

  void AddGradientResults(const GradientRequest& request) {
    for (const Output& result : request.results) {
      if (!result) continue;
      if (pool_.Find(result) != nullptr) continue;  // a grad_y that flows on unchanged
      const absl::StatusOr<Trace> trace = Interpret({result});
      if (!trace.ok()) return g().SetError(trace.status());
      const NodeValues& values = trace->at({result.node->id(), {}});
      if (values.is_dead || values.is_undefined) continue;
      if (!IsTame(*values.outputs[result.index], result.dtype())) continue;
      pool_.Add({result, *values.outputs[result.index], /*varies=*/true});
      gradient_results_.push_back(result);
    }
  }

  // ---- Fetches ----

  void ChooseFetches() {
    const auto is_fed = [&](const Output& output) {
      return std::any_of(case_.feeds.begin(), case_.feeds.end(),
                         [&](const auto& feed) { return feed.first == output; });
    };
    const std::vector<Operand>& all = pool_.outermost();
    const auto count = static_cast<int64_t>(all.size());
    for (int64_t left = 1 + random_.Below(5); left > 0 && count > 0; --left) {
      const Output output = all[std::max(random_.Below(count), random_.Below(count))].output;
      if (!is_fed(output)) case_.fetches.push_back(output);
    }
    for (const Output& result : gradient_results_) {
      if (!is_fed(result) && random_.Chance(70)) case_.fetches.push_back(result);
    }
    case_.fetches.insert(case_.fetches.end(), final_reads_.begin(), final_reads_.end());
    for (Node* write : writes_) {
      if (random_.Chance(50)) case_.targets.push_back(write);
    }
    if (case_.initializer->control_inputs().empty()) case_.initializer = nullptr;
    // A gradient that nobody fetches is no part of the case.
    std::vector<GradientRequest> fetched;
    for (GradientRequest& request : case_.gradients) {
      for (Output& result : request.results) {
        if (std::find(case_.fetches.begin(), case_.fetches.end(), result) == case_.fetches.end()) result = {};
      }
      if (std::any_of(request.results.begin(), request.results.end(),
                      [](const Output& o) { return bool(o); })) {
        fetched.push_back(std::move(request));
      }
    }
    case_.gradients = std::move(fetched);
  }

  Random random_;
  const GeneratorOptions options_;
  const std::vector<OpRow> rows_;
  int64_t sum_of_weights_ = 0;
  GraphCase case_;
  Pool pool_;
  MutableVariables variables_;
  std::vector<Node*> writes_;
  std::vector<Output> gradient_results_, final_reads_;
  int loop_depth_ = 0;
};

}  // namespace

absl::StatusOr<GraphCase> Generate(uint64_t seed, const GeneratorOptions& options) {
  return Generator(seed, options).Make();
}

}  // namespace weir::random_graphs
