#include "ops/register_ops.h"

#include "absl/base/internal/raw_logging.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"

namespace weir {
const std::vector<OpList>& DataFiles();  // DEV
const std::vector<OpList>& ImageFiles();

const std::vector<OpFamily>& OpFamilies() {
  static const auto* const families = new std::vector<OpFamily>{
      {"array", "Tensors: shapes, joining, slicing, indexing", ArrayFiles()},
      {"data", "Datasets and iterators", DataFiles()},
      {"data_flow", "Slices distributed over tensors and collected", DataFlowFiles()},
      {"math", "Arithmetic, comparison, reduction, matrix products", MathFiles()},
      {"nn", "Neural networks", NnFiles()},
      {"control_flow", "Conditionals and loops", ControlFlowFiles()},
      {"random", "Random numbers", RandomFiles()},
      {"state", "Variables", StateFiles()},
      {"sparse", "Sparse tensors and sets", SparseFiles()},
      {"lookup", "Tables", LookupFiles()},
      {"strings", "Strings", StringsFiles()},
      {"training", "Update rules of optimizers", TrainingFiles()},
      {"io", "Checkpoints", IoFiles()},
      {"summary", "Summaries", SummaryFiles()},
      {"debugging", "Checks", DebuggingFiles()},
      {"image", "Images: sizes, colors, boxes, files", ImageFiles()},
  };
  return *families;
}

absl::Status RegisterOps(OpRegistry& registry) {
  for (const OpFamily& family : OpFamilies()) WEIR_RETURN_IF_ERROR(family.Register(registry));
  return absl::OkStatus();
}

absl::Status RegisterStandardOps(OpRegistry& registry) {
  WEIR_RETURN_IF_ERROR(RegisterOps(registry));
  return RegisterRuntimeOps(registry);
}

const OpRegistry& StandardOps() {
  static const OpRegistry* const registry = [] {
    auto* const ops = new OpRegistry;
    const absl::Status status = RegisterStandardOps(*ops);
    // Only a schema of our own can fail here, and then no program of this build can work.
    ABSL_RAW_CHECK(status.ok(), std::string(status.message()).c_str());
    return ops;
  }();
  return *registry;
}

}  // namespace weir
