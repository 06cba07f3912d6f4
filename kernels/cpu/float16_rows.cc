// Compiled once per instruction set: the compiler turns the plain loops into that set's vector instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/float16_rows.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include "kernels/cpu/float16_rows.h"

#include <bit>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/loop_pragmas.h"

HWY_BEFORE_NAMESPACE();
namespace weir {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void BfloatsToFloats(const Bfloat16* source, float* target, int64_t count) {
  WEIR_ELEMENTWISE_LOOP
  for (int64_t i = 0; i < count; ++i) {
    target[i] = std::bit_cast<float>(static_cast<uint32_t>(source[i].bits()) << 16);
  }
}

void BfloatsFromFloats(const float* source, Bfloat16* target, int64_t count) {
  WEIR_ELEMENTWISE_LOOP
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(source[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    target[i] = Bfloat16::FromBits(static_cast<uint16_t>(is_nan ? quiet : rounded));
  }
}

// AVX2 and later have instructions for halves.
void HalvesToFloats(const Half* source, float* target, int64_t count) {
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<float> floats;
  const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(floats));
  for (; i + lanes <= count; i += lanes) {
    const auto half = hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(source + i));
    hn::StoreU(hn::PromoteTo(floats, half), floats, target + i);
  }
#endif
  for (; i < count; ++i) target[i] = static_cast<float>(source[i]);
}

void HalvesFromFloats(const float* source, Half* target, int64_t count) {
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<float> floats;
  const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(floats));
  for (; i + lanes <= count; i += lanes) {
    const auto half = hn::DemoteTo(halves, hn::LoadU(floats, source + i));
    hn::StoreU(half, halves, reinterpret_cast<hwy::float16_t*>(target + i));
  }
#endif
  for (; i < count; ++i) target[i] = Half(source[i]);
}

// Negative numbers are the bits above those of -0, up to those of -infinity; NaN is beyond.
template <typename T>
HWY_INLINE void RectifyBits(uint16_t minus_infinity, T* x, int64_t count) {
  WEIR_ELEMENTWISE_LOOP
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = x[i].bits();
    const bool is_negative = bits > 0x8000u && bits <= minus_infinity;
    x[i] = T::FromBits(is_negative ? uint16_t{0} : bits);
  }
}
template <typename T>
HWY_INLINE void KeepBitsWherePositive(uint16_t infinity, const T* x, const T* y, T* z, int64_t count) {
  WEIR_ELEMENTWISE_LOOP
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t sign = y[i].bits();
    const bool is_positive = sign > 0 && sign <= infinity;
    z[i] = T::FromBits(is_positive ? x[i].bits() : uint16_t{0});
  }
}
void KeepHalves(const Half* x, const Half* y, Half* z, int64_t count) {
  KeepBitsWherePositive(0x7c00u, x, y, z, count);
}
void KeepBfloats(const Bfloat16* x, const Bfloat16* y, Bfloat16* z, int64_t count) {
  KeepBitsWherePositive(0x7f80u, x, y, z, count);
}
void RectifyHalves(Half* x, int64_t count) { RectifyBits(0xfc00u, x, count); }
void RectifyBfloats(Bfloat16* x, int64_t count) { RectifyBits(0xff80u, x, count); }

}  // namespace HWY_NAMESPACE
}  // namespace weir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir {

HWY_EXPORT(BfloatsToFloats);
HWY_EXPORT(BfloatsFromFloats);
HWY_EXPORT(HalvesToFloats);
HWY_EXPORT(HalvesFromFloats);
HWY_EXPORT(RectifyHalves);
HWY_EXPORT(RectifyBfloats);
HWY_EXPORT(KeepHalves);
HWY_EXPORT(KeepBfloats);

void ToFloats(const Half* source, float* target, int64_t count) {
  HWY_DYNAMIC_DISPATCH(HalvesToFloats)(source, target, count);
}
void ToFloats(const Bfloat16* source, float* target, int64_t count) {
  HWY_DYNAMIC_DISPATCH(BfloatsToFloats)(source, target, count);
}
void FromFloats(const float* source, Half* target, int64_t count) {
  HWY_DYNAMIC_DISPATCH(HalvesFromFloats)(source, target, count);
}
void FromFloats(const float* source, Bfloat16* target, int64_t count) {
  HWY_DYNAMIC_DISPATCH(BfloatsFromFloats)(source, target, count);
}
void ToFloats(DType dtype, const void* source, float* target, int64_t count) {
  dtype == DType::kHalf ? ToFloats(static_cast<const Half*>(source), target, count)
                        : ToFloats(static_cast<const Bfloat16*>(source), target, count);
}
void FromFloats(DType dtype, const float* source, void* target, int64_t count) {
  dtype == DType::kHalf ? FromFloats(source, static_cast<Half*>(target), count)
                        : FromFloats(source, static_cast<Bfloat16*>(target), count);
}
void Rectify(Half* x, int64_t count) { HWY_DYNAMIC_DISPATCH(RectifyHalves)(x, count); }
void Rectify(Bfloat16* x, int64_t count) { HWY_DYNAMIC_DISPATCH(RectifyBfloats)(x, count); }
void KeepWherePositive(const Half* x, const Half* y, Half* z, int64_t count) {
  HWY_DYNAMIC_DISPATCH(KeepHalves)(x, y, z, count);
}
void KeepWherePositive(const Bfloat16* x, const Bfloat16* y, Bfloat16* z, int64_t count) {
  HWY_DYNAMIC_DISPATCH(KeepBfloats)(x, y, z, count);
}

}  // namespace weir
#endif
