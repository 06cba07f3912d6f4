// What a folder with a saved dataset says of itself: TensorFlow's SnapshotMetadataRecord, in the file
// snapshot.metadata.
//
// Format: a serialized protobuf message (TensorFlow's core/protobuf/snapshot.proto): run_id = 2 (string),
// creation_timestamp = 3, version = 4, dtype = 5 (repeated, packed or not), num_elements = 6, finalized =
// 1000. Fields that are not known are skipped.
//
// Pure functions over the file system, any thread. The file may be anybody's: at most
// SnapshotMetadata::kMaxBytes are read. NotFound without one; DataLoss for what is no such message, or names
// a folder outside of its own; Unimplemented for other versions than 2; errors of the file system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/dtype.h"
#include "kernels/formats/file_system.h"

namespace weir {

struct SnapshotMetadata {
  static constexpr int64_t kVersion = 2;
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 20;

  std::string run_id;  // the name of the folder of the shards
  int64_t creation_microseconds = 0;
  std::vector<DType> dtypes;
  int64_t num_elements = 0;
  bool is_finalized = false;
};

absl::StatusOr<SnapshotMetadata> ReadSnapshotMetadata(FileSystem& files, const std::string& folder);
// In one step: whoever reads it sees the old record or the new one.
absl::Status WriteSnapshotMetadata(FileSystem& files, const std::string& folder,
                                   const SnapshotMetadata& metadata);

}  // namespace weir
