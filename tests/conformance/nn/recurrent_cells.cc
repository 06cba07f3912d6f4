// Cells of recurrent networks. References of gradients are the small differences of those of the cells.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/conformance/dtypes.h"
#include "tests/conformance/operands.h"
#include "tests/conformance/references.h"
#include "tests/conformance/suite.h"

namespace weir::conformance {
namespace {

using reference::Call;
using D = DType;
using Reals = std::vector<double>;

Reals RealsOf(const Array& array) {
  Reals reals;
  for (int64_t i = 0; i < array.size(); ++i) reals.push_back(array[i].real());
  return reals;
}

Array ArrayOf(Index dims, const Reals& reals) {
  Array array(std::move(dims));
  for (int64_t i = 0; i < array.size(); ++i) array[i] = reals[i];
  return array;
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The derivative of `value` by the number x, which is put back.
double Derivative(double& x, const std::function<double()>& value) {
  constexpr double kStep = 1e-5;
  const double at = x;
  x = at + kStep;
  const double above = value();
  x = at - kStep;
  const double below = value();
  x = at;
  return (above - below) / (2 * kStep);
}

Reals Derivatives(Reals& xs, const std::function<double()>& value) {
  Reals derivatives;
  for (double& x : xs) derivatives.push_back(Derivative(x, value));
  return derivatives;
}

// ---- Long short-term memory ----

struct Lstm {
  int64_t steps = 1, times = 1, batch = 0, inputs = 0, cells = 0;
  bool has_peepholes = false, is_second_version = false;
  double forget_bias = 0, clip = 0;
  Reals x, cs_prev, h_prev, w, wci, wcf, wco, b;
  Reals more_b;                  // [batch, 4 * cells], added to b
  Reals i, cs, f, o, ci, co, h;  // [times, batch, cells]

  void Run() {
    for (Reals* each : {&i, &cs, &f, &o, &ci, &co, &h}) each->assign(times * batch * cells, 0);
    for (int64_t t = 0; t < steps; ++t)
      for (int64_t n = 0; n < batch; ++n)
        for (int64_t c = 0; c < cells; ++c) Step(t, n, c);
  }

  double Gate(int64_t t, int64_t n, int64_t gate) const {
    double sum = b[gate] + (more_b.empty() ? 0 : more_b[n * 4 * cells + gate]);
    for (int64_t k = 0; k < inputs; ++k) sum += x[(t * batch + n) * inputs + k] * w[k * 4 * cells + gate];
    for (int64_t k = 0; k < cells; ++k) {
      const double before = t == 0 ? h_prev[n * cells + k] : h[((t - 1) * batch + n) * cells + k];
      sum += before * w[(inputs + k) * 4 * cells + gate];
    }
    return sum;
  }

  void Step(int64_t t, int64_t n, int64_t c) {
    const int64_t at = (t * batch + n) * cells + c;
    const double before = t == 0 ? cs_prev[n * cells + c] : cs[at - batch * cells];
    const int64_t of_cell = is_second_version ? 2 : 1, of_forget = is_second_version ? 1 : 2;
    const double peep = has_peepholes ? 1 : 0;
    i[at] = Sigmoid(Gate(t, n, c) + peep * before * wci[c]);
    ci[at] = std::tanh(Gate(t, n, of_cell * cells + c));
    f[at] = Sigmoid(Gate(t, n, of_forget * cells + c) + forget_bias + peep * before * wcf[c]);
    cs[at] = ci[at] * i[at] + before * f[at];
    if (clip > 0) cs[at] = std::clamp(cs[at], -clip, clip);
    o[at] = Sigmoid(Gate(t, n, 3 * cells + c) + peep * cs[at] * wco[c]);
    co[at] = std::tanh(cs[at]);
    h[at] = o[at] * co[at];
  }
};

// Of inputs x, cs_prev, h_prev, w, wci, wcf, wco and b from `first` on.
Lstm LstmOf(const std::vector<Array>& in, int first) {
  Lstm lstm;
  const Array& x = in[first];
  lstm.batch = x.dim(x.rank() - 2);
  lstm.inputs = x.dim(x.rank() - 1);
  lstm.cells = in[first + 1].dim(1);
  if (x.rank() == 3) {
    lstm.times = x.dim(0);
    lstm.steps = in[0][0].integer();
  }
  int next = first;
  for (Reals* each :
       {&lstm.x, &lstm.cs_prev, &lstm.h_prev, &lstm.w, &lstm.wci, &lstm.wcf, &lstm.wco, &lstm.b})
    *each = RealsOf(in[next++]);
  return lstm;
}

Lstm LstmOf(const Call& call, int first) {
  Lstm lstm = LstmOf(call.inputs, first);
  lstm.has_peepholes = call.flag("use_peephole");
  lstm.is_second_version = call.node.op_name().ends_with("V2");
  if (call.node.FindAttr("forget_bias") != nullptr) lstm.forget_bias = call.node.attr<float>("forget_bias");
  if (call.node.FindAttr("cell_clip") != nullptr) lstm.clip = call.node.attr<float>("cell_clip");
  return lstm;
}

std::vector<Array> StatesOf(const Lstm& lstm, const Index& dims) {
  std::vector<Array> states;
  for (const Reals* each : {&lstm.i, &lstm.cs, &lstm.f, &lstm.o, &lstm.ci, &lstm.co, &lstm.h})
    states.push_back(ArrayOf(dims, *each));
  return states;
}

void RunLstm(Call& call) {
  const bool is_block = call.inputs.size() == 9;
  Lstm lstm = LstmOf(call, is_block ? 1 : 0);
  lstm.Run();
  Index dims = {lstm.batch, lstm.cells};
  if (is_block) dims.insert(dims.begin(), lstm.times);
  call.outputs = StatesOf(lstm, dims);
}

// What cs and h are worth, weighted.
std::function<double()> WorthOf(Lstm& lstm, Reals of_cs, Reals of_h) {
  return [&lstm, of_cs = std::move(of_cs), of_h = std::move(of_h)] {
    lstm.Run();
    double sum = 0;
    for (int64_t k = 0; k < lstm.steps * lstm.batch * lstm.cells; ++k)
      sum += lstm.cs[k] * of_cs[k] + lstm.h[k] * of_h[k];
    return sum;
  };
}

constexpr float kForgetBias = 0.75;  // that the states of gradients' calls are made with

void LstmGradients(Call& call) {
  Lstm lstm = LstmOf(call, 0);
  lstm.forget_bias = kForgetBias;
  lstm.more_b.assign(lstm.batch * 4 * lstm.cells, 0);
  const auto worth = WorthOf(lstm, RealsOf(call.in(14)), RealsOf(call.in(15)));
  call.outputs = {ArrayOf({lstm.batch, lstm.cells}, Derivatives(lstm.cs_prev, worth)),
                  ArrayOf({lstm.batch, 4 * lstm.cells}, Derivatives(lstm.more_b, worth))};
  for (Reals* each : {&lstm.wci, &lstm.wcf, &lstm.wco})
    call.outputs.push_back(ArrayOf({lstm.cells}, Derivatives(*each, worth)));
}

void BlockLstmGradients(Call& call) {
  Lstm lstm = LstmOf(call, 1);
  lstm.forget_bias = lstm.is_second_version ? 0 : kForgetBias;
  const auto worth = WorthOf(lstm, RealsOf(call.in(16)), RealsOf(call.in(17)));
  int input = 1;
  call.outputs.clear();
  for (Reals* each :
       {&lstm.x, &lstm.cs_prev, &lstm.h_prev, &lstm.w, &lstm.wci, &lstm.wcf, &lstm.wco, &lstm.b})
    call.outputs.push_back(ArrayOf(call.in(input++).dims(), Derivatives(*each, worth)));
}

// x, cs_prev, h_prev, w, wci, wcf, wco and b.
std::vector<CaseInput> LstmInputs(D d, int64_t batch, int64_t inputs, int64_t cells, int64_t times = 0) {
  const Index x = times == 0 ? Index{batch, inputs} : Index{times, batch, inputs};
  return {Sample(d, x, -1, 1),
          Sample(d, {batch, cells}, -1, 1, 2),
          Sample(d, {batch, cells}, -1, 1, 3),
          Sample(d, {inputs + cells, 4 * cells}, -1, 1, 4),
          Sample(d, {cells}, -1, 1, 5),
          Sample(d, {cells}, -1, 1, 6),
          Sample(d, {cells}, -1, 1, 7),
          Sample(d, {4 * cells}, -1, 1, 8)};
}

std::vector<CaseInput> BlockInputs(D d, int64_t steps, int64_t times) {
  std::vector<CaseInput> inputs = LstmInputs(d, 2, 3, 2, times);
  inputs.insert(inputs.begin(), Make(D::kInt64, {}, {static_cast<double>(steps)}));
  return inputs;
}

// The inputs, the states that they make, and gradients of cs and h.
std::vector<CaseInput> GradientInputs(D d, std::vector<CaseInput> inputs, bool has_peepholes,
                                      bool is_second_version) {
  std::vector<Array> arrays;
  for (const CaseInput& input : inputs) arrays.push_back(Array::FromTensor(input.tensors[0]));
  const bool is_block = inputs.size() == 9;
  Lstm lstm = LstmOf(arrays, is_block ? 1 : 0);
  lstm.has_peepholes = has_peepholes;
  lstm.is_second_version = is_second_version;
  lstm.forget_bias = is_second_version ? 0 : kForgetBias;
  lstm.Run();
  Index dims = {lstm.batch, lstm.cells};
  if (is_block) dims.insert(dims.begin(), lstm.times);
  std::vector<Array> states = StatesOf(lstm, dims);
  if (!is_block) states.pop_back();
  for (const Array& state : states) inputs.emplace_back(state.ToTensor(d));
  for (const int seed : {11, 12}) inputs.emplace_back(Sample(d, dims, -1, 1, seed));
  return inputs;
}

double ToleranceOf(D d) { return d == D::kHalf ? 2e-2 : 2e-5; }

std::vector<CaseInput> With(std::vector<CaseInput> inputs, int index, Tensor other) {
  inputs[index] = CaseInput(std::move(other));
  return inputs;
}

// `inputs` are good ones of a 16-bit or 32-bit float, x the first of them.
void AddHostileLstm(OpRecord& record, const std::vector<CaseInput>& inputs, int first, const AttrMap& attrs) {
  const bool is_block = first == 1;
  record.Hostile(With(inputs, first, Floats({3})),
                 is_block ? "x must be rank 3, is [3]" : "x must be rank 2, is [3]", attrs);
  record.Hostile(With(inputs, first + 1, Floats({3, 2})), "batch_size", attrs);
  record.Hostile(With(inputs, first + 2, Floats({2, 3})), "h_prev.dims(1) != cell_size: 3 vs. 2", attrs);
  record.Hostile(With(inputs, first + 2, Floats({2})), "h_prev must", attrs);
  record.Hostile(With(inputs, first + 3, Floats({4, 8})), "w.dim_size(0) != input_size + cell_size: 4 vs. 5",
                 attrs);
  record.Hostile(With(inputs, first + 3, Floats({5, 7})), "w.dim_size(1) != cell_size * 4: 7 vs. 8", attrs);
  record.Hostile(With(inputs, first + 7, Floats({7})), "b.dim_size(0) != cell_size * 4: 7 vs. 8", attrs);
  record.Hostile(With(inputs, first + 4, Floats({2, 1})), "wci must", attrs);
  AttrMap with_peepholes = attrs;
  with_peepholes["use_peephole"] = true;
  record.Hostile(With(inputs, first + 6, Floats({3})), "wco.dim_size(0) != cell_size: 3 vs. 2",
                 with_peepholes);
  if (!is_block) return;
  for (const int64_t steps : {int64_t{-1}, int64_t{5}, kLongest, kShortest})
    record.Hostile(With(inputs, 0, Longs({steps}).WithShape(Shape())), "seq_len_max must be in [0, 4]",
                   attrs);
}

void AddLstm(Suite& suite) {
  OpRecord& record = suite.Op("LSTMBlockCell").Reference(RunLstm).NoGradient();
  OpRecord& gradient = suite.Op("LSTMBlockCellGrad").Reference(LstmGradients).NoGradient();
  for (const D d : {D::kFloat32, D::kHalf}) {
    for (const bool peepholes : {false, true}) {
      record.Tolerance(ToleranceOf(d));
      gradient.Tolerance(2 * ToleranceOf(d));
      const AttrMap attrs = {{"use_peephole", peepholes}};
      record.Call(LstmInputs(d, 2, 3, 2), attrs).Call(LstmInputs(d, 1, 1, 5), attrs);
      record.Call(LstmInputs(d, 3, 2, 4),
                  {{"use_peephole", peepholes}, {"cell_clip", 0.25f}, {"forget_bias", -0.5f}});
      gradient.Call(GradientInputs(d, LstmInputs(d, 2, 3, 2), peepholes, false), attrs);
    }
  }
  AddHostileLstm(record, LstmInputs(D::kFloat32, 2, 3, 2), 0, {});
  const AttrMap attrs = {{"use_peephole", false}};
  const auto good = GradientInputs(D::kFloat32, LstmInputs(D::kFloat32, 2, 3, 2), false, false);
  AddHostileLstm(gradient, good, 0, attrs);
  for (const int input : {8, 9, 13, 14, 15})
    gradient.Hostile(With(good, input, Floats({2, 3})), "must be [2,2], is [2,3]", attrs);
}

void AddBlockLstm(Suite& suite, const std::string& version) {
  const bool is_second = version == "V2";
  OpRecord& record = suite.Op("BlockLSTM" + version).Reference(RunLstm).NoGradient();
  OpRecord& gradient = suite.Op("BlockLSTMGrad" + version).Reference(BlockLstmGradients).NoGradient();
  for (const D d : {D::kFloat32, D::kHalf}) {
    for (const bool peepholes : {false, true}) {
      record.Tolerance(ToleranceOf(d));
      gradient.Tolerance(2 * ToleranceOf(d));
      const AttrMap attrs = {{"use_peephole", peepholes}};
      record.Call(BlockInputs(d, 4, 4), attrs).Call(BlockInputs(d, 2, 4), attrs);
      record.Call(BlockInputs(d, 1, 1), {{"use_peephole", peepholes}, {"cell_clip", 0.25f}});
      for (const int64_t steps : {4, 2}) {
        gradient.Call(GradientInputs(d, BlockInputs(d, steps, 4), peepholes, is_second), attrs);
      }
    }
  }
  record.Call(BlockInputs(D::kFloat32, 0, 3));
  AddHostileLstm(record, BlockInputs(D::kFloat32, 4, 4), 1, {});
  const AttrMap attrs = {{"use_peephole", false}};
  const auto good = GradientInputs(D::kFloat32, BlockInputs(D::kFloat32, 4, 4), false, is_second);
  AddHostileLstm(gradient, good, 1, attrs);
  for (const int input : {9, 15, 16, 17})
    gradient.Hostile(With(good, input, Floats({4, 2, 3})), "must be [4,2,2], is [4,2,3]", attrs);
}

// ---- Gated recurrent unit ----

struct Gru {
  int64_t batch = 0, inputs = 0, cells = 0;
  Reals x, h_prev, w_ru, w_c, b_ru, b_c;
  Reals more_ru, more_c;  // [batch, 2 * cells] and [batch, cells], added to b
  Reals r, u, c, h;

  double Sum(const Reals& w, int64_t n, int64_t row, int64_t column, const Reals* factors) const {
    double sum = 0;
    for (int64_t k = 0; k < inputs; ++k) sum += x[n * inputs + k] * w[k * row + column];
    for (int64_t k = 0; k < cells; ++k) {
      sum += h_prev[n * cells + k] * (factors == nullptr ? 1 : (*factors)[n * cells + k]) *
             w[(inputs + k) * row + column];
    }
    return sum;
  }

  void Run() {
    for (Reals* each : {&r, &u, &c, &h}) each->assign(batch * cells, 0);
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t k = 0; k < cells; ++k) {
        const int64_t at = n * cells + k, gate = 2 * n * cells + k;
        r[at] = Sigmoid(Sum(w_ru, n, 2 * cells, k, nullptr) + b_ru[k] + more_ru[gate]);
        u[at] =
            Sigmoid(Sum(w_ru, n, 2 * cells, cells + k, nullptr) + b_ru[cells + k] + more_ru[gate + cells]);
      }
      for (int64_t k = 0; k < cells; ++k) {
        const int64_t at = n * cells + k;
        c[at] = std::tanh(Sum(w_c, n, cells, k, &r) + b_c[k] + more_c[at]);
        h[at] = u[at] * h_prev[at] + (1 - u[at]) * c[at];
      }
    }
  }
};

Gru GruOf(const std::vector<Array>& in) {
  Gru gru;
  gru.batch = in[0].dim(0);
  gru.inputs = in[0].dim(1);
  gru.cells = in[1].dim(1);
  int next = 0;
  for (Reals* each : {&gru.x, &gru.h_prev, &gru.w_ru, &gru.w_c, &gru.b_ru, &gru.b_c})
    *each = RealsOf(in[next++]);
  gru.more_ru.assign(gru.batch * 2 * gru.cells, 0);
  gru.more_c.assign(gru.batch * gru.cells, 0);
  gru.Run();
  return gru;
}

void RunGru(Call& call) {
  const Gru gru = GruOf(call.inputs);
  call.outputs.clear();
  for (const Reals* each : {&gru.r, &gru.u, &gru.c, &gru.h})
    call.outputs.push_back(ArrayOf({gru.batch, gru.cells}, *each));
}

void GruGradients(Call& call) {
  Gru gru = GruOf(call.inputs);
  const Reals of_h = RealsOf(call.in(9));
  const auto worth = [&] {
    gru.Run();
    double sum = 0;
    for (size_t i = 0; i < of_h.size(); ++i) sum += gru.h[i] * of_h[i];
    return sum;
  };
  call.outputs = {ArrayOf({gru.batch, gru.inputs}, Derivatives(gru.x, worth)),
                  ArrayOf({gru.batch, gru.cells}, Derivatives(gru.h_prev, worth)),
                  ArrayOf({gru.batch, gru.cells}, Derivatives(gru.more_c, worth)),
                  ArrayOf({gru.batch, 2 * gru.cells}, Derivatives(gru.more_ru, worth))};
}

std::vector<CaseInput> GruInputs(int64_t batch, int64_t inputs, int64_t cells) {
  const D d = D::kFloat32;
  return {Sample(d, {batch, inputs}, -1, 1),
          Sample(d, {batch, cells}, -1, 1, 2),
          Sample(d, {inputs + cells, 2 * cells}, -1, 1, 3),
          Sample(d, {inputs + cells, cells}, -1, 1, 4),
          Sample(d, {2 * cells}, -1, 1, 5),
          Sample(d, {cells}, -1, 1, 6)};
}

std::vector<CaseInput> GruGradientInputs(int64_t batch, int64_t inputs, int64_t cells) {
  std::vector<CaseInput> all = GruInputs(batch, inputs, cells);
  std::vector<Array> arrays;
  for (const CaseInput& input : all) arrays.push_back(Array::FromTensor(input.tensors[0]));
  const Gru gru = GruOf(arrays);
  for (const Reals* each : {&gru.r, &gru.u, &gru.c})
    all.emplace_back(ArrayOf({batch, cells}, *each).ToTensor(D::kFloat32));
  all.emplace_back(Floats({batch, cells}, 9));
  return all;
}

void AddGru(Suite& suite) {
  OpRecord& record = suite.Op("GRUBlockCell").Reference(RunGru).NoGradient().Tolerance(2e-5);
  OpRecord& gradient = suite.Op("GRUBlockCellGrad").Reference(GruGradients).NoGradient().Tolerance(2e-5);
  record.Call(GruInputs(2, 3, 2)).Call(GruInputs(1, 1, 5)).Call(GruInputs(3, 5, 1));
  gradient.Call(GruGradientInputs(2, 3, 2)).Call(GruGradientInputs(1, 1, 5)).Call(GruGradientInputs(3, 5, 1));
  for (OpRecord* each : {&record, &gradient}) {
    const auto good = each == &record ? GruInputs(2, 3, 2) : GruGradientInputs(2, 3, 2);
    each->Hostile(With(good, 0, Floats({2})), "x and h_prev must be matrices");
    each->Hostile(With(good, 1, Floats({3, 2})), "h_prev must be [2,2], is [3,2]");
    each->Hostile(With(good, 2, Floats({5, 3})), "w_ru must be [5,4], is [5,3]");
    each->Hostile(With(good, 3, Floats({4, 2})), "w_c must be [5,2], is [4,2]");
    each->Hostile(With(good, 4, Floats({3})), "b_ru must be [4], is [3]");
    each->Hostile(With(good, 5, Floats({2, 1})), "b_c must be [2], is [2,1]");
  }
  gradient.Hostile(With(GruGradientInputs(2, 3, 2), 7, Floats({2, 3})), "u must be [2,2], is [2,3]");
}

}  // namespace

void AddRecurrentCellsRecords(Suite& suite) {
  AddLstm(suite);
  AddBlockLstm(suite, "");
  AddBlockLstm(suite, "V2");
  AddGru(suite);
}

}  // namespace weir::conformance
