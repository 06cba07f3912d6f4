// Every kernel that runs on the host's memory, family by family.
#pragma once

#include "absl/strings/string_view.h"
#include "kernels/device_kernels.h"
#include "kernels/kernel_registry.h"

namespace weir {

// `device_type`: the type of device they are registered for. Fake devices keep their tensors in host memory
// and run the same kernels under a type of their own.
void RegisterCpuKernels(KernelRegistry& registry, absl::string_view device_type = "CPU");

// The families: one folder each. The build defines these functions from the files of the folder (family.bzl).
void RegisterArrayKernels(DeviceKernels& kernels);
void RegisterDataKernels(DeviceKernels& kernels);
void RegisterDataFlowKernels(DeviceKernels& kernels);
void RegisterLookupKernels(DeviceKernels& kernels);
void RegisterMathKernels(DeviceKernels& kernels);
void RegisterNnKernels(DeviceKernels& kernels);
void RegisterRandomKernels(DeviceKernels& kernels);
void RegisterSparseKernels(DeviceKernels& kernels);
void RegisterStateKernels(DeviceKernels& kernels);
void RegisterTrainingKernels(DeviceKernels& kernels);
void RegisterIoKernels(DeviceKernels& kernels);
void RegisterStringsKernels(DeviceKernels& kernels);
void RegisterSummaryKernels(DeviceKernels& kernels);
void RegisterDebuggingKernels(DeviceKernels& kernels);
void RegisterImageKernels(DeviceKernels& kernels);

}  // namespace weir
