#include "graph/interchange/old_handles.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace weir {

std::string SuccessorOfOldHandle(absl::string_view op) {
  static const auto* const kOps = new absl::flat_hash_set<absl::string_view>{
      // queues
      "FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "RandomShuffleQueue", "QueueClose", "QueueDequeue",
      "QueueDequeueMany", "QueueDequeueUpTo", "QueueEnqueue", "QueueEnqueueMany", "QueueIsClosed",
      "QueueSize",
      // tables
      "HashTable", "InitializeTable", "InitializeTableFromTextFile", "LookupTableExport", "LookupTableFind",
      "LookupTableImport", "LookupTableInsert", "LookupTableSize", "MutableDenseHashTable",
      "MutableHashTable", "MutableHashTableOfTensors",
      // readers
      "FixedLengthRecordReader", "IdentityReader", "ReaderNumRecordsProduced", "ReaderNumWorkUnitsCompleted",
      "ReaderRead", "ReaderReadUpTo", "ReaderReset", "ReaderRestoreState", "ReaderSerializeState",
      "TFRecordReader", "TextLineReader", "WholeFileReader",
      // stacks
      "Stack", "StackClose", "StackPop", "StackPush"};
  return kOps->contains(op) ? absl::StrCat(op, "V2") : "";
}

bool MakesStringHandle(absl::string_view op) {
  return op == "Barrier" || op == "ConditionalAccumulator" || op == "SparseConditionalAccumulator";
}

}  // namespace weir
