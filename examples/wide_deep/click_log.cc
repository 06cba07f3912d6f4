#include "examples/wide_deep/click_log.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"

namespace weir::examples {
namespace {

constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kMaxLineBytes = 64 << 10;

ClickBatch NewBatch(int64_t size) {
  return {Tensor(DType::kInt64, Shape({size, kClickSlots})),
          Tensor(DType::kFloat32, Shape({size, kClickNumbers})), Tensor(DType::kFloat32, Shape({size, 1}))};
}

// FNV-1a (Fowler, Noll and Vo) with 64 bits.
uint64_t Hash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

// The text up to the next tab, or all; removed from the line with its tab.
absl::string_view TakeField(absl::string_view* line) {
  const size_t tab = line->find('\t');
  const absl::string_view field = line->substr(0, tab);
  line->remove_prefix(tab == absl::string_view::npos ? line->size() : tab + 1);
  return field;
}

float SignedLog(int64_t number) {
  const double magnitude = std::log1p(std::abs(static_cast<double>(number)));
  return static_cast<float>(number < 0 ? -magnitude : magnitude);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClickLog>> ClickLog::Open(const std::string& path, const Options& options) {
  if (options.rows < 1 || options.num_readers < 1 || options.reader < 0 ||
      options.reader >= options.num_readers) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": reader ", options.reader, " of ",
                                                   options.num_readers, " with ", options.rows,
                                                   " rows: there is no such reader"));
  }
  std::unique_ptr<ClickLog> log(new ClickLog(path, options));
  WEIR_RETURN_IF_ERROR(log->Rewind());
  return log;
}

absl::Status ClickLog::Rewind() {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, PosixFileSystem().OpenForReading(path_));
  WEIR_ASSIGN_OR_RETURN(stream_, NewInputStream(std::move(file), Compression::kAuto));
  buffer_.clear();
  position_ = 0;
  line_ = 0;
  return absl::OkStatus();
}

absl::Status ClickLog::Damaged(absl::string_view problem) const {
  return absl::DataLossError(absl::StrCat(path_, ", line ", line_, ": ", problem));
}

absl::StatusOr<bool> ClickLog::NextLine(absl::string_view* line) {
  size_t end;
  while ((end = buffer_.find('\n', position_)) == std::string::npos) {
    buffer_.erase(0, position_);
    position_ = 0;
    if (buffer_.size() > kMaxLineBytes) {
      ++line_;
      return Damaged(absl::StrCat("has more than ", kMaxLineBytes, " bytes"));
    }
    const size_t had = buffer_.size();
    buffer_.resize(had + kReadBytes);
    WEIR_ASSIGN_OR_RETURN(const size_t found, stream_->Read(kReadBytes, buffer_.data() + had));
    buffer_.resize(had + found);
    if (found > 0) continue;
    if (buffer_.empty()) return false;
    end = had;  // the last line lacks its end
    break;
  }
  ++line_;
  *line = absl::string_view(buffer_).substr(position_, end - position_);
  position_ = std::min(end + 1, buffer_.size());
  return true;
}

absl::Status ClickLog::Parse(absl::string_view line, ClickBatch& batch, int64_t row) const {
  const absl::string_view whole = line, label = TakeField(&line);
  if (label != "0" && label != "1")
    return Damaged(absl::StrCat("the label is '", label, "', must be 0 or 1"));
  batch.labels.flat<float>()[row] = label == "1" ? 1 : 0;
  float* const numbers = batch.numbers.flat<float>().data() + row * kClickNumbers;
  for (int i = 0; i < kClickNumbers; ++i) {
    const absl::string_view field = TakeField(&line);
    int64_t number = 0;
    if (!field.empty() && !absl::SimpleAtoi(field, &number)) {
      return Damaged(absl::StrCat("field ", i + 2, " is '", field.substr(0, 40), "', must be an integer"));
    }
    numbers[i] = SignedLog(number);
  }
  int64_t* const ids = batch.ids.flat<int64_t>().data() + row * kClickSlots;
  for (int i = 0; i < kClickSlots; ++i) {
    ids[i] = static_cast<int64_t>(Hash(TakeField(&line)) % static_cast<uint64_t>(options_.rows));
  }
  const auto tabs = std::count(whole.begin(), whole.end(), '\t');
  if (tabs == kClickNumbers + kClickSlots) return absl::OkStatus();
  return Damaged(absl::StrCat("has ", tabs + 1, " fields, must have ", 1 + kClickNumbers + kClickSlots));
}

absl::StatusOr<int64_t> ClickLog::Fill(ClickBatch& batch, int64_t begin, int64_t size) {
  absl::string_view line;
  while (begin < size) {
    WEIR_ASSIGN_OR_RETURN(const bool is_there, NextLine(&line));
    if (!is_there) break;
    if ((line_ - 1) % options_.num_readers != options_.reader) continue;
    WEIR_RETURN_IF_ERROR(Parse(line, batch, begin++));
  }
  return begin;
}

absl::StatusOr<ClickBatch> ClickLog::Next(int64_t size) {
  ClickBatch batch = NewBatch(size);
  WEIR_ASSIGN_OR_RETURN(const int64_t found, Fill(batch, 0, size));
  if (found == size) return batch;
  return ClickBatch{batch.ids.Slice(0, found), batch.numbers.Slice(0, found), batch.labels.Slice(0, found)};
}

absl::StatusOr<ClickBatch> ClickLog::NextOfMany(int64_t size) {
  ClickBatch batch = NewBatch(size);
  bool was_at_begin = line_ == 0;
  for (int64_t have = 0; have < size;) {
    const int64_t before = have;
    WEIR_ASSIGN_OR_RETURN(have, Fill(batch, have, size));
    if (have == size) break;
    if (have == before && was_at_begin) {
      return absl::DataLossError(absl::StrCat(path_, ": ", line_, " lines are too few for ",
                                              options_.num_readers, " readers: none is left for reader ",
                                              options_.reader));
    }
    WEIR_RETURN_IF_ERROR(Rewind());
    was_at_begin = true;
  }
  return batch;
}

}  // namespace weir::examples
