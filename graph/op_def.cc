// Implementation notes: the specification language of OpDef.
//   argument:  NAME ':' [ATTR '*'] TYPE          TYPE: a dtype's name, a type attr or a list(type) attr
//   attr:      NAME ':' KIND [ '>=' INT ] [ '=' DEFAULT ]
//   KIND:      type | int | float | bool | string | shape | tensor | func | list(KIND) | SET | list(SET)
//   SET:       '{' dtype, ... '}' (kind type)  or  '{' 'text', ... '}' (kind string)
// A default of kind string has \n for the end of a line.
#include "graph/op_def.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/nearest_names.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::string_view Trim(absl::string_view text) { return absl::StripAsciiWhitespace(text); }

absl::Status BadSpec(absl::string_view spec, absl::string_view reason) {
  return absl::InvalidArgumentError(absl::StrCat("specification '", spec, "': ", reason));
}

// Elements of "[a, b]" or "{a, b}" without the brackets.
std::vector<absl::string_view> SplitList(absl::string_view text) {
  std::vector<absl::string_view> parts;
  text = Trim(text);
  if (text.size() <= 2) return parts;
  for (absl::string_view part : absl::StrSplit(text.substr(1, text.size() - 2), ','))
    parts.push_back(Trim(part));
  return parts;
}

// 'text' -> text
absl::string_view Unquote(absl::string_view text) {
  return text.size() >= 2 && text.front() == '\'' && text.back() == '\'' ? text.substr(1, text.size() - 2)
                                                                         : text;
}

AttrKind KindFromName(absl::string_view name) {
  for (int kind = 1; kind <= static_cast<int>(AttrKind::kShapeList); ++kind) {
    if (name == AttrKindName(static_cast<AttrKind>(kind))) return static_cast<AttrKind>(kind);
  }
  return AttrKind::kNone;
}

absl::StatusOr<PartialShape> ParseShape(absl::string_view text) {
  if (text == "?") return PartialShape();
  std::vector<int64_t> dims;
  for (absl::string_view part : SplitList(text)) {
    int64_t dim = PartialShape::kUnknownDim;
    if (part != "?" && !absl::SimpleAtoi(part, &dim)) return BadSpec(text, "is no shape");
    dims.push_back(dim);
  }
  return PartialShape::FromDims(dims);
}

absl::StatusOr<AttrValue> ParseScalar(AttrKind kind, absl::string_view text) {
  int64_t integer = 0;
  float number = 0;
  switch (kind) {
    case AttrKind::kString:
      return AttrValue(absl::StrReplaceAll(Unquote(text), {{"\\n", "\n"}}));
    case AttrKind::kInt:
      if (absl::SimpleAtoi(text, &integer)) return AttrValue(integer);
      break;
    case AttrKind::kFloat:
      if (absl::SimpleAtof(text, &number)) return AttrValue(number);
      break;
    case AttrKind::kBool:
      if (text == "true" || text == "false") return AttrValue(text == "true");
      break;
    case AttrKind::kType:
      if (std::optional<DType> dtype = ParseDType(text)) return AttrValue(*dtype);
      break;
    case AttrKind::kShape: {
      WEIR_ASSIGN_OR_RETURN(PartialShape shape, ParseShape(text));
      return AttrValue(shape);
    }
    case AttrKind::kFunction:
      return AttrValue(FunctionName{std::string(Unquote(text))});
    default:
      break;
  }
  return BadSpec(text, absl::StrCat("is no ", AttrKindName(kind)));
}

template <typename T>
absl::StatusOr<AttrValue> ParseList(AttrKind element, absl::string_view text) {
  std::vector<T> values;
  for (absl::string_view part : SplitList(text)) {
    WEIR_ASSIGN_OR_RETURN(AttrValue value, ParseScalar(element, part));
    values.push_back(value.get<T>());
  }
  return AttrValue(std::move(values));
}

absl::StatusOr<AttrValue> ParseValue(AttrKind kind, absl::string_view text) {
  switch (kind) {
    case AttrKind::kStringList:
      return ParseList<std::string>(AttrKind::kString, text);
    case AttrKind::kIntList:
      return ParseList<int64_t>(AttrKind::kInt, text);
    case AttrKind::kFloatList:
      return ParseList<float>(AttrKind::kFloat, text);
    case AttrKind::kBoolList:
      return ParseList<bool>(AttrKind::kBool, text);
    case AttrKind::kTypeList:
      return ParseList<DType>(AttrKind::kType, text);
    case AttrKind::kShapeList:
      return ParseList<PartialShape>(AttrKind::kShape, text);
    default:
      return ParseScalar(kind, text);
  }
}

// "{float, double}" or "{'SAME', 'VALID'}": the kind of element and the allowed values.
absl::Status ParseSet(absl::string_view set, bool is_list, AttrDef* attr) {
  const std::vector<absl::string_view> parts = SplitList(set);
  if (parts.empty()) return BadSpec(set, "allows nothing");
  if (parts[0].front() == '\'') {
    attr->kind = is_list ? AttrKind::kStringList : AttrKind::kString;
    for (absl::string_view part : parts) attr->allowed_strings.emplace_back(Unquote(part));
    return absl::OkStatus();
  }
  attr->kind = is_list ? AttrKind::kTypeList : AttrKind::kType;
  for (absl::string_view part : parts) {
    std::optional<DType> dtype = ParseDType(part);
    // TensorFlow's lists name types that tensors here cannot have (float8_e5m2...): nothing can ask for them.
    if (dtype) attr->allowed_types.push_back(*dtype);
  }
  return attr->allowed_types.empty() ? BadSpec(set, "names no known dtype") : absl::OkStatus();
}

absl::Status ParseKind(absl::string_view text, AttrDef* attr) {
  const size_t at_least = text.find(">=");
  if (at_least != absl::string_view::npos) {
    int64_t minimum = 0;
    if (!absl::SimpleAtoi(Trim(text.substr(at_least + 2)), &minimum))
      return BadSpec(text, "has no minimum after '>='");
    attr->minimum = minimum;
    text = Trim(text.substr(0, at_least));
  }
  absl::string_view element = text;
  const bool is_list = absl::ConsumePrefix(&element, "list(") && absl::ConsumeSuffix(&element, ")");
  if (absl::StartsWith(element, "{")) {
    WEIR_RETURN_IF_ERROR(ParseSet(element, is_list, attr));
  } else {
    attr->kind = KindFromName(text);
  }
  if (attr->kind == AttrKind::kNone) return BadSpec(text, "is no kind of attr");
  if (attr->minimum && !is_list && attr->kind != AttrKind::kInt) return BadSpec(text, "can have no minimum");
  return absl::OkStatus();
}

absl::StatusOr<AttrDef> ParseAttr(absl::string_view spec) {
  AttrDef attr;
  const size_t colon = spec.find(':');
  if (colon == absl::string_view::npos) return BadSpec(spec, "has no ':' after the attr's name");
  attr.name = std::string(Trim(spec.substr(0, colon)));
  absl::string_view kind = Trim(spec.substr(colon + 1));
  // The '=' of a default, not of '>='.
  size_t equals = kind.find('=');
  if (equals != absl::string_view::npos && equals > 0 && kind[equals - 1] == '>')
    equals = kind.find('=', equals + 1);
  const absl::string_view default_text =
      equals == absl::string_view::npos ? "" : Trim(kind.substr(equals + 1));
  WEIR_RETURN_IF_ERROR(ParseKind(Trim(kind.substr(0, equals)), &attr));
  if (equals == absl::string_view::npos) return attr;
  WEIR_ASSIGN_OR_RETURN(attr.default_value, ParseValue(attr.kind, default_text));
  WEIR_RETURN_IF_ERROR(attr.Validate(*attr.default_value));
  return attr;
}

absl::StatusOr<ArgDef> ParseArg(absl::string_view spec, const Op& op) {
  ArgDef arg;
  const size_t colon = spec.find(':');
  if (colon == absl::string_view::npos) return BadSpec(spec, "has no ':' after the argument's name");
  arg.name = std::string(Trim(spec.substr(0, colon)));
  absl::string_view type = Trim(spec.substr(colon + 1));
  const size_t star = type.find('*');
  if (star != absl::string_view::npos) {
    arg.number_attr = std::string(Trim(type.substr(0, star)));
    type = Trim(type.substr(star + 1));
    if (op.FindAttr(arg.number_attr) == nullptr) return BadSpec(spec, "names no attr before '*'");
  }
  if (const AttrDef* attr = op.FindAttr(type)) {
    if (attr->kind == AttrKind::kTypeList) {
      arg.type_list_attr = attr->name;
    } else if (attr->kind == AttrKind::kType) {
      arg.type_attr = attr->name;
    } else {
      return BadSpec(spec, "its type is an attr of another kind");
    }
    return arg;
  }
  std::optional<DType> dtype = ParseDType(type);
  if (!dtype) return BadSpec(spec, "its type is neither a dtype nor an attr");
  arg.dtype = *dtype;
  return arg;
}

template <typename T>
inline constexpr bool IsList = false;
template <typename T>
inline constexpr bool IsList<std::vector<T>> = true;

template <typename T>
std::string JoinNames(const std::vector<T>& values) {
  return absl::StrJoin(values, ", ", [](std::string* out, const T& value) {
    if constexpr (std::is_same_v<T, DType>) {
      absl::StrAppend(out, DTypeName(value));
    } else {
      absl::StrAppend(out, "'", value, "'");
    }
  });
}

// 0 for what is no list.
int64_t LengthOfList(const AttrValue& value) {
  return std::visit(
      [](const auto& list) -> int64_t {
        if constexpr (IsList<std::decay_t<decltype(list)>>) return list.size();
        return 0;
      },
      value.value());
}

// As TensorFlow does, also where the schema allows every dtype.
absl::Status CheckHasDType(const AttrDef& attr, const AttrValue& value) {
  const auto is_one = [](DType dtype) { return DTypeName(dtype) != DTypeName(DType::kInvalid); };
  const DType* const dtype = value.get_if<DType>();
  const auto* const dtypes = value.get_if<std::vector<DType>>();
  const bool is_good = dtype != nullptr    ? is_one(*dtype)
                       : dtypes != nullptr ? std::all_of(dtypes->begin(), dtypes->end(), is_one)
                                           : true;
  if (is_good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("attr ", attr.name, " is ", value.ToString(), ", must be a dtype"));
}

absl::Status CheckAllowed(const AttrDef& attr, const AttrValue& value) {
  bool allowed = true;
  const auto check = [&allowed](const auto& set, const auto& one) {
    allowed = allowed && (set.empty() || std::find(set.begin(), set.end(), one) != set.end());
  };
  if (const DType* dtype = value.get_if<DType>()) check(attr.allowed_types, *dtype);
  if (const auto* dtypes = value.get_if<std::vector<DType>>()) {
    for (DType dtype : *dtypes) check(attr.allowed_types, dtype);
  }
  if (const std::string* text = value.get_if<std::string>()) check(attr.allowed_strings, *text);
  if (const auto* texts = value.get_if<std::vector<std::string>>()) {
    for (const std::string& text : *texts) check(attr.allowed_strings, text);
  }
  if (allowed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "attr ", attr.name, " is ", value.ToString(), ", must be one of ",
      attr.allowed_types.empty() ? JoinNames(attr.allowed_strings) : JoinNames(attr.allowed_types)));
}

absl::Status CheckMinimum(const AttrDef& attr, const AttrValue& value) {
  if (!attr.minimum) return absl::OkStatus();
  if (const int64_t* integer = value.get_if<int64_t>()) {
    if (*integer >= *attr.minimum) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("attr ", attr.name, " is ", *integer, ", must be at least ", *attr.minimum));
  }
  const int64_t length = LengthOfList(value);
  if (length >= *attr.minimum) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("attr ", attr.name, " is ", value.ToString(), ", which has ",
                                                 length, " elements, must have at least ", *attr.minimum));
}

}  // namespace

absl::Status NotDifferentiable(GradientContext&) {
  return absl::UnimplementedError("no gradient flows through this op");
}

absl::Status AttrDef::Validate(const AttrValue& value) const {
  if (value.kind() != kind) {
    return absl::InvalidArgumentError(absl::StrCat("attr ", name, " must be of kind ", AttrKindName(kind),
                                                   ", is ", AttrKindName(value.kind()), " ",
                                                   value.ToString()));
  }
  WEIR_RETURN_IF_ERROR(CheckHasDType(*this, value));
  WEIR_RETURN_IF_ERROR(CheckAllowed(*this, value));
  return CheckMinimum(*this, value);
}

absl::StatusOr<Op> Op::Parse(OpDef def) {
  Op op;
  op.def_ = std::move(def);
  const auto in_op = [&op](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat("op ", op.name(), ": ", status.message()));
  };
  for (const std::string& spec : op.def_.attrs) {
    absl::StatusOr<AttrDef> attr = ParseAttr(spec);
    if (!attr.ok()) return in_op(attr.status());
    op.attrs_.push_back(*std::move(attr));
  }
  for (const auto& [specs, args] :
       {std::pair(&op.def_.inputs, &op.inputs_), {&op.def_.outputs, &op.outputs_}}) {
    for (const std::string& spec : *specs) {
      absl::StatusOr<ArgDef> arg = ParseArg(spec, op);
      if (!arg.ok()) return in_op(arg.status());
      args->push_back(*std::move(arg));
    }
  }
  if (op.def_.infer_shapes == nullptr) return in_op(absl::InvalidArgumentError("has no shape function"));
  if (op.def_.gradient == nullptr) {
    return in_op(absl::InvalidArgumentError("has no gradient (write NotDifferentiable if there is none)"));
  }
  return op;
}

const AttrDef* Op::FindAttr(absl::string_view name) const {
  for (const AttrDef& attr : attrs_) {
    if (attr.name == name) return &attr;
  }
  return nullptr;
}

}  // namespace weir
