// Tables over several steps.
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/lookup/lookup_table.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/formats/file_system.h"
#include "tests/conformance/kernel_under_test.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

Tensor Strings(std::vector<std::string> values) {
  return Tensor::FromSpan<std::string>({static_cast<int64_t>(values.size())}, values);
}
Tensor Longs(std::initializer_list<int64_t> values) { return Tensor::Vector<int64_t>(values); }

// An error of that code whose text contains `text`.
MATCHER_P2(Fails, code, text, "") {
  *result_listener << arg.ToString();
  return arg.code() == code && std::string(arg.message()).find(text) != std::string::npos;
}

class LookupTest : public ::testing::Test {
 protected:
  Tensor Handle(const std::string& op, AttrMap attrs, std::vector<Tensor> inputs = {}) {
    std::vector<DType> types;
    for (const Tensor& input : inputs) types.push_back(input.dtype());
    KernelUnderTest handle(host_, op, types, std::move(attrs));
    return handle.Get(std::move(inputs));
  }
  Tensor Words(const std::string& op = "HashTableV2") {
    return Handle(op, {{"key_dtype", DType::kString}, {"value_dtype", DType::kInt64}});
  }

  absl::StatusOr<std::vector<Tensor>> Run(const std::string& op, std::vector<Tensor> inputs,
                                          AttrMap attrs = {}) {
    std::vector<DType> types;
    for (const Tensor& input : inputs) types.push_back(input.dtype());
    return KernelUnderTest(host_, op, types, std::move(attrs)).Run(std::move(inputs));
  }
  absl::Status Do(const std::string& op, std::vector<Tensor> inputs, AttrMap attrs = {}) {
    return Run(op, std::move(inputs), std::move(attrs)).status();
  }
  Tensor Find(const Tensor& table, Tensor keys, Tensor default_value) {
    auto found = Run("LookupTableFindV2", {table, std::move(keys), std::move(default_value)});
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? (*found)[0] : Tensor(DType::kInt64, {0});
  }
  int64_t Size(const Tensor& table) { return Run("LookupTableSizeV2", {table}).value()[0].scalar<int64_t>(); }
  std::vector<Tensor> Export(const Tensor& table, DType key, DType value) {
    return Run("LookupTableExportV2", {table}, {{"Tkeys", key}, {"Tvalues", value}}).value();
  }

  absl::Status InitializeFrom(const Tensor& table, const std::string& content, int64_t key, int64_t value,
                              AttrMap attrs = {}) {
    const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/words.txt";
    EXPECT_TRUE(WriteFileAtomically(PosixFileSystem(), path, content).ok());
    attrs["key_index"] = key;
    attrs["value_index"] = value;
    return Do("InitializeTableFromTextFileV2", {table, Tensor::Scalar(path)}, std::move(attrs));
  }

  TestHost host_{
      [](DeviceKernels& kernels) { RegisterCpuKernels(kernels.registry(), kernels.device_type()); }};
};

TEST_F(LookupTest, AHashTableIsFilledOnceAndRead) {
  const Tensor table = Words();
  const Tensor minus_one = Tensor::Scalar<int64_t>(-1);
  EXPECT_THAT(Do("LookupTableFindV2", {table, Strings({"a"}), minus_one}),
              Fails(Code::kFailedPrecondition, "Table not initialized."));
  EXPECT_EQ(Size(table), 0);
  ASSERT_TRUE(Do("InitializeTableV2", {table, Strings({"a", "b"}), Longs({1, 2})}).ok());
  const Tensor found = Find(table, Tensor::From<std::string>({1, 3}, {"a", "x", "b"}), minus_one);
  EXPECT_EQ(found.shape(), Shape({1, 3}));
  EXPECT_THAT(found.flat<int64_t>(), ElementsAre(1, -1, 2));
  EXPECT_THAT(Find(table, Strings({"y", "b"}), Longs({-7, -8})).flat<int64_t>(), ElementsAre(-7, 2));
  EXPECT_EQ(Size(table), 2);
  const std::vector<Tensor> all = Export(table, DType::kString, DType::kInt64);
  EXPECT_THAT(all[0].flat<std::string>(), ElementsAre("a", "b"));
  EXPECT_THAT(all[1].flat<int64_t>(), ElementsAre(1, 2));
}

TEST_F(LookupTest, AHashTableRefusesWhatTensorFlowsDoes) {
  const Tensor table = Words();
  EXPECT_THAT(Do("InitializeTableV2", {table, Strings({"a", "a"}), Longs({1, 2})}),
              Fails(Code::kFailedPrecondition,
                    "HashTable has different value for same key. Key a has 1 and trying to add value 2"));
  EXPECT_EQ(Size(table), 0);
  EXPECT_THAT(Do("InitializeTableV2", {table, Strings({}), Longs({})}),
              Fails(Code::kInvalidArgument, "keys and values cannot be empty tensors."));
  EXPECT_THAT(Do("InitializeTableV2", {table, Strings({"a"}), Longs({1, 2})}),
              Fails(Code::kInvalidArgument, "Keys and values must have the same size 1 vs 2"));
  EXPECT_THAT(Do("InitializeTableV2", {table, Tensor::Scalar("a"), Tensor::Scalar<int64_t>(1)}),
              Fails(Code::kInvalidArgument, "Keys must be a vector, but received shape[]"));
  ASSERT_TRUE(Do("InitializeTableV2", {table, Strings({"a", "a"}), Longs({1, 1})}).ok());
  EXPECT_TRUE(Do("InitializeTableV2", {table, Strings({"a"}), Longs({1})}).ok());
  EXPECT_THAT(Do("LookupTableImportV2", {table, Strings({"a", "b"}), Longs({1, 2})}),
              Fails(Code::kFailedPrecondition, "Table was already initialized with different data."));
  EXPECT_THAT(Do("LookupTableInsertV2", {table, Strings({"z"}), Longs({1})}),
              Fails(Code::kUnimplemented, "Insert not supported"));
  EXPECT_THAT(Do("LookupTableRemoveV2", {table, Strings({"z"})}),
              Fails(Code::kUnimplemented, "Remove not supported"));
  EXPECT_THAT(Do("LookupTableFindV2", {table, Longs({1}), Tensor::Scalar<int64_t>(1)}),
              Fails(Code::kInvalidArgument,
                    "Signature mismatch, have: resource, int64, int64->int64 expected: resource, string, "
                    "int64->int64"));
  EXPECT_THAT(Do("LookupTableFindV2", {table, Strings({"a", "b"}), Longs({1})}),
              Fails(Code::kInvalidArgument, "Expected shape [] or [2] for default value, got [1]"));
  EXPECT_THAT(Do("LookupTableExportV2", {table}, {{"Tkeys", DType::kString}, {"Tvalues", DType::kFloat32}}),
              Fails(Code::kInvalidArgument, "Tvalues float"));
}

TEST_F(LookupTest, AMutableTableChanges) {
  const Tensor table = Words("MutableHashTableV2");
  const Tensor minus_one = Tensor::Scalar<int64_t>(-1);
  ASSERT_TRUE(Do("LookupTableInsertV2", {table, Strings({"z", "y", "z"}), Longs({1, 2, 3})}).ok());
  EXPECT_THAT(Find(table, Strings({"z", "y", "q"}), minus_one).flat<int64_t>(), ElementsAre(3, 2, -1));
  ASSERT_TRUE(Do("LookupTableRemoveV2", {table, Strings({"z", "nobody"})}).ok());
  EXPECT_EQ(Size(table), 1);
  for (int64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(Do("LookupTableInsertV2", {table, Strings({std::to_string(i)}), Longs({i})}).ok());
  }
  EXPECT_EQ(Size(table), 101);
  EXPECT_THAT(Find(table, Strings({"0", "99", "y"}), minus_one).flat<int64_t>(), ElementsAre(0, 99, 2));
  ASSERT_TRUE(Do("LookupTableImportV2", {table, Strings({"q", "r"}), Longs({9, 8})}).ok());
  const std::vector<Tensor> all = Export(table, DType::kString, DType::kInt64);
  EXPECT_THAT(all[0].flat<std::string>(), ElementsAre("q", "r"));
  EXPECT_THAT(all[1].flat<int64_t>(), ElementsAre(9, 8));
  EXPECT_THAT(Do("LookupTableInsertV2", {table, Strings({"z", "y"}), Longs({1})}),
              Fails(Code::kInvalidArgument, "Expected shape [2] for value, got [1]"));
  EXPECT_THAT(Do("InitializeTableV2", {table, Strings({"z"}), Longs({1})}),
              Fails(Code::kInvalidArgument, "is not initializable"));
}

TEST_F(LookupTest, ValuesMayBeVectors) {
  const Tensor table =
      Handle("MutableHashTableOfTensorsV2",
             {{"key_dtype", DType::kInt64}, {"value_dtype", DType::kString}, {"value_shape", Shape({2})}});
  ASSERT_TRUE(Do("LookupTableInsertV2",
                 {table, Longs({5, 6}), Tensor::From<std::string>({2, 2}, {"a", "b", "c", "d"})})
                  .ok());
  const Tensor found = Find(table, Tensor::From<int64_t>({1, 2}, {6, 7}), Strings({"x", "y"}));
  EXPECT_EQ(found.shape(), Shape({1, 2, 2}));
  EXPECT_THAT(found.flat<std::string>(), ElementsAre("c", "d", "x", "y"));
  EXPECT_EQ(Find(table, Tensor::Scalar<int64_t>(5), Strings({"x", "y"})).shape(), Shape({2}));
  EXPECT_THAT(Do("LookupTableFindV2", {table, Longs({5, 6}), Tensor::Scalar("x")}),
              Fails(Code::kInvalidArgument, "Expected shape [2] or [2,2] for default value, got []"));
  EXPECT_THAT(Do("LookupTableInsertV2", {table, Longs({5, 6}), Strings({"a", "b"})}),
              Fails(Code::kInvalidArgument, "Expected shape [2,2] for value, got [2]"));
  EXPECT_EQ(Export(table, DType::kInt64, DType::kString)[1].shape(), Shape({2, 2}));
}

TEST_F(LookupTest, ADenseTableExportsItsBuckets) {
  const Tensor table =
      Handle("MutableDenseHashTableV2", {{"value_dtype", DType::kInt64}, {"initial_num_buckets", 4}},
             {Tensor::Scalar<int64_t>(0), Tensor::Scalar<int64_t>(-1)});
  ASSERT_TRUE(Do("LookupTableInsertV2", {table, Longs({11, 12, 11}), Longs({1, 2, 3})}).ok());
  EXPECT_THAT(Export(table, DType::kInt64, DType::kInt64)[0].flat<int64_t>(), ElementsAre(11, 12, 0, 0));
  ASSERT_TRUE(Do("LookupTableInsertV2", {table, Longs({13, 14}), Longs({4, 5})}).ok());
  EXPECT_EQ(Export(table, DType::kInt64, DType::kInt64)[0].shape(), Shape({8}));
  ASSERT_TRUE(Do("LookupTableRemoveV2", {table, Longs({12, 99})}).ok());
  EXPECT_EQ(Size(table), 3);
  EXPECT_THAT(Find(table, Longs({11, 12, 14}), Tensor::Scalar<int64_t>(-5)).flat<int64_t>(),
              ElementsAre(3, -5, 5));
  for (const int64_t reserved : {0, -1}) {
    const std::string text = reserved == 0 ? "empty_key" : "deleted_key";
    EXPECT_THAT(Do("LookupTableInsertV2", {table, Longs({reserved}), Longs({1})}),
                Fails(Code::kInvalidArgument, text));
    EXPECT_THAT(Do("LookupTableRemoveV2", {table, Longs({reserved})}), Fails(Code::kInvalidArgument, text));
    EXPECT_THAT(Do("LookupTableFindV2", {table, Longs({reserved}), Tensor::Scalar<int64_t>(1)}),
                Fails(Code::kInvalidArgument, text));
  }
  EXPECT_THAT(Do("LookupTableImportV2", {table, Longs({1, 2, 3}), Longs({1, 2, 3})}),
              Fails(Code::kInvalidArgument, "power of 2, got: 3"));
  ASSERT_TRUE(Do("LookupTableImportV2", {table, Longs({7, 0, -1, 8}), Longs({1, 2, 3, 4})}).ok());
  EXPECT_THAT(Export(table, DType::kInt64, DType::kInt64)[0].flat<int64_t>(), ElementsAre(7, 8, 0, 0));
}

// Each makes room for its own keys: what is exported has a row for every key of both.
TEST(DenseTableTest, InsertsAtTheSameTimeHaveRoom) {
  for (int i = 0; i < 300; ++i) {
    const auto table =
        MutableDenseHashTable::Create(
            {.kind = "MutableDenseHashTableV2", .key_dtype = DType::kInt64, .value_dtype = DType::kInt64},
            Tensor::Scalar<int64_t>(0), Tensor::Scalar<int64_t>(-1), 4, 0.8f, HostAllocator())
            .value();
    std::vector<std::thread> threads;
    for (const int64_t first : {1, 4}) {
      threads.emplace_back([&table, first] {
        const Tensor keys = Longs({first, first + 1, first + 2});
        EXPECT_TRUE(table->Insert(keys, keys, HostAllocator()).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(table->size(), 6);
    ASSERT_GE(table->Export(HostAllocator()).value().first.shape().dim(0), 6);
  }
}

TEST_F(LookupTest, KeysOfADenseTableMayBeVectors) {
  const Tensor table =
      Handle("MutableDenseHashTableV2", {{"value_dtype", DType::kInt64}, {"value_shape", Shape({2})}},
             {Strings({"", ""}), Strings({"-", "-"})});
  const Tensor keys = Tensor::From<std::string>({2, 2}, {"a", "bc", "ab", "c"});
  ASSERT_TRUE(Do("LookupTableInsertV2", {table, keys, Tensor::From<int64_t>({2, 2}, {1, 2, 3, 4})}).ok());
  EXPECT_THAT(Find(table, keys, Longs({0, 0})).flat<int64_t>(), ElementsAre(1, 2, 3, 4));
  const Tensor exported = Export(table, DType::kString, DType::kInt64)[0];
  EXPECT_THAT(exported.flat<std::string>().subspan(0, 6), ElementsAre("a", "bc", "ab", "c", "", ""));
  EXPECT_THAT(
      Do("LookupTableFindV2", {table, Tensor::From<std::string>({1, 3}, {"a", "b", "c"}), Longs({0, 0})}),
      Fails(Code::kInvalidArgument, "Input key shape [1,3] must end with the table's key shape [2]"));
}

TEST_F(LookupTest, ANameIsOfOneTable) {
  AttrMap attrs = {{"key_dtype", DType::kString}, {"value_dtype", DType::kInt64}, {"shared_name", "words"}};
  const Tensor table = Handle("MutableHashTableV2", attrs);
  ASSERT_TRUE(Do("LookupTableInsertV2", {table, Strings({"a"}), Longs({1})}).ok());
  EXPECT_EQ(Size(Handle("MutableHashTableV2", attrs)), 1);
  EXPECT_THAT(Do("HashTableV2", {}, attrs),
              Fails(Code::kInvalidArgument, "'words' is there as a MutableHashTableV2"));
  attrs["value_dtype"] = DType::kFloat32;
  EXPECT_THAT(Do("MutableHashTableV2", {}, attrs), Fails(Code::kInvalidArgument, "to int64[]"));
}

TEST_F(LookupTest, LinesAndColumnsOfFilesAreContent) {
  const Tensor numbers = Words();
  ASSERT_TRUE(InitializeFrom(numbers, "a\nb\r\nc", -2, -1, {{"offset", 5}}).ok());
  EXPECT_THAT(Find(numbers, Strings({"c", "b", "a"}), Tensor::Scalar<int64_t>(-1)).flat<int64_t>(),
              ElementsAre(7, 6, 5));
  const Tensor two = Words();
  ASSERT_TRUE(InitializeFrom(two, "a\nb\nc\n", -2, -1, {{"vocab_size", 2}}).ok());
  EXPECT_EQ(Size(two), 2);
  const Tensor columns = Words();
  ASSERT_TRUE(InitializeFrom(columns, "x a 1\ny b 2\n", 1, 2, {{"delimiter", " "}}).ok());
  EXPECT_THAT(Find(columns, Strings({"b"}), Tensor::Scalar<int64_t>(-1)).flat<int64_t>(), ElementsAre(2));
  std::string long_file;
  for (int i = 0; i < 50'000; ++i) long_file += "word" + std::to_string(i) + "\n";
  const Tensor many = Words();
  ASSERT_TRUE(InitializeFrom(many, long_file, -2, -1).ok());
  EXPECT_THAT(Find(many, Strings({"word49999"}), Tensor::Scalar<int64_t>(-1)).flat<int64_t>(),
              ElementsAre(49999));
}

TEST_F(LookupTest, FilesThatDoNotFitAreRefused) {
  const auto from = [&](const std::string& content, int64_t key, int64_t value, AttrMap attrs = {}) {
    return InitializeFrom(Words(), content, key, value, std::move(attrs));
  };
  EXPECT_THAT(from("a\n", -2, -1, {{"vocab_size", 2}}),
              Fails(Code::kInvalidArgument, "expected 2 but got 1"));
  EXPECT_THAT(from("", -2, -1), Fails(Code::kOutOfRange, "Finished reading 0 of lines"));
  EXPECT_THAT(from("a\n\nb\n", -2, -1), Fails(Code::kInvalidArgument, "empty line found"));
  EXPECT_THAT(from("a\na\n", -2, -1),
              Fails(Code::kFailedPrecondition, "Key a has 0 and trying to add value 1"));
  EXPECT_THAT(from("a 1\n", 0, 2, {{"delimiter", " "}}),
              Fails(Code::kInvalidArgument, "line 0 (a 1) : expected at least 3 got 2"));
  EXPECT_THAT(from("a b\n", 0, 1, {{"delimiter", " "}}),
              Fails(Code::kInvalidArgument, "Field b in line 0 is not a valid int64."));
  EXPECT_THAT(from("a\n", -1, -2),
              Fails(Code::kInvalidArgument, "Key index for line number requires table key dtype of int64"));
  EXPECT_THAT(from(std::string(20 << 20, 'a'), -2, -1),
              Fails(Code::kInvalidArgument, "has a line of more than"));
  EXPECT_THAT(Do("InitializeTableFromTextFileV2", {Words(), Tensor::Scalar("/nowhere/words.txt")},
                 {{"key_index", -2}, {"value_index", -1}}),
              Fails(Code::kNotFound, "/nowhere/words.txt"));
  EXPECT_THAT(Do("InitializeTableFromTextFileV2", {Words(), Strings({"a", "b"})},
                 {{"key_index", -2}, {"value_index", -1}}),
              Fails(Code::kInvalidArgument, "filename should be a single string, but got [2]"));
  EXPECT_THAT(InitializeFrom(Words("MutableHashTableV2"), "a\n", -2, -1),
              Fails(Code::kInvalidArgument, "is not initializable"));
}

// A key that comes twice is compared with what the table has: a value of a thousand numbers was written into
// the place of one.
TEST_F(LookupTest, ADatasetFillsNoTableOfVectorsAndNoneThatChanges) {
  const auto dataset_of = [&](Tensor values) {
    const PartialShape row = PartialShape::FromDims(values.shape().dims().subspan(1)).value();
    KernelUnderTest slices(host_, "TensorSliceDataset", {DType::kInt64, DType::kInt64},
                           {{"Toutput_types", std::vector<DType>{DType::kInt64, DType::kInt64}},
                            {"output_shapes", std::vector<PartialShape>{PartialShape::OfRank(0), row}}},
                           "slices", 0);
    return slices.Get({Longs({1, 1}), std::move(values)});
  };
  Tensor rows(DType::kInt64, Shape({2, 1000}));
  for (int i = 0; i < 2000; ++i) rows.flat<int64_t>()[i] = i / 1000;
  const AttrMap longs = {{"key_dtype", DType::kInt64}, {"value_dtype", DType::kInt64}};
  AttrMap of_vectors = longs;
  of_vectors["value_shape"] = PartialShape({1000});
  const Tensor vectors = Handle("MutableHashTableOfTensorsV2", of_vectors);
  EXPECT_THAT(Do("InitializeTableFromDataset", {vectors, dataset_of(rows)}),
              Fails(Code::kInvalidArgument, "a dataset cannot fill"));
  const Tensor changing = Handle("MutableHashTableV2", longs);
  EXPECT_THAT(Do("InitializeTableFromDataset", {changing, dataset_of(Longs({5, 5}))}),
              Fails(Code::kInvalidArgument, "a dataset cannot fill"));
  const Tensor once = Handle("HashTableV2", longs);
  EXPECT_THAT(Do("InitializeTableFromDataset", {once, dataset_of(Longs({5, 6}))}),
              Fails(Code::kFailedPrecondition, "different value for same key"));
  EXPECT_TRUE(Do("InitializeTableFromDataset", {once, dataset_of(Longs({5, 5}))}).ok());
  EXPECT_EQ(Size(once), 1);
}

}  // namespace
}  // namespace weir
