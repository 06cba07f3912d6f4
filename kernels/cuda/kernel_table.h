// Which kernels a build has for GPUs: name and dtypes -> the function to launch.
//
// The .cu files fill it (all_kernels.h); tests fill it with functions of their own. What a launch passes is
// compared with what the kernel takes, since the two are compiled by different compilers. Filled once, then
// only read: safe from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/dtype.h"
#include "kernels/cuda/cuda_api.h"

namespace weir {

// The kind and the size of one parameter, as "p8" for any pointer.
struct CudaParameter {
  char kind = 0;  // p: pointer, i: integer, f: floating, s: anything else
  size_t num_bytes = 0;
  bool operator==(const CudaParameter&) const = default;
};

template <typename T>
constexpr CudaParameter CudaParameterOf() {
  const char kind = std::is_pointer_v<T>          ? 'p'
                    : std::is_integral_v<T>       ? 'i'
                    : std::is_floating_point_v<T> ? 'f'
                                                  : 's';
  return {kind, sizeof(T)};
}

class CudaKernelTable {
 public:
  struct Kernel {
    std::string name;  // "Relu_float"
    const void* address = nullptr;
    std::vector<CudaParameter> parameters;
  };

  CudaKernelTable() = default;
  CudaKernelTable(CudaKernelTable&&) = default;
  CudaKernelTable& operator=(CudaKernelTable&&) = default;

  // A function with __global__ in a .cu file.
  template <typename... Parameters>
  void Add(const std::string& name, std::vector<DType> dtypes, void (*kernel)(Parameters...)) {
    AddAddress(name, std::move(dtypes), reinterpret_cast<const void*>(kernel),
               {CudaParameterOf<Parameters>()...});
  }
  // The first kernel of a name and dtypes stays.
  void AddAddress(const std::string& name, std::vector<DType> dtypes, const void* address,
                  std::vector<CudaParameter> parameters);

  // NotFound names the kernel and dtypes, and says when the build has none at all; Internal when it takes
  // other parameters than these.
  absl::StatusOr<const Kernel*> Find(absl::string_view name, const std::vector<DType>& dtypes,
                                     const std::vector<CudaParameter>& parameters) const;

  std::vector<std::string> names() const;  // of all kernels, in order

 private:
  static std::string KeyOf(absl::string_view name, const std::vector<DType>& dtypes);

  std::map<std::string, Kernel> kernels_;
};

}  // namespace weir
