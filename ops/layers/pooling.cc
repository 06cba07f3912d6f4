#include "ops/layers/pooling.h"

#include "absl/strings/str_cat.h"
#include "ops/layers/layer_ends.h"
#include "ops/standard_ops.h"

namespace weir::layers {
namespace {

absl::string_view NameOf(const PoolingOptions& options, absl::string_view layers) {
  return options.name.empty() ? layers : options.name;
}

// The op of images: the standard op of either kind.
using PoolOp = Output (*)(GraphBuilder& g, Output x, const std::vector<int64_t>& pool_size,
                          const std::vector<int64_t>& strides, const std::string& padding,
                          const std::string& data_format, SourceLocation where);

Output MaxOfWindows(GraphBuilder& g, Output x, const std::vector<int64_t>& pool_size,
                    const std::vector<int64_t>& strides, const std::string& padding,
                    const std::string& data_format, SourceLocation where) {
  return MaxPool(g, x, pool_size, strides, padding, {.data_format = data_format}, where);
}

Output MeanOfWindows(GraphBuilder& g, Output x, const std::vector<int64_t>& pool_size,
                     const std::vector<int64_t>& strides, const std::string& padding,
                     const std::string& data_format, SourceLocation where) {
  return AvgPool(g, x, pool_size, strides, padding, {.data_format = data_format}, where);
}

Output PoolImages(GraphBuilder& g, absl::string_view layer, Output x, Window pool_size, Window strides,
                  const std::string& padding, const std::string& data_format, PoolOp pool,
                  SourceLocation where) {
  if (!HasInput(g, layer, x, where)) return {};
  const std::string format = data_format.empty() ? "NHWC" : data_format;
  return pool(g, x, pool_size.PerDimension(format), strides.PerDimension(format), padding, format, where);
}

// Pools images of height 1.
Output PoolSequences(GraphBuilder& g, absl::string_view layer, Output x, int64_t pool_size, int64_t stride,
                     const PoolingOptions& options, PoolOp pool, SourceLocation where) {
  if (!HasInput(g, layer, x, where)) return {};
  const bool channels_first = options.data_format == "NCW";
  if (!channels_first && !options.data_format.empty() && options.data_format != "NWC") {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat(
            layer, " '", g.name_scope(), "': data_format must be NWC or NCW, is ", options.data_format)),
        where);
    return {};
  }
  const int height_axis = channels_first ? 2 : 1;
  const Output images = ExpandDims(g, x, Const(g, height_axis, {}, where), {}, where);
  const Output pooled = PoolImages(g, layer, images, Window(1, pool_size), Window(1, stride), options.padding,
                                   channels_first ? "NCHW" : "NHWC", pool, where);
  return Squeeze(g, pooled, {.squeeze_dims = {height_axis}}, where);
}

// Whether there are volumes, with channels last.
bool CanPoolVolumes(GraphBuilder& g, absl::string_view layer, Output x, const PoolingOptions& options,
                    SourceLocation where) {
  if (!HasInput(g, layer, x, where)) return false;
  if (options.data_format.empty() || options.data_format == "NDHWC") return true;
  g.SetError(absl::InvalidArgumentError(absl::StrCat(
                 layer, " '", g.name_scope(), "': data_format must be NDHWC, is ", options.data_format)),
             where);
  return false;
}

}  // namespace

Output MaxPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides, const PoolingOptions& options,
                 SourceLocation where) {
  const auto scope = g.NameScope(NameOf(options, "max_pooling2d"));
  return PoolImages(g, "MaxPool2D", x, pool_size, strides, options.padding, options.data_format, MaxOfWindows,
                    where);
}

Output AvgPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides, const PoolingOptions& options,
                 SourceLocation where) {
  const auto scope = g.NameScope(NameOf(options, "average_pooling2d"));
  return PoolImages(g, "AvgPool2D", x, pool_size, strides, options.padding, options.data_format,
                    MeanOfWindows, where);
}

Output MaxPool1D(GraphBuilder& g, Output x, int64_t pool_size, int64_t stride, const PoolingOptions& options,
                 SourceLocation where) {
  const auto scope = g.NameScope(NameOf(options, "max_pooling1d"));
  return PoolSequences(g, "MaxPool1D", x, pool_size, stride, options, MaxOfWindows, where);
}

Output AvgPool1D(GraphBuilder& g, Output x, int64_t pool_size, int64_t stride, const PoolingOptions& options,
                 SourceLocation where) {
  const auto scope = g.NameScope(NameOf(options, "average_pooling1d"));
  return PoolSequences(g, "AvgPool1D", x, pool_size, stride, options, MeanOfWindows, where);
}

Output MaxPool3D(GraphBuilder& g, Output x, Window3D pool_size, Window3D strides,
                 const PoolingOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(NameOf(options, "max_pooling3d"));
  if (!CanPoolVolumes(g, "MaxPool3D", x, options, where)) return {};
  return weir::MaxPool3D(g, x, pool_size.PerDimension(), strides.PerDimension(), options.padding, {}, where);
}

Output AvgPool3D(GraphBuilder& g, Output x, Window3D pool_size, Window3D strides,
                 const PoolingOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(NameOf(options, "average_pooling3d"));
  if (!CanPoolVolumes(g, "AvgPool3D", x, options, where)) return {};
  return weir::AvgPool3D(g, x, pool_size.PerDimension(), strides.PerDimension(), options.padding, {}, where);
}

}  // namespace weir::layers
