#include "graph/attr_value.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {
namespace {

std::string ValueToString(std::monostate) { return "(none)"; }
std::string ValueToString(const std::string& value) {
  return absl::StrCat("\"", absl::CHexEscape(value), "\"");
}
std::string ValueToString(int64_t value) { return absl::StrCat(value); }
std::string ValueToString(float value) { return absl::StrCat(value); }
std::string ValueToString(bool value) { return value ? "true" : "false"; }
std::string ValueToString(DType value) { return std::string(DTypeName(value)); }
std::string ValueToString(const PartialShape& value) { return value.ToString(); }
std::string ValueToString(const Tensor& value) { return value.ToString(); }
std::string ValueToString(const FunctionName& value) { return value.name; }
template <typename T>
std::string ValueToString(const std::vector<T>& values) {
  return absl::StrCat(
      "[",
      absl::StrJoin(values, ", ",
                    [](std::string* out, const T& value) { out->append(ValueToString(value)); }),
      "]");
}

bool TensorsEqual(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (a.dtype() == DType::kString) return a.flat<std::string>() == b.flat<std::string>();
  if (!IsPlainBytes(a.dtype())) return a.SharesBufferWith(b);
  return a.num_bytes() == 0 || std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

}  // namespace

absl::string_view AttrKindName(AttrKind kind) {
  constexpr absl::string_view kNames[] = {
      "none", "string",       "int",       "float",       "bool",       "type",       "shape",      "tensor",
      "func", "list(string)", "list(int)", "list(float)", "list(bool)", "list(type)", "list(shape)"};
  return kNames[static_cast<int>(kind)];
}

std::string AttrValue::ToString() const {
  return std::visit([](const auto& value) { return ValueToString(value); }, value_);
}

bool operator==(const AttrValue& a, const AttrValue& b) {
  if (a.kind() != b.kind()) return false;
  if (a.kind() == AttrKind::kTensor) return TensorsEqual(a.get<Tensor>(), b.get<Tensor>());
  return std::visit(
      [&b](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, std::monostate>) {
          return true;
        } else {
          return value == b.get<T>();
        }
      },
      a.value());
}

}  // namespace weir
