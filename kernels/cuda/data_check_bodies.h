// Kernels that look at data, and those that heed what was found, for GPUs and for the host, where tests run
// them.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/data_error.h"
#include "kernels/cuda/element_bodies.h"
#include "kernels/host_device.h"

namespace weir::cuda {

// The kinds of CheckNumerics.
inline constexpr int kFoundNan = 0;
inline constexpr int kFoundInfinity = 1;

// NaN and infinity have an exponent of ones; the bits say so, whatever the compiler assumes of numbers.
template <typename T>
WEIR_HOST_DEVICE void CheckNumericsBody(ThreadPosition thread, const T* x, int64_t n,
                                        const DataErrorPlace& place) {
  using Bits =
      std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  constexpr int kMantissaBits = sizeof(T) == 8                ? 52
                                : sizeof(T) == 4              ? 23
                                : std::is_same_v<T, Bfloat16> ? 7
                                                              : 10;
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  constexpr Bits kInfinity = static_cast<Bits>((kSign - 1) >> kMantissaBits << kMantissaBits);
  for (int64_t i = thread.index; i < n; i += thread.count) {
    const Bits magnitude = static_cast<Bits>(std::bit_cast<Bits>(x[i]) & static_cast<Bits>(~kSign));
    if (magnitude == kInfinity) NoteDataError(place, kFoundInfinity);
    if (magnitude > kInfinity) NoteDataError(place, kFoundNan);
  }
}

// `to` becomes `value`, or `old` when something was found; it may be either of them.
template <typename T>
WEIR_HOST_DEVICE void ChooseBody(ThreadPosition thread, const T* value, const T* old, T* to, int64_t n,
                                 const volatile DataError* errors) {
  const T* const from = IsBad(errors) ? old : value;
  if (from == to) return;
  for (int64_t i = thread.index; i < n; i += thread.count) to[i] = from[i];
}

}  // namespace weir::cuda
