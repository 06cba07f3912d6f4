// InitializeTableFromTextFileV2: a table whose keys and values are the lines of a file, or columns of them.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/lookup/lookup_table.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/text_lines.h"

namespace weir {
namespace {

// The columns that are none.
constexpr int64_t kLineNumber = -1;
constexpr int64_t kWholeLine = -2;

// The text of a column as an element.
absl::Status ParseField(const std::string& field, int64_t line, Tensor& element) {
  bool is_valid = true;
  switch (element.dtype()) {
    case DType::kString:
      element.flat<std::string>()[0] = field;
      break;
    case DType::kInt32:
      is_valid = absl::SimpleAtoi(field, element.flat<int32_t>().data());
      break;
    case DType::kInt64:
      is_valid = absl::SimpleAtoi(field, element.flat<int64_t>().data());
      break;
    case DType::kFloat32:
      is_valid = absl::SimpleAtof(field, element.flat<float>().data());
      break;
    case DType::kFloat64:
      is_valid = absl::SimpleAtod(field, element.flat<double>().data());
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a column of text cannot become a ", DTypeName(element.dtype())));
  }
  if (is_valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Field ", field, " in line ", line, " is not a valid ", DTypeName(element.dtype()), "."));
}

class InitializeTableFromTextFile final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const std::string& delimiter = construction.attr<std::string>("delimiter");
    if (delimiter.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("delimiter should be only 1 char, is '", delimiter, "'"));
    }
    return std::unique_ptr<Kernel>(new InitializeTableFromTextFile(construction, delimiter[0]));
  }

  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, LookupResource<LookupTable>(context, 0));
    const Tensor& filename = context.input(1);
    if (filename.num_elements() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("filename should be a single string, but got ", filename.shape().ToString()));
    }
    const LookupTable::Spec& spec = table->spec();
    WEIR_RETURN_IF_ERROR(CheckColumn("Key", "key", key_column_, spec.key_dtype));
    WEIR_RETURN_IF_ERROR(CheckColumn("Value", "value", value_column_, spec.value_dtype));
    if (!spec.key_shape.is_scalar() || !spec.value_shape.is_scalar()) {
      return absl::InvalidArgumentError(absl::StrCat("a file cannot fill a ", table->ToString()));
    }
    const std::string& path = filename.flat<std::string>()[0];
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_->OpenForReading(path));
    TableRows rows(spec.key_dtype, Shape(), spec.value_dtype, Shape());
    WEIR_ASSIGN_OR_RETURN(const int64_t count, Read(context, path, TextLines(std::move(file)), rows));
    return table->Initialize(std::move(rows), count);
  }

 private:
  InitializeTableFromTextFile(const KernelConstruction& construction, char delimiter)
      : files_(FilesOf(construction)),
        key_column_(construction.attr<int64_t>("key_index")),
        value_column_(construction.attr<int64_t>("value_index")),
        vocab_size_(construction.attr<int64_t>("vocab_size")),
        offset_(construction.attr<int64_t>("offset")),
        delimiter_(delimiter) {}

  static absl::Status CheckColumn(absl::string_view capitalized, absl::string_view what, int64_t column,
                                  DType dtype) {
    if (column != kLineNumber || dtype == DType::kInt64) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(capitalized, " index for line number requires table ",
                                                   what, " dtype of int64, got ", DTypeName(dtype)));
  }

  // The number of lines that were read.
  absl::StatusOr<int64_t> Read(KernelContext& context, const std::string& path, TextLines lines,
                               TableRows& rows) const {
    Tensor key(rows.key_dtype(), Shape({1})), value(rows.value_dtype(), Shape({1}));
    std::string line;
    int64_t count = 0;
    for (; vocab_size_ < 0 || count < vocab_size_; ++count) {
      WEIR_ASSIGN_OR_RETURN(const bool is_there, lines.Next(line));
      if (!is_there) break;
      if (line.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("Invalid content in ", path, ": empty line found at line ", count, "."));
      }
      WEIR_RETURN_IF_ERROR(ReadLine(path, line, count, key, value));
      WEIR_RETURN_IF_ERROR(HashTable::AddTo(rows, key, value, 0, context.allocator()));
      if (context.cancellation().is_cancelled()) return absl::CancelledError("the step was cancelled");
    }
    if (count == 0) {
      return absl::OutOfRangeError(absl::StrCat("Finished reading 0 of lines from ", path));
    }
    if (count < vocab_size_) {
      return absl::InvalidArgumentError(
          absl::StrCat("Invalid vocab_size in ", path, ": expected ", vocab_size_, " but got ", count));
    }
    return count;
  }

  absl::Status ReadLine(const std::string& path, const std::string& line, int64_t number, Tensor& key,
                        Tensor& value) const {
    std::vector<std::string> columns;
    const int64_t last_column = std::max(key_column_, value_column_);
    if (last_column >= 0) {
      columns = absl::StrSplit(line, delimiter_);
      if (last_column >= static_cast<int64_t>(columns.size())) {
        return absl::InvalidArgumentError(absl::StrCat("Invalid number of columns in ", path, " line ",
                                                       number, " (", line, ") : expected at least ",
                                                       last_column + 1, " got ", columns.size()));
      }
    }
    const auto read = [&](int64_t column, Tensor& element) {
      if (column == kLineNumber) {
        element.flat<int64_t>()[0] =
            static_cast<int64_t>(static_cast<uint64_t>(number) + static_cast<uint64_t>(offset_));
        return absl::OkStatus();
      }
      return ParseField(column == kWholeLine ? line : columns[column], number, element);
    };
    WEIR_RETURN_IF_ERROR(read(key_column_, key));
    return read(value_column_, value);
  }

  const std::shared_ptr<FileSystem> files_;
  const int64_t key_column_, value_column_;
  const int64_t vocab_size_;
  const int64_t offset_;
  const char delimiter_;
};

}  // namespace

void RegisterTextFilesKernels(DeviceKernels& kernels) {
  kernels.Add<InitializeTableFromTextFile>("InitializeTableFromTextFileV2");
}

}  // namespace weir
