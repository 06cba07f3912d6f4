// SqlDataset: the rows of a query of an SQLite database (kernels/formats/sqlite_query.h).
//
// The database may be anybody's; it is one of the files that the session may use (session_files.h). A saved
// position is a number of rows, which are read again; so they are after an error, for SQLite begins a query
// anew that it did not come to the end of.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/sqlite_query.h"

namespace weir {
namespace {

class SqlDataset;
class SqlIterator final : public Iterator {
 public:
  explicit SqlIterator(RefPtr<const SqlDataset> dataset) : dataset_(std::move(dataset)) {}

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext&, PositionWriter& position) override {
    position.Add(num_read_);
    return absl::OkStatus();
  }
  absl::Status Restore(IteratorContext&, PositionReader& position) override;

 private:
  absl::StatusOr<bool> Step(IteratorContext& context);
  Element Row() const;

  const RefPtr<const SqlDataset> dataset_;
  std::unique_ptr<SqliteQuery> query_;  // null before the first row, and after an error
  int64_t num_stepped_ = 0;             // rows that query_ has gone to
  int64_t num_read_ = 0;                // rows that were given
  bool is_over_ = false;
};

class SqlDataset final : public Dataset {
 public:
  SqlDataset(Signature signature, std::string path, std::string query, std::shared_ptr<FileSystem> files)
      : Dataset(std::move(signature)),
        path_(std::move(path)),
        query_(std::move(query)),
        files_(std::move(files)) {}

  absl::StatusOr<IteratorPtr> MakeIterator(IteratorContext&) const override {
    return IteratorPtr(new SqlIterator(RefPtr<const SqlDataset>::Share(this)));
  }
  int64_t cardinality() const override { return kUnknown; }

  absl::StatusOr<std::unique_ptr<SqliteQuery>> Open() const {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<SqliteQuery> query, SqliteQuery::Create(path_, query_, files_));
    if (query->num_columns() == static_cast<int>(signature().types.size())) return query;
    return absl::InvalidArgumentError(absl::StrCat("The number of columns in query (", query->num_columns(),
                                                   ") must match the number of elements in output_types (",
                                                   signature().types.size(), ")."));
  }

 private:
  const std::string path_;
  const std::string query_;
  const std::shared_ptr<FileSystem> files_;
};

// To the next row of query_, which is dropped at its end and at an error.
absl::StatusOr<bool> SqlIterator::Step(IteratorContext& context) {
  absl::StatusOr<bool> has_row = query_->Next(
      [&] { return context.cancellation.is_cancelled() ? context.cancellation.reason() : absl::OkStatus(); });
  if (!has_row.value_or(false)) query_ = nullptr;
  return has_row;
}

absl::StatusOr<bool> SqlIterator::Next(IteratorContext& context, Element* element) {
  if (is_over_) return false;
  if (query_ == nullptr) {
    WEIR_ASSIGN_OR_RETURN(query_, dataset_->Open());
    num_stepped_ = 0;
  }
  while (num_stepped_ <= num_read_) {
    WEIR_ASSIGN_OR_RETURN(const bool has_row, Step(context));
    if (!has_row) {
      is_over_ = true;
      return false;
    }
    ++num_stepped_;
  }
  ++num_read_;
  *element = Row();
  return true;
}

absl::Status SqlIterator::Restore(IteratorContext&, PositionReader& position) {
  WEIR_ASSIGN_OR_RETURN(num_read_, position.NextNumber(0, INT64_MAX));
  query_ = nullptr;
  is_over_ = false;
  return absl::OkStatus();
}

// Integers are cut to their type's bits, as in TensorFlow.
Element SqlIterator::Row() const {
  Element row;
  const std::vector<DType>& types = dataset_->signature().types;
  for (int i = 0; i < static_cast<int>(types.size()); ++i) {
    const auto integer = [&] { return query_->Integer(i); };
    switch (types[i]) {
      case DType::kString:
        row.push_back(Tensor::Scalar(query_->Text(i)));
        break;
      case DType::kFloat64:
        row.push_back(Tensor::Scalar(query_->Real(i)));
        break;
      case DType::kBool:
        row.push_back(Tensor::Scalar(integer() != 0));
        break;
      case DType::kInt8:
        row.push_back(Tensor::Scalar(static_cast<int8_t>(integer())));
        break;
      case DType::kUint8:
        row.push_back(Tensor::Scalar(static_cast<uint8_t>(integer())));
        break;
      case DType::kInt16:
        row.push_back(Tensor::Scalar(static_cast<int16_t>(integer())));
        break;
      case DType::kUint16:
        row.push_back(Tensor::Scalar(static_cast<uint16_t>(integer())));
        break;
      case DType::kInt32:
        row.push_back(Tensor::Scalar(static_cast<int32_t>(integer())));
        break;
      default:
        row.push_back(Tensor::Scalar(integer()));
    }
  }
  return row;
}

// Inputs: driver_name, data_source_name, query.
class Sql final : public DatasetKernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    constexpr DType kTypes[] = {DType::kString, DType::kInt8,   DType::kInt16, DType::kInt32,  DType::kInt64,
                                DType::kUint8,  DType::kUint16, DType::kBool,  DType::kFloat64};
    for (const DType type : construction.attr<std::vector<DType>>("output_types")) {
      if (std::find(std::begin(kTypes), std::end(kTypes), type) != std::end(kTypes)) continue;
      return absl::InvalidArgumentError(
          "Each element of `output_types_` must be one of: DT_STRING, DT_INT8, DT_INT16, DT_INT32, DT_INT64, "
          "DT_UINT8, DT_UINT16, DT_BOOL, DT_DOUBLE ");
    }
    for (const PartialShape& shape : construction.attr<std::vector<PartialShape>>("output_shapes")) {
      if (!shape.has_rank() || shape.rank() == 0) continue;
      return absl::InvalidArgumentError("Each element of `output_shapes_` must be a scalar.");
    }
    return std::make_unique<Sql>(construction);
  }
  explicit Sql(const KernelConstruction& construction)
      : DatasetKernel(construction), files_(FilesOf(construction)) {}

 private:
  absl::Status Make(KernelContext& context, const Dataset::Signature& signature) override {
    constexpr const char* kNames[] = {"driver_name", "data_source_name", "query"};
    for (int i = 0; i < 3; ++i) {
      if (context.input(i).num_elements() == 1) continue;
      return absl::InvalidArgumentError(absl::StrCat(kNames[i], " must be a scalar"));
    }
    const auto text = [&](int input) { return context.input(input).flat<std::string>()[0]; };
    if (text(0) != "sqlite") {
      return absl::InvalidArgumentError(
          absl::StrCat("The database type, ", text(0),
                       ", is not supported by SqlDataset. The set of supported databases is: {'sqlite'}."));
    }
    return SetDataset<SqlDataset>(context, signature, text(1), text(2), files_);
  }

  const std::shared_ptr<FileSystem> files_;
};

}  // namespace

void RegisterSqlDatasetKernels(DeviceKernels& kernels) { kernels.Add<Sql>("SqlDataset"); }

}  // namespace weir
