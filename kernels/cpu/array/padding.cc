// Pad, PadV2, MirrorPad and its gradient.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/string_room.h"
#include "kernels/cpu/widened.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

struct Paddings {
  Dims before, after;
};

absl::StatusOr<Paddings> ReadPaddings(const Tensor& paddings, const Shape& input) {
  const int rank = input.rank();
  if (paddings.shape() != Shape({rank, 2})) {
    return absl::InvalidArgumentError(
        absl::StrCat("paddings must be [", rank, ",2], is ", paddings.shape().ToString()));
  }
  Paddings result{Dims(rank), Dims(rank)};
  for (int i = 0; i < rank; ++i) {
    result.before[i] = IntegerAt(paddings, 2 * i);
    result.after[i] = IntegerAt(paddings, 2 * i + 1);
    int64_t padded = 0;
    if (result.before[i] < 0 || result.after[i] < 0 ||
        __builtin_add_overflow(result.before[i], result.after[i], &padded) ||
        __builtin_add_overflow(padded, input.dim(i), &padded)) {
      return absl::InvalidArgumentError(absl::StrCat("paddings[", i, "] = (", result.before[i], ", ",
                                                     result.after[i], ") for a dimension of ", input.dim(i)));
    }
  }
  return result;
}

absl::StatusOr<Shape> PaddedShape(const Shape& input, const Paddings& paddings) {
  Dims dims(input.rank());
  for (int i = 0; i < input.rank(); ++i) dims[i] = paddings.before[i] + input.dim(i) + paddings.after[i];
  return Shape::FromDims(dims);
}

// Where the input begins in the padded tensor.
StridedView InnerView(const Shape& padded, const Paddings& paddings) {
  StridedView view{0, RowMajorStrides(padded.dims())};
  for (int i = 0; i < padded.rank(); ++i) view.offset += paddings.before[i] * view.strides[i];
  return view;
}

// PadV2 has the constant as its input 2.
absl::Status Pad(KernelContext& context) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(const Paddings paddings, ReadPaddings(context.input(1), input.shape()));
  const bool has_constant = context.num_inputs() == 3;
  if (has_constant && !context.input(2).shape().is_scalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat("constant_values must be a scalar, is ", context.input(2).shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, PaddedShape(input.shape(), paddings));
  if (has_constant) {
    WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, context.input(2), shape.num_elements()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (has_constant) {
    FillElements(context.input(2), *output, 0, output->num_elements());
  } else {
    ClearElements(*output, 0, output->num_elements());
  }
  if (input.num_elements() == 0) return absl::OkStatus();
  StridedCopy(input.shape().dims(), input, {0, RowMajorStrides(input.shape().dims())}, *output,
              InnerView(shape, paddings), context.threads());
  return absl::OkStatus();
}

class Mirror {
 public:
  explicit Mirror(const KernelConstruction& construction)
      : mode_(construction.attr<std::string>("mode")), border_(mode_ == "SYMMETRIC" ? 0 : 1) {}

  absl::Status Check(const Shape& inner, const Paddings& paddings) const {
    for (int i = 0; i < inner.rank(); ++i) {
      const int64_t most = std::max<int64_t>(inner.dim(i) - border_, 0);
      if (paddings.before[i] <= most && paddings.after[i] <= most) continue;
      return absl::InvalidArgumentError(absl::StrCat("paddings[", i, "] = (", paddings.before[i], ", ",
                                                     paddings.after[i], ") are too long for mode ", mode_,
                                                     " and a dimension of ", inner.dim(i)));
    }
    return absl::OkStatus();
  }

  // Which of `length` elements is at `position` of the padded dimension.
  int64_t Source(int64_t position, int64_t before, int64_t length) const {
    int64_t at = position - before;
    if (at < 0) at = border_ - 1 - at;
    if (at >= length) at = 2 * length - 1 - border_ - at;
    return at;
  }

  // Calls f(position in the padded tensor, position in the inner one that it mirrors) for every element.
  template <typename F>
  void ForEachElement(const Shape& padded, const Shape& inner, const Paddings& paddings, const F& f) const {
    const int rank = padded.rank();
    const Dims strides = RowMajorStrides(inner.dims());
    Dims index(rank, 0);
    for (int64_t position = 0; position < padded.num_elements(); ++position) {
      int64_t source = 0;
      for (int i = 0; i < rank; ++i)
        source += strides[i] * Source(index[i], paddings.before[i], inner.dim(i));
      f(position, source);
      for (int i = rank - 1; i >= 0 && ++index[i] == padded.dim(i); --i) index[i] = 0;
    }
  }

 private:
  const std::string mode_;
  const int64_t border_;  // elements at the border that are not repeated
};

class MirrorPad final : public Kernel {
 public:
  explicit MirrorPad(const KernelConstruction& construction) : mirror_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const Paddings paddings, ReadPaddings(context.input(1), input.shape()));
    WEIR_RETURN_IF_ERROR(mirror_.Check(input.shape(), paddings));
    WEIR_ASSIGN_OR_RETURN(const Shape shape, PaddedShape(input.shape(), paddings));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WithElementType(input.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      const T* const from = static_cast<const T*>(input.data());
      T* const to = static_cast<T*>(output->data());
      mirror_.ForEachElement(shape, input.shape(), paddings,
                             [&](int64_t position, int64_t source) { to[position] = from[source]; });
    });
    return absl::OkStatus();
  }

 private:
  const Mirror mirror_;
};

template <typename T>
class MirrorPadGrad final : public Kernel {
 public:
  explicit MirrorPadGrad(const KernelConstruction& construction) : mirror_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    using C = ComputeType<T>;
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const Paddings paddings, ReadPaddings(context.input(1), input.shape()));
    Dims dims(input.shape().rank());
    for (int i = 0; i < input.shape().rank(); ++i) {
      dims[i] = input.shape().dim(i) - paddings.before[i] - paddings.after[i];
      if (dims[i] >= 0) continue;
      return absl::InvalidArgumentError(absl::StrCat("paddings[", i, "] = (", paddings.before[i], ", ",
                                                     paddings.after[i], ") are more than the dimension of ",
                                                     input.shape().dim(i)));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_RETURN_IF_ERROR(mirror_.Check(shape, paddings));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(Tensor wide, WideOutput(context, *output));
    ClearElements(wide, 0, wide.num_elements());
    const T* const from = input.flat<T>().data();
    C* const to = wide.flat<C>().data();
    mirror_.ForEachElement(input.shape(), shape, paddings, [&](int64_t position, int64_t source) {
      to[source] = elementwise::Add()(to[source], C(from[position]));
    });
    Narrow(context, wide, output);
    return absl::OkStatus();
  }

 private:
  const Mirror mirror_;
};

}  // namespace

void RegisterPaddingKernels(DeviceKernels& kernels) {
  kernels.Add<&Pad>("Pad", {{"T", AllDTypes()}});
  kernels.Add<&Pad>("PadV2", {{"T", AllDTypes()}});
  kernels.Add<MirrorPad>("MirrorPad", {{"T", AllDTypes()}});
  kernels.Add<MirrorPadGrad>(
      "MirrorPadGrad", Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                             uint16_t, uint32_t, uint64_t, std::complex<float>, std::complex<double>>("T"));
}

}  // namespace weir
