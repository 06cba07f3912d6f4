#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/formats/crc32c.h"
#include "kernels/formats/sorted_table.h"
#include "kernels/formats/table_encoding.h"
#include "snappy.h"

namespace weir {
namespace {

constexpr int kRestartInterval = 16;

size_t CommonPrefix(absl::string_view a, absl::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + limit, b.begin()).first - a.begin();
}

}  // namespace

void SortedTableBuilder::Block::Add(absl::string_view key, absl::string_view value) {
  size_t shared = 0;
  if (entries_since_restart == kRestartInterval) {
    restarts.push_back(static_cast<uint32_t>(bytes.size()));
    entries_since_restart = 0;
  } else {
    shared = CommonPrefix(last_key, key);
  }
  AppendVarint(shared, &bytes);
  AppendVarint(key.size() - shared, &bytes);
  AppendVarint(value.size(), &bytes);
  absl::StrAppend(&bytes, key.substr(shared), value);
  last_key = std::string(key);
  ++entries_since_restart;
}

std::string SortedTableBuilder::Block::Finish() {
  for (uint32_t restart : restarts) AppendFixed32(restart, &bytes);
  AppendFixed32(static_cast<uint32_t>(restarts.size()), &bytes);
  std::string result = std::move(bytes);
  *this = Block();
  return result;
}

std::string SortedTableBuilder::WriteBlock(Block* block) {
  std::string content = block->Finish();
  char type = kBlockPlain;
  if (options_.use_snappy) {
    std::string compressed;
    snappy::Compress(content.data(), content.size(), &compressed);
    content = std::move(compressed);
    type = kBlockSnappy;
  }
  std::string handle;
  AppendVarint(file_.size(), &handle);
  AppendVarint(content.size(), &handle);
  content.push_back(type);
  AppendFixed32(MaskCrc32c(Crc32c(content)), &content);
  file_.append(content);
  return handle;
}

void SortedTableBuilder::EndDataBlock() {
  if (data_block_.bytes.empty()) return;
  // LevelDB shortens this key; the last one of the block is as valid and needs no thought.
  index_block_.Add(last_key_, WriteBlock(&data_block_));
}

absl::Status SortedTableBuilder::Add(absl::string_view key, absl::string_view value) {
  if (has_entries_ && key <= last_key_) {
    return absl::InvalidArgumentError(absl::StrCat("sorted table: key \"", absl::CHexEscape(key),
                                                   "\" does not come after \"", absl::CHexEscape(last_key_),
                                                   "\""));
  }
  data_block_.Add(key, value);
  last_key_ = std::string(key);
  has_entries_ = true;
  if (data_block_.bytes.size() >= options_.block_bytes) EndDataBlock();
  return absl::OkStatus();
}

std::string SortedTableBuilder::Finish() {
  EndDataBlock();
  Block meta_block;
  std::string footer = WriteBlock(&meta_block);
  footer += WriteBlock(&index_block_);
  footer.resize(kTableFooterBytes - 8);
  AppendFixed64(kTableMagic, &footer);
  return std::move(file_) + footer;
}

}  // namespace weir
