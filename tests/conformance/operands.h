// Operands and limits that the calls of many ops are made of, and how exactly their sums must agree.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tests/conformance/op_case.h"

namespace weir::conformance {

// Axes, sizes and paddings that overflow what they are added to or multiplied with.
inline constexpr int32_t kHuge = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();
inline constexpr int64_t kShortest = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kWide = int64_t{1} << 40;  // twice this is more than a shape can have

inline Tensor Floats(std::vector<int64_t> dims, int seed = 1) {
  return Sample(DType::kFloat32, std::move(dims), -2, 2, seed);
}
inline Tensor Bools(std::vector<int64_t> dims, std::vector<double> values) {
  return Make(DType::kBool, std::move(dims), std::move(values));
}
inline Tensor Words(std::vector<std::string> words) {
  const auto count = static_cast<int64_t>(words.size());
  return Strings({count}, std::move(words));
}
// A shape as an input. Precondition: its dimensions are int32.
inline Tensor Sizes(const std::vector<int64_t>& dims) { return Ints({dims.begin(), dims.end()}); }
// Has no elements, but dimensions that a result may multiply.
inline Tensor Empty(const std::vector<int64_t>& dims, DType dtype = DType::kFloat32) {
  return Tensor(dtype, Shape(absl::MakeConstSpan(dims)));
}

// The tolerance of sums of many rounded products.
inline double SumTolerance(DType dtype) {
  if (dtype == DType::kHalf) return 6e-3;
  if (dtype == DType::kBfloat16) return 5e-2;
  return dtype == DType::kFloat32 ? 1e-5 : 1e-12;
}

}  // namespace weir::conformance
