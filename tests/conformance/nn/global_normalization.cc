// The batch normalization of old graphs.
#include <cmath>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

double Scale(const Call& call, const Array& gamma, int64_t channel) {
  return call.flag("scale_after_normalization") ? gamma[channel].real() : 1;
}

double Deviation(const Call& call, int64_t channel) {
  return std::sqrt(call.in(2)[channel].real() +
                   static_cast<double>(call.node.attr<float>("variance_epsilon")));
}

void Normalize(Call& call) {
  call.outputs[0] = Generate(call.in(0).dims(), [&](const Index& at) {
    const int64_t c = at[3];
    const double centered = call.in(0).at(at).real() - call.in(1)[c].real();
    return Value(centered / Deviation(call, c) * Scale(call, call.in(4), c) + call.in(3)[c].real());
  });
}

void NormalizeGrad(Call& call) {
  const Array& t = call.in(0);
  call.outputs.assign(5, Array({t.dim(3)}));
  call.outputs[0] = Array(t.dims());
  for (int64_t i = 0; i < t.size(); ++i) {
    const int64_t c = t.IndexOf(i)[3];
    const double deviation = Deviation(call, c), scale = Scale(call, call.in(3), c);
    const double dy = call.in(4)[i].real(), centered = t[i].real() - call.in(1)[c].real();
    call.outputs[0][i] = dy * scale / deviation;
    call.outputs[1][c].number -= dy * scale / deviation;
    call.outputs[2][c].number -= dy * scale * centered / (2 * std::pow(deviation, 3));
    call.outputs[3][c].number += dy;
    if (call.flag("scale_after_normalization")) call.outputs[4][c].number += dy * centered / deviation;
  }
}

}  // namespace

void AddGlobalNormalizationRecords(Suite& suite) {
  OpRecord& record = suite.Op("BatchNormWithGlobalNormalization").Reference(Normalize);
  OpRecord& grad = suite.Op("BatchNormWithGlobalNormalizationGrad").Reference(NormalizeGrad).NoGradient();
  for (const bool scales : {true, false}) {
    const AttrMap attrs = {{"variance_epsilon", 0.01f}, {"scale_after_normalization", scales}};
    for (const D d : {D::kFloat32, D::kFloat64, D::kHalf}) {
      const Tensor t = Sample(d, {2, 3, 2, 4}), m = Sample(d, {4}, -1, 1, 2), v = Sample(d, {4}, 0.5, 3, 3);
      const Tensor beta = Sample(d, {4}, -1, 1, 4), gamma = Sample(d, {4}, 0.5, 2, 5);
      record.Tolerance(SumTolerance(d)).Call({t, m, v, beta, gamma}, attrs);
      grad.Tolerance(SumTolerance(d)).Call({t, m, v, gamma, Sample(d, {2, 3, 2, 4}, -1, 1, 6)}, attrs);
    }
    const Tensor none = Empty({0, 2, 2, 3}), three = Sample(D::kFloat32, {3}, 1, 2);
    record.Call({none, three, three, three, three}, attrs);
    grad.Call({none, three, three, three, none}, attrs);
  }
  const AttrMap attrs = {{"variance_epsilon", 0.01f}, {"scale_after_normalization", true}};
  const Tensor t = Floats({1, 2, 2, 3}), three = Floats({3}), two = Floats({2});
  record.Hostile({Floats({2, 3}), three, three, three, three}, "input must be 4-dimensional", attrs)
      .Hostile({t, two, three, three, three}, "input 1 must have one element for each channel", attrs)
      .Hostile({t, three, three, three, Floats({1, 3})}, "input 4 must have one element", attrs);
  grad.Hostile({Floats({2, 3}), three, three, three, t}, "input must be 4-dimensional", attrs)
      .Hostile({t, three, three, two, t}, "input 3 must have one element for each channel", attrs)
      .Hostile({t, three, three, three, Floats({1, 2, 1, 3})}, "backprop must have the shape of t", attrs);
  for (OpRecord* each : {&record, &grad}) {
    each->NoKernelFor("T",
                      {D::kInt32, D::kInt64, D::kInt8, D::kInt16, D::kUint8, D::kUint16, D::kUint32,
                       D::kUint64, D::kBfloat16, D::kComplex64, D::kComplex128},
                      "TensorFlow has none either");
  }
}

}  // namespace weir::conformance
