#include "graph/interchange/signature.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/interchange/proto/meta_graph.pb.h"
#include "graph/interchange/tensor_proto.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using ::tensorflow::SignatureDef;
using ::tensorflow::TensorInfo;

// Of references, too, whose types are 100 more.
constexpr int kFirstReferenceType = 100;

absl::Status In(absl::string_view what, absl::string_view key, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(what, ": '", key, "': ", status.message()));
}

absl::StatusOr<SignatureTensor> TensorOf(const TensorInfo& proto) {
  SignatureTensor tensor;
  tensor.name = proto.name();
  const int dtype = proto.dtype() % kFirstReferenceType;
  // Ops are named with no type at all.
  if (dtype != 0 && !IsKnownDType(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("dtype ", proto.dtype(), " is none that Weir has"));
  }
  tensor.dtype = static_cast<DType>(dtype);
  if (proto.has_tensor_shape()) {
    WEIR_ASSIGN_OR_RETURN(tensor.shape, PartialShapeFromProto(proto.tensor_shape()));
  }
  return tensor;
}

absl::Status ReadTensors(const google::protobuf::Map<std::string, TensorInfo>& protos, absl::string_view what,
                         std::map<std::string, SignatureTensor>* tensors) {
  for (const auto& [key, proto] : protos) {
    absl::StatusOr<SignatureTensor> tensor = TensorOf(proto);
    if (!tensor.ok()) return In(what, key, tensor.status());
    tensors->emplace(key, *std::move(tensor));
  }
  return absl::OkStatus();
}

void WriteTensors(const std::map<std::string, SignatureTensor>& tensors,
                  google::protobuf::Map<std::string, TensorInfo>* protos) {
  for (const auto& [key, tensor] : tensors) {
    TensorInfo& proto = (*protos)[key];
    proto.set_name(tensor.name);
    proto.set_dtype(static_cast<tensorflow::DataType>(tensor.dtype));
    ShapeToProto(tensor.shape, proto.mutable_tensor_shape());
  }
}

absl::Status CheckTensor(const SignatureTensor& tensor, const Graph& graph) {
  if (tensor.name.empty()) {
    return absl::UnimplementedError("a tensor made of several (sparse, ragged) has no single value");
  }
  WEIR_ASSIGN_OR_RETURN(const Output output, graph.FindValue(tensor.name));
  if (tensor.dtype != DType::kInvalid && tensor.dtype != output.dtype()) {
    return absl::InvalidArgumentError(absl::StrCat("the signature says ", DTypeName(tensor.dtype),
                                                   ", the graph's '", tensor.name, "' is ",
                                                   DTypeName(output.dtype())));
  }
  if (!tensor.shape.IsCompatibleWith(output.shape())) {
    return absl::InvalidArgumentError(absl::StrCat("the signature says ", tensor.shape.ToString(),
                                                   ", the graph's '", tensor.name, "' is ",
                                                   output.shape().ToString()));
  }
  return absl::OkStatus();
}

std::map<std::string, SignatureTensor> TensorsOf(const std::map<std::string, Output>& outputs) {
  std::map<std::string, SignatureTensor> tensors;
  for (const auto& [key, output] : outputs) {
    tensors.emplace(key,
                    SignatureTensor{.name = output.name(), .dtype = output.dtype(), .shape = output.shape()});
  }
  return tensors;
}

}  // namespace

Signature SignatureOf(const std::map<std::string, Output>& inputs,
                      const std::map<std::string, Output>& outputs) {
  Signature signature;
  signature.inputs = TensorsOf(inputs);
  signature.outputs = TensorsOf(outputs);
  return signature;
}

absl::Status CheckSignature(const Signature& signature, absl::string_view what, const Graph& graph) {
  for (const auto* tensors : {&signature.inputs, &signature.outputs}) {
    for (const auto& [key, tensor] : *tensors) {
      if (absl::Status status = CheckTensor(tensor, graph); !status.ok()) return In(what, key, status);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Signature> SignatureFromProto(const SignatureDef& proto, absl::string_view what) {
  Signature signature;
  signature.method_name = proto.method_name();
  WEIR_RETURN_IF_ERROR(ReadTensors(proto.inputs(), what, &signature.inputs));
  WEIR_RETURN_IF_ERROR(ReadTensors(proto.outputs(), what, &signature.outputs));
  for (const auto& [key, value] : proto.defaults()) {
    absl::StatusOr<Tensor> tensor = TensorFromProto(value);
    if (!tensor.ok()) return In(what, key, tensor.status());
    signature.defaults.emplace(key, *std::move(tensor));
  }
  return signature;
}

absl::Status SignatureToProto(const Signature& signature, SignatureDef* proto) {
  proto->set_method_name(signature.method_name);
  WriteTensors(signature.inputs, proto->mutable_inputs());
  WriteTensors(signature.outputs, proto->mutable_outputs());
  for (const auto& [key, value] : signature.defaults) {
    WEIR_RETURN_IF_ERROR(TensorToAttrProto(value, &(*proto->mutable_defaults())[key]));
  }
  return absl::OkStatus();
}

}  // namespace weir
