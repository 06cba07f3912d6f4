// GRUBlockCell and its gradient: a gated recurrent unit at one time.
//
// Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder" (2014), arXiv:1406.1078:
//   r, u = sigmoid([x h_prev] w_ru + b_ru), c = tanh([x, h_prev r] w_c + b_c), h = u h_prev + (1 - u) c.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/math/matrix_product.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 30;  // nanoseconds of a cell on one core: three exponentials

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

struct Cells {
  int64_t batch, inputs, cells;
  int64_t row() const { return inputs + cells; }
  Shape states() const { return Shape({batch, cells}); }
};

absl::Status CheckShape(absl::string_view name, const Tensor& tensor, const Dims& wanted) {
  const absl::Span<const int64_t> found = tensor.shape().dims();
  if (std::equal(found.begin(), found.end(), wanted.begin(), wanted.end())) return absl::OkStatus();
  Dims dims = wanted;
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  return absl::InvalidArgumentError(
      absl::StrCat(name, " must be ", shape.ToString(), ", is ", tensor.shape().ToString()));
}

// Of inputs x, h_prev, w_ru, w_c, b_ru and b_c.
absl::StatusOr<Cells> ReadCells(const KernelContext& context) {
  const Shape &x = context.input(0).shape(), &h_prev = context.input(1).shape();
  constexpr int64_t kMost = int64_t{1} << 40;  // sums and products of these are dimensions too
  if (x.rank() != 2 || h_prev.rank() != 2 || x.dim(1) > kMost || h_prev.dim(1) > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("x and h_prev must be matrices [batch_size, input_size] and [batch_size, cell_size], "
                     "are ",
                     x.ToString(), " and ", h_prev.ToString()));
  }
  const Cells cells = {x.dim(0), x.dim(1), h_prev.dim(1)};
  WEIR_RETURN_IF_ERROR(CheckShape("h_prev", context.input(1), {cells.batch, cells.cells}));
  WEIR_RETURN_IF_ERROR(CheckShape("w_ru", context.input(2), {cells.row(), 2 * cells.cells}));
  WEIR_RETURN_IF_ERROR(CheckShape("w_c", context.input(3), {cells.row(), cells.cells}));
  WEIR_RETURN_IF_ERROR(CheckShape("b_ru", context.input(4), {2 * cells.cells}));
  WEIR_RETURN_IF_ERROR(CheckShape("b_c", context.input(5), {cells.cells}));
  return cells;
}

const float* In(const KernelContext& context, int i) { return context.input(i).flat<float>().data(); }

absl::StatusOr<Tensor> AllocateRoom(KernelContext& context, int64_t rows, int64_t columns) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({rows, columns}));
  return context.AllocateTemporary(DType::kFloat32, shape);
}

class GruCell final : public Kernel {
 public:
  explicit GruCell(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Cells cells, ReadCells(context));
    float* out[4];
    for (int i = 0; i < 4; ++i) {
      WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(i, cells.states()));
      out[i] = output->flat<float>().data();
    }
    const int64_t n = cells.cells;
    if (cells.batch == 0 || n == 0) return absl::OkStatus();  // however many rows there are
    WEIR_ASSIGN_OR_RETURN(Tensor joined, AllocateRoom(context, cells.batch, cells.row()));
    WEIR_ASSIGN_OR_RETURN(Tensor gates, AllocateRoom(context, cells.batch, 2 * n));
    float *const xh = joined.flat<float>().data(), *const ru = gates.flat<float>().data();
    const float *const x = In(context, 0), *const h_prev = In(context, 1);
    for (int64_t b = 0; b < cells.batch; ++b) {
      std::copy_n(x + b * cells.inputs, cells.inputs, xh + b * cells.row());
      std::copy_n(h_prev + b * n, n, xh + b * cells.row() + cells.inputs);
    }
    WEIR_RETURN_IF_ERROR(
        MultiplyFloat(context, {.m = cells.batch, .k = cells.row(), .n = 2 * n}, xh, In(context, 2), ru));
    const auto for_each_cell = [&](auto compute) {
      context.threads().ParallelFor(cells.batch, kCost * static_cast<double>(n),
                                    [&](int64_t begin, int64_t end) {
                                      for (int64_t b = begin; b < end; ++b)
                                        for (int64_t c = 0; c < n; ++c) compute(b, c);
                                    });
    };
    for_each_cell([&](int64_t b, int64_t c) {
      const int64_t at = b * n + c;
      out[0][at] = Sigmoid(ru[2 * b * n + c] + In(context, 4)[c]);
      out[1][at] = Sigmoid(ru[2 * b * n + n + c] + In(context, 4)[n + c]);
      xh[b * cells.row() + cells.inputs + c] = h_prev[at] * out[0][at];
    });
    WEIR_RETURN_IF_ERROR(
        MultiplyFloat(context, {.m = cells.batch, .k = cells.row(), .n = n}, xh, In(context, 3), out[2]));
    for_each_cell([&](int64_t b, int64_t c) {
      const int64_t at = b * n + c;
      out[2][at] = std::tanh(out[2][at] + In(context, 5)[c]);
      out[3][at] = out[1][at] * h_prev[at] + (1 - out[1][at]) * out[2][at];
    });
    return absl::OkStatus();
  }
};

// Gradients of x and h_prev, and of what goes into the tanh and the sigmoids, of which those of the weights
// are products.
class GruCellGrad final : public Kernel {
 public:
  explicit GruCellGrad(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Cells cells, ReadCells(context));
    const int64_t n = cells.cells, row = cells.row();
    constexpr absl::string_view kNames[] = {"r", "u", "c", "d_h"};
    for (int i = 0; i < 4; ++i)
      WEIR_RETURN_IF_ERROR(CheckShape(kNames[i], context.input(6 + i), {cells.batch, n}));
    WEIR_ASSIGN_OR_RETURN(Tensor * d_x, context.AllocateOutput(0, context.input(0).shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * d_h_prev, context.AllocateOutput(1, cells.states()));
    WEIR_ASSIGN_OR_RETURN(Tensor * d_c_bar, context.AllocateOutput(2, cells.states()));
    WEIR_ASSIGN_OR_RETURN(Tensor * d_ru_bar, context.AllocateOutput(3, Shape({cells.batch, 2 * n})));
    if (cells.batch == 0 || n == 0) {  // however many rows there are
      std::fill_n(d_x->flat<float>().data(), d_x->num_elements(), 0.0f);
      return absl::OkStatus();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor room, AllocateRoom(context, cells.batch, 2 * row));
    const float *const h_prev = In(context, 1), *const r = In(context, 6), *const u = In(context, 7),
                       *const c = In(context, 8), *const d_h = In(context, 9);
    float *const of_c = d_c_bar->flat<float>().data(), *const of_ru = d_ru_bar->flat<float>().data();
    float *const through_c = room.flat<float>().data(), *const through_ru = through_c + cells.batch * row;
    for (int64_t i = 0; i < cells.batch * n; ++i) of_c[i] = d_h[i] * (1 - u[i]) * (1 - c[i] * c[i]);
    WEIR_RETURN_IF_ERROR(MultiplyFloat(context, {.m = cells.batch, .k = n, .n = row, .transpose_b = true},
                                       of_c, In(context, 3), through_c));
    for (int64_t i = 0; i < cells.batch * n; ++i) {
      const int64_t b = i / n, k = i % n;
      const float of_product = through_c[b * row + cells.inputs + k];
      of_ru[2 * b * n + k] = of_product * h_prev[i] * r[i] * (1 - r[i]);
      of_ru[2 * b * n + n + k] = d_h[i] * (h_prev[i] - c[i]) * u[i] * (1 - u[i]);
    }
    WEIR_RETURN_IF_ERROR(MultiplyFloat(context, {.m = cells.batch, .k = 2 * n, .n = row, .transpose_b = true},
                                       of_ru, In(context, 2), through_ru));
    for (int64_t b = 0; b < cells.batch; ++b) {
      for (int64_t i = 0; i < cells.inputs; ++i)
        d_x->flat<float>()[b * cells.inputs + i] = through_ru[b * row + i] + through_c[b * row + i];
      for (int64_t k = 0; k < n; ++k) {
        const int64_t i = b * n + k, at = b * row + cells.inputs + k;
        d_h_prev->flat<float>()[i] = through_ru[at] + through_c[at] * r[i] + d_h[i] * u[i];
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterGruKernels(DeviceKernels& kernels) {
  kernels.Add<GruCell>("GRUBlockCell");
  kernels.Add<GruCellGrad>("GRUBlockCellGrad");
}

}  // namespace weir
