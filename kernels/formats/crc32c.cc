#include "kernels/formats/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace weir {
namespace {

// tables[k][b]: the effect of byte b followed by k zero bytes, so that eight bytes are folded per step.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
    tables[0][byte] = crc;
  }
  for (int k = 1; k < 8; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

#if defined(__x86_64__)

// Three streams at once hide the instruction's latency of three cycles; ShiftByBlock joins them. Three short
// blocks are almost 1 KiB: much of a small record.
constexpr size_t kLongBlockBytes = 4096;
constexpr size_t kShortBlockBytes = 336;

// The effect on a raw crc of a block of zero bytes, one table per byte of the crc.
using ShiftTables = std::array<std::array<uint32_t, 256>, 4>;

constexpr uint32_t ShiftByZeros(uint32_t crc, size_t num_zeros) {
  for (size_t i = 0; i < num_zeros; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xff];
  return crc;
}

constexpr ShiftTables MakeShiftTables(size_t block_bytes) {
  // Shifting is linear: the images of the 32 single bits give all others.
  std::array<uint32_t, 32> image{};
  for (int bit = 0; bit < 32; ++bit) image[bit] = ShiftByZeros(uint32_t{1} << bit, block_bytes);
  ShiftTables tables{};
  for (int position = 0; position < 4; ++position) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t crc = 0;
      for (int bit = 0; bit < 8; ++bit) crc ^= ((byte >> bit) & 1) ? image[8 * position + bit] : 0;
      tables[position][byte] = crc;
    }
  }
  return tables;
}

template <size_t block_bytes>
uint32_t ShiftByBlock(uint32_t crc) {
  static const ShiftTables tables = MakeShiftTables(block_bytes);
  return tables[0][crc & 0xff] ^ tables[1][(crc >> 8) & 0xff] ^ tables[2][(crc >> 16) & 0xff] ^
         tables[3][crc >> 24];
}

uint64_t LoadWord(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// Takes triples of blocks from the bytes as long as there are any.
template <size_t block_bytes>
__attribute__((target("sse4.2"))) uint64_t ExtendByBlocks(uint64_t state, const char** bytes,
                                                          size_t* num_bytes) {
  for (; *num_bytes >= 3 * block_bytes; *num_bytes -= 3 * block_bytes, *bytes += 3 * block_bytes) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < block_bytes; i += 8) {
      state = _mm_crc32_u64(state, LoadWord(*bytes + i));
      second = _mm_crc32_u64(second, LoadWord(*bytes + block_bytes + i));
      third = _mm_crc32_u64(third, LoadWord(*bytes + 2 * block_bytes + i));
    }
    state = ShiftByBlock<block_bytes>(static_cast<uint32_t>(state)) ^ second;
    state = ShiftByBlock<block_bytes>(static_cast<uint32_t>(state)) ^ third;
  }
  return state;
}

__attribute__((target("sse4.2"))) uint32_t ExtendByInstruction(uint32_t crc, const char* bytes,
                                                               size_t num_bytes) {
  uint64_t state = ~crc;
  state = ExtendByBlocks<kLongBlockBytes>(state, &bytes, &num_bytes);
  state = ExtendByBlocks<kShortBlockBytes>(state, &bytes, &num_bytes);
  for (; num_bytes >= 8; num_bytes -= 8, bytes += 8) state = _mm_crc32_u64(state, LoadWord(bytes));
  for (; num_bytes > 0; --num_bytes, ++bytes) {
    state = _mm_crc32_u8(static_cast<uint32_t>(state), static_cast<uint8_t>(*bytes));
  }
  return ~static_cast<uint32_t>(state);
}

#endif

// Products of polynomials over GF(2) modulo that of the checksum; bit 31 is the coefficient of x^0.
uint32_t MultiplyModulo(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) ? 0x82f63b78u : 0);
  }
  return product;
}

}  // namespace

// A zero byte behind A multiplies its checksum by x^8; the inversions at both ends cancel.
uint32_t ConcatenateCrc32c(uint32_t crc_of_a, uint32_t crc_of_b, uint64_t bytes_of_b) {
  uint32_t power = uint32_t{1} << 23;  // x^8, squared for each bit of the length
  for (uint64_t left = bytes_of_b; left != 0; left >>= 1) {
    if ((left & 1) != 0) crc_of_a = MultiplyModulo(crc_of_a, power);
    power = MultiplyModulo(power, power);
  }
  return crc_of_a ^ crc_of_b;
}

uint32_t ExtendCrc32cByTable(uint32_t crc, const void* data, size_t num_bytes) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (; num_bytes >= 8; num_bytes -= 8, bytes += 8) {
    uint32_t low;
    std::memcpy(&low, bytes, sizeof(low));
    low ^= crc;
    crc = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^ kTables[5][(low >> 16) & 0xff] ^
          kTables[4][low >> 24] ^ kTables[3][bytes[4]] ^ kTables[2][bytes[5]] ^ kTables[1][bytes[6]] ^
          kTables[0][bytes[7]];
  }
  for (; num_bytes > 0; --num_bytes, ++bytes) crc = (crc >> 8) ^ kTables[0][(crc ^ *bytes) & 0xff];
  return ~crc;
}

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t num_bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return ExtendByInstruction(crc, static_cast<const char*>(data), num_bytes);
#endif
  return ExtendCrc32cByTable(crc, data, num_bytes);
}

}  // namespace weir
