// LSTMBlockCell and BlockLSTM, of one time and of many, and their gradients.
//
// Hochreiter and Schmidhuber, "Long Short-Term Memory" (1997); forget gates: Gers, Schmidhuber and Cummins
// (1999); peepholes, by which gates see the cell's state: Gers, Schraudolph and Schmidhuber (2002). Of inputs
// x and what came out before, h:
//   i, f, o = sigmoid([x h] w + b + peepholes), ci = tanh([x h] w + b), cs = ci i + cs_prev f,
//   co = tanh(cs), h = co o.
// 16-bit numbers are computed in single precision.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 40;  // nanoseconds of a cell on one core: five exponentials

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// How many, and in which quarter of a row of gates each gate is: input, cell, forget, output, or in the
// second version input, forget, cell, output.
struct Cells {
  int64_t batch, inputs, cells;
  int64_t cell_quarter, forget_quarter;
  bool has_peepholes;

  int64_t row() const { return inputs + cells; }
  double cost() const { return kCost * static_cast<double>(cells); }
};

struct Weights {
  const float *w, *wci, *wcf, *wco, *b;
};

// What comes out of a time, [batch, cells] each.
template <typename Pointer>
struct States {
  Pointer i, cs, f, o, ci, co, h;
  States At(int64_t offset) const {
    return {i + offset, cs + offset, f + offset, o + offset, ci + offset, co + offset, h + offset};
  }
};

// xh [batch, inputs + cells]: inputs and what came out before, side by side.
void Join(const Cells& cells, const float* x, const float* h_prev, float* xh) {
  for (int64_t b = 0; b < cells.batch; ++b) {
    std::copy_n(x + b * cells.inputs, cells.inputs, xh + b * cells.row());
    std::copy_n(h_prev + b * cells.cells, cells.cells, xh + b * cells.row() + cells.inputs);
  }
}

struct ForwardOptions {
  float forget_bias, cell_clip;
};

// One time. `room` is [batch, inputs + cells + 4 * cells].
absl::Status Forward(ThreadPool& threads, const Cells& cells, const ForwardOptions& options, const float* x,
                     const float* cs_prev, const float* h_prev, const Weights& weights, float* room,
                     const States<float*>& out) {
  float *const xh = room, *const gates = room + cells.batch * cells.row();
  Join(cells, x, h_prev, xh);
  const int64_t n = cells.cells;
  WEIR_RETURN_IF_ERROR(
      MultiplyFloat(threads, {.m = cells.batch, .k = cells.row(), .n = 4 * n}, xh, weights.w, gates));
  threads.ParallelFor(cells.batch, cells.cost(), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * n; at < end * n; ++at) {
      const int64_t c = at % n;
      const float* const row = gates + at / n * 4 * n;
      const auto gate = [&](int64_t quarter) { return row[quarter * n + c] + weights.b[quarter * n + c]; };
      const auto peep = [&](const float* peephole, float state) {
        return cells.has_peepholes ? state * peephole[c] : 0;
      };
      out.i[at] = Sigmoid(gate(0) + peep(weights.wci, cs_prev[at]));
      out.ci[at] = std::tanh(gate(cells.cell_quarter));
      out.f[at] = Sigmoid(gate(cells.forget_quarter) + options.forget_bias + peep(weights.wcf, cs_prev[at]));
      float cs = out.ci[at] * out.i[at] + cs_prev[at] * out.f[at];
      if (options.cell_clip > 0) cs = std::min(std::max(cs, -options.cell_clip), options.cell_clip);
      out.cs[at] = cs;
      out.o[at] = Sigmoid(gate(3) + peep(weights.wco, cs));
      out.co[at] = std::tanh(cs);
      out.h[at] = out.o[at] * out.co[at];
    }
  });
  return absl::OkStatus();
}

// One time, backwards: gradients of gates [batch, 4 * cells] and of the state before, and, added up, those of
// the peepholes. cs_prev_grad may be cs_grad.
void Backward(ThreadPool& threads, const Cells& cells, const float* cs_prev, const Weights& weights,
              const States<const float*>& states, const float* cs_grad, const float* h_grad, float* gates,
              float* cs_prev_grad, const std::array<float*, 3>& peephole_grads) {
  const int64_t n = cells.cells;
  threads.ParallelFor(cells.batch, cells.cost() / 4, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin * n; at < end * n; ++at) {
      const int64_t c = at % n;
      float* const row = gates + at / n * 4 * n + c;
      const float i = states.i[at], f = states.f[at], o = states.o[at];
      const float ci = states.ci[at], co = states.co[at];
      const float d_o = o * (1 - o) * h_grad[at] * co;
      float dcs = (1 - co * co) * h_grad[at] * o + cs_grad[at];
      if (cells.has_peepholes) dcs += d_o * weights.wco[c];
      const float di = i * (1 - i) * dcs * ci, df = f * (1 - f) * dcs * cs_prev[at];
      row[0] = di;
      row[cells.cell_quarter * n] = (1 - ci * ci) * dcs * i;
      row[cells.forget_quarter * n] = df;
      row[3 * n] = d_o;
      cs_prev_grad[at] = dcs * f;
      if (cells.has_peepholes) cs_prev_grad[at] += di * weights.wci[c] + df * weights.wcf[c];
    }
  });
  for (int64_t at = 0; cells.has_peepholes && at < cells.batch * n; ++at) {
    const int64_t c = at % n;
    const float* const row = gates + at / n * 4 * n + c;
    peephole_grads[0][c] += row[0] * cs_prev[at];
    peephole_grads[1][c] += row[cells.forget_quarter * n] * cs_prev[at];
    peephole_grads[2][c] += row[3 * n] * states.cs[at];
  }
}

// ---- Inputs ----

absl::Status CheckSize(absl::string_view what, int64_t found, absl::string_view wanted_name, int64_t wanted) {
  if (found == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " != ", wanted_name, ": ", found, " vs. ", wanted));
}

absl::Status CheckRank(absl::string_view name, const Tensor& tensor, int rank) {
  if (tensor.shape().rank() == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be rank ", rank, ", is ", tensor.shape().ToString()));
}

absl::Status CheckSameShape(absl::string_view name, const Tensor& tensor, const Shape& shape) {
  if (tensor.shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be ", shape.ToString(), ", is ", tensor.shape().ToString()));
}

// Of inputs x, cs_prev, h_prev, w, wci, wcf, wco and b from `first` on. The last two dimensions of x count.
absl::StatusOr<Cells> ReadCells(const KernelContext& context, int first, int rank, bool has_peepholes,
                                bool is_second_version) {
  const Tensor &x = context.input(first), &cs_prev = context.input(first + 1),
               &h_prev = context.input(first + 2), &w = context.input(first + 3),
               &b = context.input(first + 7);
  WEIR_RETURN_IF_ERROR(CheckRank("x", x, rank));
  WEIR_RETURN_IF_ERROR(CheckRank("cs_prev", cs_prev, 2));
  WEIR_RETURN_IF_ERROR(CheckRank("h_prev", h_prev, 2));
  WEIR_RETURN_IF_ERROR(CheckRank("w", w, 2));
  WEIR_RETURN_IF_ERROR(CheckRank("b", b, 1));
  const int64_t batch = x.shape().dim(rank - 2), inputs = x.shape().dim(rank - 1),
                cells = cs_prev.shape().dim(1);
  // Sums and products of these are dimensions too.
  constexpr int64_t kMost = int64_t{1} << 40;
  if (inputs > kMost || cells > kMost) {
    return absl::InvalidArgumentError(absl::StrCat("too many cells: x is ", x.shape().ToString(),
                                                   ", cs_prev ", cs_prev.shape().ToString()));
  }
  WEIR_RETURN_IF_ERROR(CheckSize("cs_prev.dims(0)", cs_prev.shape().dim(0), "batch_size", batch));
  WEIR_RETURN_IF_ERROR(CheckSize("h_prev.dims(0)", h_prev.shape().dim(0), "batch_size", batch));
  WEIR_RETURN_IF_ERROR(CheckSize("h_prev.dims(1)", h_prev.shape().dim(1), "cell_size", cells));
  WEIR_RETURN_IF_ERROR(
      CheckSize("w.dim_size(0)", w.shape().dim(0), "input_size + cell_size", inputs + cells));
  WEIR_RETURN_IF_ERROR(CheckSize("w.dim_size(1)", w.shape().dim(1), "cell_size * 4", 4 * cells));
  WEIR_RETURN_IF_ERROR(CheckSize("b.dim_size(0)", b.shape().dim(0), "cell_size * 4", 4 * cells));
  constexpr std::array<absl::string_view, 3> kPeepholes = {"wci", "wcf", "wco"};
  for (int i = 0; i < 3; ++i) {
    const Tensor& peephole = context.input(first + 4 + i);
    WEIR_RETURN_IF_ERROR(CheckRank(kPeepholes[i], peephole, 1));
    if (!has_peepholes) continue;
    WEIR_RETURN_IF_ERROR(
        CheckSize(absl::StrCat(kPeepholes[i], ".dim_size(0)"), peephole.shape().dim(0), "cell_size", cells));
  }
  return Cells{batch, inputs, cells, is_second_version ? 2 : 1, is_second_version ? 1 : 2, has_peepholes};
}

// Inputs in single precision, which live as long as this.
class WideInputs {
 public:
  absl::Status Read(KernelContext& context, int first) {
    for (int i = first; i < context.num_inputs(); ++i) {
      WEIR_ASSIGN_OR_RETURN(Tensor wide, Widen(context, context.input(i)));
      tensors_.push_back(std::move(wide));
    }
    return absl::OkStatus();
  }
  // Counted from the first one that was read.
  const float* operator[](int i) const { return tensors_[i].flat<float>().data(); }
  Weights weights() const { return {(*this)[3], (*this)[4], (*this)[5], (*this)[6], (*this)[7]}; }
  States<const float*> states(int first) const {
    return {(*this)[first],     (*this)[first + 1], (*this)[first + 2], (*this)[first + 3],
            (*this)[first + 4], (*this)[first + 5], (*this)[first + 6]};
  }

 private:
  std::vector<Tensor> tensors_;
};

// Outputs in single precision, all of them 0 at first.
class WideOutputs {
 public:
  absl::Status Add(KernelContext& context, const Shape& shape) {
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(static_cast<int>(wide_.size()), shape));
    WEIR_ASSIGN_OR_RETURN(Tensor wide, WideOutput(context, *output));
    std::fill_n(wide.flat<float>().data(), wide.num_elements(), 0.0f);
    wide_.push_back(std::move(wide));
    return absl::OkStatus();
  }
  float* operator[](int i) { return wide_[i].flat<float>().data(); }
  States<float*> states() {
    return {(*this)[0], (*this)[1], (*this)[2], (*this)[3], (*this)[4], (*this)[5], (*this)[6]};
  }
  void Finish(KernelContext& context) {
    for (size_t i = 0; i < wide_.size(); ++i) {
      Tensor& output = context.output(static_cast<int>(i));
      Narrow(context, wide_[i], &output);
    }
  }

 private:
  std::vector<Tensor> wide_;
};

absl::StatusOr<Tensor> AllocateRoom(KernelContext& context, int64_t rows, int64_t columns) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({rows, columns}));
  return context.AllocateTemporary(DType::kFloat32, shape);
}

absl::StatusOr<int64_t> ReadTimes(const KernelContext& context) {
  const Tensor &most = context.input(0), &x = context.input(1);
  if (!most.shape().is_scalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat("seq_len_max must be a scalar, is ", most.shape().ToString()));
  }
  WEIR_RETURN_IF_ERROR(CheckRank("x", x, 3));
  const auto times = most.scalar<int64_t>();
  if (times >= 0 && times <= x.shape().dim(0)) return times;
  return absl::InvalidArgumentError(
      absl::StrCat("seq_len_max must be in [0, ", x.shape().dim(0), "], the times of x, is ", times));
}

ForwardOptions ReadOptions(const KernelConstruction& construction) {
  const bool has_bias = construction.node().FindAttr("forget_bias") != nullptr;
  return {has_bias ? construction.attr<float>("forget_bias") : 0, construction.attr<float>("cell_clip")};
}

bool IsSecondVersion(const KernelConstruction& construction) {
  return construction.node().op_name().ends_with("V2");
}

// ---- Kernels ----

class LstmCell final : public Kernel {
 public:
  explicit LstmCell(const KernelConstruction& construction)
      : options_(ReadOptions(construction)), has_peepholes_(construction.attr<bool>("use_peephole")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Cells cells, ReadCells(context, 0, 2, has_peepholes_, false));
    WideInputs in;
    WEIR_RETURN_IF_ERROR(in.Read(context, 0));
    WideOutputs out;
    for (int i = 0; i < 7; ++i) WEIR_RETURN_IF_ERROR(out.Add(context, Shape({cells.batch, cells.cells})));
    if (cells.batch == 0 || cells.cells == 0) return absl::OkStatus();  // however many rows there are
    WEIR_ASSIGN_OR_RETURN(Tensor room, AllocateRoom(context, cells.batch, cells.row() + 4 * cells.cells));
    WEIR_RETURN_IF_ERROR(Forward(context.threads(), cells, options_, in[0], in[1], in[2], in.weights(),
                                 room.flat<float>().data(), out.states()));
    out.Finish(context);
    return absl::OkStatus();
  }

 private:
  const ForwardOptions options_;
  const bool has_peepholes_;
};

class LstmCellGrad final : public Kernel {
 public:
  explicit LstmCellGrad(const KernelConstruction& construction)
      : has_peepholes_(construction.attr<bool>("use_peephole")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Cells cells, ReadCells(context, 0, 2, has_peepholes_, false));
    const Shape shape({cells.batch, cells.cells});
    constexpr std::array<absl::string_view, 8> kNames = {"i",  "cs", "f",       "o",
                                                         "ci", "co", "cs_grad", "h_grad"};
    for (int i = 0; i < 8; ++i) WEIR_RETURN_IF_ERROR(CheckSameShape(kNames[i], context.input(8 + i), shape));
    WideInputs in;
    WEIR_RETURN_IF_ERROR(in.Read(context, 0));
    WideOutputs out;
    WEIR_RETURN_IF_ERROR(out.Add(context, shape));
    WEIR_RETURN_IF_ERROR(out.Add(context, Shape({cells.batch, 4 * cells.cells})));
    for (const int i : {4, 5, 6}) WEIR_RETURN_IF_ERROR(out.Add(context, context.input(i).shape()));
    // There is no h among the inputs, and none is needed.
    const States<const float*> states = {in[8], in[9], in[10], in[11], in[12], in[13], nullptr};
    Backward(context.threads(), cells, in[1], in.weights(), states, in[14], in[15], out[1], out[0],
             {out[2], out[3], out[4]});
    out.Finish(context);
    return absl::OkStatus();
  }

 private:
  const bool has_peepholes_;
};

class BlockLstm final : public Kernel {
 public:
  explicit BlockLstm(const KernelConstruction& construction)
      : options_(ReadOptions(construction)),
        has_peepholes_(construction.attr<bool>("use_peephole")),
        is_second_version_(IsSecondVersion(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const int64_t times, ReadTimes(context));
    WEIR_ASSIGN_OR_RETURN(const Cells cells, ReadCells(context, 1, 3, has_peepholes_, is_second_version_));
    WEIR_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::FromDims({context.input(1).shape().dim(0), cells.batch, cells.cells}));
    WideInputs in;
    WEIR_RETURN_IF_ERROR(in.Read(context, 1));
    WideOutputs out;
    for (int i = 0; i < 7; ++i) WEIR_RETURN_IF_ERROR(out.Add(context, shape));
    WEIR_ASSIGN_OR_RETURN(Tensor room, AllocateRoom(context, cells.batch, cells.row() + 4 * cells.cells));
    const int64_t size = cells.batch * cells.cells;
    if (size == 0) return absl::OkStatus();  // however many times and rows there are
    const float *cs_prev = in[1], *h_prev = in[2];
    for (int64_t t = 0; t < times; ++t) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      const States<float*> now = out.states().At(t * size);
      WEIR_RETURN_IF_ERROR(Forward(context.threads(), cells, options_, in[0] + t * cells.batch * cells.inputs,
                                   cs_prev, h_prev, in.weights(), room.flat<float>().data(), now));
      cs_prev = now.cs;
      h_prev = now.h;
    }
    out.Finish(context);
    return absl::OkStatus();
  }

 private:
  const ForwardOptions options_;
  const bool has_peepholes_, is_second_version_;
};

class BlockLstmGrad final : public Kernel {
 public:
  explicit BlockLstmGrad(const KernelConstruction& construction)
      : has_peepholes_(construction.attr<bool>("use_peephole")),
        is_second_version_(IsSecondVersion(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const int64_t times, ReadTimes(context));
    WEIR_ASSIGN_OR_RETURN(const Cells cells, ReadCells(context, 1, 3, has_peepholes_, is_second_version_));
    WEIR_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::FromDims({context.input(1).shape().dim(0), cells.batch, cells.cells}));
    constexpr std::array<absl::string_view, 9> kNames = {"i",  "cs", "f",       "o",     "ci",
                                                         "co", "h",  "cs_grad", "h_grad"};
    for (int i = 0; i < 9; ++i) WEIR_RETURN_IF_ERROR(CheckSameShape(kNames[i], context.input(9 + i), shape));
    WideInputs in;
    WEIR_RETURN_IF_ERROR(in.Read(context, 1));
    WideOutputs out;
    for (int i = 1; i <= 8; ++i) WEIR_RETURN_IF_ERROR(out.Add(context, context.input(i).shape()));
    WEIR_RETURN_IF_ERROR(GoBack(context, cells, times, in, out));
    out.Finish(context);
    return absl::OkStatus();
  }

 private:
  // Gradients of x, cs_prev, h_prev, w, wci, wcf, wco and b are outputs 0 to 7.
  static absl::Status GoBack(KernelContext& context, const Cells& cells, int64_t times, const WideInputs& in,
                             WideOutputs& out) {
    const int64_t n = cells.cells, size = cells.batch * n, row = cells.row();
    if (size == 0) return absl::OkStatus();  // all gradients are 0, however many times and rows there are
    // Of one time: gates and their gradients, [x h] and its gradient, what flows into the state and out of
    // it; and of the weights.
    WEIR_ASSIGN_OR_RETURN(Tensor room, AllocateRoom(context, cells.batch, 4 * n + 2 * row + 2 * n));
    WEIR_ASSIGN_OR_RETURN(Tensor of_weights, AllocateRoom(context, row, 4 * n));
    float *const gates = room.flat<float>().data(), *const xh = gates + 4 * size,
                 *const xh_grad = xh + cells.batch * row, *const cs_grad = xh_grad + cells.batch * row,
                 *const h_grad = cs_grad + size, *const w_grad = of_weights.flat<float>().data();
    for (int64_t t = times - 1; t >= 0; --t) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      const States<const float*> all = in.states(8);
      const States<const float*> now = all.At(t * size);
      const float *const cs_prev = t == 0 ? in[1] : all.cs + (t - 1) * size,
                         *const h_prev = t == 0 ? in[2] : all.h + (t - 1) * size,
                         *const x = in[0] + t * cells.batch * cells.inputs;
      for (int64_t i = 0; i < size; ++i) {
        cs_grad[i] = in[15][t * size + i] + out[1][i];
        h_grad[i] = in[16][t * size + i] + out[2][i];
      }
      Backward(context.threads(), cells, cs_prev, in.weights(), now, cs_grad, h_grad, gates, out[1],
               {out[4], out[5], out[6]});
      WEIR_RETURN_IF_ERROR(MultiplyFloat(
          context, {.m = cells.batch, .k = 4 * n, .n = row, .transpose_b = true}, gates, in[3], xh_grad));
      Join(cells, x, h_prev, xh);
      WEIR_RETURN_IF_ERROR(MultiplyFloat(
          context, {.m = row, .k = cells.batch, .n = 4 * n, .transpose_a = true}, xh, gates, w_grad));
      for (int64_t i = 0; i < row * 4 * n; ++i) out[3][i] += w_grad[i];
      for (int64_t b = 0; b < cells.batch; ++b) {
        for (int64_t i = 0; i < 4 * n; ++i) out[7][i] += gates[b * 4 * n + i];
        std::copy_n(xh_grad + b * row, cells.inputs, out[0] + (t * cells.batch + b) * cells.inputs);
        std::copy_n(xh_grad + b * row + cells.inputs, n, out[2] + b * n);
      }
    }
    return absl::OkStatus();
  }

  const bool has_peepholes_, is_second_version_;
};

}  // namespace

void RegisterLstmKernels(DeviceKernels& kernels) {
  const DeviceKernels::TypeAttrs types = {{"T", {DType::kFloat32, DType::kHalf}}};
  kernels.Add<LstmCell>("LSTMBlockCell", types);
  kernels.Add<LstmCellGrad>("LSTMBlockCellGrad", types);
  for (const char* op : {"BlockLSTM", "BlockLSTMV2"}) kernels.Add<BlockLstm>(op, types);
  for (const char* op : {"BlockLSTMGrad", "BlockLSTMGradV2"}) kernels.Add<BlockLstmGrad>(op, types);
}

}  // namespace weir
