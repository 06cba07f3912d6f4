#include "kernels/cuda/choice_launches.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/choice_bodies.h"
#include "kernels/cuda/stored_words.h"

namespace weir {
namespace {

std::string TextOf(const Tensor& tensor) {
  return absl::StrCat(DTypeName(tensor.dtype()), tensor.shape().ToString());
}

// Matrices of the inputs from `first` on, up to cuda::kMostJoined that have elements; and the next input.
template <typename Word>
size_t Gather(absl::Span<const Tensor> inputs, size_t next, int64_t rows,
              cuda::JoinedMatrices<Word>& joined) {
  joined.count = 0;
  for (; next < inputs.size() && joined.count < cuda::kMostJoined; ++next) {
    const auto words = static_cast<int64_t>(inputs[next].num_bytes() / sizeof(Word));
    if (words == 0) continue;
    joined.from[joined.count] = static_cast<const Word*>(inputs[next].data());
    joined.ends[joined.count] = words / rows + (joined.count == 0 ? 0 : joined.ends[joined.count - 1]);
    ++joined.count;
  }
  return next;
}

template <typename Word>
absl::Status JoinAs(CudaStream& stream, const CudaKernelTable& kernels, absl::Span<const Tensor> inputs,
                    int64_t rows, Tensor& output) {
  cuda::JoinedMatrices<Word> joined = {};
  joined.width = static_cast<int64_t>(output.num_bytes() / sizeof(Word)) / rows;
  for (size_t next = 0; next < inputs.size();) {
    next = Gather(inputs, next, rows, joined);
    if (joined.count == 0) break;
    const int64_t span = joined.ends[joined.count - 1], count = rows * span;
    WEIR_RETURN_IF_ERROR(LaunchKernel(stream, kernels, "Join", {DTypeOf<Word>},
                                      GridOverElements(stream, count), joined, output.data(), count));
    joined.first += span;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LaunchCompare(CudaStream& stream, const CudaKernelTable& kernels, absl::string_view op,
                           const Tensor& x, const Tensor& y, Tensor& z) {
  const int64_t count = z.num_elements();
  const auto fits = [&](const Tensor& operand) {
    return operand.dtype() == x.dtype() && (operand.num_elements() == count || operand.num_elements() == 1);
  };
  if (!fits(x) || !fits(y) || z.dtype() != DType::kBool) {
    return absl::InvalidArgumentError(
        absl::StrCat(op, ": ", TextOf(x), " and ", TextOf(y), " do not give ", TextOf(z)));
  }
  if (count == 0) return absl::OkStatus();
  const int64_t x_step = x.num_elements() == count, y_step = y.num_elements() == count;
  return LaunchKernel(stream, kernels, op, {x.dtype()}, GridOverElements(stream, count), x.data(), x_step,
                      y.data(), y_step, z.data(), count);
}

absl::Status LaunchLogicalNot(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& x,
                              Tensor& y) {
  const int64_t count = x.num_elements();
  if (x.dtype() != DType::kBool || y.dtype() != DType::kBool || y.num_elements() != count) {
    return absl::InvalidArgumentError(absl::StrCat("LogicalNot: ", TextOf(x), " does not give ", TextOf(y)));
  }
  if (count == 0) return absl::OkStatus();
  return LaunchKernel(stream, kernels, "LogicalNot", {DType::kBool}, GridOverElements(stream, count),
                      x.data(), y.data(), count);
}

absl::Status LaunchSelect(CudaStream& stream, const CudaKernelTable& kernels, const Tensor& condition,
                          const Tensor& yes, const Tensor& no, Tensor& to) {
  const int64_t count = to.num_elements(), choices = condition.num_elements();
  const auto fits = [&](const Tensor& operand) {
    return operand.dtype() == to.dtype() && (operand.num_elements() == count || operand.num_elements() == 1);
  };
  const DType stored = StoredBySize(to.dtype());
  const bool chooses =
      condition.dtype() == DType::kBool && (count == 0 || (choices > 0 && count % choices == 0));
  if (!fits(yes) || !fits(no) || !chooses || stored == DType::kInvalid) {
    return absl::InvalidArgumentError(absl::StrCat("Select: ", TextOf(condition), ", ", TextOf(yes), " and ",
                                                   TextOf(no), " do not give ", TextOf(to)));
  }
  if (count == 0) return absl::OkStatus();
  const cuda::ChoiceSteps steps = {.condition = choices != 1,
                                   .yes = yes.num_elements() == count,
                                   .no = no.num_elements() == count,
                                   .per_choice = count / choices};
  return LaunchKernel(stream, kernels, "Select", {stored}, GridOverElements(stream, count), condition.data(),
                      yes.data(), no.data(), to.data(), count, steps);
}

absl::Status LaunchJoin(CudaStream& stream, const CudaKernelTable& kernels, absl::Span<const Tensor> inputs,
                        int64_t rows, Tensor& output) {
  int64_t elements = 0;
  bool fits = IsPlainBytes(output.dtype()) && (rows > 0 || output.num_elements() == 0);
  uintptr_t places = reinterpret_cast<uintptr_t>(output.data());
  for (const Tensor& input : inputs) {
    fits = fits && input.dtype() == output.dtype() && (rows == 0 || input.num_elements() % rows == 0);
    elements += input.num_elements();
    if (!fits || input.num_elements() == 0) continue;
    places |= reinterpret_cast<uintptr_t>(input.data()) | input.num_bytes() / static_cast<size_t>(rows);
  }
  if (!fits || elements != output.num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Join: ", inputs.size(), " matrices of ", rows, " rows do not give ", TextOf(output)));
  }
  if (elements == 0) return absl::OkStatus();
  switch (WordOf(places)) {
    case DType::kUint64:
      return JoinAs<uint64_t>(stream, kernels, inputs, rows, output);
    case DType::kUint32:
      return JoinAs<uint32_t>(stream, kernels, inputs, rows, output);
    case DType::kUint16:
      return JoinAs<uint16_t>(stream, kernels, inputs, rows, output);
    default:
      return JoinAs<uint8_t>(stream, kernels, inputs, rows, output);
  }
}

}  // namespace weir
