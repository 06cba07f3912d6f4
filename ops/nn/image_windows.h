// Windows that slide over images or volumes: what the shape functions of
// convolutions and poolings share.
//
// Errors are InvalidArgument and name attrs and shapes that do not fit.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/attr_value.h"
#include "graph/types/shape.h"

namespace weir {

bool ChannelsAreFirst(const AttrMap& attrs);

// Where batch, channels, height and width (of volumes: depth, height and width)
// stand in an image and in strides and the like.
struct ImageAxes {
  int rank() const { return static_cast<int>(spatial.size()) + 2; }

  int batch = 0;
  int channels = 3;
  std::vector<int> spatial;
};
ImageAxes AxesOf(const AttrMap& attrs);

// A list attr with one element per axis of the image, which must be 1 for batch and channels.
absl::StatusOr<std::vector<int64_t>> PerAxis(const AttrMap& attrs, absl::string_view name);

// The output's spatial dimensions, of a window that slides over `input`, which
// has the rank of the axes.
absl::StatusOr<std::vector<int64_t>> SlideOverImage(const AttrMap& attrs, const PartialShape& input,
                                                    absl::Span<const int64_t> window,
                                                    absl::Span<const int64_t> dilations);

absl::StatusOr<PartialShape> ImageShape(const AttrMap& attrs, int64_t batch,
                                        absl::Span<const int64_t> spatial, int64_t channels);

}  // namespace weir
