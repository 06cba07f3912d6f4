#include "kernels/cpu/dtype_lists.h"

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

std::vector<DType> QuantizedDTypes() {
  return {DType::kQint8, DType::kQuint8, DType::kQint32, DType::kQint16, DType::kQuint16};
}

std::vector<DType> Float8DTypes() {
  return {DType::kFloat8E5m2, DType::kFloat8E4m3fn, DType::kFloat8E4m3Fnuz, DType::kFloat8E4m3b11Fnuz,
          DType::kFloat8E5m2Fnuz};
}

std::vector<DType> StoredNumbers() {
  std::vector<DType> dtypes = NumericDTypes();
  for (const std::vector<DType>& stored : {QuantizedDTypes(), Float8DTypes()}) {
    dtypes.insert(dtypes.end(), stored.begin(), stored.end());
  }
  dtypes.insert(dtypes.end(), {DType::kInt4, DType::kUint4});
  return dtypes;
}

std::vector<DType> AllDTypes() {
  std::vector<DType> dtypes = StoredNumbers();
  dtypes.insert(dtypes.end(), {DType::kBool, DType::kString, DType::kResource});
  return dtypes;
}

}  // namespace weir
