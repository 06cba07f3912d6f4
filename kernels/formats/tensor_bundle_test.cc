#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/bundle_writer.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/crc32c.h"
#include "kernels/formats/forwarding_file_system.h"
#include "kernels/formats/full_disk.h"
#include "kernels/formats/memory_files.h"
#include "kernels/formats/sorted_table.h"
#include "kernels/formats/test_files.h"
#include "nlohmann/json.hpp"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// --- sorted table ---

std::vector<SortedTable::Entry> ManyEntries(int count) {
  std::vector<SortedTable::Entry> entries = {{"", "header"}};
  for (int i = 0; i < count; ++i) {
    entries.push_back({absl::StrCat("layer/", 10000 + i), std::string(i % 50, static_cast<char>(i))});
  }
  return entries;
}

std::string TableOf(const std::vector<SortedTable::Entry>& entries, SortedTableBuilder::Options options) {
  SortedTableBuilder builder(options);
  for (const auto& [key, value] : entries) EXPECT_TRUE(builder.Add(key, value).ok());
  return builder.Finish();
}

TEST(SortedTableTest, RoundTripsWithManyBlocks) {
  for (bool use_snappy : {false, true}) {
    for (size_t block_bytes : {1, 300, 1 << 20}) {
      const std::vector<SortedTable::Entry> entries = ManyEntries(1000);
      const auto table = SortedTable::Parse(TableOf(entries, {block_bytes, use_snappy}), "t");
      ASSERT_TRUE(table.ok()) << table.status();
      EXPECT_EQ(table->entries(), entries);
      ASSERT_NE(table->Find("layer/10077"), nullptr);
      EXPECT_EQ(*table->Find("layer/10077"), std::string(27, static_cast<char>(77)));
      EXPECT_EQ(table->Find("layer/1007"), nullptr);
      EXPECT_EQ(table->Find("z"), nullptr);
    }
  }
}

// Snappy makes 3 bytes of 64 at best; real tables may come near that.
TEST(SortedTableTest, HighlyCompressibleBlocksAreRead) {
  for (size_t num_bytes : {100u, 1000u, 60000u, 1000000u}) {
    const std::vector<SortedTable::Entry> entries = {{"", "header"}, {"zeros", std::string(num_bytes, '\0')}};
    const std::string file = TableOf(entries, {.use_snappy = true});
    EXPECT_LT(file.size(), 200 + num_bytes / 8);
    const auto table = SortedTable::Parse(file, "t");
    ASSERT_TRUE(table.ok()) << num_bytes << " bytes in " << file.size() << ": " << table.status();
    EXPECT_EQ(table->entries(), entries);
  }
}

// An entry may take a quarter of a byte there, and more than 64 in memory.
TEST(SortedTableTest, ManyEntriesInASmallFileAreRefused) {
  std::vector<SortedTable::Entry> entries;
  for (int i = 0; i < 1'000'000; ++i) {
    entries.push_back(
        {std::string{static_cast<char>(i >> 16), static_cast<char>(i >> 8 & 255), static_cast<char>(i & 255)},
         ""});
  }
  const std::string file = TableOf(entries, {.block_bytes = 1 << 23, .use_snappy = true});
  EXPECT_LT(file.size(), 1'000'000u);
  const absl::Status status = SortedTable::Parse(file, "t").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("take too much for its size"));
}

TEST(SortedTableTest, KeysMustAscend) {
  SortedTableBuilder builder;
  ASSERT_TRUE(builder.Add("b", "").ok());
  EXPECT_THAT(std::string(builder.Add("b", "").message()), HasSubstr("\"b\" does not come after \"b\""));
  EXPECT_FALSE(builder.Add("a", "").ok());
}

TEST(SortedTableTest, ABlockThatStandsTwiceIsFound) {
  std::string file = TableOf({{"a", "first!"}, {"b", "second"}}, {.block_bytes = 1});
  const size_t block_bytes = file.find("second") - file.find("first!");
  file.replace(block_bytes, block_bytes, file.substr(0, block_bytes));  // with its checksum
  EXPECT_THAT(std::string(SortedTable::Parse(file, "t").status().message()), HasSubstr("out of order"));
}

TEST(SortedTableTest, EveryFlippedBitAndTruncationIsFound) {
  for (bool use_snappy : {false, true}) {
    const std::string file = TableOf(ManyEntries(30), {200, use_snappy});
    ASSERT_TRUE(SortedTable::Parse(file, "t").ok());
    for (size_t i = 0; i < file.size() * 8; ++i) {
      std::string flipped = file;
      flipped[i / 8] ^= 1 << (i % 8);
      EXPECT_EQ(SortedTable::Parse(flipped, "t").status().code(), absl::StatusCode::kDataLoss) << "bit " << i;
    }
    for (size_t length = 0; length < file.size(); ++length) {
      EXPECT_EQ(SortedTable::Parse(absl::string_view(file).substr(0, length), "t").status().code(),
                absl::StatusCode::kDataLoss);
    }
    EXPECT_FALSE(SortedTable::Parse("x" + file, "t").ok());
  }
}

// --- TensorFlow's checkpoints ---

// Compares a tensor with the values that Python read.
template <typename T>
void ExpectValues(const Tensor& tensor, const nlohmann::json& expected, const std::string& name) {
  const absl::Span<const T> values = tensor.flat<T>();
  const nlohmann::json& list = expected.contains("values") ? expected["values"] : expected["first_values"];
  ASSERT_LE(list.size(), values.size());
  for (size_t i = 0; i < list.size(); ++i) {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      EXPECT_EQ(values[i], T(list[i][0], list[i][1])) << name;
    } else if constexpr (std::is_same_v<T, std::string>) {
      EXPECT_EQ(absl::BytesToHexString(values[i]), list[i].get<std::string>()) << name;
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
      EXPECT_EQ(static_cast<float>(values[i]), list[i].get<float>()) << name;
    } else {
      EXPECT_EQ(values[i], list[i].get<T>()) << name;
    }
  }
}

void ExpectTensor(const Tensor& tensor, const nlohmann::json& expected, const std::string& name) {
  ASSERT_EQ(tensor.shape().dims(), expected["shape"].get<std::vector<int64_t>>()) << name;
  ASSERT_EQ(tensor.dtype(), ParseDType(expected["dtype"].get<std::string>())) << name;
  if (IsPlainBytes(tensor.dtype())) {
    EXPECT_EQ(ExtendCrc32c(0, tensor.data(), tensor.num_bytes()), expected["crc32c_of_little_endian_bytes"])
        << name;
  }
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return ExpectValues<float>(tensor, expected, name);
    case DType::kFloat64:
      return ExpectValues<double>(tensor, expected, name);
    case DType::kInt64:
      return ExpectValues<int64_t>(tensor, expected, name);
    case DType::kUint64:
      return ExpectValues<uint64_t>(tensor, expected, name);
    case DType::kBool:
      return ExpectValues<bool>(tensor, expected, name);
    case DType::kHalf:
      return ExpectValues<Half>(tensor, expected, name);
    case DType::kBfloat16:
      return ExpectValues<Bfloat16>(tensor, expected, name);
    case DType::kComplex64:
      return ExpectValues<std::complex<float>>(tensor, expected, name);
    case DType::kComplex128:
      return ExpectValues<std::complex<double>>(tensor, expected, name);
    case DType::kString:
      return ExpectValues<std::string>(tensor, expected, name);
    default:
      return;  // the checksum says it all
  }
}

nlohmann::json ExpectedTensors() { return nlohmann::json::parse(ReadBytes(TestData("tensors.json"))); }

class TensorFlowCheckpointTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TensorFlowCheckpointTest, EveryTensorIsRead) {
  const auto reader = BundleReader::Open(TestData(GetParam()));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const nlohmann::json expected = ExpectedTensors();
  EXPECT_EQ((*reader)->names().size(), expected.size());
  for (const auto& [name, value] : expected.items()) {
    const absl::StatusOr<Tensor> tensor = (*reader)->Read(name);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    ExpectTensor(*tensor, value, name);
  }
  EXPECT_TRUE((*reader)->Verify().ok());
}

TEST_P(TensorFlowCheckpointTest, SlicesAcrossStoredSlices) {
  const auto reader = BundleReader::Open(TestData(GetParam()));
  ASSERT_TRUE(reader.ok()) << reader.status();
  // Stored as columns [0, 3) and [3, 5).
  const auto columns = (*reader)->ReadSlice("by_column", TensorSlice::Parse("1,1:2,3").value());
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ(columns->ToString(), "float[1,3] {1, 4, 4}");
  const auto rows = (*reader)->ReadSlice("f32/matrix", TensorSlice::Parse("1,2:-").value());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->shape(), Shape({2, 4}));
  EXPECT_EQ(rows->flat<float>()[3], 1.0f);
  const auto strings = (*reader)->ReadSlice("str", TensorSlice::Parse("1,1:0,1").value());
  ASSERT_TRUE(strings.ok()) << strings.status();
  EXPECT_THAT(strings->flat<std::string>(), ElementsAre(std::string("\0\xff", 2)));
  EXPECT_FALSE((*reader)->ReadSlice("str", TensorSlice::Parse("1,2:0,1").value()).ok());
}

INSTANTIATE_TEST_SUITE_P(Files, TensorFlowCheckpointTest,
                         ::testing::Values("single/model-42", "sharded/model-42"));

TEST(CheckpointStateTest, ReadsTensorFlowsFile) {
  const auto state = ReadCheckpointState(TestData("single"));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->newest, TestData("single/model-42"));
  EXPECT_THAT(state->all, ElementsAre(TestData("single/old-41"), TestData("single/model-42")));
}

TEST(CheckpointStateTest, RoundTripsAndStaysRelative) {
  const std::string directory = NewTestDirectory();
  EXPECT_EQ(ReadCheckpointState(directory).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteCheckpointState(directory, {directory + "/m-2", {directory + "/m-1", "/else/m-0"}}).ok());
  EXPECT_EQ(ReadBytes(directory + "/checkpoint"),
            "model_checkpoint_path: \"m-2\"\nall_model_checkpoint_paths: \"m-1\"\n"
            "all_model_checkpoint_paths: \"/else/m-0\"\nall_model_checkpoint_paths: \"m-2\"\n");
  const auto state = ReadCheckpointState(directory);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(state->all, ElementsAre(directory + "/m-1", "/else/m-0", directory + "/m-2"));
}

TEST(CheckpointStateTest, MalformedStatesAreErrors) {
  const std::string directory = NewTestDirectory();
  for (const std::string text :
       {"", "model_checkpoint_path: 3", "nonsense", "all_model_checkpoint_paths: \"a\""}) {
    WriteBytes(directory + "/checkpoint", text);
    const absl::Status status = ReadCheckpointState(directory).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(directory + "/checkpoint"));
  }
}

TEST(CheckpointStateTest, HugeStatesAreRefusedInShortMessages) {
  const std::string directory = NewTestDirectory();
  const std::string path = "model_checkpoint_path: \"m\"\n", huge(3 << 20, 'a');
  for (const std::string& text : {absl::StrCat("model_checkpoint_path: \"", huge, "\""),
                                  absl::StrCat(path, "all_model_checkpoint_paths: \"", huge, "\""),
                                  absl::StrCat(path, huge, ": 1"), absl::StrCat(path, huge, huge)}) {
    WriteBytes(directory + "/checkpoint", text);
    const absl::Status status = ReadCheckpointState(directory).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(directory + "/checkpoint"));
    EXPECT_LT(status.message().size(), 1000u);
  }
}

// --- our checkpoints ---

std::vector<std::pair<std::string, Tensor>> SomeTensors() {
  return {{"w", Tensor::From<float>({2, 2}, {1, 2, 3, 4})},
          {"step", Tensor::Scalar<int64_t>(7)},
          {"names", Tensor::Vector<std::string>({"", "ab", std::string(200, 'x')})},
          {"flags", Tensor::Vector<bool>({true, false})},
          {"c", Tensor::Vector<std::complex<double>>({{1, 2}})},
          {"h", Tensor::Vector<Half>({Half(1.5f)})},
          {"none", Tensor(DType::kFloat32, Shape({0, 3}))},
          {"no_names", Tensor(DType::kString, Shape({0}))}};
}

void WriteSome(const std::string& prefix, FileSystem& files = PosixFileSystem()) {
  BundleWriter::Options options;
  options.file_system = &files;
  const auto writer = BundleWriter::Create(prefix, options);
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const auto& [name, tensor] : SomeTensors()) ASSERT_TRUE((*writer)->Add(name, tensor).ok());
  ASSERT_TRUE((*writer)
                  ->AddSlice("parts", Shape({3, 2}), TensorSlice::Parse("0,1:-").value(),
                             Tensor::From<int32_t>({1, 2}, {1, 2}))
                  .ok());
  ASSERT_TRUE((*writer)
                  ->AddSlice("parts", Shape({3, 2}), TensorSlice::Parse("1,2:-").value(),
                             Tensor::From<int32_t>({2, 2}, {3, 4, 5, 6}))
                  .ok());
  ASSERT_TRUE((*writer)->Finish().ok());
}

TEST(TensorBundleTest, RoundTrips) {
  const std::string directory = NewTestDirectory();
  const std::string prefix = directory + "/new/folder/model-7";
  WriteSome(prefix);
  const auto reader = BundleReader::Open(prefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT((*reader)->names(),
              ElementsAre("c", "flags", "h", "names", "no_names", "none", "parts", "step", "w"));
  for (const auto& [name, tensor] : SomeTensors()) {
    const absl::StatusOr<Tensor> back = (*reader)->Read(name);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->ToString(), tensor.ToString());
  }
  EXPECT_EQ((*reader)->Read("parts")->ToString(), "int32[3,2] {1, 2, 3, 4, 5, 6}");
  EXPECT_EQ(PosixFileSystem().ListDirectory(directory + "/new/folder")->size(), 2);

  Tensor w(DType::kFloat32, Shape({2, 2}));
  ASSERT_TRUE((*reader)->ReadInto("w", &w).ok());
  EXPECT_THAT(w.flat<float>(), ElementsAre(1, 2, 3, 4));
  Tensor wrong(DType::kFloat32, Shape({4}));
  EXPECT_THAT(
      std::string((*reader)->ReadInto("w", &wrong).message()),
      HasSubstr("cannot restore 'w': float[4] is wanted, the checkpoint " + prefix + " has float[2,2]"));
  EXPECT_THAT(std::string((*reader)->Read("dense/w").status().message()),
              HasSubstr("has no tensor 'dense/w'; it has 9 tensors, among them w"));
}

TEST(TensorBundleTest, RefusesWhatItCannotHold) {
  const auto writer = BundleWriter::Create(NewTestDirectory() + "/m");
  ASSERT_TRUE(writer.ok());
  BundleWriter& bundle = **writer;
  const Tensor one = Tensor::Vector<float>({1});
  EXPECT_FALSE(bundle.Add("", one).ok());
  EXPECT_FALSE(bundle.Add("r", Tensor(DType::kResource, Shape({}))).ok());
  EXPECT_FALSE(bundle.Add("t", Tensor()).ok());
  ASSERT_TRUE(bundle.Add("w", one).ok());
  EXPECT_FALSE(bundle.Add("w", one).ok());
  EXPECT_FALSE(bundle.AddSlice("w", Shape({2}), TensorSlice::Parse("0,1").value(), one).ok());
  EXPECT_FALSE(bundle.AddSlice("p", Shape({2}), TensorSlice::Parse("2,1").value(), one).ok());
  EXPECT_FALSE(bundle.AddSlice("p", Shape({2}), TensorSlice::Parse("-").value(), one).ok());
  ASSERT_TRUE(bundle.AddSlice("p", Shape({2}), TensorSlice::Parse("0,1").value(), one).ok());
  EXPECT_FALSE(bundle.AddSlice("p", Shape({2}), TensorSlice::Parse("0,1").value(), one).ok());
  EXPECT_FALSE(bundle.AddSlice("p", Shape({3}), TensorSlice::Parse("1,1").value(), one).ok());
  EXPECT_FALSE(
      bundle.AddSlice("p", Shape({2}), TensorSlice::Parse("1,1").value(), Tensor::Vector<int>({1})).ok());
  EXPECT_FALSE(BundleWriter::Create("/tmp/").ok());
}

TEST(TensorBundleTest, AMissingSliceIsFound) {
  const std::string prefix = NewTestDirectory() + "/m";
  const auto writer = BundleWriter::Create(prefix);
  ASSERT_TRUE((*writer)
                  ->AddSlice("p", Shape({2}), TensorSlice::Parse("0,1").value(), Tensor::Vector<float>({1}))
                  .ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto reader = BundleReader::Open(prefix);
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(std::string((*reader)->Read("p").status().message()), HasSubstr("have 1 of 2 elements"));
}

absl::Status OpenAndVerify(const std::string& prefix, FileSystem& files = PosixFileSystem()) {
  const auto reader = BundleReader::Open(prefix, files);
  return reader.ok() ? (*reader)->Verify() : reader.status();
}

const char kData[] = ".data-00000-of-00001";

TEST(TensorBundleTest, EveryFlippedBitIsFound) {
  MemoryFiles files;
  WriteSome("/m", files);
  for (const std::string name : {".index", kData}) {
    const std::string bytes = *ReadWholeFile(files, "/m" + name);
    for (size_t i = 0; i < bytes.size() * 8; ++i) {
      std::string flipped = bytes;
      flipped[i / 8] ^= 1 << (i % 8);
      files.Put("/m" + name, flipped);
      EXPECT_EQ(OpenAndVerify("/m", files).code(), absl::StatusCode::kDataLoss) << name << " bit " << i;
    }
    files.Put("/m" + name, bytes);
  }
  EXPECT_TRUE(OpenAndVerify("/m", files).ok());
}

// As threads do it: in parts of any size, in any order.
void InParts(int64_t count, absl::FunctionRef<void(int64_t, int64_t)> body) {
  std::vector<std::thread> threads;
  for (int64_t begin = 0; begin < count; begin += 3) {
    threads.emplace_back([=] { body(begin, std::min(begin + 3, count)); });
  }
  for (std::thread& thread : threads) thread.join();
}

// A tensor that several threads share, and others.
Tensor LargeTensor() {
  Tensor tensor(DType::kInt32, Shape({5'000'000}));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.flat<int32_t>()[i] = static_cast<int32_t>(i * i);
  return tensor;
}

TEST(TensorBundleTest, ManyAreReadAtOnce) {
  MemoryFiles files;
  BundleWriter::Options options;
  options.file_system = &files;
  const auto writer = BundleWriter::Create("/m", options);
  ASSERT_TRUE((*writer)->Add("large", LargeTensor()).ok());
  for (const auto& [name, tensor] : SomeTensors()) ASSERT_TRUE((*writer)->Add(name, tensor).ok());
  ASSERT_TRUE((*writer)->Finish().ok());

  std::vector<BundleReader::Wanted> wanted = {{"large", absl::nullopt, Tensor()},
                                              {"large", TensorSlice::Parse("4000000,2").value(), Tensor()}};
  for (const auto& [name, tensor] : SomeTensors()) wanted.push_back({name, absl::nullopt, Tensor()});
  auto reader = BundleReader::Open("/m", files).value();
  const absl::Status status = reader->ReadAll(absl::MakeSpan(wanted), InParts);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(std::memcmp(wanted[0].tensor.data(), LargeTensor().data(), LargeTensor().num_bytes()), 0);
  EXPECT_EQ(wanted[1].tensor.ToString(), LargeTensor().Slice(4'000'000, 4'000'002).ToString());
  for (size_t i = 0; i < SomeTensors().size(); ++i) {
    EXPECT_EQ(wanted[i + 2].tensor.ToString(), SomeTensors()[i].second.ToString());
  }

  wanted[3].name = "missing";
  EXPECT_TRUE(absl::IsNotFound(reader->ReadAll(absl::MakeSpan(wanted), InParts)));
  wanted.resize(1);
  const std::string good = *ReadWholeFile(files, std::string("/m") + kData);
  for (const size_t bit : {size_t{0}, size_t{100'000'000}, size_t{159'999'999}}) {
    std::string flipped = good;
    flipped[good.find(std::string(reinterpret_cast<const char*>(LargeTensor().data()), 64)) + bit / 8] ^=
        1 << (bit % 8);
    files.Put(std::string("/m") + kData, flipped);
    reader = BundleReader::Open("/m", files).value();
    const absl::Status damaged = reader->ReadAll(absl::MakeSpan(wanted), InParts);
    EXPECT_TRUE(absl::IsDataLoss(damaged));
    EXPECT_THAT(std::string(damaged.message()), HasSubstr("'large'"));
  }
}

// Part of a tensor, without the rest of it.
TEST(TensorBundleTest, RowsAreReadAlone) {
  const std::string prefix = NewTestDirectory() + "/rows";
  std::vector<float> numbers(300 * 1000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const auto writer = BundleWriter::Create(prefix);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Add("matrix", Tensor::FromSpan<float>(Shape({300, 1000}), numbers)).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto reader = BundleReader::Open(prefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto rows = (*reader)->ReadRows("matrix", 298, 2);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->shape(), Shape({2, 1000}));
  EXPECT_EQ(rows->flat<float>()[0], 298'000);
  EXPECT_EQ(rows->flat<float>()[1999], 299'999);
  EXPECT_FALSE((*reader)->ReadRows("matrix", 299, 2).ok());
  EXPECT_FALSE((*reader)->ReadRows("matrix", -1, 1).ok());

  int num_asked = 0;
  const auto never = [&num_asked] { return ++num_asked < 3 ? absl::OkStatus() : absl::CancelledError("no"); };
  EXPECT_EQ((*reader)->VerifyTensor("matrix", never).code(), absl::StatusCode::kCancelled);
  const auto always = [] { return absl::OkStatus(); };
  EXPECT_TRUE((*reader)->VerifyTensor("matrix", always).ok());

  // A row is read although another one is damaged, which shows that no other one was read.
  std::fstream file(prefix + ".data-00000-of-00001", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100);
  file.put('x');
  file.close();
  EXPECT_TRUE((*reader)->ReadRows("matrix", 298, 2).ok());
  EXPECT_EQ((*reader)->VerifyTensor("matrix", always).code(), absl::StatusCode::kDataLoss);
}

TEST(TensorBundleTest, EveryTruncationIsFound) {
  for (const std::string name : {".index", kData}) {
    MemoryFiles files;
    WriteSome("/m", files);
    const std::string bytes = *ReadWholeFile(files, "/m" + name);
    for (size_t length = 0; length < bytes.size(); ++length) {
      files.Put("/m" + name, bytes.substr(0, length));
      EXPECT_EQ(OpenAndVerify("/m", files).code(), absl::StatusCode::kDataLoss) << name << " " << length;
    }
    ASSERT_TRUE(files.Remove("/m" + name).ok());
    const absl::StatusCode code = OpenAndVerify("/m", files).code();
    EXPECT_EQ(code, name == ".index" ? absl::StatusCode::kNotFound : absl::StatusCode::kDataLoss);
  }
}

TEST(TensorBundleTest, OverlappingSlicesAreFound) {
  MemoryFiles files;
  BundleWriter::Options options;
  options.file_system = &files;
  const auto writer = BundleWriter::Create("/m", options);
  for (const char* slice : {"0,2", "1,2"}) {
    ASSERT_TRUE(
        (*writer)
            ->AddSlice("p", Shape({4}), TensorSlice::Parse(slice).value(), Tensor::Vector<float>({1, 2}))
            .ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto reader = BundleReader::Open("/m", files);
  ASSERT_TRUE(reader.ok());
  EXPECT_THAT(std::string((*reader)->Read("p").status().message()), HasSubstr("slices that overlap: 1,2"));
}

TEST(TensorBundleTest, ABoolThatIsNeitherTrueNorFalseIsFound) {
  MemoryFiles files;
  BundleIndex index;
  BundleEntry& entry = index.entries["flags"];
  const std::string bytes = {1, 2, 0};
  entry.dtype = DType::kBool;
  entry.shape = Shape({3});
  entry.num_bytes = bytes.size();
  entry.masked_crc = MaskCrc32c(Crc32c(bytes));
  files.Put("/m.index", index.Serialize().value());
  files.Put(std::string("/m") + kData, bytes);
  const auto reader = BundleReader::Open("/m", files);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_THAT(std::string((*reader)->Read("flags").status().message()),
              HasSubstr("a bool that is neither 0 nor 1"));
}

// The header is BundleHeaderProto{num_shards: 1, version {producer: 1, min_consumer}}.
TEST(TensorBundleTest, LaterFormatsAreRefused) {
  MemoryFiles files;
  files.Put(std::string("/m") + kData, "");
  for (const char min_consumer : {1, 2}) {
    const std::string header = {0x08, 1, 0x1a, 4, 0x08, 1, 0x10, min_consumer};
    files.Put("/m.index", TableOf({{"", header}}, {}));
    const absl::Status status = BundleReader::Open("/m", files).status();
    EXPECT_EQ(status.ok(), min_consumer == 1) << status;
  }
}

TEST(TensorBundleTest, NoFileHoldsHandles) {
  BundleIndex index;
  BundleEntry& entry = index.entries["r"];
  const std::string bytes(sizeof(ResourceHandle), 'x');
  entry.dtype = DType::kResource;
  entry.shape = Shape({1});
  entry.num_bytes = bytes.size();
  entry.masked_crc = MaskCrc32c(Crc32c(bytes));
  MemoryFiles files;
  files.Put("/m.index", index.Serialize().value());
  files.Put("/m.data-00000-of-00001", bytes);
  const auto reader = BundleReader::Open("/m", files);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->Read("r").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string((*reader)->Read("r").status().message()),
              HasSubstr("DT_RESOURCE, which Weir lacks"));
  Tensor handle(DType::kResource, Shape({1}));
  EXPECT_FALSE((*reader)->ReadInto("r", &handle).ok());
}

TEST(TensorBundleTest, AFullDiskLeavesTheOldCheckpointAndNoFilesBehind) {
  const std::string directory = NewTestDirectory();
  WriteSome(directory + "/m");
  for (int64_t capacity = 0; capacity < 200100; capacity += capacity < 600 ? 50 : 100000) {
    FullDisk disk(capacity);
    BundleWriter::Options options;
    options.file_system = &disk;
    auto writer = BundleWriter::Create(directory + "/m", options);
    ASSERT_TRUE(writer.ok());
    absl::Status status = (*writer)->Add("big", Tensor(DType::kUint8, Shape({200000})));
    if (status.ok()) status = (*writer)->Finish();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << capacity;
    EXPECT_THAT(std::string(status.message()), HasSubstr("No space left on device"));
    writer->reset();
    EXPECT_TRUE(OpenAndVerify(directory + "/m").ok());
    EXPECT_EQ(disk.ListDirectory(directory)->size(), 2);
  }
}

// A process that is stopped, and replaced, in its last call: its successor has saved under the same name by
// then.
TEST(TensorBundleTest, AWriterThatWakesUpRemovesNothingOfALaterOne) {
  class StopsBeforeItRemoves final : public ForwardingFileSystem {
   public:
    StopsBeforeItRemoves() : ForwardingFileSystem(PosixFileSystem()) {}
    absl::Status Remove(const std::string& path) override {
      if (meanwhile) std::exchange(meanwhile, nullptr)();
      return ForwardingFileSystem::Remove(path);
    }
    std::function<void()> meanwhile;
  } stopped;
  const std::string prefix = NewTestDirectory() + "/m";
  const auto save = [&](FileSystem& files, float value) {
    auto writer = BundleWriter::Create(prefix, {.file_system = &files});
    ASSERT_TRUE(writer.ok() && (*writer)->Add("v", Tensor::Scalar(value)).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
  };
  save(stopped, 1.0f);
  bool was_stopped = false;
  stopped.meanwhile = [&] {
    was_stopped = true;
    save(PosixFileSystem(), 3.0f);
  };
  save(stopped, 2.0f);
  ASSERT_TRUE(was_stopped);
  const auto reader = BundleReader::Open(prefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto value = (*reader)->Read("v");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->scalar<float>(), 3.0f);
}

TEST(TensorBundleTest, MergesPartsOfSeveralWriters) {
  const std::string directory = NewTestDirectory();
  for (int part = 0; part < 3; ++part) {
    const auto writer = BundleWriter::Create(absl::StrCat(directory, "/tmp/part", part));
    ASSERT_TRUE((*writer)->Add(absl::StrCat("v", part), Tensor::Scalar<int32_t>(part)).ok());
    ASSERT_TRUE(
        (*writer)
            ->AddSlice("p", Shape({3}), TensorSlice{{{part, 1}}}, Tensor::Vector<int32_t>({10 * part}))
            .ok());
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  const std::vector<std::string> parts = {directory + "/tmp/part0", directory + "/tmp/part1",
                                          directory + "/tmp/part2"};
  ASSERT_TRUE(MergeBundles(parts, directory + "/m").ok());
  EXPECT_EQ(PosixFileSystem().ListDirectory(directory + "/tmp")->size(), 0);
  const auto reader = BundleReader::Open(directory + "/m");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->num_shards(), 3);
  EXPECT_EQ((*reader)->Read("v2")->ToString(), "int32[] {2}");
  EXPECT_EQ((*reader)->Read("p")->ToString(), "int32[3] {0, 10, 20}");
  EXPECT_FALSE(MergeBundles({directory + "/m", directory + "/m"}, directory + "/twice").ok());
}

TEST(TensorSliceTest, TextForms) {
  EXPECT_EQ(TensorSlice::Parse("0,3:-:2,1")->ToString(), "0,3:-:2,1");
  for (const char* text : {"x", "1", "1,", "1,2,3", "-1,2", "1,-2"})
    EXPECT_FALSE(TensorSlice::Parse(text).ok()) << text;
  const auto parsed = ParseShapeAndSlice("7 3 0,4:-");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->full_shape, Shape({7, 3}));
  EXPECT_EQ(parsed->slice.ToString(), "0,4:-");
  EXPECT_FALSE(ParseShapeAndSlice("7 3 0,8:-").ok());
  EXPECT_FALSE(ParseShapeAndSlice("7 a 0,4:-").ok());
}

TEST(TensorSliceTest, OrderedCodeOfLargeExtentsAscends) {
  std::string previous;
  for (int64_t start : {int64_t{0}, int64_t{1}, int64_t{63}, int64_t{64}, int64_t{8191}, int64_t{8192},
                        int64_t{1} << 20, int64_t{1} << 34, int64_t{1} << 41, int64_t{1} << 48,
                        int64_t{1} << 55, (int64_t{1} << 62) - 1, int64_t{1} << 62, INT64_MAX}) {
    const std::string key = TensorSlice{{{start, 1}}}.KeyFor("v");
    EXPECT_LT(previous, key) << start;
    previous = key;
  }
  // Ten bytes: a magnitude of 63 bits does not fit in nine times seven minus the sign.
  EXPECT_EQ(absl::BytesToHexString(TensorSlice{{{INT64_MAX, 5}}}.KeyFor("")),
            "0000010101ffc07fffffffffffffff85");
  EXPECT_EQ(absl::BytesToHexString(TensorSlice{{{0, -1}}}.KeyFor("v")), "007600010101807f");
}

}  // namespace
}  // namespace weir
