#include "ops/generator/signature.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {
namespace {

// Where the op's own name would hide something: weir::Shape is a class.
std::string CppName(const std::string& op) { return op == "Shape" ? "ShapeOf" : op; }

// "Truncate" -> "truncate", "DstT" -> "dst_type", "OUT_TYPE" -> "out_type".
std::string ParameterName(const std::string& schema_name) {
  static const auto* const taken = new std::set<std::string>{
      "and",    "bool",     "case",   "char",  "class", "const",    "default", "delete", "do",    "double",
      "else",   "enum",     "export", "false", "float", "for",      "friend",  "g",      "goto",  "if",
      "int",    "long",     "name",   "new",   "not",   "operator", "options", "or",     "short", "signed",
      "static", "struct",   "switch", "true",  "try",   "typename", "union",   "using",  "void",  "where",
      "while",  "register", "return", "this",  "throw", "template", "typedef", "inline", "auto",  "break"};
  std::string name;
  for (size_t i = 0; i < schema_name.size(); ++i) {
    const char c = schema_name[i];
    if (std::isupper(c) && i > 0 && std::islower(schema_name[i - 1])) name += '_';
    name += static_cast<char>(std::tolower(c));
  }
  if (name == "t" || (name.size() > 2 && name.compare(name.size() - 2, 2, "_t") == 0)) name += "ype";
  return taken->count(name) ? name + "_" : name;
}

std::string AttrType(AttrKind kind, bool is_parameter) {
  switch (kind) {
    case AttrKind::kString:
      return is_parameter ? "absl::string_view" : "std::string";
    case AttrKind::kInt:
      return "int64_t";
    case AttrKind::kFloat:
      return "float";
    case AttrKind::kBool:
      return "bool";
    case AttrKind::kType:
      return "DType";
    case AttrKind::kShape:
      return "PartialShape";
    case AttrKind::kTensor:
      return "Tensor";
    case AttrKind::kFunction:
      return "FunctionName";
    case AttrKind::kStringList:
      return "std::vector<std::string>";
    case AttrKind::kIntList:
      return "std::vector<int64_t>";
    case AttrKind::kFloatList:
      return "std::vector<float>";
    case AttrKind::kBoolList:
      return "std::vector<bool>";
    case AttrKind::kTypeList:
      return "std::vector<DType>";
    case AttrKind::kShapeList:
      return "std::vector<PartialShape>";
    case AttrKind::kNone:
      break;
  }
  return "AttrValue";
}

std::string DTypeLiteral(DType dtype) {
  static const auto* const literals =
      new std::map<DType, std::string>{{DType::kFloat32, "kFloat32"},
                                       {DType::kFloat64, "kFloat64"},
                                       {DType::kInt32, "kInt32"},
                                       {DType::kUint8, "kUint8"},
                                       {DType::kInt16, "kInt16"},
                                       {DType::kInt8, "kInt8"},
                                       {DType::kString, "kString"},
                                       {DType::kComplex64, "kComplex64"},
                                       {DType::kInt64, "kInt64"},
                                       {DType::kBool, "kBool"},
                                       {DType::kBfloat16, "kBfloat16"},
                                       {DType::kUint16, "kUint16"},
                                       {DType::kComplex128, "kComplex128"},
                                       {DType::kHalf, "kHalf"},
                                       {DType::kResource, "kResource"},
                                       {DType::kVariant, "kVariant"},
                                       {DType::kUint32, "kUint32"},
                                       {DType::kUint64, "kUint64"},
                                       {DType::kQint8, "kQint8"},
                                       {DType::kQuint8, "kQuint8"},
                                       {DType::kQint32, "kQint32"},
                                       {DType::kQint16, "kQint16"},
                                       {DType::kQuint16, "kQuint16"},
                                       {DType::kFloat8E5m2, "kFloat8E5m2"},
                                       {DType::kFloat8E4m3fn, "kFloat8E4m3fn"},
                                       {DType::kFloat8E4m3Fnuz, "kFloat8E4m3Fnuz"},
                                       {DType::kFloat8E4m3b11Fnuz, "kFloat8E4m3b11Fnuz"},
                                       {DType::kFloat8E5m2Fnuz, "kFloat8E5m2Fnuz"},
                                       {DType::kInt4, "kInt4"},
                                       {DType::kUint4, "kUint4"}};
  const auto found = literals->find(dtype);
  return absl::StrCat("DType::", found == literals->end() ? "kInvalid" : found->second);
}

template <typename T>
std::string ListLiteral(const std::vector<T>& values, absl::string_view quote) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(absl::StrCat(quote, value, quote));
  return absl::StrCat("{", absl::StrJoin(texts, ", "), "}");
}

std::string Literal(const AttrValue& value) {
  if (const auto* text = value.get_if<std::string>()) return absl::StrCat("\"", absl::CEscape(*text), "\"");
  if (const auto* number = value.get_if<int64_t>()) return absl::StrCat(*number);
  if (const auto* number = value.get_if<float>()) return absl::StrCat("static_cast<float>(", *number, ")");
  if (const auto* flag = value.get_if<bool>()) return *flag ? "true" : "false";
  if (const auto* dtype = value.get_if<DType>()) return DTypeLiteral(*dtype);
  if (const auto* numbers = value.get_if<std::vector<int64_t>>()) return ListLiteral(*numbers, "");
  if (const auto* texts = value.get_if<std::vector<std::string>>()) return ListLiteral(*texts, "\"");
  return "{}";
}

std::vector<Parameter> Tensors(const std::vector<ArgDef>& args) {
  std::vector<Parameter> result;
  for (const ArgDef& arg : args) {
    result.push_back(
        {ParameterName(arg.name), arg.is_list() ? "std::vector<Output>" : "Output", "", arg.name});
  }
  return result;
}

// The input list that has as many tensors as `attr` says, or as dtypes; null when it is a required attr.
const ArgDef* FindList(const Op& op, const std::string& attr) {
  for (const ArgDef& input : op.inputs()) {
    if (input.number_attr == attr || input.type_list_attr == attr) return &input;
  }
  return nullptr;
}

std::string LengthOf(const Op& op, const ArgDef& output) {
  if (!output.is_list()) return "";
  const std::string& attr = output.number_attr.empty() ? output.type_list_attr : output.number_attr;
  if (const ArgDef* list = FindList(op, attr)) return ParameterName(list->name) + ".size()";
  const auto is_it = [&attr](const AttrDef& candidate) { return candidate.name == attr; };
  const auto found = std::find_if(op.attrs().begin(), op.attrs().end(), is_it);
  const bool is_option = found != op.attrs().end() && found->default_value.has_value();
  return absl::StrCat(is_option ? "options." : "", ParameterName(attr),
                      output.number_attr.empty() ? ".size()" : "");
}

bool IsDeterminedByInputs(const Op& op, const std::string& attr) {
  for (const ArgDef& input : op.inputs()) {
    if (input.type_attr == attr || input.number_attr == attr || input.type_list_attr == attr) return true;
  }
  return false;
}

std::string ReturnType(const Signature& signature) {
  if (signature.outputs.empty()) return "Node*";
  if (signature.outputs.size() == 1) return signature.outputs[0].type;
  return signature.function + "Outputs";
}

}  // namespace

Signature SignatureOf(const Op& op) {
  Signature signature;
  signature.function = CppName(op.name());
  signature.inputs = Tensors(op.inputs());
  signature.outputs = Tensors(op.outputs());
  for (const ArgDef& output : op.outputs()) signature.lengths.push_back(LengthOf(op, output));
  for (const AttrDef& attr : op.attrs()) {
    if (IsDeterminedByInputs(op, attr.name)) continue;
    if (attr.default_value) {
      signature.options.push_back(
          {ParameterName(attr.name), AttrType(attr.kind, false), Literal(*attr.default_value), attr.name});
    } else {
      signature.required.push_back({ParameterName(attr.name), AttrType(attr.kind, true), "", attr.name});
    }
  }
  signature.return_type = ReturnType(signature);
  signature.options_type = signature.options.empty() ? "NodeOptions" : signature.function + "Options";
  return signature;
}

bool IsHandWritten(const Op& op) { return op.name() == "Const" || op.name() == "Placeholder"; }

std::string Signature::ToString(bool with_defaults) const {
  std::vector<std::string> arguments = {"GraphBuilder& g"};
  for (const auto* list : {&inputs, &required}) {
    for (const Parameter& parameter : *list) arguments.push_back(parameter.type + " " + parameter.name);
  }
  arguments.push_back(absl::StrCat("const ", options_type, "& options", with_defaults ? " = {}" : ""));
  arguments.push_back(
      absl::StrCat("SourceLocation where", with_defaults ? " = SourceLocation::Current()" : ""));
  return absl::StrCat(return_type, " ", function, "(", absl::StrJoin(arguments, ", "), ")");
}

}  // namespace weir
