#include "session/executor/recording_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/runtime_ops.h"
#include "kernels/recorder.h"

namespace weir {
namespace {

using Part = RecordingPlan::Part;

class Planner {
 public:
  Planner(absl::Span<const int32_t> arguments, int num_slots) : is_argument_(num_slots, false) {
    for (const int32_t slot : arguments) is_argument_[slot] = true;
  }

  RecordingPlan Plan(absl::Span<const PlannedInstruction> instructions) {
    RecordingPlan plan;
    for (const PlannedInstruction& at : instructions) {
      plan.parts.push_back(PartOf(at));
      const char* const why_not = plan.parts.back() == Part::kRecorded ? WhyNot(at) : "";
      if (*why_not == '\0') continue;
      plan.why_not = absl::StrCat(at.node->op_name(), " '", at.node->name(), "' ", why_not);
      break;
    }
    return plan;
  }

 private:
  Part PartOf(const PlannedInstruction& at) const {
    const std::string& op = at.node->op_name();
    if (at.kernel != nullptr && op == kCopyToHostOp) return Part::kFetch;
    const bool copies_argument = at.kernel != nullptr && op == kCopyToDeviceOp && is_argument_[at.inputs[0]];
    return copies_argument ? Part::kFeed : Part::kRecorded;
  }

  // What is on the host and no argument follows from shapes: nothing that needs an argument there comes
  // before.
  const char* WhyNot(const PlannedInstruction& at) const {
    const Node& node = *at.node;
    if (at.kernel == nullptr || node.op_name() == "VarHandleOp") return "";
    if (dynamic_cast<const NotRecorded*>(at.kernel) != nullptr) return "is never recorded";
    if (node.op().is_stateful() && KeepsStateOnHost(at)) return "has a state on the host";
    for (size_t k = 0; k < at.inputs.size(); ++k) {
      if (at.kinds.inputs[k] == MemoryKind::kHost && is_argument_[at.inputs[k]]) {
        return "needs on the host what is fed";
      }
    }
    return "";
  }

  // All but what works on variables in the device's memory, and tells the host nothing of them but shapes.
  static bool KeepsStateOnHost(const PlannedInstruction& at) {
    const Node& node = *at.node;
    const auto is_handle = [](const Output& input) { return input.dtype() == DType::kResource; };
    if (at.kinds.own == MemoryKind::kHost) return true;
    if (std::none_of(node.inputs().begin(), node.inputs().end(), is_handle)) return true;
    return node.op_name() != "VariableShape" && std::find(at.kinds.outputs.begin(), at.kinds.outputs.end(),
                                                          MemoryKind::kHost) != at.kinds.outputs.end();
  }

  std::vector<bool> is_argument_;  // by slot
};

}  // namespace

RecordingPlan PlanRecording(absl::Span<const PlannedInstruction> instructions,
                            absl::Span<const int32_t> arguments, int num_slots) {
  return Planner(arguments, num_slots).Plan(instructions);
}

}  // namespace weir
