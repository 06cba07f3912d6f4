// A file that is written from its beginning (or its end) onwards.
//
// Thread safety: one thread at a time. Small appends are collected in memory until Flush, Sync, Close or 64
// KiB. Errors name the path and the system's reason; a full disk or quota is ResourceExhausted. After an
// error the content of the file is undefined and every later call returns an error.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weir {

class WritableFile {
 public:
  // Closes the file; errors that only now come to light are lost, so call Close first.
  virtual ~WritableFile() = default;

  virtual const std::string& path() const = 0;

  virtual absl::Status Append(absl::string_view data) = 0;
  // Hands everything to the operating system: other processes see it, a crash of this process loses nothing.
  virtual absl::Status Flush() = 0;
  // Flush, and waits until the data is on the disk.
  virtual absl::Status Sync() = 0;
  // Flush and close. Only the first call does anything.
  virtual absl::Status Close() = 0;
};

}  // namespace weir
