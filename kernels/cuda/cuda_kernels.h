// The kernels of devices of type "GPU" that are CudaDevices.
//
// Some compute on the GPU. Ops that only hand a tensor on, or look at its shape, have the CPU's kernel, which
// reads no element. Every other op that the CPU has computes on the host: its arguments are copied there, and
// the step waits for them; but for fused ones, which are not made for GPUs, and for those that work on
// variables, whose elements are on the GPU: GPUs have no kernel for them, and the placer puts such a variable
// on a CPU, with all that works on it.
//
// The definitions need no GPU and no CUDA toolkit: what a chief without either plans with is what its workers
// have.
#pragma once

#include <string>
#include <vector>

#include "graph/op_registry.h"
#include "kernels/kernel_registry.h"

namespace weir {

// `of_host`: what the CPU and the program have, registered for the type "GPU"; changed by this. `ops`: where
// the schemas are looked up.
void RegisterCudaKernels(KernelRegistry& registry, KernelRegistry& of_host, const OpRegistry& ops);

// Those that compute on the GPU, in alphabetical order.
std::vector<std::string> NamesOfCudaOps();

}  // namespace weir
