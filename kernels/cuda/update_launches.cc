#include "kernels/cuda/update_launches.h"

namespace weir {

absl::Status CheckUpdated(absl::string_view op, DType dtype, int num_arrays,
                          absl::Span<const UpdatedVariable> variables) {
  for (size_t i = 0; i < variables.size(); ++i) {
    const UpdatedVariable& variable = variables[i];
    const auto fits = [&](const Tensor& array) {
      return array.dtype() == dtype && array.num_elements() == variable.gradient.num_elements();
    };
    if (variable.arrays.size() != static_cast<size_t>(num_arrays) || variable.gradient.dtype() != dtype ||
        !std::all_of(variable.arrays.begin(), variable.arrays.end(), fits)) {
      return absl::InvalidArgumentError(absl::StrCat(op, ": variable ", i, " wants ", num_arrays,
                                                     " arrays of ", DTypeName(dtype), " of the gradient's ",
                                                     variable.gradient.num_elements(), " elements"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScalars(absl::string_view op, DType dtype, int count, absl::Span<const Tensor> scalars) {
  const auto fits = [&](const Tensor& scalar) {
    return scalar.dtype() == dtype && scalar.num_elements() == 1;
  };
  if (scalars.size() == static_cast<size_t>(count) && std::all_of(scalars.begin(), scalars.end(), fits)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(op, " wants ", count, " scalars of ", DTypeName(dtype)));
}

}  // namespace weir
