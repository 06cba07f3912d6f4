// Tables: what their ops refuse without one. tables_test.cc has the rest.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
using Code = absl::StatusCode;

constexpr char kElsewhere[] = "state: tests/conformance/lookup/tables_test.cc";

void AddHandles(Suite& suite) {
  const AttrMap types = {{"key_dtype", D::kInt64}, {"value_dtype", D::kFloat32}};
  std::vector<DType> no_keys = Join({kReals, kComplexes, {D::kBool, D::kInt8, D::kInt16}});
  no_keys.insert(no_keys.end(), {D::kUint8, D::kUint16, D::kUint32, D::kUint64});
  for (const char* op :
       {"HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2", "MutableDenseHashTableV2"}) {
    suite.Op(op).TestedElsewhere(kElsewhere).NoKernelFor("key_dtype", no_keys, "as in TensorFlow");
  }
  suite.Op("HashTableV2").CannotFail();
  suite.Op("MutableHashTableV2").CannotFail();
  for (const PartialShape& shape : {PartialShape({2, 2}), PartialShape(Shape()), PartialShape()}) {
    AttrMap attrs = types;
    attrs["value_shape"] = shape;
    suite.Op("MutableHashTableOfTensorsV2").Hostile({}, "Default value must be a vector, got shape", attrs);
  }
  const auto dense = [&](Tensor empty, Tensor deleted, AttrMap more, const std::string& error,
                         Code code = Code::kInvalidArgument) {
    more["value_dtype"] = D::kFloat32;
    suite.Op("MutableDenseHashTableV2").Hostile({std::move(empty), std::move(deleted)}, error, more, code);
  };
  dense(Longs({1}), Longs({1}), {}, "Empty and deleted keys cannot be equal");
  dense(Longs({1, 2}), Longs({1}), {},
        "Empty and deleted keys must have same shape, got shapes: [2] and [1]");
  for (const int64_t count : {int64_t{15}, int64_t{-16}, int64_t{1}, int64_t{0}, kShortest, kLongest}) {
    dense(Longs({1}), Longs({2}), {{"initial_num_buckets", count}},
          "Number of buckets must be at least 4 and a power of 2, got: " + std::to_string(count));
  }
  for (const float factor : {1.5F, 1.0F, 0.0F, -1.0F, NAN}) {
    dense(Longs({1}), Longs({2}), {{"max_load_factor", factor}}, "max_load_factor must be between 0 and 1");
  }
  dense(Longs({1}), Longs({2}), {{"value_shape", PartialShape({-1})}}, "value_shape must be fully known");
  dense(Longs({1}), Longs({2}), {{"initial_num_buckets", kWide}}, "", Code::kResourceExhausted);
  dense(Longs({1}), Longs({2}),
        {{"initial_num_buckets", int64_t{1} << 61}, {"value_shape", PartialShape({64})}}, "");
}

void AddHostileHandles(OpRecord& record, std::vector<CaseInput> others, const AttrMap& attrs = {}) {
  const auto inputs = [&others](Tensor handle) {
    std::vector<CaseInput> all = {std::move(handle)};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  };
  record.TestedElsewhere(kElsewhere)
      .Hostile(inputs(MissingHandle()), "weights", attrs)
      .Hostile(inputs(NoHandles()), "must be one resource handle", attrs)
      .Hostile(inputs(HandleOf(Floats({2}))), "must be a handle of a LookupTable", attrs);
}

}  // namespace

void AddTablesRecords(Suite& suite) {
  AddHandles(suite);
  const std::vector<CaseInput> pairs = {Longs({1, 2}), Floats({2})};
  AddHostileHandles(suite.Op("LookupTableFindV2"), {Longs({1, 2}), Floats({})});
  AddHostileHandles(suite.Op("LookupTableInsertV2"), pairs);
  AddHostileHandles(suite.Op("LookupTableImportV2"), pairs);
  AddHostileHandles(suite.Op("InitializeTableV2"), pairs);
  AddHostileHandles(suite.Op("InitializeTableFromDataset"), {Tensor(D::kVariant, Shape())});
  AddHostileHandles(suite.Op("LookupTableRemoveV2"), {Longs({1, 2})});
  AddHostileHandles(suite.Op("LookupTableSizeV2"), {});
  AddHostileHandles(suite.Op("LookupTableExportV2"), {}, {{"Tkeys", D::kInt64}, {"Tvalues", D::kFloat32}});
  const AttrMap columns = {{"key_index", -2}, {"value_index", -1}};
  OpRecord& file = suite.Op("InitializeTableFromTextFileV2");
  AddHostileHandles(file, {Strings({}, {"words.txt"})}, columns);
  for (const char* delimiter : {"", "ab"}) {
    AttrMap attrs = columns;
    attrs["delimiter"] = delimiter;
    file.Hostile({MissingHandle(), Strings({}, {"words.txt"})}, "delimiter should be only 1 char", attrs);
  }
}

}  // namespace weir::conformance
