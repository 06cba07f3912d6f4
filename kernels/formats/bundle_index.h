// The index of a checkpoint: which tensors it has and where their bytes lie.
//
// Format: TensorFlow's V2 checkpoint ("tensor bundle"). PREFIX.index is a sorted table; its empty key holds a
// BundleHeaderProto, every other key (a tensor's name) a BundleEntryProto. PREFIX.data-XXXXX-of-NNNNN, the
// shards, hold the bytes of the tensors, little-endian: plain elements as they are; strings as all lengths
// (varints), the masked checksum of the lengths as 32-bit words (64-bit above 4 GiB), all bytes. A tensor
// stored in slices has an entry without bytes that lists them, and one entry per slice under
// TensorSlice::KeyFor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/dtype.h"
#include "graph/types/shape.h"
#include "kernels/formats/tensor_slice.h"

namespace weir {

struct BundleEntry {
  DType dtype = DType::kInvalid;
  std::string foreign_dtype;  // for an element type that Weir lacks: its name; dtype is kInvalid then
  Shape shape;
  int shard = 0;
  uint64_t offset = 0;
  uint64_t num_bytes = 0;
  uint32_t masked_crc = 0;
  std::vector<TensorSlice> slices;  // not empty: the bytes are in these slices' own entries
};

struct BundleIndex {
  int num_shards = 1;
  std::map<std::string, BundleEntry> entries;  // by key, slices' entries included

  // DataLoss, naming `path`, for damage, and for entries that contradict themselves; Unimplemented for a
  // bundle that a big-endian machine or a later TensorFlow wrote.
  static absl::StatusOr<BundleIndex> Parse(absl::string_view file, const std::string& path);
  absl::StatusOr<std::string> Serialize() const;
};

// "PREFIX.index" and "PREFIX.data-00000-of-00002".
std::string BundleIndexPath(absl::string_view prefix);
std::string BundleShardPath(absl::string_view prefix, int shard, int num_shards);

}  // namespace weir
