// The bytes of a file from front to back, decompressed where needed.
//
// Thread safety: one thread at a time. Memory use is bounded whatever the file claims.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/formats/readable_file.h"

namespace weir {

enum class Compression {
  kNone,
  kGzip,  // RFC 1952, also several members after each other
  kZlib,  // RFC 1950
  kAuto,  // reading only: gzip if the file begins with its two magic bytes, none otherwise
};

class InputStream {
 public:
  virtual ~InputStream() = default;

  virtual const std::string& path() const = 0;

  // No more than so many bytes can be in it: those of the file, or what they can decompress to.
  virtual uint64_t max_bytes() const = 0;
  // What the file is, with its size: "a gzip file of 1000 bytes".
  virtual std::string Describe() const = 0;

  // Up to num_bytes into `destination`, and how many there were; fewer than asked for only at the end.
  // DataLoss, naming the path and the offset, where compressed data is damaged or breaks off.
  virtual absl::StatusOr<size_t> Read(size_t num_bytes, char* destination) = 0;

  // The next num_bytes where they lie, if they lie in memory together already: nothing is copied, and Read
  // goes on behind them. Null, and nothing has changed, otherwise. Valid until the next call.
  virtual const char* TakeBuffered(size_t num_bytes) { return nullptr; }
};

// What to do with bytes behind the end of a zlib stream.
enum class BytesBehind { kRefused, kIgnored };

absl::StatusOr<std::unique_ptr<InputStream>> NewInputStream(std::unique_ptr<ReadableFile> file,
                                                            Compression compression,
                                                            BytesBehind behind = BytesBehind::kRefused);

}  // namespace weir
