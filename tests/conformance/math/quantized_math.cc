// Arithmetic of quantized numbers. A result is an int32 of 2^32 levels: two formulas for one number may
// differ by a few of these, which the tolerance allows. TensorFlow's levels are equal.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/quantized_numbers.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;

// Of sums: 2^14 times what both need, so that sums of sums fit.
NumberRange SumRange(NumberRange a, NumberRange b) {
  const double most = std::max({a.max, -a.min, b.max, -b.min}) * (1 << 14);
  return {-most, most};
}

void Add(Call& call) {
  const NumberRange x = RangeAt(call, 2), y = RangeAt(call, 4), sum = SumRange(x, y);
  // The level of a scalar is rounded, those of other tensors are counted up from the first two.
  const auto level = [&](const Array& array, const Index& at, NumberRange range, bool is_scalar) {
    const auto of = [&](double x) { return LevelOf(NumberOf(x, D::kQuint8, range), D::kQint32, sum); };
    const double x = BroadcastAt(array, at).real();
    return is_scalar ? of(x) : of(0) + x * (of(1) - of(0));
  };
  const bool x_is_scalar = call.in(0).size() == 1, y_is_scalar = !x_is_scalar && call.in(1).size() == 1;
  const Array levels = Generate(BroadcastDims(call.in(0), call.in(1)), [&](const Index& at) {
    return Value(level(call.in(0), at, x, x_is_scalar) + level(call.in(1), at, y, y_is_scalar));
  });
  SetOutputs(call, levels, sum);
}

// Levels above that of zero.
double AboveZero(const Value& level, NumberRange range) {
  return level.real() - LevelOf(0, DType::kQuint8, range);
}

NumberRange ProductRange(NumberRange a, NumberRange b) {
  const double width = WidthOf(DType::kQuint8, a) * WidthOf(DType::kQuint8, b);
  return {width * LevelsOf(DType::kQint32).lowest, width * LevelsOf(DType::kQint32).highest};
}

void Mul(Call& call) {
  const NumberRange x = RangeAt(call, 2), y = RangeAt(call, 4);
  const Array levels = Generate(BroadcastDims(call.in(0), call.in(1)), [&](const Index& at) {
    return Value(AboveZero(BroadcastAt(call.in(0), at), x) * AboveZero(BroadcastAt(call.in(1), at), y));
  });
  SetOutputs(call, levels, ProductRange(x, y));
}

void MatMul(Call& call) {
  const NumberRange a = RangeAt(call, 2), b = RangeAt(call, 4);
  const bool ta = call.flag("transpose_a"), tb = call.flag("transpose_b");
  const Array &x = call.in(0), &y = call.in(1);
  const Array levels = Generate({x.dim(ta ? 1 : 0), y.dim(tb ? 0 : 1)}, [&](const Index& at) {
    double sum = 0;
    for (int64_t k = 0; k < x.dim(ta ? 0 : 1); ++k) {
      sum += AboveZero(x.at(ta ? Index{k, at[0]} : Index{at[0], k}), a) *
             AboveZero(y.at(tb ? Index{at[1], k} : Index{k, at[1]}), b);
    }
    return Value(sum);
  });
  SetOutputs(call, levels, ProductRange(a, b));
}

NumberRange UsedRange(const Call& call) {
  double least = LevelsOf(DType::kQint32).highest, most = LevelsOf(DType::kQint32).lowest;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    least = std::min(least, call.in(0)[i].real());
    most = std::max(most, call.in(0)[i].real());
  }
  const NumberRange range = RangeAt(call, 1);
  return {std::min(0.0, NumberOf(least, DType::kQint32, range)), NumberOf(most, DType::kQint32, range)};
}

void RequantizeTo(Call& call, NumberRange to) {
  const D dtype = call.node.attr<D>("out_type");
  const NumberRange from = RangeAt(call, 1);
  const Array levels = Generate(call.in(0).dims(), [&](const Index& at) {
    const double level = call.in(0).at(at).real();
    if (dtype != D::kQuint8) return Value(LevelOf(NumberOf(level, D::kQint32, from), dtype, to));
    // These ranges are not moved to have zero as a level.
    const double number = level * (from.max - from.min) / std::pow(2, 32) + (from.min + from.max) / 2;
    return Value(std::clamp(std::floor((number - to.min) / (to.max - to.min) * 255 + 0.5), 0.0, 255.0));
  });
  SetOutputs(call, levels, to);
}

void Requantize(Call& call) { RequantizeTo(call, RangeAt(call, 3)); }
void ShrinkRange(Call& call) { RequantizeTo(call, UsedRange(call)); }
void RequantizationRange(Call& call) {
  const NumberRange used = UsedRange(call);
  call.outputs = {Array({}, used.min), Array({}, used.max)};
}

double Farthest(const Call& call, int64_t channel) {
  return std::max(std::abs(call.in(1)[channel].real()), std::abs(call.in(2)[channel].real()));
}

void RangePerChannel(Call& call) {
  double most = 0;
  bool has_negative = false;
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    const double level = call.in(0)[i].real();
    has_negative |= level < 0;
    most = std::max(most, Farthest(call, i % call.in(0).dim(3)) * std::abs(level) / std::pow(2, 31));
  }
  most = std::min<double>(most, call.node.attr<float>("clip_value_max"));
  call.outputs = {Array({}, has_negative ? -most : 0.0), Array({}, most)};
}

void RequantizePerChannel(Call& call) {
  const NumberRange to = RangeAt(call, 3);
  const Levels levels = LevelsOf(call.node.attr<D>("out_type"));
  const double requested = std::max(std::abs(to.min), std::abs(to.max));
  const Array result = Generate(call.in(0).dims(), [&](const Index& at) {
    const double number = call.in(0).at(at).real() * Farthest(call, at[3]) / std::pow(2, 31);
    return Value(
        std::clamp(std::nearbyint(number / requested * levels.highest), levels.lowest, levels.highest));
  });
  SetOutputs(call, result, to);
}

Tensor Scalar(double value) { return Make(D::kFloat32, {}, {value}); }
Tensor Bytes(std::vector<int64_t> dims, int seed = 1) {
  return Sample(DType::kQuint8, std::move(dims), 0, 255, seed);
}

void AddArithmetic(Suite& suite, const std::string& op, const reference::Reference& reference) {
  OpRecord& record = suite.Op(op).Reference(reference).Tolerance(1e-2);
  for (const auto& [x, y] :
       {std::pair(Bytes({2, 3}), Bytes({2, 3}, 2)), std::pair(Bytes({2, 3}), Bytes({}, 2)),
        std::pair(Bytes({}), Bytes({7}, 2)), std::pair(Bytes({2, 8}), Bytes({8}, 2)),
        std::pair(Bytes({8}), Bytes({2, 8}, 2)), std::pair(Bytes({19}), Bytes({19}, 3))}) {
    record.Call({x, y, Scalar(-1), Scalar(2), Scalar(-0.3), Scalar(4)});
    record.Call({x, y, Scalar(0), Scalar(2), Scalar(0), Scalar(0.7)});
  }
  const Tensor x = Bytes({2, 3}), zero = Scalar(0), one = Scalar(1), row = Floats({2});
  record.Hostile({x, Bytes({4}), zero, one, zero, one}, "Incompatible shapes: [2,3] vs. [4]");
  record.Hostile({x, x, one, one, zero, one}, "max_x must be larger than min_x");
  record.Hostile({x, x, zero, one, one, zero}, "max_y must be larger than min_y");
  record.Hostile({x, x, row, one, zero, one}, "`min_x` must be rank 0 but is rank 1");
  record.Hostile({x, x, zero, row, zero, one}, "`max_x` must be rank 0");
  record.Hostile({x, x, zero, one, row, one}, "`min_y` must be rank 0");
  record.Hostile({x, x, zero, one, zero, row}, "`max_y` must be rank 0");
  record.OutOfMemory({Bytes({1 << 14, 1}), Bytes({1, 1 << 14}), zero, one, zero, one});
}

void AddMatMul(Suite& suite) {
  OpRecord& record = suite.Op("QuantizedMatMul").Reference(MatMul);
  record.Tolerance(1e-6);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      record.Call({ta ? Bytes({5, 3}) : Bytes({3, 5}), tb ? Bytes({4, 5}, 2) : Bytes({5, 4}, 2), Scalar(-1),
                   Scalar(2), Scalar(-0.3), Scalar(4)},
                  {{"transpose_a", ta}, {"transpose_b", tb}});
    }
  }
  const Tensor x = Bytes({2, 3}), zero = Scalar(0), one = Scalar(1);
  record.Hostile({x, x, zero, one, zero, one}, "Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]");
  record.Hostile({x, Bytes({3}), zero, one, zero, one}, "a and b must be matrices");
  record.Hostile({x, Bytes({3, 2}), one, zero, zero, one}, "max_a must be larger than min_a");
  record.Hostile({x, Bytes({3, 2}), zero, one, one, one}, "max_b must be larger than min_b");
  record.Hostile({x, Bytes({3, 2}), zero, Floats({2}), zero, one}, "`max_a` must be rank 0");
  record.OutOfMemory({Bytes({1 << 14, 1}), Bytes({1, 1 << 14}), zero, one, zero, one});
}

void AddRequantize(Suite& suite) {
  OpRecord& requantize = suite.Op("Requantize").Reference(Requantize).Tolerance(1e-6);
  OpRecord& shrink = suite.Op("QuantizeDownAndShrinkRange").Reference(ShrinkRange).Tolerance(1e-6);
  OpRecord& range = suite.Op("RequantizationRange").Reference(RequantizationRange).Tolerance(1e-6);
  const Tensor x = Sample(DType::kQint32, {2, 3, 5}, -9e6, 2e7),
               wide = Sample(DType::kQint32, {7}, -2e9, 2e9, 2);
  for (const Tensor& levels : {x, wide}) {
    for (const D d : {DType::kQuint8, DType::kQint8}) {
      requantize.Call({levels, Scalar(-300), Scalar(300), Scalar(-1.3), Scalar(2.9)}, {{"out_type", d}});
      requantize.Call({levels, Scalar(-300), Scalar(300), Scalar(0), Scalar(200)}, {{"out_type", d}});
    }
    shrink.Call({levels, Scalar(-300), Scalar(300)}, {{"out_type", DType::kQuint8}});
    range.Call({levels, Scalar(-300), Scalar(300)});
  }
  range.Call({Sample(DType::kQint32, {3}, 5, 9e8), Scalar(-1), Scalar(2)});
  const Tensor one = Scalar(1), zero = Scalar(0), row = Floats({2});
  const AttrMap bytes = {{"out_type", DType::kQuint8}};
  requantize.Hostile({x, zero, one, one, one}, "requested_output_min must be <= 0, but got 1", bytes);
  requantize.Hostile({x, zero, one, zero, Scalar(-1)}, "requested_output_max must be >= requested_output_min",
                     bytes);
  requantize.Hostile({x, row, one, zero, one}, "`min_input` must be rank 0", bytes);
  requantize.Hostile({x, zero, one, zero, row}, "`max_requested_output` must be rank 0", bytes);
  shrink.Hostile({x, row, one}, "`min_input` must be rank 0", bytes);
  range.Hostile({x, zero, row}, "`max_input` must be rank 0");
}

void AddPerChannel(Suite& suite) {
  OpRecord& requantize = suite.Op("RequantizePerChannel").Reference(RequantizePerChannel).Tolerance(1e-6);
  OpRecord& range = suite.Op("RequantizationRangePerChannel").Reference(RangePerChannel).Tolerance(1e-6);
  const Tensor x = Sample(DType::kQint32, {2, 2, 3, 3}, -2e9, 2e9),
               above = Sample(DType::kQint32, {1, 2, 3, 3}, 1, 2e8);
  const Tensor min = Make(D::kFloat32, {3}, {-1, -2, 0}), max = Make(D::kFloat32, {3}, {1, 0.5, 3});
  for (const Tensor& levels : {x, above}) {
    requantize.Call({levels, min, max, Scalar(0), Scalar(2.3)});
    requantize.Call({levels, min, max, Scalar(-2.6), Scalar(2.3)}, {{"out_type", DType::kQint8}});
    for (const float clip : {0.4f, 6.0f}) range.Call({levels, min, max}, {{"clip_value_max", clip}});
  }
  const Tensor flat = Sample(DType::kQint32, {6, 3}, 0, 9), zero = Scalar(0), one = Scalar(1);
  const AttrMap clip = {{"clip_value_max", 6.0f}};
  requantize.Hostile({flat, min, max, zero, one}, "input must be in NHWC format");
  requantize.Hostile({x, Floats({2}), max, zero, one},
                     "input_min must have an element for each of the 3 channels");
  requantize.Hostile({x, min, one, zero, one}, "input_max must have an element for each of the 3 channels");
  requantize.Hostile({x, min, max, zero, min}, "`max_requested_output` must be rank 0");
  requantize.Hostile({x, min, max, zero, one}, "requested_output_min must be negative",
                     {{"out_type", DType::kQint8}});
  range.Hostile({flat, min, max}, "input must be in NHWC format", clip);
  range.Hostile({x, min, Floats({4})}, "input_max must have an element", clip);
}

}  // namespace

void AddQuantizedMathRecords(Suite& suite) {
  AddArithmetic(suite, "QuantizedAdd", Add);
  AddArithmetic(suite, "QuantizedMul", Mul);
  AddMatMul(suite);
  AddRequantize(suite);
  AddPerChannel(suite);
}

}  // namespace weir::conformance
