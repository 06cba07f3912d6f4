// Quantized numbers. Results are compared level by level: numbers lie away from halves of levels, where the
// last bit of a float decides.
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

// The range of a slice, with zero in it, and as wide as is asked for.
NumberRange WidenedRange(const Call& call, int64_t slice) {
  const NumberRange given = {call.in(1)[slice].real(), call.in(2)[slice].real()};
  const double least = std::min(0.0, given.min);
  const double width = std::max({1.0, std::abs(given.min), std::abs(given.max)}) *
                       static_cast<double>(call.node.attr<float>("ensure_minimum_range"));
  return {least, std::max({0.0, given.max, least + width})};
}

double RoundAs(const std::string& mode, double x) {
  return mode == "HALF_TO_EVEN" ? std::nearbyint(x) : std::round(x);
}

// The levels that mode SCALED uses: those of both signs alike.
Levels ScaledLevels(D dtype, const Call& call) {
  Levels levels = LevelsOf(dtype);
  if (call.flag("narrow_range")) levels.lowest += 1;
  return levels;
}

void QuantizeV2(Call& call) {
  const D dtype = call.node.attr<D>("T");
  const int64_t axis = call.integer("axis");
  const std::string &mode = call.text("mode"), &rounding = call.text("round_mode");
  const Array& x = call.in(0);
  Array mins(call.in(1).dims()), maxs = mins;
  std::vector<double> scales(mins.size());
  const Levels levels = mode == "SCALED" ? ScaledLevels(dtype, call) : LevelsOf(dtype);
  for (int64_t i = 0; i < mins.size(); ++i) {
    NumberRange range = WidenedRange(call, i);
    scales[i] = (levels.highest - levels.lowest) / (range.max - range.min);
    if (mode == "SCALED") {
      const double of_min = levels.lowest * range.min > 0 ? levels.lowest / range.min : kInfinity;
      const double of_max = levels.highest * range.max > 0 ? levels.highest / range.max : kInfinity;
      scales[i] = std::min(of_min, of_max);
      range = {levels.lowest / scales[i], levels.highest / scales[i]};
    }
    mins[i] = range.min;
    maxs[i] = range.max;
  }
  const Array levels_of_x = Generate(x.dims(), [&](const Index& at) {
    const int64_t i = axis < 0 ? 0 : at[axis];
    const double number = std::clamp(x.at(at).real(), mins[i].real(), maxs[i].real());
    if (mode == "SCALED") return Value(RoundAs(rounding, number * scales[i]));
    if (mode == "MIN_FIRST") {
      const double level = std::round(number * scales[i]) - std::round(mins[i].real() * scales[i]);
      return Value(std::clamp(level + levels.lowest, levels.lowest, levels.highest));
    }
    // Signed levels count from half of their number below zero.
    const double half = levels.lowest < 0 ? (levels.highest - levels.lowest + 1) / 2 : 0;
    return Value(
        std::clamp(std::round((number - mins[i].real()) * scales[i] - half), levels.lowest, levels.highest));
  });
  call.outputs = {levels_of_x, mins, maxs};
}

void Dequantize(Call& call) {
  const D dtype = call.node.attr<D>("T");
  const int64_t axis = call.integer("axis");
  const std::string& mode = call.text("mode");
  const Levels levels = mode == "SCALED" ? ScaledLevels(dtype, call) : LevelsOf(dtype);
  call.outputs[0] = Generate(call.in(0).dims(), [&](const Index& at) {
    const int64_t i = axis < 0 ? 0 : at[axis];
    const NumberRange range = {call.in(1)[i].real(), call.in(2)[i].real()};
    const double level = call.in(0).at(at).real();
    if (mode == "SCALED") {
      const double of_max = range.max / levels.highest;
      return Value(level * (levels.lowest == 0 || (call.flag("narrow_range") && levels.lowest == 1)
                                ? of_max
                                : std::max(range.min / levels.lowest, of_max)));
    }
    if (mode == "MIN_FIRST") return Value(NumberOf(level, dtype, range));
    const double width = (range.max - range.min) / (levels.highest - levels.lowest);
    return Value((level + (levels.lowest < 0 ? -levels.lowest : 0)) * width + range.min);
  });
}

void Concat(Call& call) {
  const int count = static_cast<int>(call.inputs.size() - 1) / 3;
  const D dtype = call.node.attr<D>("T");
  const int axis = Call::Axis(call.in(0)[0].integer(), call.in(1).rank());
  NumberRange all = {0, std::numeric_limits<double>::lowest()};
  const auto range_of = [&](int i) {
    return NumberRange{call.in(1 + count + i)[0].real(), call.in(1 + 2 * count + i)[0].real()};
  };
  Index dims = call.in(1).dims();
  dims[axis] = 0;
  for (int i = 0; i < count; ++i) {
    dims[axis] += call.in(1 + i).dim(axis);
    all = {std::min(all.min, range_of(i).min), std::max(all.max, range_of(i).max)};
  }
  if (LevelsOf(dtype).lowest < 0) {
    const double most = std::max(-all.min, all.max);
    all = {-most, most};
  }
  const Array joined = Generate(dims, [&](Index at) {
    int i = 0;
    for (; at[axis] >= call.in(1 + i).dim(axis); ++i) at[axis] -= call.in(1 + i).dim(axis);
    const double level = call.in(1 + i).at(at).real();
    if (range_of(i).min == all.min && range_of(i).max == all.max) return Value(level);
    return Value(LevelOf(NumberOf(level, dtype, range_of(i)), dtype, all));
  });
  call.outputs = {joined, Array({}, all.min), Array({}, all.max)};
}

void Reshape(Call& call) {
  Index dims = call.in(1).integers();
  int64_t known = 1;
  for (const int64_t dim : dims) known *= dim < 0 ? 1 : dim;
  int64_t size = call.in(0).size();
  if (known == 0) {  // beside a 0, -1 stands for what dimensions that are not 0 leave
    known = size = 1;
    for (const int64_t dim : dims) known *= dim > 0 ? dim : 1;
    for (const int64_t dim : call.in(0).dims()) size *= dim > 0 ? dim : 1;
  }
  for (int64_t& dim : dims) dim = dim < 0 ? size / known : dim;
  call.outputs = {call.in(0).WithDims(dims), call.in(2), call.in(3)};
}

Tensor Scalar(double value) { return Make(D::kFloat32, {}, {value}); }
Tensor Numbers(std::vector<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  return Make(D::kFloat32, {count}, std::move(values));
}

const std::vector<D> kQuantized = {DType::kQint8, DType::kQuint8, DType::kQint16, DType::kQuint16,
                                   DType::kQint32};
const char* const kModes[] = {"MIN_COMBINED", "MIN_FIRST", "SCALED"};
constexpr char kAsInTensorFlow[] = "TensorFlow's CPU kernels have none";

void AddQuantizeV2(Suite& suite) {
  OpRecord& record = suite.Op("QuantizeV2").Reference(QuantizeV2).Tolerance(1e-6);
  const Tensor x = Sample(D::kFloat32, {2, 3, 4}, -3, 5);
  for (const char* const mode : kModes) {
    for (const D d : kQuantized) {
      if (d == DType::kQint32) continue;  // a float tells 2^24 levels apart
      record.Call({x, Scalar(-2.9), Scalar(4.1)}, {{"T", d}, {"mode", mode}});
      record.Call({x, Scalar(0.5), Scalar(3.3)}, {{"T", d}, {"mode", mode}});
      record.Call({x, Numbers({-1, -2.2, 0}), Numbers({1.5, 3, 0.004})},
                  {{"T", d}, {"mode", mode}, {"axis", int64_t{1}}});
      record.Call({Empty({0, 3}), Scalar(-1), Scalar(1)}, {{"T", d}, {"mode", mode}});
    }
    // Levels that are exact in a float.
    record.Call({Numbers({-1, -0.75, 0, 0.5, 0.125}), Scalar(-1), Scalar(1)},
                {{"T", DType::kQint32}, {"mode", "MIN_FIRST"}});
  }
  for (const D d : {DType::kQint8, DType::kQuint8}) {
    record.Call({x, Scalar(-2.9), Scalar(4.1)}, {{"T", d}, {"mode", "SCALED"}, {"narrow_range", true}});
    record.Call({x, Scalar(-2.9), Scalar(4.1)},
                {{"T", d}, {"mode", "SCALED"}, {"round_mode", "HALF_TO_EVEN"}});
    record.Call({Sample(D::kFloat32, {}, 0, 1), Scalar(-0.1), Scalar(0.2)},
                {{"T", d}, {"ensure_minimum_range", 0.5f}});
  }
  const AttrMap first = {{"T", DType::kQuint8}}, axis = {{"T", DType::kQuint8}, {"axis", int64_t{1}}};
  record.Hostile({x, Scalar(1), Scalar(-1)}, "input_max_range must be larger than input_min_range", first);
  record.Hostile({x, Numbers({1, 2}), Scalar(1)}, "min_range must contain a single float element", first);
  record.Hostile({x, Scalar(0), Numbers({})}, "max_range must contain a single float element", first);
  record.Hostile({x, Numbers({0, 0}), Numbers({1, 1, 1})}, "min_range must be a 1-D tensor of 3 elements",
                 axis);
  record.Hostile({x, Numbers({0, 0, 0}), Scalar(1)}, "max_range must be a 1-D tensor of 3 elements", axis);
  record.Hostile({Numbers({1}), Numbers({0}), Numbers({1})}, "less than number of input's dims", axis);
  record.Hostile({x, Scalar(0), Scalar(1)}, "Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED'",
                 {{"T", DType::kQuint8}, {"round_mode", "HALF_TO_EVEN"}});
}

void AddDequantize(Suite& suite) {
  OpRecord& record = suite.Op("Dequantize").Reference(Dequantize).NoGradient();
  for (const char* const mode : kModes) {
    for (const D d : kQuantized) {
      const Tensor x = Sample(d, {2, 3, 4}, LevelsOf(d).lowest < 0 ? -100 : 0, 127);
      record.Tolerance(d == DType::kQint32 ? 1e-6 : 4e-6);
      record.Call({x, Scalar(-2.9), Scalar(4.1)}, {{"mode", mode}});
      if (d == DType::kQint32) continue;
      record.Call({x, Scalar(0), Scalar(3.3)}, {{"mode", mode}});
      record.Call({x, Numbers({-1, -2.2, 0}), Numbers({1.5, 3, 0.4})},
                  {{"mode", mode}, {"axis", int64_t{1}}});
      record.Call({Empty({0, 3}, d), Scalar(-1), Scalar(1)}, {{"mode", mode}});
      if (std::string(mode) != "MIN_COMBINED") continue;
      record.Tolerance(1.6e-2);
      record.Call({x, Scalar(-2.9), Scalar(4.1)}, {{"dtype", D::kBfloat16}});
    }
  }
  record.Tolerance(4e-6);
  record.Call({Sample(DType::kQint8, {5}, -127, 127), Scalar(-1), Scalar(0.4)},
              {{"mode", "SCALED"}, {"narrow_range", true}});
  const Tensor x = Sample(DType::kQuint8, {2, 3}, 0, 255);
  record.Hostile({x, Scalar(0), Scalar(1)}, "Mode string must be 'MIN_COMBINED'",
                 {{"mode", "SCALED"}, {"dtype", D::kBfloat16}});
  record.Hostile({x, Numbers({1, 2}), Scalar(1)}, "min_range must contain a single float element");
  record.Hostile({x, Scalar(0), Numbers({})}, "max_range must contain a single float element");
  record.Hostile({x, Numbers({0}), Numbers({1, 1, 1})}, "min_range must be a 1-D tensor of 3 elements",
                 {{"axis", int64_t{1}}});
  record.Hostile({x, Numbers({0}), Numbers({1})}, "less than number of input's dims", {{"axis", kLongest}});
}

void AddConcat(Suite& suite) {
  OpRecord& record = suite.Op("QuantizedConcat").Reference(Concat);
  const auto call = [](Tensor axis, std::vector<Tensor> values, std::vector<double> mins,
                       std::vector<double> maxs) {
    std::vector<Tensor> least, most;
    for (const double min : mins) least.push_back(Scalar(min));
    for (const double max : maxs) most.push_back(Scalar(max));
    return std::vector<CaseInput>{std::move(axis), std::move(values), std::move(least), std::move(most)};
  };
  const Tensor a = Sample(DType::kQuint8, {2, 3}, 0, 255), b = Sample(DType::kQuint8, {2, 3}, 0, 255, 2);
  record.Tolerance(1e-6);
  record.Call(call(Int(0), {a, b}, {-1, -1}, {2.1, 2.1}));
  record.Call(call(Int(1), {a, b}, {-1.07, 0}, {2.1, 5.33}));
  record.Call(
      call(Int(1), {a, Sample(DType::kQuint8, {2, 1}, 0, 255, 3), b}, {-0.51, 0, -1.02}, {2.1, 5.33, 3}));
  record.Call(call(Int(0), {a, Empty({0, 3}, DType::kQuint8)}, {-1, -3}, {2.1, 2.1}));
  record.Call(call(Int(0),
                   {Sample(DType::kQint32, {4}, -9e6, 9e6), Sample(DType::kQint32, {2}, -9e6, 9e6, 2)},
                   {-1, -1}, {1, 1}));
  record.NoKernelFor("T", Join({kNumbers, {D::kBool, D::kString}}), kAsInTensorFlow);
  record.Hostile(call(Int(2), {a, b}, {0, 0}, {1, 1}), "concat_dim");
  record.Hostile(call(Int(0), {a, Sample(DType::kQuint8, {2, 4}, 0, 9)}, {0, 0}, {1, 1}),
                 "Dimensions of inputs should match");
  record.Hostile(call(Int(0), {a, Sample(DType::kQuint8, {2}, 0, 9)}, {0, 0}, {1, 1}),
                 "Dimensions of inputs should match");
  std::vector<CaseInput> ends = call(Int(0), {a, b}, {0, 0}, {1, 1});
  ends[2].tensors[1] = Numbers({1, 2});
  record.Hostile(ends, "must be a number, the end of a range");
  record.Hostile(call(Ints({0, 1}), {a, b}, {0, 0}, {1, 1}), "concat_dim");
}

void AddReshape(Suite& suite) {
  OpRecord& record = suite.Op("QuantizedReshape").Reference(Reshape);
  record.NoKernelFor("T", Join({kNumbers, {D::kBool, D::kString}}), kAsInTensorFlow);
  for (const D d : {DType::kQuint8, DType::kQint32}) {
    const Tensor x = Sample(d, {2, 3}, 0, 255);
    record.Call({x, Ints({3, 2}), Scalar(-1), Scalar(2)}).Call({x, Longs({-1}), Scalar(-1), Scalar(2)});
    record.Call({Empty({0, 3}, d), Ints({3, 0}), Scalar(-1), Scalar(2)});
    record.Call({Empty({0, 3}, d), Ints({-1, 0}), Scalar(-1), Scalar(2)});
    record.Call({Empty({4, 0, 6}, d), Longs({0, -1, 5}), Scalar(-1), Scalar(2)});
  }
  const Tensor x = Sample(DType::kQuint8, {2, 3}, 0, 255), one = Scalar(1);
  record.Hostile({x, Ints({4, 2}), one, one}, "values, but the requested shape has 8");
  record.Hostile({x, Ints({-1, -1}), one, one}, "Only one input size may be -1");
  record.Hostile({x, Ints({-1, 4}), one, one}, "requires a multiple of 4");
  record.Hostile({x, Ints({-1, 0}), one, one}, "requires a multiple of 0");
  record.Hostile({x, Ints({-2, 3}), one, one}, "must be non-negative");
  record.Hostile({x, Longs({kWide, kWide}), one, one}, "must have a product");
  record.Hostile({x, Ints({6}), Numbers({1, 2}), one}, "`min_input` must be rank 0 but is rank 1");
  record.Hostile({x, Ints({6}), one, Numbers({1, 2})}, "`max_input` must be rank 0 but is rank 1");
}

}  // namespace

void AddQuantizedTensorsRecords(Suite& suite) {
  AddQuantizeV2(suite);
  AddDequantize(suite);
  AddConcat(suite);
  AddReshape(suite);
}

}  // namespace weir::conformance
