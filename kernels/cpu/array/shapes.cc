// Ops that read or change shapes and leave elements where they are.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/array/open_dim.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

absl::Status CheckFits(int64_t value, DType dtype) {
  if (dtype == DType::kInt32 && value > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(value, " does not fit in int32; ask for out_type int64"));
  }
  return absl::OkStatus();
}

// Shape and ShapeN.
absl::Status ShapesOfInputs(KernelContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) {
    const Shape& shape = context.input(i).shape();
    for (int64_t dim : shape.dims()) WEIR_RETURN_IF_ERROR(CheckFits(dim, context.output_type(i)));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(i, Shape({shape.rank()})));
    WriteIntegers(shape.dims(), *output);
  }
  return absl::OkStatus();
}

absl::Status SetInteger(KernelContext& context, int64_t value) {
  WEIR_RETURN_IF_ERROR(CheckFits(value, context.output_type(0)));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  WriteIntegers({value}, *output);
  return absl::OkStatus();
}

absl::Status Size(KernelContext& context) { return SetInteger(context, context.input(0).num_elements()); }
absl::Status Rank(KernelContext& context) { return SetInteger(context, context.input(0).shape().rank()); }

absl::Status CannotReshape(const Tensor& tensor, const Tensor& shape) {
  return absl::InvalidArgumentError(absl::StrCat("Input to reshape is a tensor with ", tensor.num_elements(),
                                                 " values (", TypeString(tensor.dtype(), tensor.shape()),
                                                 "), which the requested shape ", shape.ToString(),
                                                 " does not hold"));
}

absl::Status Reshape(KernelContext& context) {
  const Tensor& tensor = context.input(0);
  WEIR_ASSIGN_OR_RETURN(Dims dims, ReadIntegers(context.input(1), "shape"));
  const auto open = std::find(dims.begin(), dims.end(), -1);
  if (open != dims.end()) {
    if (std::find(open + 1, dims.end(), -1) != dims.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("only one dimension may be -1, shape is ", context.input(1).ToString()));
    }
    const std::optional<int64_t> dim = OpenDim(tensor.shape(), dims);
    if (!dim) return CannotReshape(tensor, context.input(1));
    *open = *dim;
  }
  const absl::StatusOr<Shape> shape = Shape::FromDims(dims);
  if (!shape.ok() || shape->num_elements() != tensor.num_elements()) {
    return CannotReshape(tensor, context.input(1));
  }
  context.set_output(0, tensor.WithShape(*shape));
  return absl::OkStatus();
}

absl::Status ExpandDims(KernelContext& context) {
  const Tensor& input = context.input(0);
  // There is one place more to insert at than there are dimensions.
  WEIR_ASSIGN_OR_RETURN(const int axis, ReadAxis(context.input(1), input.shape().rank() + 1, "dim"));
  Dims dims(input.shape().dims().begin(), input.shape().dims().end());
  dims.insert(dims.begin() + axis, 1);
  context.set_output(0, input.WithShape(weir::Shape(dims)));
  return absl::OkStatus();
}

class Squeeze final : public Kernel {
 public:
  explicit Squeeze(const KernelConstruction& construction)
      : axes_(construction.attr<std::vector<int64_t>>("squeeze_dims")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const int rank = input.shape().rank();
    std::vector<bool> drop(rank, axes_.empty());
    for (int64_t axis : axes_) {
      WEIR_ASSIGN_OR_RETURN(const int index, ResolveAxis(axis, rank, "squeeze_dims"));
      if (input.shape().dim(index) != 1) {
        return absl::InvalidArgumentError(absl::StrCat("Can not squeeze dim[", index,
                                                       "], expected a dimension of 1, ", "got ",
                                                       input.shape().ToString()));
      }
      drop[index] = true;
    }
    Dims dims;
    for (int i = 0; i < rank; ++i) {
      if (!drop[i] || input.shape().dim(i) != 1) dims.push_back(input.shape().dim(i));
    }
    context.set_output(0, input.WithShape(Shape(dims)));
    return absl::OkStatus();
  }

 private:
  const std::vector<int64_t> axes_;
};

// Where input 0 of a broadcast operation repeats along a dimension of the result, its gradient is summed
// there.
absl::Status BroadcastGradientArgs(KernelContext& context) {
  Dims shapes[2];
  for (int k = 0; k < 2; ++k) {
    WEIR_ASSIGN_OR_RETURN(shapes[k], ReadIntegers(context.input(k), k == 0 ? "s0" : "s1"));
  }
  const int rank = static_cast<int>(std::max(shapes[0].size(), shapes[1].size()));
  Dims axes[2];
  for (int i = 0; i < rank; ++i) {
    int64_t dims[2];
    for (int k = 0; k < 2; ++k) {
      const int own = i - (rank - static_cast<int>(shapes[k].size()));
      dims[k] = own < 0 ? 1 : shapes[k][own];
    }
    if (dims[0] != dims[1] && dims[0] != 1 && dims[1] != 1) {
      return absl::InvalidArgumentError(absl::StrCat("Incompatible shapes: ", context.input(0).ToString(),
                                                     " vs. ", context.input(1).ToString()));
    }
    // Dimensions of 1 on both sides are summed too: that is a reshape, and TensorFlow's convention.
    for (int k = 0; k < 2; ++k) {
      if (dims[k] == 1) axes[k].push_back(i);
    }
  }
  if (shapes[0] == shapes[1]) axes[0].clear(), axes[1].clear();
  for (int k = 0; k < 2; ++k) {
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(k, Shape({static_cast<int64_t>(axes[k].size())})));
    WriteIntegers(axes[k], *output);
  }
  return absl::OkStatus();
}

// The shape of two tensors broadcast together, from their shapes.
absl::Status BroadcastArgs(KernelContext& context) {
  Dims shapes[2];
  for (int k = 0; k < 2; ++k) {
    const char* const name = k == 0 ? "s0" : "s1";
    if (context.input(k).shape().rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " must be a vector, is ", context.input(k).shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(shapes[k], ReadIntegers(context.input(k), name));
  }
  Dims& longer = shapes[0].size() < shapes[1].size() ? shapes[1] : shapes[0];
  const Dims& shorter = &longer == &shapes[0] ? shapes[1] : shapes[0];
  const size_t extra = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& dim = longer[extra + i];
    if (dim != 1 && shorter[i] != 1 && dim != shorter[i]) {
      return absl::InvalidArgumentError(absl::StrCat("Incompatible shapes: ", context.input(0).ToString(),
                                                     " vs. ", context.input(1).ToString()));
    }
    if (dim == 1) dim = shorter[i];
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output,
                        context.AllocateOutput(0, Shape({static_cast<int64_t>(longer.size())})));
  WriteIntegers(longer, *output);
  return absl::OkStatus();
}

// Where each input of a Concat begins in its result.
absl::Status ConcatOffset(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Dims first, ReadIntegers(context.input(1), "shape[0]"));
  const int rank = static_cast<int>(first.size());
  WEIR_ASSIGN_OR_RETURN(const int64_t dim, ReadInteger(context.input(0), "concat_dim"));
  if (dim < -rank || dim >= rank) {
    return absl::InvalidArgumentError(absl::StrCat("Concat dim is out of range: ", dim, " vs. ", rank));
  }
  const int axis = static_cast<int>(dim < 0 ? dim + rank : dim);
  int64_t offset = 0;
  for (int i = 0; i + 1 < context.num_inputs(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const Dims dims,
                          ReadIntegers(context.input(i + 1), absl::StrCat("shape[", i, "]")));
    bool fits = dims.size() == first.size();
    for (size_t d = 0; d < first.size() && fits; ++d)
      fits = static_cast<int>(d) == axis || dims[d] == first[d];
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("shape[0] is ", context.input(1).ToString(), ", shape[",
                                                     i, "] is ", context.input(i + 1).ToString(),
                                                     ": they may differ in dimension ", axis, " only"));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output,
                          context.AllocateOutput(i, Shape({static_cast<int64_t>(dims.size())})));
    Dims begin(dims.size(), 0);
    begin[axis] = offset;
    WEIR_RETURN_IF_ERROR(CheckFits(offset, context.output_type(i)));
    WriteIntegers(begin, *output);
    if (dims[axis] < 0 || offset > std::numeric_limits<int64_t>::max() - dims[axis]) {
      return absl::InvalidArgumentError(absl::StrCat("shape[", i, "] has dimension ", dims[axis]));
    }
    offset += dims[axis];
  }
  return absl::OkStatus();
}

absl::Status InvertPermutation(KernelContext& context) {
  const Tensor& input = context.input(0);
  if (input.shape().rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("x must be a vector, is ", input.ToString()));
  }
  const int64_t n = input.num_elements();
  std::vector<int64_t> inverse(n, -1);
  constexpr int64_t kBetweenLooks = 1 << 16;  // whether the step is over: some milliseconds
  for (int64_t begin = 0; begin < n; begin += kBetweenLooks) {
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    for (int64_t i = begin; i < std::min(n, begin + kBetweenLooks); ++i) {
      const int64_t to = IntegerAt(input, i);
      if (to < 0 || to >= n) {
        return absl::InvalidArgumentError(absl::StrCat("x[", i, "] = ", to, " is not in [0, ", n, ")"));
      }
      if (inverse[to] != -1) return absl::InvalidArgumentError(absl::StrCat(to, " is duplicated in x"));
      inverse[to] = i;
    }
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
  WriteIntegers(inverse, *output);
  return absl::OkStatus();
}

// As If and While take a condition.
absl::Status ToBool(KernelContext& context) {
  const Tensor& input = context.input(0);
  bool value = input.num_elements() > 0;
  if (input.shape().is_scalar() && input.dtype() == DType::kString) {
    value = !input.scalar<std::string>().empty();
  } else if (input.shape().is_scalar() && input.dtype() == DType::kBool) {
    value = input.scalar<bool>();
  } else if (input.shape().is_scalar()) {
    const bool is_number = !IsComplex(input.dtype()) && WithNumericType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      value = input.scalar<T>() != T(0);
    });
    if (!is_number) {
      return absl::InvalidArgumentError(
          absl::StrCat(DTypeName(input.dtype()), " cannot be converted to a boolean"));
    }
  }
  context.set_output(0, Tensor::Scalar(value));
  return absl::OkStatus();
}

}  // namespace

void RegisterShapesKernels(DeviceKernels& kernels) {
  kernels.Add<&ShapesOfInputs>("Shape");
  kernels.Add<&ShapesOfInputs>("ShapeN");
  kernels.Add<&Size>("Size");
  kernels.Add<&Rank>("Rank");
  kernels.Add<&ToBool>("ToBool");
  kernels.Add<&Reshape>("Reshape");
  kernels.Add<&ExpandDims>("ExpandDims");
  kernels.Add<Squeeze>("Squeeze");
  kernels.Add<&BroadcastGradientArgs>("BroadcastGradientArgs");
  kernels.Add<&BroadcastArgs>("BroadcastArgs");
  kernels.Add<&ConcatOffset>("ConcatOffset");
  kernels.Add<&InvertPermutation>("InvertPermutation");
}

}  // namespace weir
