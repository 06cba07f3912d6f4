#include "examples/classification.h"

#include <algorithm>
#include <vector>

#include "graph/types/status_macros.h"
#include "ops/standard_ops.h"
#include "ops/summaries.h"

namespace weir::examples {

Classification Classify(GraphBuilder& g, Output logits) {
  Classification result;
  result.labels = Placeholder(g, DType::kInt32, {-1}, {.name = "labels"});
  result.loss =
      ReduceMean(g, SparseSoftmaxCrossEntropyWithLogits(g, logits, result.labels).loss, {.name = "loss"});
  const Output predicted = ArgMax(g, logits, Const(g, 1), {.output_type = DType::kInt32});
  const Output is_correct = Cast(g, Equal(g, predicted, result.labels), DType::kFloat32);
  result.num_correct = ReduceSum(g, is_correct, {.name = "num_correct"});
  AddScalarSummary(g, "loss", result.loss);
  AddScalarSummary(g, "accuracy", ReduceMean(g, is_correct));
  AddHistogramSummary(g, "logits", logits);
  return result;
}

absl::StatusOr<double> Accuracy(Session& session, Output images, const Classification& classification,
                                int64_t count,
                                const std::function<Batch(int64_t begin, int64_t end)>& batch) {
  constexpr int64_t kBatch = 1000;
  double num_correct = 0;
  for (int64_t begin = 0; begin < count; begin += kBatch) {
    const Batch next = batch(begin, std::min(begin + kBatch, count));
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                          session.Run({{images, next.images}, {classification.labels, next.labels}},
                                      {classification.num_correct}));
    num_correct += results[0].scalar<float>();
  }
  return num_correct / static_cast<double>(count);
}

}  // namespace weir::examples
