#include "kernels/formats/bundle_index.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "graph/interchange/proto/checkpoint.pb.h"
#include "graph/interchange/tensor_proto.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/sorted_table.h"

namespace weir {
namespace {

using ::tensorflow::BundleEntryProto;
using ::tensorflow::BundleHeaderProto;

constexpr int kBundleVersion = 1;
constexpr int kMaxShards = 99999;  // five digits in the files' names

absl::StatusOr<int> ParseHeader(const std::string& bytes, const std::string& path) {
  BundleHeaderProto header;
  if (!header.ParseFromString(bytes) || header.num_shards() < 1 || header.num_shards() > kMaxShards) {
    return absl::DataLossError(absl::StrCat(path, " has a malformed checkpoint header"));
  }
  if (header.endianness() != BundleHeaderProto::LITTLE || header.version().min_consumer() > kBundleVersion) {
    return absl::UnimplementedError(
        absl::StrCat(path, " was written by a big-endian machine or in a later version of the format"));
  }
  return header.num_shards();
}

absl::StatusOr<TensorSlice> ParseSlice(const tensorflow::TensorSliceProto& proto, const Shape& shape) {
  TensorSlice slice;
  for (const auto& extent : proto.extent()) {
    const bool has_length =
        extent.has_length_hack_case() != tensorflow::TensorSliceProto::Extent::HAS_LENGTH_HACK_NOT_SET;
    slice.extents.push_back({extent.start(), has_length ? extent.length() : TensorSlice::Extent::kAll});
  }
  WEIR_RETURN_IF_ERROR(slice.WithinShape(shape).status());
  return slice;
}

absl::Status CheckByteRange(const BundleEntryProto& proto, const BundleEntry& entry, int num_shards) {
  if (proto.shard_id() < 0 || proto.shard_id() >= num_shards || proto.offset() < 0 || proto.size() < 0 ||
      proto.offset() > INT64_MAX - proto.size()) {
    return absl::DataLossError("its bytes lie in no shard");
  }
  if (!entry.slices.empty() || !entry.foreign_dtype.empty()) return absl::OkStatus();
  if (entry.dtype == DType::kString) {
    // Every string takes a byte at least (its length), which bounds what a damaged shape can make a reader
    // allocate.
    if (entry.shape.num_elements() <= proto.size()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(proto.size(), " bytes are too short for ", entry.shape.ToString()));
  }
  int64_t num_bytes = 0;
  if (MultiplyWithoutOverflow(entry.shape.num_elements(), DTypeSize(entry.dtype), &num_bytes) &&
      num_bytes == proto.size()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("it has ", proto.size(), " bytes"));
}

absl::StatusOr<BundleEntry> ParseEntry(const std::string& bytes, int num_shards) {
  BundleEntryProto proto;
  if (!proto.ParseFromString(bytes)) return absl::DataLossError("its record does not parse");
  BundleEntry entry;
  WEIR_ASSIGN_OR_RETURN(entry.shape, ShapeFromProto(proto.shape()));
  const DType dtype = static_cast<DType>(proto.dtype());
  // Handles and variants are objects of a process: no file may claim to hold their bytes.
  if (IsKnownDType(proto.dtype()) && (IsPlainBytes(dtype) || dtype == DType::kString)) {
    entry.dtype = dtype;
  } else {
    entry.foreign_dtype = tensorflow::DataType_Name(proto.dtype());
    if (entry.foreign_dtype.empty())
      entry.foreign_dtype = absl::StrCat("dtype ", static_cast<int>(proto.dtype()));
  }
  for (const auto& slice : proto.slices()) {
    entry.slices.emplace_back();
    WEIR_ASSIGN_OR_RETURN(entry.slices.back(), ParseSlice(slice, entry.shape));
  }
  WEIR_RETURN_IF_ERROR(CheckByteRange(proto, entry, num_shards));
  entry.shard = proto.shard_id();
  entry.offset = proto.offset();
  entry.num_bytes = proto.size();
  entry.masked_crc = proto.crc32c();
  return entry;
}

std::string SerializeEntry(const BundleEntry& entry) {
  BundleEntryProto proto;
  proto.set_dtype(static_cast<tensorflow::DataType>(entry.dtype));
  ShapeToProto(entry.shape, proto.mutable_shape());
  proto.set_shard_id(entry.shard);
  proto.set_offset(static_cast<int64_t>(entry.offset));
  proto.set_size(static_cast<int64_t>(entry.num_bytes));
  proto.set_crc32c(entry.masked_crc);
  for (const TensorSlice& slice : entry.slices) {
    auto* slice_proto = proto.add_slices();
    for (const TensorSlice::Extent& extent : slice.extents) {
      auto* extent_proto = slice_proto->add_extent();
      extent_proto->set_start(extent.start);
      if (extent.length != TensorSlice::Extent::kAll) extent_proto->set_length(extent.length);
    }
  }
  return proto.SerializeAsString();
}

}  // namespace

absl::StatusOr<BundleIndex> BundleIndex::Parse(absl::string_view file, const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const SortedTable table, SortedTable::Parse(file, path));
  const std::string* header = table.Find("");
  if (header == nullptr)
    return absl::DataLossError(absl::StrCat(path, " is no checkpoint: it has no header"));
  BundleIndex index;
  WEIR_ASSIGN_OR_RETURN(index.num_shards, ParseHeader(*header, path));
  for (const auto& [key, value] : table.entries()) {
    if (key.empty()) continue;
    absl::StatusOr<BundleEntry> entry = ParseEntry(value, index.num_shards);
    if (!entry.ok()) {
      return absl::DataLossError(absl::StrCat(path, ": the entry of tensor '", absl::CHexEscape(key),
                                              "' is malformed: ", entry.status().message()));
    }
    index.entries.emplace_hint(index.entries.end(), key, *std::move(entry));
  }
  return index;
}

absl::StatusOr<std::string> BundleIndex::Serialize() const {
  BundleHeaderProto header;
  header.set_num_shards(num_shards);
  header.mutable_version()->set_producer(kBundleVersion);
  SortedTableBuilder builder;
  WEIR_RETURN_IF_ERROR(builder.Add("", header.SerializeAsString()));
  for (const auto& [key, entry] : entries) WEIR_RETURN_IF_ERROR(builder.Add(key, SerializeEntry(entry)));
  return builder.Finish();
}

std::string BundleIndexPath(absl::string_view prefix) { return absl::StrCat(prefix, ".index"); }

std::string BundleShardPath(absl::string_view prefix, int shard, int num_shards) {
  return absl::StrFormat("%s.data-%05d-of-%05d", prefix, shard, num_shards);
}

}  // namespace weir
