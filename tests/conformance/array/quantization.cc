// Numbers rounded to few levels. Ranges and numbers lie away from halves of levels, where the last bit of a
// quotient decides; tensorflow_test.py compares gradients, which are not those of what the ops compute.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

struct Range {
  double least, most;
};

// The channel of an element, and the range of each channel.
int64_t ChannelAt(const Index& at, int64_t axis) { return axis < 0 ? 0 : at[axis]; }

Range RangeOf(const Array& x, int64_t axis, int64_t channel) {
  Range range = {kInfinity, -kInfinity};
  for (int64_t i = 0; i < x.size(); ++i) {
    if (ChannelAt(x.IndexOf(i), axis) != channel) continue;
    range.least = std::min(range.least, x[i].real());
    range.most = std::max(range.most, x[i].real());
  }
  return range;
}

double RoundHalf(double x, bool up) { return up ? std::floor(x + 0.5) : std::nearbyint(x); }

void Quantize(Call& call) {
  const Array& x = call.in(0);
  const bool is_v3 = call.inputs.size() == 4, is_signed = call.flag("signed_input");
  const bool is_given = call.flag("range_given");
  const bool up = !is_v3 && call.text("round_mode") == "HALF_UP";
  const int64_t axis = call.integer("axis");
  const double bits = is_v3 ? call.in(3)[0].real() : static_cast<double>(call.integer("num_bits"));
  const double half = std::pow(2, bits - 1);
  const double lowest = is_signed ? (call.flag("narrow_range") ? 1 - half : -half) : 0;
  const double highest = is_signed ? half - 1 : 2 * half - 1;
  call.outputs[0] = Generate(x.dims(), [&](const Index& at) {
    const int64_t channel = ChannelAt(at, axis);
    Range range =
        is_given ? Range{call.in(1)[channel].real(), call.in(2)[channel].real()} : RangeOf(x, axis, channel);
    // The width of a level: the larger of those that the two sides ask for.
    const double below = lowest * range.least > 0 ? range.least / lowest : 0;
    const double above = highest * range.most > 0 ? range.most / highest : 0;
    const double level = std::max(below, above);
    if (level == 0) return Value(0.0);
    double value = x.at(at).real();
    if (is_given) value = std::clamp(value, lowest * level, highest * level);
    return Value(RoundHalf(value / level, up) * level);
  });
}

void QuantizeGrad(Call& call) {
  const int64_t axis = call.integer("axis");
  call.outputs = {Generate(call.in(1).dims(),
                           [&](const Index& at) {
                             const int64_t c = ChannelAt(at, axis);
                             const double x = call.in(1).at(at).real();
                             const bool is_inside = x >= call.in(2)[c].real() && x <= call.in(3)[c].real();
                             return is_inside ? call.in(0).at(at) : Value(0.0);
                           }),
                  Array(call.in(2).dims()), Array(call.in(3).dims())};
}

// The range so that zero is a level; in single precision, which decides where zero lies between two levels.
struct Nudged {
  Nudged(const Call& call, float min, float max) {
    const float lowest = call.flag("narrow_range") ? 1 : 0;
    const float highest = static_cast<float>((1 << call.integer("num_bits")) - 1);
    const float width = (max - min) / (highest - lowest);
    const float zero = std::round(std::clamp(lowest - min / width, lowest, highest));
    level = width;
    least = static_cast<double>((lowest - zero) * width);
    most = static_cast<double>((highest - zero) * width);
  }
  double least, most, level;
};

Nudged NudgedOf(const Call& call, int min, int64_t channel) {
  if (call.inputs.size() < 3) return {call, call.node.attr<float>("min"), call.node.attr<float>("max")};
  return {call, static_cast<float>(call.in(min)[channel].real()),
          static_cast<float>(call.in(min + 1)[channel].real())};
}

bool IsNull(const Call& call, int min, int64_t channel) {
  return call.inputs.size() >= 3 && call.in(min)[channel].is_zero() && call.in(min + 1)[channel].is_zero();
}

int64_t LastIndex(const Call& call, int bounds, const Index& at) {
  return call.inputs.size() >= 3 && call.in(bounds).rank() == 1 ? at.back() : 0;
}

void FakeQuant(Call& call) {
  call.outputs[0] = Generate(call.in(0).dims(), [&](const Index& at) {
    const int64_t channel = LastIndex(call, 1, at);
    if (IsNull(call, 1, channel)) return Value(0.0);
    const Nudged nudged = NudgedOf(call, 1, channel);
    const double x = std::clamp(call.in(0).at(at).real(), nudged.least, nudged.most);
    return Value(std::floor(x / nudged.level + 0.5) * nudged.level);
  });
}

void FakeQuantGradient(Call& call) {
  const Array &g = call.in(0), &x = call.in(1);
  Array of_min, of_max;
  if (call.inputs.size() == 4) {
    of_min = Array(call.in(2).dims());
    of_max = Array(call.in(3).dims());
  }
  call.outputs[0] = Generate(x.dims(), [&](const Index& at) {
    const int64_t channel = LastIndex(call, 2, at);
    const Value gradient = g.at(at);
    if (IsNull(call, 2, channel)) return gradient;
    const Nudged nudged = NudgedOf(call, 2, channel);
    const double number = x.at(at).real();
    if (number >= nudged.least && number <= nudged.most) return gradient;
    if (call.inputs.size() == 4) (number < nudged.least ? of_min : of_max)[channel].number += gradient.number;
    return Value(0.0);
  });
  if (call.inputs.size() == 4) call.outputs = {call.outputs[0], of_min, of_max};
}

const std::vector<D> kTypes = {D::kFloat32, D::kFloat64};
constexpr char kAsInTensorFlow[] = "TensorFlow's CPU kernels have none";

Tensor Scalar(D dtype, double value) { return Make(dtype, {}, {value}); }

void AddQuantize(Suite& suite, const std::string& op) {
  const bool is_v3 = op.back() == '3';
  OpRecord& record = suite.Op(op).Reference(Quantize).NoGradient();
  record.NoKernelFor("T", {D::kHalf, D::kBfloat16}, kAsInTensorFlow);
  const auto call = [&](Tensor x, Tensor min, Tensor max, int bits, AttrMap attrs) {
    std::vector<CaseInput> inputs = {std::move(x), std::move(min), std::move(max)};
    if (is_v3)
      inputs.push_back(Int(bits));
    else
      attrs.emplace("num_bits", int64_t{bits});
    return OpCase{.attrs = std::move(attrs), .inputs = std::move(inputs)};
  };
  const AttrMap found = {{"range_given", false}}, given = {{"range_given", true}};
  for (const D d : kTypes) {
    const Tensor x = Sample(d, {2, 3, 4}, -3, 5), zero = Scalar(d, 0);
    for (const int bits : {2, 8, 16}) {
      record.Call(call(x, zero, zero, bits, found));
      record.Call(call(x, Scalar(d, -1.1), Scalar(d, 2.3), bits, given));
      record.Call(
          call(x, Scalar(d, 0), Scalar(d, 2.3), bits, {{"range_given", true}, {"signed_input", false}}));
      record.Call(
          call(x, Scalar(d, -1.1), Scalar(d, 0.7), bits, {{"range_given", true}, {"narrow_range", true}}));
    }
    const Tensor zeros = Make(d, {3}, {0, 0, 0});
    record.Call(call(x, zeros, zeros, 5, {{"range_given", false}, {"axis", int64_t{1}}}));
    record.Call(call(Empty({0, 2}, d), zero, zero, 4, found));
    if (!is_v3) record.Call(call(Sample(d, {}, 1, 2), zero, zero, 4, found));  // TensorFlow's V3 refuses it
    record.Call(call(Make(d, {2}, {0, 0}), zero, zero, 4, found));
    if (!is_v3)
      record.Call(
          call(x, Scalar(d, -1.1), Scalar(d, 2.3), 4, {{"range_given", true}, {"round_mode", "HALF_UP"}}));
    record.Call(call(x, Make(d, {3}, {-1, -2, 0}), Make(d, {3}, {1.3, 0, 2.2}), 4,
                     {{"range_given", true}, {"axis", int64_t{1}}}));
  }
  const auto hostile = [&](Tensor min, Tensor max, int bits, const std::string& error, AttrMap attrs) {
    OpCase made = call(Floats({2, 3}), std::move(min), std::move(max), bits, std::move(attrs));
    record.Hostile(made.inputs, error, made.attrs);
  };
  const Tensor one = Scalar(D::kFloat32, 1), none = Scalar(D::kFloat32, 0);
  for (const int bits : {0, -1, 62, 64, kHuge}) hostile(none, one, bits, "num_bits is out of range", given);
  hostile(one, none, 8, "Invalid range: input_min 1 > input_max 0", given);
  hostile(Floats({2}), one, 8, "input_min must be a scalar.", given);
  hostile(none, Floats({2}), 8, "input_max must be a scalar.", given);
  hostile(none, one, 8, "Axis must be at least -1. Found -2",
          {{"range_given", false}, {"axis", int64_t{-2}}});
  hostile(none, one, 8, "Axis requested is larger than input dimensions. Axis: 2 Input Dimensions: 2",
          {{"range_given", false}, {"axis", int64_t{2}}});
  hostile(none, one, 8, "Axis requested is larger", {{"range_given", false}, {"axis", kLongest}});
  hostile(none, one, 8, "input_min_tensor has incorrect size", {{"range_given", true}, {"axis", int64_t{1}}});
  hostile(Floats({2}), Floats({3}), 8, "input_min_tensor has incorrect size, was 2 expected 3",
          {{"range_given", true}, {"axis", int64_t{1}}});
  const OpCase wide =
      call(Empty({int64_t{1} << 62, 0}), none, one, 8, {{"range_given", false}, {"axis", int64_t{0}}});
  record.Hostile(wide.inputs, "no shape has the dimensions", wide.attrs);
  if (is_v3) {
    record.Hostile({Floats({2, 3}), none, one, Ints({8})}, "The `num_bits` tensor should be a scalar", given);
  }
}

void AddQuantizeGrad(Suite& suite) {
  OpRecord& record = suite.Op("QuantizeAndDequantizeV4Grad").Reference(QuantizeGrad).NoGradient();
  record.NoKernelFor("T", {D::kHalf, D::kBfloat16}, kAsInTensorFlow);
  for (const D d : kTypes) {
    const Tensor g = Sample(d, {2, 3}), x = Sample(d, {2, 3}, -3, 3, 2);
    record.Call({g, x, Scalar(d, -1), Scalar(d, 1.2)});
    record.Call({g, x, Make(d, {3}, {-1, -2, -3}), Make(d, {3}, {1, 1, 2})}, {{"axis", int64_t{1}}});
    record.Call({g, x, Make(d, {2}, {-1, -2}), Make(d, {2}, {1, 1})}, {{"axis", int64_t{0}}});
  }
  const Tensor x = Floats({2, 3}), one = Scalar(D::kFloat32, 1);
  record.Call({Empty({0}), Empty({0}), one, one});
  record.Hostile({Floats({3}), x, one, one}, "gradient and input must be the same size");
  record.Hostile({x, x, Floats({2}), one}, "input_min must be a scalar if axis is unspecified");
  record.Hostile({x, x, one, Floats({2})}, "input_max must be a scalar if axis is unspecified");
  record.Hostile({x, x, Floats({2}), Floats({3})}, "min has incorrect size, expected 3 was 2",
                 {{"axis", int64_t{1}}});
  record.Hostile({x, x, one, one}, "Axis should be -1 or 0 or a positive value less than 2",
                 {{"axis", int64_t{7}}});
  record.Hostile({x, x, one, one}, "Axis ", {{"axis", int64_t{-2}}});
  record.Hostile({one, one, one, one}, "Axis requested is larger", {{"axis", int64_t{0}}});
}

AttrMap Bits(int bits, bool is_narrow) { return {{"num_bits", int64_t{bits}}, {"narrow_range", is_narrow}}; }

void AddFakeQuantOfAttrs(Suite& suite) {
  OpRecord& quant = suite.Op("FakeQuantWithMinMaxArgs").Reference(FakeQuant).NoGradient();
  OpRecord& grad = suite.Op("FakeQuantWithMinMaxArgsGradient").Reference(FakeQuantGradient).NoGradient();
  const Tensor x = Sample(D::kFloat32, {3, 4}, -9, 9, 3), g = Floats({3, 4});
  const auto attrs = [](int bits, bool is_narrow, float min, float max) {
    AttrMap all = Bits(bits, is_narrow);
    all.emplace("min", min);
    all.emplace("max", max);
    return all;
  };
  for (const bool is_narrow : {false, true}) {
    for (const int bits : {2, 8, 16}) {
      for (const auto& [min, max] :
           {std::pair(-5.3f, 4.1f), std::pair(0.7f, 3.0f), std::pair(-3.0f, -0.7f)}) {
        quant.Tolerance(1e-5).Call({x}, attrs(bits, is_narrow, min, max));
        grad.Call({g, x}, attrs(bits, is_narrow, min, max));
      }
    }
  }
  quant.Call({Empty({0, 3})}).Call({Make(D::kFloat32, {}, {1.01})});
  grad.Call({Empty({0, 3}), Empty({0, 3})});
  for (const int bits : {1, 17, 0, kHuge}) {
    quant.Hostile({x}, "num_bits must be between 2 and 16, inclusive", attrs(bits, false, -1, 1));
    grad.Hostile({g, x}, "num_bits must be between 2 and 16, inclusive", attrs(bits, false, -1, 1));
  }
  quant.Hostile({x}, "min has to be smaller than max, was: 1 >= -1", attrs(8, false, 1, -1));
  grad.Hostile({g, x}, "min has to be smaller than max, was: 1 >= 1", attrs(8, false, 1, 1));
  grad.Hostile({Floats({4}), x}, "must have the same size and shape");
}

void AddFakeQuantOfInputs(Suite& suite, bool per_channel) {
  const std::string op = per_channel ? "FakeQuantWithMinMaxVarsPerChannel" : "FakeQuantWithMinMaxVars";
  OpRecord& quant = suite.Op(op).Reference(FakeQuant).NoGradient();
  OpRecord& grad = suite.Op(op + "Gradient").Reference(FakeQuantGradient).NoGradient();
  const Tensor x = Sample(D::kFloat32, {2, 3, 4}, -9, 9, 3), g = Floats({2, 3, 4});
  const auto bounds = [&](std::vector<double> values) {
    return per_channel ? Make(D::kFloat32, {4}, values) : Make(D::kFloat32, {}, {values[0]});
  };
  const Tensor min = bounds({-5.3, 0, -2, 0.7}), max = bounds({4.1, 0, -0.5, 3.3});
  for (const bool is_narrow : {false, true}) {
    for (const int bits : {2, 8, 16}) {
      quant.Tolerance(1e-5).Call({x, min, max}, Bits(bits, is_narrow));
      grad.Tolerance(1e-5).Call({g, x, min, max}, Bits(bits, is_narrow));
    }
  }
  const Tensor zeros = bounds({0, 0, 0, 0});
  quant.Call({x, zeros, zeros}).Call({Empty({0, 4}), min, max}).Call({Sample(D::kFloat32, {4}), min, max});
  grad.Call({g, x, zeros, zeros}).Call({Empty({0, 4}), Empty({0, 4}), min, max});
  quant.Hostile({x, min, max}, "num_bits must be between 2 and 16", Bits(1, false));
  grad.Hostile({g, x, min, max}, "num_bits must be between 2 and 16", Bits(17, false));
  grad.Hostile({Floats({4}), x, min, max}, "gradient and input must be the same size");
  const Tensor other = per_channel ? Scalar(D::kFloat32, 1) : Floats({4});
  const std::string rank = per_channel ? "must be rank 1 but is rank 0" : "must be rank 0 but is rank 1";
  quant.Hostile({x, other, max}, "`min` " + rank).Hostile({x, min, other}, "`max` " + rank);
  grad.Hostile({g, x, other, max}, "`min` " + rank).Hostile({g, x, min, other}, "`max` " + rank);
  if (!per_channel) return;
  quant.Hostile({x, Floats({3}), max}, "min has incorrect size, expected 4 was 3");
  grad.Hostile({g, x, min, Floats({5})}, "max has incorrect size, expected 4 was 5");
  quant.Hostile({Scalar(D::kFloat32, 1), min, max}, "must have a last dimension");
}

}  // namespace

void AddQuantizationRecords(Suite& suite) {
  for (const char* const op :
       {"QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"})
    AddQuantize(suite, op);
  AddQuantizeGrad(suite);
  AddFakeQuantOfAttrs(suite);
  AddFakeQuantOfInputs(suite, false);
  AddFakeQuantOfInputs(suite, true);
}

}  // namespace weir::conformance
