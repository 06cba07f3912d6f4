#include "ops/control_flow.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace weir {
namespace {

using Outputs = std::vector<Output>;

// The nodes added between construction and Close: a branch, or the inside of a loop. Close makes them depend
// on it: each of their inputs from outside comes through the node that `lead_in` makes for it (once per
// tensor), and a node without inputs runs after the region's pivot. So does, in a loop, a node whose inputs
// all come from outside: they are there in every iteration, also when the condition was false, and a loop
// that went on with the node's result would never end.
class Region {
 public:
  using LeadIn = std::function<Output(const Output& outside)>;
  enum class Kind { kBranch, kLoop };

  Region(GraphBuilder& g, Kind kind, LeadIn lead_in)
      : g_(g), kind_(kind), lead_in_(std::move(lead_in)), begin_(g.graph().num_nodes()) {}

  // An output of a node outside that nodes inside may read as it is.
  void AddEntrance(const Output& entrance) { led_in_.emplace(entrance, entrance); }

  // The pivot of the nodes that are added from now on. Precondition: those added before it have inputs.
  void SetPivot(Node* pivot) { pivots_.emplace_back(g_.graph().num_nodes(), pivot); }

  void Close() {
    end_ = g_.graph().num_nodes();
    for (int id = begin_; id < end_ && g_.ok(); ++id) Enclose(g_.graph().node(id));
  }

  // A result of the region, which may be a tensor from outside. Precondition: closed.
  Output Inside(const Output& output) { return IsInside(output.node) ? output : LedIn(output); }

  // Nodes outside whose control edges into the loop were dropped. A branch keeps them.
  const std::vector<Node*>& awaited() const { return awaited_; }

 private:
  bool IsInside(const Node* node) const { return node->id() >= begin_ && node->id() < end_; }

  bool IsEntrance(const Output& output) const {
    const auto found = led_in_.find(output);
    return found != led_in_.end() && found->second == output;
  }

  Node* PivotOf(const Node* node) const {
    Node* pivot = nullptr;
    for (const auto& [begin, candidate] : pivots_) {
      if (node->id() >= begin) pivot = candidate;
    }
    return pivot;
  }

  void Enclose(Node* node) {
    Outputs inputs(node->inputs().begin(), node->inputs().end());
    bool follows_region = false;
    for (Output& input : inputs) {
      follows_region = follows_region || kind_ == Kind::kBranch || IsInside(input.node) || IsEntrance(input);
      if (IsInside(input.node)) continue;
      const Node* outside = input.node;
      input = LedIn(input);
      if (!input) return;  // the builder has the error
      if (kind_ == Kind::kLoop) Recolocate(node, *outside, *input.node);
    }
    std::vector<Node*> control;
    for (Node* before : node->control_inputs()) {
      if (IsInside(before)) {
        follows_region = true;
      } else if (kind_ == Kind::kLoop) {
        awaited_.push_back(before);
        continue;
      }
      control.push_back(before);
    }
    if (!follows_region) control.push_back(PivotOf(node));
    g_.graph().Connect(node, std::move(inputs), std::move(control));
  }

  // A Switch of a conditional in the loop shares its data's device: that is now the led-in data's, which
  // comes into the loop once and need not cross in every iteration.
  void Recolocate(Node* node, const Node& outside, const Node& inside) {
    std::vector<std::string> names;
    bool changes = false;
    for (const std::string& name : node->colocation_names()) {
      changes = changes || name == outside.name();
      names.push_back(absl::StrCat("loc:@", name == outside.name() ? inside.name() : name));
    }
    if (!changes) return;
    g_.graph().SetAttr(node, "_class", names);
    g_.graph().SetRequestedDevice(node, inside.requested_device());
  }

  Output LedIn(const Output& outside) {
    const auto [known, is_new] = led_in_.emplace(outside, Output());
    if (!is_new) return known->second;
    const Output inside = lead_in_(outside);
    return led_in_[outside] = inside;
  }

  GraphBuilder& g_;
  const Kind kind_;
  const LeadIn lead_in_;
  const int begin_;
  int end_ = 0;
  std::vector<std::pair<int, Node*>> pivots_;  // with the first id of their nodes
  absl::flat_hash_map<Output, Output> led_in_;
  std::vector<Node*> awaited_;
};

absl::Status CheckSameTypes(absl::string_view name, const Outputs& when_true, const Outputs& when_false) {
  if (when_true.size() != when_false.size()) {
    return absl::InvalidArgumentError(absl::StrCat("Cond '", name, "': then_branch gives ", when_true.size(),
                                                   " tensors, else_branch ", when_false.size()));
  }
  for (size_t i = 0; i < when_true.size(); ++i) {
    if (!when_true[i] || !when_false[i]) {
      return absl::InvalidArgumentError(
          absl::StrCat("Cond '", name, "': result ", i, " is no node's output"));
    }
    if (when_true[i].dtype() != when_false[i].dtype()) {
      return absl::InvalidArgumentError(absl::StrCat("Cond '", name, "': result ", i, " is ",
                                                     DTypeName(when_true[i].dtype()), " of then_branch, ",
                                                     DTypeName(when_false[i].dtype()), " of else_branch"));
    }
  }
  return absl::OkStatus();
}

class CondBuilder {
 public:
  CondBuilder(GraphBuilder& g, Output pred, SourceLocation where) : g_(g), pred_(pred), where_(where) {}

  Outputs Build(const BranchFunction& then_branch, const BranchFunction& else_branch) {
    Node* pivots = g_.AddNode("Switch", {pred_, pred_}, {}, "Switch", where_);
    const Outputs when_false = Branch(0, pivots, else_branch);
    const Outputs when_true = Branch(1, pivots, then_branch);
    g_.SetError(CheckSameTypes(g_.name_scope(), when_true, when_false), where_);
    Outputs results(when_true.size());
    for (size_t i = 0; i < results.size() && g_.ok(); ++i) {
      results[i] = g_.AddOp("Merge", {Outputs{when_false[i], when_true[i]}}, {}, "Merge", where_);
    }
    return results;
  }

 private:
  // The function's results, as the branch sees them; nulls after an error.
  Outputs Branch(int index, Node* pivots, const BranchFunction& function) {
    // Its results are counted even then: callers may index what Cond returns.
    if (!g_.ok()) return Outputs(function().size());
    const Output pivot =
        g_.AddOp("Identity", {pivots->output(index)}, {}, index == 1 ? "switch_t" : "switch_f", where_);
    Region region(g_, Region::Kind::kBranch, [this, index](const Output& outside) -> Output {
      auto with_data = g_.ColocationScope(outside.node);
      Node* choice = g_.AddNode("Switch", {outside, pred_}, {}, "Switch", where_);
      return choice == nullptr ? Output() : choice->output(index);
    });
    region.SetPivot(pivot.node);
    Outputs results = function();
    region.Close();
    for (Output& result : results) result = result && g_.ok() ? region.Inside(result) : Output();
    return results;
  }

  GraphBuilder& g_;
  const Output pred_;
  const SourceLocation where_;
};

class WhileBuilder {
 public:
  WhileBuilder(GraphBuilder& g, const Outputs& initial, const WhileOptions& options, SourceLocation where)
      : g_(g), initial_(initial), options_(options), where_(where), frame_(g.name_scope()) {}

  Outputs Build(const LoopCondition& condition, const LoopBody& body) {
    g_.SetError(CheckVariables(), where_);
    for (const Output& value : initial_) enters_.push_back(AddEnter(value, /*is_constant=*/false));
    if (!g_.ok()) return Outputs(initial_.size());
    Region region(g_, Region::Kind::kLoop,
                  [this](const Output& outside) { return AddEnter(outside, /*is_constant=*/true); });
    for (const Output& enter : enters_) region.AddEntrance(enter);
    for (size_t i = 0; i < enters_.size(); ++i) merges_.push_back(AddMerge(i));
    region.SetPivot(merges_[0].node);
    const Output goes_on = g_.AddOp("LoopCond", {condition(merges_)}, {}, "LoopCond", where_);
    Outputs variables, exits;
    for (const Output& merge : merges_) {
      Node* choice = g_.AddNode("Switch", {merge, goes_on}, {}, "Switch", where_);
      if (choice == nullptr) return Outputs(initial_.size());
      exits.push_back(g_.AddOp("Exit", {choice->output(0)}, {}, "Exit", where_));
      variables.push_back(g_.AddOp("Identity", {choice->output(1)}, {}, "Identity", where_));
    }
    region.SetPivot(variables[0].node);
    CloseCycle(body(variables));
    region.Close();
    if (!g_.ok()) return Outputs(initial_.size());
    for (const Output& enter : enters_) {
      for (Node* before : region.awaited()) g_.graph().AddControlInput(enter.node, before);
    }
    return exits;
  }

 private:
  absl::Status CheckVariables() const {
    if (initial_.empty())
      return absl::InvalidArgumentError(absl::StrCat("While '", frame_, "' has no loop variable"));
    const size_t num_invariants = options_.shape_invariants.size();
    if (num_invariants != 0 && num_invariants != initial_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("While '", frame_, "' has ", initial_.size(),
                                                     " loop variables and ", num_invariants,
                                                     " shape invariants"));
    }
    return absl::OkStatus();
  }

  // On the device of the loop, not of the value, so that the value does not cross in every iteration.
  Output AddEnter(const Output& value, bool is_constant) {
    return g_.AddOp("Enter", {value}, {{"frame_name", frame_}, {"is_constant", is_constant}}, "Enter",
                    where_);
  }

  const PartialShape& Invariant(size_t i) const {
    return options_.shape_invariants.empty() ? initial_[i].shape() : options_.shape_invariants[i];
  }

  // Its second input is the value that the first iteration begins with until CloseCycle puts the real one
  // there.
  Output AddMerge(size_t i) {
    const AttrMap attrs = {{"_shape_invariant", Invariant(i)}};
    return g_.AddOp("Merge", {Outputs{enters_[i], enters_[i]}}, attrs, "Merge", where_);
  }

  void CloseCycle(const Outputs& results) {
    if (!g_.ok()) return;
    if (results.size() != merges_.size()) {
      return g_.SetError(
          absl::InvalidArgumentError(absl::StrCat("While '", frame_, "' has ", merges_.size(),
                                                  " loop variables, its body gives ", results.size())),
          where_);
    }
    for (size_t i = 0; i < results.size() && g_.ok(); ++i) {
      g_.SetError(CheckResult(i, results[i]), where_);
      const Output next = g_.AddOp("NextIteration", {results[i]}, {}, "NextIteration", where_);
      if (next) g_.graph().SetInput(merges_[i].node, 1, next);
    }
  }

  absl::Status CheckResult(size_t i, const Output& result) const {
    if (!result)
      return absl::InvalidArgumentError(
          absl::StrCat("While '", frame_, "': result ", i, " is no node's output"));
    if (result.dtype() == initial_[i].dtype() && IsWithin(result.shape(), Invariant(i)))
      return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "While '", frame_, "': loop variable ", i, " is ", TypeString(initial_[i].dtype(), Invariant(i)),
        ", the body gives ", TypeString(result.dtype(), result.shape()),
        result.dtype() == initial_[i].dtype() ? "; a shape invariant may leave dimensions open" : ""));
  }

  // True when every tensor of `shape` also has the shape `promised`.
  static bool IsWithin(const PartialShape& shape, const PartialShape& promised) {
    if (!promised.has_rank()) return true;
    if (!shape.has_rank() || shape.rank() != promised.rank()) return false;
    for (int d = 0; d < promised.rank(); ++d) {
      if (promised.dim(d) != PartialShape::kUnknownDim && promised.dim(d) != shape.dim(d)) return false;
    }
    return true;
  }

  GraphBuilder& g_;
  const Outputs initial_;
  const WhileOptions& options_;
  const SourceLocation where_;
  const std::string frame_;
  Outputs enters_;
  Outputs merges_;
};

}  // namespace

Outputs Cond(GraphBuilder& g, Output pred, const BranchFunction& then_branch,
             const BranchFunction& else_branch, const NodeOptions& options, SourceLocation where) {
  auto name_scope = g.NameScope(options.name.empty() ? "cond" : options.name);
  if (!then_branch || !else_branch) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat(
                   "Cond '", g.name_scope(), "': ", then_branch ? "else_branch" : "then_branch", " is null")),
               where);
    const BranchFunction& other = then_branch ? then_branch : else_branch;
    return Outputs(other ? other().size() : 0);
  }
  return CondBuilder(g, pred, where).Build(then_branch, else_branch);
}

Outputs While(GraphBuilder& g, const Outputs& initial, const LoopCondition& condition, const LoopBody& body,
              const WhileOptions& options, SourceLocation where) {
  auto name_scope = g.NameScope(options.name.empty() ? "while" : options.name);
  if (!condition || !body) {
    g.SetError(absl::InvalidArgumentError(absl::StrCat("While '", g.name_scope(), "': the ",
                                                       condition ? "body" : "condition", " is null")),
               where);
    return Outputs(initial.size());
  }
  return WhileBuilder(g, initial, options, where).Build(condition, body);
}

}  // namespace weir
