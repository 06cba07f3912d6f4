// How datasets name the compression of files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/formats/input_stream.h"

namespace weir {

// "", "GZIP" or "ZLIB"; InvalidArgument, with TensorFlow's text, otherwise.
inline absl::StatusOr<Compression> CompressionCalled(const std::string& name) {
  if (name.empty()) return Compression::kNone;
  if (name == "GZIP") return Compression::kGzip;
  if (name == "ZLIB") return Compression::kZlib;
  return absl::InvalidArgumentError(absl::StrCat("Unsupported compression_type: ", name, "."));
}

}  // namespace weir
