#include "kernels/cpu/state/row_indices.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/integer_input.h"

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
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    const int64_t index = IntegerAt(indices, i);
    if (index >= 0 && index < num_rows) continue;
    return absl::InvalidArgumentError(absl::StrCat("indices", Coordinates(indices.shape(), i), " = ", index,
                                                   " is not in [0, ", num_rows, ")"));
  }
  return absl::OkStatus();
}

}  // namespace weir
