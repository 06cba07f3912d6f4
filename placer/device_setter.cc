#include "placer/device_setter.h"

#include <algorithm>
#include <memory>

#include "graph/types/status_macros.h"

namespace weir {
namespace {

// Ops that hold a variable: TensorFlow's STANDARD_PS_OPS that exist here.
bool IsVariableOp(const Node& node) {
  return node.op_name() == "VarHandleOp" || node.op_name() == "VariableV2" || node.op_name() == "Variable";
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
    if (!IsVariableOp(node)) {
      WEIR_ASSIGN_OR_RETURN(DeviceName worker, DeviceName::Parse(options.worker_device));
      return worker.OverriddenBy(requested);
    }
    WEIR_ASSIGN_OR_RETURN(DeviceName ps, DeviceName::Parse(options.ps_device));
    if (!ps.task && !requested.task && !requested.job) ps.task = options.strategy(node);
    return ps.OverriddenBy(requested);
  };
}

}  // namespace weir
