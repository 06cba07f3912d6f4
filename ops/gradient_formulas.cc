#include "ops/gradient_formulas.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir::formulas {
namespace {

bool FitsInt32(const PartialShape& shape) {
  const auto fits = [](int64_t dim) { return dim <= std::numeric_limits<int32_t>::max(); };
  return std::all_of(shape.dims().begin(), shape.dims().end(), fits);
}

// The dimension of `shape` at `axis` of a broadcast result of rank `rank`; 1 where it is shorter.
int64_t BroadcastDim(const PartialShape& shape, int rank, int axis) {
  const int index = axis - (rank - shape.rank());
  return index < 0 ? 1 : shape.dim(index);
}

// What the gradient of one broadcast input must be summed over.
struct RepeatedAxes {
  std::vector<int32_t> axes;
  int num_leading = 0;  // of these, axes that the input does not have
};

// nullopt when only a step can tell: a dimension of the input is unknown and another input may stretch it.
std::optional<RepeatedAxes> FindRepeatedAxes(const std::vector<Output>& inputs, int index) {
  int rank = 0;
  for (const Output& input : inputs) {
    if (!input.shape().has_rank()) return std::nullopt;
    rank = std::max(rank, input.shape().rank());
  }
  RepeatedAxes result;
  result.num_leading = rank - inputs[index].shape().rank();
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t dim = BroadcastDim(inputs[index].shape(), rank, axis);
    bool others_are_one = true;
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
      others_are_one &=
          i == index || inputs[i] == inputs[index] || BroadcastDim(inputs[i].shape(), rank, axis) == 1;
    }
    if (axis < result.num_leading) {
      result.axes.push_back(axis);
    } else if (!others_are_one) {
      if (dim == PartialShape::kUnknownDim) return std::nullopt;
      if (dim == 1) result.axes.push_back(axis);
    }
  }
  return result;
}

Output UndoKnownBroadcast(GradientContext& g, Output gradient, const RepeatedAxes& repeated, Output input) {
  if (repeated.axes.empty()) return gradient;
  const bool has_inner = static_cast<int>(repeated.axes.size()) > repeated.num_leading;
  const bool keep_dims = repeated.num_leading == 0;
  const Output sum = Sum(g, gradient, g.Integers(repeated.axes), keep_dims);
  return has_inner && !keep_dims ? ReshapeLike(g, sum, input) : sum;
}

// The node whose two outputs are the axes over which tensors of these shapes were repeated.
Node* RepeatedAxesNode(GradientContext& g, Output shape, Output other_shape) {
  return g.graph().AddNode("BroadcastGradientArgs", {shape, other_shape}, {}, "", g.node().source());
}

Output UndoUnknownBroadcast(GradientContext& g, Output gradient, Node* axes, int index, Output shape) {
  if (axes == nullptr) return {};
  return Reshape(g, Sum(g, gradient, axes->output(index)), shape);
}

}  // namespace

Output Sum(GradientContext& g, Output a, Output axes, bool keep_dims) {
  return g.Add("Sum", {a, axes}, {{"keep_dims", keep_dims}});
}

Output Scale(GradientContext& g, double factor, Output a) {
  return a ? Mul(g, g.Constant(a.dtype(), factor), a) : Output();
}

Output ShapeOf(GradientContext& g, Output forward) {
  const PartialShape& shape = forward.shape();
  if (!shape.is_fully_known() || !FitsInt32(shape)) return g.Add("Shape", {forward});
  return g.Integers({shape.dims().begin(), shape.dims().end()});
}

Output ReshapeLike(GradientContext& g, Output a, Output forward) {
  const PartialShape& shape = forward.shape();
  const bool one_unknown = shape.has_rank() &&
                           std::count(shape.dims().begin(), shape.dims().end(), -1) == 1 &&
                           std::count(shape.dims().begin(), shape.dims().end(), 0) == 0;
  // One unknown dimension is found by Reshape itself.
  if (one_unknown && FitsInt32(shape))
    return Reshape(g, a, g.Integers({shape.dims().begin(), shape.dims().end()}));
  return Reshape(g, a, ShapeOf(g, forward));
}

std::vector<Output> GradsOrZeros(GradientContext& g) {
  std::vector<Output> grads;
  for (int i = 0; i < g.node().num_outputs(); ++i) {
    grads.push_back(g.grad(i) ? g.grad(i) : ZerosLike(g, g.output(i)));
  }
  return grads;
}

std::optional<int> KnownAxis(Output axis, Output tensor) {
  if (axis.node->op_name() != "Const") return std::nullopt;
  const auto& value = axis.node->attr<Tensor>("value");
  const int64_t raw = value.dtype() == DType::kInt64 ? value.scalar<int64_t>() : value.scalar<int32_t>();
  if (raw >= 0) return static_cast<int>(raw);
  return tensor.shape().has_rank() ? std::optional<int>(static_cast<int>(raw + tensor.shape().rank()))
                                   : std::nullopt;
}

Output UndoBroadcast(GradientContext& g, Output gradient, const std::vector<Output>& inputs, int index) {
  if (!gradient) return {};
  if (const auto repeated = FindRepeatedAxes(inputs, index)) {
    return UndoKnownBroadcast(g, gradient, *repeated, inputs[index]);
  }
  const Output shape = ShapeOf(g, inputs[index]);
  return UndoUnknownBroadcast(g, gradient, RepeatedAxesNode(g, shape, ShapeOf(g, g.output(0))), 0, shape);
}

absl::Status SetBroadcastGradients(GradientContext& g, Output x_gradient, Output y_gradient) {
  const std::vector<Output> inputs = {g.input(0), g.input(1)};
  const Output gradients[2] = {x_gradient, y_gradient};
  Output shapes[2];
  Node* axes = nullptr;  // one node finds the axes of both
  for (int i = 0; i < 2; ++i) {
    if (!gradients[i]) continue;
    if (const auto repeated = FindRepeatedAxes(inputs, i)) {
      g.set_input_grad(i, UndoKnownBroadcast(g, gradients[i], *repeated, inputs[i]));
      continue;
    }
    if (axes == nullptr) {
      for (int k = 0; k < 2; ++k) shapes[k] = ShapeOf(g, inputs[k]);
      axes = RepeatedAxesNode(g, shapes[0], shapes[1]);
    }
    g.set_input_grad(i, UndoUnknownBroadcast(g, gradients[i], axes, i, shapes[i]));
  }
  return absl::OkStatus();
}

absl::Status CheckReal(GradientContext& g) {
  if (!IsComplex(g.node().output_type(0))) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the gradient of ", g.node().op_name(),
                                               " is known for real numbers only, not for ",
                                               DTypeName(g.node().output_type(0))));
}

absl::Status SetScaled(GradientContext& g, Output factor) {
  g.set_input_grad(0, Mul(g, g.grad(0), factor));
  return absl::OkStatus();
}

IndexedSlices RowsLookedUp(GradientContext& g, Output indices, Output shape) {
  const PartialShape& ids = indices.shape();
  if (ids.rank() == 1) return {g.grad(0), indices, shape};
  const int64_t known = ids.is_fully_known() ? ids.ToShape().num_elements() : -1;
  const Output count = known >= 0 && known <= std::numeric_limits<int32_t>::max()
                           ? g.Integers({static_cast<int32_t>(known)})
                           : Reshape(g, g.Add("Size", {indices}), g.Integers({1}));
  const Output row =
      g.Add("StridedSlice", {shape, g.Integers({1}), g.Integers({1}), g.Integers({1})}, {{"end_mask", 1}});
  const Output of_values = g.Add("ConcatV2", {std::vector<Output>{count, row}, g.Constant(DType::kInt32, 0)});
  return {Reshape(g, g.grad(0), of_values), Reshape(g, indices, g.Integers({-1})), shape};
}

}  // namespace weir::formulas
