#include "placer/loop_devices.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

void AddDevice(const DeviceName& device, std::vector<DeviceName>* devices) {
  if (std::find(devices->begin(), devices->end(), device) == devices->end()) devices->push_back(device);
}

bool RunsWithItsReaders(const Node& node) {
  return node.op_name() == "Enter" || node.op_name() == "NextIteration";
}

class Finder {
 public:
  explicit Finder(const Graph& placed) : placed_(placed) { found_.of_node.resize(placed.num_nodes()); }

  absl::StatusOr<LoopDevices> Find() {
    if (HasControlFlow(placed_)) {
      WEIR_ASSIGN_OR_RETURN(found_.loops, FindLoops(placed_));
    }
    if (found_.loops.loops.empty()) {
      for (const auto& node : placed_.nodes()) found_.of_node[node->id()] = {node->assigned_device()};
      return std::move(found_);
    }
    WEIR_ASSIGN_OR_RETURN(const std::vector<Node*> order, placed_.TopologicalOrder());
    for (const Node* node : order) {
      if (!RunsWithItsReaders(*node)) found_.of_node[node->id()] = {DeviceOf(*node)};
    }
    // Readers first: an Enter may be what another one leads further in, or what a NextIteration hands on. Of
    // a NextIteration the order says nothing: its readers are Merges.
    for (const Node* node : order) {
      if (node->op_name() == "Merge") TellItsInputs(*node);
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) TellItsInputs(**it);
    for (const Node* node : order) {
      std::vector<DeviceName>& devices = found_.of_node[node->id()];
      if (devices.empty()) devices = {node->assigned_device()};  // nothing reads it
    }
    WEIR_RETURN_IF_ERROR(FindOfLoops());
    return std::move(found_);
  }

 private:
  const DeviceName& DeviceOf(const Node& node) const {
    if (node.op_name() != "Exit" || RunsWithItsReaders(*node.input(0).node)) return node.assigned_device();
    return found_.of(*node.input(0).node);
  }

  void TellItsInputs(const Node& node) {
    const auto tell = [&](const Node* before) {
      if (!RunsWithItsReaders(*before)) return;
      for (const DeviceName& device : found_.of_node[node.id()]) {
        AddDevice(device, &found_.of_node[before->id()]);
      }
    };
    for (const Output& input : node.inputs()) tell(input.node);
    for (const Node* before : node.control_inputs()) tell(before);
  }

  absl::Status FindOfLoops() {
    const std::vector<Loop>& loops = found_.loops.loops;
    found_.of_loop.resize(loops.size());
    std::vector<int> num_conditions(loops.size(), 0);
    for (const auto& node : placed_.nodes()) {
      const int runs_in = found_.loops.runs_in[node->id()];
      if (runs_in == kNoLoop) continue;
      for (const DeviceName& device : found_.of_node[node->id()]) {
        AddDevice(device, &found_.of_loop[runs_in].devices);
      }
      if (node->op_name() != "LoopCond") continue;
      found_.of_loop[runs_in].condition = node.get();
      ++num_conditions[runs_in];
    }
    // Inner loops come last.
    for (size_t i = loops.size(); i-- > 0;) {
      if (loops[i].parent == kNoLoop) continue;
      for (const DeviceName& device : found_.of_loop[i].devices) {
        AddDevice(device, &found_.of_loop[loops[i].parent].devices);
      }
    }
    for (size_t i = 0; i < loops.size(); ++i) {
      if (!found_.of_loop[i].spans_devices() || num_conditions[i] == 1) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "the loop '", loops[i].name, "' spans devices (", Names(found_.of_loop[i].devices), ") and has ",
          num_conditions[i], " LoopCond nodes: one must tell them all whether it goes on"));
    }
    return absl::OkStatus();
  }

  static std::string Names(const std::vector<DeviceName>& devices) {
    return absl::StrJoin(devices, ", ",
                         [](std::string* out, const DeviceName& device) { out->append(device.ToString()); });
  }

  const Graph& placed_;
  LoopDevices found_;
};

}  // namespace

absl::StatusOr<LoopDevices> FindLoopDevices(const Graph& placed) { return Finder(placed).Find(); }

}  // namespace weir
