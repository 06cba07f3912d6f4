// Readers of records, whose units of work come out of a queue.
#include <string>
#include <vector>

#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/op_without_gradient.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status ReadManyShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(2, 0).status());
  s.set_output(0, PartialShape({kUnknown}));
  s.set_output(1, PartialShape({kUnknown}));
  return OkStatus();
}

Status BatchShape(ShapeInference& s) {
  const int64_t batch_size = s.attr<int64_t>("batch_size");
  s.set_output(0, PartialShape({batch_size < 1 ? kUnknown : batch_size}));
  return OkStatus();
}

Status RestoreShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(0, 0).status());
  return s.WithRank(1, 0).status();
}

}  // namespace

std::vector<OpDef> ReadersOps() {
  return {
      WithoutGradient("TextLineReaderV2", "Gives a reader of the lines of files.", ScalarShape),
      WithoutGradient("TFRecordReaderV2", "Gives a reader of the records of TFRecord files.", ScalarShape),
      WithoutGradient("FixedLengthRecordReaderV2", "Gives a reader of records of one length.", ScalarShape),
      WithoutGradient("IdentityReaderV2", "Gives a reader of the strings of the queue themselves.",
                      ScalarShape),
      WithoutGradient("WholeFileReaderV2", "Gives a reader of the contents of files.", ScalarShape),
      WithoutGradient("ReaderReadV2", "Gives the next record of a reader, whose files come out of a queue.",
                      ScalarShape),
      WithoutGradient("ReaderReadUpToV2", "Gives the next records of a reader, as many as num_records.",
                      ReadManyShape),
      WithoutGradient("ReaderNumRecordsProducedV2", "Gives how many records a reader gave.", ScalarShape),
      WithoutGradient("ReaderNumWorkUnitsCompletedV2", "Gives how many files a reader read to their ends.",
                      ScalarShape),
      WithoutGradient("ReaderResetV2", "Makes a reader forget its file and its counts.", NoOutputs),
      WithoutGradient("ReaderSerializeStateV2", "Gives where a reader is; only an IdentityReader can say it.",
                      ScalarShape),
      WithoutGradient("ReaderRestoreStateV2", "Puts a reader where another one was.", RestoreShape),
      WithoutGradient("RecordInput", "Gives batches of the records of TFRecord files in random order.",
                      BatchShape),
  };
}

}  // namespace weir
