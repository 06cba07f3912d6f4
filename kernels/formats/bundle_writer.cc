#include "kernels/formats/bundle_writer.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/crc32c.h"
#include "kernels/formats/table_encoding.h"

namespace weir {
namespace {

// Bytes are checksummed and written piece by piece, so that the second pass finds them in the cache.
constexpr size_t kPieceBytes = 512 << 10;
constexpr int kNoneKept = 0;  // of RemoveShards: no checkpoint has that many shards

absl::Status CheckCanBeSaved(absl::string_view name, const Tensor& tensor) {
  if (name.empty()) return absl::InvalidArgumentError("a tensor in a checkpoint needs a name");
  if (tensor.is_valid() && (IsPlainBytes(tensor.dtype()) || tensor.dtype() == DType::kString)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot save '", name, "': a checkpoint holds no tensors of dtype ", DTypeName(tensor.dtype())));
}

// Whether that is a shard of the checkpoint; then of how many.
bool IsShard(const std::string& name, const std::string& prefix, int* num_shards) {
  int shard = 0;
  absl::string_view rest = name;
  return absl::ConsumePrefix(&rest, absl::StrCat(FileNameOf(prefix), ".data-")) && rest.size() == 14 &&
         absl::SimpleAtoi(rest.substr(0, 5), &shard) && rest.substr(5, 4) == "-of-" &&
         absl::SimpleAtoi(rest.substr(9), num_shards);
}

// The least from `wanted` on of which there is no shard, where there is a checkpoint: its files must stay as
// they are until the new index has replaced theirs. Others may be those that a writer which was stopped, and
// replaced, is about to remove when it wakes up: it must not find the new ones there. (A save that ends well
// removes all but its own.)
int UnusedNumShards(FileSystem& files, const std::string& prefix, int wanted) {
  const std::string path = BundleIndexPath(prefix);
  const absl::StatusOr<std::string> bytes = ReadWholeFile(files, path);
  if (!bytes.ok()) return wanted;
  std::set<int> used;
  if (const absl::StatusOr<BundleIndex> index = BundleIndex::Parse(*bytes, path); index.ok()) {
    used.insert(index->num_shards);
  }
  const absl::StatusOr<std::vector<std::string>> names = files.ListDirectory(DirectoryOf(prefix));
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (int num_shards = 0; IsShard(name, prefix, &num_shards)) used.insert(num_shards);
  }
  while (used.count(wanted) > 0) ++wanted;
  return wanted;
}

// Tools of others expect as many files as the index says.
absl::Status CreateEmptyShards(FileSystem& files, const std::string& prefix, int begin, int num_shards) {
  for (int shard = begin; shard < num_shards; ++shard) {
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                          files.Create(BundleShardPath(prefix, shard, num_shards)));
    WEIR_RETURN_IF_ERROR(file->Close());
  }
  return absl::OkStatus();
}

// Those that are not of num_shards. What cannot be removed is only lost disk space.
void RemoveShards(FileSystem& files, const std::string& prefix, int except_of_num_shards) {
  const std::string folder = DirectoryOf(prefix);
  const absl::StatusOr<std::vector<std::string>> names = files.ListDirectory(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    int num_shards = 0;
    if (!IsShard(name, prefix, &num_shards) || num_shards == except_of_num_shards) continue;
    files.Remove(JoinPath(folder, name)).IgnoreError();
  }
}

}  // namespace

BundleWriter::BundleWriter(const std::string& prefix, const Options& options)
    : prefix_(prefix),
      options_(options),
      index_path_(BundleIndexPath(prefix)),
      temporary_data_path_(TemporaryPathFor(BundleShardPath(prefix, 0, 1))),
      temporary_index_path_(TemporaryPathFor(index_path_)) {}

absl::StatusOr<std::unique_ptr<BundleWriter>> BundleWriter::Create(const std::string& prefix,
                                                                   const Options& options) {
  if (FileNameOf(prefix).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", prefix, "' names no checkpoint: it is empty or a folder"));
  }
  std::unique_ptr<BundleWriter> writer(new BundleWriter(prefix, options));
  const std::string folder = DirectoryOf(prefix);
  WEIR_RETURN_IF_ERROR(options.sync ? CreateDurableDirectories(*options.file_system, folder)
                                    : options.file_system->CreateDirectories(folder));
  WEIR_ASSIGN_OR_RETURN(writer->data_, options.file_system->Create(writer->temporary_data_path_));
  return writer;
}

BundleWriter::~BundleWriter() {
  if (is_finished_) return;
  data_.reset();
  options_.file_system->Remove(temporary_data_path_).IgnoreError();
  options_.file_system->Remove(temporary_index_path_).IgnoreError();
}

absl::Status BundleWriter::Append(const void* bytes, size_t num_bytes, uint32_t* crc) {
  const char* position = static_cast<const char*>(bytes);
  for (size_t done = 0; done < num_bytes;) {
    const size_t piece = std::min(num_bytes - done, kPieceBytes);
    *crc = ExtendCrc32c(*crc, position + done, piece);
    error_ = data_->Append({position + done, piece});
    if (!error_.ok()) return error_;
    done += piece;
  }
  data_bytes_ += num_bytes;
  return absl::OkStatus();
}

absl::Status BundleWriter::AppendPlain(const Tensor& tensor, uint32_t* crc) {
  return Append(tensor.data(), tensor.num_bytes(), crc);
}

absl::Status BundleWriter::AppendStrings(const Tensor& tensor, uint32_t* crc) {
  std::string lengths;
  uint32_t lengths_crc = 0;
  for (const std::string& value : tensor.flat<std::string>()) {
    AppendVarint(value.size(), &lengths);
    // The checksum covers the lengths as words, not as varints.
    const uint64_t length = value.size();
    lengths_crc = ExtendCrc32c(lengths_crc, &length, length <= UINT32_MAX ? 4 : 8);
  }
  uint32_t varints_crc = 0;  // the varints themselves are covered by the words above
  WEIR_RETURN_IF_ERROR(Append(lengths.data(), lengths.size(), &varints_crc));
  const uint32_t masked = MaskCrc32c(lengths_crc);
  *crc = lengths_crc;
  WEIR_RETURN_IF_ERROR(Append(&masked, sizeof(masked), crc));
  for (const std::string& value : tensor.flat<std::string>()) {
    WEIR_RETURN_IF_ERROR(Append(value.data(), value.size(), crc));
  }
  return absl::OkStatus();
}

absl::Status BundleWriter::AddUnderKey(const std::string& key, const Tensor& tensor) {
  if (!error_.ok()) return error_;
  if (is_finished_)
    return absl::FailedPreconditionError(absl::StrCat("the checkpoint ", prefix_, " is finished"));
  BundleEntry entry;
  entry.dtype = tensor.dtype();
  entry.shape = tensor.shape();
  entry.offset = data_bytes_;
  uint32_t crc = 0;
  WEIR_RETURN_IF_ERROR(tensor.dtype() == DType::kString ? AppendStrings(tensor, &crc)
                                                        : AppendPlain(tensor, &crc));
  entry.num_bytes = data_bytes_ - entry.offset;
  entry.masked_crc = MaskCrc32c(crc);
  index_.entries.emplace(key, std::move(entry));
  return absl::OkStatus();
}

absl::Status BundleWriter::Add(absl::string_view name, const Tensor& tensor) {
  WEIR_RETURN_IF_ERROR(CheckCanBeSaved(name, tensor));
  const std::string key(name);
  if (index_.entries.count(key) > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint ", prefix_, " already has a tensor '", name, "'"));
  }
  return AddUnderKey(key, tensor);
}

absl::Status BundleWriter::AddSlice(absl::string_view name, const Shape& full_shape, const TensorSlice& slice,
                                    const Tensor& tensor) {
  WEIR_RETURN_IF_ERROR(CheckCanBeSaved(name, tensor));
  WEIR_ASSIGN_OR_RETURN(const TensorSlice box, slice.WithinShape(full_shape));
  if (!(box.shape() == tensor.shape())) {
    return absl::InvalidArgumentError(absl::StrCat("cannot save slice ", slice.ToString(), " of '", name,
                                                   "' ", full_shape.ToString(), ": the tensor has the shape ",
                                                   tensor.shape().ToString()));
  }
  const std::string slice_key = slice.KeyFor(name);
  BundleEntry full;
  full.dtype = tensor.dtype();
  full.shape = full_shape;
  BundleEntry& known = index_.entries.emplace(std::string(name), full).first->second;
  const bool is_new = known.slices.empty() && known.num_bytes == 0 && known.masked_crc == 0;
  if ((!is_new && known.slices.empty()) || known.dtype != full.dtype || !(known.shape == full_shape) ||
      index_.entries.count(slice_key) > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot save slice ", slice.ToString(), " of '", name, "' as ", TypeString(full.dtype, full_shape),
        ": the checkpoint has that slice or the whole already, or another "
        "type: ",
        TypeString(known.dtype, known.shape)));
  }
  known.slices.push_back(slice);
  return AddUnderKey(slice_key, tensor);
}

absl::Status BundleWriter::WriteIndex() {
  WEIR_ASSIGN_OR_RETURN(const std::string index, index_.Serialize());
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                        options_.file_system->Create(temporary_index_path_));
  WEIR_RETURN_IF_ERROR(file->Append(index));
  WEIR_RETURN_IF_ERROR(options_.sync ? file->Sync() : file->Flush());
  return file->Close();
}

absl::Status BundleWriter::SyncFolder() {
  return options_.sync ? options_.file_system->SyncDirectory(DirectoryOf(prefix_)) : absl::OkStatus();
}

absl::Status BundleWriter::WriteAndRename() {
  FileSystem& files = *options_.file_system;
  WEIR_RETURN_IF_ERROR(options_.sync ? data_->Sync() : data_->Flush());
  WEIR_RETURN_IF_ERROR(data_->Close());
  index_.num_shards = UnusedNumShards(files, prefix_, 1);
  WEIR_RETURN_IF_ERROR(WriteIndex());
  WEIR_RETURN_IF_ERROR(files.Rename(temporary_data_path_, BundleShardPath(prefix_, 0, index_.num_shards)));
  WEIR_RETURN_IF_ERROR(CreateEmptyShards(files, prefix_, 1, index_.num_shards));
  // The disk may keep the index's new name and lose the shard's unless that one is safe first.
  WEIR_RETURN_IF_ERROR(SyncFolder());
  WEIR_RETURN_IF_ERROR(files.Rename(temporary_index_path_, index_path_));
  WEIR_RETURN_IF_ERROR(SyncFolder());
  RemoveShards(files, prefix_, index_.num_shards);
  return absl::OkStatus();
}

absl::Status BundleWriter::Finish() {
  if (!error_.ok()) return error_;
  if (is_finished_) return absl::OkStatus();
  error_ = WriteAndRename();
  is_finished_ = error_.ok();
  return error_;
}

namespace {

absl::Status MergeEntry(const std::string& key, const BundleEntry& entry, const std::string& prefix,
                        BundleIndex* merged) {
  const auto [place, is_new] = merged->entries.emplace(key, entry);
  if (is_new) return absl::OkStatus();
  BundleEntry& known = place->second;
  if (entry.slices.empty() || known.slices.empty() || known.dtype != entry.dtype ||
      !(known.shape == entry.shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot merge checkpoint ", prefix, ": another one has the tensor '", key, "' too"));
  }
  known.slices.insert(known.slices.end(), entry.slices.begin(), entry.slices.end());
  return absl::OkStatus();
}

}  // namespace

absl::Status MergeBundles(const std::vector<std::string>& prefixes, const std::string& merged_prefix,
                          FileSystem& file_system) {
  BundleIndex merged;
  merged.num_shards = 0;
  std::vector<std::string> shards;  // the files of the parts, in the order of their new numbers
  for (const std::string& prefix : prefixes) {
    WEIR_ASSIGN_OR_RETURN(const std::string file, ReadWholeFile(file_system, BundleIndexPath(prefix)));
    WEIR_ASSIGN_OR_RETURN(const BundleIndex part, BundleIndex::Parse(file, BundleIndexPath(prefix)));
    for (auto [key, entry] : part.entries) {
      entry.shard += merged.num_shards;
      WEIR_RETURN_IF_ERROR(MergeEntry(key, entry, prefix, &merged));
    }
    for (int shard = 0; shard < part.num_shards; ++shard) {
      shards.push_back(BundleShardPath(prefix, shard, part.num_shards));
    }
    merged.num_shards += part.num_shards;
  }
  if (shards.empty()) return absl::InvalidArgumentError("no checkpoints to merge");
  const std::string folder = DirectoryOf(merged_prefix);
  WEIR_RETURN_IF_ERROR(CreateDurableDirectories(file_system, folder));
  merged.num_shards = UnusedNumShards(file_system, merged_prefix, merged.num_shards);
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    WEIR_RETURN_IF_ERROR(file_system.Rename(
        shards[shard], BundleShardPath(merged_prefix, static_cast<int>(shard), merged.num_shards)));
  }
  WEIR_RETURN_IF_ERROR(
      CreateEmptyShards(file_system, merged_prefix, static_cast<int>(shards.size()), merged.num_shards));
  WEIR_RETURN_IF_ERROR(file_system.SyncDirectory(folder));
  WEIR_ASSIGN_OR_RETURN(const std::string content, merged.Serialize());
  WEIR_RETURN_IF_ERROR(WriteFileAtomically(file_system, BundleIndexPath(merged_prefix), content));
  RemoveShards(file_system, merged_prefix, merged.num_shards);
  for (const std::string& prefix : prefixes) {
    if (prefix != merged_prefix) file_system.Remove(BundleIndexPath(prefix)).IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status RemoveBundle(const std::string& prefix, FileSystem& file_system) {
  const absl::Status removed = file_system.Remove(BundleIndexPath(prefix));
  if (removed.ok() || absl::IsNotFound(removed)) RemoveShards(file_system, prefix, kNoneKept);
  return removed;
}

}  // namespace weir
