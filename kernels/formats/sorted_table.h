// Sorted tables: an immutable file that maps byte strings to byte strings, in key order. The index of a
// checkpoint is one.
//
// Format: LevelDB's table as TensorFlow writes it. Blocks of entries (shared key length, rest length, value
// length in varints, rest of the key, value), a restart point every 16 entries, each block followed by its
// compression (one byte: 0 none, 1 snappy) and the masked CRC-32C of both; then an (empty) meta block, an
// index block and a footer of 48 bytes that ends in the magic number 0xdb4775248b80fb57.
//
// Both classes hold the whole table in memory: the indexes of checkpoints take kilobytes, a few megabytes at
// most. Thread safety: a SortedTable may be read from any thread; a SortedTableBuilder belongs to one.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

class SortedTableBuilder {
 public:
  struct Options {
    // A block ends with the entry that makes it at least as long.
    size_t block_bytes = 256 << 10;
    bool use_snappy = false;
  };

  SortedTableBuilder() : SortedTableBuilder(Options()) {}
  explicit SortedTableBuilder(const Options& options) : options_(options) {}

  // InvalidArgument unless `key` is greater (as bytes) than all before it.
  absl::Status Add(absl::string_view key, absl::string_view value);

  // The content of the file. Nothing may be added afterwards.
  std::string Finish();

 private:
  struct Block {
    void Add(absl::string_view key, absl::string_view value);
    std::string Finish();
    std::string bytes;
    std::vector<uint32_t> restarts = {0};
    int entries_since_restart = 0;
    std::string last_key;
  };
  // Appends the block and its trailer to the file; returns its handle (offset and size) in varints.
  std::string WriteBlock(Block* block);
  void EndDataBlock();

  const Options options_;
  std::string file_;
  Block data_block_;
  Block index_block_;
  std::string last_key_;
  bool has_entries_ = false;
};

class SortedTable {
 public:
  using Entry = std::pair<std::string, std::string>;

  // Reads and checks the whole `file`. DataLoss, beginning with `path` and naming the offset, for anything
  // that is not exactly such a table: every damaged or missing bit is found here.
  static absl::StatusOr<SortedTable> Parse(absl::string_view file, const std::string& path);

  // In key order.
  const std::vector<Entry>& entries() const { return entries_; }
  // Null when there is no such key.
  const std::string* Find(absl::string_view key) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace weir
