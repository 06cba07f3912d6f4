// In which words kernels move elements that they do not compute with.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/types/dtype.h"

namespace weir {

// The word of the size of an element; kInvalid when there is none, as for 16 bytes.
inline DType StoredBySize(DType dtype) {
  switch (DTypeSize(dtype)) {
    case 1:
      return DType::kUint8;
    case 2:
      return DType::kUint16;
    case 4:
      return DType::kUint32;
    case 8:
      return DType::kUint64;
    default:
      return DType::kInvalid;
  }
}

// The largest word that divides all of some numbers of bytes and addresses, given all their bits.
inline DType WordOf(uintptr_t all) {
  return all % 8 == 0   ? DType::kUint64
         : all % 4 == 0 ? DType::kUint32
         : all % 2 == 0 ? DType::kUint16
                        : DType::kUint8;
}

}  // namespace weir
