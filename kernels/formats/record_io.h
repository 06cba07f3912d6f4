// TFRecord files: a sequence of byte strings, each with its length and checksums.
//
// Format of a record: length (uint64), masked CRC-32C of those 8 bytes (uint32), the bytes, their masked
// CRC-32C (uint32), all little-endian. A whole file may be compressed with gzip or zlib.
//
// Thread safety: one thread at a time. Errors name the path and the offset in the (decompressed) stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/input_stream.h"

namespace weir {

class RecordReader {
 public:
  static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& path,
                                                            Compression compression = Compression::kNone,
                                                            FileSystem& file_system = PosixFileSystem());
  explicit RecordReader(std::unique_ptr<InputStream> stream) : stream_(std::move(stream)) {}

  // Stores the next record and returns true; false at the end of the file, if it lies between two records.
  // DataLoss for a truncated or damaged record, and for one of more than max_bytes; memory grows only with
  // bytes that are really there. After an error, every later call returns it again.
  absl::StatusOr<bool> ReadNext(std::string* record, uint64_t max_bytes = UINT64_MAX);

  // Where in the (decompressed) stream the next record begins.
  uint64_t offset() const { return offset_; }

 private:
  absl::Status ReadPiece(size_t num_bytes, std::string* piece);
  absl::Status Damaged(absl::string_view problem) const;

  std::unique_ptr<InputStream> stream_;
  uint64_t offset_ = 0;
  absl::Status error_;
};

class RecordWriter {
 public:
  static absl::StatusOr<std::unique_ptr<RecordWriter>> Create(const std::string& path,
                                                              Compression compression = Compression::kNone,
                                                              FileSystem& file_system = PosixFileSystem());
  // InvalidArgument for kAuto, which is for reading only.
  static absl::StatusOr<std::unique_ptr<RecordWriter>> Create(std::unique_ptr<WritableFile> file,
                                                              Compression compression);
  virtual ~RecordWriter() = default;

  absl::Status Write(absl::string_view record);
  // Hands everything to the operating system. Compressed files are complete only after Close.
  virtual absl::Status Flush() = 0;
  virtual absl::Status Sync() = 0;
  virtual absl::Status Close() = 0;

 protected:
  virtual absl::Status Append(absl::string_view data) = 0;
};

}  // namespace weir
