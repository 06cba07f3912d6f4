// idx files: the arrays in which MNIST and its successors come, plain or gzip-compressed.
//
// Format: two zero bytes, the element type (0x08: unsigned byte), the rank, each dimension as a big-endian
// 32-bit number, then the elements in row-major order.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "graph/types/tensor.h"
#include "kernels/formats/file_system.h"

namespace weir {

// The array as a uint8 tensor. NotFound when there is no such file; DataLoss, naming the path and what is
// wrong, when it is no idx file, is truncated, damaged or longer than its header says; Unimplemented for
// other element types.
absl::StatusOr<Tensor> ReadIdx(const std::string& path, FileSystem& file_system = PosixFileSystem());

}  // namespace weir
