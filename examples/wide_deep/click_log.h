// Click logs in the format of Criteo's: one line for each shown advertisement.
//
// Fields are separated by tabs: 1 for a click or 0, 13 integers, and 26 values of categories. Any field but
// the first may be empty. Files may be compressed with gzip.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/tensor.h"
#include "kernels/formats/input_stream.h"

namespace weir::examples {

constexpr int kClickNumbers = 13;
constexpr int kClickSlots = 26;

struct ClickBatch {
  Tensor ids;      // int64 [size, 26]: the bucket of each value, from 0 to rows - 1
  Tensor numbers;  // float [size, 13]: the logarithm of 1 + the integer; 0 where it is missing
  Tensor labels;   // float [size, 1]: 0 or 1
  int64_t size() const { return labels.shape().dim(0); }
};

// Reads a file line by line. Errors: NotFound; DataLoss, naming file and line, where a line does not have the
// format. Thread safety: none.
class ClickLog {
 public:
  struct Options {
    int64_t rows = 100'000;  // into how many buckets the values of a category are hashed
    // Of every num_readers lines this reader takes the one with this number: workers share a file.
    int reader = 0;
    int num_readers = 1;
  };
  static absl::StatusOr<std::unique_ptr<ClickLog>> Open(const std::string& path, const Options& options);

  // The next `size` lines; fewer, or none, only at the end of the file.
  absl::StatusOr<ClickBatch> Next(int64_t size);
  // The next `size` lines, beginning anew at the end of the file. DataLoss for a file without lines for this
  // reader.
  absl::StatusOr<ClickBatch> NextOfMany(int64_t size);

 private:
  ClickLog(std::string path, const Options& options) : path_(std::move(path)), options_(options) {}

  absl::Status Rewind();
  // The next line of the file, without its end; false at the end of the file. Valid until the next call.
  absl::StatusOr<bool> NextLine(absl::string_view* line);
  // Parses lines into rows [begin, size) of the batch; returns how many rows it has then.
  absl::StatusOr<int64_t> Fill(ClickBatch& batch, int64_t begin, int64_t size);
  absl::Status Parse(absl::string_view line, ClickBatch& batch, int64_t row) const;
  absl::Status Damaged(absl::string_view problem) const;

  const std::string path_;
  const Options options_;
  std::unique_ptr<InputStream> stream_;
  std::string buffer_;  // read and not yet returned: [position_, size)
  size_t position_ = 0;
  int64_t line_ = 0;  // the number of the line returned last, from 1
};

}  // namespace weir::examples
