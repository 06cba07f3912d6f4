// CSVDataset: the records of files of comma-separated values (RFC 4180), field by field as scalars.
//
// A record ends with \n, \r or \r\n, or with the file. An iterator has one file open and holds one record, at
// most kLongestRecord bytes with its fields as objects; a file may be anybody's. Files are those that the
// session may use (session_files.h). A record that does not fit is an error, and the next call goes on behind
// it.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/compression.h"
#include "kernels/cpu/data/files_iterator.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/input_stream.h"

namespace weir {
namespace {

constexpr size_t kLongestRecord = size_t{1} << 28;
constexpr size_t kBlock = size_t{1} << 18;

struct CsvFormat {
  char delimiter = ',';
  bool has_quotes = true;
};

// Fields of one file after another. After an error of the file, every later call gives it again.
class CsvReader {
 public:
  CsvReader(std::unique_ptr<InputStream> stream, const CsvFormat& format)
      : stream_(std::move(stream)), format_(format) {}

  // False at the end. What is wrong with the record ends up in `*problem`: it was read to its end.
  absl::StatusOr<bool> Next(std::vector<std::string>* fields, absl::Status* problem) {
    fields->clear();
    *problem = absl::OkStatus();
    num_bytes_ = 0;
    WEIR_ASSIGN_OR_RETURN(int next, Peek());
    if (next == kEnd) return false;
    bool is_over = false;
    while (!is_over) {
      fields->emplace_back();
      WEIR_RETURN_IF_ERROR(Charge(sizeof(std::string)));  // a field of a byte is an object in memory
      WEIR_ASSIGN_OR_RETURN(next, Peek());
      const bool is_quoted = format_.has_quotes && next == '"';
      WEIR_ASSIGN_OR_RETURN(
          is_over, is_quoted ? ReadQuoted(&fields->back(), problem) : ReadUnquoted(&fields->back(), problem));
    }
    return true;
  }

 private:
  static constexpr int kEnd = -1;

  absl::StatusOr<int> Peek() {
    if (position_ == block_.size()) {
      block_.resize(kBlock);
      WEIR_ASSIGN_OR_RETURN(const size_t num_read, stream_->Read(kBlock, block_.data()));
      block_.resize(num_read);
      position_ = 0;
      if (num_read == 0) return kEnd;
    }
    return static_cast<unsigned char>(block_[position_]);
  }
  absl::Status Take() {
    ++position_;
    return Charge(1);
  }
  absl::Status Charge(size_t num_bytes) {
    num_bytes_ += num_bytes;
    if (num_bytes_ <= kLongestRecord) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(stream_->path(), " has a record of more than ",
                                                     kLongestRecord, " bytes, with ", sizeof(std::string),
                                                     " for each field"));
  }
  static void Note(absl::string_view what, absl::Status* problem) {
    if (problem->ok()) *problem = absl::InvalidArgumentError(what);
  }

  // Each returns whether the field was the record's last.
  absl::StatusOr<bool> ReadUnquoted(std::string* field, absl::Status* problem) {
    while (true) {
      WEIR_ASSIGN_OR_RETURN(const int next, Peek());
      if (next == kEnd) return true;
      WEIR_RETURN_IF_ERROR(Take());
      if (next == static_cast<unsigned char>(format_.delimiter)) return false;
      if (next == '\n' || next == '\r') return EndRecord(next);
      if (format_.has_quotes && next == '"') Note("Unquoted fields cannot have quotes inside", problem);
      field->push_back(static_cast<char>(next));
    }
  }
  absl::StatusOr<bool> ReadQuoted(std::string* field, absl::Status* problem) {
    WEIR_RETURN_IF_ERROR(Take());  // the first quote
    while (true) {
      WEIR_ASSIGN_OR_RETURN(int next, Peek());
      if (next == kEnd) {
        Note("Reached end of file without closing quoted field in record", problem);
        return true;
      }
      WEIR_RETURN_IF_ERROR(Take());
      if (next != '"') {
        field->push_back(static_cast<char>(next));
        continue;
      }
      WEIR_ASSIGN_OR_RETURN(next, Peek());
      if (next == kEnd) return true;
      WEIR_RETURN_IF_ERROR(Take());
      if (next == static_cast<unsigned char>(format_.delimiter)) return false;
      if (next == '\n' || next == '\r') return EndRecord(next);
      if (next != '"') Note("Quote inside a string has to be escaped by another quote", problem);
      field->push_back(static_cast<char>(next));
    }
  }
  absl::StatusOr<bool> EndRecord(int ended_with) {
    if (ended_with == '\r') {
      WEIR_ASSIGN_OR_RETURN(const int next, Peek());
      if (next == '\n') ++position_;
    }
    return true;
  }

  const std::unique_ptr<InputStream> stream_;
  const CsvFormat format_;
  std::string block_;
  size_t position_ = 0;
  size_t num_bytes_ = 0;  // of this record and its fields as objects
};

class CsvDataset;
class CsvIterator final : public FilesIterator {
 public:
  explicit CsvIterator(RefPtr<const CsvDataset> dataset) : dataset_(std::move(dataset)) {}

 private:
  const std::vector<std::string>& files() const override;
  // With its header.
  absl::Status Open(size_t file) override;
  void Close() override { reader_ = nullptr; }
  absl::StatusOr<bool> Read(Cancellation&, Element* element, absl::Status* problem) override;

  const RefPtr<const CsvDataset> dataset_;
  std::unique_ptr<CsvReader> reader_;
};

class CsvDataset final : public Dataset {
 public:
  struct Options {
    std::vector<std::string> files;
    Compression compression = Compression::kNone;
    bool has_header = false;
    CsvFormat format;
    std::string na_value;
    std::vector<int64_t> selected, excluded;  // sorted; at most one has any
    Element defaults;                         // of no element: the field is required
  };
  CsvDataset(Signature signature, Options options, std::shared_ptr<FileSystem> file_system)
      : Dataset(std::move(signature)), options_(std::move(options)), file_system_(std::move(file_system)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const override {
    return IteratorPtr(new CsvIterator(RefPtr<const CsvDataset>::Share(this)));
  }
  const Options& options() const { return options_; }

  absl::StatusOr<std::unique_ptr<CsvReader>> Open(size_t index) const {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file,
                          file_system_->OpenForReading(options_.files[index]));
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<InputStream> stream,
                          NewInputStream(std::move(file), options_.compression));
    return std::make_unique<CsvReader>(std::move(stream), options_.format);
  }

  absl::StatusOr<Element> ElementOf(const std::vector<std::string>& fields) const {
    Element element;
    const std::vector<int64_t>&selected = options_.selected, &excluded = options_.excluded;
    for (int64_t i = 0; i < static_cast<int64_t>(fields.size()); ++i) {
      if (!selected.empty() && !std::binary_search(selected.begin(), selected.end(), i)) continue;
      if (std::binary_search(excluded.begin(), excluded.end(), i)) continue;
      if (element.size() == signature().types.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("Expect ", signature().types.size(), " fields but have more in record"));
      }
      WEIR_ASSIGN_OR_RETURN(Tensor tensor, TensorOf(fields[i], element.size()));
      element.push_back(std::move(tensor));
    }
    if (element.size() == signature().types.size()) return element;
    return absl::InvalidArgumentError(
        absl::StrCat("Expect ", signature().types.size(), " fields but have ", element.size(), " in record"));
  }

 private:
  absl::StatusOr<Tensor> TensorOf(const std::string& field, size_t index) const {
    const DType dtype = signature().types[index];
    if (field.empty() || field == options_.na_value) {
      const Tensor& value = options_.defaults[index];
      if (value.num_elements() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("Field ", index, " is required but missing in record!"));
      }
      return value.WithShape(Shape());
    }
    Tensor tensor(dtype, Shape());
    bool is_valid = true;
    switch (dtype) {
      case DType::kString:
        tensor.flat<std::string>()[0] = field;
        break;
      case DType::kInt32:
        is_valid = absl::SimpleAtoi(field, tensor.flat<int32_t>().data());
        break;
      case DType::kInt64:
        is_valid = absl::SimpleAtoi(field, tensor.flat<int64_t>().data());
        break;
      case DType::kFloat32:
        is_valid = absl::SimpleAtof(field, tensor.flat<float>().data());
        break;
      case DType::kFloat64:
        is_valid = absl::SimpleAtod(field, tensor.flat<double>().data());
        break;
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("csv: data type ", DTypeName(dtype), " not supported in field ", index));
    }
    if (is_valid) return tensor;
    return absl::InvalidArgumentError(
        absl::StrCat("Field ", index, " in record is not a valid ", DTypeName(dtype), ": ", field));
  }

  const Options options_;
  const std::shared_ptr<FileSystem> file_system_;
};

const std::vector<std::string>& CsvIterator::files() const { return dataset_->options().files; }

absl::Status CsvIterator::Open(size_t file) {
  WEIR_ASSIGN_OR_RETURN(reader_, dataset_->Open(file));
  if (!dataset_->options().has_header) return absl::OkStatus();
  std::vector<std::string> fields;
  absl::Status problem;
  const absl::StatusOr<bool> has_header = reader_->Next(&fields, &problem);
  if (has_header.ok() && *has_header && problem.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Can't read header of file ", files()[file]));
}

absl::StatusOr<bool> CsvIterator::Read(Cancellation&, Element* element, absl::Status* problem) {
  std::vector<std::string> fields;
  WEIR_ASSIGN_OR_RETURN(const bool has_record, reader_->Next(&fields, problem));
  if (!has_record || !problem->ok() || element == nullptr) return has_record;
  absl::StatusOr<Element> values = dataset_->ElementOf(fields);
  if (values.ok()) *element = *std::move(values);
  *problem = values.status();
  return true;
}

// Column numbers in rising order.
absl::StatusOr<std::vector<int64_t>> ColumnsIn(const Tensor& tensor, absl::string_view name) {
  if (tensor.shape().rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("`", name, "` must be a vector."));
  }
  std::vector<int64_t> columns(tensor.flat<int64_t>().begin(), tensor.flat<int64_t>().end());
  if (std::adjacent_find(columns.begin(), columns.end(), std::greater_equal<>()) != columns.end()) {
    return absl::InvalidArgumentError(absl::StrCat(name, " should be strictly increasing indices"));
  }
  if (columns.empty() || columns[0] >= 0) return columns;
  return absl::InvalidArgumentError(absl::StrCat(name, " should be non-negative indices"));
}

// Inputs: filenames, compression_type, buffer_size, whose value only TensorFlow needs, header, field_delim,
// use_quote_delim, na_value, select_cols, record_defaults, and exclude_cols, or not.
class Csv final : public DatasetKernel {
 public:
  explicit Csv(const KernelConstruction& construction)
      : DatasetKernel(construction), files_(FilesOf(construction)) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    constexpr const char* kScalars[] = {"compression_type", "buffer_size",     "header",
                                        "field_delim",      "use_quote_delim", "na_value"};
    for (int i = 1; i <= 6; ++i) {
      if (context.input(i).num_elements() == 1) continue;
      return absl::InvalidArgumentError(absl::StrCat(kScalars[i - 1], " must be a scalar"));
    }
    CsvDataset::Options options;
    const Tensor& files = context.input(0);
    if (files.shape().rank() > 1) {
      return absl::InvalidArgumentError("`filenames` must be a scalar or a vector.");
    }
    options.files.assign(files.flat<std::string>().begin(), files.flat<std::string>().end());
    WEIR_ASSIGN_OR_RETURN(options.compression, CompressionCalled(context.input(1).flat<std::string>()[0]));
    if (context.input(2).flat<int64_t>()[0] <= 0) {
      return absl::InvalidArgumentError("buffer_size should be positive");
    }
    options.has_header = context.input(3).flat<bool>()[0];
    const std::string& delimiter = context.input(4).flat<std::string>()[0];
    if (delimiter.size() != 1) return absl::InvalidArgumentError("field_delim should be only 1 char");
    options.format = {delimiter[0], context.input(5).flat<bool>()[0]};
    options.na_value = context.input(6).flat<std::string>()[0];
    WEIR_ASSIGN_OR_RETURN(options.selected, ColumnsIn(context.input(7), "select_cols"));
    if (!options.selected.empty() && options.selected.size() != signature.types.size()) {
      return absl::InvalidArgumentError("select_cols should match output size");
    }
    const int first_default = 8, num_defaults = static_cast<int>(signature.types.size());
    for (int i = 0; i < num_defaults; ++i) {
      const Tensor& value = context.input(first_default + i);
      if (value.shape().rank() > 1) {
        return absl::InvalidArgumentError("Each record default should be at most rank 1");
      }
      if (value.num_elements() > 1) {
        return absl::InvalidArgumentError(absl::StrCat("There should only be 1 default per field but field ",
                                                       i, " has ", value.num_elements()));
      }
      options.defaults.push_back(value);
    }
    if (context.num_inputs() > first_default + num_defaults) {
      WEIR_ASSIGN_OR_RETURN(options.excluded,
                            ColumnsIn(context.input(first_default + num_defaults), "exclude_cols"));
    }
    if (!options.selected.empty() && !options.excluded.empty()) {
      return absl::InvalidArgumentError("Either select_cols or exclude_cols should be empty");
    }
    return SetDataset<CsvDataset>(context, signature, std::move(options), files_);
  }

  const std::shared_ptr<FileSystem> files_;
};

}  // namespace

void RegisterCsvFilesKernels(DeviceKernels& kernels) {
  for (const char* op : {"CSVDataset", "CSVDatasetV2", "ExperimentalCSVDataset"}) kernels.Add<Csv>(op);
}

}  // namespace weir
