// Pools, as a walk over (image, output pixel, window pixel).
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/string_view.h"
#include "graph/graph_builder.h"
#include "kernels/reference/reference.h"
#include "ops/register_ops.h"
#include "tests/conformance/dtypes.h"
#include "tests/conformance/nn/sliding_windows.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using List = std::vector<int64_t>;

// Calls visit(n, c, oy, ox, iy, ix) for every pixel of every pool.
void VisitPools(const Call& call, const Index& input,
                const std::function<void(const Index& in, const Index& out)>& visit) {
  const bool nchw = ChannelsFirst(call);
  const std::vector<int64_t>& size = call.integers("ksize");
  const Windows windows = WindowsOf(call, input, size[nchw ? 2 : 1], size[nchw ? 3 : 2], {1, 1, 1, 1});
  for (int64_t n = 0; n < input[0]; ++n) {
    for (int64_t c = 0; c < input[nchw ? 1 : 3]; ++c) {
      Slide(windows, [&](int64_t oy, int64_t ox, int64_t, int64_t, int64_t iy, int64_t ix) {
        visit(Pixel(nchw, n, iy, ix, c), Pixel(nchw, n, oy, ox, c));
      });
    }
  }
}

Index PoolDims(const Call& call, const Index& input) {
  const bool nchw = ChannelsFirst(call);
  const std::vector<int64_t>& size = call.integers("ksize");
  const Windows windows = WindowsOf(call, input, size[nchw ? 2 : 1], size[nchw ? 3 : 2], {1, 1, 1, 1});
  return Pixel(nchw, input[0], windows.y.output, windows.x.output, input[nchw ? 1 : 3]);
}

// The lowest finite number.
double Lowest(D dtype) {
  switch (dtype) {
    case D::kFloat32:
      return std::numeric_limits<float>::lowest();
    case D::kHalf:
      return -65504;
    case D::kBfloat16:
      return -255 * std::exp2(120);
    default:  // of an integer, not above the lowest one
      return std::numeric_limits<double>::lowest();
  }
}

// NaN, and what is not above the lowest finite number, does not count.
void MaxPool(Call& call) {
  Array& out = call.outputs[0] =
      Array(PoolDims(call, call.in(0).dims()), Value(Lowest(call.node.output_type(0))));
  VisitPools(call, call.in(0).dims(), [&](const Index& in, const Index& o) {
    if (call.in(0).at(in).real() > out.at(o).real()) out.at(o) = call.in(0).at(in);
  });
}

// The gradient goes to the first pixel of each pool, or to one that is larger than all before it, whatever
// orig_output says: it may have been fed. Nothing is larger than NaN, and NaN is not larger than anything.
void MaxPoolGrad(Call& call) {
  const Array &input = call.in(0), &grad = call.in(2);
  std::map<Index, Index> largest;
  VisitPools(call, input.dims(), [&](const Index& in, const Index& o) {
    const auto [found, is_first] = largest.try_emplace(o, in);
    if (!is_first && input.at(in).real() > input.at(found->second).real()) found->second = in;
  });
  call.outputs[0] = Array(input.dims());
  for (const auto& [o, in] : largest) call.outputs[0].at(in).number += grad.at(o).number;
}

// Of each pool, the gradient of the first pixel that equals orig_output, which may have been fed; 0 if none
// does.
void MaxPoolGradGrad(Call& call) {
  const Array &input = call.in(0), &largest = call.in(1), &grad = call.in(2);
  Array found(largest.dims());
  call.outputs[0] = Array(largest.dims());
  VisitPools(call, input.dims(), [&](const Index& in, const Index& o) {
    if (!found.at(o).is_zero() || input.at(in).real() != largest.at(o).real()) return;
    found.at(o) = 1.0;
    call.outputs[0].at(o) = grad.at(in);
  });
}

// The pixel that each gradient goes to, as MaxPoolGrad has it.
void MaxPoolWithArgmax(Call& call) {
  const Array& input = call.in(0);
  std::map<Index, Index> largest;
  VisitPools(call, input.dims(), [&](const Index& in, const Index& o) {
    const auto [found, is_first] = largest.try_emplace(o, in);
    if (!is_first && input.at(in).real() > input.at(found->second).real()) found->second = in;
  });
  const Index dims = PoolDims(call, input.dims());
  call.outputs = {Array(dims), Array(dims)};
  for (auto& [o, in] : largest) {
    call.outputs[0].at(o) = input.at(in);
    Index at = in;
    if (!call.flag("include_batch_in_index")) at[0] = 0;
    call.outputs[1].at(o) = static_cast<double>(input.PositionOf(at));
  }
}

void MaxPoolGradWithArgmax(Call& call) {
  const Array &input = call.in(0), &grad = call.in(1);
  call.outputs[0] = Array(input.dims());
  for (int64_t i = 0; i < grad.size(); ++i) {
    Index at = input.IndexOf(call.in(2)[i].integer());
    if (!call.flag("include_batch_in_index")) at[0] = grad.IndexOf(i)[0];
    call.outputs[0].at(at).number += grad[i].number;
  }
}

// An op whose last inputs are ksize and strides, by the reference of the `op` that has them as attrs.
reference::Reference WithInputsAsAttrs(const std::string& op, const reference::Reference& reference) {
  return [op, reference](Call& call) {
    GraphBuilder g(StandardOps());
    const auto count = static_cast<int>(call.inputs.size()) - 2;
    std::vector<InputArg> inputs;
    std::vector<Tensor> values;
    for (int i = 0; i < count; ++i) {
      values.push_back(call.in(i).ToTensor(call.node.input_type(i)));
      inputs.push_back(g.AddOp("Placeholder", {},
                               {{"dtype", values[i].dtype()}, {"shape", PartialShape(values[i].shape())}}));
    }
    const Node* pool = g.AddNode(op, inputs,
                                 {{"ksize", call.in(count).integers()},
                                  {"strides", call.in(count + 1).integers()},
                                  {"padding", call.text("padding")},
                                  {"data_format", call.text("data_format")}});
    call.outputs = {Array::FromTensor(reference::Evaluate(reference, *pool, values)[0])};
  };
}

Array PoolCounts(const Call& call, const Index& input) {
  Array counts(PoolDims(call, input));
  VisitPools(call, input, [&](const Index&, const Index& o) { counts.at(o).number += 1; });
  return counts;
}

void AvgPool(Call& call) {
  const Array counts = PoolCounts(call, call.in(0).dims());
  Array& out = call.outputs[0] = Array(counts.dims());
  VisitPools(call, call.in(0).dims(), [&](const Index& in, const Index& o) {
    out.at(o).number += call.in(0).at(in).number / counts.at(o).number;
  });
}

void AvgPoolGrad(Call& call) {
  Array& out = call.outputs[0] = Array(call.in(0).integers());
  const Array counts = PoolCounts(call, out.dims());
  VisitPools(call, out.dims(), [&](const Index& in, const Index& o) {
    out.at(in).number += call.in(1).at(o).number / counts.at(o).number;
  });
}

// -1, 0 and 1 as floats.
Tensor WholeNumbers(const List& dims) {
  const reference::Array numbers = reference::Array::FromTensor(Sample(D::kInt32, dims, -1, 1, 1));
  return numbers.ToTensor(D::kFloat32);
}

// What MaxPool gives: an input of MaxPoolGrad.
Tensor MaxPooled(const Tensor& input, const AttrMap& attrs) {
  GraphBuilder g(StandardOps());
  const Output image =
      g.AddOp("Placeholder", {}, {{"dtype", input.dtype()}, {"shape", PartialShape(input.shape())}});
  const Node* pool = g.AddNode("MaxPool", {image}, attrs);
  return reference::Evaluate(MaxPool, *pool, {input})[0];
}

void AddCalls(Suite& suite) {
  struct Pool {
    List input, output, size, strides;
    const char* padding;
    const char* format;
  };
  const std::vector<Pool> pools = {
      {{2, 4, 6, 3}, {2, 2, 3, 3}, {1, 2, 2, 1}, {1, 2, 2, 1}, "VALID", "NHWC"},
      {{1, 5, 5, 2}, {1, 3, 3, 2}, {1, 3, 3, 1}, {1, 2, 2, 1}, "SAME", "NHWC"},
      {{1, 5, 6, 2}, {1, 5, 6, 2}, {1, 2, 3, 1}, {1, 1, 1, 1}, "SAME", "NHWC"},
      {{2, 3, 4, 6}, {2, 3, 2, 3}, {1, 1, 2, 2}, {1, 1, 2, 2}, "VALID", "NCHW"},
  };
  for (const Pool& pool : pools) {
    const AttrMap attrs = {{"ksize", pool.size},
                           {"strides", pool.strides},
                           {"padding", pool.padding},
                           {"data_format", pool.format}};
    for (D d : kReals) {
      if (d != D::kFloat32 && &pool != &pools[0]) continue;
      const Tensor input = Sample(d, pool.input, -2, 2, 1), grad = Sample(d, pool.output, -1, 1, 3);
      suite.Op("MaxPool").Call({input}, attrs);
      suite.Op("AvgPool").Call({.attrs = attrs, .inputs = {input}, .tolerance = SumTolerance(d)});
      suite.Op("AvgPoolGrad")
          .Call({.attrs = attrs, .inputs = {Sizes(pool.input), grad}, .tolerance = SumTolerance(d)});
    }
    // Of different elements, and of few different ones: the first of the largest counts.
    const Tensor ties = WholeNumbers(pool.input);
    for (const Tensor& input :
         {Sample(D::kFloat32, pool.input, -2, 2, 1), ties, Sample(D::kInt32, pool.input, -2, 2, 1),
          Sample(D::kHalf, pool.input, -2, 2, 1)}) {
      const bool has_ties = input.SharesBufferWith(ties);
      const Tensor maxima = MaxPooled(input, attrs);
      suite.Op("MaxPoolGrad")
          .Call({.attrs = attrs,
                 .inputs = {input, maxima, Sample(input.dtype(), pool.output, -2, 2, 3)},
                 .check_gradient = !has_ties,
                 .tolerance = SumTolerance(input.dtype())});
      suite.Op("MaxPoolGradGrad")
          .NoGradient()  // a small change leaves no element that equals orig_output
          .Call({input, maxima, Sample(input.dtype(), pool.input, -2, 2, 3)}, attrs);
    }
    suite.Op("MaxPoolGradGrad")
        .Call({ties, WholeNumbers(pool.output), Sample(D::kFloat32, pool.input, -2, 2, 3)}, attrs);
  }
}

// Of the ops with windows as inputs, and of those that give positions: a few pools are enough, for their
// loops are those of the others.
void AddOtherVersions(Suite& suite) {
  struct Pool {
    List input, output, size, strides;
    const char* padding;
  };
  const std::vector<Pool> pools = {
      {{2, 4, 6, 3}, {2, 2, 3, 3}, {1, 2, 2, 1}, {1, 2, 2, 1}, "VALID"},
      {{2, 5, 5, 2}, {2, 3, 3, 2}, {1, 3, 3, 1}, {1, 2, 2, 1}, "SAME"},
      {{1, 5, 6, 2}, {1, 5, 6, 2}, {1, 2, 3, 1}, {1, 1, 1, 1}, "SAME"},
  };
  for (const Pool& pool : pools) {
    const AttrMap padding = {{"padding", pool.padding}};
    const AttrMap attrs = {{"ksize", pool.size}, {"strides", pool.strides}, {"padding", pool.padding}};
    const Tensor size = Sizes(pool.size), strides = Sizes(pool.strides);
    for (const D d : kOrdered) {
      if (d != D::kFloat32 && &pool != &pools[0]) continue;
      const double low = IsUnsigned(d) ? 0 : -9;
      const Tensor input = Sample(d, pool.input, low, 9, 1), grad = Sample(d, pool.output, 0, 5, 3);
      if (d != D::kUint32 && d != D::kUint64) {  // which MaxPool does not have
        const Tensor maxima = MaxPooled(input, attrs);
        suite.Op("MaxPoolV2").Call({input, size, strides}, padding);
        suite.Op("MaxPoolGradV2").Call({input, maxima, grad, size, strides}, padding);
        suite.Op("MaxPoolGradGradV2").NoGradient().Call({input, maxima, input, size, strides}, padding);
      }
      for (const bool counts_batch : {false, true}) {
        for (const D positions : {D::kInt32, D::kInt64}) {
          AttrMap all = attrs;
          all["include_batch_in_index"] = counts_batch;
          AttrMap forward = all;
          forward["Targmax"] = positions;
          suite.Op("MaxPoolWithArgmax").Call({input}, forward);
          const double last =
              static_cast<double>(input.num_elements() / (counts_batch ? 1 : pool.input[0]) - 1);
          suite.Op("MaxPoolGradWithArgmax")
              .NoGradient()
              .Tolerance(SumTolerance(d))
              .Call({input, grad, Sample(positions, pool.output, 0, last, 5)}, all);
        }
      }
    }
  }
  suite.Op("MaxPoolV2")
      .Call({Sample(D::kFloat32, {2, 3, 4, 6}), Ints({1, 1, 2, 2}), Ints({1, 1, 2, 2})},
            {{"padding", "VALID"}, {"data_format", "NCHW"}});
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  suite.Op("MaxPoolWithArgmax")
      .NoGradient()
      .Call({Make(D::kFloat32, {1, 2, 4, 1}, {1, kNan, 3, 2, kNan, 5, -kInfinity, -kInfinity})},
            {{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 1, 1, 1}}, {"padding", "VALID"}})
      .Call({WholeNumbers({2, 6, 6, 2})},
            {{"ksize", List{1, 3, 3, 1}}, {"strides", List{1, 2, 2, 1}}, {"padding", "SAME"}})
      .Call({Empty({0, 4, 4, 1})},
            {{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 1, 1, 1}}, {"padding", "VALID"}});
}

void AddHostileOtherVersions(Suite& suite) {
  const Tensor image = Floats({1, 4, 4, 1}), pooled = Floats({1, 3, 3, 1});
  const Tensor two = Ints({1, 2, 2, 1}), one = Ints({1, 1, 1, 1});
  const AttrMap valid = {{"padding", "VALID"}};
  const auto add = [&](const char* op, std::vector<CaseInput> inputs) {
    const auto with = [&](const Tensor& size, const Tensor& strides) {
      std::vector<CaseInput> all = inputs;
      all.insert(all.end(), {size, strides});
      return all;
    };
    suite.Op(op)
        .Hostile(with(Ints({1, 2, 2}), one), "ksize must have 4 elements, is [1,2,2]", valid)
        .Hostile(with(two, Ints({1, 1})), "strides must have 4 elements", valid)
        .Hostile(with(Ints({2, 2, 2, 1}), one), "ksize must be 1 for batch and channels", valid,
                 absl::StatusCode::kUnimplemented)
        .Hostile(with(Ints({1, 2, 0, 1}), one), "ksize must be at least 1, is [1,2,0,1]", valid)
        .Hostile(with(two, Ints({1, 1, -1, 1})), "strides must be at least 1", valid)
        .Hostile(with(Ints({1, 5, 5, 1}), one), "does not fit into 4", valid);
  };
  add("MaxPoolV2", {image});
  add("MaxPoolGradV2", {image, pooled, pooled});
  add("MaxPoolGradGradV2", {image, pooled, image});
  const AttrMap attrs = {{"ksize", List{1, 2, 2, 1}}, {"strides", List{1, 1, 1, 1}}, {"padding", "VALID"}};
  suite.Op("MaxPoolWithArgmax")
      .Hostile({Floats({4, 4, 1})}, "4 dimensions", attrs)
      .Hostile({Floats({1, 1, 1, 1})}, "does not fit into 1", attrs)
      .Hostile({Empty({0, kHuge, 2, 1})}, "do not fit in int32",
               {{"ksize", List{1, 2, 2, 1}},
                {"strides", List{1, 1, 1, 1}},
                {"padding", "VALID"},
                {"Targmax", D::kInt32}});
  const auto positions = [](double value) {
    return Make(D::kInt64, {1, 3, 3, 1}, std::vector<double>(9, value));
  };
  for (const bool counts_batch : {false, true}) {
    AttrMap all = attrs;
    all["include_batch_in_index"] = counts_batch;
    suite.Op("MaxPoolGradWithArgmax")
        .Hostile({image, pooled, positions(16)}, "argmax, element 0, is 16", all)
        .Hostile({image, pooled, positions(-1)}, "argmax, element 0, is -1", all)
        .Hostile({image, Floats({1, 3, 2, 1}), positions(0)}, "grad must be [1,3,3,1]", all)
        .Hostile({image, pooled, Longs({0})}, "argmax must be [1,3,3,1]", all);
  }
}

// NaN and infinities, at each place of a pool and alone in one.
void AddCallsWithNan(Suite& suite) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> kinds = {kNan, 3, -1, 2, kNan, -kInf, kNan};
  std::vector<double> values;
  for (int i = 0; i < 2 * 6 * 6 * 17; ++i) values.push_back(i % 24 < 4 ? kNan : kinds[i * i % 53 % 7]);
  for (const auto& [input, output, format] :
       {std::tuple<List, List, const char*>{{2, 6, 6, 17}, {2, 3, 3, 17}, "NHWC"},
        {{2, 17, 6, 6}, {2, 17, 3, 3}, "NCHW"}}) {
    const List window = format == absl::string_view("NHWC") ? List{1, 2, 2, 1} : List{1, 1, 2, 2};
    const AttrMap attrs = {
        {"ksize", window}, {"strides", window}, {"padding", "VALID"}, {"data_format", format}};
    for (D d : {D::kFloat32, D::kFloat64, D::kHalf, D::kBfloat16}) {
      const Tensor x = Make(d, input, values), maxima = MaxPooled(x, attrs);
      suite.Op("MaxPool").NoGradient().Call({x}, attrs);
      suite.Op("MaxPoolGrad").NoGradient().Call({x, maxima, Sample(d, output, 1, 2)}, attrs);
      suite.Op("MaxPoolGradGrad").NoGradient().Call({x, maxima, Sample(d, input, 1, 2)}, attrs);
    }
  }
}

void AddHostileCalls(Suite& suite) {
  const auto pool = [](List size, const char* padding) {
    return With(WindowAttrs({1, 1, 1, 1}, padding), "ksize", size);
  };
  const AttrMap two = pool({1, 2, 2, 1}, "VALID");
  for (const char* op : {"MaxPool", "AvgPool"}) {
    suite.Op(op).Hostile({Floats({1, 2, 2, 1})}, "does not fit into 2", pool({1, 3, 3, 1}, "VALID"));
    suite.Op(op).Hostile({Floats({2, 2, 1})}, "4 dimensions", two);
    suite.Op(op).Hostile({Floats({1, 0, 2, 1})}, "does not fit into 0", two);
    suite.Op(op).Hostile({Floats({1, 4, 4, 1})}, "does not fit into 64 bits",
                         With(pool({1, kLongest, 1, 1}, "SAME"), "strides", {1, 3, 1, 1}));
  }
  suite.Op("MaxPool").Hostile(
      {Floats({1, 2, 2, 1})}, "does not fit into 64 bits",
      With(pool({1, 2, 2, 1}, "EXPLICIT"), "explicit_paddings", {0, 0, kLongest, 1, 0, 0, 0, 0}));
  suite.Op("MaxPool").Hostile(
      {Floats({1, 2, 2, 1})}, "no shape has the dimensions",
      With(pool({1, 2, 2, 1}, "EXPLICIT"), "explicit_paddings", {0, 0, kWide, 0, kWide, 0, 0, 0}));
  const Tensor image = Floats({1, 4, 4, 1});
  suite.Op("MaxPoolGrad")
      .Hostile({image, Floats({1, 3, 2, 1}), Floats({1, 3, 3, 1})}, "orig_output must be [1,3,3,1]", two);
  suite.Op("MaxPoolGrad")
      .Hostile({image, Floats({1, 3, 3, 1}), Floats({1, 3, 3, 2})}, "grad must be [1,3,3,1]", two);
  suite.Op("MaxPoolGrad")
      .Hostile({Floats({1, 1, 1, 1}), Floats({1, 3, 3, 1}), Floats({1, 3, 3, 1})}, "does not fit into 1",
               two);
  suite.Op("MaxPoolGrad").Hostile({Floats({4}), Floats({4}), Floats({4})}, "4 dimensions", two);
  suite.Op("MaxPoolGradGrad")
      .Hostile({image, Floats({1, 3, 2, 1}), image}, "orig_output must be [1,3,3,1]", two);
  suite.Op("MaxPoolGradGrad")
      .Hostile({image, Floats({1, 3, 3, 1}), Floats({1, 3, 3, 1})}, "grad must be [1,4,4,1]", two);
  suite.Op("MaxPoolGradGrad")
      .Hostile({Floats({1, 1, 1, 1}), Floats({1, 3, 3, 1}), Floats({1, 1, 1, 1})}, "does not fit into 1",
               two);
  suite.Op("MaxPoolGradGrad").Hostile({Floats({4}), Floats({4}), Floats({4})}, "4 dimensions", two);
  suite.Op("AvgPoolGrad").Hostile({Ints({1, 4, 4, 1}), Floats({1, 3, 2, 1})}, "grad must be [1,3,3,1]", two);
  suite.Op("AvgPoolGrad")
      .Hostile({Ints({1, 4, 4}), Floats({1, 3, 3, 1})}, "orig_input_shape must be [4]", two);
  suite.Op("AvgPoolGrad").Hostile({Ints({1, -4, 4, 1}), Floats({1, 3, 3, 1})}, "orig_input_shape", two);
  suite.Op("AvgPoolGrad").Hostile({Ints({1, kHuge, kHuge, 1}), Floats({1, 3, 3, 1})}, "grad must be", two);
}

}  // namespace

void AddPoolingRecords(Suite& suite) {
  suite.Op("MaxPool").Reference(MaxPool);
  suite.Op("MaxPoolGrad").Reference(MaxPoolGrad);
  suite.Op("MaxPoolGradGrad").Reference(MaxPoolGradGrad);
  suite.Op("MaxPoolV2").Reference(WithInputsAsAttrs("MaxPool", MaxPool));
  suite.Op("MaxPoolGradV2").Reference(WithInputsAsAttrs("MaxPoolGrad", MaxPoolGrad));
  suite.Op("MaxPoolGradGradV2").Reference(WithInputsAsAttrs("MaxPoolGradGrad", MaxPoolGradGrad));
  suite.Op("MaxPoolWithArgmax").Reference(MaxPoolWithArgmax);
  suite.Op("MaxPoolGradWithArgmax").Reference(MaxPoolGradWithArgmax);
  suite.Op("AvgPool").Reference(AvgPool);
  suite.Op("AvgPoolGrad").Reference(AvgPoolGrad);
  AddCalls(suite);
  AddCallsWithNan(suite);
  AddOtherVersions(suite);
  AddHostileOtherVersions(suite);
  AddHostileCalls(suite);
}

}  // namespace weir::conformance
