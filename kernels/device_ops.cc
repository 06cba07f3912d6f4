#include "kernels/device_ops.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_split.h"
#include "graph/fused_ops.h"
#include "graph/runtime_ops.h"

namespace weir {
namespace {

struct HostArguments {
  std::vector<std::string> inputs, outputs;
};
using DeviceOps = absl::flat_hash_map<std::string, HostArguments>;

void Add(DeviceOps& ops, const char* names, const HostArguments& host = {}) {
  for (const absl::string_view name : absl::StrSplit(names, ' ')) ops.emplace(name, host);
}

void AddArrayOps(DeviceOps& ops) {
  Add(ops,
      "Bitcast Const DepthToSpace Diag DiagPart EnsureShape ExtractImagePatches GatherNd IdentityN "
      "InvertPermutation "
      "MatrixDiag MatrixDiagPart MatrixSetDiag OnesLike Pack PreventGradient ReverseSequence Select Snapshot "
      "SpaceToDepth Squeeze TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub "
      "TensorScatterUpdate Unpack ZerosLike");
  Add(ops, "Shape ShapeN Size Rank", {{}, {"output"}});
  Add(ops, "BroadcastGradientArgs", {{"s0", "s1"}, {"r0", "r1"}});
  Add(ops, "BroadcastArgs", {{"s0", "s1"}, {"r0"}});
  Add(ops, "ConcatOffset", {{"concat_dim", "shape"}, {"offset"}});
  Add(ops, "BroadcastTo Reshape ScatterNd", {{"shape"}, {}});
  Add(ops, "ConcatV2 GatherV2 ReverseV2 Cumsum Cumprod", {{"axis"}, {}});
  Add(ops, "ConjugateTranspose Transpose", {{"perm"}, {}});
  Add(ops, "ExpandDims", {{"dim"}, {}});
  Add(ops, "Fill", {{"dims"}, {}});
  Add(ops, "LinSpace", {{"num"}, {}});
  Add(ops, "MatrixBandPart", {{"num_lower", "num_upper"}, {}});
  Add(ops, "MirrorPad MirrorPadGrad Pad PadV2", {{"paddings"}, {}});
  Add(ops, "OneHot", {{"depth"}, {}});
  Add(ops, "Range", {{"start", "limit", "delta"}, {}});
  Add(ops, "Roll", {{"shift", "axis"}, {}});
  Add(ops, "Slice", {{"begin", "size"}, {}});
  Add(ops, "SpaceToBatchND", {{"block_shape", "paddings"}, {}});
  Add(ops, "BatchToSpaceND", {{"block_shape", "crops"}, {}});
  Add(ops, "Split", {{"split_dim"}, {}});
  Add(ops, "SplitV", {{"size_splits", "split_dim"}, {}});
  Add(ops, "StridedSlice", {{"begin", "end", "strides"}, {}});
  Add(ops, "StridedSliceGrad", {{"shape", "begin", "end", "strides"}, {}});
  Add(ops, "Tile", {{"multiples"}, {}});
}

void AddMathOps(DeviceOps& ops) {
  Add(ops, "AddN BatchMatMul BatchMatMulV2 ClipByValue Einsum L2Loss MatMul SegmentSum");
  Add(ops, "All Any EuclideanNorm Max Mean Min Prod Sum", {{"reduction_indices"}, {}});
  Add(ops, "ArgMax ArgMin", {{"dimension"}, {}});
  Add(ops, "UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum",
      {{"num_segments"}, {}});
  Add(ops, "RandomStandardNormal RandomUniform TruncatedNormal", {{"shape"}, {}});
  Add(ops, "RandomUniformInt", {{"shape", "minval", "maxval"}, {}});
  Add(ops, "StatelessRandomNormal StatelessRandomUniform StatelessTruncatedNormal", {{"shape", "seed"}, {}});
  Add(ops, "StatelessRandomNormalV2 StatelessRandomUniformV2 StatelessTruncatedNormalV2",
      {{"shape", "key", "counter", "alg"}, {}});
}

void AddNnOps(DeviceOps& ops) {
  Add(ops,
      "AvgPool AvgPool3D BiasAdd BiasAddGrad CheckNumerics Conv2D Conv3D DepthwiseConv2dNative "
      "FusedBatchNorm "
      "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3 LRN "
      "LRNGrad LogSoftmax MaxPool MaxPool3D MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad "
      "Softmax SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits");
  Add(ops, "AvgPoolGrad AvgPool3DGrad", {{"orig_input_shape"}, {}});
  Add(ops, "Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter",
      {{"filter_sizes"}, {}});
  Add(ops, "Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput",
      {{"input_sizes"}, {}});
  Add(ops, "TopKV2", {{"k"}, {}});
  for (const char* const fused :
       {kFusedMatMulOp, kFusedConv2DOp, kFusedBatchNormOp, kFusedBatchNormGradOp, kFusedElementwiseOp}) {
    Add(ops, fused);
  }
}

// What variables hold is in the device's memory.
void AddStateOps(DeviceOps& ops) {
  Add(ops,
      "AssignAddVariableOp AssignSubVariableOp AssignVariableOp ReadVariableOp ResourceGather "
      "ResourceGatherNd "
      "ResourceScatterAdd ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterMul "
      "ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub "
      "ResourceScatterNdUpdate ResourceScatterSub ResourceScatterUpdate WeirDestroyTemporaryVariable "
      "WeirTemporaryVariable");
  Add(ops, "ResourceCountUpTo", {{}, {"output"}});
  Add(ops, "ResourceStridedSliceAssign", {{"begin", "end", "strides"}, {}});
  Add(ops, "VarIsInitializedOp", {{}, {"is_initialized"}});
  Add(ops, "VariableShape", {{}, {"output"}});
  Add(ops,
      "ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad ResourceApplyAdagradDA "
      "ResourceApplyAdagradV2 ResourceApplyAdam ResourceApplyAdamWithAmsgrad ResourceApplyAddSign "
      "ResourceApplyCenteredRMSProp ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent "
      "ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyPowerSign ResourceApplyProximalAdagrad "
      "ResourceApplyProximalGradientDescent ResourceApplyRMSProp ResourceSparseApplyAdadelta "
      "ResourceSparseApplyAdagrad ResourceSparseApplyAdagradDA ResourceSparseApplyAdagradV2 "
      "ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 "
      "ResourceSparseApplyKerasMomentum ResourceSparseApplyMomentum ResourceSparseApplyProximalAdagrad "
      "ResourceSparseApplyProximalGradientDescent ResourceSparseApplyRMSProp");
}

const DeviceOps& TheDeviceOps() {
  static const DeviceOps& ops = *[] {
    auto* const all = new DeviceOps;
    AddArrayOps(*all);
    AddMathOps(*all);
    AddNnOps(*all);
    AddStateOps(*all);
    Add(*all, kCopyToDeviceOp, {{"input"}, {}});
    Add(*all, kCopyToHostOp, {{}, {"output"}});
    return all;
  }();
  return ops;
}

}  // namespace

std::vector<std::string> NamesOfDeviceOps() {
  std::vector<std::string> names;
  for (const auto& [name, host] : TheDeviceOps()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void SetHostArguments(KernelRegistry& kernels, absl::string_view device_type, const OpRegistry& ops) {
  kernels.Change(device_type, [&ops](KernelDef& def) {
    const auto found = TheDeviceOps().find(def.op);
    if (found != TheDeviceOps().end()) {
      def.host_inputs = found->second.inputs;
      def.host_outputs = found->second.outputs;
      return;
    }
    const Op* const op = ops.Find(def.op);
    def.is_on_host = op == nullptr || !op->def().is_elementwise;
  });
}

}  // namespace weir
