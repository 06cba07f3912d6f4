// Layers of quantized numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>
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

// One dimension of windows: TensorFlow's sizes of outputs and paddings.
struct Axis {
  Axis(const Call& call, int dimension, int64_t window)
      : input(call.in(0).dim(dimension)), window(window), stride(call.integers("strides")[dimension]) {
    const bool is_same = call.text("padding") == "SAME";
    output = is_same ? (input + stride - 1) / stride : (input - window) / stride + 1;
    before = is_same ? std::max<int64_t>(0, (output - 1) * stride + window - input) / 2 : 0;
  }
  // The position in the input of element `i` of a window; negative or too large in padding.
  int64_t At(int64_t position, int64_t i) const { return position * stride - before + i; }
  bool IsInside(int64_t position, int64_t i) const { return At(position, i) >= 0 && At(position, i) < input; }
  int64_t input, window, stride, output, before;
};

void Convolve(Call& call) {
  const Array &x = call.in(0), &filter = call.in(1);
  const NumberRange input_range = RangeAt(call, 2), filter_range = RangeAt(call, 4);
  const double zero = LevelOf(0, DType::kQuint8, input_range),
               filter_zero = LevelOf(0, DType::kQuint8, filter_range);
  const Axis rows(call, 1, filter.dim(0)), columns(call, 2, filter.dim(1));
  const Array levels = Generate({x.dim(0), rows.output, columns.output, filter.dim(3)}, [&](const Index& at) {
    double sum = 0;
    for (int64_t i = 0; i < rows.window; ++i) {
      for (int64_t j = 0; j < columns.window; ++j) {
        if (!rows.IsInside(at[1], i) || !columns.IsInside(at[2], j)) continue;
        for (int64_t c = 0; c < x.dim(3); ++c) {
          sum += (x.at({at[0], rows.At(at[1], i), columns.At(at[2], j), c}).real() - zero) *
                 (filter.at({i, j, c, at[3]}).real() - filter_zero);
        }
      }
    }
    return Value(sum);
  });
  const double width = WidthOf(DType::kQuint8, input_range) * WidthOf(DType::kQuint8, filter_range);
  SetOutputs(call, levels,
             {width * LevelsOf(DType::kQint32).lowest, width * LevelsOf(DType::kQint32).highest});
}

void Pool(Call& call) {
  const Array& x = call.in(0);
  const Axis rows(call, 1, call.integers("ksize")[1]), columns(call, 2, call.integers("ksize")[2]);
  const Array levels = Generate({x.dim(0), rows.output, columns.output, x.dim(3)}, [&](const Index& at) {
    double most = -kInfinity, sum = 0, count = 0;
    for (int64_t i = 0; i < rows.window; ++i) {
      for (int64_t j = 0; j < columns.window; ++j) {
        if (!rows.IsInside(at[1], i) || !columns.IsInside(at[2], j)) continue;
        const double level = x.at({at[0], rows.At(at[1], i), columns.At(at[2], j), at[3]}).real();
        most = std::max(most, level);
        sum += level;
        count += 1;
      }
    }
    return Value(call.node.op_name() == "QuantizedMaxPool" ? most : std::trunc(sum / count));
  });
  SetOutputs(call, levels, RangeAt(call, 1));
}

void BiasAdd(Call& call) {
  const NumberRange x = RangeAt(call, 2), bias = RangeAt(call, 4);
  const D dtype = call.node.attr<D>("T1");
  const double most = std::max({x.max, -x.min, bias.max, -bias.min}) * (1 << 17);
  const auto level = [&](const Value& value, NumberRange range) {
    return LevelOf(NumberOf(value.real(), dtype, range), DType::kQint32, {-most, most});
  };
  const Array levels = Generate(call.in(0).dims(), [&](const Index& at) {
    return Value(level(call.in(0).at(at), x) + level(call.in(1)[at.back()], bias));
  });
  SetOutputs(call, levels, {-most, most});
}

void Rectify(Call& call) {
  const D dtype = call.node.attr<D>("Tinput");
  const NumberRange range = RangeAt(call, 1);
  const Array levels = Generate(call.in(0).dims(), [&](const Index& at) {
    const double level = std::max(call.in(0).at(at).real(), LevelOf(0, dtype, range));
    return Value(call.node.op_name() == "QuantizedRelu" ? level : std::min(level, LevelOf(6, dtype, range)));
  });
  SetOutputs(call, levels, range);
}

Tensor Scalar(double value) { return Make(D::kFloat32, {}, {value}); }
Tensor Bytes(std::vector<int64_t> dims, int seed = 1) {
  return Sample(DType::kQuint8, std::move(dims), 0, 255, seed);
}
using List = std::vector<int64_t>;

void AddConvolution(Suite& suite) {
  OpRecord& record = suite.Op("QuantizedConv2D").Reference(Convolve).Tolerance(1e-6);
  const Tensor x = Bytes({2, 5, 4, 3}), filter = Bytes({3, 2, 3, 2}, 2), zero = Scalar(0), one = Scalar(1);
  for (const char* const padding : {"SAME", "VALID"}) {
    for (const int64_t stride : {1, 2}) {
      const AttrMap attrs = {{"strides", List{1, stride, stride, 1}}, {"padding", padding}};
      record.Call({x, filter, Scalar(-1), Scalar(2), Scalar(-0.3), Scalar(4)}, attrs);
      record.Call({x, filter, zero, Scalar(2), zero, Scalar(0.4)}, attrs);
    }
  }
  const AttrMap same = {{"strides", List{1, 1, 1, 1}}, {"padding", "SAME"}};
  record.Hostile({x, Bytes({3, 2, 2, 2}), zero, one, zero, one}, "channels do not fit", same);
  record.Hostile({x, Bytes({3, 2, 3}), zero, one, zero, one}, "the filter must have 4 dimensions", same);
  record.Hostile({Bytes({5, 4, 3}), filter, zero, one, zero, one}, "the input must have 4 dimensions", same);
  record.Hostile({x, Bytes({3, 2, 1, 6}), zero, one, zero, one}, "must have the same depth: 3 vs 1", same);
  record.Hostile({x, filter, Floats({2}), one, zero, one}, "`min_input` must be rank 0", same);
  record.Hostile({x, filter, zero, one, zero, Floats({2})}, "`max_filter` must be rank 0", same);
  record.Hostile({x, filter, zero, one, zero, one}, "only supports equal length strides",
                 {{"strides", List{1, 1, 2, 1}}, {"padding", "SAME"}});
  record.Hostile({x, filter, zero, one, zero, one}, "only supports dilated rate as 1",
                 {{"strides", List{1, 1, 1, 1}}, {"padding", "SAME"}, {"dilations", List{1, 2, 2, 1}}});
}

void AddPool(Suite& suite, const std::string& op) {
  OpRecord& record = suite.Op(op).Reference(Pool);
  const Tensor zero = Scalar(0), one = Scalar(1);
  for (const D d : {DType::kQuint8, DType::kQint8}) {
    const Tensor x = Sample(d, {2, 5, 4, 3}, d == DType::kQint8 ? -128 : 0, d == DType::kQint8 ? 127 : 255);
    for (const char* const padding : {"SAME", "VALID"}) {
      for (const int64_t stride : {1, 2}) {
        record.Call(
            {x, Scalar(-1), Scalar(2.5)},
            {{"ksize", List{1, 3, 3, 1}}, {"strides", List{1, stride, stride, 1}}, {"padding", padding}});
      }
    }
  }
  const AttrMap attrs = {{"ksize", List{1, 3, 3, 1}}, {"strides", List{1, 1, 1, 1}}, {"padding", "VALID"}};
  record.Hostile({Bytes({5, 4, 3}), zero, one}, "the input must have 4 dimensions", attrs);
  record.Hostile({Bytes({1, 2, 4, 3}), zero, one}, "height of input", attrs);
  record.Hostile({Bytes({1, 4, 4, 3}), zero, Floats({3})}, "`max_input` must be rank 0", attrs);
}

void AddBiasAdd(Suite& suite) {
  OpRecord& record = suite.Op("QuantizedBiasAdd").Reference(BiasAdd).Tolerance(2e-3);
  const AttrMap attrs = {{"out_type", DType::kQint32}};
  for (const D d : {DType::kQuint8, DType::kQint8}) {
    const double low = d == DType::kQint8 ? -128 : 0, high = d == DType::kQint8 ? 127 : 255;
    const Tensor bias = Sample(d, {4}, low, high, 2);
    record.Call({Sample(d, {2, 3, 4}, low, high), bias, Scalar(-1), Scalar(2), Scalar(-0.3), Scalar(4)},
                attrs);
    record.Call({Sample(d, {3, 4}, low, high), bias, Scalar(0), Scalar(2), Scalar(0), Scalar(0.7)}, attrs);
  }
  const Tensor x = Bytes({2, 3}), bias = Bytes({3}, 2), zero = Scalar(0), one = Scalar(1);
  record.Hostile({bias, bias, zero, one, zero, one}, "Input tensor must be at least 2D: [3]", attrs);
  record.Hostile({x, Bytes({2}), zero, one, zero, one}, "Must provide as many biases as the last dimension",
                 attrs);
  record.Hostile({x, bias, Floats({2}), one, zero, one}, "`min_input` must be rank 0", attrs);
  record.Hostile({x, bias, zero, one, zero, Floats({2})}, "`max_bias` must be rank 0", attrs);
}

void AddActivation(Suite& suite, const std::string& op) {
  OpRecord& record = suite.Op(op).Reference(Rectify);
  const Tensor x = Bytes({2, 9});
  record.Call({x, Scalar(-10), Scalar(10)}).Call({x, Scalar(0), Scalar(3)});
  record.Call({Sample(DType::kQint32, {9}, -2e9, 2e9), Scalar(-8), Scalar(8)},
              {{"out_type", DType::kQint32}});
  record.Hostile({x, Floats({2}), Scalar(1)}, "`min_features` must be rank 0");
  record.Hostile({x, Scalar(0), Floats({2})}, "`max_features` must be rank 0");
}

}  // namespace

void AddQuantizedLayersRecords(Suite& suite) {
  AddConvolution(suite);
  for (const char* const op : {"QuantizedMaxPool", "QuantizedAvgPool"}) AddPool(suite, op);
  AddBiasAdd(suite);
  for (const char* const op : {"QuantizedRelu", "QuantizedRelu6"}) AddActivation(suite, op);
}

}  // namespace weir::conformance
