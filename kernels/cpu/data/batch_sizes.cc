// ComputeBatchSize: how many rows the elements of a pipeline have, as far as its nodes say.
//
// A batch says it; what only leaves out, keeps, repeats or reorders elements gives its input's; Zip and
// Concatenate give what all of their inputs say. -1 for all others, a function's work among them.
#include <algorithm>

#include "absl/strings/match.h"
#include "kernels/cpu/data/pipeline.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kNotKnown = -1;

bool IsOneOf(absl::string_view op, absl::Span<const char* const> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

class BatchSizes {
 public:
  explicit BatchSizes(const Pipeline& pipeline) : pipeline_(pipeline) {
    for (const Pipeline::Node& node : pipeline.nodes) sizes_.push_back(SizeOf(node));
  }
  int64_t Of(const Pipeline::Input& input) const {
    return input.node < 0 ? kNotKnown : sizes_[static_cast<size_t>(input.node)];
  }

 private:
  int64_t SizeOf(const Pipeline::Node& node) const {
    const size_t num_inputs = node.inputs.size();
    if (IsOneOf(node.op, {"BatchDataset", "BatchDatasetV2", "ParallelBatchDataset", "PaddedBatchDataset",
                          "PaddedBatchDatasetV2"})) {
      return Number(node.inputs[1]);
    }
    if (absl::EndsWith(node.op, "MapAndBatchDataset")) return Number(node.inputs[num_inputs - 3]);
    if (IsOneOf(node.op, {"ConcatenateDataset", "ZipDataset"})) {
      const int64_t first = num_inputs == 0 ? kNotKnown : Of(node.inputs[0]);
      const auto is_another = [&](const Pipeline::Input& input) { return Of(input) != first; };
      return std::any_of(node.inputs.begin(), node.inputs.end(), is_another) ? kNotKnown : first;
    }
    if (IsOneOf(node.op, {"AssertCardinalityDataset", "CacheDataset", "FilterDataset", "OptionsDataset",
                          "ParallelFilterDataset", "ParseExampleDatasetV2", "PrefetchDataset",
                          "RepeatDataset", "ShardDataset", "ShuffleAndRepeatDataset",
                          "ShuffleAndRepeatDatasetV2", "ShuffleDataset", "SkipDataset", "TakeDataset"})) {
      return Of(node.inputs[0]);
    }
    return kNotKnown;
  }
  // The kernel of the node has read it.
  int64_t Number(const Pipeline::Input& input) const {
    if (input.node >= 0) return kNotKnown;
    const Tensor& tensor = pipeline_.tensors[static_cast<size_t>(input.tensor)];
    const bool is_number = tensor.dtype() == DType::kInt64 && tensor.num_elements() == 1;
    return is_number ? tensor.flat<int64_t>()[0] : kNotKnown;
  }

  const Pipeline& pipeline_;
  std::vector<int64_t> sizes_;
};

absl::Status ComputeBatchSize(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
  int64_t size = kNotKnown;
  if (dataset->node() != nullptr) {
    const Pipeline pipeline = Pipeline::Of(*dataset);
    size = BatchSizes(pipeline).Of(pipeline.root);
  }
  context.set_output(0, Tensor::Scalar<int64_t>(size));
  return absl::OkStatus();
}

}  // namespace

void RegisterBatchSizesKernels(DeviceKernels& kernels) { kernels.Add<&ComputeBatchSize>("ComputeBatchSize"); }

}  // namespace weir
