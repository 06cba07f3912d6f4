// The output of windows in parts that take some milliseconds each, so that what slides them ends with its
// step.
//
// Thread safety: pure functions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/timely_loop.h"

namespace weir {
namespace window_parts_internal {

template <typename Body>
void Split(const TimelyThreads& threads, const WindowGeometry& part, int axis, int64_t first, int64_t most,
           const Body& body) {
  if (threads.is_over()) return;
  if (axis == kMaxSpatialRank || part.OutputPixels() <= most) return body(part, first);
  const int64_t row = part.OutputPixels() / part.output[axis], step = std::max<int64_t>(1, most / row);
  WindowGeometry smaller = part;
  for (int64_t at = 0; at < part.output[axis]; at += step) {
    smaller.output[axis] = std::min(step, part.output[axis] - at);
    smaller.padding_before[axis] = part.padding_before[axis] - at * part.stride[axis];
    Split(threads, smaller, axis + 1, first + at * row, most, body);
  }
}

}  // namespace window_parts_internal

// Calls body(part, first) one after another for parts that cover one image's output in order, until the step
// is over. A part is a geometry of its own on the whole input, whose output begins at pixel `first` of that
// of `geometry`; its padding may be negative. An image of less than 20 ms is one part. `cost`: nanoseconds
// for an element of a window and all channels.
template <typename Body>
void ForEachPart(const TimelyThreads& threads, const WindowGeometry& geometry, double cost,
                 const Body& body) {
  double of_pixel = cost;  // what a window covers is no more than the input
  for (int i = 0; i < geometry.spatial_rank; ++i) {
    of_pixel *= static_cast<double>(std::min(geometry.window[i], geometry.input[i]));
  }
  constexpr double kLongNanoseconds = 20e6;
  if (of_pixel * static_cast<double>(geometry.OutputPixels()) < kLongNanoseconds) return body(geometry, 0);
  window_parts_internal::Split(threads, geometry, 0, 0, ItemsBetweenLooks(of_pixel), body);
}

}  // namespace weir
