// The integers and constants of sorted tables: little-endian fixed words and base-128 varints.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace weir {

inline constexpr uint64_t kTableMagic = 0xdb4775248b80fb57u;
inline constexpr size_t kTableFooterBytes = 48;
inline constexpr size_t kBlockTrailerBytes = 5;  // compression, masked CRC-32C
inline constexpr char kBlockPlain = 0;
inline constexpr char kBlockSnappy = 1;

inline void AppendFixed32(uint32_t value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline void AppendFixed64(uint64_t value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

inline uint32_t LoadFixed32(const char* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

inline uint64_t LoadFixed64(const char* bytes) {
  uint64_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// Takes a varint off the front of *in; false when it breaks off, is longer than 64 bits or longer than
// necessary.
inline bool TakeVarint(absl::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const uint64_t byte = static_cast<unsigned char>(in->front());
    in->remove_prefix(1);
    *value |= (byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return (byte != 0 || shift == 0) && (shift < 63 || byte == 1);
  }
  return false;
}

}  // namespace weir
