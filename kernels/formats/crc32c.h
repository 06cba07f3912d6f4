// CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected): the checksum of records, tables and tensors on disk.
//
// Uses the processor's instruction where it has one (chosen at run time) and a table otherwise; both give the
// same values. Masking is the formats' own: a checksum that is stored beside data which may itself contain
// checksums is rotated right by 15 bits and offset by 0xa282ead8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace weir {

// The checksum of the bytes that `crc` covers followed by data[0, num_bytes). Start with 0.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t num_bytes);

// The checksum of A followed by B, from those of A and of B and the length of B: so that several threads can
// share the work.
uint32_t ConcatenateCrc32c(uint32_t crc_of_a, uint32_t crc_of_b, uint64_t bytes_of_b);

inline uint32_t Crc32c(absl::string_view data) { return ExtendCrc32c(0, data.data(), data.size()); }

inline uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

inline uint32_t UnmaskCrc32c(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

// The table version, for tests and for processors without the instruction.
uint32_t ExtendCrc32cByTable(uint32_t crc, const void* data, size_t num_bytes);

}  // namespace weir
