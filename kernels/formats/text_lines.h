// The lines of a file, without their ends ("\n" or "\r\n"), read with a buffer of one block.
//
// Thread safety: one thread at a time. Memory use is bounded by the longest line that is allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/readable_file.h"

namespace weir {

class TextLines {
 public:
  explicit TextLines(std::unique_ptr<ReadableFile> file) : file_(std::move(file)) {}

  // False at the end. A line that is longer than kLongestLine is InvalidArgument.
  absl::StatusOr<bool> Next(std::string& line) {
    constexpr size_t kLongestLine = size_t{1} << 24;
    line.clear();
    bool has_any = false;
    while (true) {
      if (position_ == block_.size()) {
        WEIR_RETURN_IF_ERROR(ReadBlock());
        if (block_.empty()) break;
      }
      has_any = true;
      const size_t end = block_.find('\n', position_);
      line.append(block_, position_, end == std::string::npos ? end : end - position_);
      if (line.size() > kLongestLine) {
        return absl::InvalidArgumentError(
            absl::StrCat(file_->path(), " has a line of more than ", kLongestLine, " bytes"));
      }
      position_ = end == std::string::npos ? block_.size() : end + 1;
      if (end != std::string::npos) break;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return has_any;
  }

 private:
  absl::Status ReadBlock() {
    constexpr size_t kBlock = size_t{1} << 18;
    block_.resize(kBlock);
    WEIR_ASSIGN_OR_RETURN(const size_t num_read, file_->Read(offset_, kBlock, block_.data()));
    block_.resize(num_read);
    offset_ += num_read;
    position_ = 0;
    return absl::OkStatus();
  }

  const std::unique_ptr<ReadableFile> file_;
  std::string block_;
  size_t position_ = 0;  // of the next line in the block
  uint64_t offset_ = 0;  // of the next block in the file
};

}  // namespace weir
