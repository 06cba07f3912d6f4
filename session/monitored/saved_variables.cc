#include "session/monitored/saved_variables.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::StatusOr<SavedVariable> Saved(const Graph& graph, const VariableDef& def, const std::string& name) {
  SavedVariable result;
  result.variable = def.variable_name;
  result.name = name;
  WEIR_ASSIGN_OR_RETURN(result.value, graph.FindOutput(def.snapshot_name));
  WEIR_ASSIGN_OR_RETURN(result.handle, graph.FindOutput(def.handle_name));
  result.shape = result.value.shape();
  if (def.slice) {
    result.slice = def.slice->ToString();
    result.shape = def.slice->full_shape;
  }
  return result;
}

const std::string& NameInCheckpoints(const VariableDef& def) {
  return def.slice ? def.slice->full_name : def.variable_name;
}

absl::Status NoSuchVariable(const Graph& graph, const std::string& name) {
  std::vector<std::string> names;
  for (const VariableDef& def : graph.variables()) names.push_back(NameInCheckpoints(def));
  return absl::NotFoundError(
      absl::StrCat("the graph has no variable '", name, "'; it has ", QuotedNames(names)));
}

// Adds the variable of that name, or all its parts.
absl::Status Add(const Graph& graph, const std::string& variable, const std::string& name,
                 std::vector<SavedVariable>* result) {
  bool is_found = false;
  for (const VariableDef& def : graph.variables()) {
    if (def.variable_name != variable && NameInCheckpoints(def) != variable) continue;
    WEIR_ASSIGN_OR_RETURN(SavedVariable saved,
                          Saved(graph, def, name == variable ? NameInCheckpoints(def) : name));
    result->push_back(std::move(saved));
    is_found = true;
  }
  return is_found ? absl::OkStatus() : NoSuchVariable(graph, variable);
}

absl::Status CheckNames(const std::vector<SavedVariable>& variables) {
  if (variables.empty()) return absl::InvalidArgumentError("a saver needs variables; the graph has none");
  std::set<std::pair<std::string, std::string>> names;
  for (const SavedVariable& variable : variables) {
    if (variable.name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", variable.variable, "' is to be saved under an empty name: a tensor needs a name"));
    }
    if (names.emplace(variable.name, variable.slice).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("two variables are called '", variable.name,
                                                   "': a checkpoint has one tensor of a name"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SavedVariable>> FindSavedVariables(
    const Graph& graph, const std::vector<std::string>& variables,
    const std::map<std::string, std::string>& renamed) {
  if (!variables.empty() && !renamed.empty()) {
    return absl::InvalidArgumentError("a saver takes either a list of variables or renamed ones, got both");
  }
  std::vector<SavedVariable> result;
  if (variables.empty() && renamed.empty()) {
    for (const VariableDef& def : graph.variables()) {
      WEIR_ASSIGN_OR_RETURN(SavedVariable saved, Saved(graph, def, NameInCheckpoints(def)));
      result.push_back(std::move(saved));
    }
  }
  for (const std::string& name : variables) WEIR_RETURN_IF_ERROR(Add(graph, name, name, &result));
  for (const auto& [name, variable] : renamed) WEIR_RETURN_IF_ERROR(Add(graph, variable, name, &result));
  WEIR_RETURN_IF_ERROR(CheckNames(result));
  return result;
}

absl::StatusOr<std::vector<bool>> FindIn(const BundleReader& checkpoint,
                                         const std::vector<SavedVariable>& variables) {
  std::vector<bool> is_there;
  for (const SavedVariable& variable : variables) {
    const BundleEntry* entry = checkpoint.Find(variable.name);
    is_there.push_back(entry != nullptr);
    if (entry == nullptr) continue;
    const bool fits =
        entry->dtype == variable.value.dtype() && variable.shape.IsCompatibleWith(PartialShape(entry->shape));
    if (fits || !entry->foreign_dtype.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", variable.variable, "' is ", TypeString(variable.value.dtype(), variable.shape),
        ", but tensor '", variable.name, "' of checkpoint ", checkpoint.prefix(), " is ",
        TypeString(entry->dtype, entry->shape)));
  }
  return is_there;
}

std::string QuotedNames(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  const size_t shown = std::min(names.size(), kShown);
  if (names.empty()) return "none";
  return absl::StrCat("'", absl::StrJoin(names.begin(), names.begin() + shown, "', '"), "'",
                      shown < names.size() ? absl::StrCat(" and ", names.size() - shown, " more") : "");
}

}  // namespace weir
