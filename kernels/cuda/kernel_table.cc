#include "kernels/cuda/kernel_table.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {

std::string CudaKernelTable::KeyOf(absl::string_view name, const std::vector<DType>& dtypes) {
  std::string key(name);
  for (const DType dtype : dtypes) absl::StrAppend(&key, "_", DTypeName(dtype));
  return key;
}

void CudaKernelTable::AddAddress(const std::string& name, std::vector<DType> dtypes, const void* address,
                                 std::vector<CudaParameter> parameters) {
  const std::string key = KeyOf(name, dtypes);
  kernels_.emplace(key, Kernel{key, address, std::move(parameters)});
}

absl::StatusOr<const CudaKernelTable::Kernel*> CudaKernelTable::Find(
    absl::string_view name, const std::vector<DType>& dtypes,
    const std::vector<CudaParameter>& parameters) const {
  const std::string key = KeyOf(name, dtypes);
  const auto found = kernels_.find(key);
  if (found == kernels_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no kernel ", key, " for GPUs",
                                            kernels_.empty() ? ": this program was built without CUDA" : ""));
  }
  if (found->second.parameters != parameters) {
    return absl::InternalError(absl::StrCat("the kernel ", key, " takes other parameters than it is given"));
  }
  return &found->second;
}

std::vector<std::string> CudaKernelTable::names() const {
  std::vector<std::string> names;
  for (const auto& [name, kernel] : kernels_) names.push_back(name);
  return names;
}

}  // namespace weir
