// What kernels of FusedBatchNorm and its gradient are given, and whether it fits. For the kernels of all
// devices, so that errors read alike.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/types/shape.h"
#include "kernels/kernel_context.h"

namespace weir {

// A tensor as `outer` blocks of `channels` planes of `inner` elements; channels last have inner = 1.
struct NormalizedChannels {
  int64_t outer = 1, channels = 1, inner = 1;
  bool is_last = true;

  // Elements of one channel.
  int64_t count() const { return outer * inner; }
};
// InvalidArgument when x has not as many dimensions as the format.
absl::StatusOr<NormalizedChannels> ReadNormalizedChannels(const Shape& x, const std::string& data_format);

// The vectors of x, scale, offset, mean, variance. Where the result does not depend on the running averages
// they may be of any length.
absl::Status CheckBatchNorm(const KernelContext& context, int64_t channels, bool uses_averages);
// Of y_backprop, x, scale, reserve_space_1, reserve_space_2.
absl::Status CheckBatchNormGrad(const KernelContext& context, int64_t channels);

}  // namespace weir
