#include "tests/random_graphs/shrink.h"

#include <utility>

#include "absl/status/statusor.h"
#include "tests/random_graphs/interpreter.h"

namespace weir::random_graphs {
namespace {

class Shrinker {
 public:
  Shrinker(GraphCase original, const StillFails& still_fails, const ShrinkOptions& options)
      : best_(std::move(original)), still_fails_(still_fails), options_(options) {}

  GraphCase Run() {
    for (bool is_smaller = true; is_smaller && attempts_ < options_.max_attempts;) {
      is_smaller = DropRequests();
      is_smaller = CutNodes() || is_smaller;
      is_smaller = BypassNodes() || is_smaller;
      is_smaller = DropControlEdges() || is_smaller;
      is_smaller = DropFeeds() || is_smaller;
    }
    return std::move(best_);
  }

 private:
  bool Try(absl::StatusOr<GraphCase> candidate) {
    if (++attempts_ > options_.max_attempts || !candidate.ok() || !still_fails_(*candidate)) return false;
    best_ = *std::move(candidate);
    return true;
  }

  Edits NewEdits() const {
    Edits edits;
    edits.differentiates_again = options_.differentiates_again;
    return edits;
  }

  // A copy with the whole signature, for Narrow to take parts from.
  absl::StatusOr<GraphCase> Copy(const std::function<void(GraphCase*)>& narrow) {
    // The signature is narrowed in place and put back: it decides what CopyCase keeps.
    GraphCase narrowed;
    narrowed.feeds = best_.feeds;
    narrowed.fetches = best_.fetches;
    narrowed.targets = best_.targets;
    narrowed.initializer = best_.initializer;
    narrowed.num_steps = best_.num_steps;
    narrowed.gradients = best_.gradients;
    narrow(&narrowed);
    narrowed.builder = std::move(best_.builder);
    absl::StatusOr<GraphCase> copy = CopyCase(narrowed, NewEdits());
    best_.builder = std::move(narrowed.builder);
    return copy;
  }

  template <typename T>
  bool DropEach(std::vector<T> GraphCase::*list) {
    bool is_smaller = false;
    for (size_t i = (best_.*list).size(); i-- > 0;) {
      if (i >= (best_.*list).size()) continue;
      is_smaller = Try(Copy([&](GraphCase* c) { (c->*list).erase((c->*list).begin() + i); })) || is_smaller;
    }
    return is_smaller;
  }

  bool DropRequests() {
    bool is_smaller = false;
    if (!options_.differentiates_again && !best_.gradients.empty()) {
      is_smaller = Try(Copy([](GraphCase* c) { c->gradients.clear(); }));
    }
    if (!options_.differentiates_again) {
      for (size_t i = 0; i < best_.fetches.size() && best_.fetches.size() > 1; ++i) {
        const Output only = best_.fetches[i];
        if (Try(Copy([&](GraphCase* c) { c->fetches = {only}; }))) is_smaller = true;
      }
      is_smaller = DropEach(&GraphCase::fetches) || is_smaller;
      is_smaller = DropEach(&GraphCase::targets) || is_smaller;
    }
    if (best_.num_steps > 1) is_smaller = Try(Copy([](GraphCase* c) { c->num_steps = 1; })) || is_smaller;
    is_smaller = DropEach(&GraphCase::gradients) || is_smaller;
    for (size_t g = 0; g < best_.gradients.size(); ++g) {
      for (size_t i = best_.gradients[g].xs.size(); i-- > 0 && best_.gradients[g].xs.size() > 1;) {
        is_smaller = Try(Copy([&](GraphCase* c) {
                       GradientRequest& request = c->gradients[g];
                       request.xs.erase(request.xs.begin() + i);
                       if (i < request.results.size()) request.results.erase(request.results.begin() + i);
                     })) ||
                     is_smaller;
      }
      if (!best_.gradients[g].grad_y || !options_.differentiates_again) continue;
      is_smaller = Try(Copy([&](GraphCase* c) { c->gradients[g].grad_y = {}; })) || is_smaller;
    }
    return is_smaller;
  }

  // The values of the first step, as far as the interpreter gets.
  Trace Values() {
    Interpreter interpreter(best_.graph());
    Variables variables;
    Interpreter::Feeds feeds;
    for (const auto& [output, value] : best_.feeds) feeds.emplace(output, Array::FromTensor(value));
    if (best_.initializer != nullptr) {
      (void)interpreter.Step({}, {}, {best_.initializer}, &variables);
    }
    std::vector<Output> wanted = best_.fetches;
    for (const GradientRequest& gradient : best_.gradients) {
      wanted.push_back(gradient.y);
      wanted.insert(wanted.end(), gradient.xs.begin(), gradient.xs.end());
    }
    absl::StatusOr<Trace> trace = interpreter.Step(feeds, wanted, best_.targets, &variables);
    return trace.ok() ? *std::move(trace) : Trace();
  }

  // Replaces single outputs by constants, last ones first: what only they needed goes.
  bool CutNodes() {
    bool is_smaller = false;
    Trace values = Values();
    for (int id = best_.graph().num_nodes() - 1; id >= 0; --id) {
      if (id >= best_.graph().num_nodes()) continue;
      Node* node = best_.graph().node(id);
      if (node->op_name() == "Const" || node->num_outputs() == 0) continue;
      auto found = values.find({id, {}});
      if (found == values.end()) continue;
      Edits edits = NewEdits();
      for (int i = 0; i < node->num_outputs(); ++i) {
        if (!found->second.outputs[i] || node->output_type(i) == DType::kResource) continue;
        edits.constants.emplace_back(node->output(i),
                                     found->second.outputs[i]->ToTensor(node->output_type(i)));
      }
      if (edits.constants.empty() || !Try(CopyCase(best_, edits))) continue;
      is_smaller = true;
      values = Values();
    }
    return is_smaller;
  }

  // Consumers of a node read one of its inputs instead.
  bool BypassNodes() {
    bool is_smaller = false;
    for (int id = best_.graph().num_nodes() - 1; id >= 0; --id) {
      if (id >= best_.graph().num_nodes()) continue;
      Node* node = best_.graph().node(id);
      const std::string op = node->op_name();
      if (node->num_outputs() == 0 || op == "Switch" || op == "Enter" || op == "Exit" || op == "LoopCond")
        continue;
      for (int i = 0; i < node->num_inputs(); ++i) {
        const Output input = node->input(i);
        const bool fits = input.dtype() == node->output_type(0) && input.dtype() != DType::kResource &&
                          input.shape().IsCompatibleWith(node->output_shape(0));
        if (!fits || op == "NextIteration" || input.node->op_name() == "NextIteration") continue;
        Edits edits = NewEdits();
        edits.replaced.emplace(node->output(0), input);
        if (Try(CopyCase(best_, edits))) {
          is_smaller = true;
          break;
        }
      }
    }
    return is_smaller;
  }

  bool DropControlEdges() {
    bool is_smaller = false;
    for (int id = best_.graph().num_nodes() - 1; id >= 0; --id) {
      if (id >= best_.graph().num_nodes()) continue;
      const Node* node = best_.graph().node(id);
      if (node == best_.initializer) continue;
      const std::vector<Node*> control(node->control_inputs().begin(), node->control_inputs().end());
      for (const Node* before : control) {
        Edits edits = NewEdits();
        edits.dropped_control.insert({before, node});
        if (Try(CopyCase(best_, edits))) {
          is_smaller = true;
          break;
        }
      }
    }
    return is_smaller;
  }

  // Fed outputs become constants.
  bool DropFeeds() {
    bool is_smaller = false;
    for (size_t i = best_.feeds.size(); i-- > 0;) {
      if (i >= best_.feeds.size()) continue;
      Edits edits = NewEdits();
      edits.constants.emplace_back(best_.feeds[i].first, best_.feeds[i].second);
      is_smaller = Try(CopyCase(best_, edits)) || is_smaller;
    }
    return is_smaller;
  }

  GraphCase best_;
  const StillFails& still_fails_;
  const ShrinkOptions options_;
  int attempts_ = 0;
};

}  // namespace

GraphCase Shrink(GraphCase original, const StillFails& still_fails, const ShrinkOptions& options) {
  return Shrinker(std::move(original), still_fails, options).Run();
}

}  // namespace weir::random_graphs
