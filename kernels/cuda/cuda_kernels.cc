#include "kernels/cuda/cuda_kernels.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "graph/fused_ops.h"
#include "graph/runtime_ops.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/collective_kernels.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/device_ops.h"

namespace weir {
namespace {

constexpr char kType[] = "GPU";

void RegisterAll(KernelRegistry& registry) {
  DeviceKernels kernels(registry, kType);
  cuda::RegisterArrayOps(kernels);
  cuda::RegisterBatchNormOps(kernels);
  cuda::RegisterChoiceOps(kernels);
  cuda::RegisterConvolutionOps(kernels);
  cuda::RegisterDebuggingOps(kernels);
  cuda::RegisterElementOps(kernels);
  cuda::RegisterGatherOps(kernels);
  cuda::RegisterLossOps(kernels);
  cuda::RegisterMatrixOps(kernels);
  cuda::RegisterOptimizerOps(kernels);
  cuda::RegisterPoolOps(kernels);
  cuda::RegisterReductionOps(kernels);
  cuda::RegisterScatterOps(kernels);
  cuda::RegisterSegmentOps(kernels);
  cuda::RegisterVariableOps(kernels);
}

// Their kernels read no element, and write none but of outputs on the host.
bool LeavesElementsAlone(const std::string& op) {
  static const auto& ops = *new absl::flat_hash_set<std::string>{
      "AssignVariableOp", "Const",       "EnsureShape",    "ExpandDims", "IdentityN",
      "PreventGradient",  "Rank",        "ReadVariableOp", "Reshape",    "Shape",
      "ShapeN",           "Size",        "Snapshot",       "Squeeze",    "VarIsInitializedOp",
      "VariableShape",    kCopyToHostOp, kCopyToDeviceOp};
  return ops.contains(op);
}

// Nodes that Weir makes of others where a device has a kernel for them.
bool IsFused(const std::string& op) {
  return op == kFusedMatMulOp || op == kFusedConv2DOp || op == kFusedBatchNormOp ||
         op == kFusedBatchNormGradOp || op == kFusedElementwiseOp;
}

bool HasHandles(const Op* op) {
  const auto is_handle = [](const ArgDef& arg) { return arg.dtype == DType::kResource; };
  return op != nullptr && (std::any_of(op->inputs().begin(), op->inputs().end(), is_handle) ||
                           std::any_of(op->outputs().begin(), op->outputs().end(), is_handle));
}

KernelFactory Heeding(KernelFactory assign) {
  return [assign = std::move(assign)](
             const KernelConstruction& construction) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> of_host, assign(construction));
    return cuda::MakeAssign(construction, std::move(of_host));
  };
}

}  // namespace

void RegisterCudaKernels(KernelRegistry& registry, KernelRegistry& of_host, const OpRegistry& ops) {
  RegisterAll(registry);
  SetHostArguments(registry, kType, ops);
  SetHostArguments(of_host, kType, ops);
  // The first definition that takes a node counts.
  of_host.Change(kType, [&](KernelDef& def) {
    if (!def.is_on_host && !LeavesElementsAlone(def.op)) {
      if (IsFused(def.op) || HasHandles(ops.Find(def.op))) return;
      def.is_on_host = true;
    }
    if (cuda::IsCollectiveOfGpus(def.op)) registry.Register(cuda::OnGpus(def));
    if (def.op == "AssignVariableOp") def.create = Heeding(std::move(def.create));
    registry.Register(std::move(def));
  });
}

std::vector<std::string> NamesOfCudaOps() {
  KernelRegistry registry;
  RegisterAll(registry);
  std::set<std::string> names;
  registry.Change(kType, [&](KernelDef& def) { names.insert(def.op); });
  return {names.begin(), names.end()};
}

}  // namespace weir
