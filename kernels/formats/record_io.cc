#include "kernels/formats/record_io.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/crc32c.h"
#include "kernels/formats/deflater.h"
#include "kernels/formats/memory_probe.h"

namespace weir {
namespace {

constexpr size_t kHeaderBytes = 12;
constexpr size_t kFooterBytes = 4;
// A record's memory grows by at most this much ahead of the bytes that were found.
constexpr size_t kPieceBytes = 1 << 20;
constexpr absl::string_view kDamaged = "is damaged (its checksum differs)";

template <typename T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

template <typename T>
void Store(T value, char* bytes) {
  std::memcpy(bytes, &value, sizeof(value));
}

class PlainWriter final : public RecordWriter {
 public:
  explicit PlainWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  absl::Status Flush() override { return file_->Flush(); }
  absl::Status Sync() override { return file_->Sync(); }
  absl::Status Close() override { return file_->Close(); }

 protected:
  absl::Status Append(absl::string_view data) override { return file_->Append(data); }

 private:
  const std::unique_ptr<WritableFile> file_;
};

class DeflatingWriter final : public RecordWriter {
 public:
  DeflatingWriter(std::unique_ptr<WritableFile> file, std::unique_ptr<Deflater> deflater)
      : file_(std::move(file)), deflater_(std::move(deflater)) {}
  ~DeflatingWriter() override { Close().IgnoreError(); }

  absl::Status Flush() override {
    WEIR_RETURN_IF_ERROR(deflater_->Flush());
    return file_->Flush();
  }
  absl::Status Sync() override {
    WEIR_RETURN_IF_ERROR(Flush());
    return file_->Sync();
  }
  absl::Status Close() override {
    const absl::Status finished = deflater_->Finish();
    const absl::Status closed = file_->Close();
    return finished.ok() ? closed : finished;
  }

 protected:
  absl::Status Append(absl::string_view data) override { return deflater_->Append(data); }

 private:
  const std::unique_ptr<WritableFile> file_;
  const std::unique_ptr<Deflater> deflater_;  // writes into file_
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> RecordReader::Open(const std::string& path,
                                                                 Compression compression,
                                                                 FileSystem& file_system) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, file_system.OpenForReading(path));
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<InputStream> stream, NewInputStream(std::move(file), compression));
  return std::make_unique<RecordReader>(std::move(stream));
}

absl::Status RecordReader::Damaged(absl::string_view problem) const {
  return absl::DataLossError(absl::StrCat(stream_->path(), ": the record at byte ", offset_, " ", problem));
}

// Exactly num_bytes; in pieces, because a damaged or hostile length must not allocate gigabytes.
absl::Status RecordReader::ReadPiece(size_t num_bytes, std::string* piece) {
  piece->clear();
  while (piece->size() < num_bytes) {
    const size_t begin = piece->size();
    const size_t wanted = std::min(num_bytes - begin, std::max(kPieceBytes, begin));
    // A compressed file may hold a thousand times its own size.
    WEIR_RETURN_IF_ERROR(
        ProbeMemory(absl::StrCat(stream_->path(), ", ", stream_->Describe(), ", the record at byte ", offset_,
                                 " of ", num_bytes, " bytes"),
                    begin + wanted));
    piece->resize(begin + wanted);
    WEIR_ASSIGN_OR_RETURN(const size_t found, stream_->Read(wanted, piece->data() + begin));
    piece->resize(begin + found);
    if (found < wanted) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RecordReader::ReadNext(std::string* record, uint64_t max_bytes) {
  if (!error_.ok()) return error_;
  const auto read = [&]() -> absl::StatusOr<bool> {
    char header[kHeaderBytes];
    WEIR_ASSIGN_OR_RETURN(const size_t found, stream_->Read(kHeaderBytes, header));
    if (found == 0) return false;
    if (found < kHeaderBytes) return Damaged("is truncated in its header");
    const uint64_t length = Load<uint64_t>(header);
    if (UnmaskCrc32c(Load<uint32_t>(header + 8)) != Crc32c({header, 8})) {
      return Damaged("has a damaged length (its checksum differs)");
    }
    if (length > SIZE_MAX - kFooterBytes) return Damaged("has an impossible length");
    if (length > max_bytes) {
      return Damaged(absl::StrCat("has ", length, " bytes, more than the ", max_bytes, " that it may have"));
    }
    if (const char* const bytes = stream_->TakeBuffered(length + kFooterBytes)) {
      if (UnmaskCrc32c(Load<uint32_t>(bytes + length)) != Crc32c({bytes, length})) return Damaged(kDamaged);
      record->assign(bytes, length);
      offset_ += kHeaderBytes + length + kFooterBytes;
      return true;
    }
    WEIR_RETURN_IF_ERROR(ReadPiece(length + kFooterBytes, record));
    if (record->size() < length + kFooterBytes) {
      return Damaged(
          absl::StrCat("is truncated: ", record->size(), " of ", length + kFooterBytes, " bytes are left"));
    }
    const uint32_t stored = UnmaskCrc32c(Load<uint32_t>(record->data() + length));
    record->resize(length);
    if (stored != Crc32c(*record)) return Damaged(kDamaged);
    offset_ += kHeaderBytes + length + kFooterBytes;
    return true;
  };
  absl::StatusOr<bool> result = read();
  if (!result.ok()) error_ = result.status();
  return result;
}

absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Create(const std::string& path,
                                                                   Compression compression,
                                                                   FileSystem& file_system) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, file_system.Create(path));
  return Create(std::move(file), compression);
}

absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Create(std::unique_ptr<WritableFile> file,
                                                                   Compression compression) {
  if (compression == Compression::kAuto) {
    return absl::InvalidArgumentError(absl::StrCat(file->path(), ": a writer must be told its compression"));
  }
  if (compression == Compression::kNone) return std::make_unique<PlainWriter>(std::move(file));
  const auto format = compression == Compression::kGzip ? Deflater::Format::kGzip : Deflater::Format::kZlib;
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Deflater> deflater, Deflater::Create(format, file.get()));
  return std::make_unique<DeflatingWriter>(std::move(file), std::move(deflater));
}

absl::Status RecordWriter::Write(absl::string_view record) {
  char header[kHeaderBytes];
  Store<uint64_t>(record.size(), header);
  Store<uint32_t>(MaskCrc32c(Crc32c({header, 8})), header + 8);
  char footer[kFooterBytes];
  Store<uint32_t>(MaskCrc32c(Crc32c(record)), footer);
  WEIR_RETURN_IF_ERROR(Append({header, kHeaderBytes}));
  WEIR_RETURN_IF_ERROR(Append(record));
  return Append({footer, kFooterBytes});
}

}  // namespace weir
