#include "kernels/formats/sorted_table.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/crc32c.h"
#include "kernels/formats/memory_probe.h"
#include "kernels/formats/table_encoding.h"
#include "snappy.h"

namespace weir {
namespace {

// Snappy's densest element copies 64 bytes with 3; a larger claim is a lie that would only cost memory.
constexpr size_t kMaxSnappyRatio = 32;

struct BlockHandle {
  uint64_t offset = 0;
  uint64_t num_bytes = 0;
  uint64_t end() const { return offset + num_bytes + kBlockTrailerBytes; }
};

class TableParser {
 public:
  TableParser(absl::string_view file, const std::string& path) : file_(file), path_(path) {}

  absl::StatusOr<std::vector<SortedTable::Entry>> Parse() {
    BlockHandle meta_handle, index_handle;
    WEIR_RETURN_IF_ERROR(ParseFooter(&meta_handle, &index_handle));
    WEIR_ASSIGN_OR_RETURN(const auto meta, ReadBlock(meta_handle));
    if (!meta.empty()) return Damaged(meta_handle.offset, "has an unknown meta block");
    WEIR_ASSIGN_OR_RETURN(const auto index, ReadBlock(index_handle));
    std::vector<SortedTable::Entry> entries;
    // Blocks follow each other without gaps, so that no byte of the file goes unchecked.
    uint64_t expected_offset = 0;
    for (const auto& [last_key, encoded_handle] : index) {
      BlockHandle handle;
      absl::string_view rest = encoded_handle;
      if (!TakeHandle(&rest, &handle) || !rest.empty() || handle.offset != expected_offset) {
        return Damaged(index_handle.offset, "has a damaged index");
      }
      WEIR_RETURN_IF_ERROR(AppendEntries(handle, last_key, &entries));
      expected_offset = handle.end();
    }
    const bool is_tiled = meta_handle.offset == expected_offset && index_handle.offset == meta_handle.end() &&
                          index_handle.end() + kTableFooterBytes == file_.size();
    if (!is_tiled) return Damaged(expected_offset, "has bytes that belong to no block");
    return entries;
  }

 private:
  absl::Status Damaged(uint64_t offset, absl::string_view problem) const {
    return absl::DataLossError(
        absl::StrCat(path_, " ", problem, " (at byte ", offset, " of ", file_.size(), ")"));
  }

  bool TakeHandle(absl::string_view* in, BlockHandle* handle) const {
    return TakeVarint(in, &handle->offset) && TakeVarint(in, &handle->num_bytes) &&
           handle->offset <= file_.size() && handle->num_bytes <= file_.size() &&
           handle->end() <= file_.size();
  }

  absl::Status ParseFooter(BlockHandle* meta_handle, BlockHandle* index_handle) const {
    if (file_.size() < kTableFooterBytes) return Damaged(0, "is too short for a table");
    const uint64_t offset = file_.size() - kTableFooterBytes;
    absl::string_view footer = file_.substr(offset);
    if (LoadFixed64(footer.data() + kTableFooterBytes - 8) != kTableMagic) {
      return Damaged(file_.size() - 8, "is no table, or truncated: its last 8 bytes are not a table's");
    }
    footer.remove_suffix(8);
    const bool has_handles = TakeHandle(&footer, meta_handle) && TakeHandle(&footer, index_handle);
    if (!has_handles || footer.find_first_not_of('\0') != absl::string_view::npos) {
      return Damaged(offset, "has a damaged footer");
    }
    return absl::OkStatus();
  }

  absl::Status AppendEntries(const BlockHandle& handle, const std::string& last_key,
                             std::vector<SortedTable::Entry>* entries) {
    WEIR_ASSIGN_OR_RETURN(std::vector<SortedTable::Entry> block, ReadBlock(handle));
    if (block.empty() || block.back().first > last_key ||
        (!entries->empty() && block.front().first <= entries->back().first)) {
      return Damaged(handle.offset, "has a block whose keys are out of order");
    }
    std::move(block.begin(), block.end(), std::back_inserter(*entries));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<SortedTable::Entry>> ReadBlock(const BlockHandle& handle) {
    const absl::string_view content = file_.substr(handle.offset, handle.num_bytes);
    const absl::string_view trailer = file_.substr(handle.offset + handle.num_bytes, kBlockTrailerBytes);
    const uint32_t crc = ExtendCrc32c(Crc32c(content), trailer.data(), 1);
    if (UnmaskCrc32c(LoadFixed32(trailer.data() + 1)) != crc) {
      return Damaged(handle.offset, "has a damaged block (its checksum differs)");
    }
    if (trailer[0] == kBlockPlain) return ParseBlock(content, handle.offset);
    if (trailer[0] != kBlockSnappy) return Damaged(handle.offset, "has a block of unknown compression");
    size_t num_bytes = 0;
    if (!snappy::GetUncompressedLength(content.data(), content.size(), &num_bytes) ||
        num_bytes > kMaxSnappyRatio * content.size()) {
      return Damaged(handle.offset, "has a block that does not decompress");
    }
    WEIR_RETURN_IF_ERROR(ProbeMemory(path_, num_bytes));
    std::string plain(num_bytes, '\0');
    if (!snappy::RawUncompress(content.data(), content.size(), plain.data())) {
      return Damaged(handle.offset, "has a block that does not decompress");
    }
    return ParseBlock(plain, handle.offset);
  }

  // Restart points serve searching only; the entries are read in order, and only their place is checked.
  absl::StatusOr<std::vector<SortedTable::Entry>> ParseBlock(absl::string_view block, uint64_t offset) {
    if (block.size() < 4) return Damaged(offset, "has a block without restart points");
    const uint64_t num_restarts = LoadFixed32(block.data() + block.size() - 4);
    if (num_restarts > (block.size() - 4) / 4)
      return Damaged(offset, "has a block with too many restart points");
    absl::string_view rest = block.substr(0, block.size() - 4 - 4 * num_restarts);
    std::vector<SortedTable::Entry> entries;
    while (!rest.empty()) {
      std::optional<SortedTable::Entry> entry = TakeEntry(&rest, entries.empty() ? "" : entries.back().first);
      if (!entry || (!entries.empty() && entry->first <= entries.back().first)) {
        return Damaged(offset, "has a block with a malformed entry");
      }
      const size_t num_bytes = sizeof(*entry) + entry->first.size() + entry->second.size();
      if (num_bytes > bytes_left_) return Damaged(offset, "has entries that take too much for its size");
      bytes_left_ -= num_bytes;
      entries.push_back(*std::move(entry));
    }
    return entries;
  }

  static std::optional<SortedTable::Entry> TakeEntry(absl::string_view* in, absl::string_view previous_key) {
    uint64_t num_shared, num_rest, num_value;
    if (!TakeVarint(in, &num_shared) || !TakeVarint(in, &num_rest) || !TakeVarint(in, &num_value) ||
        num_shared > previous_key.size() || num_rest > in->size() || num_value > in->size() - num_rest) {
      return std::nullopt;
    }
    SortedTable::Entry entry{absl::StrCat(previous_key.substr(0, num_shared), in->substr(0, num_rest)),
                             std::string(in->substr(num_rest, num_value))};
    in->remove_prefix(num_rest + num_value);
    return entry;
  }

  const absl::string_view file_;
  const std::string& path_;
  // Of memory. Prefix compression and Snappy let a few hostile bytes stand for many entries; a real one takes
  // some 30 bytes of the file, and shares a few hundred with the key before it.
  size_t bytes_left_ = (1 << 20) + 64 * file_.size();
};

}  // namespace

absl::StatusOr<SortedTable> SortedTable::Parse(absl::string_view file, const std::string& path) {
  SortedTable table;
  WEIR_ASSIGN_OR_RETURN(table.entries_, TableParser(file, path).Parse());
  return table;
}

const std::string* SortedTable::Find(absl::string_view key) const {
  const auto place =
      std::lower_bound(entries_.begin(), entries_.end(), key,
                       [](const Entry& entry, absl::string_view wanted) { return entry.first < wanted; });
  return place != entries_.end() && place->first == key ? &place->second : nullptr;
}

}  // namespace weir
