#include "kernels/cpu/data/pipeline.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/interchange/dataset_options.h"
#include "graph/runtime_ops.h"
#include "kernels/cpu/data/graph_fingerprint.h"
#include "kernels/cpu/data/pipeline_checks.h"
#include "kernels/cpu/data/pipeline_rewrites.h"

namespace weir {
namespace {

const Dataset* DatasetOrNull(const ResourceHandle& element) {
  return dynamic_cast<const Dataset*>(element.resource.get());
}

// Reads datasets, each once.
class PipelineReader {
 public:
  explicit PipelineReader(Pipeline* pipeline) : pipeline_(*pipeline) {}

  Pipeline::Input Read(const Dataset& dataset) {
    const auto known = known_.find(&dataset);
    if (known != known_.end()) return known->second;
    Pipeline::Node node = {dataset.node()->op, dataset.node()->attrs, {}};
    node.attrs.erase("_class");  // names of nodes
    for (const Tensor& input : dataset.inputs()) node.inputs.push_back(ReadTensor(input));
    return known_[&dataset] = pipeline_.Add(std::move(node));
  }

 private:
  Pipeline::Input ReadTensor(const Tensor& tensor) {
    if (tensor.dtype() == DType::kVariant && tensor.shape().is_scalar()) {
      const Dataset* const dataset = DatasetOrNull(tensor.scalar<ResourceHandle>());
      if (dataset != nullptr && dataset->node() != nullptr) return Read(*dataset);
    }
    if (tensor.dtype() == DType::kVariant && tensor.shape().rank() == 1 && tensor.num_elements() > 0) {
      for (const ResourceHandle& element : tensor.flat<ResourceHandle>()) {
        const Dataset* const dataset = DatasetOrNull(element);
        if (dataset == nullptr || dataset->node() == nullptr) return pipeline_.Add(tensor);
      }
      Pipeline::Node pack = {"Pack", {{"T", DType::kVariant}, {"N", tensor.num_elements()}, {"axis", 0}}, {}};
      for (const ResourceHandle& element : tensor.flat<ResourceHandle>()) {
        pack.inputs.push_back(Read(*DatasetOrNull(element)));
      }
      return pipeline_.Add(std::move(pack));
    }
    return pipeline_.Add(tensor);
  }

  Pipeline& pipeline_;
  std::map<const Dataset*, Pipeline::Input> known_;
};

std::string NameOf(const Pipeline::Input& input) {
  return input.node >= 0 ? absl::StrCat("dataset_", input.node) : absl::StrCat("tensor_", input.tensor);
}

// Of the nodes that the root needs, and of what they are made of.
struct Needed {
  std::vector<bool> nodes;
  std::vector<bool> tensors;
};

Needed NeededBy(const Pipeline& pipeline) {
  Needed needed = {std::vector<bool>(pipeline.nodes.size()), std::vector<bool>(pipeline.tensors.size())};
  std::vector<Pipeline::Input> reached = {pipeline.root};
  while (!reached.empty()) {
    const Pipeline::Input input = reached.back();
    reached.pop_back();
    if (input.node < 0) {
      needed.tensors[static_cast<size_t>(input.tensor)] = true;
      continue;
    }
    const auto at = static_cast<size_t>(input.node);
    if (needed.nodes[at]) continue;
    needed.nodes[at] = true;
    for (const Pipeline::Input& of : pipeline.nodes[at].inputs) reached.push_back(of);
  }
  return needed;
}

// The nodes that are needed, and the result.
std::vector<PlainNode> PlainNodesOf(const Pipeline& pipeline, const Needed& needed) {
  std::vector<PlainNode> plain;
  for (size_t i = 0; i < pipeline.nodes.size(); ++i) {
    if (!needed.nodes[i]) continue;
    const Pipeline::Node& node = pipeline.nodes[i];
    plain.push_back({NameOf({static_cast<int>(i), -1}), node.op, {}, node.attrs});
    for (const Pipeline::Input& input : node.inputs) plain.back().inputs.push_back(NameOf(input));
  }
  plain.push_back({"dataset", kRetvalOp, {NameOf(pipeline.root)}, {{"index", 0}, {"T", DType::kVariant}}});
  return plain;
}

bool IsHandle(const Tensor& tensor) {
  return tensor.dtype() == DType::kResource && tensor.shape().is_scalar();
}

// A handle of DummySeedGenerator stands for nothing that is kept: another one does as well.
bool IsDummySeedGenerator(const Tensor& tensor) {
  return IsHandle(tensor) && tensor.scalar<ResourceHandle>().type_name == "DummySeedGenerator";
}

absl::Status CheckConstant(const Tensor& tensor, int64_t* num_bytes) {
  if (tensor.dtype() == DType::kVariant || tensor.dtype() == DType::kResource) {
    return absl::FailedPreconditionError(
        absl::StrCat("a dataset is made of ", tensor.ToString(4), ", which no graph can hold"));
  }
  *num_bytes += NumBytes(Element{tensor});
  if (*num_bytes <= FunctionCaller::kMaxConstantBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the tensors that a dataset is made of take more than ",
                                                   FunctionCaller::kMaxConstantBytes, " bytes"));
}

// The same dataset where there is nothing to change.
absl::StatusOr<DatasetPtr> Rewritten(const DatasetPtr& dataset, const DatasetOptions& options,
                                     IteratorContext& context, const std::shared_ptr<FileSystem>& files) {
  if (dataset->node() == nullptr || context.run.functions() == nullptr) return dataset;
  Pipeline pipeline = Pipeline::Of(*dataset);
  WEIR_ASSIGN_OR_RETURN(const bool has_changed, Rewrite(options, context.run.functions()->ops(), &pipeline));
  if (!has_changed) return dataset;
  return pipeline.Make(context, files);
}

}  // namespace

Pipeline Pipeline::Of(const Dataset& dataset) {
  Pipeline pipeline;
  pipeline.root = PipelineReader(&pipeline).Read(dataset);
  return pipeline;
}

absl::StatusOr<std::string> Pipeline::Body() const {
  std::vector<PlainNode> plain = PlainNodesOf(*this, NeededBy(*this));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto index = static_cast<int>(i);
    plain.push_back({NameOf({-1, index}), kArgOp, {}, {{"index", index}, {"T", tensors[i].dtype()}}});
  }
  return PlainGraphBytes(plain);
}

absl::StatusOr<std::vector<PlainNode>> Pipeline::WithConstants(Handles handles) const {
  const Needed needed = NeededBy(*this);
  std::vector<PlainNode> plain = PlainNodesOf(*this, needed);
  int64_t num_bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!needed.tensors[i]) continue;
    const std::string name = NameOf({-1, static_cast<int>(i)});
    if (IsDummySeedGenerator(tensors[i])) {
      plain.push_back({name, "DummySeedGenerator", {}, {}});
      continue;
    }
    if (handles == Handles::kByName && IsHandle(tensors[i])) {
      const ResourceHandle& handle = tensors[i].scalar<ResourceHandle>();
      plain.push_back({name, "_Handle", {}, {{"kind", handle.type_name}, {"called", handle.name}}});
      continue;
    }
    WEIR_RETURN_IF_ERROR(CheckConstant(tensors[i], &num_bytes));
    plain.push_back({name, "Const", {}, {{"dtype", tensors[i].dtype()}, {"value", tensors[i]}}});
  }
  return plain;
}

absl::StatusOr<Pipeline> PipelineOf(const DatasetPtr& dataset) {
  if (dataset->node() != nullptr) return Pipeline::Of(*dataset);
  return absl::FailedPreconditionError("the dataset cannot be written as a graph: no node made it");
}

absl::StatusOr<uint64_t> FingerprintOf(const DatasetPtr& dataset, Pipeline::Handles handles) {
  WEIR_ASSIGN_OR_RETURN(const Pipeline pipeline, PipelineOf(dataset));
  WEIR_ASSIGN_OR_RETURN(const std::vector<PlainNode> nodes, pipeline.WithConstants(handles));
  return GraphFingerprint(nodes);
}

absl::StatusOr<Tensor> DatasetOfBody(const std::string& body, std::vector<Tensor> arguments,
                                     IteratorContext& context, const std::shared_ptr<FileSystem>& files) {
  if (context.run.functions() == nullptr) {
    return absl::FailedPreconditionError("graphs of datasets are run in sessions alone");
  }
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<Function> function,
                        context.run.functions()->Prepare(body, context.run.device(), files));
  WEIR_ASSIGN_OR_RETURN(const Element results, function->Run(std::move(arguments), context.cancellation));
  if (results.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a graph of datasets gives ", results.size(), " results, not one dataset"));
  }
  WEIR_RETURN_IF_ERROR(DatasetIn(results[0]).status());
  return results[0];
}

absl::StatusOr<DatasetPtr> Pipeline::Make(IteratorContext& context,
                                          const std::shared_ptr<FileSystem>& files) const {
  WEIR_ASSIGN_OR_RETURN(const std::string body, Body());
  WEIR_ASSIGN_OR_RETURN(const Tensor variant, DatasetOfBody(body, tensors, context, files));
  return DatasetIn(variant);
}

absl::StatusOr<DatasetPtr> Finalized(DatasetPtr dataset, IteratorContext& context,
                                     const std::shared_ptr<FileSystem>& files) {
  WEIR_ASSIGN_OR_RETURN(const DatasetOptions options, ParseDatasetOptions(dataset->options()));
  if (options.asks_for_rewrites()) {
    absl::StatusOr<DatasetPtr> rewritten = Rewritten(dataset, options, context, files);
    if (context.cancellation.is_cancelled()) return context.cancellation.reason();
    if (rewritten.ok()) dataset = *std::move(rewritten);
  }
  if (dataset->has_assertions()) WEIR_RETURN_IF_ERROR(CheckAssertions(*dataset, {"Iterator", "Root"}));
  return dataset;
}

}  // namespace weir
