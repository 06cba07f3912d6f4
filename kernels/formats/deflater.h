// Compresses a stream of bytes into a file: gzip or zlib, as TensorFlow's record files have it.
//
// Thread safety: one thread at a time. Errors: ResourceExhausted when there is no memory for the compressor,
// those of the file, FailedPrecondition for bytes after the end. The first error stays: what follows a gap in
// the stream would be lost to every reader, so it is refused.
#pragma once

#include <zlib.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/formats/writable_file.h"

namespace weir {

class Deflater {
 public:
  enum class Format { kGzip, kZlib };
  // zlib's memory; the default is malloc. A test gives one that fails.
  struct Memory {
    alloc_func allocate = Z_NULL;
    free_func free = Z_NULL;
  };

  // `file` must outlive the result and is not closed by it.
  static absl::StatusOr<std::unique_ptr<Deflater>> Create(Format format, WritableFile* file, Memory memory);
  static absl::StatusOr<std::unique_ptr<Deflater>> Create(Format format, WritableFile* file) {
    return Create(format, file, Memory());
  }
  ~Deflater();

  absl::Status Append(absl::string_view data);
  // All that was appended is in the file afterwards, and a reader of the file so far finds it.
  absl::Status Flush();
  // Ends the stream. Only the first call does anything.
  absl::Status Finish();

 private:
  explicit Deflater(WritableFile* file) : file_(file), buffer_(64 << 10) {}
  absl::Status Deflate(absl::string_view data, int flush);
  absl::Status DeflatePiece(int flush);

  WritableFile* const file_;
  std::vector<char> buffer_;
  z_stream zlib_ = {};
  bool is_open_ = false;  // zlib_ holds memory
  bool is_finished_ = false;
  absl::Status error_;
};

}  // namespace weir
