#include "ops/nn/image_windows.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

Status CheckExplicitPaddings(const AttrMap& attrs) {
  const auto found = attrs.find("explicit_paddings");
  if (found == attrs.end()) return OkStatus();
  const bool is_explicit = attrs.at("padding").get<std::string>() == "EXPLICIT";
  const size_t count = found->second.get<std::vector<int64_t>>().size();
  if (count == (is_explicit ? 8 : 0)) return OkStatus();
  return InvalidArgumentError(StrCat(
      "attr explicit_paddings must have 8 elements with padding EXPLICIT and none without, has ", count));
}

// Layouts are NHWC, NCHW, NCHW_VECT_C, NDHWC and NCDHW. Ops of quantized numbers have no attr for it.
std::string LayoutOf(const AttrMap& attrs) {
  const auto found = attrs.find("data_format");
  return found == attrs.end() ? "NHWC" : found->second.get<std::string>();
}

}  // namespace

bool ChannelsAreFirst(const AttrMap& attrs) { return LayoutOf(attrs)[1] == 'C'; }

ImageAxes AxesOf(const AttrMap& attrs) {
  const bool is_volume = LayoutOf(attrs).find('D') != std::string::npos;
  const bool channels_first = ChannelsAreFirst(attrs);
  ImageAxes axes;
  for (int i = 0; i < (is_volume ? 3 : 2); ++i) axes.spatial.push_back(i + (channels_first ? 2 : 1));
  axes.channels = channels_first ? 1 : axes.rank() - 1;
  return axes;
}

absl::StatusOr<std::vector<int64_t>> PerAxis(const AttrMap& attrs, absl::string_view name) {
  const auto& values = attrs.find(name)->second.get<std::vector<int64_t>>();
  const ImageAxes axes = AxesOf(attrs);
  if (static_cast<int>(values.size()) != axes.rank() || values[axes.batch] != 1 ||
      values[axes.channels] != 1) {
    return InvalidArgumentError(StrCat("attr ", name, " must have ", axes.rank(),
                                       " elements, 1 for batch and channels, is [",
                                       absl::StrJoin(values, ","), "] (", LayoutOf(attrs), ")"));
  }
  return values;
}

absl::StatusOr<std::vector<int64_t>> SlideOverImage(const AttrMap& attrs, const PartialShape& input,
                                                    absl::Span<const int64_t> window,
                                                    absl::Span<const int64_t> dilations) {
  WEIR_RETURN_IF_ERROR(CheckExplicitPaddings(attrs));
  WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, PerAxis(attrs, "strides"));
  const std::string& padding = attrs.at("padding").get<std::string>();
  const ImageAxes axes = AxesOf(attrs);
  constexpr absl::string_view kNames[] = {"depth", "height", "width"};
  const int spatial_rank = axes.rank() - 2;
  std::vector<int64_t> sizes;
  for (int i = 0; i < spatial_rank; ++i) {
    const int axis = axes.spatial[i];
    int64_t before = 0, after = 0;
    if (padding == "EXPLICIT") {
      const auto& paddings = attrs.at("explicit_paddings").get<std::vector<int64_t>>();
      before = paddings[2 * axis];
      after = paddings[2 * axis + 1];
    }
    const auto extent =
        SlideWindow(input.dim(axis), window[i], strides[axis], dilations[axis], padding, before, after);
    if (!extent.ok()) {
      return InvalidArgumentError(
          StrCat(kNames[i + 3 - spatial_rank], " of ", input.ToString(), ": ", extent.status().message()));
    }
    sizes.push_back(extent->size);
  }
  return sizes;
}

absl::StatusOr<PartialShape> ImageShape(const AttrMap& attrs, int64_t batch,
                                        absl::Span<const int64_t> spatial, int64_t channels) {
  const ImageAxes axes = AxesOf(attrs);
  std::vector<int64_t> dims(axes.rank());
  dims[axes.batch] = batch;
  dims[axes.channels] = channels;
  for (size_t i = 0; i < spatial.size(); ++i) dims[axes.spatial[i]] = spatial[i];
  return PartialShape::FromDims(dims);
}

}  // namespace weir
