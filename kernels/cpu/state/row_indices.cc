#include "kernels/cpu/state/row_indices.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/with_indices.h"

namespace weir {
namespace {

// "[0,3]": the coordinates of the element at a position of a row-major array; nothing for a scalar.
std::string Coordinates(const Shape& shape, int64_t position) {
  if (shape.is_scalar()) return "";
  Dims at(shape.rank());
  for (int i = shape.rank() - 1; i >= 0; --i) {
    at[i] = position % shape.dim(i);
    position /= shape.dim(i);
  }
  return absl::StrCat("[", absl::StrJoin(at, ","), "]");
}

}  // namespace

absl::Status CheckRowIndices(const Tensor& indices, int64_t num_rows) {
  const int64_t count = indices.num_elements();
  const int64_t bad = WithIndices(indices, [&](const auto* values) {
    int64_t i = 0;
    while (i < count && static_cast<uint64_t>(values[i]) < static_cast<uint64_t>(num_rows)) ++i;
    return i;
  });
  if (bad == count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("indices", Coordinates(indices.shape(), bad), " = ",
                                                 IntegerAt(indices, bad), " is not in [0, ", num_rows, ")"));
}

}  // namespace weir
