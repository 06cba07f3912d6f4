// Damaged and hostile files and messages must be errors: never a crash, a hang, or memory beyond what the
// input has.
//
// Checksums would stop most mutations at the door, so files are damaged before their checksums are computed,
// as an attacker would do it. What still reads must be consistent: it is written out again and read back.
#include <cstring>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/text_format.h"
#include "graph/interchange/graph_def.h"
#include "graph/interchange/proto/event.pb.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/saved_model.h"
#include "graph/interchange/tensor_proto.h"
#include "gtest/gtest.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/formats/checkpoint_state.h"
#include "kernels/formats/crc32c.h"
#include "kernels/formats/event_file.h"
#include "kernels/formats/idx.h"
#include "kernels/formats/memory_files.h"
#include "kernels/formats/record_io.h"
#include "kernels/formats/slice_file.h"
#include "kernels/formats/sorted_table.h"
#include "kernels/formats/test_files.h"
#include "ops/register_ops.h"
#include "tests/fuzz/mutator.h"

namespace weir {
namespace {

// Refuses what no input of a test can honestly need, so that a message that asks for gigabytes costs nothing
// here.
class SmallAllocator final : public Allocator {
 public:
  RefPtr<Buffer> Allocate(size_t num_bytes) override {
    return num_bytes > (1 << 20) ? nullptr : HostAllocator().Allocate(num_bytes);
  }
  int64_t num_bytes_in_use() const override { return 0; }
};

class FormatsFuzzTest : public ::testing::Test {
 protected:
  // protobuf complains on stderr about each mutation that is no UTF-8.
  static void SetUpTestSuite() { google::protobuf::SetLogHandler(nullptr); }
};

// --- sorted tables and checkpoints ---

std::string Fixed32(uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); }

std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}

// A table file with these blocks and right checksums, handles and footer, whatever the blocks hold.
std::string SealTable(const std::string& data_block, char compression, const std::string& last_key) {
  std::string file;
  const auto append = [&file](std::string block, char type) {
    const std::string handle = Varint(file.size()) + Varint(block.size());
    block.push_back(type);
    file += block + Fixed32(MaskCrc32c(Crc32c(block)));
    return handle;
  };
  const std::string no_restarts = Fixed32(0) + Fixed32(1);
  const std::string data_handle = append(data_block, compression);
  std::string footer = append(no_restarts, 0);
  const std::string index_entry =
      std::string(1, '\0') + Varint(last_key.size()) + Varint(data_handle.size()) + last_key + data_handle;
  footer += append(index_entry + no_restarts, 0);
  footer.resize(40);
  return file + footer + std::string("\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
}

// The only data block of a small table.
std::string BlockOf(const std::string& file) {
  // Its handle is the first value of the index; blocks begin at 0, and this one ends where the meta block
  // begins.
  uint64_t meta_offset = 0;
  int shift = 0;
  for (const char* byte = file.data() + file.size() - 48;; ++byte, shift += 7) {
    meta_offset |= uint64_t{static_cast<unsigned char>(*byte) & 0x7fu} << shift;
    if ((*byte & 0x80) == 0) break;
  }
  return file.substr(0, meta_offset - 5);
}

std::string SmallTable(bool use_snappy) {
  SortedTableBuilder builder({.block_bytes = 1 << 20, .use_snappy = use_snappy});
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(builder.Add(absl::StrCat("some/name/", 100 + i), std::string(i, 'v')).ok());
  }
  return builder.Finish();
}

TEST_F(FormatsFuzzTest, SortedTable) {
  for (bool use_snappy : {false, true}) {
    const std::string block = BlockOf(SmallTable(use_snappy));
    const std::string last_key = "some/name/999";
    ASSERT_TRUE(SortedTable::Parse(SealTable(block, use_snappy, last_key), "t").ok());
    Mutator mutator({block, block.substr(0, 60)}, 1);
    int num_good = 0;
    for (int round = 0; round < 30000; ++round) {
      SCOPED_TRACE(round);
      const auto table = SortedTable::Parse(SealTable(mutator.Next(), use_snappy, last_key), "t");
      if (!table.ok()) continue;
      ++num_good;
      SortedTableBuilder again;
      for (const auto& [key, value] : table->entries()) ASSERT_TRUE(again.Add(key, value).ok());
      ASSERT_TRUE(SortedTable::Parse(again.Finish(), "t").ok());
    }
    EXPECT_GT(num_good, 0);  // else the mutations never get past the door
  }
}

TEST_F(FormatsFuzzTest, WholeTableFile) {
  Mutator mutator({SmallTable(false), SmallTable(true), ReadBytes(TestData("single/model-42.index"))}, 2);
  for (int round = 0; round < 20000; ++round) {
    SCOPED_TRACE(round);
    BundleIndex::Parse(mutator.Next(), "t").status().IgnoreError();
  }
}

TEST_F(FormatsFuzzTest, Checkpoint) {
  const auto table = SortedTable::Parse(ReadBytes(TestData("single/model-42.index")), "t");
  ASSERT_TRUE(table.ok());
  std::vector<std::string> values;
  for (const auto& [key, value] : table->entries()) values.push_back(value);
  Mutator mutator(values, 3);
  const std::string prefix = "/m";
  MemoryFiles files;
  files.Put(prefix + ".data-00000-of-00001", ReadBytes(TestData("single/model-42.data-00000-of-00001")));
  int num_opened = 0;
  for (int round = 0; round < 4000; ++round) {
    SCOPED_TRACE(round);
    SortedTableBuilder builder;
    const uint64_t victim = mutator.Below(table->entries().size());
    for (size_t i = 0; i < table->entries().size(); ++i) {
      const auto& [key, value] = table->entries()[i];
      ASSERT_TRUE(builder.Add(key, i == victim ? mutator.Next() : value).ok());
    }
    files.Put(prefix + ".index", builder.Finish());
    const auto reader = BundleReader::Open(prefix, files);
    if (!reader.ok()) continue;
    ++num_opened;
    (*reader)->Verify().IgnoreError();
  }
  EXPECT_GT(num_opened, 0);
}

// What still opens can be read, or says why not.
TEST_F(FormatsFuzzTest, CheckpointOfTheFirstFormat) {
  MemoryFiles files;
  const Tensor floats = Tensor::From<float>(Shape({2, 3}), {1, 2, 3, 4, 5, 6});
  TensorSlice half;
  half.extents = {{0, 2}, {1, 2}};
  ASSERT_TRUE(
      WriteSliceFile(
          files, "/m",
          {{"whole", Shape({2, 3}), TensorSlice::WholeOf(Shape({2, 3})), floats},
           {"part", Shape({2, 4}), half, Tensor::From<int64_t>(Shape({2, 2}), {1, 2, 3, 4})},
           {"text", Shape({1}), TensorSlice::WholeOf(Shape({1})), Tensor::Vector<std::string>({"words"})}})
          .ok());
  const auto table = SortedTable::Parse(ReadWholeFile(files, "/m").value(), "t");
  ASSERT_TRUE(table.ok());
  std::vector<std::string> values;
  for (const auto& [key, value] : table->entries()) values.push_back(value);
  Mutator mutator(values, 11);
  SmallAllocator allocator;
  int num_opened = 0, num_read = 0;
  for (int round = 0; round < 8000; ++round) {
    SCOPED_TRACE(round);
    SortedTableBuilder builder;
    const uint64_t victim = mutator.Below(table->entries().size());
    for (size_t i = 0; i < table->entries().size(); ++i) {
      const auto& [key, value] = table->entries()[i];
      ASSERT_TRUE(builder.Add(key, i == victim ? mutator.Next() : value).ok());
    }
    files.Put("/m", builder.Finish());
    const auto reader = SliceFileReader::Open(files, {"/m"});
    if (!reader.ok()) continue;
    ++num_opened;
    for (const char* name : {"whole", "part", "text"}) {
      const SliceFileReader::Entry* const entry = (*reader)->Find(name);
      if (entry == nullptr) continue;
      num_read += (*reader)->Read(name, TensorSlice::WholeOf(entry->shape), allocator).ok();
      num_read += (*reader)->Read(name, half, allocator).ok();
    }
  }
  EXPECT_GT(num_opened, 0);
  EXPECT_GT(num_read, 0);
}

TEST_F(FormatsFuzzTest, CheckpointState) {
  Mutator mutator({ReadBytes(TestData("single/checkpoint")), "model_checkpoint_path: \"a\\001\"\n"}, 4);
  MemoryFiles files;
  for (int round = 0; round < 3000; ++round) {
    files.Put("/checkpoint", mutator.Next());
    ReadCheckpointState("/", files).status().IgnoreError();
  }
}

// --- records and events ---

std::string SealRecord(const std::string& record) {
  const uint64_t length = record.size();
  const std::string header(reinterpret_cast<const char*>(&length), 8);
  return header + Fixed32(MaskCrc32c(Crc32c(header))) + record + Fixed32(MaskCrc32c(Crc32c(record)));
}

TEST_F(FormatsFuzzTest, Records) {
  MemoryFiles files;
  Mutator mutator({ReadBytes(TestData("examples.tfrecord")), ReadBytes(TestData("records_gzip.tfrecord")),
                   ReadBytes(TestData("records_zlib.tfrecord"))},
                  5);
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    files.Put("/r", mutator.Next());
    for (Compression compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
      const auto reader = RecordReader::Open("/r", compression, files);
      ASSERT_TRUE(reader.ok());
      std::string record;
      for (int i = 0; i < 1000; ++i) {
        const absl::StatusOr<bool> found = (*reader)->ReadNext(&record);
        if (!found.ok() || !*found) break;
      }
    }
  }
}

TEST_F(FormatsFuzzTest, Events) {
  std::vector<std::string> records;
  const auto reader = RecordReader::Open(TestData("events.out.tfevents.test"));
  ASSERT_TRUE(reader.ok());
  std::string record;
  while ((*reader)->ReadNext(&record).value()) {
    if (record.size() < 2000) records.push_back(record);
  }
  Mutator mutator(records, 6);
  MemoryFiles files;
  for (int round = 0; round < 5000; ++round) {
    SCOPED_TRACE(round);
    files.Put("/e", SealRecord(mutator.Next()));
    const auto events = EventReader::Open("/e", files);
    ASSERT_TRUE(events.ok());
    tensorflow::Event event;
    (*events)->ReadNext(&event).status().IgnoreError();
  }
}

// --- idx ---

TEST_F(FormatsFuzzTest, Idx) {
  Mutator mutator({std::string("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\3abcdef", 22),
                   std::string("\0\0\x08\x01\0\0\0\3\7\0\xff", 11)},
                  7);
  MemoryFiles files;
  for (int round = 0; round < 5000; ++round) {
    SCOPED_TRACE(round);
    const std::string bytes = mutator.Next();
    files.Put("/i", bytes);
    const absl::StatusOr<Tensor> tensor = ReadIdx("/i", files);
    EXPECT_TRUE(!tensor.ok() || tensor->num_bytes() <= bytes.size());
  }
}

// --- messages ---

std::vector<std::string> SomeTensorProtos() {
  std::vector<std::string> messages;
  for (const Tensor& tensor :
       {Tensor::From<float>({2, 2}, {1, 2, 3, 4}), Tensor::From<int32_t>({3}, {5, 5, 5}),
        Tensor::Vector<std::string>({"a", "", "long text"}), Tensor::Vector<bool>({true, false}),
        Tensor::Scalar<std::complex<float>>({1, 2}), Tensor::Vector<Half>({Half(1.0f), Half(2.0f)}),
        Tensor::Vector<uint64_t>({1, 2}), Tensor::Vector<int8_t>({-1, 2}),
        Tensor(DType::kResource, Shape({2}))}) {
    tensorflow::TensorProto proto;
    EXPECT_TRUE(TensorToProto(tensor, &proto).ok());
    messages.push_back(proto.SerializeAsString());
    EXPECT_TRUE(TensorToAttrProto(tensor, &proto).ok());
    messages.push_back(proto.SerializeAsString());
  }
  return messages;
}

// Strings and handles are objects, which no allocator bounds.
bool AsksForTooMuch(const tensorflow::TensorProto& proto) {
  const absl::StatusOr<Shape> shape = ShapeFromProto(proto.tensor_shape());
  return shape.ok() && shape->num_elements() > (1 << 16);
}

TEST_F(FormatsFuzzTest, TensorProto) {
  Mutator mutator(SomeTensorProtos(), 8);
  SmallAllocator allocator;
  int num_good = 0;
  for (int round = 0; round < 100000; ++round) {
    SCOPED_TRACE(round);
    tensorflow::TensorProto proto;
    if (!proto.ParseFromString(mutator.Next())) continue;
    const bool is_plain = proto.dtype() != tensorflow::DT_STRING && proto.dtype() != tensorflow::DT_RESOURCE;
    if (!is_plain && AsksForTooMuch(proto)) continue;
    const absl::StatusOr<Tensor> tensor = TensorFromProto(proto, allocator);
    if (!tensor.ok()) continue;
    ++num_good;
    for (auto write : {TensorToProto, TensorToAttrProto}) {
      tensorflow::TensorProto again;
      ASSERT_TRUE(write(*tensor, &again).ok());
      const absl::StatusOr<Tensor> back = TensorFromProto(again, allocator);
      ASSERT_TRUE(back.ok()) << back.status();
      ASSERT_EQ(back->ToString(1000), tensor->ToString(1000));
    }
  }
  EXPECT_GT(num_good, 1000);
}

// The node at `position` with all that it needs, if that is only a few nodes.
tensorflow::GraphDef WithInputs(const tensorflow::GraphDef& whole, int position) {
  std::map<std::string, int> positions;
  for (int i = 0; i < whole.node_size(); ++i) positions[whole.node(i).name()] = i;
  std::set<int> wanted = {position};
  std::vector<int> open = {position};
  while (!open.empty()) {
    const int next = open.back();
    open.pop_back();
    for (std::string input : whole.node(next).input()) {
      if (input[0] == '^') input.erase(0, 1);
      const int source = positions.at(input.substr(0, input.find(':')));
      if (wanted.insert(source).second) open.push_back(source);
    }
  }
  tensorflow::GraphDef part;
  for (int i : wanted) {
    if (wanted.size() <= 12) *part.add_node() = whole.node(i);
  }
  return part;
}

// Imports, and what was imported comes back from its export. Returns how many nodes that were.
int ImportAndBack(const tensorflow::GraphDef& def) {
  for (const auto& node : def.node()) {
    for (const auto& [name, attr] : node.attr()) {
      if (AsksForTooMuch(attr.tensor())) return 0;
    }
  }
  std::vector<SkippedNode> skipped;
  Graph graph(StandardOps());
  if (!ImportGraphDef(def, {.skipped = &skipped}, &graph).ok()) {
    EXPECT_EQ(graph.num_nodes(), 0);
    return 0;
  }
  const auto bytes = GraphDefBytes(graph);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  if (!bytes.ok()) return 0;
  // What was left out is in the export, too, and is left out again.
  std::vector<SkippedNode> skipped_again;
  const auto again = GraphFromGraphDefBytes(*bytes, StandardOps(), {.skipped = &skipped_again});
  EXPECT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(!again.ok() || (*again)->num_nodes() == graph.num_nodes());
  return graph.num_nodes();
}

TEST_F(FormatsFuzzTest, GraphDef) {
  tensorflow::GraphDef whole;
  ASSERT_TRUE(whole.ParseFromString(ReadBytes("graph/interchange/testdata/graph.pb")));
  std::vector<tensorflow::GraphDef> parts;
  std::vector<std::string> nodes;
  for (int i = 0; i < whole.node_size(); ++i) {
    parts.push_back(WithInputs(whole, i));
    nodes.push_back(whole.node(i).SerializeAsString());
    if (parts.back().node_size() == 0) parts.pop_back();
  }
  Mutator mutator(nodes, 9);
  int num_nodes = 0;
  for (int round = 0; round < 30000; ++round) {
    SCOPED_TRACE(round);
    tensorflow::GraphDef def = parts[mutator.Below(parts.size())];
    // One node is replaced by a mutation of its own bytes, of which half would not even parse in a larger
    // message.
    auto* victim = def.mutable_node(static_cast<int>(mutator.Below(def.node_size())));
    if (!victim->ParseFromString(mutator.NextOf(victim->SerializeAsString()))) continue;
    num_nodes += ImportAndBack(def);
  }
  EXPECT_GT(num_nodes, 1000);
}

// A variable of TensorFlow 1, what changes it, what passes it on, and what reads it; a queue and a stack of
// it.
constexpr char kReferences[] = R"(
    node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape {} } } }
    node { name: "c" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "add" op: "AssignAdd" input: "v" input: "c" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "again" op: "Assign" input: "add" input: "v" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "has" op: "IsVariableInitialized" input: "v" }
    node { name: "if" op: "RefSwitch" input: "again" input: "has" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "read" op: "Identity" input: "if:1" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "pair" op: "Mul" input: "v" input: "add" input: "^c" input: "^has" }
    node { name: "last" op: "Merge" input: "read" input: "if" attr { key: "N" value { i: 2 } } }
    node { name: "q" op: "FIFOQueue" attr { key: "component_types" value { list { type: DT_FLOAT } } } }
    node { name: "q_if" op: "RefSwitch" input: "q" input: "has" attr { key: "T" value { type: DT_STRING } } }
    node { name: "q_same" op: "RefIdentity" input: "q_if:1" attr { key: "T" value { type: DT_STRING } } }
    node { name: "q_any" op: "RefMerge" input: "q_same" input: "q_if"
           attr { key: "T" value { type: DT_STRING } } attr { key: "N" value { i: 2 } } }
    node { name: "size" op: "QueueSize" input: "q_any" }
    node { name: "sum" op: "Mul" input: "v" input: "if:1" }
    node { name: "stack" op: "Stack" input: "^size" attr { key: "elem_type" value { type: DT_FLOAT } } })";

TEST_F(FormatsFuzzTest, References) {
  tensorflow::GraphDef whole;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kReferences, &whole));
  std::vector<std::string> nodes;
  for (const auto& node : whole.node()) nodes.push_back(node.SerializeAsString());
  Mutator mutator(nodes, 12);
  int num_nodes = 0;
  for (int round = 0; round < 20000; ++round) {
    SCOPED_TRACE(round);
    tensorflow::GraphDef def = whole;
    auto* victim = def.mutable_node(static_cast<int>(mutator.Below(def.node_size())));
    if (!victim->ParseFromString(mutator.NextOf(victim->SerializeAsString()))) continue;
    num_nodes += ImportAndBack(def);
  }
  EXPECT_GT(num_nodes, 1000);
}

// A small model with all that a SavedModel may have beside its graph.
std::string SmallSavedModel() {
  tensorflow::GraphDef def;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "node { name: 'x' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } } "
      "node { name: 'y' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }",
      &def));
  Graph graph(StandardOps());
  EXPECT_TRUE(ImportGraphDef(def, {}, &graph).ok());
  graph.collections()["saved_model_main_op"] = {"y"};
  graph.variables().push_back({.variable_name = "x", .handle_name = "x:0"});
  MetaGraph description;
  description.tags = {"serve"};
  description.saver = SaverDef{.filename_tensor_name = "x:0", .restore_op_name = "y"};
  description.signatures["s"] =
      SignatureOf({{"x", graph.FindOutput("x:0").value()}}, {{"y", graph.FindOutput("y:0").value()}});
  description.signatures["s"].defaults["x"] = Tensor::Vector<float>({1, 2});
  description.assets = {{"x:0", "file"}};
  return SavedModelBytes(graph, description).value();
}

TEST_F(FormatsFuzzTest, SavedModel) {
  Mutator mutator({SmallSavedModel()}, 13);
  int num_good = 0;
  for (int round = 0; round < 60000; ++round) {
    SCOPED_TRACE(round);
    std::vector<SkippedNode> skipped;
    const auto model = MetaGraphFromSavedModel(mutator.Next(), MessageForm::kBytes, {"serve"}, StandardOps(),
                                               {.skipped = &skipped});
    if (!model.ok()) continue;
    ++num_good;
    for (const auto& [name, signature] : model->signatures)
      CheckSignature(signature, name, *model->graph).IgnoreError();
    const auto bytes = SavedModelBytes(*model->graph, *model);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    const auto again =
        MetaGraphFromSavedModel(*bytes, MessageForm::kBytes, {"serve"}, StandardOps(), {.skipped = &skipped});
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(again->signatures.size(), model->signatures.size());
  }
  EXPECT_GT(num_good, 1000);
}

TEST_F(FormatsFuzzTest, GraphDefText) {
  const std::string text = ReadBytes("graph/interchange/testdata/graph.pbtxt");
  std::vector<std::string> samples;
  for (size_t begin = 0; samples.size() < 20; begin = text.find("\nnode {", begin + 1) + 1) {
    samples.push_back(text.substr(begin, text.find("\nnode {", begin) - begin));
  }
  Mutator mutator(samples, 10);
  for (int round = 0; round < 5000; ++round) {
    SCOPED_TRACE(round);
    GraphFromGraphDefText(mutator.Next(), StandardOps()).status().IgnoreError();
  }
}

}  // namespace
}  // namespace weir
