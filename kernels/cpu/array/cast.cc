// Cast between numeric dtypes and bool.
//
// Floating to integer truncates towards zero. What does not fit is undefined in TensorFlow, where it depends
// on the type, the processor and the number of elements: here it becomes the smallest number of the integer
// type, as NaN does. Complex to real drops the imaginary part. Attr Truncate (drop low bits of the mantissa
// instead of rounding) applies to bfloat16 and half. A quantized number is the integer that it is stored as:
// no range is looked at. Floating numbers of eight bits go by way of float.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/float8.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

template <typename T>
inline constexpr bool kIsSixteenBit = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

template <typename To, typename From>
To Convert(From value) {
  using elementwise::kIsComplex;
  if constexpr (kIsSixteenBit<From>) {
    return Convert<To>(static_cast<float>(value));
  } else if constexpr (kIsComplex<From> && kIsComplex<To>) {
    return To(value);
  } else if constexpr (kIsComplex<From>) {
    return Convert<To>(value.real());
  } else if constexpr (kIsComplex<To>) {
    return To(static_cast<typename To::value_type>(value));
  } else if constexpr (kIsSixteenBit<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The bounds are powers of two: exact in every floating type.
    constexpr From kLow = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kHigh = static_cast<From>(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
    const bool fits = value < kHigh && (value >= kLow || value > From(-1));
    return fits ? static_cast<To>(value) : std::numeric_limits<To>::min();
  } else {
    return static_cast<To>(value);
  }
}

// Cuts the bits that the target's mantissa does not have, so that the conversion that follows rounds nothing.
template <typename To>
float CutMantissa(float value) {
  constexpr int kDropped = std::is_same_v<To, Bfloat16> ? 16 : 13;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & ~((uint32_t{1} << kDropped) - 1));
}

template <typename From, typename To>
void CastLoop(const void* source, void* target, int64_t begin, int64_t end, bool truncate) {
  const From* from = static_cast<const From*>(source);
  To* to = static_cast<To*>(target);
  if constexpr (kIsSixteenBit<To> && std::is_floating_point_v<From>) {
    if (truncate) {
      for (int64_t i = begin; i < end; ++i) to[i] = To(CutMantissa<To>(static_cast<float>(from[i])));
      return;
    }
  }
  for (int64_t i = begin; i < end; ++i) to[i] = Convert<To>(from[i]);
}

using Loop = void (*)(const void* source, void* target, int64_t begin, int64_t end, bool truncate);

template <typename F>
bool WithCastType(DType dtype, F&& f) {
  if (dtype != DType::kBool) return WithNumericType(StoredAs(dtype), f);
  f(TypeTag<bool>());
  return true;
}

Loop FindLoop(DType from, DType to) {
  Loop loop = nullptr;
  WithCastType(from, [&](auto from_tag) {
    WithCastType(to, [&](auto to_tag) {
      loop = &CastLoop<typename decltype(from_tag)::Type, typename decltype(to_tag)::Type>;
    });
  });
  return loop;
}

class Cast final : public Kernel {
 public:
  explicit Cast(const KernelConstruction& construction)
      : same_(construction.input_type(0) == construction.output_type(0)),
        truncate_(construction.attr<bool>("Truncate")),
        loop_(FindLoop(FloatOrItself(construction.input_type(0)),
                       FloatOrItself(construction.output_type(0)))) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    if (same_) {
      context.set_output(0, x);
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, x.shape()));
    context.threads().ParallelFor(x.num_elements(), 0.7, [&](int64_t begin, int64_t end) {
      if (IsFloat8(x.dtype()) || IsFloat8(output->dtype())) {
        for (int64_t i = begin; i < end; i += kBlock) CastBlock(x, *output, i, std::min(kBlock, end - i));
      } else {
        loop_(x.data(), output->data(), begin, end, truncate_);
      }
    });
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kBlock = 256;

  static DType FloatOrItself(DType dtype) { return IsFloat8(dtype) ? DType::kFloat32 : dtype; }

  // Elements [begin, begin + count), with those of eight bits in float.
  void CastBlock(const Tensor& x, Tensor& y, int64_t begin, int64_t count) const {
    float wide_source[kBlock], wide_target[kBlock];
    const void* source = static_cast<const char*>(x.data()) + begin * DTypeSize(x.dtype());
    void* target = static_cast<char*>(y.data()) + begin * DTypeSize(y.dtype());
    if (IsFloat8(x.dtype())) {
      const auto* narrow = static_cast<const uint8_t*>(source);
      std::transform(narrow, narrow + count, wide_source,
                     [&](uint8_t bits) { return Float8ToFloat(x.dtype(), bits); });
      source = wide_source;
    }
    if (!IsFloat8(y.dtype())) return loop_(source, target, 0, count, truncate_);
    loop_(source, wide_target, 0, count, truncate_);
    std::transform(wide_target, wide_target + count, static_cast<uint8_t*>(target),
                   [&](float value) { return FloatToFloat8(y.dtype(), value); });
  }

  const bool same_;
  const bool truncate_;
  const Loop loop_;
};

}  // namespace

void RegisterCastKernels(DeviceKernels& kernels) {
  std::vector<DType> dtypes = NumericDTypes();
  for (const std::vector<DType>& stored : {QuantizedDTypes(), Float8DTypes()}) {
    dtypes.insert(dtypes.end(), stored.begin(), stored.end());
  }
  dtypes.push_back(DType::kBool);
  kernels.Add<Cast>("Cast", {{"SrcT", dtypes}, {"DstT", dtypes}});
}

}  // namespace weir
