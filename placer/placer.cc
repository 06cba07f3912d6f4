#include "placer/placer.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Union-find over node ids.
class Groups {
 public:
  explicit Groups(int count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int Find(int id) {
    while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
    return id;
  }
  void Join(int a, int b) { parent_[std::max(Find(a), Find(b))] = std::min(Find(a), Find(b)); }

 private:
  std::vector<int> parent_;
};

std::string DevicesToString(absl::Span<const DeviceName> devices) {
  return absl::StrJoin(devices, ", ",
                       [](std::string* out, const DeviceName& device) { out->append(device.ToString()); });
}

class Placer {
 public:
  Placer(const Graph& graph, absl::Span<const DeviceName> devices, const KernelAvailability& has_kernel,
         const PlacerOptions& options)
      : graph_(graph),
        devices_(devices),
        has_kernel_(has_kernel),
        options_(options),
        groups_(graph.num_nodes()) {
    FindGroups();
  }

  absl::Status Place(Graph& graph) {
    std::map<int, std::vector<Node*>> members;
    for (const auto& node : graph.nodes()) members[groups_.Find(node->id())].push_back(node.get());
    for (const auto& [root, nodes] : members) {
      WEIR_ASSIGN_OR_RETURN(DeviceName device, DeviceFor(nodes));
      for (Node* node : nodes) graph.SetAssignedDevice(node, device);
    }
    return absl::OkStatus();
  }

  void PlaceState(StatePlaces* places) {
    std::vector<bool> is_open(graph_.num_nodes(), false);  // by the root: has state without a place
    for (const auto& node : graph_.nodes()) {
      if (KeepsState(*node) && !places->contains(node->name())) is_open[groups_.Find(node->id())] = true;
    }
    std::map<int, std::vector<Node*>> members;
    for (const auto& node : graph_.nodes()) {
      const int root = groups_.Find(node->id());
      if (is_open[root]) members[root].push_back(node.get());
    }
    for (auto& [root, nodes] : members) {
      if (const absl::StatusOr<DeviceName> device = DeviceForAllSteps(nodes); device.ok()) {
        for (const Node* node : nodes) {
          if (KeepsState(*node)) places->emplace(node->name(), *device);
        }
      }
    }
  }

 private:
  // Who uses a resource goes where that is.
  static bool KeepsState(const Node& node) { return node.op().is_stateful() && !UsesResource(node); }

  absl::StatusOr<DeviceName> DeviceForAllSteps(std::vector<Node*> nodes) {
    const auto runs_nowhere = [&](Node* node) { return Candidates(DeviceName(), {node}).empty(); };
    nodes.erase(std::remove_if(nodes.begin(), nodes.end(), runs_nowhere), nodes.end());
    if (nodes.empty()) return absl::NotFoundError("no node of the group has a kernel");
    absl::StatusOr<DeviceName> device = DeviceFor(nodes);
    if (device.ok()) return device;
    nodes.erase(
        std::remove_if(nodes.begin(), nodes.end(), [](const Node* node) { return UsesResource(*node); }),
        nodes.end());
    return nodes.empty() ? device : DeviceFor(nodes);
  }

  void FindGroups() {
    absl::flat_hash_map<std::string, int> first_to_name;  // a node pruned from this step, by its name
    for (const auto& node : graph_.nodes()) {
      for (const std::string& name : node->colocation_names()) {
        const Node* other = graph_.FindNode(name);
        const int with =
            other != nullptr ? other->id() : first_to_name.emplace(name, node->id()).first->second;
        groups_.Join(node->id(), with);
      }
      for (const Output& input : node->inputs()) {
        if (input.dtype() == DType::kResource) groups_.Join(node->id(), input.node->id());
      }
    }
  }

  absl::StatusOr<DeviceName> DeviceFor(const std::vector<Node*>& nodes) {
    WEIR_ASSIGN_OR_RETURN(const Node* placed, PlacedState(nodes));
    DeviceName request;
    if (placed != nullptr) {
      request = options_.state_places->at(placed->name());
    } else {
      WEIR_ASSIGN_OR_RETURN(request, MergedRequest(nodes));
    }
    std::vector<DeviceName> candidates = Candidates(request, nodes);
    if (candidates.empty() && placed == nullptr && options_.allow_soft_placement &&
        (request.type || request.index)) {
      DeviceName softer = request;
      softer.type.reset();
      softer.index.reset();
      candidates = Candidates(softer, nodes);
    }
    if (candidates.empty()) return NoDevice(request, nodes);
    return *std::min_element(candidates.begin(), candidates.end(),
                             [this](const DeviceName& a, const DeviceName& b) { return Rank(a) < Rank(b); });
  }

  // The first of them whose state has a place; null when none has.
  absl::StatusOr<const Node*> PlacedState(const std::vector<Node*>& nodes) const {
    const Node* first = nullptr;
    if (options_.state_places == nullptr) return first;
    const StatePlaces& places = *options_.state_places;
    for (const Node* node : nodes) {
      if (!KeepsState(*node)) continue;
      const auto place = places.find(node->name());
      if (place == places.end()) continue;
      if (first == nullptr) {
        first = node;
      } else if (place->second != places.at(first->name())) {
        return absl::InvalidArgumentError(absl::StrCat(node->Describe(), " must share a device with ",
                                                       first->Describe(), ", but earlier steps keep it on '",
                                                       place->second.ToString(), "' and that on '",
                                                       places.at(first->name()).ToString(), "'"));
      }
    }
    return first;
  }

  // What all members ask for together. A node that works on a resource runs where the resource is, whatever
  // it asks for itself (a device setter sends a variable's reads and updates to the worker): its request
  // counts only as far as it agrees.
  absl::StatusOr<DeviceName> MergedRequest(const std::vector<Node*>& nodes) const {
    DeviceName merged;
    const Node* holder = nullptr;
    for (const bool resource_users : {false, true}) {
      for (const Node* node : nodes) {
        const DeviceName& request = node->requested_device();
        if (request.is_empty() || UsesResource(*node) != resource_users) continue;
        absl::StatusOr<DeviceName> both = merged.MergedWith(request);
        if (both.ok()) {
          merged = *both;
          if (holder == nullptr) holder = node;
        } else if (!resource_users) {
          return absl::InvalidArgumentError(absl::StrCat(
              node->Describe(), " must share a device with ", holder->Describe(), ", but asks for '",
              request.ToString(), "' and that for '", holder->requested_device().ToString(), "'"));
        }
      }
    }
    return merged;
  }

  static bool UsesResource(const Node& node) {
    return std::any_of(node.inputs().begin(), node.inputs().end(),
                       [](const Output& input) { return input.dtype() == DType::kResource; });
  }

  std::vector<DeviceName> Candidates(const DeviceName& request, const std::vector<Node*>& nodes) const {
    std::map<std::string, bool> runs_on_type;
    std::vector<DeviceName> result;
    for (const DeviceName& device : devices_) {
      if (!request.Matches(device)) continue;
      auto [known, is_new] = runs_on_type.emplace(*device.type, false);
      if (is_new) {
        known->second = std::all_of(nodes.begin(), nodes.end(),
                                    [&](const Node* node) { return has_kernel_(*node, *device.type); });
      }
      if (known->second) result.push_back(device);
    }
    return result;
  }

  // Smaller is better.
  std::tuple<bool, size_t, std::string, int, int> Rank(const DeviceName& device) const {
    const auto& types = options_.preferred_types;
    const size_t type = std::find(types.begin(), types.end(), *device.type) - types.begin();
    return {!options_.default_task.Matches(device), type, *device.job, *device.task, *device.index};
  }

  absl::Status NoDevice(const DeviceName& request, const std::vector<Node*>& nodes) const {
    const Node* first = *std::max_element(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) {
      return a->requested_device().is_empty() > b->requested_device().is_empty();
    });
    std::vector<std::string> lacking;
    for (const Node* node : nodes) {
      const bool runs_somewhere =
          std::any_of(devices_.begin(), devices_.end(), [&](const DeviceName& device) {
            return request.Matches(device) && has_kernel_(*node, *device.type);
          });
      if (!runs_somewhere && lacking.size() < 4) lacking.push_back(node->Describe());
    }
    const bool any_match = std::any_of(devices_.begin(), devices_.end(),
                                       [&](const DeviceName& device) { return request.Matches(device); });
    return absl::InvalidArgumentError(absl::StrCat(
        first->Describe(), ": no device for '", request.ToString(), "'",
        any_match ? absl::StrCat("; no kernel there for ", absl::StrJoin(lacking, ", "), DTypesOf(*first))
                  : "",
        "; the devices are ", DevicesToString(devices_), first->source().line == 0 ? "" : " (at ",
        first->source().ToString(), first->source().line == 0 ? "" : ")"));
  }

  static std::string DTypesOf(const Node& node) {
    std::vector<std::string> types;
    for (const Output& input : node.inputs()) types.emplace_back(DTypeName(input.dtype()));
    return types.empty() ? "" : absl::StrCat(" with inputs of ", absl::StrJoin(types, ", "));
  }

  const Graph& graph_;
  const absl::Span<const DeviceName> devices_;
  const KernelAvailability& has_kernel_;
  const PlacerOptions& options_;
  Groups groups_;
};

}  // namespace

absl::Status PlaceGraph(Graph& graph, absl::Span<const DeviceName> devices,
                        const KernelAvailability& has_kernel, const PlacerOptions& options) {
  return Placer(graph, devices, has_kernel, options).Place(graph);
}

void PlaceState(const Graph& graph, absl::Span<const DeviceName> devices,
                const KernelAvailability& has_kernel, const PlacerOptions& options, StatePlaces* places) {
  PlacerOptions with_places = options;
  with_places.state_places = places;
  Placer(graph, devices, has_kernel, with_places).PlaceState(places);
}

}  // namespace weir
