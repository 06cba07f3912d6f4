#include "ops/layers/pooling.h"

#include "absl/strings/str_cat.h"
#include "ops/standard_ops.h"

namespace weir::layers {
namespace {

using Pool = Output (*)(GraphBuilder& g, Output x, Window pool_size, Window strides,
                        const PoolingOptions& options, SourceLocation where);

// Pools images of height 1.
Output PoolSequences(GraphBuilder& g, Output x, int64_t pool_size, int64_t stride,
                     const Pooling1DOptions& options, absl::string_view name, Pool pool,
                     SourceLocation where) {
  if (!x) return {};
  const auto scope = g.NameScope(options.name.empty() ? name : options.name);
  const bool channels_first = options.data_format == "NCW";
  if (!channels_first && options.data_format != "NWC") {
    g.SetError(
        absl::InvalidArgumentError(absl::StrCat(
            "pooling '", g.name_scope(), "': data_format must be NWC or NCW, is ", options.data_format)),
        where);
    return {};
  }
  const int height_axis = channels_first ? 2 : 1;
  const Output images = ExpandDims(g, x, Const(g, height_axis, {}, where), {}, where);
  const Output pooled =
      pool(g, images, Window(1, pool_size), Window(1, stride),
           {.padding = options.padding, .data_format = channels_first ? "NCHW" : "NHWC"}, where);
  return Squeeze(g, pooled, {.squeeze_dims = {height_axis}}, where);
}

}  // namespace

Output MaxPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides, const PoolingOptions& options,
                 SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "max_pooling2d" : options.name);
  return MaxPool(g, x, pool_size.PerDimension(options.data_format), strides.PerDimension(options.data_format),
                 options.padding, {.data_format = options.data_format}, where);
}

Output AvgPool2D(GraphBuilder& g, Output x, Window pool_size, Window strides, const PoolingOptions& options,
                 SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "average_pooling2d" : options.name);
  return AvgPool(g, x, pool_size.PerDimension(options.data_format), strides.PerDimension(options.data_format),
                 options.padding, {.data_format = options.data_format}, where);
}

Output MaxPool1D(GraphBuilder& g, Output x, int64_t pool_size, int64_t stride,
                 const Pooling1DOptions& options, SourceLocation where) {
  return PoolSequences(g, x, pool_size, stride, options, "max_pooling1d", MaxPool2D, where);
}

Output AvgPool1D(GraphBuilder& g, Output x, int64_t pool_size, int64_t stride,
                 const Pooling1DOptions& options, SourceLocation where) {
  return PoolSequences(g, x, pool_size, stride, options, "average_pooling1d", AvgPool2D, where);
}

Output MaxPool3D(GraphBuilder& g, Output x, Window3D pool_size, Window3D strides,
                 const Pooling3DOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "max_pooling3d" : options.name);
  return weir::MaxPool3D(g, x, pool_size.PerDimension(), strides.PerDimension(), options.padding, {}, where);
}

Output AvgPool3D(GraphBuilder& g, Output x, Window3D pool_size, Window3D strides,
                 const Pooling3DOptions& options, SourceLocation where) {
  const auto scope = g.NameScope(options.name.empty() ? "average_pooling3d" : options.name);
  return weir::AvgPool3D(g, x, pool_size.PerDimension(), strides.PerDimension(), options.padding, {}, where);
}

}  // namespace weir::layers
