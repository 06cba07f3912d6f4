// The runs of a snapshot: folders with the elements that one pass over a dataset has written.
//
// Format (TensorFlow's core/data/snapshot_utils.h, version 2): PATH/snapshot.metadata is a serialized
// SnapshotMetadataRecord (kernels/formats/snapshot_metadata.h). PATH/RUN/SHARD.shard/00000000.snapshot, RUN
// being a number of that record and SHARD one of at least 8 digits, is a TFRecord file; a record is a
// serialized TensorProto with tensor_content, and the components of an element follow each other. Files
// 00000001.snapshot and so on go on where one ends.
//
// Memory: a writer has a file open for each of at most 512 shards; who reads holds one record for each shard
// that is read, at most what it has bytes in the file when that is unpacked. One that there is no memory for
// is ResourceExhausted. Files may be anybody's. May wait for files. Thread safety: a writer and an iterator
// are used by one thread at a time, the rest is immutable.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/compression.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/formats/record_io.h"

namespace weir {

// Unimplemented, with the dtype, unless elements of these can be written.
absl::Status CheckCanBeSaved(absl::Span<const DType> types);

// The shard that a `shard_func` gives for an element. InvalidArgument, with TensorFlow's text, when it gives
// none.
absl::StatusOr<int64_t> ShardOf(const Element& element, const PreparedFunction& shard_func,
                                Cancellation& cancellation);

// A run that is written. Borrows the files.
class SnapshotRunWriter {
 public:
  SnapshotRunWriter(FileSystem& files, std::string folder, Compression compression)
      : files_(files), folder_(std::move(folder)), compression_(compression) {}

  // ResourceExhausted for too many shards; errors of the file system.
  absl::Status Write(int64_t shard, const Element& element);
  absl::Status Close();

 private:
  absl::StatusOr<RecordWriter*> WriterOf(int64_t shard);

  FileSystem& files_;
  const std::string folder_;
  const Compression compression_;
  std::map<int64_t, std::unique_ptr<RecordWriter>> writers_;
};

// A run that is read.
struct SnapshotRun {
  // Its shards, as its folder has them now.
  static absl::StatusOr<SnapshotRun> Find(const std::string& folder, Compression compression,
                                          std::shared_ptr<FileSystem> files);

  std::vector<std::string> shards;  // their folders
  Compression compression = Compression::kNone;
  std::shared_ptr<FileSystem> files;
};

// An iterator over what `reader_func` makes of the datasets of all shards, for an iterator of `above`, which
// gives its elements and asks with Below(above, context). Errors: those of the function; InvalidArgument when
// what it gives does not fit.
absl::StatusOr<IteratorPtr> IteratorOfRun(const Dataset& above, const SnapshotRun& run,
                                          const CapturedFunction& reader_func, IteratorContext& context);

}  // namespace weir
