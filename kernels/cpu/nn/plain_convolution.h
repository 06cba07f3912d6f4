// Convolutions and their gradients as loops, for the types and machines oneDNN does not serve.
//
// Images and filters are TensorFlow's: [batch, height, width, channels] (or
// channels second) and [height, width, group channels, output channels];
// volumes have a depth before the height. Thread safety: pure functions; the
// work is split on `threads`. An error when the step is over before the work is.
#pragma once

#include "absl/status/status.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/cpu/timely_loop.h"

namespace weir {

template <typename T>
absl::Status PlainConvolution(const TimelyThreads& threads, const ConvGeometry& geometry, const T* input,
                              const T* filter, T* output);
template <typename T>
absl::Status PlainInputGradient(const TimelyThreads& threads, const ConvGeometry& geometry,
                                const T* output_gradient, const T* filter, T* input_gradient);
template <typename T>
absl::Status PlainFilterGradient(const TimelyThreads& threads, const ConvGeometry& geometry, const T* input,
                                 const T* output_gradient, T* filter_gradient);

}  // namespace weir
