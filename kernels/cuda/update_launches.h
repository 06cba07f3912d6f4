// One launch of an optimizer for up to kMostUpdated variables.
//
// All arrays and scalars are in memory of the stream's device and have the rule's dtype. Nothing is updated
// where `place` has a note already, or where the rule refuses the scalars, of which it takes note.
// InvalidArgument when sizes or dtypes do not fit; then nothing is launched. Thread safety: that of the
// stream.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/training_bodies.h"

namespace weir {

struct UpdatedVariable {
  std::vector<Tensor> arrays;  // the variable and its slots, in the rule's order; updated in place
  Tensor gradient;
};

// Whether every variable has `num_arrays` arrays of the dtype, of the gradient's size.
absl::Status CheckUpdated(absl::string_view op, DType dtype, int num_arrays,
                          absl::Span<const UpdatedVariable> variables);
// Whether there are `count` scalars of the dtype.
absl::Status CheckScalars(absl::string_view op, DType dtype, int count, absl::Span<const Tensor> scalars);

// Rule and the op must be a pair of VisitRules (training_bodies.h). `scalars`: the rule's, in its order.
template <typename Rule>
absl::Status LaunchUpdates(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                           absl::Span<const Tensor> scalars, bool flag,
                           absl::Span<const UpdatedVariable> variables,
                           const cuda::DataErrorPlace& place = {}) {
  using T = typename Rule::Number;
  WEIR_RETURN_IF_ERROR(CheckUpdated(op, DTypeOf<T>, Rule::kArrays, variables));
  WEIR_RETURN_IF_ERROR(CheckScalars(op, DTypeOf<T>, Rule::kScalars, scalars));
  cuda::UpdateScalars<T> numbers = {.at = {}, .flag = flag};
  for (int i = 0; i < Rule::kScalars; ++i) numbers.at[i] = static_cast<const T*>(scalars[i].data());
  size_t next = 0;
  while (next < variables.size()) {
    cuda::UpdatedArrays<T> updated = {};
    for (; next < variables.size() && updated.count < cuda::kMostUpdated; ++next) {
      const UpdatedVariable& variable = variables[next];
      const int64_t size = variable.gradient.num_elements();
      if (size == 0) continue;
      const int place = updated.count++;
      for (int a = 0; a < Rule::kArrays; ++a) {
        updated.arrays[a][place] = static_cast<T*>(const_cast<void*>(variable.arrays[a].data()));
      }
      updated.gradients[place] = static_cast<const T*>(variable.gradient.data());
      updated.sizes[place] = size;
      updated.first_chunk[place + 1] = updated.first_chunk[place] + (size - 1) / cuda::kUpdateChunk + 1;
    }
    if (updated.count == 0) continue;
    const CudaGrid grid = GridOverBlocks(stream, updated.first_chunk[updated.count]);
    WEIR_RETURN_IF_ERROR(LaunchKernel(stream, kernels, op, {DTypeOf<T>}, grid, updated, numbers, place));
  }
  return absl::OkStatus();
}

}  // namespace weir
