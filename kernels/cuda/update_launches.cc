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

}  // namespace weir
