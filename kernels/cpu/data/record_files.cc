// Datasets of what is in files: records, lines, pieces of one length. Files may be compressed (GZIP, ZLIB).
//
// An iterator has one file open. What it holds of it is one record, which grows only with bytes that are
// really there (of a compressed file: when it is unpacked). A line and a piece have at most kLongestRecord of
// them. A record of a TFRecord file may have any number, as in TensorFlow, and is ResourceExhausted where
// there is no memory for it (kernels/formats/memory_probe.h). A file may be anybody's. Files are those that
// the session may use (session_files.h). A saved position is a file and a number of records, which are read
// again.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/compression.h"
#include "kernels/cpu/data/files_iterator.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/record_io.h"

namespace weir {
namespace {

constexpr size_t kLongestRecord = size_t{1} << 28;
constexpr size_t kBlock = size_t{1} << 18;

// The records of one file.
class Records {
 public:
  virtual ~Records() = default;
  // False at the end. One that is cancelled goes on where it was.
  virtual absl::StatusOr<bool> Next(Cancellation& cancellation, std::string* record) = 0;
};

class TFRecords final : public Records {
 public:
  explicit TFRecords(std::unique_ptr<InputStream> stream) : reader_(std::move(stream)) {}
  absl::StatusOr<bool> Next(Cancellation&, std::string* record) override { return reader_.ReadNext(record); }

 private:
  RecordReader reader_;
};

// Lines without their ends; carriage returns are left out wherever they are, as in TensorFlow.
class Lines final : public Records {
 public:
  explicit Lines(std::unique_ptr<InputStream> stream) : stream_(std::move(stream)) {}

  absl::StatusOr<bool> Next(Cancellation& cancellation, std::string* line) override {
    while (true) {
      if (cancellation.is_cancelled()) return cancellation.reason();  // any number of returns is no line
      if (position_ == block_.size()) {
        block_.resize(kBlock);
        WEIR_ASSIGN_OR_RETURN(const size_t num_read, stream_->Read(kBlock, block_.data()));
        block_.resize(num_read);
        position_ = 0;
        if (num_read == 0) return Take(line);
      }
      const size_t end = block_.find('\n', position_);
      const size_t stop = end == std::string::npos ? block_.size() : end;
      for (size_t i = position_; i < stop; ++i) {
        if (block_[i] != '\r') line_.push_back(block_[i]);
      }
      position_ = end == std::string::npos ? stop : stop + 1;
      if (line_.size() > kLongestRecord) {
        return absl::ResourceExhaustedError(
            absl::StrCat(stream_->path(), " has a line of more than ", kLongestRecord, " bytes"));
      }
      if (end == std::string::npos) continue;
      Take(line);
      return true;
    }
  }

 private:
  // Whether it has any characters.
  bool Take(std::string* line) {
    *line = std::exchange(line_, std::string());
    return !line->empty();
  }

  const std::unique_ptr<InputStream> stream_;
  std::string line_;  // as far as it was read
  std::string block_;
  size_t position_ = 0;
};

struct PieceSizes {
  int64_t header = 0;
  int64_t record = 1;
  int64_t footer = 0;

  std::string WrongLength(absl::string_view path, int64_t file_size) const {
    // A header may have any length: what is less than no bytes wraps around.
    const auto body = static_cast<uint64_t>(file_size - footer) - static_cast<uint64_t>(header);
    return absl::StrCat("Excluding the header (", header, " bytes) and footer (", footer,
                        " bytes), input file \"", path, "\" has body length ", static_cast<int64_t>(body),
                        " bytes, which is not an exact multiple of the record length (", record, " bytes).");
  }
};

class Pieces final : public Records {
 public:
  Pieces(std::unique_ptr<InputStream> stream, const PieceSizes& sizes)
      : stream_(std::move(stream)), sizes_(sizes), header_left_(sizes.header) {}

  absl::StatusOr<bool> Next(Cancellation& cancellation, std::string* record) override {
    if (!has_begun_) {
      WEIR_RETURN_IF_ERROR(SkipHeader(cancellation));
      has_begun_ = true;
      WEIR_RETURN_IF_ERROR(ReadUpTo(sizes_.footer, &ahead_));
    }
    // What is read is a footer until something comes behind it.
    const auto num_ahead = static_cast<int64_t>(ahead_.size());
    if (num_ahead < sizes_.footer) return DataLoss();
    WEIR_RETURN_IF_ERROR(ReadUpTo(sizes_.record, &ahead_));
    const int64_t num_read = static_cast<int64_t>(ahead_.size()) - num_ahead;
    if (num_read == 0) return false;
    if (num_read < sizes_.record) return DataLoss();
    record->assign(ahead_, 0, sizes_.record);
    ahead_.erase(0, sizes_.record);
    return true;
  }

 private:
  // It may have any length.
  absl::Status SkipHeader(Cancellation& cancellation) {
    std::string skipped;
    while (header_left_ > 0) {
      if (cancellation.is_cancelled()) return cancellation.reason();
      skipped.clear();
      const int64_t count = std::min<int64_t>(header_left_, kBlock);
      WEIR_RETURN_IF_ERROR(ReadUpTo(count, &skipped));
      const auto num_skipped = static_cast<int64_t>(skipped.size());
      header_left_ = num_skipped < count ? 0 : header_left_ - count;
    }
    return absl::OkStatus();
  }
  // Appends to `*bytes`.
  absl::Status ReadUpTo(int64_t count, std::string* bytes) {
    std::string block;
    while (count > 0) {
      block.resize(std::min<int64_t>(count, kBlock));
      WEIR_ASSIGN_OR_RETURN(const size_t num_read, stream_->Read(block.size(), block.data()));
      num_read_ += static_cast<int64_t>(num_read);
      bytes->append(block, 0, num_read);
      if (num_read < block.size()) return absl::OkStatus();
      count -= static_cast<int64_t>(num_read);
    }
    return absl::OkStatus();
  }
  absl::Status DataLoss() const {
    return absl::DataLossError(sizes_.WrongLength(stream_->path(), num_read_));
  }

  const std::unique_ptr<InputStream> stream_;
  const PieceSizes sizes_;
  int64_t header_left_;  // of its bytes, those that are not skipped yet
  bool has_begun_ = false;
  int64_t num_read_ = 0;
  std::string ahead_;  // the last footer's length of what was read
};

enum class Format { kTFRecord, kLines, kPieces };

class FilesDataset;
class RecordsIterator final : public FilesIterator {
 public:
  explicit RecordsIterator(RefPtr<const FilesDataset> dataset) : dataset_(std::move(dataset)) {}

 private:
  const std::vector<std::string>& files() const override;
  absl::Status Open(size_t file) override;
  void Close() override { records_ = nullptr; }
  absl::StatusOr<bool> Read(Cancellation& cancellation, Element* element, absl::Status*) override {
    std::string record;
    WEIR_ASSIGN_OR_RETURN(const bool has_record, records_->Next(cancellation, &record));
    if (has_record && element != nullptr) *element = {Tensor::Scalar(std::move(record))};
    return has_record;
  }

  const RefPtr<const FilesDataset> dataset_;
  std::unique_ptr<Records> records_;
};

class FilesDataset final : public Dataset {
 public:
  FilesDataset(Format format, std::vector<std::string> files, Compression compression, PieceSizes sizes,
               std::shared_ptr<FileSystem> file_system)
      : Dataset({{DType::kString}, {PartialShape::OfRank(0)}}),
        format_(format),
        files_(std::move(files)),
        compression_(compression),
        sizes_(sizes),
        file_system_(std::move(file_system)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const override {
    return IteratorPtr(new RecordsIterator(RefPtr<const FilesDataset>::Share(this)));
  }

  const std::vector<std::string>& files() const { return files_; }
  absl::StatusOr<std::unique_ptr<Records>> Open(size_t index) const {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, file_system_->OpenForReading(files_[index]));
    if (format_ == Format::kPieces) WEIR_RETURN_IF_ERROR(CheckLength(*file));
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<InputStream> stream, NewInputStream(std::move(file), compression_));
    switch (format_) {
      case Format::kTFRecord:
        return std::make_unique<TFRecords>(std::move(stream));
      case Format::kLines:
        return std::make_unique<Lines>(std::move(stream));
      case Format::kPieces:
        return std::make_unique<Pieces>(std::move(stream), sizes_);
    }
    return absl::InternalError("no such format of files");
  }

 private:
  // As in TensorFlow: none of its records is given. Of a compressed file the length is known at its end.
  absl::Status CheckLength(const ReadableFile& file) const {
    if (compression_ != Compression::kNone) return absl::OkStatus();
    const auto size = static_cast<int64_t>(file.num_bytes());
    const int64_t until_footer = size - sizes_.footer;
    if (until_footer >= sizes_.header && (until_footer - sizes_.header) % sizes_.record == 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(sizes_.WrongLength(file.path(), size));
  }

  const Format format_;
  const std::vector<std::string> files_;
  const Compression compression_;
  const PieceSizes sizes_;
  const std::shared_ptr<FileSystem> file_system_;
};

const std::vector<std::string>& RecordsIterator::files() const { return dataset_->files(); }

absl::Status RecordsIterator::Open(size_t file) {
  WEIR_ASSIGN_OR_RETURN(records_, dataset_->Open(file));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> FilesIn(const Tensor& tensor) {
  if (tensor.shape().rank() > 1) {
    return absl::InvalidArgumentError("`filenames` must be a scalar or a vector.");
  }
  return std::vector<std::string>(tensor.flat<std::string>().begin(), tensor.flat<std::string>().end());
}

absl::StatusOr<Compression> CompressionIn(const Tensor& tensor) {
  if (tensor.num_elements() != 1) return absl::InvalidArgumentError("compression_type must be a scalar");
  return CompressionCalled(tensor.flat<std::string>()[0]);
}

// Inputs: filenames, compression_type, buffer_size, whose value only TensorFlow needs.
template <Format format>
class FilesKernel final : public Kernel {
 public:
  explicit FilesKernel(const KernelConstruction& construction) : files_(FilesOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesIn(context.input(0)));
    WEIR_ASSIGN_OR_RETURN(const Compression compression, CompressionIn(context.input(1)));
    WEIR_ASSIGN_OR_RETURN(const int64_t buffer_size, ReadInteger(context.input(2), "buffer_size"));
    if (buffer_size < -1) {
      return absl::InvalidArgumentError("`buffer_size` must be >= -1 (-1: chosen here)");
    }
    return SetDataset<FilesDataset>(context, format, std::move(files), compression, PieceSizes(), files_);
  }

 private:
  const std::shared_ptr<FileSystem> files_;
};

class FixedLengthRecords final : public Kernel {
 public:
  explicit FixedLengthRecords(const KernelConstruction& construction) : files_(FilesOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesIn(context.input(0)));
    PieceSizes sizes;
    WEIR_ASSIGN_OR_RETURN(sizes.header, ReadInteger(context.input(1), "header_bytes"));
    WEIR_ASSIGN_OR_RETURN(sizes.record, ReadInteger(context.input(2), "record_bytes"));
    WEIR_ASSIGN_OR_RETURN(sizes.footer, ReadInteger(context.input(3), "footer_bytes"));
    WEIR_ASSIGN_OR_RETURN(const int64_t buffer_size, ReadInteger(context.input(4), "buffer_size"));
    WEIR_ASSIGN_OR_RETURN(const Compression compression, CompressionIn(context.input(5)));
    if (sizes.header < 0) return absl::InvalidArgumentError("`header_bytes` must be >= 0");
    if (sizes.record <= 0) return absl::InvalidArgumentError("`record_bytes` must be > 0");
    if (sizes.footer < 0) return absl::InvalidArgumentError("`footer_bytes` must be >= 0");
    if (buffer_size < -1) return absl::InvalidArgumentError("`buffer_size` must be >= -1");
    constexpr auto kMost = static_cast<int64_t>(kLongestRecord);
    if (sizes.record > kMost || sizes.footer > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat("`record_bytes` and `footer_bytes` must be at most ", kMost));
    }
    return SetDataset<FilesDataset>(context, Format::kPieces, std::move(files), compression, sizes, files_);
  }

 private:
  const std::shared_ptr<FileSystem> files_;
};

}  // namespace

void RegisterRecordFilesKernels(DeviceKernels& kernels) {
  kernels.Add<FilesKernel<Format::kTFRecord>>("TFRecordDataset");
  kernels.Add<FilesKernel<Format::kLines>>("TextLineDataset");
  kernels.Add<FixedLengthRecords>("FixedLengthRecordDatasetV2");
}

}  // namespace weir
