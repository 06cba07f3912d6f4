// What a kernel of a convolution, or of a gradient of one, is given: which inputs it computes with, and
// whether they fit. For the kernels of all devices, so that errors read alike.
//
// Thread safety: pure functions.
#pragma once

#include "absl/status/statusor.h"
#include "graph/types/shape.h"
#include "kernels/cpu/nn/window_geometry.h"
#include "kernels/kernel.h"

namespace weir {

// Filters over all channels of a group, over a channel each, or over all channels.
enum class FilterKind { kGroups, kDepthwise, kAllChannels };

// Inputs 0 and 1, or those of them that are no sizes, and the result's shape.
struct ConvOperands {
  ConvGeometry geometry;
  int first;
  int second;
  Shape result;
};

// Reads shapes, and the elements of an input of sizes, which must be in the host's memory. A depthwise filter
// is given as that of a grouped convolution. InvalidArgument names what does not fit.
absl::StatusOr<ConvOperands> ReadConvOperands(KernelContext& context, const WindowAttrs& attrs,
                                              FilterKind kind, ConvDirection direction);

}  // namespace weir
