#include "distributed/transport/grpc/call_headers.h"

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr uint32_t kNumStatic = 61;         // entries of the static table (RFC 7541, appendix A)
constexpr uint32_t kStaticPath = 4;         // :path /
constexpr uint32_t kStaticOtherPath = 5;    // :path /index.html
constexpr uint32_t kMaxInteger = 1u << 20;  // above the size of any block

// Bits of the code of each byte (RFC 7541, appendix B). The code is canonical: codes of one length ascend
// with their bytes, and the next length goes on where the last one ended.
constexpr std::array<uint8_t, 256> kHuffmanBits = {
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6,  10, 10, 12, 13, 6,  8,  11, 10, 10, 8,  11, 8,  6,  6,  6,  5,  5,  5,  6,
    6,  6,  6,  6,  6,  6,  7,  8,  15, 6,  12, 10, 13, 6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
    7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  8,  7,  8,  13, 19, 13, 14, 6,  15, 5,  6,  5,  6,  5,  6,  6,
    6,  5,  7,  7,  6,  6,  6,  5,  6,  7,  6,  5,  5,  6,  7,  7,  7,  7,  7,  15, 11, 14, 13, 28, 20, 22,
    20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23,
    22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22,
    23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22,
    25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26};
constexpr int kMaxHuffmanBits = 30;

absl::Status Damaged(const char* what) {
  return absl::InvalidArgumentError(std::string("the call's headers are damaged: ") + what);
}

// For each length, the first code and the bytes in the order of their codes.
class HuffmanCode {
 public:
  HuffmanCode() {
    uint32_t code = 0;
    for (int length = 1; length <= kMaxHuffmanBits; ++length) {
      code <<= 1;
      first_[length] = code;
      for (int byte = 0; byte < 256; ++byte) {
        if (kHuffmanBits[byte] == length) bytes_[length].push_back(static_cast<char>(byte));
      }
      code += bytes_[length].size();
    }
  }

  absl::StatusOr<std::string> Decode(absl::string_view coded) const {
    std::string text;
    uint32_t code = 0;
    int length = 0;
    for (const char c : coded) {
      for (int bit = 7; bit >= 0; --bit) {
        code = code << 1 | ((static_cast<unsigned char>(c) >> bit) & 1);
        if (++length > kMaxHuffmanBits) return Damaged("no such Huffman code");
        if (code < first_[length] || code - first_[length] >= bytes_[length].size()) continue;
        text.push_back(bytes_[length][code - first_[length]]);
        code = 0;
        length = 0;
      }
    }
    // What is left is padding: fewer than eight ones.
    if (length > 7 || code != (1u << length) - 1) return Damaged("Huffman padding");
    return text;
  }

 private:
  std::array<uint32_t, kMaxHuffmanBits + 1> first_{};
  std::array<std::string, kMaxHuffmanBits + 1> bytes_;
};

enum class Field { kOther, kPath, kToken };

class BlockReader {
 public:
  BlockReader(absl::string_view block, absl::string_view token_key) : rest_(block), token_key_(token_key) {}

  absl::StatusOr<CallHeaders> Read() {
    while (!rest_.empty()) {
      const auto first = static_cast<unsigned char>(rest_[0]);
      if (first & 0x80) {
        WEIR_RETURN_IF_ERROR(ReadIndexed());
      } else if ((first & 0xe0) == 0x20) {
        WEIR_RETURN_IF_ERROR(ReadInteger(5).status());  // the size of the table
      } else {
        const bool is_kept = (first & 0x40) != 0;
        WEIR_RETURN_IF_ERROR(ReadLiteral(is_kept ? 6 : 4, is_kept));
      }
    }
    return std::move(headers_);
  }

 private:
  struct Entry {
    Field field = Field::kOther;
    std::string value;  // of fields that count
  };

  // 5.1: in the low bits of the first byte, and if these are all ones in further bytes of seven bits.
  absl::StatusOr<uint32_t> ReadInteger(int num_bits) {
    if (rest_.empty()) return Damaged("they end in a number");
    const uint32_t all_ones = (1u << num_bits) - 1;
    uint32_t value = static_cast<unsigned char>(rest_[0]) & all_ones;
    rest_.remove_prefix(1);
    if (value < all_ones) return value;
    for (int shift = 0; shift < 21; shift += 7) {
      if (rest_.empty()) return Damaged("they end in a number");
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value += static_cast<uint32_t>(byte & 0x7f) << shift;
      if (value > kMaxInteger) break;
      if ((byte & 0x80) == 0) return value;
    }
    return Damaged("a number is too large");
  }

  absl::StatusOr<std::string> ReadString() {
    const bool is_coded = !rest_.empty() && (static_cast<unsigned char>(rest_[0]) & 0x80) != 0;
    WEIR_ASSIGN_OR_RETURN(const uint32_t length, ReadInteger(7));
    if (length > rest_.size()) return Damaged("they end in a string");
    const absl::string_view bytes = rest_.substr(0, length);
    rest_.remove_prefix(length);
    if (!is_coded) return std::string(bytes);
    return huffman_.Decode(bytes);
  }

  // Not copied: one byte may name a field of kilobytes, again and again. It is there until the next literal.
  absl::StatusOr<const Entry*> AtIndex(uint32_t index) const {
    static const Entry* const path = new Entry{Field::kPath, "/"};
    static const Entry* const other_path = new Entry{Field::kPath, "/index.html"};
    static const Entry* const other = new Entry;
    if (index == 0) return Damaged("index 0");
    if (index <= kNumStatic) {
      if (index == kStaticPath) return path;
      return index == kStaticOtherPath ? other_path : other;
    }
    const uint32_t age = index - kNumStatic - 1;
    if (age >= kept_.size()) return Damaged("an index beyond the table");
    return &kept_[kept_.size() - 1 - age];
  }

  absl::Status ReadIndexed() {
    WEIR_ASSIGN_OR_RETURN(const uint32_t index, ReadInteger(7));
    WEIR_ASSIGN_OR_RETURN(const Entry* const entry, AtIndex(index));
    Take(*entry);
    return absl::OkStatus();
  }

  absl::Status ReadLiteral(int num_bits, bool is_kept) {
    Entry entry;
    WEIR_ASSIGN_OR_RETURN(const uint32_t index, ReadInteger(num_bits));
    if (index != 0) {
      WEIR_ASSIGN_OR_RETURN(const Entry* const known, AtIndex(index));
      entry.field = known->field;
    } else {
      WEIR_ASSIGN_OR_RETURN(const std::string name, ReadString());
      if (name == token_key_) entry.field = Field::kToken;
      if (name == ":path") entry.field = Field::kPath;
    }
    WEIR_ASSIGN_OR_RETURN(entry.value, ReadString());
    if (entry.field == Field::kOther) entry.value.clear();
    Take(entry);
    if (is_kept) kept_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  void Take(const Entry& entry) {
    if (entry.field == Field::kPath && headers_.path.empty()) headers_.path = entry.value;
    if (entry.field == Field::kToken && headers_.token.empty()) headers_.token = entry.value;
  }

  const HuffmanCode huffman_;
  absl::string_view rest_;
  const absl::string_view token_key_;
  std::vector<Entry> kept_;  // HPACK's table, the newest last
  CallHeaders headers_;
};

}  // namespace

absl::StatusOr<CallHeaders> ReadCallHeaders(absl::string_view block, absl::string_view token_key) {
  return BlockReader(block, token_key).Read();
}

}  // namespace weir
