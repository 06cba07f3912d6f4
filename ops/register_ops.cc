#include "ops/register_ops.h"

#include "absl/base/internal/raw_logging.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"

namespace weir {

const std::vector<OpFamily>& OpFamilies() {
  static const auto* const families = new std::vector<OpFamily>{
      {"array",
       "Tensors: shapes, joining, slicing, indexing",
       {TensorOps, JoiningOps, SlicingOps, PaddingOps, PassingOnOps, RearrangingOps, IndexingOps,
        CoordinateOps, UniqueOps, DiagonalOps}},
      {"data_flow", "Slices distributed over tensors and collected", {PartitioningOps}},
      {"math",
       "Arithmetic, comparison, reduction, matrix products",
       {ElementwiseOps, FunctionOps, ComparisonOps, ReductionOps, ScanOps, VectorOps, MatMulOps, SegmentOps,
        EinsumOps}},
      {"nn",
       "Neural networks",
       {ActivationOps, BatchNormOps, BiasOps, SoftmaxOps, LossOps, ConvolutionOps, PoolingOps, LrnOps,
        TopKOps}},
      {"control_flow", "Conditionals and loops", {ControlFlowOps}},
      {"random", "Random numbers", {RandomOps, ChoiceOps, GammaOps}},
      {"state", "Variables", {VariableOps, VariableSliceOps}},
      {"training", "Update rules of optimizers", {UpdateRuleOps}},
      {"io", "Checkpoints", {CheckpointOps}},
      {"summary", "Summaries", {SummaryOps}},
      {"debugging", "Checks", {CheckOps}},
  };
  return *families;
}

absl::Status RegisterOps(OpRegistry& registry) {
  for (const OpFamily& family : OpFamilies()) WEIR_RETURN_IF_ERROR(family.Register(registry));
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
