#include "graph/rewrite/waiting_nodes.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "graph/runtime_ops.h"

namespace weir {
namespace {

constexpr const char* kNeverWait[] = {kArgOp,
                                      kRetvalOp,
                                      kSendOp,
                                      "AccumulatorApplyGradient",
                                      "AccumulatorNumAccumulated",
                                      "AccumulatorSetGlobalStep",
                                      "AddManySparseToTensorsMap",
                                      "AddSparseToTensorsMap",
                                      "AllCandidateSampler",
                                      "AnonymousIterator",
                                      "AnonymousIteratorV2",
                                      "AnonymousIteratorV3",
                                      "Assert",
                                      "Barrier",
                                      "BarrierClose",
                                      "BarrierIncompleteSize",
                                      "BarrierInsertMany",
                                      "BarrierReadySize",
                                      "CSVDataset",
                                      "CSVDatasetV2",
                                      "CheckNumerics",
                                      "CloseSummaryWriter",
                                      "ConditionalAccumulator",
                                      "ConsumeMutexLock",
                                      "CreateSummaryFileWriter",
                                      "DatasetToGraph",
                                      "DeleteIterator",
                                      "DestroyResourceOp",
                                      "DeviceIndex",
                                      "DisableCopyOnRead",
                                      "DummySeedGenerator",
                                      "Empty",
                                      "ExperimentalCSVDataset",
                                      "ExperimentalGroupByReducerDataset",
                                      "ExperimentalMatchingFilesDataset",
                                      "FIFOQueueV2",
                                      "FixedLengthRecordDatasetV2",
                                      "FixedLengthRecordReaderV2",
                                      "FixedUnigramCandidateSampler",
                                      "FlushSummaryWriter",
                                      "GeneratorDataset",
                                      "GlobalShuffleDataset",
                                      "GroupByReducerDataset",
                                      "GuaranteeConst",
                                      "IdentityReaderV2",
                                      "ImportEvent",
                                      "InitializeTableFromTextFileV2",
                                      "InitializeTableV2",
                                      "Iterator",
                                      "IteratorFromStringHandle",
                                      "IteratorFromStringHandleV2",
                                      "IteratorToStringHandle",
                                      "IteratorV2",
                                      "LearnedUnigramCandidateSampler",
                                      "ListDataset",
                                      "LoadAndRemapMatrix",
                                      "LoadDataset",
                                      "LogUniformCandidateSampler",
                                      "MapClear",
                                      "MapIncompleteSize",
                                      "MapSize",
                                      "MatchingFilesDataset",
                                      "MergeV2Checkpoints",
                                      "MultiDeviceIterator",
                                      "MultiDeviceIteratorFromStringHandle",
                                      "MultiDeviceIteratorToStringHandle",
                                      "Multinomial",
                                      "MutexV2",
                                      "OneShotIterator",
                                      "OrderedMapClear",
                                      "OrderedMapIncompleteSize",
                                      "OrderedMapSize",
                                      "PaddingFIFOQueueV2",
                                      "Print",
                                      "PrintV2",
                                      "PriorityQueueV2",
                                      "QueueIsClosedV2",
                                      "QueueSizeV2",
                                      "RandomDataset",
                                      "RandomDatasetV2",
                                      "RandomGamma",
                                      "RandomPoisson",
                                      "RandomPoissonV2",
                                      "RandomShuffle",
                                      "RandomShuffleQueueV2",
                                      "RandomStandardNormal",
                                      "RandomUniform",
                                      "RandomUniformInt",
                                      "RangeDataset",
                                      "ReadVariableOp",
                                      "ReaderNumRecordsProducedV2",
                                      "ReaderNumWorkUnitsCompletedV2",
                                      "ReaderResetV2",
                                      "ReaderRestoreStateV2",
                                      "ReaderSerializeStateV2",
                                      "RecordInput",
                                      "ResourceAccumulatorApplyGradient",
                                      "ResourceAccumulatorNumAccumulated",
                                      "ResourceAccumulatorSetGlobalStep",
                                      "ResourceConditionalAccumulator",
                                      "ResourceCountUpTo",
                                      "ResourceStridedSliceAssign",
                                      "Restore",
                                      "RestoreSlice",
                                      "RestoreV2",
                                      "SampleDistortedBoundingBox",
                                      "SampleDistortedBoundingBoxV2",
                                      "Save",
                                      "SaveSlices",
                                      "SaveV2",
                                      "ShuffleAndRepeatDatasetV2",
                                      "SparseAccumulatorApplyGradient",
                                      "SparseConditionalAccumulator",
                                      "SparseTensorSliceDataset",
                                      "SqlDataset",
                                      "StageClear",
                                      "StageSize",
                                      "StatelessRandomGetAlg",
                                      "SummaryWriter",
                                      "TFRecordDataset",
                                      "TFRecordReaderV2",
                                      "TakeManySparseFromTensorsMap",
                                      "TensorDataset",
                                      "TensorSliceDataset",
                                      "TextLineDataset",
                                      "TextLineReaderV2",
                                      "ThreadUnsafeUnigramCandidateSampler",
                                      "Timestamp",
                                      "TruncatedNormal",
                                      "UniformCandidateSampler",
                                      "VarHandleOp",
                                      "VarIsInitializedOp",
                                      "VariableShape",
                                      "WeirBeginUpdates",
                                      "WeirDestroyTemporaryVariable",
                                      "WeirEndUpdates",
                                      "WeirReplicaAwaited",
                                      "WeirReplicaGroup",
                                      "WeirReplicaIdentity",
                                      "WeirReplicaLeave",
                                      "WeirReplicaNote",
                                      "WeirReplicaRelease",
                                      "WeirReplicaReset",
                                      "WeirTemporaryVariable",
                                      "WholeFileReaderV2",
                                      "WriteAudioSummary",
                                      "WriteFile",
                                      "WriteGraphSummary",
                                      "WriteHistogramSummary",
                                      "WriteImageSummary",
                                      "WriteRawProtoSummary",
                                      "WriteScalarSummary",
                                      "WriteSummary"};
// Of ops on variables, lookup tables, stacks and arrays of tensors.
constexpr const char* kPrefixesOfOpsThatNeverWait[] = {
    "AssignAddVariableOp", "AssignSubVariableOp",   "AssignVariableOp",    "HashTable",
    "LookupTable",         "MutableDenseHashTable", "MutableHashTable",    "ResourceApply",
    "ResourceGather",      "ResourceScatter",       "ResourceSparseApply", "Stack",
    "TensorArray"};

}  // namespace

bool MayWaitForOthers(const Op& op) {
  const std::string& name = op.name();
  if (!op.is_stateful()) return false;
  const auto is_name = [&](absl::string_view known) { return name == known; };
  const auto has_prefix = [&](absl::string_view prefix) { return absl::StartsWith(name, prefix); };
  return std::none_of(std::begin(kNeverWait), std::end(kNeverWait), is_name) &&
         std::none_of(std::begin(kPrefixesOfOpsThatNeverWait), std::end(kPrefixesOfOpsThatNeverWait),
                      has_prefix);
}

WaitingNodes::WaitingNodes(const std::vector<Node*>& order) {
  absl::flat_hash_map<const Op*, bool> waits;  // a graph has few ops and many nodes
  std::vector<const Node*> waiting;
  for (const Node* const node : order) {
    const auto [op, is_new] = waits.try_emplace(&node->op(), false);
    if (is_new) op->second = MayWaitForOthers(node->op());
    if (op->second) waiting.push_back(node);
  }
  num_waiting_ = static_cast<int>(waiting.size());
  if (num_waiting_ == 0 || num_waiting_ > kMaxWaiting) return;
  awaited_.resize(order.size());
  for (int i = 0; i < num_waiting_; ++i) awaited_[waiting[i]->id()] = uint64_t{1} << i;
  for (const Node* const node : order) {
    uint64_t& awaited = awaited_[node->id()];
    for (const Output& input : node->inputs()) awaited |= awaited_[input.node->id()];
    for (const Node* const before : node->control_inputs()) awaited |= awaited_[before->id()];
  }
}

}  // namespace weir
