// NearestNeighbors: which centers are nearest to each point.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/timely_loop.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

absl::Status CheckNearest(const Tensor& points, const Tensor& centers) {
  if (points.shape().rank() != 2) return absl::InvalidArgumentError("Input points should be a matrix.");
  if (centers.shape().rank() != 2) return absl::InvalidArgumentError("Input centers should be a matrix.");
  if (points.shape().dim(0) == 0) return absl::InvalidArgumentError("Expected points.rows() > 0.");
  if (points.shape().dim(1) == centers.shape().dim(1)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Expected point_dimensions == center_dimensions: ",
                                                 points.shape().dim(1), " vs ", centers.shape().dim(1), "."));
}

float SquaredDistance(const float* a, const float* b, int64_t size) {
  float sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

using Neighbor = std::pair<float, int64_t>;  // squared distance, number of the center

bool IsNearer(const Neighbor& a, const Neighbor& b) {
  if (std::isnan(a.first) || std::isnan(b.first)) {
    return std::make_pair(std::isnan(a.first), a.second) < std::make_pair(std::isnan(b.first), b.second);
  }
  return a < b;
}

// The `count` nearest of `m` centers, the nearest first. Holds no more than these, as many as the outputs
// have for a point. Precondition: 0 < count <= m.
void FindNearest(const float* point, const float* centers, int64_t m, int64_t d, int64_t count,
                 std::vector<Neighbor>& nearest) {
  nearest.clear();
  for (int64_t j = 0; j < m; ++j) {
    const Neighbor candidate = {SquaredDistance(point, centers + j * d, d), j};
    if (j < count) {
      nearest.push_back(candidate);
      std::push_heap(nearest.begin(), nearest.end(), IsNearer);
    } else if (IsNearer(candidate, nearest.front())) {
      std::pop_heap(nearest.begin(), nearest.end(), IsNearer);
      nearest.back() = candidate;
      std::push_heap(nearest.begin(), nearest.end(), IsNearer);
    }
  }
  std::sort_heap(nearest.begin(), nearest.end(), IsNearer);
}

// Inputs: points [n, d], centers [m, d], k. Outputs: indices and squared distances [n, min(k, m)], the
// nearest first; of equally near ones the one with the lower index, and NaN behind all.
absl::Status NearestNeighbors(KernelContext& context) {
  const Tensor &points = context.input(0), &centers = context.input(1);
  WEIR_RETURN_IF_ERROR(CheckNearest(points, centers));
  if (context.input(2).shape().rank() != 0) {
    return absl::InvalidArgumentError("Input k should be a scalar.");
  }
  const int64_t k = context.input(2).scalar<int64_t>();
  if (k < 0) return absl::InvalidArgumentError(absl::StrCat("k must not be negative, is ", k));
  const int64_t n = points.shape().dim(0), m = centers.shape().dim(0), d = points.shape().dim(1);
  const int64_t count = std::min(k, m);
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({n, count}));
  WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, shape));
  WEIR_ASSIGN_OR_RETURN(Tensor * distances, context.AllocateOutput(1, shape));
  if (count == 0) return absl::OkStatus();
  // Centers without coordinates take no memory, so there may be any number of them; the first ones win.
  const int64_t num_candidates = d == 0 ? count : m;
  const double cost = static_cast<double>(num_candidates) * (static_cast<double>(d) + 5);
  return ParallelForInTime(context, n, cost, [&](int64_t begin, int64_t end) {
    std::vector<Neighbor> nearest;
    for (int64_t i = begin; i < end; ++i) {
      const float* const point = points.flat<float>().data() + i * d;
      FindNearest(point, centers.flat<float>().data(), num_candidates, d, count, nearest);
      for (int64_t j = 0; j < count; ++j) {
        distances->flat<float>()[i * count + j] = nearest[j].first;
        indices->flat<int64_t>()[i * count + j] = nearest[j].second;
      }
    }
  });
}

}  // namespace

void RegisterNearestNeighborsKernels(DeviceKernels& kernels) {
  kernels.Add<&NearestNeighbors>("NearestNeighbors");
}

}  // namespace weir
