#include "placer/device_setter.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Ops that hold what a job's workers share: TensorFlow's STANDARD_PS_OPS, whether they exist here or not.
bool HoldsState(const Node& node) {
  constexpr absl::string_view kOps[] = {"Variable",
                                        "VariableV2",
                                        "AutoReloadVariable",
                                        "MutableHashTable",
                                        "MutableHashTableV2",
                                        "MutableHashTableOfTensors",
                                        "MutableHashTableOfTensorsV2",
                                        "MutableDenseHashTable",
                                        "MutableDenseHashTableV2",
                                        "VarHandleOp",
                                        "BoostedTreesEnsembleResourceHandleOp",
                                        "BoostedTreesQuantileStreamResourceHandleOp",
                                        "ResourceConditionalAccumulator",
                                        "DecisionTreeResource"};
  return std::find(std::begin(kOps), std::end(kOps), node.op_name()) != std::end(kOps);
}

int64_t NumBytes(const Node& variable) {
  const AttrValue* shape = variable.FindAttr("shape");
  const AttrValue* dtype = variable.FindAttr("dtype");
  const PartialShape* dims = shape == nullptr ? nullptr : shape->get_if<PartialShape>();
  const DType* element = dtype == nullptr ? nullptr : dtype->get_if<DType>();
  if (dims == nullptr || element == nullptr || !dims->is_fully_known()) return 1;
  return dims->ToShape().num_elements() * static_cast<int64_t>(DTypeSize(*element));
}

}  // namespace

PlacementStrategy RoundRobinStrategy(int num_ps_tasks) {
  return [num_ps_tasks, next = 0](const Node&) mutable { return next++ % num_ps_tasks; };
}

PlacementStrategy GreedyBytesStrategy(int num_ps_tasks) {
  return [num_bytes = std::vector<int64_t>(num_ps_tasks, 0)](const Node& variable) mutable {
    auto least = std::min_element(num_bytes.begin(), num_bytes.end());
    *least += NumBytes(variable);
    return static_cast<int>(least - num_bytes.begin());
  };
}

DeviceSetter ReplicaDeviceSetter(ReplicaDeviceSetterOptions options) {
  if (options.num_ps_tasks <= 0) return nullptr;
  if (!options.strategy) options.strategy = RoundRobinStrategy(options.num_ps_tasks);
  return [options](const Node& node, const DeviceName& requested) mutable -> absl::StatusOr<DeviceName> {
    if (!HoldsState(node)) {
      WEIR_ASSIGN_OR_RETURN(DeviceName worker, DeviceName::Parse(options.worker_device));
      return worker.OverriddenBy(requested);
    }
    WEIR_ASSIGN_OR_RETURN(DeviceName ps, DeviceName::Parse(options.ps_device));
    // Also where a task is asked for: the next variable is on the one behind.
    if (ps.job && (!requested.job || *requested.job == *ps.job)) ps.task = options.strategy(node);
    return ps.OverriddenBy(requested);
  };
}

}  // namespace weir
