#include "placer/placer.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "placer/node_groups.h"

namespace weir {
namespace {

std::string DevicesToString(absl::Span<const DeviceName> devices) {
  return absl::StrJoin(devices, ", ",
                       [](std::string* out, const DeviceName& device) { out->append(device.ToString()); });
}

class Placer {
 public:
  Placer(const Graph& graph, absl::Span<const DeviceName> devices, const KernelAvailability& has_kernel,
         const PlacerOptions& options)
      : graph_(graph), devices_(devices), has_kernel_(has_kernel), options_(options) {}

  // Before Place.
  void KeepRemarks() { keeps_remarks_ = true; }

  absl::Status Place(Graph& graph) {
    const NodeGroups groups(graph_);
    for (const std::vector<Node*>& nodes : groups.groups()) {
      WEIR_ASSIGN_OR_RETURN(DeviceName device, DeviceFor(nodes));
      for (Node* node : nodes) graph.SetAssignedDevice(node, device);
    }
    return absl::OkStatus();
  }

  std::vector<std::string> Remarks() const {
    std::vector<std::string> lines;
    for (const auto& [why, nodes] : elsewhere_) {
      const bool are_many = nodes.count > 1;
      lines.push_back(absl::StrCat(nodes.count, are_many ? " nodes (" : " node (", nodes.first,
                                   are_many ? " and others) are on " : ") is on ", why));
    }
    return lines;
  }

  void PlaceState(StatePlaces* places) {
    const auto is_open = [places](const Node* node) {
      return KeepsState(*node) && !places->contains(node->name());
    };
    const NodeGroups groups(graph_);
    for (const std::vector<Node*>& nodes : groups.groups()) {
      if (std::none_of(nodes.begin(), nodes.end(), is_open)) continue;
      const absl::StatusOr<DeviceName> device = DeviceForAllSteps(nodes);
      if (!device.ok()) continue;
      for (const Node* node : nodes) {
        if (KeepsState(*node)) places->emplace(node->name(), *device);
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

  absl::StatusOr<DeviceName> DeviceFor(const std::vector<Node*>& nodes) {
    WEIR_ASSIGN_OR_RETURN(const Node* placed, PlacedState(nodes));
    DeviceName request;
    if (placed != nullptr) {
      request = options_.state_places->at(placed->name());
    } else {
      WEIR_ASSIGN_OR_RETURN(request, MergedRequest(nodes));
    }
    std::vector<DeviceName> candidates = Candidates(request, nodes);
    const bool is_softened = candidates.empty() && placed == nullptr && options_.allow_soft_placement &&
                             (request.type || request.index);
    if (is_softened) {
      DeviceName softer = request;
      softer.type.reset();
      softer.index.reset();
      candidates = Candidates(softer, nodes);
    }
    // What they asked for, though what the whole graph has decided is final.
    const auto asked = [&] { return placed == nullptr ? request : MergedRequest(nodes).value_or(request); };
    if (candidates.empty()) return NoDevice(asked(), nodes);
    const DeviceName best = Best(candidates);
    if (keeps_remarks_) NoteElsewhere(nodes, asked(), is_softened, best);
    return best;
  }

  DeviceName Best(const std::vector<DeviceName>& devices) const {
    return *std::min_element(devices.begin(), devices.end(),
                             [this](const DeviceName& a, const DeviceName& b) { return Rank(a) < Rank(b); });
  }

  // Takes note of a group that is not on the best kind of device that its task has.
  void NoteElsewhere(const std::vector<Node*>& nodes, const DeviceName& request, bool is_softened,
                     const DeviceName& device) {
    std::vector<DeviceName> wanted;
    std::copy_if(devices_.begin(), devices_.end(), std::back_inserter(wanted),
                 [&](const DeviceName& other) { return request.Matches(other) && other.IsSameTask(device); });
    std::string why;
    if (!wanted.empty()) {
      const std::string& type = *Best(wanted).type;
      if (type == *device.type && !is_softened) return;
      const std::optional<Unfit> unfit = WhyUnfit(nodes, type);
      if (unfit) why = unfit->Reason(type);
    } else if (is_softened) {
      why = absl::StrCat("there is no ", request.ToString());
    }
    if (why.empty()) return;
    Elsewhere& group = elsewhere_[absl::StrCat(device.ToString(), ": ", why)];
    if (group.count == 0) group.first = nodes[0]->Describe();
    group.count += static_cast<int>(nodes.size());
  }

  // Why that kind of device is not for these nodes; nothing when it is.
  std::optional<Unfit> WhyUnfit(const std::vector<Node*>& nodes, const std::string& type) const {
    for (const Node* node : nodes) {
      if (!has_kernel_(*node, type)) return Unfit{node->op_name(), node->Describe(), ""};
    }
    if (options_.unfit_kinds.empty()) return std::nullopt;
    for (const Node* node : nodes) {
      const auto resource = options_.unfit_kinds.find(node->name());
      if (resource == options_.unfit_kinds.end()) continue;
      const auto kind = resource->second.find(type);
      if (kind != resource->second.end()) return kind->second;
    }
    return std::nullopt;
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
      if (is_new) known->second = !WhyUnfit(nodes, *device.type);
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
    // Else it is what another step does with the resource, or each kind of device suits only some nodes.
    const std::string why =
        lacking.empty() ? ReasonsOfKinds(request, nodes)
        : std::any_of(devices_.begin(), devices_.end(),
                      [&](const DeviceName& device) { return request.Matches(device); })
            ? absl::StrCat("; no kernel there for ", absl::StrJoin(lacking, ", "), DTypesOf(*first))
            : "";
    return absl::InvalidArgumentError(absl::StrCat(
        first->Describe(), ": no device for '", request.ToString(), "'", why, "; the devices are ",
        DevicesToString(devices_), first->source().line == 0 ? "" : " (at ", first->source().ToString(),
        first->source().line == 0 ? "" : ")"));
  }

  // "; there is no GPU kernel for ResourceScatterAdd 'rows/update'", and so on for each kind that was asked
  // for.
  std::string ReasonsOfKinds(const DeviceName& request, const std::vector<Node*>& nodes) const {
    std::map<std::string, std::string> reasons;
    for (const DeviceName& device : devices_) {
      if (!request.Matches(device) || reasons.contains(*device.type)) continue;
      const std::optional<Unfit> unfit = WhyUnfit(nodes, *device.type);
      if (unfit) reasons[*device.type] = absl::StrCat("; ", unfit->ReasonWithNode(*device.type));
    }
    return absl::StrJoin(reasons, "", [](std::string* out, const auto& entry) { out->append(entry.second); });
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
  struct Elsewhere {
    int count = 0;
    std::string first;
  };
  bool keeps_remarks_ = false;
  std::map<std::string, Elsewhere> elsewhere_;  // by device and reason
};

}  // namespace

absl::Status PlaceGraph(Graph& graph, absl::Span<const DeviceName> devices,
                        const KernelAvailability& has_kernel, const PlacerOptions& options,
                        std::vector<std::string>* remarks) {
  Placer placer(graph, devices, has_kernel, options);
  if (remarks != nullptr) placer.KeepRemarks();
  WEIR_RETURN_IF_ERROR(placer.Place(graph));
  if (remarks == nullptr) return absl::OkStatus();
  for (std::string& line : placer.Remarks()) remarks->push_back(std::move(line));
  return absl::OkStatus();
}

void PlaceState(const Graph& graph, absl::Span<const DeviceName> devices,
                const KernelAvailability& has_kernel, const PlacerOptions& options, StatePlaces* places) {
  PlacerOptions with_places = options;
  with_places.state_places = places;
  Placer(graph, devices, has_kernel, with_places).PlaceState(places);
}

}  // namespace weir
