#include "kernels/cpu/array_kernels.h"

#include "kernels/cpu/register_kernels.h"

namespace weir {

std::vector<DType> NumericDTypes() {
  return {DType::kFloat32,  DType::kFloat64, DType::kInt32,     DType::kInt64,     DType::kHalf,
          DType::kBfloat16, DType::kInt8,    DType::kUint8,     DType::kInt16,     DType::kUint16,
          DType::kUint32,   DType::kUint64,  DType::kComplex64, DType::kComplex128};
}

std::vector<DType> RealDTypes() {
  std::vector<DType> dtypes = NumericDTypes();
  dtypes.resize(dtypes.size() - 2);  // the complex ones come last
  return dtypes;
}

std::vector<DType> CountableDTypes() {
  std::vector<DType> dtypes = NumericDTypes();
  dtypes.push_back(DType::kBool);
  return dtypes;
}

std::vector<DType> AllDTypes() {
  std::vector<DType> dtypes = NumericDTypes();
  dtypes.insert(dtypes.end(), {DType::kBool, DType::kString, DType::kResource});
  return dtypes;
}

void RegisterArrayKernels(KernelRegistry& registry, absl::string_view device_type) {
  RegisterSourceKernels(registry, device_type);
  RegisterShapeKernels(registry, device_type);
  RegisterLayoutKernels(registry, device_type);
  RegisterIndexingKernels(registry, device_type);
  RegisterSelectKernels(registry, device_type);
  RegisterCastKernels(registry, device_type);
}

}  // namespace weir
