// The loops of pooling over one image with channels last, compiled once per instruction set.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "kernels/cpu/nn/window_geometry.h"

namespace weir {

// Pointers to the image's first element. Gradients are added to `input_gradient`, which the caller has
// zeroed.
template <typename T>
struct PoolLoops {
  // The largest of `lowest` and the elements of each window. NaN does not count, as in TensorFlow's CPU
  // kernel.
  void (*max)(const WindowGeometry& geometry, const T* input, T lowest, T* output);
  // An output's gradient goes to the first input (row by row) of its window that is the largest. As in
  // TensorFlow's CPU kernel it goes to the window's first element when that is NaN; any other NaN does not
  // count.
  void (*max_gradient)(const WindowGeometry& geometry, const T* input, const T* gradient, T* input_gradient);
  // The value at the first input (row by row) of each window that equals the window's maximum; 0 where none
  // does. Its derivative with respect to `values` is max_gradient.
  void (*pick_at_max)(const WindowGeometry& geometry, const T* input, const T* maxima, const T* values,
                      T* output);
  // The mean of the part of each window that lies inside the input. Floating types only, else null.
  void (*average)(const WindowGeometry& geometry, const T* input, T* output);
  void (*average_gradient)(const WindowGeometry& geometry, const T* gradient, T* input_gradient);
};

// T: float, double, (u)int8, (u)int16, (u)int32, (u)int64.
template <typename T>
PoolLoops<T> PoolLoopsFor();

}  // namespace weir
