// Queues of tensors, which outlive steps: their handles, and what steps do with them.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

OpDef Handle(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = ScalarShape,
          .gradient = NotDifferentiable};
}

Status OperationShape(ShapeInference& s) { return s.WithRank(0, 0).status(); }

OpDef Operation(std::string name, std::string summary,
                Status (*infer_shapes)(ShapeInference&) = OperationShape) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .infer_shapes = infer_shapes,
          .gradient = NotDifferentiable};
}

// All components have as many elements.
Status EnqueueManyShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(OperationShape(s));
  int64_t count = kUnknown;
  for (int i = 1; i < s.num_inputs(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape component, s.WithRankAtLeast(i, 1));
    if (!component.has_rank()) continue;
    absl::StatusOr<int64_t> both = s.MergeDims(count, component.dim(0));
    if (!both.ok()) {
      return InvalidArgumentError(StrCat(s.input_name(i), " must have ", count,
                                         " elements as those before, is ", component.ToString()));
    }
    count = *both;
  }
  return OkStatus();
}

Status DequeueManyShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(OperationShape(s));
  WEIR_ASSIGN_OR_RETURN(const std::optional<int64_t> count, ScalarInput(s, 1));
  if (count && *count < 0) return InvalidArgumentError(StrCat("n must be at least 0, is ", *count));
  return OkStatus();
}

Status NumberShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(OperationShape(s));
  return ScalarShape(s);
}

}  // namespace

std::vector<OpDef> QueuesOps() {
  return {
      Handle("FIFOQueueV2",
             "Gives the handle of a queue whose elements leave it in the order in which they came."),
      Handle("PaddingFIFOQueueV2",
             "Gives the handle of a FIFOQueueV2 whose shapes may have unknown dimensions: a batch pads its "
             "elements."),
      Handle("RandomShuffleQueueV2",
             "Gives the handle of a queue whose elements leave it in random order; min_after_dequeue of them "
             "stay "
             "while it is open."),
      Handle("PriorityQueueV2",
             "Gives the handle of a queue whose smallest element leaves it first: before its components each "
             "has an "
             "int64 scalar."),
      Operation("QueueEnqueueV2", "Adds an element; waits while the queue is full."),
      Operation("QueueEnqueueManyV2",
                "Adds the slices of the components along dimension 0; waits while the queue is full.",
                EnqueueManyShape),
      Operation("QueueDequeueV2", "Takes an element; waits while the queue is empty."),
      Operation("QueueDequeueManyV2", "Takes n elements as one batch; waits while there are fewer.",
                DequeueManyShape),
      Operation("QueueDequeueUpToV2",
                "Takes n elements as one batch; waits while there are fewer, and takes those when the queue "
                "is closed.",
                DequeueManyShape),
      Operation("QueueCloseV2",
                "Lets no more elements in, after those that wait; or refuses these too, if "
                "cancel_pending_enqueues."),
      Operation("QueueIsClosedV2", "Gives whether a queue is closed.", NumberShape),
      Operation("QueueSizeV2", "Gives how many elements a queue has.", NumberShape),
  };
}

}  // namespace weir
