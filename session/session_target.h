// What a session runs on: the workers it may use and where its own part of the graph goes.
//
// Made by distributed/server.h (one task of a cluster, or a process alone). Borrowed pointers: valid as long
// as the server that made it. A value.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/types/device_name.h"
#include "kernels/environment.h"
#include "kernels/kernel_registry.h"
#include "session/worker.h"

namespace weir {

struct SessionTarget {
  // This task's own worker, and those it shares variables with. Tasks that are not listed may come and go.
  std::vector<Worker*> workers;
  DeviceName default_task;
  const KernelRegistry* kernels = nullptr;
  Environment* environment = &RealEnvironment();
  // Which of the task's processes this is: greater than those before (distributed/authority.h). Known once a
  // session on these workers has been created. Null: the process runs alone.
  std::function<uint64_t()> life;
  // Tells the job of a life that one of its processes has, as a file says: then the job may give this process
  // a later one, where it had granted too low a life (distributed/authority.h). Null: the process runs alone.
  std::function<void(uint64_t life)> note_life;
  // Whether the task's chief has said that it is done: then nobody gives variables a value any more. Null:
  // never.
  std::function<bool()> chief_is_done;
  // The life of the task's chief that this process has heard of, 0 for none, kChiefIsThere while it lives.
  // Null: nobody knows.
  std::function<uint64_t()> met_chief;
  static constexpr uint64_t kChiefIsThere = ~uint64_t{0};
};

}  // namespace weir
