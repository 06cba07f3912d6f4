// ExtractImagePatches and ExtractVolumePatches: the elements under each window, one behind the other.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 1;  // nanoseconds per element on one core

// A volume [batch, size..., channels], of which an image is one of depth 1.
constexpr int kSpatialRank = 3;

struct PatchGeometry {
  int64_t batch = 0, channels = 0;
  int64_t input[kSpatialRank] = {1, 1, 1};
  int64_t output[kSpatialRank] = {1, 1, 1};
  int64_t window[kSpatialRank] = {1, 1, 1};
  int64_t stride[kSpatialRank] = {1, 1, 1};
  int64_t rate[kSpatialRank] = {1, 1, 1};
  int64_t before[kSpatialRank] = {};  // padding
};

// The window pixels of output pixel `position`, counted over the batch, become the elements at `to`.
template <typename T>
void CopyWindow(const PatchGeometry& g, int64_t position, const T* from, T* to) {
  int64_t first[kSpatialRank];
  for (int d = kSpatialRank - 1; d >= 0; --d) {
    first[d] = position % g.output[d] * g.stride[d] - g.before[d];
    position /= g.output[d];
  }
  const auto is_inside = [&g](int d, int64_t at) { return at >= 0 && at < g.input[d]; };
  for (int64_t i = 0; i < g.window[0]; ++i) {
    const int64_t z = first[0] + i * g.rate[0];
    for (int64_t j = 0; j < g.window[1]; ++j) {
      const int64_t y = first[1] + j * g.rate[1];
      for (int64_t k = 0; k < g.window[2]; ++k, to += g.channels) {
        const int64_t x = first[2] + k * g.rate[2];
        if (is_inside(0, z) && is_inside(1, y) && is_inside(2, x)) {
          const int64_t pixel = ((position * g.input[0] + z) * g.input[1] + y) * g.input[2] + x;
          std::copy_n(from + pixel * g.channels, g.channels, to);
        } else {
          std::fill_n(to, g.channels, T());
        }
      }
    }
  }
}

class ExtractPatches final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    auto kernel =
        std::make_unique<ExtractPatches>(construction.node().op_name() == "ExtractImagePatches" ? 2 : 3);
    kernel->padding_ = construction.attr<std::string>("padding");
    WEIR_RETURN_IF_ERROR(kernel->Read(construction, "ksizes", kernel->attrs_.window));
    WEIR_RETURN_IF_ERROR(kernel->Read(construction, "strides", kernel->attrs_.stride));
    if (kernel->spatial_rank_ == 2)
      WEIR_RETURN_IF_ERROR(kernel->Read(construction, "rates", kernel->attrs_.rate));
    return kernel;
  }

  explicit ExtractPatches(int spatial_rank) : spatial_rank_(spatial_rank) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const PatchGeometry geometry, GeometryOf(input.shape()));
    Dims dims = {geometry.batch};
    dims.insert(dims.end(), geometry.output + first_axis(), geometry.output + kSpatialRank);
    int64_t depth = geometry.channels;
    for (const int64_t size : geometry.window) {
      if (!__builtin_mul_overflow(depth, size, &depth)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the windows of input ", input.shape().ToString(), " are too large"));
    }
    dims.push_back(depth);
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    absl::Status status;
    WithElementType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const T* const from = static_cast<const T*>(input.data());
      T* const to = static_cast<T*>(output->data());
      status = ParallelForInTime(context, shape.num_elements() / depth, kCost * static_cast<double>(depth),
                                 [&](int64_t begin, int64_t end) {
                                   for (int64_t i = begin; i < end; ++i)
                                     CopyWindow(geometry, i, from, to + i * depth);
                                 });
    });
    return status;
  }

 private:
  int first_axis() const { return kSpatialRank - spatial_rank_; }

  absl::Status Read(const KernelConstruction& construction, absl::string_view attr, int64_t* values) const {
    const auto& list = construction.attr<std::vector<int64_t>>(attr);
    const auto describe = [&] { return absl::StrCat("[", absl::StrJoin(list, ","), "]"); };
    if (static_cast<int>(list.size()) != spatial_rank_ + 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("attr ", attr, " must have ", spatial_rank_ + 2, " elements, is ", describe()));
    }
    if (list.front() != 1 || list.back() != 1) {
      return absl::UnimplementedError(absl::StrCat("Only support ", attr, " across space, is ", describe()));
    }
    for (int i = 0; i < spatial_rank_; ++i) {
      values[first_axis() + i] = list[1 + i];
      if (list[1 + i] < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("attr ", attr, " must be at least 1, is ", describe()));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PatchGeometry> GeometryOf(const Shape& input) const {
    if (input.rank() != spatial_rank_ + 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("input must be ", spatial_rank_ + 2, "-dimensional, is ", input.ToString()));
    }
    PatchGeometry geometry = attrs_;
    geometry.batch = input.dim(0);
    geometry.channels = input.dim(input.rank() - 1);
    for (int i = 0; i < spatial_rank_; ++i) {
      const int d = first_axis() + i;
      geometry.input[d] = input.dim(1 + i);
      WEIR_ASSIGN_OR_RETURN(
          const WindowExtent extent,
          SlideWindow(geometry.input[d], geometry.window[d], geometry.stride[d], geometry.rate[d], padding_));
      geometry.output[d] = extent.size;
      geometry.before[d] = extent.padding_before;
    }
    return geometry;
  }

  const int spatial_rank_;
  std::string padding_;
  PatchGeometry attrs_;
};

}  // namespace

void RegisterPatchesKernels(DeviceKernels& kernels) {
  kernels.Add<ExtractPatches>("ExtractImagePatches", {{"T", CountableDTypes()}});
  kernels.Add<ExtractPatches>("ExtractVolumePatches", {{"T", RealDTypes()}});
}

}  // namespace weir
