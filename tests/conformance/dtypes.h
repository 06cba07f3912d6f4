// The lists of dtypes that calls are made for. The first one of a list also gets the unusual shapes.
#pragma once

#include <initializer_list>
#include <vector>

#include "graph/types/dtype.h"

namespace weir::conformance {

inline const std::vector<DType> kReals = {DType::kFloat32, DType::kFloat64, DType::kHalf, DType::kBfloat16};
inline const std::vector<DType> kComplexes = {DType::kComplex64, DType::kComplex128};
// Those that models compute in.
inline const std::vector<DType> kMain = {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64};
inline const std::vector<DType> kIntegers = {DType::kInt32, DType::kInt64,  DType::kInt8,   DType::kInt16,
                                             DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};
inline const std::vector<DType> kInexact = {DType::kFloat32,  DType::kFloat64,   DType::kHalf,
                                            DType::kBfloat16, DType::kComplex64, DType::kComplex128};
inline const std::vector<DType> kOrdered = {
    DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64,  DType::kHalf,   DType::kBfloat16,
    DType::kInt8,    DType::kInt16,   DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};
inline const std::vector<DType> kNumbers = {
    DType::kFloat32,  DType::kFloat64, DType::kInt32,     DType::kInt64,     DType::kHalf,
    DType::kBfloat16, DType::kInt8,    DType::kInt16,     DType::kUint8,     DType::kUint16,
    DType::kUint32,   DType::kUint64,  DType::kComplex64, DType::kComplex128};

inline const std::vector<DType> kQuantized = {DType::kQint8, DType::kQuint8, DType::kQint32, DType::kQint16,
                                              DType::kQuint16};

// One of each kind that ops that only move elements tell apart.
inline const std::vector<DType> kEveryWidth = {DType::kFloat32,    DType::kFloat64, DType::kHalf,
                                               DType::kInt8,       DType::kBool,    DType::kInt64,
                                               DType::kComplex128, DType::kString};

inline std::vector<DType> Join(std::initializer_list<std::vector<DType>> lists) {
  std::vector<DType> all;
  for (const std::vector<DType>& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

inline bool IsUnsigned(DType d) {
  return d == DType::kUint8 || d == DType::kUint16 || d == DType::kUint32 || d == DType::kUint64;
}

}  // namespace weir::conformance
