// A file opened for reading at any offset.
//
// Thread safety: Read may be called from any thread. The file is closed when the object goes.
// Errors name the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weir {

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  virtual const std::string& path() const = 0;

  // Bytes in the file when it was opened.
  virtual uint64_t num_bytes() const = 0;

  // Reads up to num_bytes from `offset` on into `destination` and returns how many were there; fewer than
  // asked for only at the end of the file.
  virtual absl::StatusOr<size_t> Read(uint64_t offset, size_t num_bytes, void* destination) const = 0;

  // The same, but the end of the file is DataLoss naming the missing range.
  absl::Status ReadExactly(uint64_t offset, size_t num_bytes, void* destination) const;
};

}  // namespace weir
