// The families of ops and their files: one list of ops for each file ops/<family>/<file>.cc.
//
// In those files one op is one record: name, summary, shape function and gradient stand together; its schema
// comes from ops/schemas/tensorflow.txt. In shape functions `s` is the ShapeInference, in gradients `g` is
// the GradientContext.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "graph/op_def.h"
#include "graph/op_registry.h"

namespace weir {

using OpList = std::vector<OpDef> (*)();

// array
std::vector<OpDef> CoordinateOps();
std::vector<OpDef> DiagonalOps();
std::vector<OpDef> IndexingOps();
std::vector<OpDef> JoiningOps();
std::vector<OpDef> PaddingOps();
std::vector<OpDef> PassingOnOps();
std::vector<OpDef> RearrangingOps();
std::vector<OpDef> SlicingOps();
std::vector<OpDef> TensorOps();
std::vector<OpDef> UniqueOps();
// control_flow
std::vector<OpDef> ControlFlowOps();
// data_flow
std::vector<OpDef> PartitioningOps();
// debugging
std::vector<OpDef> CheckOps();
// io
std::vector<OpDef> CheckpointOps();
// math
std::vector<OpDef> ComparisonOps();
std::vector<OpDef> EinsumOps();
std::vector<OpDef> ElementwiseOps();
std::vector<OpDef> FunctionOps();
std::vector<OpDef> MatMulOps();
std::vector<OpDef> ReductionOps();
std::vector<OpDef> ScanOps();
std::vector<OpDef> VectorOps();
std::vector<OpDef> SegmentOps();
// nn
std::vector<OpDef> ActivationOps();
std::vector<OpDef> BatchNormOps();
std::vector<OpDef> BiasOps();
std::vector<OpDef> ConvolutionOps();
std::vector<OpDef> LossOps();
std::vector<OpDef> LrnOps();
std::vector<OpDef> PoolingOps();
std::vector<OpDef> SoftmaxOps();
std::vector<OpDef> TopKOps();
// random
std::vector<OpDef> ChoiceOps();
std::vector<OpDef> GammaOps();
std::vector<OpDef> RandomOps();
// state
std::vector<OpDef> VariableSliceOps();
std::vector<OpDef> VariableOps();
// summary
std::vector<OpDef> SummaryOps();
// training
std::vector<OpDef> UpdateRuleOps();

struct OpFamily {
  absl::string_view name;   // "array": the folder ops/array, the header ops/array_ops.h
  absl::string_view title;  // of its chapter in the documentation
  std::vector<OpList> files;

  // Completes every op with its schema and registers it. Returns the first error: those of
  // SchemaTable::Complete and OpRegistry::Register.
  absl::Status Register(OpRegistry& registry) const;
};
// All of them, in the order of the documentation.
const std::vector<OpFamily>& OpFamilies();

}  // namespace weir
