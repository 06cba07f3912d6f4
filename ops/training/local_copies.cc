#include "ops/training/local_copies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"
#include "ops/training/local_steps.h"

namespace weir {
namespace {

absl::Status Fail(GraphBuilder& g, absl::string_view asker, absl::string_view what, SourceLocation where) {
  g.SetError(absl::InvalidArgumentError(absl::StrCat(asker, ": ", what)), where);
  return g.status();
}

// A node that uses the variable's handle otherwise than to set or read its value; null when there is none.
const Node* OtherUser(const Graph& graph, const ModelVariable& variable) {
  for (const std::unique_ptr<Node>& node : graph.nodes()) {
    const auto inputs = node->inputs();
    if (std::find(inputs.begin(), inputs.end(), variable.handle) == inputs.end()) continue;
    const bool is_usual = node.get() == variable.initializer || node.get() == variable.value.node ||
                          node->op_name() == "VarIsInitializedOp" ||
                          // Of initializers that were replaced, and of savers.
                          (node->op_name() == "AssignVariableOp" && inputs[0] == variable.handle);
    if (!is_usual) return node.get();
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<ModelVariable>> ChosenVariables(GraphBuilder& g, absl::string_view asker,
                                                           const GradientOptions& options,
                                                           SourceLocation where) {
  std::vector<ModelVariable> chosen = options.variables ? *options.variables : TrainableVariables(g);
  if (options.only) {
    chosen.erase(std::remove_if(chosen.begin(), chosen.end(),
                                [&](const ModelVariable& variable) { return !options.only(variable); }),
                 chosen.end());
  }
  if (chosen.empty()) return Fail(g, asker, "there are no variables to train", where);
  return chosen;
}

absl::StatusOr<std::vector<LocalCopy>> MakeLocalCopies(GraphBuilder& g, absl::string_view asker,
                                                       const std::vector<ModelVariable>& variables,
                                                       SourceLocation where) {
  std::vector<LocalCopy> copies;
  for (const ModelVariable& variable : variables) {
    if (!g.ok()) return g.status();
    const Node* const handle = variable.handle.node;
    if (handle == nullptr || g.graph().FindNode(handle->name()) != handle) {
      return Fail(g, asker, absl::StrCat("the variable '", variable.name, "' is not in this graph"), where);
    }
    if (CopyOfCenter(copies, variable) != nullptr) {
      return Fail(g, asker, absl::StrCat("the variable '", variable.name, "' is listed twice"), where);
    }
    if (const Node* const user = OtherUser(g.graph(), variable); user != nullptr) {
      return Fail(
          g, asker,
          absl::StrCat("the variable '", variable.name, "' is used by '", user->name(), "' (",
                       user->op_name(), "): only variables that are read as a whole can have a local copy"),
          where);
    }
    copies.push_back(
        {variable, MakeLocalVariable(g, absl::StrCat(variable.name, "/local"), variable.value, where)});
  }
  if (!g.ok()) return g.status();
  return copies;
}

const LocalCopy* CopyOfCenter(const std::vector<LocalCopy>& copies, const ModelVariable& center) {
  const auto found = std::find_if(copies.begin(), copies.end(), [&center](const LocalCopy& copy) {
    return copy.center.handle == center.handle;
  });
  return found == copies.end() ? nullptr : &*found;
}

absl::Status CheckLocalGradients(GraphBuilder& g, absl::string_view asker,
                                 const std::vector<GradientAndVariable>& gradients,
                                 const std::vector<LocalCopy>& copies, SourceLocation where) {
  bool has_one = false;
  for (const auto& [gradient, center] : gradients) {
    if (IsNull(gradient)) continue;
    has_one = true;
    if (CopyOfCenter(copies, center) == nullptr) {
      return Fail(g, asker,
                  absl::StrCat("the variable '", center.name,
                               "' has no local copy: the gradients must be those of ComputeGradients"),
                  where);
    }
    if (std::holds_alternative<Output>(gradient)) continue;
    return Fail(g, asker,
                absl::StrCat("the gradient of the variable '", center.name,
                             "' is of some of its rows: only dense gradients can be applied to a local copy"),
                where);
  }
  if (!has_one) return Fail(g, asker, "the loss depends on none of the variables", where);
  return g.status();
}

void ReadInstead(GraphBuilder& g, const std::vector<LocalCopy>& copies, const std::vector<Output>& values,
                 int first_new) {
  if (!g.ok()) return;
  for (int id = 0; id < first_new; ++id) {
    Node* const node = g.graph().node(id);
    if (node->op_name() == "SaveV2") continue;  // checkpoints are of the centers
    for (int i = 0; i < static_cast<int>(node->inputs().size()); ++i) {
      for (size_t k = 0; k < copies.size(); ++k) {
        if (node->inputs()[i] == copies[k].center.value) g.graph().SetInput(node, i, values[k]);
      }
    }
  }
}

}  // namespace weir
