// Every kernel that runs on the host's memory, family by family.
#pragma once

#include "absl/strings/string_view.h"
#include "kernels/kernel_registry.h"

namespace weir {

// `device_type`: the type of device they are registered for. Fake devices keep their tensors in host memory
// and run the same kernels under a type of their own.
void RegisterCpuKernels(KernelRegistry& registry, absl::string_view device_type = "CPU");

// The families; one .cc file or more each.
void RegisterArrayKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterElementwiseKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterReductionKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterMatMulKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterNnKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterConvKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterRandomKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterStateKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterIoKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterSummaryKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterCheckKernels(KernelRegistry& registry, absl::string_view device_type);

}  // namespace weir
