// Datasets and iterators: what their ops refuse without a dataset. tests/interop and session/datasets_test.cc
// have the rest.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using D = DType;
using Code = absl::StatusCode;
const char kElsewhere[] = "variants: session/datasets_test.cc, tests/interop";
const char kNoDataset[] = "must be a Dataset object, is";

Tensor NoValue() { return Tensor(D::kVariant, Shape()); }
Tensor Number(int64_t value) { return Tensor::Scalar<int64_t>(value); }

AttrMap Numbers(AttrMap more = {}) {
  AttrMap attrs = {{"output_types", std::vector<DType>{D::kInt64}},
                   {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0)}}};
  attrs.insert(more.begin(), more.end());
  return attrs;
}

AttrMap With(const char* function) {
  return Numbers({{function, FunctionName{"f"}}, {"Targuments", std::vector<DType>{}}});
}

// An op that takes no variant in the place of a dataset.
void AddMade(Suite& suite, const char* op, const std::vector<CaseInput>& others, const AttrMap& attrs) {
  std::vector<CaseInput> inputs = {NoValue()};
  inputs.insert(inputs.end(), others.begin(), others.end());
  suite.Op(op).TestedElsewhere(kElsewhere).Hostile(inputs, kNoDataset, attrs);
}

void AddPlain(Suite& suite) {
  const CaseInput one = Number(1), no = Tensor::Scalar(false);
  for (const char* op : {"RepeatDataset", "TakeDataset", "SkipDataset", "PrefetchDataset", "BatchDataset"}) {
    AddMade(suite, op, {one}, Numbers());
  }
  for (const char* op : {"UnbatchDataset", "ModelDataset", "FinalizeDataset", "NonSerializableDataset",
                         "ExperimentalNonSerializableDataset"}) {
    AddMade(suite, op, {}, Numbers());
  }
  for (const char* op :
       {"RebatchDataset", "ExperimentalRebatchDataset", "SleepDataset", "ExperimentalSleepDataset"}) {
    AddMade(suite, op, {one}, Numbers());
  }
  AddMade(suite, "RebatchDatasetV2", {one, no}, Numbers());
  for (const char* op : {"AutoShardDataset", "ExperimentalAutoShardDataset"}) {
    AddMade(suite, op, {one, Number(0)}, Numbers());
  }
  AddMade(suite, "ParseExampleDatasetV2", {one, std::vector<Tensor>{}},
          Numbers({{"sparse_keys", std::vector<std::string>{}},
                   {"dense_keys", std::vector<std::string>{}},
                   {"sparse_types", std::vector<D>{}},
                   {"Tdense", std::vector<D>{}},
                   {"dense_shapes", std::vector<PartialShape>{}}}));
  suite.Op("CompressElement").TestedElsewhere(kElsewhere).CannotFail();
  suite.Op("UncompressElement")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue()}, "must be one CompressedElement, is", Numbers());
  for (const char* op : {"DenseToSparseBatchDataset", "ExperimentalDenseToSparseBatchDataset"}) {
    AddMade(suite, op, {one, Tensor::Vector<int64_t>({2})}, Numbers());
  }
  AddMade(suite, "ShuffleAndRepeatDataset", {one, one, one, one}, Numbers());
  AddMade(suite, "ShuffleAndRepeatDatasetV2", {one, one, one, one, Tensor(D::kResource, Shape())}, Numbers());
  const Tensor names = Tensor::Vector<std::string>({"Map"});
  for (const char* op : {"AssertNextDataset", "ExperimentalAssertNextDataset", "AssertPrevDataset"}) {
    AddMade(suite, op, {names}, Numbers());
  }
  for (const char* op : {"DatasetToGraph", "DatasetToGraphV2", "DatasetFingerprint", "ComputeBatchSize"}) {
    AddMade(suite, op, {}, {});
  }
  suite.Op("DatasetFromGraph")
      .TestedElsewhere(kElsewhere)
      .Hostile({names}, "graph_def must be a scalar")
      .Hostile({Tensor::Scalar("no graph")}, "does not parse");
  AddMade(suite, "GetOptions", {}, {});
  AddMade(suite, "WrapDatasetVariant", {}, {});
  suite.Op("UnwrapDatasetVariant")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue()}, "Tensor must be a WrappedDataset variant object.");
  const Tensor text = Tensor::Scalar("");
  for (const char* op : {"DatasetToTFRecord", "ExperimentalDatasetToTFRecord"}) {
    AddMade(suite, op, {text, text}, {});
  }
  AddMade(suite, "OptionsDataset", {}, Numbers({{"serialized_options", ""}}));
  AddMade(suite, "ShardDataset", {one, one}, Numbers());
  AddMade(suite, "ConcatenateDataset", {NoValue()}, Numbers());
  suite.Op("ZipDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({std::vector<Tensor>{NoValue(), NoValue()}}, kNoDataset, Numbers());
  AddMade(suite, "BatchDatasetV2", {one, no}, Numbers());
  AddMade(suite, "ParallelBatchDataset", {one, one, no}, Numbers());
  AddMade(suite, "ShuffleDataset", {one, one, one}, Numbers());
  AddMade(suite, "CacheDataset", {Tensor::Scalar("")}, Numbers());
  AddMade(suite, "RewriteDataset", {Tensor::Scalar("")}, Numbers());
  AddMade(suite, "WindowDataset", {one, one, one, no}, Numbers());
  AddMade(suite, "SlidingWindowDataset", {one, one, one}, Numbers());
  AddMade(suite, "ExperimentalSlidingWindowDataset", {one, one, one}, Numbers());
  AddMade(suite, "UniqueDataset", {}, Numbers());
  suite.Op("UniqueDataset")
      .Hostile({NoValue()}, "single component",
               {{"output_types", std::vector<DType>{D::kInt64, D::kInt64}},
                {"output_shapes", std::vector<PartialShape>{PartialShape(), PartialShape()}}});
  AddMade(suite, "DatasetCardinality", {}, {});
  AddMade(suite, "IgnoreErrorsDataset", {}, Numbers());
  AddMade(suite, "AssertCardinalityDataset", {one}, Numbers());
  AddMade(suite, "DirectedInterleaveDataset", {std::vector<Tensor>{NoValue()}}, Numbers());
  AddMade(suite, "GlobalShuffleDataset", {one, one, Tensor(D::kResource, Shape())}, Numbers());
  AddMade(suite, "GetElementAtIndex", {one}, Numbers());
  AddMade(suite, "DatasetToSingleElement", {}, Numbers());
  suite.Op("PaddedBatchDatasetV2")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue(), one, std::vector<Tensor>{Tensor::Vector<int64_t>({})},
                std::vector<Tensor>{Number(0)}, no},
               kNoDataset, {{"output_shapes", std::vector<PartialShape>{PartialShape()}}});
}

void AddSources(Suite& suite) {
  suite.Op("RangeDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({Number(0), Number(5), Number(0)}, "step must be a non-zero integer", Numbers())
      .Hostile({Number(0), Tensor::Vector<int64_t>({1, 2}), Number(1)}, "stop", Numbers());
  suite.Op("RandomDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({Tensor::Vector<int64_t>({1, 2}), Number(1)}, "seed", Numbers());
  suite.Op("RandomDatasetV2")
      .TestedElsewhere(kElsewhere)
      .Hostile({Tensor::Vector<int64_t>({1, 2}), Number(1), Tensor(D::kResource, Shape())}, "seed",
               Numbers());
  suite.Op("DummySeedGenerator").TestedElsewhere(kElsewhere).CannotFail();
  const AttrMap one_shape = {{"output_shapes", std::vector<PartialShape>{PartialShape()}}};
  suite.Op("TensorDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({std::vector<Tensor>{Floats({2}), Floats({2})}}, "must be the same length", one_shape);
  suite.Op("TensorSliceDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({std::vector<Tensor>{Floats({})}}, "Unexpected scalar input", one_shape)
      .Hostile({std::vector<Tensor>{Floats({2}), Floats({3})}}, "component 1 has 3 rows",
               {{"output_shapes", std::vector<PartialShape>{PartialShape(), PartialShape()}}});
  suite.Op("ListDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({std::vector<Tensor>{Number(1), Number(2), Number(3)}}, "no elements of 2 components",
               {{"output_types", std::vector<DType>{D::kInt64, D::kInt64}},
                {"output_shapes", std::vector<PartialShape>{PartialShape(), PartialShape()}}})
      .Hostile({std::vector<Tensor>{Floats({})}}, "Data type mismatch at component 0", Numbers());
  const Tensor shape = Tensor::Vector<int64_t>({2, 3});
  const auto indices = [](std::initializer_list<int64_t> values) {
    return Tensor::From<int64_t>(Shape({static_cast<int64_t>(values.size()) / 2, 2}), values);
  };
  suite.Op("SparseTensorSliceDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({indices({2, 0}), Floats({1}), shape}, "indices[0,0] = 2 is not in [0, 2)")
      .Hostile({indices({1, 0, 0, 0}), Floats({2}), shape}, "must be ordered", {}, Code::kUnimplemented)
      .Hostile({indices({1, 0}), Floats({2}), shape}, "must match first dimension of values")
      .Hostile({Tensor::Vector<int64_t>({1}), Floats({1}), shape}, "must match first dimension of values");
}

void AddFunctions(Suite& suite) {
  const std::vector<Tensor> none;
  const CaseInput one = Number(1);
  AddMade(suite, "MapDataset", {none}, With("f"));
  AddMade(suite, "ParallelMapDatasetV2", {none, one}, With("f"));
  AddMade(suite, "FilterDataset", {none}, With("predicate"));
  AddMade(suite, "ParallelFilterDataset", {none, one}, With("predicate"));
  AddMade(suite, "TakeWhileDataset", {none}, With("predicate"));
  for (const char* op : {"MapAndBatchDataset", "ExperimentalMapAndBatchDataset"}) {
    AddMade(suite, op, {none, one, one, Tensor::Scalar(false)}, With("f"));
  }
  AddMade(suite, "IndexFlatMapDataset", {none, none, one},
          Numbers({{"map_func", FunctionName{"f"}},
                   {"index_map_func", FunctionName{"f"}},
                   {"Tmap_func_args", std::vector<DType>{}},
                   {"Tindex_map_func_args", std::vector<DType>{}}}));
  const Tensor half = Tensor::Scalar(0.5);
  suite.Op("WeightedFlatMapDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({std::vector<Tensor>{NoValue(), NoValue()}, std::vector<Tensor>{half, half}}, kNoDataset,
               Numbers())
      .Hostile({std::vector<Tensor>{NoValue(), NoValue()}, std::vector<Tensor>{half, half, half}},
               "Got 2 datasets and 3 weights", Numbers());
  const AttrMap rows = {{"f", FunctionName{"f"}},
                        {"Targuments", std::vector<DType>{D::kInt64}},
                        {"Tcaptured", std::vector<DType>{}},
                        {"output_types", std::vector<DType>{D::kInt64}},
                        {"output_shapes", std::vector<PartialShape>{PartialShape()}}};
  suite.Op("MapDefun")
      .TestedElsewhere(kElsewhere)
      .Hostile({std::vector<Tensor>{Number(1)}, none}, "rank", rows)
      .Hostile({std::vector<Tensor>{Tensor::Vector<int64_t>({1})}, none}, "is not defined", rows);
  AddMade(suite, "FlatMapDataset", {none}, With("f"));
  AddMade(suite, "InterleaveDataset", {none, one, one}, With("f"));
  AddMade(suite, "ParallelInterleaveDatasetV4", {none, one, one, one, one, one}, With("f"));
  AddMade(suite, "LegacyParallelInterleaveDatasetV2", {none, one, one, one, one}, With("f"));
  for (const char* op : {"ScanDataset", "ReduceDataset"}) {
    AddMade(suite, op, {std::vector<Tensor>{Number(0)}, none}, With("f"));
  }
  const std::vector<DType> no_types;
  AddMade(suite, "GroupByWindowDataset", {none, none, none},
          Numbers({{"key_func", FunctionName{"f"}},
                   {"reduce_func", FunctionName{"f"}},
                   {"window_size_func", FunctionName{"f"}},
                   {"Tkey_func_other_arguments", no_types},
                   {"Treduce_func_other_arguments", no_types},
                   {"Twindow_size_func_other_arguments", no_types}}));
  for (const char* op : {"GroupByReducerDataset", "ExperimentalGroupByReducerDataset"}) {
    AddMade(suite, op, {none, none, none, none},
            Numbers({{"key_func", FunctionName{"f"}},
                     {"init_func", FunctionName{"f"}},
                     {"reduce_func", FunctionName{"f"}},
                     {"finalize_func", FunctionName{"f"}},
                     {"Tkey_func_other_arguments", no_types},
                     {"Tinit_func_other_arguments", no_types},
                     {"Treduce_func_other_arguments", no_types},
                     {"Tfinalize_func_other_arguments", no_types}}));
  }
  suite.Op("GeneratorDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({none, none, none}, "is not defined",
               Numbers({{"init_func", FunctionName{"f"}},
                        {"next_func", FunctionName{"f"}},
                        {"finalize_func", FunctionName{"f"}},
                        {"Tinit_func_args", no_types},
                        {"Tnext_func_args", no_types},
                        {"Tfinalize_func_args", no_types}}));
}

void AddFiles(Suite& suite) {
  const Tensor name = Tensor::Scalar("x");
  for (const char* op : {"TFRecordDataset", "TextLineDataset"}) {
    suite.Op(op)
        .TestedElsewhere("files: kernels/cpu/data/record_files_test.cc, tests/interop")
        .Hostile({name, Tensor::Scalar("LZMA"), Number(0)}, "Unsupported compression_type: LZMA.")
        .Hostile({name, Tensor::Scalar(""), Number(-2)}, "must be >= -1");
  }
  const Tensor none = Tensor::Scalar("");
  suite.Op("FixedLengthRecordDatasetV2")
      .TestedElsewhere("files: kernels/cpu/data/record_files_test.cc, tests/interop")
      .Hostile({name, Number(-1), Number(1), Number(0), Number(0), none}, "`header_bytes` must be >= 0")
      .Hostile({name, Number(0), Number(0), Number(0), Number(0), none}, "`record_bytes` must be > 0")
      .Hostile({name, Number(0), Number(1), Number(-1), Number(0), none}, "`footer_bytes` must be >= 0")
      .Hostile({name, Number(0), Number(kLongest), Number(0), Number(0), none}, "must be at most");
  const auto sql = [](DType type, PartialShape shape) {
    return AttrMap{{"output_types", std::vector<DType>{type}},
                   {"output_shapes", std::vector<PartialShape>{std::move(shape)}}};
  };
  const Tensor sqlite = Tensor::Scalar("sqlite");
  suite.Op("SqlDataset")
      .TestedElsewhere("files: kernels/formats/sqlite_query_test.cc, tests/interop/data_interop_test.py")
      .Hostile({Tensor::Scalar("mysql"), name, name}, "The database type, mysql, is not supported",
               sql(D::kInt32, PartialShape({})))
      .Hostile({sqlite, name, name}, "Each element of `output_types_`", sql(D::kFloat32, PartialShape({})))
      .Hostile({sqlite, name, name}, "Each element of `output_shapes_`", sql(D::kInt32, PartialShape({1})));
}

void AddCsv(Suite& suite) {
  const AttrMap two = {{"output_types", std::vector<DType>{D::kInt64, D::kString}},
                       {"output_shapes", std::vector<PartialShape>(2, PartialShape::OfRank(0))}};
  const Tensor text = Tensor::Scalar(""), yes = Tensor::Scalar(true), comma = Tensor::Scalar(",");
  for (const char* op : {"CSVDataset", "CSVDatasetV2", "ExperimentalCSVDataset"}) {
    const bool has_excluded = op == absl::string_view("CSVDatasetV2");
    const auto inputs = [&](Tensor buffer_size, Tensor delimiter, Tensor selected, Tensor first_default) {
      std::vector<CaseInput> all = {
          text,
          text,
          std::move(buffer_size),
          yes,
          std::move(delimiter),
          yes,
          text,
          std::move(selected),
          std::vector<Tensor>{std::move(first_default), Tensor(D::kString, Shape({0}))}};
      if (has_excluded) all.push_back(Tensor::Vector<int64_t>({1}));
      return all;
    };
    const Tensor none = Tensor(D::kInt64, Shape({0}));
    OpRecord& record = suite.Op(op).TestedElsewhere("files: tests/interop/data_ops_interop_test.py");
    record.Hostile(inputs(Number(0), comma, none, none), "buffer_size should be positive", two)
        .Hostile(inputs(Number(1), text, none, none), "field_delim should be only 1 char", two)
        .Hostile(inputs(Number(1), comma, Number(0), none), "`select_cols` must be a vector", two)
        .Hostile(inputs(Number(1), comma, Tensor::Vector<int64_t>({1, 1}), none), "strictly increasing", two)
        .Hostile(inputs(Number(1), comma, Tensor::Vector<int64_t>({-1, 1}), none), "non-negative", two)
        .Hostile(inputs(Number(1), comma, Tensor::Vector<int64_t>({1}), none), "match output size", two)
        .Hostile(inputs(Number(1), comma, none, Tensor::Vector<int64_t>({1, 2})), "There should only be 1",
                 two);
    if (has_excluded) {
      record.Hostile(inputs(Number(1), comma, Tensor::Vector<int64_t>({0, 1}), none),
                     "Either select_cols or exclude_cols should be empty", two);
    }
  }
}

void AddSaved(Suite& suite) {
  const std::vector<Tensor> none;
  const Tensor path = Tensor::Scalar("/nowhere/at all");
  suite.Op("SaveDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue(), path, none}, kNoDataset,
               {{"shard_func", FunctionName{"f"}}, {"Tshard_func_args", std::vector<DType>{}}});
  const auto attrs = [](const char* compression) {
    return Numbers({{"reader_func", FunctionName{"f"}},
                    {"Treader_func_args", std::vector<DType>{}},
                    {"compression", compression}});
  };
  suite.Op("LoadDataset")
      .TestedElsewhere(kElsewhere)
      .Hostile({path, none}, "Could not find metadata file [/nowhere/at all", attrs(""), Code::kNotFound)
      .Hostile({path, none}, "Unsupported compression_type: SNAPPY.", attrs("SNAPPY"));
  const auto snapshot = [](const char* compression) {
    return Numbers({{"reader_func", FunctionName{"f"}},
                    {"shard_func", FunctionName{"f"}},
                    {"Treader_func_args", std::vector<DType>{}},
                    {"Tshard_func_args", std::vector<DType>{}},
                    {"compression", compression}});
  };
  suite.Op("SnapshotDatasetV2")
      .TestedElsewhere("files: tests/interop/snapshots_interop_test.py")
      .Hostile({NoValue(), path, none, none}, kNoDataset, snapshot(""));
}

void AddPatterns(Suite& suite) {
  for (const char* op : {"MatchingFilesDataset", "ExperimentalMatchingFilesDataset"}) {
    suite.Op(op).TestedElsewhere("files: tests/interop/data_ops_interop_test.py").CannotFail();
  }
}

void AddIterators(Suite& suite) {
  for (const char* op : {"Iterator", "IteratorV2"}) {
    suite.Op(op)
        .TestedElsewhere(kElsewhere)
        .Hostile({}, "must be the same length",
                 {{"output_types", std::vector<DType>{D::kInt64}},
                  {"output_shapes", std::vector<PartialShape>{PartialShape(), PartialShape()}},
                  {"shared_name", ""},
                  {"container", ""}});
  }
  for (const char* op : {"AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3"}) {
    suite.Op(op).TestedElsewhere(kElsewhere).CannotFail();
  }
  suite.Op("OneShotIterator")
      .TestedElsewhere(kElsewhere)
      .Hostile({}, "is not defined", Numbers({{"dataset_factory", FunctionName{"f"}}}));
  suite.Op("MakeIterator").TestedElsewhere(kElsewhere).Hostile({NoValue(), MissingHandle()}, kNoDataset);
  for (const char* op : {"IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional"}) {
    suite.Op(op)
        .TestedElsewhere(kElsewhere)
        .Hostile({HandleOf(Floats({2}))}, "must be a handle of a Iterator", Numbers());
  }
  for (const char* op : {"IteratorToStringHandle", "SerializeIterator"}) {
    suite.Op(op)
        .TestedElsewhere(kElsewhere)
        .Hostile({HandleOf(Floats({2}))}, "must be a handle of a Iterator");
  }
  for (const char* op : {"DeleteIterator", "DeserializeIterator"}) {
    suite.Op(op)
        .TestedElsewhere(kElsewhere)
        .Hostile({HandleOf(Floats({2})), NoValue()}, "must be a handle of a Iterator");
  }
  for (const char* op : {"IteratorFromStringHandle", "IteratorFromStringHandleV2"}) {
    suite.Op(op)
        .TestedElsewhere(kElsewhere)
        .Hostile({Tensor::Scalar("x")}, "Could not parse string_handle")
        .Hostile({Tensor::Scalar("weir.iterator:7")}, "of another session", {}, Code::kNotFound);
  }
}

void AddMultiDeviceIterators(Suite& suite) {
  const AttrMap wrong = {{"devices", std::vector<std::string>{"CPU:0"}},
                         {"output_types", std::vector<DType>{D::kInt64}},
                         {"output_shapes", std::vector<PartialShape>{PartialShape(), PartialShape()}},
                         {"shared_name", ""},
                         {"container", ""}};
  AttrMap many = wrong;
  many["devices"] = std::vector<std::string>(1025, "CPU:0");
  suite.Op("MultiDeviceIterator")
      .TestedElsewhere(kElsewhere)
      .Hostile({}, "must be the same length", wrong)
      .Hostile({}, "an iterator for 1025 devices", many);
  suite.Op("MultiDeviceIteratorInit")
      .TestedElsewhere(kElsewhere)
      .Hostile({NoValue(), MissingHandle(), Number(1)}, kNoDataset);
  suite.Op("MultiDeviceIteratorGetNextFromShard")
      .TestedElsewhere(kElsewhere)
      .Hostile({HandleOf(Floats({2})), Int(0), Number(1)}, "must be a handle of a MultiDeviceIterator",
               Numbers());
  suite.Op("MultiDeviceIteratorToStringHandle")
      .TestedElsewhere(kElsewhere)
      .Hostile({HandleOf(Floats({2}))}, "must be a handle of a MultiDeviceIterator");
  suite.Op("MultiDeviceIteratorFromStringHandle")
      .TestedElsewhere(kElsewhere)
      .Hostile({Tensor::Scalar("x")}, "Could not parse string_handle")
      .Hostile({Tensor::Vector<std::string>({"x"})}, "must be a scalar")
      .Hostile({Tensor::Scalar("weir.multi_device_iterator::x")}, "x", {}, Code::kNotFound);
  suite.Op("RemoteCall")
      .TestedElsewhere("functions: tests/interop/functions_interop_test.py")
      .Hostile({Tensor::Scalar("CPU:0"), std::vector<Tensor>{Number(1)}}, "is not defined",
               {{"f", FunctionName{"f"}}, {"Tout", std::vector<DType>{D::kInt64}}});
}

}  // namespace

void AddDatasetsRecords(Suite& suite) {
  AddSources(suite);
  AddPlain(suite);
  AddFunctions(suite);
  AddFiles(suite);
  AddPatterns(suite);
  AddCsv(suite);
  AddSaved(suite);
  AddIterators(suite);
  AddMultiDeviceIterators(suite);
}

}  // namespace weir::conformance
