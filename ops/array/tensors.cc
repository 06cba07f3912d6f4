// Ops that make, pass on, reshape and convert tensors. One op, one function: schema, shapes, gradient.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/gradients.h"
#include "graph/shape_inference.h"
#include "graph/types/status_macros.h"
#include "ops/families.h"
#include "ops/gradient_formulas.h"
#include "ops/shape_functions.h"

namespace weir {
namespace {

using namespace formulas;  // NOLINT: the vocabulary of this file

Status VectorOfKnownLength(ShapeInference& s) {
  for (int i = 0; i < s.num_outputs(); ++i) {
    const PartialShape& input = s.input(i);
    s.set_output(i, PartialShape({input.has_rank() ? input.rank() : kUnknown}));
  }
  return OkStatus();
}

Status PassGradient(GradientContext& g) {
  for (int i = 0; i < g.num_inputs(); ++i) g.set_input_grad(i, g.flow(i));
  return OkStatus();
}

// Of ops that keep the elements and change the shape.
Status ReshapeBack(GradientContext& g) {
  g.set_input_grad(0, ReshapeLike(g, g.grad(0), g.input(0)));
  return OkStatus();
}

// ---- Making tensors ----

// A number of any real dtype, for Range.
double ScalarAsDouble(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return tensor.scalar<float>();
    case DType::kFloat64:
      return tensor.scalar<double>();
    case DType::kHalf:
      return static_cast<float>(tensor.scalar<Half>());
    case DType::kBfloat16:
      return static_cast<float>(tensor.scalar<Bfloat16>());
    case DType::kInt32:
      return tensor.scalar<int32_t>();
    case DType::kInt64:
      return static_cast<double>(tensor.scalar<int64_t>());
    case DType::kInt16:
      return tensor.scalar<int16_t>();
    case DType::kInt8:
      return tensor.scalar<int8_t>();
    case DType::kUint16:
      return tensor.scalar<uint16_t>();
    case DType::kUint32:
      return tensor.scalar<uint32_t>();
    case DType::kUint64:
      return static_cast<double>(tensor.scalar<uint64_t>());
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

template <typename T>
double RangeCountIn(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  const auto distance = T(limit.scalar<T>() - start.scalar<T>());
  return std::ceil(static_cast<double>(T(distance / delta.scalar<T>())));
}

// How many elements a Range has; of floats computed in their own type, as its kernel does. NaN for dtypes
// that are not read here.
double RangeCount(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  switch (start.dtype()) {
    case DType::kFloat32:
      return RangeCountIn<float>(start, limit, delta);
    case DType::kHalf:
      return RangeCountIn<Half>(start, limit, delta);
    case DType::kBfloat16:
      return RangeCountIn<Bfloat16>(start, limit, delta);
    default:
      return std::ceil((ScalarAsDouble(limit) - ScalarAsDouble(start)) / ScalarAsDouble(delta));
  }
}

// ---- Reshaping ----

// The number of elements of a fully known shape, else nullopt.
std::optional<int64_t> CountElements(const PartialShape& shape) {
  if (!shape.is_fully_known()) return std::nullopt;
  return shape.ToShape().num_elements();
}

Status CannotReshape(const PartialShape& from, const PartialShape& to) {
  return InvalidArgumentError(
      StrCat("element counts differ: tensor is ", from.ToString(), ", shape is ", to.ToString()));
}

int64_t ProductWithoutZeros(absl::Span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim > 0 ? dim : 1;
  return product;
}

// Fills in the one unknown dimension of `target` that `count` elements leave. `is_open`: it was asked for as
// -1, not as a number that the graph does not know.
Status InferUnknownDim(const PartialShape& from, int64_t count, bool is_open, std::vector<int64_t>& target) {
  int64_t product = 1;
  for (const int64_t dim : target) product = dim == kUnknown ? product : MultiplyDims(product, dim);
  if (product < 0) return OkStatus();
  int64_t& unknown = *std::find(target.begin(), target.end(), kUnknown);
  if (product == 0 && count == 0) {
    // Beside a 0 a number may be any; -1 is what dimensions of the tensor that are not 0 leave.
    if (is_open) unknown = ProductWithoutZeros(from.dims()) / ProductWithoutZeros(target);
    return OkStatus();
  }
  if (product == 0 || count % product != 0) return CannotReshape(from, *PartialShape::FromDims(target));
  unknown = count / product;
  return OkStatus();
}

Status ReshapeShape(ShapeInference& s) {
  WEIR_RETURN_IF_ERROR(s.WithRank(1, 1).status());
  const auto literal = s.input_integers(1);
  if (literal && std::count(literal->begin(), literal->end(), -1) > 1) {
    return InvalidArgumentError(StrCat("shape may have one -1, is [", absl::StrJoin(*literal, ","), "]"));
  }
  WEIR_ASSIGN_OR_RETURN(const PartialShape target, s.InputAsShape(1));
  if (!target.has_rank()) return OkStatus();
  const std::optional<int64_t> count = CountElements(s.input(0));
  const std::optional<int64_t> target_count = CountElements(target);
  if (count && target_count && *count != *target_count) return CannotReshape(s.input(0), target);
  std::vector<int64_t> dims = DimsOf(target);
  if (count && std::count(dims.begin(), dims.end(), kUnknown) == 1) {
    WEIR_RETURN_IF_ERROR(InferUnknownDim(s.input(0), *count, literal.has_value(), dims));
  }
  return SetOutputDims(s, 0, dims);
}

Status QuantizedReshapeShape(ShapeInference& s) {
  for (const int end : {2, 3}) {
    WEIR_RETURN_IF_ERROR(s.WithRank(end, 0).status());
    s.set_output(end - 1, PartialShape(Shape()));
  }
  return ReshapeShape(s);
}

Status SqueezeShape(ShapeInference& s) {
  const PartialShape& input = s.input(0);
  const auto& axes = s.attr<std::vector<int64_t>>("squeeze_dims");
  if (!input.has_rank()) return OkStatus();
  std::vector<bool> is_squeezed(input.rank(), false);
  for (const int64_t axis : axes) {
    WEIR_ASSIGN_OR_RETURN(const int index, NormalizeAxis(axis, input.rank(), "squeeze_dims"));
    if (input.dim(index) != kUnknown && input.dim(index) != 1) {
      return InvalidArgumentError(
          StrCat("cannot squeeze axis ", index, ", which is not 1: input is ", input.ToString()));
    }
    is_squeezed[index] = true;
  }
  std::vector<int64_t> dims;
  for (int i = 0; i < input.rank(); ++i) {
    // Without a list of axes, a dimension that a step finds to be 1 goes away too: the rank is unknown.
    if (axes.empty() && input.dim(i) == kUnknown) return OkStatus();
    if (!(axes.empty() ? input.dim(i) == 1 : is_squeezed[i])) dims.push_back(input.dim(i));
  }
  return SetOutputDims(s, 0, dims);
}

Status TransposeShape(ShapeInference& s) {
  const PartialShape& x = s.input(0);
  WEIR_ASSIGN_OR_RETURN(const PartialShape perm_shape, s.WithRank(1, 1));
  if (x.has_rank() && perm_shape.dim(0) != kUnknown && perm_shape.dim(0) != x.rank()) {
    return InvalidArgumentError(StrCat("perm must list every axis of x once: x is ", x.ToString(),
                                       ", perm is ", perm_shape.ToString()));
  }
  if (!x.has_rank()) {
    if (perm_shape.dim(0) != kUnknown)
      s.set_output(0, PartialShape::OfRank(static_cast<int>(perm_shape.dim(0))));
    return OkStatus();
  }
  const auto perm = s.input_integers(1);
  if (!perm) {
    s.set_output(0, PartialShape::OfRank(x.rank()));
    return OkStatus();
  }
  std::vector<int64_t> dims;
  std::vector<bool> is_used(x.rank(), false);
  for (const int64_t axis : *perm) {
    if (axis < 0 || axis >= x.rank() || is_used[axis]) {
      return InvalidArgumentError(StrCat("perm must list every axis of x once: x is ", x.ToString(),
                                         ", perm is [", absl::StrJoin(*perm, ","), "]"));
    }
    is_used[axis] = true;
    dims.push_back(x.dim(static_cast<int>(axis)));
  }
  return SetOutputDims(s, 0, dims);
}

}  // namespace

std::vector<OpDef> TensorsOps() {
  return {

      // ---- Making tensors ----
      {.name = "Const",
       .summary = "Gives the same tensor in every step.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         const Tensor& value = s.attr<Tensor>("value");
         if (value.dtype() != s.attr<DType>("dtype")) {
           return InvalidArgumentError(StrCat("attr dtype is ", DTypeName(s.attr<DType>("dtype")),
                                              ", the value is ", TypeString(value.dtype(), value.shape())));
         }
         s.set_output(0, value.shape());
         return OkStatus();
       },
       .gradient = NotDifferentiable},
      {.name = "Placeholder",
       .summary = "Stands for a tensor that every step must feed.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         s.set_output(0, s.attr<PartialShape>("shape"));
         return OkStatus();
       },
       .gradient = NotDifferentiable},
      {.name = "PlaceholderWithDefault",
       .summary = "Gives the fed tensor, or its input in a step that feeds none.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         const auto& shape = s.attr<PartialShape>("shape");
         if (!s.input(0).IsCompatibleWith(shape)) {
           return InvalidArgumentError(StrCat("the default does not fit: input is ", s.input(0).ToString(),
                                              ", shape is ", shape.ToString()));
         }
         s.set_output(0, shape);
         return OkStatus();
       },
       .gradient = PassGradient},
      {.name = "Fill",
       .summary = "Gives a tensor of shape dims with the scalar value in every element.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(s.WithRank(1, 0).status());
         WEIR_ASSIGN_OR_RETURN(PartialShape shape, RequestedShape(s, 0));
         s.set_output(0, std::move(shape));
         return OkStatus();
       },
       .gradient = [](GradientContext& g) -> Status {
         const PartialShape& shape = g.node().output_shape(0);
         Output axes;
         if (shape.has_rank()) {
           std::vector<int32_t> all(shape.rank());
           for (int i = 0; i < shape.rank(); ++i) all[i] = i;
           axes = g.Integers(all);
         } else {
           axes = g.Add("Range", {g.Constant(DType::kInt32, 0), g.Add("Rank", {g.grad(0)}),
                                  g.Constant(DType::kInt32, 1)});
         }
         g.set_input_grad(1, Sum(g, g.grad(0), axes));
         return OkStatus();
       }},
      {.name = "Empty",
       .summary = "Gives a tensor of that shape; its elements are zero here, whatever init says.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_RETURN_IF_ERROR(s.WithRank(0, 1).status());
         WEIR_ASSIGN_OR_RETURN(PartialShape shape, RequestedShape(s, 0));
         s.set_output(0, std::move(shape));
         return OkStatus();
       },
       .gradient = NotDifferentiable},
      {.name = "ZerosLike",
       .summary = "Gives zeros in the shape of x.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
      {.name = "OnesLike",
       .summary = "Gives ones in the shape of x.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},
      {.name = "Range",
       .summary = "Gives start, start + delta, and so on, up to but not including limit.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         std::optional<Tensor> values[3];
         for (int i = 0; i < 3; ++i) {
           WEIR_RETURN_IF_ERROR(s.WithRank(i, 0).status());
           values[i] = s.input_constant(i);
         }
         s.set_output(0, PartialShape({kUnknown}));
         if (!values[0] || !values[1] || !values[2]) return OkStatus();
         const double start = ScalarAsDouble(*values[0]), limit = ScalarAsDouble(*values[1]);
         const double delta = ScalarAsDouble(*values[2]);
         if (delta == 0) return InvalidArgumentError("delta must not be 0");
         const double count = RangeCount(*values[0], *values[1], *values[2]);
         if (count < 0) {
           return InvalidArgumentError(
               StrCat("start ", start, " does not reach limit ", limit, " in steps of delta ", delta));
         }
         // A count that a double does not hold exactly stays unknown; so do dtypes not read here.
         if (count <= 1e15) s.set_output(0, PartialShape({static_cast<int64_t>(count)}));
         return OkStatus();
       },
       .gradient = NotDifferentiable},
      {.name = "DeviceIndex",
       .summary = "Gives where the type of its device stands among device_names; behind them when nowhere.",
       .infer_shapes = ScalarShape,
       .gradient = NotDifferentiable},

      // ---- Passing on ----
      {.name = "Identity",
       .summary = "Gives its input unchanged.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         s.set_output(0, s.input(0));
         if (s.input_resource(0)) s.set_output_resource(0, *s.input_resource(0));
         return OkStatus();
       },
       .gradient = PassGradient},
      {.name = "IdentityN",
       .summary = "Gives its inputs unchanged, once all of them are there.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         for (int i = 0; i < s.num_outputs(); ++i) s.set_output(i, s.input(i));
         return OkStatus();
       },
       .gradient = PassGradient},
      {.name = "NoOp",
       .summary = "Does nothing; its control inputs make it a target that stands for several nodes.",
       .infer_shapes = NoOutputs,
       .gradient = NotDifferentiable},
      {.name = "StopGradient",
       .summary = "Gives its input unchanged and lets no gradient through.",
       .infer_shapes = UnchangedShape,
       .gradient = NotDifferentiable},

      // ---- Shapes as tensors ----
      {.name = "Shape",
       .summary = "Gives the shape of its input as a vector.",
       .infer_shapes = VectorOfKnownLength,
       .gradient = NotDifferentiable},
      {.name = "ShapeN",
       .summary = "Gives the shape of each input as a vector.",
       .infer_shapes = VectorOfKnownLength,
       .gradient = NotDifferentiable},
      {.name = "Size",
       .summary = "Gives the number of elements of its input.",
       .infer_shapes = ScalarShape,
       .gradient = NotDifferentiable},
      {.name = "Rank",
       .summary = "Gives the number of dimensions of its input.",
       .infer_shapes = ScalarShape,
       .gradient = NotDifferentiable},
      {.name = "ToBool",
       .summary = "Gives whether a scalar is not 0 or not empty, and whether another tensor has elements.",
       .infer_shapes = ScalarShape,
       .gradient = NotDifferentiable},

      // ---- Reshaping ----
      {.name = "Reshape",
       .summary =
           "Gives the elements of a tensor another shape; one dimension may be -1 and is then computed.",
       .infer_shapes = ReshapeShape,
       .gradient = ReshapeBack},
      {.name = "QuantizedReshape",
       .summary = "Gives the elements of a quantized tensor another shape, and passes their range on.",
       .infer_shapes = QuantizedReshapeShape,
       .gradient = NotDifferentiable},
      {.name = "ExpandDims",
       .summary = "Inserts a dimension of 1 at axis dim.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         const auto axis = s.input_integers(1);
         if (axis && axis->size() != 1) return InvalidArgumentError("dim must have one element");
         if (!s.input(0).has_rank()) return OkStatus();
         const int rank = s.input(0).rank() + 1;
         if (!axis) {
           s.set_output(0, PartialShape::OfRank(rank));
           return OkStatus();
         }
         WEIR_ASSIGN_OR_RETURN(const int index, NormalizeAxis(axis->front(), rank, "dim"));
         std::vector<int64_t> dims = DimsOf(s.input(0));
         dims.insert(dims.begin() + index, 1);
         return SetOutputDims(s, 0, dims);
       },
       .gradient = ReshapeBack},
      {.name = "Squeeze",
       .summary = "Removes the dimensions of 1, all of them or those listed.",
       .infer_shapes = SqueezeShape,
       .gradient = ReshapeBack},
      {.name = "Transpose",
       .summary = "Reorders the dimensions: dimension i of y is dimension perm[i] of x.",
       .infer_shapes = TransposeShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0, g.Add("Transpose", {g.grad(0), g.Add("InvertPermutation", {g.input(1)})}));
         return OkStatus();
       }},
      {.name = "ConjugateTranspose",
       .summary = "Reorders the dimensions, and gives the conjugates of complex numbers.",
       .infer_shapes = TransposeShape,
       .gradient = [](GradientContext& g) -> Status {
         g.set_input_grad(0,
                          g.Add("ConjugateTranspose", {g.grad(0), g.Add("InvertPermutation", {g.input(1)})}));
         return OkStatus();
       }},
      {.name = "InvertPermutation",
       .summary = "Gives y with y[x[i]] = i.",
       .infer_shapes = [](ShapeInference& s) -> Status {
         WEIR_ASSIGN_OR_RETURN(PartialShape x, s.WithRank(0, 1));
         s.set_output(0, std::move(x));
         return OkStatus();
       },
       .gradient = NotDifferentiable},

      // ---- Converting ----
      {.name = "Cast",
       .summary = "Converts elements to another dtype.",
       .is_elementwise = true,
       .infer_shapes = UnchangedShape,
       .gradient = [](GradientContext& g) -> Status {
         const DType from = g.input(0).dtype();
         const auto carries = [](DType dtype) { return IsFloating(dtype) || IsComplex(dtype); };
         if (carries(from) && carries(g.grad(0).dtype())) g.set_input_grad(0, Cast(g, g.grad(0), from));
         return OkStatus();
       }},
  };
}

}  // namespace weir
