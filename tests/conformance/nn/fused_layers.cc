// What fusion makes (graph/fused_ops.h): the definitions of the single ops, one after another.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using Dims = std::vector<int64_t>;

const std::vector<DType> kFused = {D::kFloat32, D::kHalf, D::kBfloat16};

// The definition that another record has.
void Evaluate(const char* op, Call& call) { Suite::Whole().Find(op)->reference()(call); }

double Activated(const Call& call, const std::string& op, double x) {
  if (op == "Relu") return x < 0 ? 0 : x;
  if (op == "Relu6") return x < 0 ? 0 : x > 6 ? 6 : x;
  if (op == "Elu") return x < 0 ? std::expm1(x) : x;
  if (op == "LeakyRelu") return x > 0 ? x : x * call.node.attr<float>("leakyrelu_alpha");
  if (op == "Tanh") return std::tanh(x);
  return 1 / (1 + std::exp(-x));  // Sigmoid
}

// The bias, input 2, belongs to dimension `channel` of the output.
void AddBiasAndActivate(Call& call, int channel) {
  const auto& ops = call.node.attr<std::vector<std::string>>("fused_ops");
  Array& out = call.outputs[0];
  for (int64_t i = 0; i < out.size(); ++i) {
    double x = out[i].real() + call.in(2)[out.IndexOf(i)[channel]].real();
    if (ops.size() == 2) x = Activated(call, ops[1], x);
    out[i] = x;
  }
}

void FusedMatMul(Call& call) {
  Evaluate("MatMul", call);
  AddBiasAndActivate(call, 1);
}

void FusedConv2D(Call& call) {
  Evaluate("Conv2D", call);
  AddBiasAndActivate(call, call.text("data_format") == "NCHW" ? 1 : 3);
}

void FusedBatchNorm(Call& call) {
  Evaluate("FusedBatchNormV3", call);
  Array& y = call.outputs[0];
  for (int64_t i = 0; i < y.size(); ++i) {
    double value = y[i].real();
    if (call.inputs.size() == 6) value += call.in(5)[i].real();
    y[i] = call.text("activation_mode") == "Relu" && value < 0 ? 0 : value;
  }
}

// ReluGrad before FusedBatchNormGrad.
void FusedBatchNormGrad(Call& call) {
  for (int64_t i = 0; i < call.inputs[0].size(); ++i) {
    call.inputs[0][i] = call.in(0)[i].real() * (call.in(7)[i].real() > 0 ? 1 : 0);
  }
  if (call.outputs.size() == 6) call.outputs[5] = call.in(0);
  Evaluate("FusedBatchNormGradV3", call);
}

double ToleranceOf(DType d) { return d == D::kFloat32 ? 2e-5 : d == D::kHalf ? 1e-2 : 6e-2; }

void AddMatMul(Suite& suite) {
  OpRecord& record = suite.Op("_FusedMatMul").Reference(FusedMatMul);
  const auto add = [&](DType d, const Dims& a, const Dims& b, AttrMap attrs) {
    const int64_t n = b[attrs.find("transpose_b") != attrs.end() ? 0 : 1];
    record.Call({.attrs = std::move(attrs),
                 .inputs = {Sample(d, a, -1, 1, 1), Sample(d, b, -1, 1, 2),
                            std::vector<Tensor>{Sample(d, {n}, -1, 1, 3)}},
                 .tolerance = ToleranceOf(d)});
  };
  using Ops = std::vector<std::string>;
  for (DType d : kFused) {
    for (const char* activation : {"Relu", "Relu6", "Elu", "LeakyRelu", "Tanh", "Sigmoid"}) {
      add(d, {3, 5}, {5, 4}, {{"fused_ops", Ops{"BiasAdd", activation}}});
    }
    add(d, {3, 5}, {5, 4}, {{"fused_ops", Ops{"BiasAdd"}}});
    add(d, {5, 3}, {5, 4}, {{"fused_ops", Ops{"BiasAdd", "Relu"}}, {"transpose_a", true}});
    add(d, {3, 5}, {4, 5}, {{"fused_ops", Ops{"BiasAdd", "Relu"}}, {"transpose_b", true}});
    add(d, {3, 0}, {0, 4}, {{"fused_ops", Ops{"BiasAdd", "Relu"}}});
    add(d, {0, 5}, {5, 4}, {{"fused_ops", Ops{"BiasAdd", "Relu"}}});
    add(d, {2, 3}, {3, 4500}, {{"fused_ops", Ops{"BiasAdd", "Relu"}}});
  }
  const auto f = [](Dims dims) { return Sample(D::kFloat32, std::move(dims)); };
  const auto list = [](Tensor tensor) { return std::vector<Tensor>{std::move(tensor)}; };
  const AttrMap bias = {{"fused_ops", Ops{"BiasAdd"}}};
  const auto code = absl::StatusCode::kUnimplemented;
  record.Hostile({f({2, 3}), f({2, 3}), list(f({3}))}, "inner dimensions differ", bias)
      .Hostile({f({3}), f({3, 3}), list(f({3}))}, "must be matrices", bias)
      .Hostile({f({2, 3}), f({3, 4}), list(f({3}))}, "the bias must be [4]", bias)
      .Hostile({f({2, 3}), f({3, 4}), list(f({}))}, "the bias must be [4]", bias)
      .Hostile({f({2, 3}), f({3, 4}), std::vector<Tensor>{f({4}), f({4})}}, "needs one argument", bias, code)
      .Hostile({f({2, 3}), f({3, 4}), list(f({4}))}, "needs one argument", {{"fused_ops", Ops{}}}, code)
      .Hostile({f({2, 3}), f({3, 4}), list(f({4}))}, "'Erf' cannot follow",
               {{"fused_ops", Ops{"BiasAdd", "Erf"}}}, code);
}

void AddConvolution(Suite& suite) {
  // Its shape function knows nothing: those of convolutions are in ops/, which graph/ does not see.
  OpRecord& record = suite.Op("_FusedConv2D").Reference(FusedConv2D).ShapeDependsOnValues();
  const auto attrs = [](Dims strides, const char* padding, const char* format,
                        std::vector<std::string> fused_ops) {
    return AttrMap{{"strides", std::move(strides)},
                   {"padding", padding},
                   {"data_format", format},
                   {"num_args", 1},
                   {"fused_ops", std::move(fused_ops)}};
  };
  const auto inputs = [](DType d, const Dims& image, const Dims& filter, int64_t channels) {
    return std::vector<CaseInput>{Sample(d, image, -1, 1, 1), Sample(d, filter, -1, 1, 2),
                                  std::vector<Tensor>{Sample(d, {channels}, -1, 1, 3)},
                                  std::vector<Tensor>()};
  };
  for (DType d : kFused) {
    const auto add = [&](const Dims& image, const Dims& filter, AttrMap of_call) {
      record.Call({.attrs = std::move(of_call),
                   .inputs = inputs(d, image, filter, filter[3]),
                   .tolerance = ToleranceOf(d)});
    };
    add({2, 5, 6, 3}, {3, 3, 3, 4}, attrs({1, 1, 1, 1}, "SAME", "NHWC", {"BiasAdd", "Relu"}));
    add({2, 5, 6, 3}, {3, 2, 3, 4}, attrs({1, 2, 2, 1}, "VALID", "NHWC", {"BiasAdd"}));
    add({2, 3, 5, 6}, {3, 3, 3, 4}, attrs({1, 1, 1, 1}, "SAME", "NCHW", {"BiasAdd", "Relu"}));
    add({0, 5, 6, 3}, {3, 3, 3, 4}, attrs({1, 1, 1, 1}, "SAME", "NHWC", {"BiasAdd"}));
    // One row, too little for its window with dilations: oneDNN does not do it.
    AttrMap dilated = attrs({1, 1, 1, 1}, "SAME", "NHWC", {"BiasAdd", "Relu"});
    dilated["dilations"] = Dims{1, 70, 1, 1};
    add({1, 1, 4, 2}, {3, 1, 2, 3}, dilated);
  }
  const AttrMap good = attrs({1, 1, 1, 1}, "SAME", "NHWC", {"BiasAdd"});
  const D f = D::kFloat32;
  const auto code = absl::StatusCode::kUnimplemented;
  const auto with = [](AttrMap map, const char* name, AttrValue value) {
    map[name] = std::move(value);
    return map;
  };
  record.Hostile(inputs(f, {1, 4, 4, 3}, {3, 3, 2, 1}, 1), "channels do not fit", good)
      .Hostile(inputs(f, {1, 4, 4}, {3, 3, 3, 3}, 3), "4 dimensions", good)
      .Hostile(inputs(f, {1, 4, 4, 3}, {3, 3, 3, 2}, 3), "the bias must be [2]", good)
      .Hostile(inputs(f, {1, 4, 4, 3}, {3, 3, 3, 2}, 2), "needs one argument",
               attrs({1, 1, 1, 1}, "SAME", "NHWC", {"BiasAdd", "Elu"}), code)
      .Hostile(inputs(f, {1, 4, 4, 3}, {3, 3, 3, 2}, 2), "needs one argument", with(good, "num_args", 2),
               code)
      .Hostile(inputs(f, {1, 4, 4, 3}, {3, 3, 3, 2}, 2), "reads filters as HWIO",
               with(good, "filter_format", "OIHW"), code)
      .NoKernelFor("T", {D::kFloat64}, "fusion is for the types that layers compute in");
}

// Offset, mean or the like: one for each channel.
Tensor PerChannel(int64_t channels, double low, double high, int seed) {
  return Sample(D::kFloat32, {channels}, low, high, seed);
}

void AddBatchNorm(Suite& suite) {
  OpRecord& forward = suite.Op("_FusedBatchNormEx").Reference(FusedBatchNorm);
  OpRecord& backward = suite.Op("_FusedBatchNormGradEx").Reference(FusedBatchNormGrad);
  // A gradient that is no number shows, also where the unit is off.
  for (const char* format : {"NHWC", "NCHW"}) {
    const Dims dims = format[1] == 'H' ? Dims{1, 8, 2, 16} : Dims{1, 16, 8, 2};
    std::vector<double> dy(256, 1.0), y(256, 1.0);
    dy[3] = std::numeric_limits<double>::infinity();
    y[3] = -1;
    for (const bool is_training : {true, false}) {
      backward.Call(
          {.attrs = {{"data_format", format},
                     {"is_training", is_training},
                     {"activation_mode", "Relu"},
                     {"num_side_inputs", int64_t{1}}},
           .inputs = {Make(D::kFloat32, dims, dy), Sample(D::kFloat32, dims, -1, 3),
                      PerChannel(16, 0.5, 2, 2), PerChannel(16, 0, 1, 4), PerChannel(16, 1, 2, 5),
                      Make(D::kFloat32, {}, {0}), PerChannel(16, -1, 1, 3), Make(D::kFloat32, dims, y)},
           .check_gradient = false,
           .tolerance = ToleranceOf(D::kFloat32)});
    }
  }
  const auto attrs_of = [](const char* format, bool is_training) {
    return AttrMap{{"data_format", format}, {"is_training", is_training}, {"activation_mode", "Relu"}};
  };
  struct Image {
    Dims dims;
    int64_t channels;
    const char* format;
  };
  for (DType d : kFused) {
    for (const Image& image : {Image{{2, 5, 3, 20}, 20, "NHWC"}, Image{{3, 8, 9, 9}, 8, "NCHW"}}) {
      const int64_t c = image.channels;
      for (const bool is_training : {true, false}) {
        for (const bool has_side : {true, false}) {
          std::vector<Tensor> side;
          if (has_side) side.push_back(Sample(d, image.dims, -1, 1, 6));
          forward.Call(
              {.attrs = attrs_of(image.format, is_training),
               .inputs = {Sample(d, image.dims, -1, 3), PerChannel(c, 0.5, 2, 2), PerChannel(c, -1, 1, 3),
                          PerChannel(c, 0, 1, 4), PerChannel(c, 1, 2, 5), side},
               .tolerance = ToleranceOf(d)});
          AttrMap attrs = attrs_of(image.format, is_training);
          attrs["num_side_inputs"] = has_side ? 1 : 0;
          backward.Call({.attrs = std::move(attrs),
                         .inputs = {Sample(d, image.dims, -1, 1, 6), Sample(d, image.dims, -1, 3),
                                    PerChannel(c, 0.5, 2, 2), PerChannel(c, 0, 1, 4), PerChannel(c, 1, 2, 5),
                                    Make(D::kFloat32, {}, {0}), PerChannel(c, -1, 1, 3),
                                    Sample(d, image.dims, -1, 1, 7)},
                         .tolerance = ToleranceOf(d)});
        }
      }
    }
  }
  const auto f = [](Dims dims) { return Sample(D::kFloat32, std::move(dims), 1, 2); };
  const Tensor x = f({2, 3, 3, 4}), v = f({4});
  const auto code = absl::StatusCode::kUnimplemented;
  using List = std::vector<Tensor>;
  const AttrMap relu = attrs_of("NHWC", true);
  forward.Hostile({x, f({3}), v, v, v, List{}}, "scale must", relu)
      .Hostile({x, v, v, v, v, List{f({2, 3, 3, 5})}}, "side_input is [2,3,3,5]", relu)
      .Hostile({x, v, v, v, v, List{x, x}}, "at most one side input", relu, code)
      .Hostile({x, v, v, v, v, List{}}, "activations Identity and Relu", {{"activation_mode", "Elu"}}, code);
  backward.Hostile({x, x, v, v, v, f({}), v, f({2, 3, 3, 5})}, "y is [2,3,3,5]", relu)
      .Hostile({f({2, 3, 3, 5}), x, v, v, v, f({}), v, x}, "y_backprop is [2,3,3,5]", relu)
      .Hostile({x, x, v, v, v, f({}), v, x}, "needs the activation Relu", {}, code);
}

}  // namespace

void AddFusedLayersRecords(Suite& suite) {
  AddMatMul(suite);
  AddConvolution(suite);
  AddBatchNorm(suite);
}

}  // namespace weir::conformance
