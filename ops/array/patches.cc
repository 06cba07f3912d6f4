// The windows of images and volumes, as tensors of their own.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

template <int spatial_rank>
Status PatchesShape(ShapeInference& s) {
  constexpr int kRank = spatial_rank + 2;
  WEIR_ASSIGN_OR_RETURN(const PartialShape input, s.WithRank(0, kRank));
  const std::vector<int64_t> ones(kRank, 1);
  const auto& sizes = s.attr<std::vector<int64_t>>("ksizes");
  const auto& strides = s.attr<std::vector<int64_t>>("strides");
  const auto& rates = spatial_rank == 2 ? s.attr<std::vector<int64_t>>("rates") : ones;
  for (const auto* list : {&sizes, &strides, &rates}) {
    if (list->size() == kRank) continue;
    return InvalidArgumentError(
        StrCat("ksizes, strides and rates must have ", kRank, " elements, one has ", list->size()));
  }
  std::vector<int64_t> dims = DimsOf(input);
  for (int i = 1; i <= spatial_rank; ++i) {
    if (sizes[i] < 1) return InvalidArgumentError(StrCat("no window has size ", sizes[i]));
    WEIR_ASSIGN_OR_RETURN(const WindowExtent extent, SlideWindow(dims[i], sizes[i], strides[i], rates[i],
                                                                 s.attr<std::string>("padding")));
    dims[i] = extent.size;
    dims[kRank - 1] = MultiplyDims(dims[kRank - 1], sizes[i]);
  }
  return SetOutputDims(s, 0, dims);
}

// Each element of a patch was that of one pixel: the patches of the pixels' numbers say of which one. They
// begin with 1, so that what lies beside the image is no pixel.
template <int spatial_rank>
Status PatchesGradient(GradientContext& g) {
  std::vector<int32_t> spatial;
  for (int i = 1; i <= spatial_rank; ++i) spatial.push_back(i);
  AttrMap attrs = {{"ksizes", g.attr<std::vector<int64_t>>("ksizes")},
                   {"strides", g.attr<std::vector<int64_t>>("strides")},
                   {"padding", g.attr<std::string>("padding")}};
  if (spatial_rank == 2) attrs["rates"] = g.attr<std::vector<int64_t>>("rates");
  const Output shape = ShapeOf(g, g.input(0)), first_axis = g.Constant(DType::kInt32, 0);
  const auto dims = [&](std::vector<int32_t> axes) {
    return g.Add("GatherV2", {shape, g.Integers(std::move(axes)), first_axis});
  };
  const auto concat = [&](std::vector<Output> parts) {
    return g.Add("ConcatV2", {std::move(parts), first_axis});
  };

  const Output one = g.Constant(DType::kInt64, 1);
  const Output num_pixels = g.Add("Prod", {Cast(g, dims(spatial), DType::kInt64), first_axis});
  const Output numbers = Reshape(g, g.Add("Range", {one, Add(g, num_pixels, one), one}),
                                 concat({g.Integers({1}), dims(spatial), g.Integers({1})}));
  const Output patches = g.Add(g.node().op_name(), {numbers}, attrs);
  const Output pixels = Reshape(g, Sub(g, patches, one), g.Integers({-1}));

  const Output by_image =
      Reshape(g, g.grad(0), concat({dims({0}), g.Add("Shape", {pixels}), dims({spatial_rank + 1})}));
  const auto swapped = [&](Output a) { return g.Add("Transpose", {a, g.Integers({1, 0, 2})}); };
  const Output sums = g.Add("UnsortedSegmentSum", {swapped(by_image), pixels, num_pixels});
  g.set_input_grad(0, ReshapeLike(g, swapped(sums), g.input(0)));
  return OkStatus();
}

}  // namespace

std::vector<OpDef> PatchesOps() {
  return {
      {.name = "ExtractImagePatches",
       .summary = "Gives the elements of images under each place of a window, one behind the other.",
       .infer_shapes = PatchesShape<2>,
       .gradient = PatchesGradient<2>},
      {.name = "ExtractVolumePatches",
       .summary = "Gives the elements of volumes under each place of a window, one behind the other.",
       .infer_shapes = PatchesShape<3>,
       .gradient = PatchesGradient<3>},
  };
}

}  // namespace weir
