// Ops that make vectors or work on them: Bincount, LinSpace, Cross.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/widened.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// bins[v] is how often v occurs in arr, or the sum of the weights where it does. Values of `size` and more
// are not counted.
template <typename T>
absl::Status Bincount(KernelContext& context) {
  const Tensor& values = context.input(0);
  const Tensor& weights = context.input(2);
  WEIR_ASSIGN_OR_RETURN(const int64_t size, ReadInteger(context.input(1), "size"));
  if (size < 0) return absl::InvalidArgumentError(absl::StrCat("size is ", size, ", must not be negative"));
  if (weights.num_elements() > 0 && weights.num_elements() != values.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("weights must be empty or have as many elements as arr, ",
                                                   values.shape().ToString(), ", is ",
                                                   weights.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * bins, context.AllocateOutput(0, Shape({size})));
  const absl::Span<T> counts = bins->flat<T>();
  std::fill(counts.begin(), counts.end(), T(0));
  const absl::Span<const int32_t> places = values.flat<int32_t>();
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("arr must not be negative, has ", places[i], " at ", i));
    }
    if (places[i] >= size) continue;
    T& count = counts[places[i]];
    count = elementwise::Add()(count, weights.num_elements() > 0 ? weights.flat<T>()[i] : T(1));
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<ComputeType<T>> ScalarOf(KernelContext& context, int input, absl::string_view name) {
  const Tensor& tensor = context.input(input);
  if (tensor.shape().rank() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " must be a scalar, is ", tensor.shape().ToString()));
  }
  return static_cast<ComputeType<T>>(tensor.flat<T>()[0]);
}

// `num` numbers from start to stop, at equal distances.
template <typename T>
absl::Status LinSpace(KernelContext& context) {
  using Wide = ComputeType<T>;
  WEIR_ASSIGN_OR_RETURN(const Wide start, ScalarOf<T>(context, 0, "start"));
  WEIR_ASSIGN_OR_RETURN(const Wide stop, ScalarOf<T>(context, 1, "stop"));
  WEIR_ASSIGN_OR_RETURN(const int64_t num, ReadInteger(context.input(2), "num"));
  if (num <= 0) return absl::InvalidArgumentError(absl::StrCat("num is ", num, ", must be positive"));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({num})));
  const absl::Span<T> numbers = output->flat<T>();
  numbers[0] = T(start);
  if (num == 1) return absl::OkStatus();
  const Wide step = (stop - start) / static_cast<Wide>(num - 1);
  for (int64_t i = 1; i < num - 1; ++i) numbers[i] = T(start + step * static_cast<Wide>(i));
  numbers[num - 1] = T(stop);
  return absl::OkStatus();
}

// The cross products of vectors along the last axis, which has 3 elements.
template <typename T>
absl::Status Cross(KernelContext& context) {
  using namespace elementwise;  // NOLINT: arithmetic that wraps
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(1);
  const int rank = a.shape().rank();
  if (a.shape() != b.shape() || rank == 0 || a.shape().dim(rank - 1) != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("both inputs must have one shape with 3 elements in the last dimension: a is ",
                     a.shape().ToString(), ", b is ", b.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, a.shape()));
  using Wide = ComputeType<T>;
  const T* x = a.flat<T>().data();
  const T* y = b.flat<T>().data();
  T* z = output->flat<T>().data();
  const auto minor = [&](int64_t at, int i, int j) {
    const auto product = [&](int k, int l) {
      return Mul()(static_cast<Wide>(x[at + k]), static_cast<Wide>(y[at + l]));
    };
    return T(Sub()(product(i, j), product(j, i)));
  };
  for (int64_t at = 0; at < a.num_elements(); at += 3) {
    z[at] = minor(at, 1, 2);
    z[at + 1] = minor(at, 2, 0);
    z[at + 2] = minor(at, 0, 1);
  }
  return absl::OkStatus();
}

template <typename T>
using BincountKernel = FunctionKernel<Bincount<T>>;
template <typename T>
using LinSpaceKernel = FunctionKernel<LinSpace<T>>;
template <typename T>
using CrossKernel = FunctionKernel<Cross<T>>;

}  // namespace

void RegisterVectorsKernels(DeviceKernels& kernels) {
  kernels.Add<BincountKernel>("Bincount", Types<int32_t, int64_t, float, double>("T"));
  kernels.Add<LinSpaceKernel>("LinSpace", Types<float, double, Half, Bfloat16>("T"));
  kernels.Add<CrossKernel>("Cross", Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t,
                                          uint8_t, uint16_t, uint32_t, uint64_t>("T"));
}

}  // namespace weir
