#include "kernels/cpu/io/example_parser.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

std::string Shown(absl::string_view bytes) {
  return bytes.size() <= 256 ? std::string(bytes) : absl::StrCat(bytes.substr(0, 256), "...");
}

std::string WhereIs(const ExampleBatch& batch, const std::string& key, int64_t example) {
  if (!batch.is_batch) return absl::StrCat("Key: ", key, ".  ");
  return absl::StrCat(batch.NameOf(example), "Key: ", key, ", Index: ", example, ".  ");
}

// TensorFlow has other words for one example alone.
absl::Status CheckSingle(const std::string& key, const DenseFeature& dense, const Feature& feature) {
  if (dense.is_variable && feature.count > 0 && (dense.stride == 0 || feature.count % dense.stride != 0)) {
    return absl::InvalidArgumentError(absl::StrCat("Error while parsing feature with key ", key,
                                                   ": number of elements should be divisible by ",
                                                   dense.stride, ", found ", feature.count, " instead"));
  }
  if (!dense.is_variable && feature.dtype != DType::kInvalid && feature.count != dense.stride) {
    return absl::InvalidArgumentError(
        absl::StrCat("Key: ", key, ".  Can't parse serialized Example: there are ", feature.count,
                     " values, the shape is ", dense.shape.ToString()));
  }
  return absl::OkStatus();
}

absl::Status CheckPresence(const ExampleBatch& batch, const std::string& key, const DenseFeature& dense,
                           absl::Span<const Feature> features) {
  for (int64_t i = 0; i < batch.size(); ++i) {
    if (features[i].dtype != DType::kInvalid) continue;
    return absl::InvalidArgumentError(absl::StrCat(batch.is_batch ? batch.NameOf(i) : "", "Feature: ", key,
                                                   " (data type: ", DTypeName(dense.dtype),
                                                   ") is required but could not be found."));
  }
  return absl::OkStatus();
}

}  // namespace

ExampleParser::ExampleParser(const KernelConstruction& construction, DTypes ragged)
    : sparse_(construction.attr<DTypes>("sparse_types")),
      dense_types_(construction.attr<DTypes>("Tdense")),
      shapes_(construction.attr<std::vector<PartialShape>>("dense_shapes")),
      ragged_(std::move(ragged)) {}

absl::Status ExampleParser::Parse(KernelContext& context, const ExampleBatch& batch, const Names& keys,
                                  int first_default) const {
  ColumnNames names;
  for (const std::string& key : keys) names.Add(key);
  std::vector<DenseFeature> dense;
  WEIR_RETURN_IF_ERROR(ReadShapes(context, first_default, dense));
  WEIR_ASSIGN_OR_RETURN(auto columns, DeviceArray<Feature>::Allocate(context, names.size(), batch.size()));
  WEIR_RETURN_IF_ERROR(ParseEach(context, batch, [&](int64_t i) {
    const bool is_whole =
        ReadExample(batch.serialized[i], [&](absl::string_view key, absl::string_view message) {
          Feature feature;
          if (!ReadFeature(message, &feature)) return false;
          for (const int column : names.ColumnsOf(key)) columns.row(column)[i] = feature;
          return true;
        });
    if (is_whole) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("Could not parse example input, value: '", Shown(batch.serialized[i]), "'"));
  }));
  for (int i = 0; i < names.size(); ++i) {
    WEIR_RETURN_IF_ERROR(Check(batch, names.name(i), i, columns.row(i)));
  }
  return Write(context, batch, names, dense, first_default, columns);
}

DType ExampleParser::TypeOf(int column) const {
  if (column < first_dense()) return sparse_[column];
  return column < first_ragged() ? dense_types_[column - first_dense()] : ragged_[column - first_ragged()];
}

absl::Status ExampleParser::ReadShapes(const KernelContext& context, int first_default,
                                       std::vector<DenseFeature>& dense) const {
  if (shapes_.size() != num_dense()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Expected len(dense_shapes) == len(dense_keys) but got: ", shapes_.size(), " vs. ", num_dense()));
  }
  for (size_t i = 0; i < num_dense(); ++i) {
    const int index = static_cast<int>(i);
    WEIR_ASSIGN_OR_RETURN(DenseFeature feature, DenseFeature::Create(dense_types_[i], shapes_[i], index));
    WEIR_RETURN_IF_ERROR(feature.CheckDefault(context.input(first_default + index), index));
    dense.push_back(std::move(feature));
  }
  return absl::OkStatus();
}

absl::Status ExampleParser::Check(const ExampleBatch& batch, const std::string& key, int column,
                                  absl::Span<const Feature> features) const {
  const DType wanted = TypeOf(column);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const DType found = features[i].dtype;
    if (found == DType::kInvalid || found == wanted) continue;
    const bool is_dense = column >= first_dense() && column < first_ragged();
    return absl::InvalidArgumentError(absl::StrCat(
        WhereIs(batch, key, i), "Data types don't match. ",
        is_dense ? absl::StrCat("Data type: ", DTypeName(found), " but expected type: ", DTypeName(wanted))
                 : absl::StrCat("Expected type: ", DTypeName(wanted), ", Actual type: ", DTypeName(found))));
  }
  return absl::OkStatus();
}

absl::Status ExampleParser::Write(KernelContext& context, const ExampleBatch& batch, const ColumnNames& names,
                                  const std::vector<DenseFeature>& dense, int first_default,
                                  DeviceArray<Feature>& columns) const {
  const int num_sparse = first_dense(), num_ragged = static_cast<int>(ragged_.size());
  StringBudget strings(context);
  for (int i = 0; i < num_sparse; ++i) {
    WEIR_RETURN_IF_ERROR(WriteSparse(context, strings, columns.row(i), batch.is_batch,
                                     {i, num_sparse + i, 2 * num_sparse + i}));
  }
  int output = 3 * num_sparse;
  for (size_t i = 0; i < dense.size(); ++i) {
    const int column = first_dense() + static_cast<int>(i);
    const Tensor& default_value = context.input(first_default + static_cast<int>(i));
    if (!dense[i].is_variable && default_value.num_elements() == 0) {
      WEIR_RETURN_IF_ERROR(CheckPresence(batch, names.name(column), dense[i], columns.row(column)));
    }
    if (!batch.is_batch) {
      WEIR_RETURN_IF_ERROR(CheckSingle(names.name(column), dense[i], columns.row(column)[0]));
    }
    WEIR_RETURN_IF_ERROR(WriteDense(
        context, strings, columns.row(column), batch.is_batch, dense[i], default_value,
        [&](int64_t example) { return WhereIs(batch, names.name(column), example); }, output++));
  }
  for (int i = 0; i < num_ragged; ++i) {
    WEIR_RETURN_IF_ERROR(WriteRagged(context, strings, columns.row(first_ragged() + i), batch.is_batch,
                                     Shape({0}), output + i, output + num_ragged + i));
  }
  return absl::OkStatus();
}

}  // namespace weir
