// Averages gradients over replicas: the nodes between computing and applying them.
//
// Dense gradients are joined to buckets, in the reverse order of variables, which is about the order in which
// they are ready; rows (IndexedSlices) are gathered. Buckets depend on dtypes and shapes alone, so all
// replicas make the same ones. Thread safety: as the builder.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "distributed/collective_nodes.h"
#include "graph/graph_builder.h"
#include "ops/training/optimizer.h"

namespace weir {

// What travels. Gradients of float and double are sent as these and added up in float.
enum class GradientCompression { kNone, kHalf, kBfloat16 };

// What becomes of the ranks' gradients: Horovod's op. kAdasum (Reduction::kAdasum) takes each gradient as one
// vector, and is not for gradients of rows. It combines gradients; that Horovod combines the optimizer's
// updates makes no difference for plain gradient descent.
enum class GradientReduction { kAverage, kSum, kAdasum };

struct DistributedOptimizerOptions {
  GradientCompression compression = GradientCompression::kNone;
  GradientReduction reduction = GradientReduction::kAverage;
  // Gradients are sent together, up to this many bytes at a time; with kAdasum each alone. The first ones to
  // be ready, those of the last layers, go alone when they reach first_bucket_bytes, so that sending begins
  // early. At least 1.
  int64_t bucket_bytes = 25 << 20;
  int64_t first_bucket_bytes = 1 << 20;
  // Of Horovod: how many runs of the train op make a step. The others only add their gradients up, on this
  // rank; the global step counts steps. What has been added up is lost when a rank is. Not for gradients of
  // rows. At least 1.
  int backward_passes_per_step = 1;
  // Whether these sums are divided by their number.
  bool averages_backward_passes = false;
};

// InvalidArgument, which begins with `asker`, for sizes of buckets or numbers of passes below 1.
absl::Status CheckGradientAveraging(absl::string_view asker, const DistributedOptimizerOptions& options);

struct AveragedGradients {
  std::vector<GradientAndVariable> gradients;
  std::vector<Node*> collectives;  // which made them
};
AveragedGradients AverageGradients(GraphBuilder& g, CollectiveNodes nodes,
                                   std::vector<GradientAndVariable> gradients,
                                   const DistributedOptimizerOptions& options, SourceLocation where);

// The same gradients, after these nodes. An update of them happens when all have succeeded: what fails then
// has changed nothing.
std::vector<GradientAndVariable> GradientsAfter(GraphBuilder& g, const std::vector<Node*>& nodes,
                                                std::vector<GradientAndVariable> gradients,
                                                SourceLocation where);

}  // namespace weir
