// The definition of quantized numbers: integers, the levels, divide a range of numbers. Zero is a level.
//
// Thread safety: functions without state.
#pragma once

#include <algorithm>
#include <cmath>

#include "graph/types/dtype.h"
#include "kernels/reference/array.h"

namespace weir::conformance {

struct NumberRange {
  double min, max;
};

struct Levels {
  double lowest, highest;
};

// The range that inputs `input` and `input` + 1 of a call give, its least number and its greatest.
inline NumberRange RangeAt(const reference::Call& call, int input) {
  return {call.in(input)[0].real(), call.in(input + 1)[0].real()};
}

// What most quantized ops give: levels and the range that they divide.
inline void SetOutputs(reference::Call& call, const reference::Array& levels, NumberRange range) {
  call.outputs = {levels, reference::Array({}, range.min), reference::Array({}, range.max)};
}

// Precondition: the dtype is a quantized one.
inline Levels LevelsOf(DType dtype) {
  const double count = std::pow(2, 8 * static_cast<double>(DTypeSize(dtype)));
  if (dtype == DType::kQuint8 || dtype == DType::kQuint16) return {0, count - 1};
  return {-count / 2, count / 2 - 1};
}

inline double WidthOf(DType dtype, NumberRange range) {
  return (range.max - range.min) / (LevelsOf(dtype).highest - LevelsOf(dtype).lowest);
}

// The number that a level is, with the range moved so that zero is a level.
inline double NumberOf(double level, DType dtype, NumberRange range) {
  if (range.min == range.max) return range.min;
  const double width = WidthOf(dtype, range);
  return std::round(range.min / width) * width + (level - LevelsOf(dtype).lowest) * width;
}

// The level that is nearest to a number.
inline double LevelOf(double number, DType dtype, NumberRange range) {
  const Levels levels = LevelsOf(dtype);
  if (range.min == range.max) return levels.lowest;
  const double width = WidthOf(dtype, range);
  return std::clamp(std::round(number / width) - std::round(range.min / width) + levels.lowest, levels.lowest,
                    levels.highest);
}

}  // namespace weir::conformance
