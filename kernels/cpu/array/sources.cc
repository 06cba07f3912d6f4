// Constants, placeholders, identities and tensors filled with one value.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/string_room.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class Const final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const Tensor& value = construction.attr<Tensor>("value");
    if (value.dtype() != construction.output_type(0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("attr value is ", TypeString(value.dtype(), value.shape()), ", but attr dtype is ",
                       DTypeName(construction.output_type(0))));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor on_device, construction.device().FromHost(value));
    return std::unique_ptr<Kernel>(new Const(std::move(on_device)));
  }

  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, value_);
    return absl::OkStatus();
  }

 private:
  explicit Const(Tensor value) : value_(std::move(value)) {}
  const Tensor value_;
};

class DeviceIndex final : public Kernel {
 public:
  explicit DeviceIndex(const KernelConstruction& construction) {
    const auto& names = construction.attr<std::vector<std::string>>("device_names");
    const auto found = std::find(names.begin(), names.end(), construction.device().type());
    index_ = Tensor::Scalar(static_cast<int32_t>(found - names.begin()));
  }

  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, index_);
    return absl::OkStatus();
  }

 private:
  Tensor index_;
};

// Runs only where nothing was fed.
class Placeholder final : public Kernel {
 public:
  explicit Placeholder(const KernelConstruction& construction)
      : message_(absl::StrCat("You must feed a value for placeholder tensor '", construction.node().name(),
                              "' with dtype ", DTypeName(construction.output_type(0)), " and shape ",
                              construction.attr<PartialShape>("shape").ToString())) {}
  absl::Status Compute(KernelContext&) override { return absl::InvalidArgumentError(message_); }

 private:
  const std::string message_;
};

absl::Status PassThrough(KernelContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) context.set_output(i, context.input(i));
  return absl::OkStatus();
}

absl::Status DoNothing(KernelContext&) { return absl::OkStatus(); }

absl::Status Fill(KernelContext& context) {
  const Tensor& value = context.input(1);
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(context.input(0), "dims"));
  if (value.num_elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("value must be a scalar, is ", value.ToString()));
  }
  WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, value, shape.num_elements()));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  FillElements(value, *output, 0, output->num_elements());
  return absl::OkStatus();
}

// Zeros also where nobody asks for them: what other sessions left in memory is not for this one.
absl::Status Empty(KernelContext& context) {
  const Tensor& dims = context.input(0);
  if (dims.shape().rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape must be a vector of int32, got shape ", dims.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(dims, "shape"));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  ClearElements(*output, 0, output->num_elements());
  return absl::OkStatus();
}

absl::Status ZerosLike(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, context.input(0).shape()));
  ClearElements(*output, 0, output->num_elements());
  return absl::OkStatus();
}

absl::Status OnesLike(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, context.input(0).shape()));
  const auto fill = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::fill_n(output->flat<T>().begin(), output->num_elements(), T(1));
  };
  if (output->dtype() == DType::kBool)
    fill(TypeTag<bool>());
  else
    WithNumericType(output->dtype(), fill);
  return absl::OkStatus();
}

absl::Status BadRange(const Tensor& start, const Tensor& limit, const Tensor& delta, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("range from ", start.ToString(), " to ", limit.ToString(),
                                                 " by ", delta.ToString(), ": ", why));
}

// The size of the result; negative when that is no sensible number. Of floats it is computed in their own
// type, as TensorFlow does: 0.3 / 0.1 is 3 in float, and above 3 in double.
template <typename T>
int64_t RangeSize(T start, T limit, T delta) {
  constexpr int64_t kNone = -1;
  if constexpr (std::is_integral_v<T>) {
    // Distances are taken as unsigned numbers: limit - start may not fit in T.
    if (delta > 0 ? start >= limit : start <= limit) return 0;
    const uint64_t distance =
        delta > 0 ? uint64_t(limit) - uint64_t(start) : uint64_t(start) - uint64_t(limit);
    const uint64_t step = delta > 0 ? uint64_t(delta) : uint64_t{0} - uint64_t(delta);
    const uint64_t size = distance / step + (distance % step != 0);
    return size > uint64_t(std::numeric_limits<int64_t>::max()) ? kNone : static_cast<int64_t>(size);
  } else {
    const auto distance = T(limit - start);
    const double size = std::ceil(static_cast<double>(T(distance / delta)));
    return size >= 0 && size < 9e18 ? static_cast<int64_t>(size) : kNone;
  }
}

template <typename T>
absl::Status RangeOf(KernelContext& context) {
  for (int i = 0; i < 3; ++i) {
    if (context.input(i).num_elements() == 1) continue;
    return BadRange(context.input(0), context.input(1), context.input(2), "each must be a scalar");
  }
  const T start = context.input(0).scalar<T>(), limit = context.input(1).scalar<T>();
  const T delta = context.input(2).scalar<T>();
  const auto bad = [&](absl::string_view why) {
    return BadRange(context.input(0), context.input(1), context.input(2), why);
  };
  if (delta == T(0)) return bad("Requires delta != 0");
  if (delta > T(0) && start > limit) return bad("Requires start <= limit when delta > 0");
  if (delta < T(0) && start < limit) return bad("Requires start >= limit when delta < 0");
  const int64_t size = RangeSize(start, limit, delta);
  if (size < 0) return bad("the number of elements cannot be represented");
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({size})));
  T* values = output->template flat<T>().data();
  for (int64_t i = 0; i < size; ++i) {
    if constexpr (std::is_integral_v<T>)
      values[i] = static_cast<T>(uint64_t(start) + uint64_t(i) * uint64_t(delta));
    else
      values[i] = T(start + T(T(i) * delta));
  }
  return absl::OkStatus();
}

absl::Status Range(KernelContext& context) {
  absl::Status status;
  WithNumericType(context.output_type(0), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (!std::is_same_v<T, std::complex<float>> && !std::is_same_v<T, std::complex<double>>) {
      status = RangeOf<T>(context);
    }
  });
  return status;
}

}  // namespace

void RegisterSourcesKernels(DeviceKernels& kernels) {
  KernelRegistry& registry = kernels.registry();
  const std::string& device_type = kernels.device_type();
  registry.Register({.op = "Const",
                     .device_type = std::string(device_type),
                     .types = {{"dtype", AllDTypes()}},
                     .create = Const::Create});
  kernels.Add<DeviceIndex>("DeviceIndex");
  kernels.Add<Placeholder>("Placeholder");
  kernels.Add<&PassThrough>("PlaceholderWithDefault");
  kernels.Add<&PassThrough>("Identity");
  kernels.Add<&PassThrough>("IdentityN");
  kernels.Add<&PassThrough>("StopGradient");
  kernels.Add<&DoNothing>("NoOp");
  kernels.Add<&Fill>("Fill", {{"T", AllDTypes()}});
  kernels.Add<&Empty>("Empty", {{"dtype", AllDTypes()}});
  kernels.Add<&ZerosLike>("ZerosLike", {{"T", AllDTypes()}});
  kernels.Add<&OnesLike>("OnesLike", {{"T", CountableDTypes()}});
  kernels.Add<&Range>("Range", {{"Tidx", RealDTypes()}});
}

}  // namespace weir
