#include "kernels/cpu/data/iterator_position.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status OfAnother(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the saved position is not one of this iterator's dataset: ", what));
}

}  // namespace

absl::StatusOr<Tensor> PositionReader::Next() {
  if (next_ == tensors_.size()) return OfAnother("it ends too early");
  return tensors_[next_++];
}

absl::StatusOr<int64_t> PositionReader::NextNumber() {
  WEIR_ASSIGN_OR_RETURN(const Tensor tensor, Next());
  if (tensor.dtype() == DType::kInt64 && tensor.num_elements() == 1) return tensor.scalar<int64_t>();
  return OfAnother(absl::StrCat(tensor.ToString(4), " where a number is wanted"));
}

absl::StatusOr<int64_t> PositionReader::NextNumber(int64_t min, int64_t max) {
  WEIR_ASSIGN_OR_RETURN(const int64_t number, NextNumber());
  if (number >= min && number <= max) return number;
  return OfAnother(absl::StrCat(number, " where a number in [", min, ", ", max, "] is wanted"));
}

absl::StatusOr<std::vector<Tensor>> PositionReader::NextElement(absl::Span<const DType> types,
                                                                bool may_be_empty) {
  WEIR_ASSIGN_OR_RETURN(const int64_t size, NextNumber(0, static_cast<int64_t>(types.size())));
  if (size == 0 && may_be_empty) return std::vector<Tensor>();
  if (size < static_cast<int64_t>(types.size())) {
    return OfAnother(absl::StrCat("an element of ", size, " tensors, not of ", types.size()));
  }
  std::vector<Tensor> element;
  for (const DType type : types) {
    WEIR_ASSIGN_OR_RETURN(Tensor tensor, Next());
    if (tensor.dtype() != type) {
      return OfAnother(absl::StrCat(tensor.ToString(4), " where a ", DTypeName(type), " is wanted"));
    }
    element.push_back(std::move(tensor));
  }
  return element;
}

absl::Status PositionReader::NextOutcome(absl::Span<const DType> types,
                                         absl::StatusOr<std::vector<Tensor>>* outcome) {
  WEIR_ASSIGN_OR_RETURN(const int64_t code, NextNumber(0, 16));
  if (code == 0) {
    WEIR_ASSIGN_OR_RETURN(*outcome, NextElement(types));
    return absl::OkStatus();
  }
  WEIR_ASSIGN_OR_RETURN(const Tensor message, Next());
  if (message.dtype() != DType::kString || message.num_elements() != 1) {
    return OfAnother(absl::StrCat(message.ToString(4), " where an error's text is wanted"));
  }
  *outcome = absl::Status(static_cast<absl::StatusCode>(code), message.scalar<std::string>());
  return absl::OkStatus();
}

absl::Status PositionReader::Accept() {
  if (next_ != tensors_.size()) {
    return OfAnother(absl::StrCat(tensors_.size() - next_, " values are left over"));
  }
  for (const std::function<void()>& change : changes_) change();
  return absl::OkStatus();
}

}  // namespace weir
