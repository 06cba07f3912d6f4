// Damaged and hostile tf.Example and tf.SequenceExample must be errors, or be read as the protobuf library
// reads them: never a crash, a hang, or memory beyond what the message has.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "distributed/master/test_master.h"
#include "google/protobuf/stubs/logging.h"
#include "graph/graph_builder.h"
#include "graph/interchange/proto/example.pb.h"
#include "graph/interchange/tensor_proto.h"
#include "gtest/gtest.h"
#include "kernels/formats/example.h"
#include "tests/fuzz/mutator.h"

namespace weir {
namespace {

using Values =
    std::variant<std::monostate, std::vector<std::string>, std::vector<float>, std::vector<int64_t>>;
using Features = std::map<std::string, Values>;
using FeatureLists = std::map<std::string, std::vector<Values>>;

// Floats are compared by their bits: a mutation makes NaN too.
bool Equal(const Values& a, const Values& b) {
  const auto* const x = std::get_if<std::vector<float>>(&a);
  const auto* const y = std::get_if<std::vector<float>>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return x->size() == y->size() && std::memcmp(x->data(), y->data(), x->size() * sizeof(float)) == 0;
}

bool Equal(const Features& a, const Features& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first && Equal(x.second, y.second);
         });
}

bool Equal(const FeatureLists& a, const FeatureLists& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) {
           return x.first == y.first &&
                  std::equal(x.second.begin(), x.second.end(), y.second.begin(), y.second.end(),
                             [](const Values& one, const Values& other) { return Equal(one, other); });
         });
}

// ---- what the protobuf library reads ----

Values ValuesOf(const tensorflow::Feature& feature) {
  switch (feature.kind_case()) {
    case tensorflow::Feature::kBytesList:
      return std::vector<std::string>(feature.bytes_list().value().begin(),
                                      feature.bytes_list().value().end());
    case tensorflow::Feature::kFloatList:
      return std::vector<float>(feature.float_list().value().begin(), feature.float_list().value().end());
    case tensorflow::Feature::kInt64List:
      return std::vector<int64_t>(feature.int64_list().value().begin(), feature.int64_list().value().end());
    case tensorflow::Feature::KIND_NOT_SET:
      return {};
  }
  return {};
}

Features FeaturesOf(const tensorflow::Features& message) {
  Features features;
  for (const auto& [name, feature] : message.feature()) features[name] = ValuesOf(feature);
  return features;
}

FeatureLists ListsOf(const tensorflow::FeatureLists& message) {
  FeatureLists lists;
  for (const auto& [name, list] : message.feature_list()) {
    std::vector<Values>& values = lists[name];
    for (const auto& feature : list.feature()) values.push_back(ValuesOf(feature));
  }
  return lists;
}

// A field of a known number that is of another kind is an unknown one to the library, and an error to us; so
// what it has read is written once more.
template <typename Message>
std::string Rewritten(Message message) {
  message.DiscardUnknownFields();
  return message.SerializeAsString();
}

// ---- what ours reads ----

template <typename T>
std::vector<T> Copied(const Feature& feature) {
  std::vector<T> values(feature.count);
  CopyValues(feature, values.data());
  return values;
}

bool Read(absl::string_view message, Values* values) {
  Feature feature;
  if (!ReadFeature(message, &feature)) return false;
  // No value is shorter than a byte, but an empty string takes two.
  EXPECT_LE(feature.count, static_cast<int64_t>(message.size()));
  if (feature.dtype == DType::kString) *values = Copied<std::string>(feature);
  if (feature.dtype == DType::kFloat32) *values = Copied<float>(feature);
  if (feature.dtype == DType::kInt64) *values = Copied<int64_t>(feature);
  if (feature.dtype == DType::kInvalid) *values = {};
  return true;
}

bool Read(absl::string_view message, std::vector<Values>* list) {
  list->clear();
  return ReadFeatureList(message, [&](absl::string_view feature) {
    list->emplace_back();
    return Read(feature, &list->back());
  });
}

template <typename Map>
auto Into(Map& map) {
  return [&map](absl::string_view name, absl::string_view message) {
    return Read(message, &map[std::string(name)]);
  };
}

// ---- samples ----

tensorflow::Example SampleExample() {
  tensorflow::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (const char* word : {"", "word", "other"}) features["words"].mutable_bytes_list()->add_value(word);
  for (const float number : {1.0f, -2.5f}) features["floats"].mutable_float_list()->add_value(number);
  for (const int64_t number : {-1, 0, 1 << 20}) features["ints"].mutable_int64_list()->add_value(number);
  features["empty"];
  return example;
}

tensorflow::SequenceExample SampleSequence() {
  tensorflow::SequenceExample example;
  *example.mutable_context() = SampleExample().features();
  auto& lists = *example.mutable_feature_lists()->mutable_feature_list();
  for (const auto& [name, feature] : example.context().feature()) {
    for (int time = 0; time < 2; ++time) *lists[name].add_feature() = feature;
  }
  return example;
}

// Values one by one, as writers may send them too, and a feature that comes twice.
std::string Unpacked() {
  const std::string ints = "\x08\x01\x08\x02", floats("\x0d\x00\x00\x80\x3f\x0d\x00\x00\x00\x40", 10);
  const auto field = [](char number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) + bytes;
  };
  const auto entry = [&](const std::string& name, const std::string& feature) {
    return field(1, field(1, name) + field(2, feature));
  };
  return field(1, entry("floats", field(2, floats)) + entry("ints", field(3, ints)) +
                      entry("ints", field(3, ints + ints)) +
                      entry("floats", field(3, ints) + field(2, floats)));
}

class ExamplesFuzzTest : public ::testing::Test {
 protected:
  // protobuf complains on stderr about each mutation that is no UTF-8.
  static void SetUpTestSuite() { google::protobuf::SetLogHandler(nullptr); }
};

TEST_F(ExamplesFuzzTest, ExamplesAreReadAsProtobufReadsThem) {
  Mutator mutator({SampleExample().SerializeAsString(), Unpacked()}, 1);
  int num_good = 0;
  for (int round = 0; round < 100'000; ++round) {
    const std::string bytes = round == 0 ? Unpacked() : mutator.Next();
    tensorflow::Example example;
    if (!example.ParseFromString(bytes)) continue;  // names that are no UTF-8 are no errors of ours
    const Features expected = FeaturesOf(example.features());
    Features read;
    if (ReadExample(bytes, Into(read))) {
      ++num_good;
      ASSERT_TRUE(Equal(read, expected)) << "round " << round << ": " << example.DebugString();
    } else {
      ASSERT_GT(round, 0);
    }
    Features again;
    ASSERT_TRUE(ReadExample(Rewritten(example), Into(again))) << "round " << round;
    ASSERT_TRUE(Equal(again, expected)) << "round " << round << ": " << example.DebugString();
  }
  EXPECT_GT(num_good, 3'000);
}

TEST_F(ExamplesFuzzTest, SequenceExamplesAreReadAsProtobufReadsThem) {
  Mutator mutator({SampleSequence().SerializeAsString()}, 2);
  int num_good = 0;
  for (int round = 0; round < 50'000; ++round) {
    const std::string bytes = mutator.Next();
    tensorflow::SequenceExample example;
    if (!example.ParseFromString(bytes)) continue;
    for (const bool is_rewritten : {false, true}) {
      Features context;
      FeatureLists lists;
      if (!ReadSequenceExample(is_rewritten ? Rewritten(example) : bytes, Into(context), Into(lists))) {
        ASSERT_FALSE(is_rewritten) << "round " << round << ": " << example.DebugString();
        continue;
      }
      num_good += is_rewritten ? 0 : 1;
      ASSERT_TRUE(Equal(context, FeaturesOf(example.context()))) << "round " << round;
      ASSERT_TRUE(Equal(lists, ListsOf(example.feature_lists()))) << "round " << round;
    }
  }
  EXPECT_GT(num_good, 500);
}

// ---- the ops, in steps of a client ----

Output Strings(GraphBuilder& g, std::initializer_list<std::string> values) {
  return g.AddOp("Const", {}, {{"value", Tensor::Vector<std::string>(values)}, {"dtype", DType::kString}});
}

// serialized (fed) -> dense "ints" [3] and "floats" [?], sparse "words", ragged "ints".
tensorflow::GraphDef ParsingModel(const OpRegistry& ops) {
  GraphBuilder g(ops);
  const Output serialized = g.AddOp("Placeholder", {}, {{"dtype", DType::kString}}, "serialized");
  const auto constant = [&](const Tensor& value) {
    return g.AddOp("Const", {}, {{"value", value}, {"dtype", value.dtype()}});
  };
  const Tensor no_ints(DType::kInt64, {0}), no_floats(DType::kFloat32, {0});
  g.AddNode(
      "ParseExampleV2",
      {serialized, Strings(g, {}), Strings(g, {"words"}), Strings(g, {"ints", "floats"}),
       Strings(g, {"ints"}), std::vector<Output>{constant(no_ints), constant(Tensor::Vector<float>({7}))}},
      {{"Tdense", std::vector<DType>{DType::kInt64, DType::kFloat32}},
       {"num_sparse", int64_t{1}},
       {"sparse_types", std::vector<DType>{DType::kString}},
       {"ragged_value_types", std::vector<DType>{DType::kInt64}},
       {"ragged_split_types", std::vector<DType>{DType::kInt64}},
       {"dense_shapes", std::vector<PartialShape>{PartialShape({3}), PartialShape({-1})}}},
      "parsed");
  EXPECT_TRUE(g.status().ok()) << g.status();
  return GraphDefOf(g.graph());
}

TEST_F(ExamplesFuzzTest, StepsParseWhatIsGoodAndRefuseTheRest) {
  TestMaster client;
  const std::string session = client.CreateSession(ParsingModel(client.ops())).value();
  const std::string good = SampleExample().SerializeAsString();
  const int64_t before = PeakBytes();
  Mutator mutator({good, Unpacked()}, 3);
  int num_parsed = 0;
  for (int round = 0; round < 3000; ++round) {
    tensorflow::RunStepRequest step = Step(session, {"parsed:3", "parsed:4", "parsed:1", "parsed:6"});
    AddFeed("serialized:0", Tensor::Vector<std::string>({good, mutator.Next()}), &step);
    const auto response = client.Run(step);
    if (!response.ok()) {
      ASSERT_EQ(response.status().code(), absl::StatusCode::kInvalidArgument) << response.status();
      continue;
    }
    ++num_parsed;
    const Tensor ints = TensorFromProto(response->tensor(0).tensor()).value();
    ASSERT_EQ(ints.shape(), Shape({2, 3}));
    ASSERT_EQ(ints.flat<int64_t>()[2], 1 << 20) << "the good example's, in round " << round;
  }
  EXPECT_GT(num_parsed, 30);
  EXPECT_LT(PeakBytes() - before, 256 << 20);
}

}  // namespace
}  // namespace weir
