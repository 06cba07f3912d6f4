#include "ops/register_ops.h"

#include "absl/base/internal/raw_logging.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"

namespace weir {

const std::vector<OpFamily>& OpFamilies() {
  static const auto* const families = new std::vector<OpFamily>{
      {"array", "Tensors and their shapes", RegisterArrayOps},
      {"joining", "Joining and taking apart", RegisterJoiningOps},
      {"slicing", "Cutting, surrounding, repeating", RegisterSlicingOps},
      {"indexing", "Looking up, choosing", RegisterIndexingOps},
      {"math", "Arithmetic, comparison, reduction", RegisterMathOps},
      {"nn", "Neural networks", RegisterNnOps},
      {"control_flow", "Conditionals and loops", RegisterControlFlowOps},
      {"random", "Random numbers", RegisterRandomOps},
      {"state", "Variables", RegisterStateOps},
      {"io", "Checkpoints", RegisterIoOps},
      {"summary", "Summaries", RegisterSummaryOps},
      {"check", "Checks", RegisterCheckOps},
  };
  return *families;
}

absl::Status RegisterOps(OpRegistry& registry) {
  for (const OpFamily& family : OpFamilies()) WEIR_RETURN_IF_ERROR(family.register_ops(registry));
  return absl::OkStatus();
}

const OpRegistry& StandardOps() {
  static const OpRegistry* const registry = [] {
    auto* const ops = new OpRegistry;
    absl::Status status = RegisterOps(*ops);
    if (status.ok()) status = RegisterRuntimeOps(*ops);
    // Only a schema of our own can fail here, and then no program of this build can work.
    ABSL_RAW_CHECK(status.ok(), std::string(status.message()).c_str());
    return ops;
  }();
  return *registry;
}

}  // namespace weir
