// Neural network ops. Convolutions and pools are written once, as a walk over (image, output pixel, window
// pixel).
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/array.h"

namespace weir::reference {
namespace {

bool ChannelsFirst(const Call& call) { return call.text("data_format") == "NCHW"; }

// The index of a pixel's channel in either layout.
Index Pixel(bool channels_first, int64_t n, int64_t y, int64_t x, int64_t c) {
  return channels_first ? Index{n, c, y, x} : Index{n, y, x, c};
}

// One spatial dimension of a sliding window.
struct Window {
  int64_t input, size, stride, dilation, output, before;

  // The input pixel under window pixel k at output pixel o; outside [0, input) is padding.
  int64_t at(int64_t o, int64_t k) const { return o * stride + k * dilation - before; }
};

Window MakeWindow(const std::string& padding, int64_t input, int64_t size, int64_t stride, int64_t dilation,
                  int64_t explicit_before, int64_t explicit_after) {
  const int64_t reach = (size - 1) * dilation + 1;
  if (padding == "SAME") {
    const int64_t output = (input + stride - 1) / stride;
    const int64_t total = std::max<int64_t>(0, (output - 1) * stride + reach - input);
    return {input, size, stride, dilation, output, total / 2};
  }
  if (padding == "VALID") return {input, size, stride, dilation, (input - reach) / stride + 1, 0};
  return {
      input,          size, stride, dilation, (input + explicit_before + explicit_after - reach) / stride + 1,
      explicit_before};
}

struct Windows {
  Window y, x;
};

Windows WindowsOf(const Call& call, const Index& input, int64_t height, int64_t width,
                  const std::vector<int64_t>& dilations) {
  const int h = ChannelsFirst(call) ? 2 : 1;
  const std::vector<int64_t>& strides = call.integers("strides");
  std::vector<int64_t> pads(8, 0);
  if (call.node.FindAttr("explicit_paddings") != nullptr && !call.integers("explicit_paddings").empty()) {
    pads = call.integers("explicit_paddings");
  }
  const std::string& padding = call.text("padding");
  return {MakeWindow(padding, input[h], height, strides[h], dilations[h], pads[2 * h], pads[2 * h + 1]),
          MakeWindow(padding, input[h + 1], width, strides[h + 1], dilations[h + 1], pads[2 * h + 2],
                     pads[2 * h + 3])};
}

// Calls visit(oy, ox, ky, kx, iy, ix) for every window pixel that lies in the image.
void Slide(const Windows& windows,
           const std::function<void(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t)>& visit) {
  for (int64_t oy = 0; oy < windows.y.output; ++oy) {
    for (int64_t ox = 0; ox < windows.x.output; ++ox) {
      for (int64_t ky = 0; ky < windows.y.size; ++ky) {
        for (int64_t kx = 0; kx < windows.x.size; ++kx) {
          const int64_t iy = windows.y.at(oy, ky), ix = windows.x.at(ox, kx);
          if (iy >= 0 && iy < windows.y.input && ix >= 0 && ix < windows.x.input)
            visit(oy, ox, ky, kx, iy, ix);
        }
      }
    }
  }
}

// All three convolutions visit the same products input * filter -> output; they differ in which one is summed
// up.
void VisitConvolution(
    const Call& call, const Index& input, const Index& filter,
    const std::function<void(const Index& in, const Index& weight, const Index& out)>& visit) {
  const bool nchw = ChannelsFirst(call);
  const Windows windows = WindowsOf(call, input, filter[0], filter[1], call.integers("dilations"));
  const int64_t channels = input[nchw ? 1 : 3];
  const int64_t groups = channels / filter[2], per_group = filter[3] / groups;
  for (int64_t n = 0; n < input[0]; ++n) {
    Slide(windows, [&](int64_t oy, int64_t ox, int64_t ky, int64_t kx, int64_t iy, int64_t ix) {
      for (int64_t o = 0; o < filter[3]; ++o) {
        for (int64_t i = 0; i < filter[2]; ++i) {
          visit(Pixel(nchw, n, iy, ix, o / per_group * filter[2] + i), {ky, kx, i, o},
                Pixel(nchw, n, oy, ox, o));
        }
      }
    });
  }
}

void Conv2D(Call& call) {
  const Array &input = call.in(0), &filter = call.in(1);
  const Windows windows =
      WindowsOf(call, input.dims(), filter.dim(0), filter.dim(1), call.integers("dilations"));
  Array& out = call.outputs[0] =
      Array(Pixel(ChannelsFirst(call), input.dim(0), windows.y.output, windows.x.output, filter.dim(3)));
  VisitConvolution(call, input.dims(), filter.dims(),
                   [&](const Index& in, const Index& weight, const Index& o) {
                     out.at(o).number += input.at(in).number * filter.at(weight).number;
                   });
}

void Conv2DBackpropInput(Call& call) {
  Array& out = call.outputs[0] = Array(call.in(0).integers());
  VisitConvolution(call, out.dims(), call.in(1).dims(),
                   [&](const Index& in, const Index& weight, const Index& o) {
                     out.at(in).number += call.in(1).at(weight).number * call.in(2).at(o).number;
                   });
}

void Conv2DBackpropFilter(Call& call) {
  Array& out = call.outputs[0] = Array(call.in(1).integers());
  VisitConvolution(call, call.in(0).dims(), out.dims(),
                   [&](const Index& in, const Index& weight, const Index& o) {
                     out.at(weight).number += call.in(0).at(in).number * call.in(2).at(o).number;
                   });
}

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

void MaxPool(Call& call) {
  Array& out = call.outputs[0] =
      Array(PoolDims(call, call.in(0).dims()), Value(-std::numeric_limits<double>::infinity()));
  VisitPools(call, call.in(0).dims(), [&](const Index& in, const Index& o) {
    out.at(o) = std::max(out.at(o).real(), call.in(0).at(in).real());
  });
}

// The gradient goes to the first largest pixel of each pool, whatever orig_output says: it may have been fed.
void MaxPoolGrad(Call& call) {
  const Array &input = call.in(0), &grad = call.in(2);
  Array largest(grad.dims(), Value(-std::numeric_limits<double>::infinity())), taken(grad.dims());
  VisitPools(call, input.dims(), [&](const Index& in, const Index& o) {
    largest.at(o) = std::max(largest.at(o).real(), input.at(in).real());
  });
  call.outputs[0] = Array(input.dims());
  VisitPools(call, input.dims(), [&](const Index& in, const Index& o) {
    if (!taken.at(o).is_zero() || input.at(in).real() != largest.at(o).real()) return;
    taken.at(o) = 1.0;
    call.outputs[0].at(in).number += grad.at(o).number;
  });
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

int ChannelAxis(const Call& call, const Array& value) { return ChannelsFirst(call) ? 1 : value.rank() - 1; }

void BiasAdd(Call& call) {
  const Array& value = call.in(0);
  call.outputs[0] = value;
  for (int64_t i = 0; i < value.size(); ++i) {
    call.outputs[0][i].number += call.in(1)[value.IndexOf(i)[ChannelAxis(call, value)]].number;
  }
}

void BiasAddGrad(Call& call) {
  const Array& grad = call.in(0);
  call.outputs[0] = Array({grad.dim(ChannelAxis(call, grad))});
  for (int64_t i = 0; i < grad.size(); ++i) {
    call.outputs[0][grad.IndexOf(i)[ChannelAxis(call, grad)]].number += grad[i].number;
  }
}

// log(softmax) of row r of an array whose last dimension is a row.
std::vector<double> LogSoftmaxRow(const Array& logits, int64_t r) {
  const int64_t n = logits.dims().back();
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, logits[r * n + i].real());
  for (int64_t i = 0; i < n; ++i) sum += std::exp(logits[r * n + i].real() - largest);
  std::vector<double> row(n);
  for (int64_t i = 0; i < n; ++i) row[i] = logits[r * n + i].real() - largest - std::log(sum);
  return row;
}

Reference Softmax(bool log) {
  return [log](Call& call) {
    const Array& logits = call.in(0);
    const int64_t n = logits.dims().back();
    call.outputs[0] = Array(logits.dims());
    for (int64_t r = 0; r < logits.size() / n; ++r) {
      const std::vector<double> row = LogSoftmaxRow(logits, r);
      for (int64_t i = 0; i < n; ++i) call.outputs[0][r * n + i] = log ? row[i] : std::exp(row[i]);
    }
  };
}

// Labels as a distribution per row; both cross entropies are this one.
void CrossEntropy(Call& call, const Array& logits,
                  const std::function<double(int64_t row, int64_t i)>& label) {
  const int64_t rows = logits.dim(0), n = logits.dim(1);
  call.outputs[0] = Array({rows});
  call.outputs[1] = Array({rows, n});
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<double> row = LogSoftmaxRow(logits, r);
    for (int64_t i = 0; i < n; ++i) {
      call.outputs[0][r].number -= label(r, i) * row[i];
      call.outputs[1].at({r, i}) = std::exp(row[i]) - label(r, i);
    }
  }
}

void InTopK(Call& call) {
  const Array &predictions = call.in(0), &targets = call.in(1);
  call.outputs[0] = Array(targets.dims());
  for (int64_t r = 0; r < targets.size(); ++r) {
    int64_t better = 0;
    const double own = predictions.at({r, targets[r].integer()}).real();
    for (int64_t i = 0; i < predictions.dim(1); ++i) better += predictions.at({r, i}).real() > own ? 1 : 0;
    call.outputs[0][r] = better < call.in(2)[0].integer() ? 1.0 : 0.0;
  }
}

}  // namespace

void AddNnReferences(References& references) {
  references["Relu"] = [](Call& call) {
    call.outputs[0] = call.in(0);
    for (int64_t i = 0; i < call.in(0).size(); ++i) call.outputs[0][i] = std::max(0.0, call.in(0)[i].real());
  };
  references["ReluGrad"] = [](Call& call) {
    call.outputs[0] = call.in(0);
    for (int64_t i = 0; i < call.in(0).size(); ++i) {
      if (call.in(1)[i].real() <= 0) call.outputs[0][i] = 0.0;
    }
  };
  references["BiasAdd"] = BiasAdd;
  references["BiasAddGrad"] = BiasAddGrad;
  references["Softmax"] = Softmax(false);
  references["LogSoftmax"] = Softmax(true);
  references["SoftmaxCrossEntropyWithLogits"] = [](Call& call) {
    CrossEntropy(call, call.in(0), [&](int64_t r, int64_t i) { return call.in(1).at({r, i}).real(); });
  };
  references["SparseSoftmaxCrossEntropyWithLogits"] = [](Call& call) {
    CrossEntropy(call, call.in(0),
                 [&](int64_t r, int64_t i) { return call.in(1)[r].integer() == i ? 1.0 : 0.0; });
  };
  references["Conv2D"] = Conv2D;
  references["Conv2DBackpropInput"] = Conv2DBackpropInput;
  references["Conv2DBackpropFilter"] = Conv2DBackpropFilter;
  references["MaxPool"] = MaxPool;
  references["MaxPoolGrad"] = MaxPoolGrad;
  references["AvgPool"] = AvgPool;
  references["AvgPoolGrad"] = AvgPoolGrad;
  references["InTopKV2"] = InTopK;
}

}  // namespace weir::reference
