// The parts of the array family: what RegisterArrayKernels registers.
#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_registry.h"

namespace weir {

void RegisterSourceKernels(KernelRegistry& registry,
                           absl::string_view device_type);  // constants, identities, fills
void RegisterShapeKernels(KernelRegistry& registry, absl::string_view device_type);  // shapes as values
void RegisterLayoutKernels(KernelRegistry& registry,
                           absl::string_view device_type);  // elements in another order
void RegisterIndexingKernels(KernelRegistry& registry,
                             absl::string_view device_type);  // places chosen by values
void RegisterSelectKernels(KernelRegistry& registry, absl::string_view device_type);
void RegisterCastKernels(KernelRegistry& registry, absl::string_view device_type);

// Dtypes of a type attr: of everything that has elements, of numbers, of numbers that have an order, of
// numbers and bool.
std::vector<DType> AllDTypes();
std::vector<DType> NumericDTypes();
std::vector<DType> RealDTypes();
std::vector<DType> CountableDTypes();

// A kernel without constraints on its type attrs, or with one list for one of them.
template <typename K>
void RegisterKernel(KernelRegistry& registry, absl::string_view device_type, absl::string_view op,
                    std::map<std::string, std::vector<DType>> types = {}) {
  registry.Register({.op = std::string(op),
                     .device_type = std::string(device_type),
                     .types = std::move(types),
                     .create = CreateKernel<K>});
}

// A kernel cheaper than handing it to another thread.
template <absl::Status (*compute)(KernelContext&)>
class CheapKernel final : public Kernel {
 public:
  explicit CheapKernel(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override { return compute(context); }
};

}  // namespace weir
