// Parsing tf.Example and tf.SequenceExample. The references read messages with the protobuf library, which
// the kernels do not.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "graph/interchange/proto/example.pb.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using DTypes = std::vector<DType>;
using Names = std::vector<std::string>;
using Shapes = std::vector<PartialShape>;
using Tensors = std::vector<Tensor>;
using Values = std::vector<Value>;

tensorflow::Feature IntsOf(const std::vector<int64_t>& values) {
  tensorflow::Feature feature;
  feature.mutable_int64_list();
  for (const int64_t value : values) feature.mutable_int64_list()->add_value(value);
  return feature;
}
tensorflow::Feature FloatsOf(const std::vector<float>& values) {
  tensorflow::Feature feature;
  feature.mutable_float_list();
  for (const float value : values) feature.mutable_float_list()->add_value(value);
  return feature;
}
tensorflow::Feature WordsOf(const Names& values) {
  tensorflow::Feature feature;
  feature.mutable_bytes_list();
  for (const std::string& value : values) feature.mutable_bytes_list()->add_value(value);
  return feature;
}

using Features = std::vector<std::pair<std::string, tensorflow::Feature>>;

std::string Example(const Features& features) {
  tensorflow::Example example;
  for (const auto& [name, feature] : features)
    (*example.mutable_features()->mutable_feature())[name] = feature;
  return example.SerializeAsString();
}

using Lists = std::vector<std::pair<std::string, std::vector<tensorflow::Feature>>>;

std::string Sequence(const Features& context, const Lists& lists) {
  tensorflow::SequenceExample example;
  for (const auto& [name, feature] : context) (*example.mutable_context()->mutable_feature())[name] = feature;
  for (const auto& [name, features] : lists) {
    auto& list = (*example.mutable_feature_lists()->mutable_feature_list())[name];
    for (const auto& feature : features) *list.add_feature() = feature;
  }
  return example.SerializeAsString();
}

// ---- references ----

Values ValuesOf(const tensorflow::Feature& feature) {
  Values values;
  for (const std::string& text : feature.bytes_list().value()) {
    values.emplace_back();
    values.back().text = text;
  }
  for (const float number : feature.float_list().value()) values.emplace_back(static_cast<double>(number));
  for (const int64_t number : feature.int64_list().value()) values.emplace_back(static_cast<double>(number));
  return values;
}

double Size(size_t size) { return static_cast<double>(size); }

// The features of one column: null where an example lacks it.
using Column = std::vector<const tensorflow::Feature*>;

template <typename Map>
const typename Map::mapped_type* Find(const Map& map, const std::string& name) {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : &found->second;
}

// Collects outputs in the order of the schemas: lists of them, each of one kind.
struct Outputs {
  void Flush(std::vector<Array>& to) {
    for (std::vector<Array>& list : lists) to.insert(to.end(), list.begin(), list.end());
    lists.clear();
  }
  std::vector<Array>& operator[](size_t i) {
    if (lists.size() <= i) lists.resize(i + 1);
    return lists[i];
  }
  std::vector<std::vector<Array>> lists;
};

Array ArrayOf(Index dims, const Values& values) {
  Array array(std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) array[static_cast<int64_t>(i)] = values[i];
  return array;
}
Array VectorOf(const Values& values) { return ArrayOf({static_cast<int64_t>(values.size())}, values); }

// Adds to outputs[first], [first + 1], [first + 2].
void AddSparse(const Column& column, bool is_batch, Outputs& outputs, size_t first) {
  Values indices, values;
  size_t longest = 0;
  for (size_t i = 0; i < column.size(); ++i) {
    const Values own = column[i] == nullptr ? Values() : ValuesOf(*column[i]);
    longest = std::max(longest, own.size());
    for (size_t k = 0; k < own.size(); ++k) {
      if (is_batch) indices.emplace_back(Size(i));
      indices.emplace_back(Size(k));
      values.push_back(own[k]);
    }
  }
  const int64_t rank = is_batch ? 2 : 1;
  outputs[first].push_back(ArrayOf({static_cast<int64_t>(values.size()), rank}, indices));
  outputs[first + 1].push_back(VectorOf(values));
  outputs[first + 2].push_back(
      VectorOf(is_batch ? Values{Size(column.size()), Size(longest)} : Values{Size(longest)}));
}

Array Dense(const Column& column, bool is_batch, const PartialShape& shape, const Array& default_value) {
  const bool is_variable = shape.rank() > 0 && shape.dim(0) < 0;
  int64_t stride = 1, longest = 0;
  for (int i = is_variable; i < shape.rank(); ++i) stride *= shape.dim(i);
  for (const tensorflow::Feature* feature : column)
    longest = std::max(longest, feature == nullptr ? 0 : static_cast<int64_t>(ValuesOf(*feature).size()));
  Index dims;
  if (is_batch) dims.push_back(static_cast<int64_t>(column.size()));
  if (is_variable) dims.push_back(longest / stride);
  for (int i = is_variable; i < shape.rank(); ++i) dims.push_back(shape.dim(i));
  Values all;
  for (const tensorflow::Feature* feature : column) {
    const bool is_missing = feature == nullptr || feature->kind_case() == 0;
    Values own = is_missing ? Values() : ValuesOf(*feature);
    const int64_t wanted = is_variable ? longest : stride;
    while (static_cast<int64_t>(own.size()) < wanted)
      own.push_back(default_value[is_variable ? 0 : static_cast<int64_t>(own.size())]);
    all.insert(all.end(), own.begin(), own.end());
  }
  return ArrayOf(dims, all);
}

void AddRagged(const Column& column, Outputs& outputs, size_t values_list, size_t splits_list) {
  Values values, splits = {0.0};
  for (const tensorflow::Feature* feature : column) {
    const Values own = feature == nullptr ? Values() : ValuesOf(*feature);
    values.insert(values.end(), own.begin(), own.end());
    splits.emplace_back(Size(values.size()));
  }
  outputs[values_list].push_back(VectorOf(values));
  outputs[splits_list].push_back(VectorOf(splits));
}

Names NamesIn(const Array& array) {
  Names names;
  for (int64_t i = 0; i < array.size(); ++i) names.push_back(array[i].text);
  return names;
}

void ParseFeatures(Call& call, const Names& sparse, const Names& dense, const Names& ragged,
                   int first_default) {
  std::vector<tensorflow::Example> examples(call.in(0).size());
  for (size_t i = 0; i < examples.size(); ++i)
    examples[i].ParseFromString(call.in(0)[static_cast<int64_t>(i)].text);
  const bool is_batch = call.in(0).rank() == 1;
  const auto column = [&](const std::string& name) {
    Column features;
    for (const auto& example : examples) features.push_back(Find(example.features().feature(), name));
    return features;
  };
  Outputs outputs;
  for (const std::string& name : sparse) AddSparse(column(name), is_batch, outputs, 0);
  const Shapes& shapes = call.node.attr<Shapes>("dense_shapes");
  for (size_t i = 0; i < dense.size(); ++i) {
    outputs[3].push_back(
        Dense(column(dense[i]), is_batch, shapes[i], call.in(first_default + static_cast<int>(i))));
  }
  for (const std::string& name : ragged) {
    AddRagged(column(name), outputs, 4, 5);
    if (!is_batch) outputs[5].back() = Array({0});
  }
  call.outputs.clear();
  outputs.Flush(call.outputs);
}

void ParseExample(Call& call) {
  const auto num_sparse = static_cast<int>(call.integer("Nsparse"));
  const auto num_dense = static_cast<int>(call.integer("Ndense"));
  Names sparse, dense;
  for (int i = 0; i < num_sparse; ++i) sparse.push_back(call.in(2 + i)[0].text);
  for (int i = 0; i < num_dense; ++i) dense.push_back(call.in(2 + num_sparse + i)[0].text);
  ParseFeatures(call, sparse, dense, {}, 2 + num_sparse + num_dense);
}

void ParseExampleV2(Call& call) {
  ParseFeatures(call, NamesIn(call.in(2)), NamesIn(call.in(3)), NamesIn(call.in(4)), 5);
}

void ParseSingleExample(Call& call) {
  ParseFeatures(call, call.node.attr<Names>("sparse_keys"), call.node.attr<Names>("dense_keys"), {}, 1);
}

struct SequenceNames {
  Names sparse, dense, ragged, list_sparse, list_dense, list_ragged;
  int first_default;
  bool has_lengths;
};

// One list of all examples, as rows of features.
using ListColumn = std::vector<const tensorflow::FeatureList*>;

void AddSparseLists(const ListColumn& column, bool is_batch, Outputs& outputs, size_t first) {
  Values indices, values;
  size_t longest = 0, widest = 0;
  for (size_t i = 0; i < column.size(); ++i) {
    const int size = column[i] == nullptr ? 0 : column[i]->feature_size();
    longest = std::max(longest, static_cast<size_t>(size));
    for (int time = 0; time < size; ++time) {
      const Values own = ValuesOf(column[i]->feature(time));
      widest = std::max(widest, own.size());
      for (size_t k = 0; k < own.size(); ++k) {
        if (is_batch) indices.emplace_back(Size(i));
        indices.emplace_back(static_cast<double>(time));
        indices.emplace_back(Size(k));
        values.push_back(own[k]);
      }
    }
  }
  outputs[first].push_back(ArrayOf({static_cast<int64_t>(values.size()), is_batch ? 3 : 2}, indices));
  outputs[first + 1].push_back(VectorOf(values));
  Values dims = {Size(column.size()), Size(longest), Size(widest)};
  if (!is_batch) dims.erase(dims.begin());
  outputs[first + 2].push_back(VectorOf(dims));
}

void AddDenseLists(const ListColumn& column, bool is_batch, const PartialShape& shape, Outputs& outputs,
                   size_t first) {
  int64_t stride = 1, longest = 0;
  for (int i = 0; i < shape.rank(); ++i) stride *= shape.dim(i);
  Values lengths;
  for (const tensorflow::FeatureList* list : column) {
    const int64_t size = list == nullptr ? 0 : list->feature_size();
    lengths.emplace_back(static_cast<double>(size));
    longest = std::max(longest, size);
  }
  Values all;
  for (const tensorflow::FeatureList* list : column) {
    Values own;
    for (int time = 0; list != nullptr && time < list->feature_size(); ++time) {
      const Values values = ValuesOf(list->feature(time));
      own.insert(own.end(), values.begin(), values.end());
    }
    own.resize(longest * stride);
    all.insert(all.end(), own.begin(), own.end());
  }
  Index dims = {static_cast<int64_t>(column.size()), longest};
  if (!is_batch) dims.erase(dims.begin());
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape.dim(i));
  outputs[first].push_back(ArrayOf(dims, all));
  outputs[first + 1].push_back(is_batch ? VectorOf(lengths) : ArrayOf({}, lengths));
}

void AddRaggedLists(const ListColumn& column, bool is_batch, Outputs& outputs, size_t first) {
  Column rows;
  Values ends = {0.0};
  for (const tensorflow::FeatureList* list : column) {
    for (int time = 0; list != nullptr && time < list->feature_size(); ++time)
      rows.push_back(&list->feature(time));
    ends.emplace_back(Size(rows.size()));
  }
  AddRagged(rows, outputs, first, first + 2);
  outputs[first + 1].push_back(is_batch ? VectorOf(ends) : ArrayOf({}, {0.0}));
}

void ParseSequences(Call& call, const SequenceNames& names) {
  std::vector<tensorflow::SequenceExample> examples(call.in(0).size());
  for (size_t i = 0; i < examples.size(); ++i)
    examples[i].ParseFromString(call.in(0)[static_cast<int64_t>(i)].text);
  const bool is_batch = call.in(0).rank() == 1;
  const auto column = [&](const std::string& name) {
    Column features;
    for (const auto& example : examples) features.push_back(Find(example.context().feature(), name));
    return features;
  };
  const auto list_column = [&](const std::string& name) {
    ListColumn lists;
    for (const auto& example : examples) lists.push_back(Find(example.feature_lists().feature_list(), name));
    return lists;
  };
  Outputs outputs;
  for (const std::string& name : names.sparse) AddSparse(column(name), is_batch, outputs, 0);
  const Shapes& shapes = call.node.attr<Shapes>("context_dense_shapes");
  for (size_t i = 0; i < names.dense.size(); ++i) {
    outputs[3].push_back(Dense(column(names.dense[i]), is_batch, shapes[i],
                               call.in(names.first_default + static_cast<int>(i))));
  }
  for (const std::string& name : names.ragged) {
    AddRagged(column(name), outputs, 4, 5);
    if (!is_batch) outputs[5].back() = Array(Index{});
  }
  for (const std::string& name : names.list_sparse) AddSparseLists(list_column(name), is_batch, outputs, 6);
  const Shapes& list_shapes = call.node.attr<Shapes>("feature_list_dense_shapes");
  for (size_t i = 0; i < names.list_dense.size(); ++i)
    AddDenseLists(list_column(names.list_dense[i]), is_batch, list_shapes[i], outputs, 9);
  if (!names.has_lengths) outputs[10].clear();
  for (const std::string& name : names.list_ragged) AddRaggedLists(list_column(name), is_batch, outputs, 11);
  call.outputs.clear();
  outputs.Flush(call.outputs);
}

void ParseSequenceExample(Call& call) {
  const auto keys = [&](const char* attr) { return call.node.attr<Names>(attr); };
  ParseSequences(call, {keys("context_sparse_keys"),
                        keys("context_dense_keys"),
                        {},
                        keys("feature_list_sparse_keys"),
                        keys("feature_list_dense_keys"),
                        {},
                        2,
                        true});
}

void ParseSequenceExampleV2(Call& call) {
  const auto keys = [&](int input) { return NamesIn(call.in(input)); };
  ParseSequences(call, {keys(2), keys(3), keys(4), keys(5), keys(6), keys(7), 9, true});
}

void ParseSingleSequenceExample(Call& call) {
  int input = 2;
  const auto keys = [&](const char* count) {
    Names names;
    for (int64_t i = 0; i < call.integer(count); ++i) names.push_back(call.in(input++)[0].text);
    return names;
  };
  SequenceNames names;
  names.sparse = keys("Ncontext_sparse");
  names.dense = keys("Ncontext_dense");
  names.list_sparse = keys("Nfeature_list_sparse");
  names.list_dense = keys("Nfeature_list_dense");
  names.first_default = input;
  names.has_lengths = false;
  ParseSequences(call, names);
}

// ---- calls ----

Tensor Text(const std::string& text) { return Strings({}, {text}); }
Tensor Long(int64_t value) { return Tensor::Scalar<int64_t>(value); }

const std::string& Full() {
  static const auto* const text = new std::string(Example({{"age", FloatsOf({1.5f})},
                                                           {"ids", IntsOf({3, -1, int64_t{1} << 40})},
                                                           {"city", WordsOf({"a"})},
                                                           {"words", WordsOf({"one", "", "three"})},
                                                           {"pair", IntsOf({7, 8})}}));
  return *text;
}
const std::string& Sparse() {
  static const auto* const text = new std::string(Example({{"ids", IntsOf({5})},
                                                           {"city", tensorflow::Feature()},
                                                           {"words", WordsOf({})},
                                                           {"pair", IntsOf({1, 2, 3, 4})}}));
  return *text;
}

// Message bytes that the protobuf library does not write: values that are not packed.
std::string Unusual() {
  const std::string ints("\x1a\x04\x08\x05\x08\x06", 6);        // int64_list {5, 6}
  const std::string floats("\x12\x05\x0d\x00\x00\x80\x3f", 7);  // float_list {1}
  const auto entry = [](const std::string& name, const std::string& feature) {
    std::string map = "\x0a" + std::string(1, static_cast<char>(name.size())) + name + "\x12" +
                      std::string(1, static_cast<char>(feature.size())) + feature;
    return "\x0a" + std::string(1, static_cast<char>(map.size())) + map;
  };
  const std::string features = entry("ids", ints) + entry("age", floats);
  return "\x0a" + std::string(1, static_cast<char>(features.size())) + features;
}

AttrMap V2(int64_t num_sparse, DTypes sparse, Shapes shapes, DTypes ragged = {}, DTypes splits = {}) {
  return {{"num_sparse", num_sparse},
          {"sparse_types", std::move(sparse)},
          {"dense_shapes", std::move(shapes)},
          {"ragged_value_types", std::move(ragged)},
          {"ragged_split_types", std::move(splits)}};
}

void AddParseExampleV2(Suite& suite) {
  OpRecord& record = suite.Op("ParseExampleV2").Reference(ParseExampleV2).ShapeDependsOnValues();
  const Tensor none = Words({});
  const PartialShape rows({-1}), pairs({-1, 2});
  const Tensor both = Words({Full(), Sparse(), ""});
  const AttrMap all = V2(2, {D::kString, D::kFloat32}, {Shape(), pairs}, {D::kInt64}, {D::kInt32});
  const Tensors defaults = {Strings({}, {"nowhere"}), Longs({-7}).WithShape(Shape({1}))};
  for (const Tensor& serialized : {both, Text(Full()), Text(""), none, Words({Full()})}) {
    record.Call(
        {serialized, none, Words({"words", "age"}), Words({"city", "pair"}), Words({"ids"}), defaults}, all);
  }
  record.Call({Words({Unusual(), Full()}), Words({"x", "y"}), Words({"ids", "words"}), none, Words({"age"}),
               Tensors{}},
              V2(2, {D::kInt64, D::kString}, {}, {D::kFloat32}, {D::kInt64}));
  const Tensor pair = Longs({1, 2});
  const AttrMap fixed = V2(0, {}, {Shape({2})});
  record.Call({Words({"", Full()}), none, none, Words({"pair"}), none, Tensors{pair}}, fixed);
  const auto dense = [&](const Tensor& serialized, const std::string& key, const Tensor& default_value,
                         const PartialShape& shape, const std::string& error) {
    record.Hostile({serialized, none, none, Words({key}), none, Tensors{default_value}}, error,
                   V2(0, {}, {shape}));
  };
  dense(Words({Full(), ""}), "pair", Longs({}), Shape({2}),
        "Name: <unknown>, Feature: pair (data type: int64)");
  dense(Text(""), "pair", Longs({}), Shape({2}), "Feature: pair (data type: int64) is required");
  dense(Words({Sparse()}), "pair", pair, Shape({2}),
        "Key: pair, Index: 0.  Number of int64 values != expected.");
  dense(Words({Full()}), "ids", Longs({0}), pairs, "is not a multiple of stride length. Saw 3 values");
  dense(Words({Full()}), "age", Longs({}), Shape(), "Data type: float but expected type: int64");
  dense(Words({Full()}), "pair", Longs({1, 2, 3}), Shape({2}), "is not compatible with dense_shapes_[0]");
  dense(Words({Full()}), "pair", Longs({1, 2}), rows, "must contain a single element (the padding element)");
  record.Hostile({Words({"garbage"}), none, Words({"ids"}), none, none, Tensors{}},
                 "Could not parse example input, value: 'garbage'", V2(1, {D::kInt64}, {}));
  record.Hostile({Words({"\x0a\xff\xff\xff\xff\x0f"}), none, Words({"ids"}), none, none, Tensors{}},
                 "Could not parse example input", V2(1, {D::kInt64}, {}));
  record.Hostile({Words({Full()}), none, Words({"age"}), none, none, Tensors{}},
                 "Expected type: int64, Actual type: float", V2(1, {D::kInt64}, {}));
  record.Hostile({Words({Full()}), Words({"x", "y"}), Words({"ids"}), none, none, Tensors{}},
                 "Expected names have the same shape as serialized", V2(1, {D::kInt64}, {}));
  record.Hostile({Words({Full()}), none, Words({"ids", "age"}), none, none, Tensors{}},
                 "Expected len(sparse_keys) == num_sparse", V2(1, {D::kInt64}, {}));
  // A long string that many columns ask for, each of which has room for it.
  const Tensor long_word = Words({Example({{"word", WordsOf({std::string(1 << 20, 'x')})}})});
  const Names many(600, "word");
  record.OutOfMemory({long_word, none, Words(many), none, none, Tensors{}},
                     V2(600, DTypes(600, D::kString), {}));
  record.OutOfMemory({long_word, none, none, Words(many), none, Tensors(600, Text(""))},
                     V2(0, {}, Shapes(600, Shape())));
  record.OutOfMemory(
      {Words({""}), none, none, Words(many), none, Tensors(600, Text(std::string(1 << 20, 'x')))},
      V2(0, {}, Shapes(600, Shape())));
  record.OutOfMemory(
      {Words(Names(100, "")), none, none, Words({"ids"}), none, Tensors{Empty({1 << 20}, D::kInt64)}},
      V2(0, {}, {Shape({1 << 20})}));
}

void AddParseExamples(Suite& suite) {
  const Tensor none = Words({});
  const AttrMap attrs = {{"sparse_types", DTypes{D::kInt64}}, {"dense_shapes", Shapes{Shape({2})}}};
  const Tensors pair = {Longs({1, 2})};
  OpRecord& record = suite.Op("ParseExample").Reference(ParseExample).ShapeDependsOnValues();
  for (const Tensor& serialized : {Words({Full(), ""}), none}) {
    record.Call({serialized, none, Tensors{Text("ids")}, Tensors{Text("pair")}, pair}, attrs);
  }
  record.Hostile({Words({Full()}), none, Tensors{Words({"ids"})}, Tensors{Text("pair")}, pair},
                 "Expected keys to be scalars", attrs);
  record.Hostile({Words({Sparse()}), none, Tensors{Text("ids")}, Tensors{Text("pair")}, pair},
                 "Number of int64 values != expected", attrs);

  OpRecord& single = suite.Op("ParseSingleExample").Reference(ParseSingleExample).ShapeDependsOnValues();
  const AttrMap keys = {{"num_sparse", 1},
                        {"sparse_keys", Names{"ids"}},
                        {"dense_keys", Names{"pair"}},
                        {"sparse_types", DTypes{D::kInt64}},
                        {"dense_shapes", Shapes{PartialShape({-1})}}};
  for (const std::string& text : {Full(), Sparse(), std::string()})
    single.Call({Text(text), Tensors{Longs({9}).WithShape(Shape())}}, keys);
  single.Hostile({Text("garbage"), Tensors{Long(9)}}, "Could not parse example input", keys);
  single.Hostile({Text(Full()), Tensors{Longs({9, 9})}}, "must contain a single element", keys);
}

const std::string& Steps() {
  static const auto* const text =
      new std::string(Sequence({{"c", IntsOf({1, 2})}, {"d", FloatsOf({1, 2})}, {"r", WordsOf({"x", "y"})}},
                               {{"f", {IntsOf({1, 2}), IntsOf({3, 4})}},
                                {"g", {IntsOf({1}), tensorflow::Feature(), IntsOf({2, 3})}},
                                {"h", {WordsOf({"a"}), WordsOf({})}}}));
  return *text;
}

void AddParseSequences(Suite& suite) {
  const Tensor none = Words({});
  const AttrMap types = {{"context_sparse_types", DTypes{D::kInt64}},
                         {"context_dense_shapes", Shapes{Shape({2})}},
                         {"feature_list_sparse_types", DTypes{D::kInt64}},
                         {"feature_list_dense_types", DTypes{D::kInt64}},
                         {"feature_list_dense_shapes", Shapes{Shape({2})}},
                         {"Ncontext_sparse", 1},
                         {"Nfeature_list_sparse", 1},
                         {"Nfeature_list_dense", 1}};
  AttrMap v2 = types;
  v2.insert({{"context_ragged_value_types", DTypes{D::kString}},
             {"context_ragged_split_types", DTypes{D::kInt32}},
             {"feature_list_ragged_value_types", DTypes{D::kString}},
             {"feature_list_ragged_split_types", DTypes{D::kInt64}}});
  const Tensors defaults = {Make(D::kFloat32, {2}, {8, 9})};
  OpRecord& record =
      suite.Op("ParseSequenceExampleV2").Reference(ParseSequenceExampleV2).ShapeDependsOnValues();
  const auto inputs = [&](const Tensor& serialized, bool may_lack, const std::string& dense) {
    return std::vector<CaseInput>{serialized,     none,         Words({"c"}),
                                  Words({"d"}),   Words({"r"}), Words({"g"}),
                                  Words({dense}), Words({"h"}), Bools({1}, {may_lack ? 1.0 : 0.0}),
                                  defaults};
  };
  for (const Tensor& serialized :
       {Words({Steps(), Sequence({}, {}), Steps()}), none, Words({""}), Words({Steps()})})
    record.Call(inputs(serialized, true, "f"), v2);
  record.Call(inputs(Words({Steps()}), false, "f"), v2);
  record.Hostile(inputs(Words({Steps(), ""}), false, "f"),
                 "Feature list 'f' is required but could not be found", v2);
  record.Hostile(inputs(Words({Steps()}), false, "g"),
                 "Key: g, Index: 0.  Number of int64 values != expected", v2);
  record.Hostile(inputs(Words({Steps()}), false, "h"), "Feature list: h, Index: 0.  Data types don't match",
                 v2);
  record.Hostile(inputs(Words({"garbage"}), false, "f"), "Invalid protocol message input", v2);
  record.Hostile(inputs(Strings({1, 1}, {Steps()}), false, "f"),
                 "Expected serialized to be a vector or scalar", v2);
  const Tensor wrong = Words({Sequence({{"c", FloatsOf({1})}}, {})});
  record.Hostile(inputs(wrong, true, "f"),
                 "Context feature: c.  Data types don't match. Expected type: int64", v2);

  AttrMap v1 = types;
  v1.insert({{"feature_list_dense_missing_assumed_empty", Names{}},
             {"context_sparse_keys", Names{"c"}},
             {"context_dense_keys", Names{"d"}},
             {"feature_list_sparse_keys", Names{"g"}},
             {"feature_list_dense_keys", Names{"f"}},
             {"Ncontext_dense", 1}});
  OpRecord& first = suite.Op("ParseSequenceExample").Reference(ParseSequenceExample).ShapeDependsOnValues();
  first.Call({Words({Steps()}), Words({"x"}), defaults}, v1);
  first.Hostile({Words({""}), Words({"x"}), defaults}, "Name: x, Feature list 'f' is required", v1);

  OpRecord& single =
      suite.Op("ParseSingleSequenceExample").Reference(ParseSingleSequenceExample).ShapeDependsOnValues();
  const AttrMap shapes = {{"context_sparse_types", DTypes{D::kInt64}},
                          {"context_dense_shapes", Shapes{Shape({2})}},
                          {"feature_list_sparse_types", DTypes{D::kInt64}},
                          {"feature_list_dense_types", DTypes{D::kInt64}},
                          {"feature_list_dense_shapes", Shapes{Shape({2})}}};
  const auto one = [&](const std::string& text, const Tensor& may_lack) {
    return std::vector<CaseInput>{Text(text),         may_lack,           Tensors{Text("c")},
                                  Tensors{Text("d")}, Tensors{Text("g")}, Tensors{Text("f")},
                                  defaults,           Text("x")};
  };
  single.Call(one(Steps(), none), shapes).Call(one("", Words({"f"})), shapes);
  single.Hostile(one("", none), "Name: x, Feature list 'f' is required", shapes);
}

void AddDecodeJson(Suite& suite) {
  // Deeper than any message; the parser has a limit of its own.
  const std::string deep(100'000, '[');
  suite.Op("DecodeJSONExample")
      .TestedElsewhere("messages: tests/interop/ops_interop_test.py")
      .Hostile({Words({"{}", "{"})}, "Error while parsing JSON")
      .Hostile({Words({"{\"nothing\": 1}"})}, "Error while parsing JSON")
      .Hostile({Words({"{\"features\": {\"feature\": {\"a\": {\"int64List\": {\"value\": [\"x\"]}}}}}"})},
               "Error while parsing JSON")
      .Hostile({Words({deep})}, "Error while parsing JSON")
      .Hostile({Words({std::string("\xff\x00{", 3)})}, "Error while parsing JSON");
}

}  // namespace

void AddExamplesRecords(Suite& suite) {
  AddDecodeJson(suite);
  AddParseExampleV2(suite);
  AddParseExamples(suite);
  AddParseSequences(suite);
}

}  // namespace weir::conformance
