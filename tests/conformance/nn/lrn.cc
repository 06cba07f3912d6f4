// Local response normalisation.
#include <cmath>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

struct Lrn {
  explicit Lrn(const reference::Call& call)
      : radius(call.integer("depth_radius")),
        bias(call.node.attr<float>("bias")),
        alpha(call.node.attr<float>("alpha")),
        beta(call.node.attr<float>("beta")) {}

  double Norm(const Array& image, Index at) const {
    const int64_t c = at[3];
    double sum = 0;
    for (at[3] = 0; at[3] < image.dim(3); ++at[3]) {
      if (std::abs(at[3] - c) <= radius) sum += std::norm(image.at(at).number);
    }
    return bias + alpha * sum;
  }

  int64_t radius;
  double bias, alpha, beta;
};

void Forward(reference::Call& call) {
  const Lrn lrn(call);
  const Array& x = call.in(0);
  call.outputs[0] = Array(x.dims());
  for (int64_t i = 0; i < x.size(); ++i) {
    call.outputs[0][i] = x[i].real() * std::pow(lrn.Norm(x, x.IndexOf(i)), -lrn.beta);
  }
}

// dx[k] is the sum of dy[c] * dy[c]/dx[k] over the channels c near k.
void Backward(reference::Call& call) {
  const Lrn lrn(call);
  const Array &dy = call.in(0), &x = call.in(1), &y = call.in(2);
  call.outputs[0] = Array(x.dims());
  for (int64_t i = 0; i < x.size(); ++i) {
    Index at = x.IndexOf(i);
    const int64_t k = at[3];
    double sum = 0;
    for (at[3] = 0; at[3] < x.dim(3); ++at[3]) {
      if (std::abs(at[3] - k) > lrn.radius) continue;
      const double norm = lrn.Norm(x, at);
      double slope = -2 * lrn.alpha * lrn.beta * x[i].real() * y.at(at).real() / norm;
      if (at[3] == k) slope += std::pow(norm, -lrn.beta);
      sum += slope * dy.at(at).real();
    }
    call.outputs[0][i] = sum;
  }
}

}  // namespace

void AddLrnRecords(Suite& suite) {
  const auto f = [](std::vector<int64_t> dims, int seed = 1, DType d = DType::kFloat32) {
    return Sample(d, std::move(dims), -2, 2, seed);
  };
  const AttrMap narrow = {{"depth_radius", 1}, {"bias", 1.5f}, {"alpha", 0.5f}, {"beta", 0.7f}};
  // There is no double to check gradients in; LRNGrad is compared with its definition.
  OpRecord& forward = suite.Op("LRN").Reference(Forward).NoGradient();
  OpRecord& backward = suite.Op("LRNGrad").Reference(Backward).NoGradient();  // TensorFlow has none
  for (DType d : {DType::kFloat32, DType::kHalf, DType::kBfloat16}) {
    const double tolerance = d == DType::kFloat32 ? 1e-5 : d == DType::kHalf ? 5e-3 : 4e-2;
    forward.Tolerance(tolerance).Call({f({2, 2, 3, 7}, 1, d)}, narrow).Call({f({1, 2, 1, 4}, 1, d)});
    backward.Tolerance(tolerance).Call({f({2, 2, 3, 7}, 1, d), f({2, 2, 3, 7}, 2, d), f({2, 2, 3, 7}, 3, d)},
                                       narrow);
  }
  forward.Call({f({1, 2, 1, 4})}, {{"depth_radius", 0}});
  forward.Call({f({1, 0, 1, 4})}).Call({f({1, 2, 1, 0})});
  backward.Call({f({1, 2, 1, 0}), f({1, 2, 1, 0}), f({1, 2, 1, 0})});
  forward.Hostile({f({2, 3, 4})}, "4 dimensions");
  backward.Hostile({f({1, 2, 2, 3}), f({1, 2, 2, 4}), f({1, 2, 2, 4})}, "input_grads is [1,2,2,3]");
  backward.Hostile({f({1, 2, 2, 4}), f({1, 2, 2, 4}), f({1, 2, 2})}, "output_image is [1,2,2]");
  backward.Hostile({f({4}), f({4}), f({4})}, "4 dimensions");
}

}  // namespace weir::conformance
