// Convolutions, windows and normalizations of images, convolutions and windows
// of volumes.
#include <algorithm>
#include <string>

#include "tests/random_graphs/catalogue.h"

namespace weir::random_graphs {
namespace {

using Call = std::optional<OpCall>;

// Windows that slide over an image: sizes, strides and padding of both directions, and where they stand.
struct Sliding {
  int64_t height, width;
  std::vector<int64_t> strides;
  std::string padding;
  Index outputs;  // [height, width]
};

Sliding DrawSliding(Pool& pool, const Index& image, int64_t max_stride, bool has_equal_strides = false) {
  Random& random = pool.random();
  Sliding sliding;
  const bool is_same = random.Chance(50);
  sliding.padding = is_same ? "SAME" : "VALID";
  const int64_t first_stride = random.Between(1, max_stride);
  sliding.strides = {1, first_stride, has_equal_strides ? first_stride : random.Between(1, max_stride), 1};
  int64_t* const sizes[] = {&sliding.height, &sliding.width};
  for (int i = 0; i < 2; ++i) {
    const int64_t dim = image[i + 1], stride = sliding.strides[i + 1];
    *sizes[i] = is_same ? random.Between(1, 3) : random.Between(1, std::min<int64_t>(3, dim));
    sliding.outputs.push_back((is_same ? dim + stride - 1 : dim - *sizes[i] + stride) / stride);
  }
  return sliding;
}

AttrMap AttrsOf(const Sliding& sliding) {
  return {{"strides", sliding.strides}, {"padding", sliding.padding}};
}
AttrMap PoolAttrsOf(const Sliding& sliding) {
  AttrMap attrs = AttrsOf(sliding);
  attrs["ksize"] = std::vector<int64_t>{1, sliding.height, sliding.width, 1};
  return attrs;
}

Index AnyImage(Pool& pool) {
  Random& random = pool.random();
  return {random.Between(1, 2), random.Between(1, 5), random.Between(1, 5), random.Between(1, 3)};
}

Operand DrawFilter(Pool& pool, DType dtype, const Index& dims) {
  return pool.Draw(
      dtype, [&](const Operand& operand) { return operand.dims() == dims; },
      [&] { return pool.Leaf(dtype, dims, -1, 1); });
}

// A convolution: of each channel alone (depthwise) or of all.
class Convolution {
 public:
  explicit Convolution(bool is_depthwise) : is_depthwise_(is_depthwise) {}

  Call Forward(Pool& pool, DType dtype) const {
    const Operand image = DrawImage(pool, dtype);
    const Sliding sliding = DrawSliding(pool, image.dims(), 2, is_depthwise_);
    const Index filter = FilterOf(pool, image.dims(), sliding);
    return OpCall{{image.output, DrawFilter(pool, dtype, filter).output}, AttrsOf(sliding)};
  }
  Call ToInput(Pool& pool, DType dtype) const {
    const Index image = AnyImage(pool);
    const Sliding sliding = DrawSliding(pool, image, 2, is_depthwise_);
    const Index filter = FilterOf(pool, image, sliding);
    return OpCall{{pool.Integers(image, DType::kInt32), DrawFilter(pool, dtype, filter).output,
                   pool.OfShape(dtype, OutputOf(image, filter, sliding)).output},
                  AttrsOf(sliding)};
  }
  Call ToFilter(Pool& pool, DType dtype) const {
    const Operand image = DrawImage(pool, dtype);
    const Sliding sliding = DrawSliding(pool, image.dims(), 2, is_depthwise_);
    const Index filter = FilterOf(pool, image.dims(), sliding);
    return OpCall{{image.output, pool.Integers(filter, DType::kInt32),
                   pool.OfShape(dtype, OutputOf(image.dims(), filter, sliding)).output},
                  AttrsOf(sliding)};
  }

 private:
  Index FilterOf(Pool& pool, const Index& image, const Sliding& sliding) const {
    return {sliding.height, sliding.width, image[3], pool.random().Between(1, is_depthwise_ ? 2 : 3)};
  }
  Index OutputOf(const Index& image, const Index& filter, const Sliding& sliding) const {
    return {image[0], sliding.outputs[0], sliding.outputs[1],
            is_depthwise_ ? filter[2] * filter[3] : filter[3]};
  }

  const bool is_depthwise_;
};

Call DrawPool(Pool& pool, DType dtype) {
  const Operand image = DrawImage(pool, dtype);
  return OpCall{{image.output}, PoolAttrsOf(DrawSliding(pool, image.dims(), 3))};
}

Call DrawMaxPoolGradGrad(Pool& pool, DType dtype) {
  const Operand image = DrawImage(pool, dtype);
  const AttrMap attrs = PoolAttrsOf(DrawSliding(pool, image.dims(), 3));
  const std::optional<Operand> largest = pool.Apply("MaxPool", image, std::nullopt, attrs);
  if (!largest) return std::nullopt;
  return OpCall{{image.output, largest->output, pool.OfShape(dtype, image.dims()).output}, attrs};
}

Call DrawAvgPoolGrad(Pool& pool, DType dtype) {
  const Index image = AnyImage(pool);
  const Sliding sliding = DrawSliding(pool, image, 3);
  const Index pooled = {image[0], sliding.outputs[0], sliding.outputs[1], image[3]};
  return OpCall{{pool.Integers(image, DType::kInt32), pool.OfShape(dtype, pooled).output},
                PoolAttrsOf(sliding)};
}

// ---- Volumes ----

Index AnyVolume(Pool& pool) {
  Random& random = pool.random();
  return {random.Between(1, 2), random.Between(1, 3), random.Between(1, 4), random.Between(1, 3),
          random.Between(1, 2)};
}

Operand DrawVolume(Pool& pool, DType dtype) {
  return pool.Draw(
      dtype, [](const Operand& operand) { return operand.rank() == 5 && operand.value.size() > 0; },
      [&] { return pool.Leaf(dtype, AnyVolume(pool)); });
}

// Windows that slide over a volume.
struct SlidingVolume {
  Index window, outputs;  // [depth, height, width]
  AttrMap attrs;
};

SlidingVolume DrawSlidingVolume(Pool& pool, const Index& volume) {
  Random& random = pool.random();
  const bool is_same = random.Chance(50);
  SlidingVolume sliding;
  Index strides = {1};
  for (int i = 1; i <= 3; ++i) {
    const int64_t stride = random.Between(1, 2), dim = volume[i];
    const int64_t size = random.Between(1, is_same ? 2 : std::min<int64_t>(2, dim));
    strides.push_back(stride);
    sliding.window.push_back(size);
    sliding.outputs.push_back((is_same ? dim + stride - 1 : dim - size + stride) / stride);
  }
  strides.push_back(1);
  sliding.attrs = {{"strides", strides}, {"padding", is_same ? "SAME" : "VALID"}};
  return sliding;
}

// A volume's or a filter's dims of these three and what stands around them.
Index Around(const Index& three, std::vector<int64_t> before, std::vector<int64_t> after) {
  before.insert(before.end(), three.begin(), three.end());
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

Call DrawConv3D(Pool& pool, DType dtype) {
  const Operand volume = DrawVolume(pool, dtype);
  const SlidingVolume sliding = DrawSlidingVolume(pool, volume.dims());
  const Index filter = Around(sliding.window, {}, {volume.dims()[4], pool.random().Between(1, 2)});
  return OpCall{{volume.output, DrawFilter(pool, dtype, filter).output}, sliding.attrs};
}

Call DrawConv3DToInput(Pool& pool, DType dtype) {
  const Index volume = AnyVolume(pool);
  const SlidingVolume sliding = DrawSlidingVolume(pool, volume);
  const Index filter = Around(sliding.window, {}, {volume[4], pool.random().Between(1, 2)});
  return OpCall{{pool.Integers(volume, DType::kInt32), DrawFilter(pool, dtype, filter).output,
                 pool.OfShape(dtype, Around(sliding.outputs, {volume[0]}, {filter[4]})).output},
                sliding.attrs};
}

Call DrawConv3DToFilter(Pool& pool, DType dtype) {
  const Operand volume = DrawVolume(pool, dtype);
  const SlidingVolume sliding = DrawSlidingVolume(pool, volume.dims());
  const Index filter = Around(sliding.window, {}, {volume.dims()[4], pool.random().Between(1, 2)});
  return OpCall{{volume.output, pool.Integers(filter, DType::kInt32),
                 pool.OfShape(dtype, Around(sliding.outputs, {volume.dims()[0]}, {filter[4]})).output},
                sliding.attrs};
}

AttrMap PoolAttrsOf(const SlidingVolume& sliding) {
  AttrMap attrs = sliding.attrs;
  attrs["ksize"] = Around(sliding.window, {1}, {1});
  return attrs;
}

Call DrawVolumePool(Pool& pool, DType dtype) {
  const Operand volume = DrawVolume(pool, dtype);
  return OpCall{{volume.output}, PoolAttrsOf(DrawSlidingVolume(pool, volume.dims()))};
}

Call DrawAvgPool3DGrad(Pool& pool, DType dtype) {
  const Index volume = AnyVolume(pool);
  const SlidingVolume sliding = DrawSlidingVolume(pool, volume);
  const Index pooled = Around(sliding.outputs, {volume[0]}, {volume[4]});
  return OpCall{{pool.Integers(volume, DType::kInt32), pool.OfShape(dtype, pooled).output},
                PoolAttrsOf(sliding)};
}

AttrMap DrawLrnAttrs(Pool& pool) {
  return {{"depth_radius", pool.random().Between(0, 2)}, {"bias", 1.5f}, {"alpha", 0.5f}, {"beta", 0.75f}};
}

Call DrawLrn(Pool& pool, DType dtype) { return OpCall{{DrawImage(pool, dtype).output}, DrawLrnAttrs(pool)}; }

Call DrawLrnGrad(Pool& pool, DType dtype) {
  const Operand x = DrawImage(pool, dtype);
  return OpCall{{pool.OfShape(dtype, x.dims()).output, x.output, pool.OfShape(dtype, x.dims()).output},
                DrawLrnAttrs(pool)};
}

// In training the averages are not read, but must be there. Otherwise no gradient flows to them, so they are
// never tensors of the pool.
Call DrawBatchNorm(Pool& pool, DType dtype) {
  const Operand x = DrawImage(pool, dtype);
  const bool is_first = pool.random().Chance(20);
  const Index channels = {x.value.dim(is_first ? 1 : 3)};
  const Output scale = pool.OfShape(DType::kFloat32, channels).output;
  const Output offset = pool.OfShape(DType::kFloat32, channels).output;
  const bool is_training = pool.random().Chance(60);
  Array mean(is_training ? Index{0} : channels), variance = mean;
  for (int64_t i = 0; i < mean.size(); ++i) {
    mean[i] = static_cast<double>(pool.random().Between(-8, 8)) / 8;
    variance[i] = static_cast<double>(pool.random().Between(4, 24)) / 8;
  }
  return OpCall{
      {x.output, scale, offset, pool.Exactly(mean, DType::kFloat32), pool.Exactly(variance, DType::kFloat32)},
      {{"is_training", is_training},
       {"epsilon", 0.125f},  // a channel of equal elements must not be divided by almost nothing
       {"data_format", is_first ? "NCHW" : "NHWC"}}};
}

DrawCall DrawBatchNormGrad(bool has_reserve) {
  return [has_reserve](Pool& pool, DType dtype) -> Call {
    const Operand x = DrawImage(pool, dtype);
    const Index channels = {x.value.dim(3)};
    OpCall call = {
        {pool.OfShape(dtype, x.dims()).output, x.output, pool.OfShape(DType::kFloat32, channels).output,
         pool.OfShapeBetween(DType::kFloat32, channels, -1, 1).output,
         pool.OfShapeBetween(DType::kFloat32, channels, 0.5, 3).output},
        {{"is_training", pool.random().Chance(60)}, {"epsilon", 0.125f}}};
    if (has_reserve) call.inputs.push_back(pool.OfRank(DType::kFloat32, 0).output);
    return call;
  };
}

}  // namespace

Operand DrawImage(Pool& pool, DType dtype) {
  return pool.Draw(
      dtype, [](const Operand& operand) { return operand.rank() == 4 && operand.value.size() > 0; },
      [&] { return pool.Leaf(dtype, AnyImage(pool)); });
}

void AddImageRows(std::vector<OpRow>* rows) {
  const auto add = [&](const std::string& op, const std::vector<DType>& dtypes, const DrawCall& draw,
                       int weight = 2) {
    rows->push_back({op, dtypes, draw, weight});
  };
  const auto add_convolution = [&](const std::string& op, const Convolution& convolution) {
    const auto forward = [=](Pool& pool, DType dtype) { return convolution.Forward(pool, dtype); };
    const auto to_input = [=](Pool& pool, DType dtype) { return convolution.ToInput(pool, dtype); };
    const auto to_filter = [=](Pool& pool, DType dtype) { return convolution.ToFilter(pool, dtype); };
    add(op, BigFloats(), forward, 3);
    add(op + "BackpropInput", BigFloats(), to_input, 1);
    add(op + "BackpropFilter", BigFloats(), to_filter, 1);
  };
  add_convolution("Conv2D", Convolution(/*is_depthwise=*/false));
  add_convolution("DepthwiseConv2dNative", Convolution(/*is_depthwise=*/true));
  add("MaxPool", BigFloats(), DrawPool, 3);
  add("MaxPoolGradGrad", BigFloats(), DrawMaxPoolGradGrad, 1);
  add("AvgPool", BigFloats(), DrawPool, 3);
  add("AvgPoolGrad", BigFloats(), DrawAvgPoolGrad, 1);
  add("Conv3D", BigFloats(), DrawConv3D);
  add("Conv3DBackpropInputV2", BigFloats(), DrawConv3DToInput, 1);
  add("Conv3DBackpropFilterV2", BigFloats(), DrawConv3DToFilter, 1);
  add("MaxPool3D", {DType::kFloat32}, DrawVolumePool);
  add("AvgPool3D", BigFloats(), DrawVolumePool);
  add("AvgPool3DGrad", BigFloats(), DrawAvgPool3DGrad, 1);
  add("LRN", {DType::kFloat32}, DrawLrn);
  add("LRNGrad", {DType::kFloat32}, DrawLrnGrad, 1);
  for (const std::string version : {"", "V2", "V3"}) {
    std::vector<DType> types = {DType::kFloat32};
    if (!version.empty()) types.insert(types.end(), {DType::kHalf, DType::kBfloat16});
    add("FusedBatchNorm" + version, types, DrawBatchNorm);
    rows->back().num_offered = 1;  // no gradient flows through the statistics, though y depends on them
    add("FusedBatchNormGrad" + version, types, DrawBatchNormGrad(version == "V3"), 1);
  }
}

}  // namespace weir::random_graphs
