// The devices of one process as ranks, each with a copy of the model: the collectives between the towers of
// MirroredStrategy, and, with the group of processes behind it, of MultiWorkerMirroredStrategy.
//
// The calls of one step belong together: they have the same cancellation. So a step that fails leaves nothing
// behind, steps of several sessions may run at a time, and the group has no life that could end: what one
// device cannot do, its step reports, and the step's cancellation ends the wait of the others. Only Join
// belongs to no step: devices may join in steps of their own.
//
// With processes behind it, each with as many devices, ranks are numbered process by process. A process
// computes the result of its devices first, the last of them to come does, and that of all processes
// afterwards. Floating-point averages are divided by the number of devices in the first half and by that of
// processes in the second.
//
// Same bits: sums are a pairwise tree over ranks (reduction.h). A tree over processes of trees over devices
// is the tree over all ranks where the number of devices is a power of two; then, for float and double, n
// ranks have the same bits however they are spread, as n processes of one device or one of n devices
// (averages: unless they are so small as to be denormal). Otherwise sums are only the same from run to run.
// Numbers of 16 bits are rounded in between. Adasum follows the same tree.
//
// On host memory, the result is one buffer for all devices. Thread safety: all methods.
#pragma once

#include <string>
#include <vector>

#include "graph/types/resource_handle.h"
#include "kernels/communicator.h"

namespace weir {

// A communicator for each device. `devices` are names for messages, at least one; `processes` is this
// process's rank among the others, null without others.
std::vector<RefPtr<Communicator>> MakeDeviceGroup(std::vector<std::string> devices,
                                                  RefPtr<Communicator> processes = nullptr);

}  // namespace weir
