#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Array;
using reference::Index;

// The element of the inner tensor that is seen at `index` of the padded one, in mirrors at its borders.
Index Mirrored(const reference::Call& call, Index index, const Index& inner) {
  const bool repeats_border = call.text("mode") == "SYMMETRIC";
  for (size_t i = 0; i < index.size(); ++i) {
    index[i] -= call.in(1).at({static_cast<int64_t>(i), 0}).integer();
    if (index[i] < 0) index[i] = -index[i] - (repeats_border ? 1 : 0);
    const int64_t last = inner[i] - 1;
    if (index[i] > last) index[i] = last - (index[i] - last) + (repeats_border ? 1 : 0);
  }
  return index;
}

// The dimensions with `sign` times the paddings.
Index Padded(const reference::Call& call, int sign) {
  Index dims = call.in(0).dims();
  for (size_t i = 0; i < dims.size(); ++i) {
    for (int64_t side : {0, 1}) dims[i] += sign * call.in(1).at({static_cast<int64_t>(i), side}).integer();
  }
  return dims;
}

void MirrorPad(reference::Call& call) {
  Array output(Padded(call, 1));
  for (int64_t i = 0; i < output.size(); ++i) {
    output[i] = call.in(0).at(Mirrored(call, output.IndexOf(i), call.in(0).dims()));
  }
  call.outputs = {output};
}

void MirrorPadGrad(reference::Call& call) {
  Array output(Padded(call, -1));
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    output.at(Mirrored(call, call.in(0).IndexOf(i), output.dims())).number += call.in(0)[i].number;
  }
  call.outputs = {output};
}

void Pad(reference::Call& call) {
  const Array &input = call.in(0), &paddings = call.in(1);
  Index dims = input.dims();
  for (int i = 0; i < input.rank(); ++i)
    dims[i] += paddings.at({i, 0}).integer() + paddings.at({i, 1}).integer();
  Array& out = call.outputs[0] = Array(dims);
  for (int64_t i = 0; i < input.size(); ++i) {
    Index index = input.IndexOf(i);
    for (int d = 0; d < input.rank(); ++d) index[d] += paddings.at({d, 0}).integer();
    out.at(index) = input[i];
  }
}

void PadV2(reference::Call& call) {
  Array output(Padded(call, 1), call.in(2)[0]);
  for (int64_t i = 0; i < call.in(0).size(); ++i) {
    Index to = call.in(0).IndexOf(i);
    for (size_t d = 0; d < to.size(); ++d) to[d] += call.in(1).at({static_cast<int64_t>(d), 0}).integer();
    output.at(to) = call.in(0)[i];
  }
  call.outputs = {output};
}

Tensor Of(DType d, std::vector<int64_t> dims) {
  return Sample(d, std::move(dims), IsUnsigned(d) ? 0 : -4, 4);
}
Tensor Pairs(std::vector<double> values, DType d = DType::kInt32) {
  const auto count = static_cast<int64_t>(values.size()) / 2;
  return Make(d, {count, 2}, std::move(values));
}

// What every op with paddings refuses; `further` inputs come behind them.
void AddHostile(OpRecord& record, const std::vector<CaseInput>& further, const AttrMap& attrs) {
  const auto refuse = [&](const Tensor& input, const Tensor& paddings, const std::string& error) {
    std::vector<CaseInput> inputs = {input, paddings};
    inputs.insert(inputs.end(), further.begin(), further.end());
    record.Hostile(inputs, error, attrs);
  };
  refuse(Floats({2, 3}), Pairs({0, 0}), "paddings must be [2,2], is [1,2]");
  refuse(Floats({2, 3}), Ints({0, 0}), "paddings must be [2,2], is [2]");
  refuse(Floats({2}), Pairs({-1, 0}), "paddings[0] = (-1, 0) for a dimension of 2");
  const auto longest = std::numeric_limits<int64_t>::max();
  refuse(Floats({2}), Tensor::From<int64_t>({1, 2}, {longest, 1}), "for a dimension of 2");
  refuse(Floats({2}), Tensor::From<int64_t>({1, 2}, {longest - 1, 0}), "for a dimension of 2");
}

// Whole, also where a double is not.
Tensor Pairs64(std::vector<int64_t> values) {
  return Tensor::FromSpan<int64_t>({static_cast<int64_t>(values.size()) / 2, 2}, values);
}

void AddPad(Suite& suite) {
  OpRecord& record = suite.Op("Pad").Reference(Pad);
  for (DType d : kEveryWidth) {
    record.Call({Any(d, {2, 3}), Make(DType::kInt32, {2, 2}, {1, 0, 2, 1})});
  }
  record.Call({Floats({3}), Make(DType::kInt64, {1, 2}, {0, 2})})
      .Call({Floats({2, 0}), Make(DType::kInt32, {2, 2}, {1, 1, 1, 1})})
      .Hostile({Floats({2}), Pairs64({-1, 0})}, "paddings[0] = (-1, 0)")
      .Hostile({Floats({2}), Pairs64({0, kShortest})}, "paddings[0]")
      .Hostile({Floats({2}), Pairs64({kLongest, kLongest})}, "paddings[0]")
      .Hostile({Floats({2}), Pairs64({kLongest - 2, 1})}, "paddings[0]")
      .Hostile({Floats({2}), Pairs64({0, 0, 0, 0})}, "paddings must be [1,2]")
      .Hostile({Floats({2}), Longs({0, 0})}, "paddings must be [1,2]")
      .Hostile({Floats({1, 1}), Pairs64({kWide, 0, 0, kWide})}, "no shape has the dimensions")
      .OutOfMemory({Floats({1}), Pairs64({kWide, 0})});
}

}  // namespace

void AddPaddingRecords(Suite& suite) {
  AddPad(suite);
  // constant_values gets no gradient, as in TensorFlow.
  OpRecord& pad = suite.Op("PadV2").Reference(PadV2).NoGradient();
  for (DType d : Join({kNumbers, {DType::kBool}})) pad.Call({Of(d, {2, 3}), Pairs({1, 0, 0, 2}), Of(d, {})});
  pad.Call({Strings({1}, {"a"}), Pairs({1, 2}), Tensor::Scalar("b")})
      .Call({Floats({}), Make(DType::kInt32, {0, 2}, {}), Floats({})})
      .Call({Floats({0, 2}), Pairs({1, 1, 0, 0}, DType::kInt64), Floats({})})
      .Hostile({Floats({2}), Pairs({0, 0}), Floats({1})}, "constant_values must be a scalar, is [1]")
      .OutOfMemory({Floats({2}), Tensor::From<int64_t>({1, 2}, {int64_t{1} << 40, 0}), Floats({})});
  AddHostile(pad, {Floats({})}, {});

  for (const char* mode : {"REFLECT", "SYMMETRIC"}) {
    const AttrMap attrs = {{"mode", mode}};
    OpRecord& mirror = suite.Op("MirrorPad").Reference(MirrorPad);
    for (DType d : Join({kNumbers, {DType::kBool}})) mirror.Call({Of(d, {2, 3}), Pairs({1, 0, 2, 1})}, attrs);
    mirror.Call({Strings({2}, {"a", "b"}), Pairs({1, 1})}, attrs)
        .Call({Floats({3, 2, 4}), Pairs({2, 2, 1, 1, 0, 3}, DType::kInt64)}, attrs)
        .Call({Floats({0, 2}), Pairs({0, 0, 1, 0})}, attrs)
        .Call({Floats({}), Make(DType::kInt32, {0, 2}, {})}, attrs)
        .Hostile({Floats({2}), Pairs({3, 0})}, "are too long for mode", attrs)
        .Hostile({Floats({2}), Pairs({0, 3})}, "are too long for mode", attrs)
        .Hostile({Floats({0}), Pairs({0, 1})}, "are too long for mode", attrs);
    AddHostile(mirror, {}, attrs);
    OpRecord& grad = suite.Op("MirrorPadGrad").Reference(MirrorPadGrad);
    for (DType d : kNumbers) grad.Call({Of(d, {3, 6}), Pairs({1, 0, 2, 1})}, attrs);
    grad.Call({Floats({7, 4}), Pairs({2, 2, 1, 1}, DType::kInt64)}, attrs)
        .Call({Floats({4, 2}), Pairs({0, 0, 0, 0})}, attrs)
        .Hostile({Floats({5}), Pairs({2, 2})}, "are too long for mode", attrs)
        .Hostile({Floats({2}), Pairs({2, 1})}, "are more than the dimension of 2", attrs);
    AddHostile(grad, {}, attrs);
  }
  suite.Op("MirrorPad")
      .Hostile({Floats({2}), Pairs({2, 0})}, "are too long for mode REFLECT", {{"mode", "REFLECT"}});
  suite.Op("MirrorPadGrad").NoKernelFor("T", {DType::kBool, DType::kString}, "they cannot be added");
}

}  // namespace weir::conformance
