#include "kernels/formats/bundle_reader.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/crc32c.h"
#include "kernels/formats/memory_probe.h"
#include "kernels/formats/table_encoding.h"

namespace weir {
namespace {

// Read and checksummed piece by piece, so that the checksum finds the bytes in the cache.
constexpr size_t kPieceBytes = 512 << 10;
// What one thread reads of a tensor before another may.
constexpr uint64_t kSharedBytes = 4 << 20;
// Of an index that is another one each time.
constexpr int kMostReads = 5;
// Every pair of slices is compared.
constexpr size_t kMaxSlices = 4096;

// Copies or assigns the overlap of two boxes; strings are objects, everything else bytes.
int64_t CopyElements(const TensorSlice& from_box, const Tensor& from, const TensorSlice& to_box, Tensor* to) {
  if (from.dtype() != DType::kString) {
    return CopyOverlap(from_box, static_cast<const char*>(from.data()), to_box,
                       static_cast<char*>(to->data()), DTypeSize(from.dtype()));
  }
  // Copies the positions of the strings instead, with the same code.
  std::vector<int64_t> sources(from.num_elements());
  for (size_t i = 0; i < sources.size(); ++i) sources[i] = static_cast<int64_t>(i);
  std::vector<int64_t> targets(to->num_elements(), -1);
  const int64_t copied = CopyOverlap(from_box, reinterpret_cast<const char*>(sources.data()), to_box,
                                     reinterpret_cast<char*>(targets.data()), sizeof(int64_t));
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] >= 0) to->flat<std::string>()[i] = from.flat<std::string>()[targets[i]];
  }
  return copied;
}

// Names that end in the same last part, or else the first few.
std::string SimilarNames(absl::string_view name, const std::vector<std::string>& names) {
  const absl::string_view last_part = name.substr(name.rfind('/') + 1);
  std::vector<absl::string_view> similar;
  for (const std::string& candidate : names) {
    if (absl::StrContains(candidate, last_part) && similar.size() < 5) similar.push_back(candidate);
  }
  for (size_t i = 0; similar.empty() && i < std::min<size_t>(names.size(), 5); ++i)
    similar.push_back(names[i]);
  return absl::StrCat("it has ", names.size(), " tensors, among them ", absl::StrJoin(similar, ", "));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BundleReader>> BundleReader::Open(const std::string& prefix,
                                                                 FileSystem& file_system) {
  const std::string path = BundleIndexPath(prefix);
  std::string before;
  for (int reads_left = kMostReads;; --reads_left) {
    absl::StatusOr<std::string> file = ReadWholeFile(file_system, path);
    if (absl::IsNotFound(file.status())) {
      return absl::NotFoundError(
          absl::StrCat("there is no checkpoint ", prefix, ": ", file.status().message()));
    }
    WEIR_RETURN_IF_ERROR(file.status());
    const auto open = [&]() -> absl::StatusOr<std::unique_ptr<BundleReader>> {
      WEIR_ASSIGN_OR_RETURN(BundleIndex index, BundleIndex::Parse(*file, path));
      std::unique_ptr<BundleReader> reader(new BundleReader(prefix, std::move(index)));
      WEIR_RETURN_IF_ERROR(reader->OpenShards(file_system));
      reader->CollectNames();
      return reader;
    };
    absl::StatusOr<std::unique_ptr<BundleReader>> reader = open();
    // Saved again under its name since its index was read, it has another index, and other files.
    if (!absl::IsDataLoss(reader.status()) || *file == before || reads_left == 1) return reader;
    before = *std::move(file);
  }
}

absl::Status BundleReader::OpenShards(FileSystem& file_system) {
  shards_.resize(index_.num_shards);
  for (const auto& [key, entry] : index_.entries) {
    if (!entry.slices.empty()) continue;
    std::unique_ptr<ReadableFile>& shard = shards_[entry.shard];
    if (shard == nullptr) {
      const std::string path = BundleShardPath(prefix_, entry.shard, index_.num_shards);
      absl::StatusOr<std::unique_ptr<ReadableFile>> file = file_system.OpenForReading(path);
      if (absl::IsNotFound(file.status())) {
        return absl::DataLossError(
            absl::StrCat("the checkpoint ", prefix_, " lacks a file: ", file.status().message()));
      }
      WEIR_RETURN_IF_ERROR(file.status());
      shard = *std::move(file);
    }
    if (entry.offset + entry.num_bytes > shard->num_bytes()) {
      return Damaged(key, entry,
                     absl::StrCat("the file is truncated: it has ", shard->num_bytes(), " bytes, ",
                                  entry.offset + entry.num_bytes, " are needed"));
    }
  }
  return absl::OkStatus();
}

void BundleReader::CollectNames() {
  std::set<absl::string_view> slice_keys;
  std::vector<std::string> made_keys;
  for (const auto& [name, entry] : index_.entries) {
    for (const TensorSlice& slice : entry.slices) made_keys.push_back(slice.KeyFor(name));
  }
  slice_keys.insert(made_keys.begin(), made_keys.end());
  for (const auto& [name, entry] : index_.entries) {
    if (slice_keys.count(name) == 0) names_.push_back(name);
  }
}

const BundleEntry* BundleReader::Find(absl::string_view name) const {
  const auto place = index_.entries.find(std::string(name));
  return place == index_.entries.end() ? nullptr : &place->second;
}

absl::StatusOr<const BundleEntry*> BundleReader::Lookup(absl::string_view name) const {
  const BundleEntry* entry = Find(name);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("the checkpoint ", prefix_, " has no tensor '", name, "'; ",
                                            SimilarNames(name, names_)));
  }
  if (entry->foreign_dtype.empty()) return entry;
  return absl::UnimplementedError(absl::StrCat("the tensor '", name, "' in the checkpoint ", prefix_,
                                               " has the dtype ", entry->foreign_dtype,
                                               ", which Weir lacks"));
}

absl::Status BundleReader::Damaged(absl::string_view name, const BundleEntry& entry,
                                   absl::string_view problem) const {
  return absl::DataLossError(absl::StrCat(BundleShardPath(prefix_, entry.shard, index_.num_shards),
                                          ": tensor '", name, "' at bytes [", entry.offset, ", ",
                                          entry.offset + entry.num_bytes, "): ", problem));
}

absl::Status BundleReader::ReadPlain(absl::string_view name, const BundleEntry& entry, Tensor* tensor) const {
  uint32_t crc = 0;
  WEIR_RETURN_IF_ERROR(ReadBytes(entry, 0, entry.num_bytes, static_cast<char*>(tensor->data()), &crc));
  return CheckPlain(name, entry, *tensor, crc);
}

absl::Status BundleReader::ReadBytes(const BundleEntry& entry, uint64_t begin, uint64_t num_bytes, char* to,
                                     uint32_t* crc) const {
  *crc = 0;
  for (uint64_t done = 0; done < num_bytes;) {
    const size_t piece = std::min<uint64_t>(num_bytes - done, kPieceBytes);
    WEIR_RETURN_IF_ERROR(shards_[entry.shard]->ReadExactly(entry.offset + begin + done, piece, to + done));
    *crc = ExtendCrc32c(*crc, to + done, piece);
    done += piece;
  }
  return absl::OkStatus();
}

absl::Status BundleReader::CheckPlain(absl::string_view name, const BundleEntry& entry, const Tensor& tensor,
                                      uint32_t crc) const {
  if (crc != UnmaskCrc32c(entry.masked_crc)) return Damaged(name, entry, "is damaged (its checksum differs)");
  const char* const bytes = static_cast<const char*>(tensor.data());
  if (entry.dtype == DType::kBool &&
      std::any_of(bytes, bytes + entry.num_bytes, [](char c) { return c != 0 && c != 1; })) {
    return Damaged(name, entry, "has a bool that is neither 0 nor 1");
  }
  return absl::OkStatus();
}

absl::Status BundleReader::ReadStrings(absl::string_view name, const BundleEntry& entry,
                                       Tensor* tensor) const {
  WEIR_RETURN_IF_ERROR(ProbeMemory(absl::StrCat(prefix_, ": tensor '", name, "'"), entry.num_bytes));
  std::string bytes(entry.num_bytes, '\0');
  WEIR_RETURN_IF_ERROR(shards_[entry.shard]->ReadExactly(entry.offset, bytes.size(), bytes.data()));
  absl::string_view rest = bytes;
  std::vector<uint64_t> lengths(tensor->num_elements());
  uint32_t crc = 0;
  for (uint64_t& length : lengths) {
    if (!TakeVarint(&rest, &length) || length > bytes.size())
      return Damaged(name, entry, "has damaged lengths");
    crc = ExtendCrc32c(crc, &length, length <= UINT32_MAX ? 4 : 8);
  }
  if (rest.size() < 4 || UnmaskCrc32c(LoadFixed32(rest.data())) != crc) {
    return Damaged(name, entry, "has damaged lengths (their checksum differs)");
  }
  if (ExtendCrc32c(crc, rest.data(), rest.size()) != UnmaskCrc32c(entry.masked_crc)) {
    return Damaged(name, entry, "is damaged (its checksum differs)");
  }
  rest.remove_prefix(4);
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > rest.size()) return Damaged(name, entry, "has damaged lengths");
    tensor->flat<std::string>()[i] = std::string(rest.substr(0, lengths[i]));
    rest.remove_prefix(lengths[i]);
  }
  return rest.empty() ? absl::OkStatus() : Damaged(name, entry, "has bytes that belong to no string");
}

absl::Status BundleReader::ReadBox(absl::string_view name, const BundleEntry& entry, const TensorSlice& box,
                                   Tensor* tensor) const {
  int64_t num_copied = 0;
  for (const TensorSlice& slice : entry.slices) {
    const std::string key = slice.KeyFor(name);
    WEIR_ASSIGN_OR_RETURN(const TensorSlice part_box, slice.WithinShape(entry.shape));
    const BundleEntry* part_entry = Find(key);
    WEIR_ASSIGN_OR_RETURN(Tensor part, Tensor::Allocate(entry.dtype, part_entry->shape));
    WEIR_RETURN_IF_ERROR(ReadEntry(absl::StrCat(name, " ", slice.ToString()), *part_entry, &part));
    num_copied += CopyElements(part_box, part, box, tensor);
  }
  // CheckSlices has seen that they cover the tensor without overlap; this is a second pair of eyes.
  if (num_copied == tensor->num_elements()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the slices of tensor '", name, "' in the checkpoint ", prefix_,
                                          " cover ", num_copied, " of ", tensor->num_elements(),
                                          " elements of ", box.ToString()));
}

absl::Status BundleReader::ReadEntry(absl::string_view name, const BundleEntry& entry, Tensor* tensor) const {
  if (!entry.slices.empty()) return ReadBox(name, entry, TensorSlice::WholeOf(entry.shape), tensor);
  if (entry.dtype == DType::kString) return ReadStrings(name, entry, tensor);
  return ReadPlain(name, entry, tensor);
}

absl::Status BundleReader::CheckSlices(absl::string_view name, const BundleEntry& entry) const {
  if (entry.slices.empty()) return absl::OkStatus();
  const auto wrong = [&](absl::string_view problem) {
    return absl::DataLossError(absl::StrCat("the tensor '", name, "' ", TypeString(entry.dtype, entry.shape),
                                            " in the checkpoint ", prefix_, " ", problem));
  };
  if (entry.slices.size() > kMaxSlices) return wrong(absl::StrCat("has ", entry.slices.size(), " slices"));
  int64_t num_elements = 0;
  std::vector<TensorSlice> boxes;
  for (const TensorSlice& slice : entry.slices) {
    WEIR_ASSIGN_OR_RETURN(const TensorSlice box, slice.WithinShape(entry.shape));
    const BundleEntry* part = Find(slice.KeyFor(name));
    const bool is_right =
        part != nullptr && part->dtype == entry.dtype && part->slices.empty() && part->shape == box.shape();
    if (!is_right)
      return wrong(absl::StrCat("lacks its slice ", slice.ToString(), ", or it has another type"));
    for (const TensorSlice& other : boxes) {
      if (box.Overlaps(other)) return wrong(absl::StrCat("has slices that overlap: ", slice.ToString()));
    }
    boxes.push_back(box);
    num_elements += part->shape.num_elements();
  }
  if (num_elements == entry.shape.num_elements()) return absl::OkStatus();
  return wrong(
      absl::StrCat("has slices that have ", num_elements, " of ", entry.shape.num_elements(), " elements"));
}

absl::StatusOr<Tensor> BundleReader::Read(absl::string_view name, Allocator& allocator) const {
  WEIR_ASSIGN_OR_RETURN(const BundleEntry* entry, Lookup(name));
  WEIR_RETURN_IF_ERROR(CheckSlices(name, *entry));
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(entry->dtype, entry->shape, allocator));
  WEIR_RETURN_IF_ERROR(ReadEntry(name, *entry, &tensor));
  return tensor;
}

absl::StatusOr<Tensor> BundleReader::ReadSlice(absl::string_view name, const TensorSlice& slice,
                                               Allocator& allocator) const {
  WEIR_ASSIGN_OR_RETURN(const BundleEntry* entry, Lookup(name));
  WEIR_ASSIGN_OR_RETURN(const TensorSlice box, slice.WithinShape(entry->shape));
  if (box == TensorSlice::WholeOf(entry->shape)) return Read(name, allocator);
  if (entry->slices.empty()) {
    // The checksum covers the whole tensor, so all of it is read.
    WEIR_ASSIGN_OR_RETURN(const Tensor whole, Read(name, allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(entry->dtype, box.shape(), allocator));
    CopyElements(TensorSlice::WholeOf(entry->shape), whole, box, &tensor);
    return tensor;
  }
  WEIR_RETURN_IF_ERROR(CheckSlices(name, *entry));
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(entry->dtype, box.shape(), allocator));
  WEIR_RETURN_IF_ERROR(ReadBox(name, *entry, box, &tensor));
  return tensor;
}

absl::StatusOr<Tensor> BundleReader::ReadRows(absl::string_view name, int64_t first, int64_t count,
                                              Allocator& allocator) const {
  WEIR_ASSIGN_OR_RETURN(const BundleEntry* entry, Lookup(name));
  if (entry->shape.rank() == 0)
    return absl::InvalidArgumentError(absl::StrCat("the tensor '", name, "' is a scalar: it has no rows"));
  TensorSlice rows = TensorSlice::WholeOf(entry->shape);
  rows.extents[0] = {first, count};
  WEIR_ASSIGN_OR_RETURN(const TensorSlice box, rows.WithinShape(entry->shape));
  const bool is_plain = entry->slices.empty() && entry->dtype != DType::kString;
  if (!is_plain || entry->num_bytes == 0) return ReadSlice(name, box, allocator);
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(entry->dtype, box.shape(), allocator));
  const uint64_t row_bytes = entry->num_bytes / entry->shape.dim(0);
  uint32_t crc = 0;
  WEIR_RETURN_IF_ERROR(
      ReadBytes(*entry, first * row_bytes, count * row_bytes, static_cast<char*>(tensor.data()), &crc));
  return tensor;
}

absl::Status BundleReader::ReadAll(absl::Span<Wanted> wanted, ParallelFor parallel_for,
                                   Allocator& allocator) const {
  struct Piece {
    Wanted* wanted;
    const BundleEntry* plain;  // null: a tensor that is read in one go
    uint64_t begin, num_bytes;
    uint32_t crc;
    absl::Status status;
  };
  std::vector<Piece> pieces;
  for (Wanted& one : wanted) {
    WEIR_ASSIGN_OR_RETURN(const BundleEntry* entry, Lookup(one.name));
    const bool is_plain = entry->slices.empty() && entry->dtype != DType::kString;
    if (one.slice || !is_plain || entry->num_bytes == 0) {
      pieces.push_back({&one, nullptr, 0, 0, 0, absl::OkStatus()});
      continue;
    }
    WEIR_ASSIGN_OR_RETURN(one.tensor, Tensor::Allocate(entry->dtype, entry->shape, allocator));
    for (uint64_t begin = 0; begin < entry->num_bytes; begin += kSharedBytes) {
      pieces.push_back(
          {&one, entry, begin, std::min(kSharedBytes, entry->num_bytes - begin), 0, absl::OkStatus()});
    }
  }
  std::atomic<bool> has_failed{false};
  const auto read = [&](Piece& piece) -> absl::Status {
    Wanted& one = *piece.wanted;
    if (piece.plain != nullptr) {
      return ReadBytes(*piece.plain, piece.begin, piece.num_bytes,
                       static_cast<char*>(one.tensor.data()) + piece.begin, &piece.crc);
    }
    WEIR_ASSIGN_OR_RETURN(one.tensor,
                          one.slice ? ReadSlice(one.name, *one.slice, allocator) : Read(one.name, allocator));
    return absl::OkStatus();
  };
  // All threads take from the front, so that the file is read from its beginning to its end.
  std::atomic<size_t> next{0};
  parallel_for(static_cast<int64_t>(pieces.size()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !has_failed; ++i) {
      Piece& piece = pieces[next.fetch_add(1)];
      piece.status = read(piece);
      if (!piece.status.ok()) has_failed = true;
    }
  });
  uint32_t crc = 0;
  for (const Piece& piece : pieces) {
    WEIR_RETURN_IF_ERROR(piece.status);
    if (piece.plain == nullptr || has_failed) continue;
    crc = piece.begin == 0 ? piece.crc : ConcatenateCrc32c(crc, piece.crc, piece.num_bytes);
    if (piece.begin + piece.num_bytes < piece.plain->num_bytes) continue;
    WEIR_RETURN_IF_ERROR(CheckPlain(piece.wanted->name, *piece.plain, piece.wanted->tensor, crc));
  }
  return absl::OkStatus();
}

absl::Status BundleReader::ReadInto(absl::string_view name, Tensor* tensor) const {
  WEIR_ASSIGN_OR_RETURN(const BundleEntry* entry, Lookup(name));
  if (entry->dtype != tensor->dtype() || !(entry->shape == tensor->shape())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot restore '", name, "': ", TypeString(tensor->dtype(), tensor->shape()),
        " is wanted, the checkpoint ", prefix_, " has ", TypeString(entry->dtype, entry->shape)));
  }
  WEIR_RETURN_IF_ERROR(CheckSlices(name, *entry));
  return ReadEntry(name, *entry, tensor);
}

absl::Status BundleReader::VerifyTensor(absl::string_view name,
                                        absl::FunctionRef<absl::Status()> may_go_on) const {
  WEIR_ASSIGN_OR_RETURN(const BundleEntry* entry, Lookup(name));
  WEIR_RETURN_IF_ERROR(may_go_on());
  const bool is_plain = entry->slices.empty() && entry->dtype != DType::kString;
  if (!is_plain || entry->dtype == DType::kBool) return Read(name).status();
  std::string piece(std::min<uint64_t>(entry->num_bytes, kPieceBytes), '\0');
  uint32_t crc = 0;
  for (uint64_t done = 0; done < entry->num_bytes;) {
    WEIR_RETURN_IF_ERROR(may_go_on());
    const size_t size = std::min<uint64_t>(entry->num_bytes - done, piece.size());
    WEIR_RETURN_IF_ERROR(shards_[entry->shard]->ReadExactly(entry->offset + done, size, piece.data()));
    crc = ExtendCrc32c(crc, piece.data(), size);
    done += size;
  }
  if (crc == UnmaskCrc32c(entry->masked_crc)) return absl::OkStatus();
  return Damaged(name, *entry, "is damaged (its checksum differs)");
}

absl::Status BundleReader::Verify() const {
  for (const std::string& name : names_) {
    const BundleEntry* entry = Find(name);
    if (entry->foreign_dtype.empty()) WEIR_RETURN_IF_ERROR(Read(name).status());
  }
  return absl::OkStatus();
}

bool BundleExists(const std::string& prefix, FileSystem& file_system) {
  return file_system.Exists(BundleIndexPath(prefix));
}

}  // namespace weir
