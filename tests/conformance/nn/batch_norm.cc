// FusedBatchNorm and its gradient.
#include <cmath>
#include <string>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using Dims = std::vector<int64_t>;

// The elements of each channel.
struct ByChannel {
  explicit ByChannel(const reference::Call& call, const Array& image)
      : axis(call.text("data_format").find('C')), elements(image.dim(static_cast<int>(axis))) {
    for (int64_t i = 0; i < image.size(); ++i) elements[image.IndexOf(i)[axis]].push_back(i);
  }
  size_t axis;
  std::vector<std::vector<int64_t>> elements;
};

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

void BatchNorm(reference::Call& call) {
  const Array& x = call.in(0);
  const double epsilon = call.node.attr<float>("epsilon");
  const double factor = call.node.attr<float>("exponential_avg_factor");
  const bool is_training = call.flag("is_training");
  const ByChannel by_channel(call, x);
  const int64_t channels = static_cast<int64_t>(by_channel.elements.size());
  call.outputs[0] = Array(x.dims());
  for (int i = 1; i < 5; ++i) call.outputs[i] = Array({channels});
  if (call.outputs.size() == 6) call.outputs[5] = Array(Index{}, Value(0));
  for (int64_t c = 0; c < channels; ++c) {
    std::vector<double> values, squares;
    for (int64_t i : by_channel.elements[c]) values.push_back(x[i].real());
    double mean = MeanOf(values);
    for (double value : values) squares.push_back((value - mean) * (value - mean));
    double variance = MeanOf(squares);
    double new_mean = mean, n = static_cast<double>(values.size());
    double new_variance = variance * n / std::max(1.0, n - 1);
    if (is_training && factor != 1) {
      new_mean = (1 - factor) * call.in(3)[c].real() + factor * new_mean;
      new_variance = (1 - factor) * call.in(4)[c].real() + factor * new_variance;
    }
    if (!is_training && n > 0) {
      mean = new_mean = call.in(3)[c].real();
      variance = new_variance = call.in(4)[c].real();
    }
    for (int64_t i : by_channel.elements[c]) {
      call.outputs[0][i] =
          (x[i].real() - mean) / std::sqrt(variance + epsilon) * call.in(1)[c].real() + call.in(2)[c].real();
    }
    call.outputs[1][c] = new_mean;
    call.outputs[2][c] = new_variance;
    call.outputs[3][c] = mean;
    call.outputs[4][c] = variance;
  }
}

// The chain rule, as the paper of Ioffe and Szegedy has it (section 3).
void BatchNormGrad(reference::Call& call) {
  const Array &dy = call.in(0), &x = call.in(1);
  const double epsilon = call.node.attr<float>("epsilon");
  const ByChannel by_channel(call, x);
  const int64_t channels = static_cast<int64_t>(by_channel.elements.size());
  call.outputs[0] = Array(x.dims());
  for (int i = 1; i < 3; ++i) call.outputs[i] = Array({channels});
  for (int i = 3; i < 5; ++i) call.outputs[i] = Array({0});
  for (int64_t c = 0; c < channels; ++c) {
    const double scale = call.in(2)[c].real(), mean = call.in(3)[c].real();
    const double deviation = std::sqrt(call.in(4)[c].real() + epsilon);
    const double n = static_cast<double>(by_channel.elements[c].size());
    double by_scale = 0, by_offset = 0, by_variance = 0, by_mean = 0;
    for (int64_t i : by_channel.elements[c]) {
      const double centered = x[i].real() - mean, by_normal = dy[i].real() * scale;
      by_scale += dy[i].real() * centered / deviation;
      by_offset += dy[i].real();
      by_variance += by_normal * centered * -0.5 / std::pow(deviation, 3);
      by_mean += by_normal * -1 / deviation;
    }
    for (int64_t i : by_channel.elements[c]) {
      double dx = dy[i].real() * scale / deviation;
      if (call.flag("is_training")) dx += by_variance * 2 * (x[i].real() - mean) / n + by_mean / n;
      call.outputs[0][i] = dx;
    }
    call.outputs[1][c] = by_scale;
    call.outputs[2][c] = by_offset;
  }
}

double ToleranceOf(DType d) { return d == DType::kFloat32 ? 2e-5 : d == DType::kHalf ? 5e-3 : 4e-2; }

// Offset, mean or the like: one for each channel.
Tensor PerChannel(int64_t channels, double low, double high, int seed) {
  return Sample(DType::kFloat32, {channels}, low, high, seed);
}

struct Image {
  Dims dims;
  int64_t channels;
  const char* format;
};

void AddForward(Suite& suite, const std::string& op, const Image& image, DType d, bool is_training,
                float factor) {
  const int64_t c = image.channels;
  suite.Op(op).Call({.attrs = {{"data_format", image.format},
                               {"is_training", is_training},
                               {"exponential_avg_factor", factor}},
                     .inputs = {Sample(d, image.dims, -1, 3), PerChannel(c, 0.5, 2, 2),
                                PerChannel(c, -1, 1, 3), PerChannel(c, 0, 1, 4), PerChannel(c, 1, 2, 5)},
                     // There is no double to check it in; FusedBatchNormGrad is compared with its definition.
                     .check_gradient = false,
                     .gradient_outputs = {0},
                     .tolerance = ToleranceOf(d)});
}

void AddBackward(Suite& suite, const std::string& op, const Image& image, DType d, bool is_training) {
  const int64_t c = image.channels;
  std::vector<CaseInput> inputs = {Sample(d, image.dims, -1, 1, 6), Sample(d, image.dims, -1, 3),
                                   PerChannel(c, 0.5, 2, 2), PerChannel(c, 0, 1, 4), PerChannel(c, 1, 2, 5)};
  if (op.find("V3") != std::string::npos) inputs.push_back(Make(DType::kFloat32, {}, {0}));
  suite.Op(op).Call({.attrs = {{"data_format", image.format}, {"is_training", is_training}},
                     .inputs = std::move(inputs),
                     .check_gradient = false,
                     .tolerance = ToleranceOf(d)});
}

void AddHostile(Suite& suite, const std::string& version) {
  const auto f = [](Dims dims) { return Sample(DType::kFloat32, std::move(dims), 1, 2); };
  const Tensor x = f({2, 3, 3, 4});
  OpRecord& forward = suite.Op("FusedBatchNorm" + version);
  forward.Hostile({f({2, 3, 4}), f({4}), f({4}), f({4}), f({4})}, "4 dimensions");
  forward.Hostile({x, f({3}), f({4}), f({4}), f({4})}, "scale must");
  forward.Hostile({x, f({4}), f({4, 1}), f({4}), f({4})}, "offset must");
  forward.Hostile({x, f({4}), f({4}), f({0}), f({4})}, "mean must", {{"is_training", false}});
  forward.Hostile({x, f({4}), f({4}), f({4}), f({5})}, "variance must", {{"exponential_avg_factor", 0.5f}});
  forward.Hostile({x, f({4}), f({4}), f({2, 2}), f({4})}, "mean must");
  OpRecord& backward = suite.Op("FusedBatchNormGrad" + version);
  const auto add = [&](std::vector<CaseInput> inputs, const char* error) {
    if (version == "V3") inputs.push_back(f({}));
    backward.Hostile(std::move(inputs), error);
  };
  add({f({2, 3, 3, 3}), x, f({4}), f({4}), f({4})}, "y_backprop is [2,3,3,3]");
  add({x, x, f({5}), f({4}), f({4})}, "scale must");
  add({x, x, f({4}), f({}), f({4})}, "reserve_space_1 must");
  add({x, x, f({4}), f({4}), f({0})}, "reserve_space_2 must");
  add({f({4}), f({4}), f({4}), f({4}), f({4})}, "4 dimensions");
}

}  // namespace

void AddBatchNormRecords(Suite& suite) {
  const Image last = {{2, 5, 3, 19}, 19, "NHWC"}, first = {{3, 5, 9, 9}, 5, "NCHW"};
  for (const std::string version : {"", "V2", "V3"}) {
    const std::string forward = "FusedBatchNorm" + version, backward = "FusedBatchNormGrad" + version;
    suite.Op(forward).Reference(BatchNorm);
    suite.Op(backward).Reference(BatchNormGrad);
    for (const Image& image : {last, first, Image{{1, 1, 1, 3}, 3, "NHWC"}, Image{{0, 2, 2, 3}, 3, "NHWC"},
                               Image{{2, 3, 0, 2}, 3, "NCHW"}, Image{{700, 2, 2, 30}, 30, "NHWC"}}) {
      AddForward(suite, forward, image, DType::kFloat32, true, 1);
      AddForward(suite, forward, image, DType::kFloat32, false, 1);
      AddBackward(suite, backward, image, DType::kFloat32, true);
      AddBackward(suite, backward, image, DType::kFloat32, false);
    }
    AddForward(suite, forward, last, DType::kFloat32, true, 0.25f);
    for (DType d : {DType::kHalf, DType::kBfloat16}) {
      if (version.empty()) continue;
      AddForward(suite, forward, last, d, true, 1);
      AddBackward(suite, backward, last, d, true);
    }
    AddHostile(suite, version);
  }
  AddForward(suite, "FusedBatchNormV3", {{2, 2, 3, 2, 4}, 4, "NDHWC"}, DType::kFloat32, true, 1);
  AddForward(suite, "FusedBatchNormV3", {{2, 4, 3, 2, 2}, 4, "NCDHW"}, DType::kFloat32, false, 1);
  AddBackward(suite, "FusedBatchNormGradV3", {{2, 2, 3, 2, 4}, 4, "NDHWC"}, DType::kFloat32, true);
  suite.Op("FusedBatchNormV3").NoKernelFor("U", {DType::kBfloat16}, "TensorFlow has none either");
}

}  // namespace weir::conformance
