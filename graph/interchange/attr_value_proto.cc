#include "graph/interchange/attr_value_proto.h"

#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/tensor_proto.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using Proto = ::tensorflow::AttrValue;

constexpr int kFirstReferenceType = 101;

absl::StatusOr<DType> DTypeFromProto(int value) {
  const int plain = value >= kFirstReferenceType ? value - 100 : value;
  // kInvalid stands for "unset" in some of TensorFlow's attrs.
  if (plain == 0 || IsKnownDType(plain)) return static_cast<DType>(plain);
  const std::string name = tensorflow::DataType_Name(static_cast<tensorflow::DataType>(value));
  return absl::UnimplementedError(
      absl::StrCat("the type ", name.empty() ? absl::StrCat(value) : name, ", which Weir lacks"));
}

absl::StatusOr<AttrValue> ListFromProto(const Proto::ListValue& list) {
  if (list.tensor_size() > 0) return absl::UnimplementedError("a list of tensors");
  if (list.func_size() > 0) return absl::UnimplementedError("a list of functions");
  if (list.s_size() > 0) return AttrValue(std::vector<std::string>(list.s().begin(), list.s().end()));
  if (list.f_size() > 0) return AttrValue(std::vector<float>(list.f().begin(), list.f().end()));
  if (list.b_size() > 0) return AttrValue(std::vector<bool>(list.b().begin(), list.b().end()));
  if (list.type_size() > 0) {
    std::vector<DType> types;
    for (int type : list.type()) {
      WEIR_ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(type));
      types.push_back(dtype);
    }
    return AttrValue(std::move(types));
  }
  if (list.shape_size() > 0) {
    std::vector<PartialShape> shapes;
    for (const auto& proto : list.shape()) {
      WEIR_ASSIGN_OR_RETURN(PartialShape shape, PartialShapeFromProto(proto));
      shapes.push_back(std::move(shape));
    }
    return AttrValue(std::move(shapes));
  }
  return AttrValue(std::vector<int64_t>(list.i().begin(), list.i().end()));
}

absl::StatusOr<AttrValue> FunctionFromProto(const tensorflow::NameAttrList& function) {
  for (const auto& [name, value] : function.attr()) {
    if (name.empty() || name[0] != '_') return absl::UnimplementedError("a function with attrs of its own");
  }
  return AttrValue(FunctionName{function.name()});
}

tensorflow::DataType ToProto(DType dtype) { return static_cast<tensorflow::DataType>(dtype); }

// One overload for each kind of value.
struct ProtoWriter {
  Proto* proto;

  absl::Status operator()(std::monostate) const {
    return absl::InvalidArgumentError("an attr without a value");
  }
  absl::Status operator()(const std::string& value) const { return proto->set_s(value), absl::OkStatus(); }
  absl::Status operator()(int64_t value) const { return proto->set_i(value), absl::OkStatus(); }
  absl::Status operator()(float value) const { return proto->set_f(value), absl::OkStatus(); }
  absl::Status operator()(bool value) const { return proto->set_b(value), absl::OkStatus(); }
  absl::Status operator()(DType value) const { return proto->set_type(ToProto(value)), absl::OkStatus(); }
  absl::Status operator()(const PartialShape& value) const {
    ShapeToProto(value, proto->mutable_shape());
    return absl::OkStatus();
  }
  absl::Status operator()(const Tensor& value) const {
    return TensorToAttrProto(value, proto->mutable_tensor());
  }
  absl::Status operator()(const FunctionName& value) const {
    proto->mutable_func()->set_name(value.name);
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status operator()(const std::vector<T>& values) const {
    Proto::ListValue* list = proto->mutable_list();
    for (const T& value : values) Append(value, list);
    return absl::OkStatus();
  }

  static void Append(const std::string& value, Proto::ListValue* list) { list->add_s(value); }
  static void Append(int64_t value, Proto::ListValue* list) { list->add_i(value); }
  static void Append(float value, Proto::ListValue* list) { list->add_f(value); }
  static void Append(bool value, Proto::ListValue* list) { list->add_b(value); }
  static void Append(DType value, Proto::ListValue* list) { list->add_type(ToProto(value)); }
  static void Append(const PartialShape& value, Proto::ListValue* list) {
    ShapeToProto(value, list->add_shape());
  }
};

}  // namespace

absl::StatusOr<AttrValue> AttrValueFromProto(const Proto& proto) {
  switch (proto.value_case()) {
    case Proto::kS:
      return AttrValue(proto.s());
    case Proto::kI:
      return AttrValue(int64_t{proto.i()});
    case Proto::kF:
      return AttrValue(proto.f());
    case Proto::kB:
      return AttrValue(proto.b());
    case Proto::kType: {
      WEIR_ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(proto.type()));
      return AttrValue(dtype);
    }
    case Proto::kShape: {
      WEIR_ASSIGN_OR_RETURN(PartialShape shape, PartialShapeFromProto(proto.shape()));
      return AttrValue(std::move(shape));
    }
    case Proto::kTensor: {
      WEIR_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(proto.tensor()));
      return AttrValue(std::move(tensor));
    }
    case Proto::kList:
      return ListFromProto(proto.list());
    case Proto::kFunc:
      return FunctionFromProto(proto.func());
    case Proto::kPlaceholder:
      return absl::UnimplementedError("a placeholder of a function's attr");
    case Proto::VALUE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("no value");
}

absl::Status AttrValueToProto(const AttrValue& value, Proto* proto) {
  return std::visit(ProtoWriter{proto}, value.value());
}

}  // namespace weir
