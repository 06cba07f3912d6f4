// What collectives between the GPUs of a process are made with. Every CUDA device that a runtime has made has
// it in its ResourceManager, under Communicator::kContainer and kName; so has no other device.
//
// Values that never change.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/resource_handle.h"
#include "kernels/communicator.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/nccl_api.h"

namespace weir {

class GpuLinks final : public Resource {
 public:
  static constexpr char kTypeName[] = "GpuLinks";
  static constexpr char kName[] = "links of a GPU";

  // Borrows both; the device has this.
  GpuLinks(CudaDevice& device, NcclApi& nccl) : device(device), nccl(nccl) {}

  std::string ToString() const override {
    return absl::StrCat("the links of ", device.name().ToString(), " to other GPUs");
  }

  CudaDevice& device;
  NcclApi& nccl;
};

// Under which name a device has its Communicator of a group that is all GPUs: one that takes tensors, and
// gives them, in the memory of the device, in the order of its compute stream. Beside it is the group's
// ordinary one (Communicator::NameOfGroup).
inline std::string NameOfGpuGroup(int64_t group_key) {
  return absl::StrCat(Communicator::NameOfGroup(group_key), " on GPUs");
}

}  // namespace weir
