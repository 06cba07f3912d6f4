#include "placer/resource_kinds.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "placer/node_groups.h"

namespace weir {
namespace {

bool IsResource(DType dtype) { return dtype == DType::kResource; }

std::map<std::string, Unfit> UnfitKindsOf(const std::vector<Node*>& group, const std::set<std::string>& kinds,
                                          const KernelAvailability& has_kernel,
                                          const KindsOfResources& placed) {
  std::map<std::string, Unfit> unfit;
  for (const Node* const node : group) {
    const auto found = placed.find(node->name());
    if (found == placed.end()) continue;
    for (const std::string& kind : kinds) {
      if (kind != found->second) unfit.emplace(kind, Unfit{"", node->Describe(), found->second});
    }
    return unfit;
  }
  for (const std::string& kind : kinds) {
    const auto lacking =
        std::find_if(group.begin(), group.end(), [&](const Node* node) { return !has_kernel(*node, kind); });
    if (lacking == group.end()) continue;
    unfit.emplace(kind, Unfit{(*lacking)->op_name(), (*lacking)->Describe(), ""});
  }
  return unfit;
}

}  // namespace

std::string Unfit::Reason(absl::string_view device_type) const {
  if (op.empty()) return absl::StrCat(node, " is on a ", is_on, " since an earlier step");
  return absl::StrCat("there is no ", device_type, " kernel for ", op);
}

std::string Unfit::ReasonWithNode(absl::string_view device_type) const {
  if (op.empty()) return Reason(device_type);
  return absl::StrCat("there is no ", device_type, " kernel for ", node);
}

bool GivesResource(const Node& node) {
  const auto outputs = node.output_types();
  return std::any_of(outputs.begin(), outputs.end(), IsResource) &&
         std::none_of(node.inputs().begin(), node.inputs().end(),
                      [](const Output& input) { return IsResource(input.dtype()); });
}

UnfitKinds FindUnfitKinds(const Graph& graph, absl::Span<const DeviceName> devices,
                          const KernelAvailability& has_kernel, const KindsOfResources& placed) {
  std::set<std::string> kinds;
  for (const DeviceName& device : devices) kinds.insert(*device.type);
  UnfitKinds all;
  if (kinds.size() < 2) return all;
  const NodeGroups groups(graph);
  for (const std::vector<Node*>& group : groups.groups()) {
    std::vector<const Node*> givers;
    for (const Node* const node : group) {
      if (GivesResource(*node)) givers.push_back(node);
    }
    if (givers.empty()) continue;
    const std::map<std::string, Unfit> unfit = UnfitKindsOf(group, kinds, has_kernel, placed);
    if (unfit.empty()) continue;
    for (const Node* const giver : givers) all.emplace(giver->name(), unfit);
  }
  return all;
}

KindsOfResources KindsOfPlacedResources(const Graph& placed) {
  KindsOfResources kinds;
  for (const auto& node : placed.nodes()) {
    if (GivesResource(*node)) kinds.emplace(node->name(), *node->assigned_device().type);
  }
  return kinds;
}

}  // namespace weir
