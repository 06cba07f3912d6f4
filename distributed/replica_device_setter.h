// Between-graph replication's device setter for this task: placer/device_setter.h filled in from a
// TaskConfig.
#pragma once

#include "distributed/task_config.h"
#include "placer/device_setter.h"

namespace weir {

// Variables to the ps tasks, everything else to this task. A cluster without ps (or a program that runs
// alone) needs no setter: everything stays here. So does an evaluator's, whose variables are its own.
inline DeviceSetter ReplicaDeviceSetter(const TaskConfig& task, PlacementStrategy strategy = nullptr) {
  ReplicaDeviceSetterOptions options;
  options.num_ps_tasks = task.is_evaluator() ? 0 : task.num_ps();
  options.worker_device = task.task().ToDevicePrefix();
  options.strategy = std::move(strategy);
  return ReplicaDeviceSetter(std::move(options));
}

}  // namespace weir
