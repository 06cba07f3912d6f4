// Every schema says exactly what TensorFlow's op registry says (testdata/opdefs.json: a part of the 2.21
// registry).
#include <algorithm>
#include <fstream>
#include <set>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "ops/register_ops.h"

namespace weir {
namespace {

using nlohmann::json;

json ReadOpDefs() {
  std::ifstream file("ops/testdata/opdefs.json");
  return json::parse(file, nullptr, /*allow_exceptions=*/false)["ops"];
}

std::string TextOr(const json& object, const char* key) { return object.value(key, ""); }

void ExpectSameArgs(const std::vector<ArgDef>& ours, const json& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    const ArgDef& arg = ours[i];
    EXPECT_EQ(arg.name, theirs[i]["name"].get<std::string>());
    EXPECT_EQ(arg.dtype == DType::kInvalid ? "" : std::string(DTypeName(arg.dtype)),
              TextOr(theirs[i], "type"))
        << arg.name;
    EXPECT_EQ(arg.type_attr, TextOr(theirs[i], "type_attr")) << arg.name;
    EXPECT_EQ(arg.number_attr, TextOr(theirs[i], "number_attr")) << arg.name;
    EXPECT_EQ(arg.type_list_attr, TextOr(theirs[i], "type_list_attr")) << arg.name;
  }
}

// A default value as opdefs.json writes it.
json ToJson(const AttrValue& value) {
  if (const auto* text = value.get_if<std::string>()) return *text;
  if (const auto* number = value.get_if<int64_t>()) return *number;
  if (const auto* number = value.get_if<float>()) return *number;
  if (const auto* flag = value.get_if<bool>()) return *flag;
  if (const auto* dtype = value.get_if<DType>()) return std::string(DTypeName(*dtype));
  if (const auto* numbers = value.get_if<std::vector<int64_t>>()) return *numbers;
  if (const auto* texts = value.get_if<std::vector<std::string>>()) return *texts;
  if (const auto* shape = value.get_if<PartialShape>(); shape && !shape->has_rank())
    return {{"unknown_rank", true}};
  return nullptr;
}

// Allowed values as a set of names; those types left out that no tensor here can have.
std::set<std::string> AllowedNames(const AttrDef& attr) {
  std::set<std::string> names(attr.allowed_strings.begin(), attr.allowed_strings.end());
  for (const DType dtype : attr.allowed_types) names.emplace(DTypeName(dtype));
  return names;
}

std::set<std::string> AllowedNames(const json& attr) {
  std::set<std::string> names;
  if (!attr.contains("allowed")) return names;
  for (const std::string name : attr["allowed"]) {
    if (attr["type"] == "string" || ParseDType(name)) names.insert(name);
  }
  return names;
}

void ExpectSameAttr(const AttrDef& ours, const json& theirs) {
  EXPECT_EQ(std::string(AttrKindName(ours.kind)), theirs["type"].get<std::string>());
  EXPECT_EQ(AllowedNames(ours), AllowedNames(theirs));
  EXPECT_EQ(ours.minimum ? json(*ours.minimum) : json(), theirs.value("minimum", json()));
  EXPECT_EQ(ours.default_value ? ToJson(*ours.default_value) : json(), theirs.value("default", json()));
}

TEST(OpSchemaTest, EverySchemaIsTensorFlows) {
  const json theirs = ReadOpDefs();
  ASSERT_TRUE(theirs.is_object());
  for (const Op* op : StandardOps().ops()) {
    // Our own, and those that the runtime puts into steps (graph/runtime_ops.h).
    if (op->name().rfind("Weir", 0) == 0 || op->name()[0] == '_') continue;
    SCOPED_TRACE(op->name());
    ASSERT_TRUE(theirs.contains(op->name())) << "not in testdata/opdefs.json; ops of our own begin with Weir";
    const json& def = theirs[op->name()];
    ExpectSameArgs(op->inputs(), def["inputs"]);
    ExpectSameArgs(op->outputs(), def["outputs"]);
    EXPECT_EQ(op->is_stateful(), def.value("is_stateful", false));
    EXPECT_EQ(op->def().is_commutative, def.value("is_commutative", false));
    EXPECT_EQ(op->attrs().size(), def["attrs"].size());
    for (const json& attr : def["attrs"]) {
      SCOPED_TRACE(attr["name"]);
      const AttrDef* const ours = op->FindAttr(attr["name"].get<std::string>());
      ASSERT_NE(ours, nullptr);
      ExpectSameAttr(*ours, attr);
    }
  }
}

TEST(OpSchemaTest, EveryOpOfTheFileIsRegistered) {
  const json theirs = ReadOpDefs();
  for (const auto& [name, def] : theirs.items()) EXPECT_NE(StandardOps().Find(name), nullptr) << name;
}

TEST(OpSchemaTest, EverySummaryIsASentence) {
  for (const Op* op : StandardOps().ops()) {
    const std::string& summary = op->def().summary;
    EXPECT_TRUE(!summary.empty() && summary.back() == '.') << op->name() << ": " << summary;
  }
}

}  // namespace
}  // namespace weir
