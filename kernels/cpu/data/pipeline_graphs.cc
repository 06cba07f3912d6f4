// Pipelines as graphs that leave the session: DatasetToGraph, DatasetFromGraph; a number for what a pipeline
// computes (DatasetFingerprint).
//
// The graph is a GraphDef with the bodies of functions as attrs (graph/function_bodies.h), not in a library
// as TensorFlow's: DatasetFromGraph takes what DatasetToGraph gave, and other graphs without functions.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/function_bodies.h"
#include "graph/interchange/dataset_options.h"
#include "kernels/cpu/data/function_parts.h"
#include "kernels/cpu/data/pipeline.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

// FailedPrecondition when a function of the pipeline has state: the graph would not have it.
absl::Status CheckNoState(const Pipeline& pipeline, const OpRegistry& ops) {
  for (const Pipeline::Node& node : pipeline.nodes) {
    for (const auto& [name, value] : node.attrs) {
      const std::string* const body =
          absl::StartsWith(name, kBodyPrefix) ? value.get_if<std::string>() : nullptr;
      if (body == nullptr) continue;
      WEIR_ASSIGN_OR_RETURN(const FunctionParts function, FunctionParts::FromBody(*body));
      if (!function.IsStateful(ops)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(name.substr(sizeof(kBodyPrefix) - 1), " of a ", node.op, " is stateful"));
    }
  }
  return absl::OkStatus();
}

class ToGraph final : public Kernel {
 public:
  explicit ToGraph(const KernelConstruction& construction)
      : functions_(construction.session() == nullptr ? nullptr : construction.session()->functions()) {
    const AttrValue* const policy = construction.node().FindAttr("external_state_policy");
    may_have_state_ =
        policy != nullptr ? policy->get<int64_t>() != kFail : construction.attr<bool>("allow_stateful");
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(const Pipeline pipeline, PipelineOf(dataset));
    WEIR_ASSIGN_OR_RETURN(const DatasetOptions options, ParseDatasetOptions(dataset->options()));
    const bool may_have_state =
        options.external_state_policy.has_value() ? options.external_state_policy != kFail : may_have_state_;
    if (!may_have_state && functions_ != nullptr) {
      WEIR_RETURN_IF_ERROR(CheckNoState(pipeline, functions_->ops()));
    }
    WEIR_ASSIGN_OR_RETURN(const std::vector<PlainNode> nodes, pipeline.WithConstants());
    WEIR_ASSIGN_OR_RETURN(std::string bytes, PlainGraphBytes(nodes));
    context.set_output(0, Tensor::Scalar(std::move(bytes)));
    return absl::OkStatus();
  }

 private:
  // Of TensorFlow's ExternalStatePolicy (core/framework/dataset_options.proto).
  static constexpr int64_t kFail = 2;

  const std::shared_ptr<FunctionCaller> functions_;
  bool may_have_state_ = false;
};

class FromGraph final : public Kernel {
 public:
  explicit FromGraph(const KernelConstruction& construction) {
    if (construction.session() == nullptr) return;
    functions_ = construction.session()->functions();
    files_ = construction.session()->files();
  }
  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& bytes = context.input(0);
    if (!bytes.shape().is_scalar()) {
      return absl::InvalidArgumentError(absl::StrCat("graph_def must be a scalar, is ", bytes.ToString(4)));
    }
    WEIR_RETURN_IF_ERROR(PlainGraphFromBytes(bytes.scalar<std::string>()).status());
    const auto run = std::make_shared<IteratorRun>(context.device(), functions_);
    IteratorContext making = {*run, context.cancellation(), context.step_threads()};
    WEIR_ASSIGN_OR_RETURN(Tensor variant, DatasetOfBody(bytes.scalar<std::string>(), {}, making, files_));
    context.set_output(0, std::move(variant));
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<FunctionCaller> functions_;
  std::shared_ptr<FileSystem> files_;
};

absl::Status DatasetFingerprint(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
  WEIR_ASSIGN_OR_RETURN(const uint64_t fingerprint, FingerprintOf(dataset));
  context.set_output(0, Tensor::Scalar<uint64_t>(fingerprint));
  return absl::OkStatus();
}

}  // namespace

void RegisterPipelineGraphsKernels(DeviceKernels& kernels) {
  kernels.Add<ToGraph>("DatasetToGraph");
  kernels.Add<ToGraph>("DatasetToGraphV2");
  kernels.Add<FromGraph>("DatasetFromGraph");
  kernels.Add<&DatasetFingerprint>("DatasetFingerprint");
}

}  // namespace weir
