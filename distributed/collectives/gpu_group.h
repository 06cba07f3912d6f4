// The GPUs of one process as ranks, on tensors in their memory: what MirroredStrategy uses between towers
// that are all on GPUs of NVIDIA.
//
// The devices meet as those of device_group.h do, with the same signatures, cancellations and errors; what
// they put in and get is in the memory of each device, in the order of its compute stream. The last one to
// come has NCCL compute for all of them (kernels/cuda/gpu_clique.h), and is done when that is enqueued. So a
// device whose step fails before leaves nothing on the others' streams.
//
// What NCCL cannot do goes through the host's memory and the host's algorithm: Adasum, tensors that are
// rounded on their way, least and greatest floating-point numbers, means of integers; and everything where
// there is no NCCL, or it cannot connect the GPUs, which a line on stderr says once. The other collectives
// are not there.
//
// Thread safety: all methods.
#pragma once

#include <vector>

#include "graph/types/ref_counted.h"
#include "kernels/communicator.h"
#include "kernels/cuda/gpu_links.h"

namespace weir {

// A communicator for each device, at least one. `on_host`: the same group on the host's memory
// (MakeDeviceGroup); nobody else may begin collectives of it.
std::vector<RefPtr<Communicator>> MakeGpuGroup(std::vector<RefPtr<GpuLinks>> gpus,
                                               std::vector<RefPtr<Communicator>> on_host);

}  // namespace weir
