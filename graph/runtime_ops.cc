#include "graph/runtime_ops.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/fused_ops.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

const std::vector<std::string> kEdgeAttrs = {"tensor_name: string", "send_device: string",
                                             "send_device_incarnation: int", "recv_device: string",
                                             "client_terminated: bool = false"};

std::vector<std::string> WithType(std::string type_attr) {
  std::vector<std::string> attrs = kEdgeAttrs;
  attrs.insert(attrs.begin(), std::move(type_attr));
  return attrs;
}

absl::Status ArgShape(ShapeInference& s) {
  const auto shapes = s.attrs().find(kShapesAttr);
  if (shapes == s.attrs().end()) return absl::OkStatus();
  const auto* const list = shapes->second.get_if<std::vector<PartialShape>>();
  if (list == nullptr || list->size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("attr ", kShapesAttr, " must be a list of one shape, is ", shapes->second.ToString()));
  }
  s.set_output(0, list->front());
  return absl::OkStatus();
}

absl::Status CopyShape(ShapeInference& s) {
  s.set_output(0, s.input(0));
  return absl::OkStatus();
}

OpDef CopyOp(const char* name, const char* summary) {
  return {.name = name,
          .summary = summary,
          .inputs = {"input: T"},
          .outputs = {"output: T"},
          .attrs = {"T: type"},
          .infer_shapes = CopyShape,
          .gradient = NotDifferentiable};
}

}  // namespace

bool IsRuntimeOp(absl::string_view op) { return absl::StartsWith(op, "_"); }

absl::Status RegisterRuntimeOps(OpRegistry& registry) {
  WEIR_RETURN_IF_ERROR(registry.Register({.name = kArgOp,
                                          .summary = "Gives a value that was fed to the step.",
                                          .outputs = {"output: T"},
                                          .attrs = {"T: type", "index: int >= 0"},
                                          .is_stateful = true,
                                          .infer_shapes = ArgShape,
                                          .gradient = NotDifferentiable}));
  WEIR_RETURN_IF_ERROR(registry.Register({.name = kRetvalOp,
                                          .summary = "Takes a value that the step returns.",
                                          .inputs = {"input: T"},
                                          .attrs = {"T: type", "index: int >= 0"},
                                          .is_stateful = true,
                                          .infer_shapes = NoOutputs,
                                          .gradient = NotDifferentiable}));
  WEIR_RETURN_IF_ERROR(registry.Register({.name = kSendOp,
                                          .summary = "Sends a tensor to another device.",
                                          .inputs = {"tensor: T"},
                                          .attrs = WithType("T: type"),
                                          .is_stateful = true,
                                          .infer_shapes = NoOutputs,
                                          .gradient = NotDifferentiable}));
  WEIR_RETURN_IF_ERROR(registry.Register({.name = kRecvOp,
                                          .summary = "Receives a tensor from another device.",
                                          .outputs = {"tensor: tensor_type"},
                                          .attrs = WithType("tensor_type: type"),
                                          .is_stateful = true,
                                          .infer_shapes = UnknownShape,
                                          .gradient = NotDifferentiable}));
  WEIR_RETURN_IF_ERROR(
      registry.Register(CopyOp(kCopyToDeviceOp, "Copies a tensor from the host's memory to the device's.")));
  WEIR_RETURN_IF_ERROR(
      registry.Register(CopyOp(kCopyToHostOp, "Copies a tensor from the device's memory to the host's.")));
  return RegisterFusedOps(registry);
}

}  // namespace weir
