// Convolutions and pools of volumes, as a walk over (volume, output pixel,
// window pixel).
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

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

// Depth, height and width of a volume [batch, depth, height, width, channels]
// and of the window that slides over it.
struct Sides {
  List input, window, strides, dilations, output, before;
};

Sides SidesOf(const Call& call, const Index& input, const List& window) {
  Sides sides;
  sides.window = window;
  for (int i = 1; i <= 3; ++i) {
    const int64_t stride = call.integers("strides")[i];
    const int64_t dilation = call.node.FindAttr("dilations") ? call.integers("dilations")[i] : 1;
    const int64_t reach = (window[i - 1] - 1) * dilation + 1;
    const bool is_same = call.text("padding") == "SAME";
    const int64_t output = is_same ? (input[i] + stride - 1) / stride : (input[i] - reach) / stride + 1;
    sides.input.push_back(input[i]);
    sides.strides.push_back(stride);
    sides.dilations.push_back(dilation);
    sides.output.push_back(output);
    sides.before.push_back(is_same ? std::max<int64_t>(0, (output - 1) * stride + reach - input[i]) / 2 : 0);
  }
  return sides;
}

void ForEachIndex(const List& dims, const std::function<void(const Index&)>& visit) {
  const Array all(dims);
  for (int64_t i = 0; i < all.size(); ++i) visit(all.IndexOf(i));
}

Index At(int64_t n, const Index& place, int64_t channel) {
  return {n, place[0], place[1], place[2], channel};
}

// Calls visit(output pixel, window pixel, input pixel) where the last one lies
// in the volume.
void Slide(const Sides& sides, const std::function<void(const Index&, const Index&, const Index&)>& visit) {
  ForEachIndex(sides.output, [&](const Index& out) {
    ForEachIndex(sides.window, [&](const Index& k) {
      Index in(3);
      bool is_inside = true;
      for (int i = 0; i < 3; ++i) {
        in[i] = out[i] * sides.strides[i] + k[i] * sides.dilations[i] - sides.before[i];
        is_inside = is_inside && in[i] >= 0 && in[i] < sides.input[i];
      }
      if (is_inside) visit(out, k, in);
    });
  });
}

using VisitProduct = std::function<void(const Index& in, const Index& weight, const Index& out)>;

Sides SidesOfConvolution(const Call& call, const Index& input, const Index& filter) {
  return SidesOf(call, input, {filter[0], filter[1], filter[2]});
}

void VisitConvolution(const Call& call, const Index& input, const Index& filter, const VisitProduct& visit) {
  const Sides sides = SidesOfConvolution(call, input, filter);
  for (int64_t n = 0; n < input[0]; ++n) {
    Slide(sides, [&](const Index& out, const Index& k, const Index& in) {
      for (int64_t i = 0; i < filter[3]; ++i) {
        for (int64_t o = 0; o < filter[4]; ++o) {
          visit(At(n, in, i), {k[0], k[1], k[2], i, o}, At(n, out, o));
        }
      }
    });
  }
}

void Conv3D(Call& call) {
  const Array &input = call.in(0), &filter = call.in(1);
  Array& y = call.outputs[0] =
      Array(At(input.dim(0), SidesOfConvolution(call, input.dims(), filter.dims()).output, filter.dim(4)));
  VisitConvolution(call, input.dims(), filter.dims(),
                   [&](const Index& in, const Index& weight, const Index& out) {
                     y.at(out).number += input.at(in).number * filter.at(weight).number;
                   });
}

void Conv3DBackpropInput(Call& call) {
  Array& dx = call.outputs[0] = Array(call.in(0).integers());
  VisitConvolution(call, dx.dims(), call.in(1).dims(),
                   [&](const Index& in, const Index& weight, const Index& out) {
                     dx.at(in).number += call.in(1).at(weight).number * call.in(2).at(out).number;
                   });
}

void Conv3DBackpropFilter(Call& call) {
  Array& dw = call.outputs[0] = Array(call.in(1).integers());
  VisitConvolution(call, call.in(0).dims(), dw.dims(),
                   [&](const Index& in, const Index& weight, const Index& out) {
                     dw.at(weight).number += call.in(0).at(in).number * call.in(2).at(out).number;
                   });
}

Sides SidesOfPool(const Call& call, const Index& input) {
  const List& size = call.integers("ksize");
  return SidesOf(call, input, {size[1], size[2], size[3]});
}

// Calls visit(input, output) for every pixel of every pool.
void VisitPools(const Call& call, const Index& input,
                const std::function<void(const Index& in, const Index& out)>& visit) {
  const Sides sides = SidesOfPool(call, input);
  for (int64_t n = 0; n < input[0]; ++n) {
    for (int64_t c = 0; c < input[4]; ++c) {
      Slide(sides,
            [&](const Index& out, const Index&, const Index& in) { visit(At(n, in, c), At(n, out, c)); });
    }
  }
}

Index PoolDims(const Call& call, const Index& input) {
  return At(input[0], SidesOfPool(call, input).output, input[4]);
}

// The largest number; NaN where there is none.
void MaxPool3D(Call& call) {
  Array& y = call.outputs[0] = Array(PoolDims(call, call.in(0).dims()), Value(std::nan("")));
  VisitPools(call, call.in(0).dims(), [&](const Index& in, const Index& out) {
    const double x = call.in(0).at(in).real();
    if (std::isnan(y.at(out).real()) || x > y.at(out).real()) y.at(out) = x;
  });
}

// Every pixel that equals orig_output gets the whole gradient of its pool.
void MaxPool3DGrad(Call& call) {
  Array& dx = call.outputs[0] = Array(call.in(0).dims());
  VisitPools(call, dx.dims(), [&](const Index& in, const Index& out) {
    if (call.in(0).at(in).real() == call.in(1).at(out).real()) dx.at(in).number += call.in(2).at(out).number;
  });
}

// Of each pool, the gradient of the first pixel that equals orig_output; 0 if
// none does.
void MaxPool3DGradGrad(Call& call) {
  call.outputs[0] = Array(call.in(1).dims());
  std::map<Index, bool> found;
  VisitPools(call, call.in(0).dims(), [&](const Index& in, const Index& out) {
    if (found[out] || call.in(0).at(in).real() != call.in(1).at(out).real()) return;
    found[out] = true;
    call.outputs[0].at(out) = call.in(2).at(in);
  });
}

Array PoolCounts(const Call& call, const Index& input) {
  Array counts(PoolDims(call, input));
  VisitPools(call, input, [&](const Index&, const Index& out) { counts.at(out).number += 1; });
  return counts;
}

void AvgPool3D(Call& call) {
  const Array counts = PoolCounts(call, call.in(0).dims());
  Array& y = call.outputs[0] = Array(counts.dims());
  VisitPools(call, call.in(0).dims(), [&](const Index& in, const Index& out) {
    y.at(out).number += call.in(0).at(in).number / counts.at(out).number;
  });
}

void AvgPool3DGrad(Call& call) {
  Array& dx = call.outputs[0] = Array(call.in(0).integers());
  const Array counts = PoolCounts(call, dx.dims());
  VisitPools(call, dx.dims(), [&](const Index& in, const Index& out) {
    dx.at(in).number += call.in(1).at(out).number / counts.at(out).number;
  });
}

// ---- Calls ----

struct Volume {
  List input, filter, output;
  AttrMap attrs;
};

std::vector<Volume> Volumes() {
  std::vector<Volume> volumes = {
      {{2, 3, 4, 5, 2}, {2, 3, 2, 2, 3}, {2, 3, 4, 5, 3}, WindowAttrs({1, 1, 1, 1, 1}, "SAME")},
      {{1, 4, 3, 5, 3}, {2, 2, 3, 3, 2}, {1, 3, 2, 3, 2}, WindowAttrs({1, 1, 1, 1, 1}, "VALID")},
      {{2, 5, 4, 3, 1}, {3, 2, 2, 1, 2}, {2, 3, 4, 2, 2}, WindowAttrs({1, 2, 1, 2, 1}, "SAME")},
      {{1, 3, 2, 2, 3}, {1, 1, 1, 3, 4}, {1, 2, 1, 1, 4}, WindowAttrs({1, 2, 2, 2, 1}, "VALID")},
      {{0, 2, 2, 2, 1}, {2, 2, 2, 1, 2}, {0, 2, 2, 2, 2}, WindowAttrs({1, 1, 1, 1, 1}, "SAME")},
  };
  Volume dilated = {{1, 4, 5, 3, 1}, {2, 3, 2, 1, 2}, {1, 2, 1, 2, 2}, WindowAttrs({1, 1, 1, 1, 1}, "VALID")};
  dilated.attrs["dilations"] = List{1, 2, 2, 1, 1};
  volumes.push_back(dilated);
  return volumes;
}

void AddConvolutionCalls(Suite& suite) {
  const auto add = [&](const Volume& volume, D d) {
    const Tensor input = Sample(d, volume.input, -1, 1, 1), filter = Sample(d, volume.filter, -1, 1, 2);
    const Tensor grad = Sample(d, volume.output, -1, 1, 3);
    const double tolerance = 2 * SumTolerance(d);
    suite.Op("Conv3D").Call({.attrs = volume.attrs, .inputs = {input, filter}, .tolerance = tolerance});
    suite.Op("Conv3DBackpropInputV2")
        .Call({.attrs = volume.attrs, .inputs = {Sizes(volume.input), filter, grad}, .tolerance = tolerance});
    suite.Op("Conv3DBackpropFilterV2")
        .Call({.attrs = volume.attrs, .inputs = {input, Sizes(volume.filter), grad}, .tolerance = tolerance});
  };
  for (const Volume& volume : Volumes()) add(volume, D::kFloat32);
  for (D d : {D::kFloat64, D::kHalf, D::kBfloat16}) add(Volumes()[0], d);
  const Volume first = Volumes()[0];
  suite.Op("Conv3DBackpropInputV2")
      .Call({.attrs = first.attrs,
             .inputs = {Longs(first.input), Floats(first.filter), Floats(first.output)},
             .tolerance = 2e-5});
}

struct PoolCase {
  List input, output, size, strides;
  const char* padding;
};

AttrMap AttrsOf(const PoolCase& pool) {
  return With(WindowAttrs(pool.strides, pool.padding), "ksize", pool.size);
}

void AddPoolCalls(Suite& suite) {
  const std::vector<PoolCase> pools = {
      {{2, 4, 3, 5, 2}, {2, 2, 2, 3, 2}, {1, 2, 2, 3, 1}, {1, 2, 2, 2, 1}, "SAME"},
      {{1, 3, 4, 4, 3}, {1, 2, 2, 3, 3}, {1, 2, 3, 2, 1}, {1, 1, 1, 1, 1}, "VALID"},
      {{1, 4, 4, 4, 1}, {1, 2, 2, 2, 1}, {1, 1, 1, 1, 1}, {1, 2, 2, 3, 1}, "SAME"},
      {{0, 2, 2, 2, 1}, {0, 1, 1, 1, 1}, {1, 2, 2, 2, 1}, {1, 1, 1, 1, 1}, "VALID"},
  };
  for (const PoolCase& pool : pools) {
    const AttrMap attrs = AttrsOf(pool);
    for (D d : kReals) {
      const Tensor input = Sample(d, pool.input, -2, 2, 1), grad = Sample(d, pool.output, -1, 1, 3);
      const double tolerance = SumTolerance(d);
      suite.Op("AvgPool3D").Call({.attrs = attrs, .inputs = {input}, .tolerance = tolerance});
      suite.Op("AvgPool3DGrad")
          .Call({.attrs = attrs, .inputs = {Sizes(pool.input), grad}, .tolerance = tolerance});
      // Those of the largest elements have no double to check gradients in
      // (NoGradient): they are compared with their definitions, and with
      // TensorFlow's.
      const Tensor some = Sample(d, pool.output, -2, 2, 4);
      if (d == D::kFloat64) continue;
      suite.Op("MaxPool3DGradGrad").Call({input, some, Sample(d, pool.input, -1, 1, 5)}, attrs);
      suite.Op("MaxPool3D").Call({input}, attrs);
      suite.Op("MaxPool3DGrad").Tolerance(tolerance).Call({input, some, grad}, attrs);
    }
    // Few different elements: every largest one counts, and the first of them.
    const auto whole = [](const List& dims, int seed) {
      return Array::FromTensor(Sample(D::kInt32, dims, -1, 1, seed)).ToTensor(D::kFloat32);
    };
    const Tensor input = whole(pool.input, 1), maxima = whole(pool.output, 2);
    suite.Op("MaxPool3D").Call({input}, attrs);
    suite.Op("MaxPool3DGrad").Call({input, maxima, Floats(pool.output, 3)}, attrs);
    suite.Op("MaxPool3DGradGrad").Call({input, maxima, Floats(pool.input, 4)}, attrs);
  }
  const AttrMap two = AttrsOf(pools[3]);
  for (D d : kIntegers) {
    suite.Op("MaxPool3DGradGrad")
        .Call({Sample(d, {1, 2, 2, 2, 1}, 0, 3), Make(d, {1, 1, 1, 1, 1}, {2}),
               Sample(d, {1, 2, 2, 2, 1}, 0, 9, 2)},
              two);
  }
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double other : {kNan, -kInfinity}) {
    suite.Op("MaxPool3D")
        .Call({Make(D::kFloat32, {1, 1, 1, 2, 1}, {other, other})},
              With(WindowAttrs({1, 1, 1, 1, 1}, "VALID"), "ksize", {1, 1, 1, 2, 1}));
  }
}

void AddHostileConvolutions(Suite& suite) {
  const AttrMap valid = WindowAttrs({1, 1, 1, 1, 1}, "VALID"), same = WindowAttrs({1, 1, 1, 1, 1}, "SAME");
  const Tensor cube = Floats({1, 3, 3, 3, 2}), filter = Floats({2, 2, 2, 2, 1});
  OpRecord& forward = suite.Op("Conv3D");
  forward.Hostile({cube, Floats({4, 1, 1, 2, 1})}, "(depth of input [1,3,3,3,2])", valid);
  forward.Hostile({cube, Floats({2, 2, 2, 1, 1})}, "channels",
                  same);  // there are no groups
  forward.Hostile({cube, Floats({2, 2, 2, 3, 1})}, "channels", same);
  forward.Hostile({Floats({1, 3, 3, 2}), filter}, "5 dimensions", same);
  forward.Hostile({cube, Floats({2, 2, 2, 2})}, "5 dimensions", same);
  forward.Hostile({cube, Floats({2, 0, 2, 2, 1})}, "no window has size 0", same);
  forward.Hostile({Empty({1, 1, kWide / 2, kWide / (1 << 20), 0}), Empty({1, 1, 1, 0, 1 << 10})},
                  "no shape has the dimensions", valid);
  forward.OutOfMemory({Empty({1, 1 << 10, 1 << 10, 1 << 10, 0}), Empty({1, 1, 1, 0, 1})}, valid);
  OpRecord& to_input = suite.Op("Conv3DBackpropInputV2");
  to_input.Hostile({Ints({1, 3, 3, 3, 2}), filter, Floats({1, 3, 3, 2, 1})},
                   "out_backprop must be [1,3,3,3,1]", same);
  to_input.Hostile({Ints({1, 3, 3, 2}), filter, Floats({1, 3, 3, 3, 1})}, "input_sizes must have 5 elements",
                   same);
  to_input.Hostile({Ints({1, -3, 3, 3, 2}), filter, Floats({1, 3, 3, 3, 1})}, "input_sizes", same);
  to_input.Hostile({Ints({kHuge, kHuge, kHuge, kHuge, 2}), filter, Floats({1, 3, 3, 3, 1})}, "input_sizes",
                   same);
  OpRecord& to_filter = suite.Op("Conv3DBackpropFilterV2");
  to_filter.Hostile({cube, Ints({2, 2, 2, 2, 1}), Floats({1, 3, 3, 3, 2})},
                    "out_backprop must be [1,3,3,3,1]", same);
  to_filter.Hostile({cube, Ints({2, 2, 2, 2}), Floats({1, 3, 3, 3, 1})}, "filter_sizes must have 5 elements",
                    same);
  to_filter.Hostile({cube, Ints({kHuge, 1, 1, 2, 1}), Floats({1, 3, 3, 3, 1})}, "does not fit", valid);
  to_filter.Hostile({cube, Ints({2, 2, 2, 1, 1}), Floats({1, 3, 3, 3, 1})}, "channels", same);
  to_filter.OutOfMemory({cube, Ints({kHuge, 1, 1, 2, 1}), Floats({1, 3, 3, 3, 1})}, same);
}

void AddHostilePools(Suite& suite) {
  const AttrMap two = With(WindowAttrs({1, 1, 1, 1, 1}, "VALID"), "ksize", {1, 2, 2, 2, 1});
  const Tensor cube = Floats({1, 3, 3, 3, 1}), pooled = Floats({1, 2, 2, 2, 1});
  for (const char* op : {"MaxPool3D", "AvgPool3D"}) {
    suite.Op(op).Hostile({Floats({1, 3, 3, 1})}, "5 dimensions", two);
    suite.Op(op).Hostile({Floats({1, 1, 3, 3, 1})}, "(depth of input [1,1,3,3,1])", two);
    suite.Op(op).Hostile({Floats({1, 0, 3, 3, 1})}, "does not fit into 0", two);
    suite.Op(op).Hostile({cube}, "does not fit into 64 bits",
                         With(With(WindowAttrs({1, 3, 1, 1, 1}, "SAME"), "ksize", {1, kLongest, 1, 1, 1}),
                              "strides", {1, 2, 1, 1, 1}));
  }
  const auto refuse = [&](const char* op, std::vector<CaseInput> inputs, const char* error) {
    suite.Op(op).Hostile(std::move(inputs), error, two);
  };
  for (const char* op : {"MaxPool3DGrad", "MaxPool3DGradGrad"}) {
    refuse(op, {cube, Floats({1, 2, 2, 1, 1}), pooled}, "orig_output must be [1,2,2,2,1]");
    refuse(op, {Floats({3}), Floats({3}), Floats({3})}, "5 dimensions");
    refuse(op, {Floats({1, 1, 1, 1, 1}), pooled, pooled}, "does not fit into 1");
  }
  refuse("MaxPool3DGrad", {cube, pooled, cube}, "grad must be [1,2,2,2,1]");
  refuse("MaxPool3DGradGrad", {cube, pooled, pooled}, "grad must be [1,3,3,3,1]");
  refuse("AvgPool3DGrad", {Ints({1, 3, 3, 3, 1}), cube}, "grad must be [1,2,2,2,1]");
  refuse("AvgPool3DGrad", {Ints({1, 3, 3, 3}), pooled}, "orig_input_shape must be [5]");
  refuse("AvgPool3DGrad", {Ints({1, -3, 3, 3, 1}), pooled}, "orig_input_shape");
  refuse("AvgPool3DGrad", {Ints({kHuge, kHuge, kHuge, 3, 1}), pooled}, "orig_input_shape");
}

// TensorFlow's kernels on the CPU refuse it, too.
void AddHostileLayouts(Suite& suite) {
  AttrMap convolution = WindowAttrs({1, 1, 1, 1, 1}, "VALID");
  convolution["data_format"] = "NCDHW";
  const AttrMap pool = With(convolution, "ksize", {1, 1, 1, 1, 1});
  const Tensor cube = Floats({1, 1, 2, 2, 2}), filter = Floats({1, 1, 1, 1, 1});
  const auto refuse = [&](const char* op, std::vector<CaseInput> inputs, const AttrMap& attrs) {
    suite.Op(op).Hostile(std::move(inputs), "data_format NCDHW has no kernel on the CPU", attrs,
                         absl::StatusCode::kUnimplemented);
  };
  refuse("Conv3D", {cube, filter}, convolution);
  refuse("MaxPool3D", {cube}, pool);
  refuse("AvgPool3D", {cube}, pool);
}

}  // namespace

void AddVolumesRecords(Suite& suite) {
  suite.Op("Conv3D").Reference(Conv3D);
  suite.Op("Conv3DBackpropInputV2").Reference(Conv3DBackpropInput);
  suite.Op("Conv3DBackpropFilterV2").Reference(Conv3DBackpropFilter);
  suite.Op("MaxPool3D").Reference(MaxPool3D).NoGradient();
  suite.Op("MaxPool3DGrad").Reference(MaxPool3DGrad).NoGradient();
  suite.Op("MaxPool3DGradGrad").Reference(MaxPool3DGradGrad).NoGradient();
  suite.Op("AvgPool3D").Reference(AvgPool3D);
  suite.Op("AvgPool3DGrad").Reference(AvgPool3DGrad);
  AddConvolutionCalls(suite);
  AddPoolCalls(suite);
  AddHostileConvolutions(suite);
  AddHostilePools(suite);
  AddHostileLayouts(suite);
}

}  // namespace weir::conformance
