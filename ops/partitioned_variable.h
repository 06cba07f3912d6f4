// A variable in several parts, each of which is a variable on a device of its own: tables that are too large
// for one parameter server.
//
//   PartitionedVariable table = MakePartitionedVariable(g, "embedding", DType::kFloat32, {1'000'000, 64},
//                                                       initializers::Uniform(-1, 1),
//                                                       partitioners::FixedSize(4));
//   Output x = EmbeddingLookup(g, table.parts, ids, {.strategy = PartitionStrategy::kDiv});
//
// The parts are "embedding/part_0", "embedding/part_1"... and are trained like any variables. A checkpoint
// holds them, and the optimizers' slots of them, as slices of one tensor "embedding", as TensorFlow writes
// it; it can be restored into another number of parts. Errors stick in the builder.
#pragma once

#include <string>
#include <vector>

#include "graph/graph_builder.h"
#include "ops/initializers.h"
#include "ops/partitioner.h"
#include "ops/variable.h"

namespace weir {

// A value; without parts after an error in the builder.
struct PartitionedVariable {
  std::string name;  // in checkpoints
  DType dtype = DType::kInvalid;
  Shape shape;
  int axis = 0;  // the parts lie one after another along this dimension
  std::vector<ModelVariable> parts;
};

// The initializer is asked for each part, and knows the whole: fans and the like are those of the full shape.
// InvalidArgument for a shape that the partitioner cannot cut.
PartitionedVariable MakePartitionedVariable(GraphBuilder& g, absl::string_view name, DType dtype,
                                            const Shape& shape, const Initializer& initializer,
                                            const Partitioner& partitioner,
                                            const VariableOptions& options = {},
                                            SourceLocation where = SourceLocation::Current());

// All parts as one tensor, read in the step.
Output WholeOf(GraphBuilder& g, const PartitionedVariable& variable,
               SourceLocation where = SourceLocation::Current());

}  // namespace weir
