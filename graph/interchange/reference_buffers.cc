#include "graph/interchange/reference_buffers.h"

#include <map>

namespace weir {

Passage PassageOf(absl::string_view op) {
  static const auto* const kByOp = new std::map<absl::string_view, Passage>{
      {"Identity", Passage::kSame},        {"StopGradient", Passage::kSame},
      {"PreventGradient", Passage::kSame}, {"CheckNumerics", Passage::kSame},
      {"EnsureShape", Passage::kSame},     {"Reshape", Passage::kShaped},
      {"ExpandDims", Passage::kShaped},    {"Squeeze", Passage::kShaped},
      {"Switch", Passage::kSwitch},        {"Enter", Passage::kEnter},
      {"Bitcast", Passage::kTyped},        {"Cast", Passage::kTyped},
  };
  const auto found = kByOp->find(op);
  return found == kByOp->end() ? Passage::kNone : found->second;
}

Passage PassageOf(const Node& node) {
  const Passage passage = PassageOf(node.op_name());
  if (passage == Passage::kTyped) {
    return node.output_type(0) == node.input_type(0) ? Passage::kSame : Passage::kNone;
  }
  return passage == Passage::kEnter ? Passage::kNone : passage;
}

bool ReadsReference(const Node& node) {
  return node.op_name() == "ReadVariableOp" && node.FindAttr(kReadsReferenceAttr) != nullptr;
}

bool MayBeTogether(const DeviceName& a, const DeviceName& b) {
  return a.is_empty() || b.is_empty() || a.MergedWith(b).ok();
}

ReferenceBuffer BufferOf(Output output) {
  ReferenceBuffer buffer;
  Node* node = output.node;
  for (; !ReadsReference(*node); node = node->input(0).node) {
    const Passage passage = PassageOf(*node);
    if (passage != Passage::kSame && passage != Passage::kShaped) return {};
    buffer.is_shaped = buffer.is_shaped || passage == Passage::kShaped;
  }
  const DeviceName& asked = node->requested_device();
  const DeviceName& device = asked.is_empty() ? node->input(0).node->requested_device() : asked;
  for (const Node* user = output.node; user != node; user = user->input(0).node) {
    // Without a device it is on the session's own task, which may be another one than the variable's.
    const bool is_at_home = user->requested_device().is_empty() && user->colocation_names().empty();
    if (is_at_home ? device.job.has_value() : !MayBeTogether(device, user->requested_device())) return {};
  }
  buffer.read = node;
  return buffer;
}

}  // namespace weir
