// Datasets and calls over rows that would take more memory or time than there is, or have no such element:
// each ends with an error.
#include <unistd.h>

#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "graph/function_bodies.h"
#include "graph/interchange/graph_def.h"
#include "graph/runtime_ops.h"
#include "gtest/gtest.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/record_io.h"
#include "session/test_session.h"

namespace weir {
namespace {

using D = DType;
using ::testing::HasSubstr;

class DatasetBoundsTest : public TestSession {
 protected:
  static Output Const(GraphBuilder& g, Tensor value) {
    const DType dtype = value.dtype();
    return g.AddOp("Const", {}, {{"value", std::move(value)}, {"dtype", dtype}});
  }
  Output Number(int64_t value) { return Const(g_, Tensor::Scalar(value)); }
  Output Text(const std::string& value) { return Const(g_, Tensor::Scalar(value)); }
  static AttrMap Of(DType dtype, PartialShape shape = PartialShape::OfRank(0)) {
    return {{"output_types", std::vector<DType>{dtype}},
            {"output_shapes", std::vector<PartialShape>{std::move(shape)}}};
  }
  Output Range(int64_t stop) {
    return g_.AddOp("RangeDataset", {Number(0), Number(stop), Number(1)}, Of(D::kInt64));
  }
  // A function of `argument`, whose result is the same or, of another type, one.
  std::string Body(DType argument, DType result) {
    GraphBuilder g(runtime_->ops());
    const Output x = g.AddOp("_Arg", {}, {{"T", argument}, {"index", 0}});
    const Output one =
        result == D::kBool ? Const(g, Tensor::Scalar(true)) : Const(g, Tensor::Scalar(int64_t{1}));
    return Returning(g, argument == result ? x : one, result);
  }
  static std::string Returning(GraphBuilder& g, Output result, DType dtype) {
    g.AddNode("_Retval", {result}, {{"T", dtype}, {"index", 0}});
    EXPECT_TRUE(g.ok()) << g.status();
    return GraphDefBytes(g.graph()).value();
  }
  static void AddFunction(const std::string& attr, std::string body, AttrMap* attrs) {
    (*attrs)[attr] = FunctionName{attr};
    (*attrs)[BodyAttr(attr)] = std::move(body);
  }
  // As many as its input, which nobody knows.
  Output Filtered(int64_t stop) {
    AttrMap attrs = Of(D::kInt64);
    attrs["Targuments"] = std::vector<DType>();
    AddFunction("predicate", Body(D::kInt64, D::kBool), &attrs);
    return g_.AddOp("FilterDataset", {Range(stop), std::vector<Output>()}, attrs);
  }
  absl::Status ErrorOf(Output output) { return session().Run({}, {output}).status(); }
  // The numbers of a TensorDataset, all of whose elements share one buffer, again and again.
  Output Same(const Tensor& value, int64_t count) {
    const Output one = g_.AddOp("TensorDataset", {std::vector<Output>{Const(g_, value)}},
                                {{"Toutput_types", std::vector<DType>{value.dtype()}},
                                 {"output_shapes", std::vector<PartialShape>{PartialShape(value.shape())}}});
    const AttrMap attrs = Of(value.dtype(), PartialShape(value.shape()));
    const Output endless = g_.AddOp("RepeatDataset", {one, Number(-1)}, attrs);
    return g_.AddOp("TakeDataset", {endless, Number(count)}, attrs);
  }
  Output FirstOf(Output dataset, DType dtype, const PartialShape& shape) {
    const AttrMap attrs = Of(dtype, shape);
    return g_.AddOp("DatasetToSingleElement", {g_.AddOp("TakeDataset", {dataset, Number(1)}, attrs)}, attrs);
  }
  // Each of them needs more than 4 MiB.
  void ExpectExhausted(const std::vector<Output>& fetches, const std::vector<Node*>& targets = {}) {
    RuntimeOptions options;
    options.memory_limit = 4 << 20;
    const std::unique_ptr<Runtime> small = Runtime::Create(options).value();
    LocalWorker worker(*small, small->task());
    ASSERT_TRUE(g_.ok()) << g_.status();
    const auto limited = Session::Create(g_.graph(), {&worker}, small->kernels()).value();
    for (const Output& fetch : fetches) {
      const absl::Status status = limited->Run({}, {fetch}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << fetch.name() << ": " << status;
    }
    for (Node* const target : targets) {
      const absl::Status status = limited->Run({}, {}, {target}).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << target->name() << ": " << status;
    }
  }
};

// Their rows were cut out before the first call.
TEST_F(DatasetBoundsTest, RowsOfNothingAreNotCutOutAllAtOnce) {
  AttrMap attrs = Of(D::kInt64);
  attrs["Targuments"] = std::vector<DType>{D::kFloat32};
  attrs["Tcaptured"] = std::vector<DType>();
  AddFunction("f", Body(D::kFloat32, D::kInt64), &attrs);
  std::vector<Output> mapped;
  for (const int bits : {40, 62}) {
    const Output rows = Const(g_, Tensor(D::kFloat32, Shape({int64_t{1} << bits, 0})));
    mapped.push_back(g_.AddOp("MapDefun", {std::vector<Output>{rows}, std::vector<Output>()}, attrs));
  }
  for (const Output& output : mapped) {
    const absl::Status status = ErrorOf(output);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }
}

// Copies of all rows were there before the first call: here they are four times the memory of the device.
TEST_F(DatasetBoundsTest, RowsAreCutOutWhenTheirCallsBegin) {
  constexpr int64_t kRow = int64_t{1} << 20;
  RuntimeOptions options;
  options.memory_limit = 16 * kRow;
  const std::unique_ptr<Runtime> small = Runtime::Create(options).value();
  LocalWorker worker(*small, small->task());
  AttrMap attrs = Of(D::kInt64);
  attrs["Targuments"] = std::vector<DType>{D::kInt8};
  attrs["Tcaptured"] = std::vector<DType>();
  attrs["max_intra_op_parallelism"] = int64_t{1};
  AddFunction("f", Body(D::kInt8, D::kInt64), &attrs);
  const Output rows = Const(g_, Tensor(D::kInt8, Shape({64, kRow})));
  const Output mapped = g_.AddOp("MapDefun", {std::vector<Output>{rows}, std::vector<Output>()}, attrs);
  ASSERT_TRUE(g_.ok()) << g_.status();
  const auto limited = Session::Create(g_.graph(), {&worker}, small->kernels()).value();
  const auto result = limited->Run({}, {mapped});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].shape(), Shape({64}));
}

// Each element was some hundred bytes that nothing counted, though all of them share one buffer.
TEST_F(DatasetBoundsTest, ElementsThatDatasetsHoldCountOnTheDevice) {
  const auto stage = [&](const char* op, Output input, const std::vector<Output>& arguments) {
    std::vector<InputArg> inputs = {input};
    inputs.insert(inputs.end(), arguments.begin(), arguments.end());
    return g_.AddOp(op, inputs, Of(D::kInt64));
  };
  const int64_t many = 1'000'000;
  const Output all = Same(Tensor::Scalar(int64_t{1}), 2 * many);
  const auto first_of = [&](Output dataset) { return FirstOf(dataset, D::kInt64, PartialShape::OfRank(0)); };
  const Output cache = stage("CacheDataset", all, {Text("")});
  const Output window =
      g_.AddOp("WindowDataset", {all, Number(many), Number(1), Number(1), Const(g_, Tensor::Scalar(true))},
               Of(D::kVariant));
  const Output endless = stage("RepeatDataset", all, {Number(-1)});
  ExpectExhausted({
      first_of(stage("SkipDataset", cache, {Number(many)})),
      first_of(stage("ShuffleDataset", all, {Number(many), Number(1), Number(2)})),
      g_.AddOp("DatasetToSingleElement", {g_.AddOp("TakeDataset", {window, Number(1)}, Of(D::kVariant))},
               Of(D::kVariant)),
      g_.AddOp("GetElementAtIndex", {stage("CacheDataset", endless, {Text("")}), Number(many)},
               Of(D::kInt64)),
      first_of(stage("SkipDataset", stage("UniqueDataset", Range(many), {}), {Number(many / 2)})),
  });
}

// Batches that would be of any number of elements.
TEST_F(DatasetBoundsTest, ElementsOfBatchesCountOnTheDevice) {
  const int64_t many = 1'000'000, some = 50'000;
  const Output no_remainder = Const(g_, Tensor::Scalar(true));
  const PartialShape rows = PartialShape::FromDims({-1}).value();
  AttrMap mapping = Of(D::kInt64, rows);
  mapping["Targuments"] = std::vector<DType>();
  AddFunction("f", Body(D::kInt64, D::kInt64), &mapping);
  const Output one_by_one = Same(Tensor::Vector<int64_t>({1}), 2 * many);
  const Output of_nothing = Same(Tensor(D::kInt64, Shape({0})), 2 * many);
  const Output all = Same(Tensor::Scalar(int64_t{1}), 2 * many);
  const Output few = Same(Tensor::Scalar(int64_t{1}), some);
  ExpectExhausted({
      FirstOf(g_.AddOp("BatchDatasetV2", {all, Number(4 * many), no_remainder}, Of(D::kInt64, rows)),
              D::kInt64, rows),
      FirstOf(g_.AddOp("RebatchDatasetV2", {one_by_one, Number(4 * many), no_remainder}, Of(D::kInt64, rows)),
              D::kInt64, rows),
      FirstOf(g_.AddOp("SlidingWindowDataset", {all, Number(4 * many), Number(1), Number(1)},
                       Of(D::kInt64, rows)),
              D::kInt64, rows),
      FirstOf(
          g_.AddOp("DenseToSparseBatchDataset",
                   {of_nothing, Number(4 * many), Const(g_, Tensor::Vector<int64_t>({0}))}, Of(D::kVariant)),
          D::kVariant, PartialShape()),
      FirstOf(g_.AddOp("MapAndBatchDataset",
                       {few, std::vector<Output>(), Number(2 * some), Number(2), no_remainder}, mapping),
              D::kInt64, rows),
  });
}

// Each window has an object of its own for an element that it shares with others.
TEST_F(DatasetBoundsTest, ElementsOfWindowsCountOnTheDevice) {
  const int64_t size = 1'000;
  const Output windows = g_.AddOp("WindowDataset",
                                  {Same(Tensor::Scalar(int64_t{1}), 2 * size), Number(size), Number(1),
                                   Number(1), Const(g_, Tensor::Scalar(true))},
                                  Of(D::kVariant));
  const Output shuffled =
      g_.AddOp("ShuffleDataset", {windows, Number(size), Number(1), Number(2)}, Of(D::kVariant));
  ExpectExhausted({FirstOf(shuffled, D::kVariant, PartialShape::OfRank(0))});
}

// Each key had some hundred bytes that nothing counted.
TEST_F(DatasetBoundsTest, WhatIsKeptOfKeysCountsOnTheDevice) {
  const int64_t many = 50'000;
  GraphBuilder one(runtime_->ops()), second(runtime_->ops()), first(runtime_->ops());
  one.AddOp("_Arg", {}, {{"T", D::kInt64}, {"index", 0}});
  const std::string gives_one = Returning(one, Const(one, Tensor::Scalar(int64_t{1})), D::kInt64);
  first.AddOp("_Arg", {}, {{"T", D::kInt64}, {"index", 1}});
  const std::string gives_first =
      Returning(first, first.AddOp("_Arg", {}, {{"T", D::kInt64}, {"index", 0}}), D::kInt64);
  second.AddOp("_Arg", {}, {{"T", D::kInt64}, {"index", 0}});
  const std::string gives_second =
      Returning(second, second.AddOp("_Arg", {}, {{"T", D::kVariant}, {"index", 1}}), D::kVariant);
  AttrMap reducing = Of(D::kInt64), grouping = Of(D::kInt64);
  for (const char* function : {"key_func", "init_func", "reduce_func", "finalize_func"}) {
    reducing[absl::StrCat("T", function, "_other_arguments")] = std::vector<DType>();
  }
  for (const char* function : {"key_func", "reduce_func", "window_size_func"}) {
    grouping[absl::StrCat("T", function, "_other_arguments")] = std::vector<DType>();
  }
  AddFunction("key_func", Body(D::kInt64, D::kInt64), &reducing);
  AddFunction("init_func", gives_one, &reducing);
  AddFunction("reduce_func", gives_first, &reducing);
  AddFunction("finalize_func", Body(D::kInt64, D::kInt64), &reducing);
  AddFunction("key_func", Body(D::kInt64, D::kInt64), &grouping);
  AddFunction("reduce_func", gives_second, &grouping);
  AddFunction("window_size_func", gives_one, &grouping);
  const std::vector<Output> nothing;
  const Output reduced =
      g_.AddOp("GroupByReducerDataset", {Range(many), nothing, nothing, nothing, nothing}, reducing);
  const Output grouped = g_.AddOp("GroupByWindowDataset", {Range(many), nothing, nothing, nothing}, grouping);
  const Output behind = g_.AddOp("SkipDataset", {grouped, Number(many - 1)}, Of(D::kInt64));
  ExpectExhausted({FirstOf(reduced, D::kInt64, PartialShape::OfRank(0)),
                   FirstOf(behind, D::kInt64, PartialShape::OfRank(0))});
}

// A table counted its values, of which there may be none.
TEST_F(DatasetBoundsTest, KeysOfTablesCountOnTheDevice) {
  const auto filled = [&](const Tensor& keys) {
    const Output table = g_.AddOp("MutableHashTableOfTensorsV2", {},
                                  {{"container", std::string()},
                                   {"shared_name", absl::StrCat("table of ", DTypeName(keys.dtype()))},
                                   {"key_dtype", keys.dtype()},
                                   {"value_dtype", D::kInt64},
                                   {"value_shape", PartialShape({0})}});
    const Output values = Const(g_, Tensor(D::kInt64, Shape({keys.num_elements(), 0})));
    return g_.AddNode("LookupTableInsertV2", {table, Const(g_, keys), values});
  };
  Tensor numbers(D::kInt64, Shape({200'000}));
  std::iota(numbers.flat<int64_t>().begin(), numbers.flat<int64_t>().end(), 0);
  Tensor texts(D::kString, Shape({20}));
  for (int i = 0; i < 20; ++i) texts.flat<std::string>()[i] = std::string((1 << 20) + i, 'x');
  ExpectExhausted({}, {filled(numbers), filled(texts)});
}

// It took all that was left of the device, though it was refused.
TEST_F(DatasetBoundsTest, AKeyThatIsRefusedTakesNothing) {
  RuntimeOptions options;
  options.memory_limit = 4 << 20;
  const std::unique_ptr<Runtime> small = Runtime::Create(options).value();
  LocalWorker worker(*small, small->task());
  const Output table = g_.AddOp("MutableHashTableOfTensorsV2", {},
                                {{"shared_name", "refused"},
                                 {"key_dtype", D::kString},
                                 {"value_dtype", D::kInt64},
                                 {"value_shape", PartialShape({0})}});
  Tensor key(D::kString, Shape({1}));
  key.flat<std::string>()[0] = std::string(8 << 20, 'x');
  Node* const insert =
      g_.AddNode("LookupTableInsertV2", {table, Const(g_, key), Const(g_, Tensor(D::kInt64, Shape({1, 0})))});
  const Output large =
      g_.AddOp("Fill", {Const(g_, Tensor::Vector<int32_t>({1 << 20})), Const(g_, Tensor::Scalar<int8_t>(1))});
  ASSERT_TRUE(g_.ok()) << g_.status();
  const auto limited = Session::Create(g_.graph(), {&worker}, small->kernels()).value();
  EXPECT_EQ(limited->Run({}, {}, {insert}).status().code(), absl::StatusCode::kResourceExhausted);
  const auto values = limited->Run({}, {large});
  EXPECT_TRUE(values.ok()) << values.status();
}

// Records without characters took any memory: they were nothing in a buffer that is full with so many bytes.
TEST_F(DatasetBoundsTest, RecordsOfNothingFillTheBufferOfRecordInput) {
  const std::string path = absl::StrCat(testing::TempDir(), "/nothing");
  auto writer = RecordWriter::Create(path, Compression::kGzip).value();
  for (int i = 0; i < 1 << 16; ++i) ASSERT_TRUE(writer->Write("").ok());
  ASSERT_TRUE(writer->Close().ok());
  const std::string member = ReadWholeFile(PosixFileSystem(), path).value();
  std::ofstream file(path, std::ios::binary);
  for (int i = 0; i < 130; ++i) file << member;
  file << member.substr(0, member.size() / 2);  // an error, for who reads to the end
  file.close();
  const Output records = g_.AddOp("RecordInput", {},
                                  {{"file_pattern", path},
                                   {"file_buffer_size", int64_t{1} << 40},
                                   {"file_parallelism", int64_t{1}},
                                   {"batch_size", int64_t{1}},
                                   {"compression_type", "GZIP"}});
  const absl::Status status = ErrorOf(records);
  EXPECT_TRUE(status.ok()) << status;
}

// A pattern may be asked for as often as one likes: each time all that it matches came once more.
TEST_F(DatasetBoundsTest, PathsThatMatchVeryOftenAreRefused) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/", std::string(200, 'd'));
  ASSERT_TRUE(PosixFileSystem().CreateDirectories(folder).ok());
  constexpr int kFiles = 2000, kTimes = 1000;
  for (int i = 0; i < kFiles; ++i) std::ofstream(absl::StrCat(folder, "/", i));
  const Tensor patterns =
      Tensor::FromSpan<std::string>(Shape({kTimes}), std::vector<std::string>(kTimes, folder + "/*"));
  const absl::Status status = ErrorOf(g_.AddOp("MatchingFiles", {Const(g_, patterns)}, {}));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("take more than the"));
}

// It was called damaged (DataLoss), and the limit of the device was not asked.
TEST_F(DatasetBoundsTest, AFileThatIsTooLongForOneValueIsRefused) {
  const std::string path = absl::StrCat(testing::TempDir(), "/long");
  std::ofstream(path, std::ios::binary) << "x";
  ASSERT_EQ(truncate(path.c_str(), (int64_t{1} << 30) + 1), 0);
  const absl::Status status = ErrorOf(g_.AddOp("ReadFile", {Text(path)}, {}));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("1073741825 bytes"));
}

// A prefetch of ragged tensors counted their handles.
TEST_F(DatasetBoundsTest, ARaggedTensorCountsWithItsValues) {
  const Output splits = Const(g_, Tensor::Vector<int64_t>({0, 1000}));
  const Output values = Const(g_, Tensor(D::kFloat32, Shape({1000})));
  const auto held = session().Run(
      {},
      {g_.AddOp("RaggedTensorToVariant", {std::vector<Output>{splits}, values}, {{"batched_input", false}})});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_GE(NumBytes(Element{(*held)[0]}), 4000);
}

// The number of elements is what somebody asserted, and the datasets below cannot say which one is asked for.
TEST_F(DatasetBoundsTest, AnElementOfAnUnknownNumberIsRefusedByWhoeverPassesItOn) {
  const PartialShape rows = PartialShape::FromDims({-1}).value();
  const auto first_of = [&](Output dataset, PartialShape shape) {
    const Output asserted = g_.AddOp("AssertCardinalityDataset", {dataset, Number(5)}, Of(D::kInt64, shape));
    return g_.AddOp("GetElementAtIndex", {asserted, Number(0)}, Of(D::kInt64, shape));
  };
  const AttrMap one = Of(D::kInt64);
  const std::vector<Output> firsts = {
      first_of(g_.AddOp("BatchDataset", {Filtered(10), Number(2)}, Of(D::kInt64, rows)), rows),
      first_of(g_.AddOp("ConcatenateDataset", {Filtered(2), Range(9)}, one), PartialShape::OfRank(0)),
      first_of(g_.AddOp("SkipDataset", {Filtered(9), Number(INT64_MAX)}, one), PartialShape::OfRank(0)),
      first_of(g_.AddOp("ShardDataset", {Filtered(9), Number(3), Number(1)}, one), PartialShape::OfRank(0)),
  };
  for (const Output& first : firsts) {
    const absl::Status status = ErrorOf(first);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("does not support random access"));
  }
}

// A comma is a byte of the file and an object in memory.
TEST_F(DatasetBoundsTest, ARecordOfVeryManyFieldsIsRefused) {
  const std::string path = absl::StrCat(testing::TempDir(), "/commas.csv");
  std::ofstream(path, std::ios::binary) << std::string((size_t{1} << 28) / sizeof(std::string), ',') << "\n";
  const Output none = Const(g_, Tensor(D::kInt64, Shape({0})));
  const Output no = Const(g_, Tensor::Scalar(false));
  const Output records = g_.AddOp("CSVDataset",
                                  {Text(path), Text(""), Number(1024), no, Text(","), no, Text(""), none,
                                   std::vector<Output>{Const(g_, Tensor::Vector<std::string>({""}))}},
                                  {{"output_types", std::vector<DType>{D::kString}},
                                   {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0)}}});
  const absl::Status status = ErrorOf(g_.AddOp("DatasetToSingleElement", {records}, Of(D::kString)));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("commas.csv has a record of more than"));
}

// Seven, again and again. Its last call waits for a number in the queue "gate".
class LastCallsTest : public DatasetBoundsTest {
 protected:
  static constexpr char kGate[] = "gate";
  const std::vector<DType> numbers_ = {D::kInt64};

  Output Gate(GraphBuilder& g) {
    return g.AddOp("FIFOQueueV2", {}, {{"component_types", numbers_}, {"shared_name", kGate}});
  }
  Output Sevens() {
    AttrMap attrs = Of(D::kInt64);
    GraphBuilder init(runtime_->ops()), finalize(runtime_->ops());
    AddFunction("init_func", Returning(init, Const(init, Tensor::Scalar(int64_t{7})), D::kInt64), &attrs);
    AddFunction("next_func", Body(D::kInt64, D::kInt64), &attrs);
    const Output taken = finalize.AddOp("QueueDequeueV2", {Gate(finalize)}, {{"component_types", numbers_}});
    finalize.AddOp("_Arg", {}, {{"T", D::kInt64}, {"index", 0}});
    AddFunction("finalize_func", Returning(finalize, taken, D::kInt64), &attrs);
    for (const char* attr : {"Tinit_func_args", "Tnext_func_args", "Tfinalize_func_args"}) {
      attrs[attr] = std::vector<DType>();
    }
    const std::vector<Output> nothing;
    return g_.AddOp("GeneratorDataset", {nothing, nothing, nothing}, attrs);
  }
};

// Nobody asks for what the last call gives, and nobody else can end it.
TEST_F(LastCallsTest, OneThatWaitsEndsWithItsWorker) {
  const Output first = g_.AddOp("TakeDataset", {Sevens(), Number(1)}, Of(D::kInt64));
  const Output one = g_.AddOp("DatasetToSingleElement", {first}, Of(D::kInt64));
  const auto result = session().Run({}, {one});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].scalar<int64_t>(), 7);
}

// It may set back what the next pass begins with.
TEST_F(LastCallsTest, ANewPassBeginsWhenThoseOfTheOneBeforeAreOver) {
  AttrMap attrs = Of(D::kInt64);
  attrs["container"] = std::string();
  attrs["shared_name"] = std::string();
  const Output iterator = g_.AddOp("IteratorV2", {}, attrs);
  Node* const make = g_.AddNode("MakeIterator", {Sevens(), iterator});
  const Output next = g_.AddOp("IteratorGetNext", {iterator}, Of(D::kInt64));
  Node* const open = g_.AddNode("QueueEnqueueV2", {Gate(g_), std::vector<Output>{Number(1)}});
  ASSERT_TRUE(session().Run({}, {}, {make}).ok());
  EXPECT_EQ(session().Run({}, {next}).value()[0].scalar<int64_t>(), 7);
  const absl::Status again = session().Run({}, {}, {make}, {.timeout = absl::Milliseconds(50)}).status();
  EXPECT_EQ(again.code(), absl::StatusCode::kDeadlineExceeded) << again;
  ASSERT_TRUE(session().Run({}, {}, {open}).ok());
  EXPECT_EQ(session().Run({}, {next}).value()[0].scalar<int64_t>(), 7);
  ASSERT_TRUE(session().Run({}, {}, {open}).ok());
  const absl::Status last = session().Run({}, {}, {make}).status();
  EXPECT_TRUE(last.ok()) << last;
}

}  // namespace
}  // namespace weir
