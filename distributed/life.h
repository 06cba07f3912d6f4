// Lives: which process is a task, as an ordered number (authority.h grants them).
//
// Pure functions and values. Thread safety: all functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace weir {

// A life: term << 24 | serial. 0 is none. Later lives of a task are greater.
using Incarnation = uint64_t;

inline constexpr int kSerialBits = 24;
inline uint64_t TermOf(Incarnation life) { return life >> kSerialBits; }
inline Incarnation FirstLifeOfTerm(uint64_t term) { return term << kSerialBits; }
// Terms count 4,096 us since 1970: two starts of a process never share one, and 40 bits last until 2112.
uint64_t TermAt(absl::Time now);
// Above what any clock gives, and so far from the end that an authority can always grant a greater one.
inline constexpr Incarnation kLastLife = ~Incarnation{0} - (Incarnation{1} << 48);
// The greatest term of an office; and what a life may say of a term that an office has to be above: so far
// from the last one that nobody who lies of lives brings it near.
inline constexpr uint64_t kLastTerm = (kLastLife >> kSerialBits) - 1;
inline constexpr uint64_t kLastReportedTerm = kLastTerm - (uint64_t{1} << 22);
// Above what an authority grants to which the last life was reported.
inline constexpr Incarnation kLastGranted = ~Incarnation{0} - (Incarnation{1} << 47);
// "19d3a2b4c5.7": term and serial, in hexadecimal digits.
std::string LifeString(Incarnation life);

}  // namespace weir
