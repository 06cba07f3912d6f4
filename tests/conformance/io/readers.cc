// Readers of records: tests/interop compares what they read with TensorFlow's; here is what they refuse.
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {

void AddReadersRecords(Suite& suite) {
  const char kElsewhere[] = "state and files: tests/interop/ops_interop_test.py";
  for (const char* op : {"TextLineReaderV2", "IdentityReaderV2", "WholeFileReaderV2"}) {
    suite.Op(op).TestedElsewhere(kElsewhere).CannotFail();
  }
  suite.Op("TFRecordReaderV2")
      .TestedElsewhere(kElsewhere)
      .Hostile({}, "compression_type is 'LZ4'", {{"compression_type", "LZ4"}});
  suite.Op("FixedLengthRecordReaderV2")
      .TestedElsewhere(kElsewhere)
      .Hostile({}, "record_bytes must be >= 1 not 0", {{"record_bytes", 0}})
      .Hostile({}, "header_bytes must be >= 0 not -1", {{"record_bytes", 1}, {"header_bytes", -1}})
      .Hostile({}, "hop_bytes must be >= 0 not -2", {{"record_bytes", 1}, {"hop_bytes", -2}})
      .Hostile({}, "encoding is 'ZLIB'", {{"record_bytes", 1}, {"encoding", "ZLIB"}},
               absl::StatusCode::kUnimplemented);
  const auto refuse = [&](const char* op, std::vector<CaseInput> others) {
    std::vector<CaseInput> inputs = {NoHandles()};
    inputs.insert(inputs.end(), others.begin(), others.end());
    suite.Op(op).TestedElsewhere(kElsewhere).Hostile(inputs, "handle");
  };
  refuse("ReaderReadV2", {NoHandles()});
  refuse("ReaderReadUpToV2", {NoHandles(), Tensor::Scalar<int64_t>(1)});
  refuse("ReaderNumRecordsProducedV2", {});
  refuse("ReaderNumWorkUnitsCompletedV2", {});
  refuse("ReaderResetV2", {});
  refuse("ReaderSerializeStateV2", {});
  refuse("ReaderRestoreStateV2", {Strings({}, {""})});
  const std::string nowhere = "/nowhere/at all*";
  suite.Op("RecordInput")
      .TestedElsewhere("files: tests/interop/snapshots_interop_test.py")
      .Hostile({}, "must be positive", {{"file_pattern", nowhere}, {"batch_size", 0}})
      .Hostile({}, "must be positive", {{"file_pattern", nowhere}, {"file_parallelism", -1}})
      .Hostile({}, "must be positive", {{"file_pattern", nowhere}, {"file_buffer_size", 0}})
      .Hostile({}, "compression_type is 'LZ4'", {{"file_pattern", nowhere}, {"compression_type", "LZ4"}})
      .Hostile({}, "/nowhere", {{"file_pattern", nowhere}}, absl::StatusCode::kNotFound);
}

}  // namespace weir::conformance
