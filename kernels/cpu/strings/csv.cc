// DecodeCSV: lines of comma-separated values (RFC 4180) as columns of tensors.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strings/number_text.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

struct CsvForm {
  char delimiter = ',';
  bool has_quotes = true;
};

absl::Status BadRecord(absl::string_view problem, int64_t record) {
  return absl::InvalidArgumentError(absl::StrCat(problem, ": record ", record));
}

// Reads a quoted field whose opening quote is behind `at`; leaves `at` behind its closing quote.
absl::Status ReadQuoted(absl::string_view line, int64_t record, size_t& at, std::string& field) {
  while (at < line.size()) {
    if (line[at] != '"') {
      field.push_back(line[at++]);
    } else if (at + 1 < line.size() && line[at + 1] == '"') {
      field.push_back('"');
      at += 2;
    } else {
      ++at;
      return absl::OkStatus();
    }
  }
  return BadRecord("Quoted field has to end with quote followed by delim or end", record);
}

absl::Status ReadPlain(absl::string_view line, const CsvForm& form, int64_t record, size_t& at,
                       std::string& field) {
  for (; at < line.size() && line[at] != form.delimiter; ++at) {
    if (line[at] == '\n' || line[at] == '\r' || (form.has_quotes && line[at] == '"')) {
      return BadRecord("Unquoted fields cannot have quotes/CRLFs inside", record);
    }
    field.push_back(line[at]);
  }
  return absl::OkStatus();
}

// Reads the field that begins at `at`; leaves `at` behind it, at a delimiter or the end of the line.
absl::Status ReadField(absl::string_view line, const CsvForm& form, int64_t record, size_t& at,
                       std::string& field) {
  if (!form.has_quotes || line[at] != '"') return ReadPlain(line, form, record, at, field);
  ++at;
  WEIR_RETURN_IF_ERROR(ReadQuoted(line, record, at, field));
  if (at == line.size() || line[at] == form.delimiter) return absl::OkStatus();
  return BadRecord("Quote inside a string has to be escaped by another quote", record);
}

// The fields of a line that `columns` names, or those of them that it has; all of its fields when `columns`
// is empty. As in TensorFlow, \n and \r before a field are skipped, what comes behind the last of the columns
// is not looked at, and only a delimiter that ends the line has an empty field behind it.
absl::StatusOr<std::vector<std::string>> FieldsOf(absl::string_view line, const CsvForm& form,
                                                  absl::Span<const int64_t> columns, int64_t record) {
  std::vector<std::string> fields;
  int64_t column = 0;
  const auto keep = [&](std::string field) {
    const size_t next = fields.size();
    if (columns.empty() || (next < columns.size() && columns[next] == column)) {
      fields.push_back(std::move(field));
    }
    ++column;
  };
  size_t at = 0;
  while (at < line.size()) {
    if (line[at] == '\n' || line[at] == '\r') {
      ++at;
      continue;
    }
    std::string field;
    WEIR_RETURN_IF_ERROR(ReadField(line, form, record, at, field));
    keep(std::move(field));
    if (!columns.empty() && fields.size() == columns.size()) return fields;
    ++at;  // the delimiter
  }
  if (!line.empty() && line.back() == form.delimiter) keep("");
  return fields;
}

class DecodeCsv final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto& delimiter = construction.attr<std::string>("field_delim");
    if (delimiter.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("field_delim should be only 1 char, is '", delimiter, "'"));
    }
    const auto& columns = construction.attr<std::vector<int64_t>>("select_cols");
    const auto num_outputs = static_cast<size_t>(construction.node().num_outputs());
    if (!columns.empty() && columns.size() != num_outputs) {
      return absl::InvalidArgumentError(absl::StrCat("select_cols should match output size: it has ",
                                                     columns.size(), " columns for ", num_outputs,
                                                     " outputs"));
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i] < 0) return absl::InvalidArgumentError("select_cols should be non-negative indices");
      if (i > 0 && columns[i] <= columns[i - 1]) {
        return absl::InvalidArgumentError("select_cols should be strictly increasing indices");
      }
    }
    return std::make_unique<DecodeCsv>(CsvForm{delimiter[0], construction.attr<bool>("use_quote_delim")},
                                       construction.attr<std::string>("na_value"), columns);
  }

  DecodeCsv(CsvForm form, std::string na_value, std::vector<int64_t> columns)
      : form_(form), na_value_(std::move(na_value)), columns_(std::move(columns)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& records = context.input(0);
    const int num_outputs = context.num_outputs();
    for (int k = 0; k < num_outputs; ++k) {
      const Tensor& value = context.input(1 + k);
      if (value.shape().rank() > 1) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Each record default should be at most rank 1, number ", k, " is ", value.shape().ToString()));
      }
      if (value.num_elements() > 1) {
        return absl::InvalidArgumentError(absl::StrCat("There should only be 1 default per field but field ",
                                                       k, " has ", value.num_elements()));
      }
      WEIR_RETURN_IF_ERROR(context.AllocateOutput(k, records.shape()).status());
    }
    StringBudget budget(context);
    for (int64_t i = 0; i < records.num_elements(); ++i) {
      const std::string& line = records.flat<std::string>()[i];
      WEIR_RETURN_IF_ERROR(
          budget.Take(static_cast<int64_t>(line.size() + line.size() / 2 * sizeof(std::string))));
      WEIR_ASSIGN_OR_RETURN(std::vector<std::string> fields, FieldsOf(line, form_, columns_, i));
      if (fields.size() != static_cast<size_t>(num_outputs)) {
        return absl::InvalidArgumentError(
            absl::StrCat("Expect ", num_outputs, " fields but have ", fields.size(), " in record ", i));
      }
      for (int k = 0; k < num_outputs; ++k) WEIR_RETURN_IF_ERROR(Store(context, k, i, fields[k]));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Store(KernelContext& context, int column, int64_t record, std::string& field) const {
    switch (context.output_type(column)) {
      case DType::kFloat32:
        return StoreAs<float>(context, column, record, field);
      case DType::kFloat64:
        return StoreAs<double>(context, column, record, field);
      case DType::kInt32:
        return StoreAs<int32_t>(context, column, record, field);
      case DType::kInt64:
        return StoreAs<int64_t>(context, column, record, field);
      default:
        return StoreAs<std::string>(context, column, record, field);
    }
  }

  template <typename T>
  absl::Status StoreAs(KernelContext& context, int column, int64_t record, std::string& field) const {
    T& element = context.output(column).flat<T>()[record];
    if (field.empty() || field == na_value_) {
      const Tensor& value = context.input(1 + column);
      if (value.num_elements() != 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("Field ", column, " is required but missing in record ", record, "!"));
      }
      element = value.scalar<T>();
      return absl::OkStatus();
    }
    if constexpr (std::is_same_v<T, std::string>) {
      element = std::move(field);
    } else {
      if (!ParseNumber(field, element)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Field ", column, " in record ", record, " is not a valid ", DTypeName(DTypeOf<T>), ": ", field));
      }
    }
    return absl::OkStatus();
  }

  const CsvForm form_;
  const std::string na_value_;
  const std::vector<int64_t> columns_;
};

}  // namespace

void RegisterCsvKernels(DeviceKernels& kernels) { kernels.Add<DecodeCsv>("DecodeCSV"); }

}  // namespace weir
