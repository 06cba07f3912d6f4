// DataFormatDimMap, DataFormatVecPermute.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Attrs src_format and dst_format, each letter of one once in the other.
struct Formats {
  std::string source, target;
};

bool HasEachLetterOnce(absl::string_view format, absl::string_view other) {
  for (size_t i = 0; i < format.size(); ++i) {
    if (format.find(format[i], i + 1) != format.npos || other.find(format[i]) == other.npos) return false;
  }
  return true;
}

absl::StatusOr<Formats> ReadFormats(const KernelConstruction& construction) {
  Formats formats = {construction.attr<std::string>("src_format"),
                     construction.attr<std::string>("dst_format")};
  if (formats.source.size() != 4 && formats.source.size() != 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("Source format must be of length 4 or 5, received src_format = ", formats.source));
  }
  if (formats.target.size() != 4 && formats.target.size() != 5) {
    return absl::InvalidArgumentError(
        absl::StrCat("Destination format must be of length 4 or 5, received dst_format = ", formats.target));
  }
  if (formats.source.size() != formats.target.size() || !HasEachLetterOnce(formats.source, formats.target)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Destination and source format must determine a permutation, got ", formats.source,
                     " and ", formats.target));
  }
  return formats;
}

template <typename T>
class DataFormatDimMap final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const Formats formats, ReadFormats(construction));
    std::vector<T> new_dims;
    for (const char letter : formats.source) new_dims.push_back(static_cast<T>(formats.target.find(letter)));
    return std::make_unique<DataFormatDimMap>(std::move(new_dims));
  }
  explicit DataFormatDimMap(std::vector<T> new_dims) : new_dims_(std::move(new_dims)) {}

  // As in TensorFlow: numbers beyond the rank count on from the first dimension, negative ones from the last.
  // Of those below -rank only multiples of the rank are the first dimension; the others are all the last.
  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * y, context.ForwardOrAllocateOutput({0}, 0, x.shape()));
    const auto rank = static_cast<T>(new_dims_.size());
    const T* dim = x.flat<T>().data();
    T* new_dim = y->flat<T>().data();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const T old_dim = (dim[i] < 0 ? dim[i] + rank : dim[i]) % rank;
      new_dim[i] = old_dim < 0 ? new_dims_.back() : new_dims_[old_dim];
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<T> new_dims_;
};

// The letters of dimensions of space.
absl::StatusOr<std::string> DimensionsOfSpace(absl::string_view format) {
  const absl::string_view wanted = format.size() == 5 ? "DHW" : "HW";
  std::string found;
  for (const char letter : format) {
    if (wanted.find(letter) != wanted.npos) found.push_back(letter);
  }
  if (found.size() == wanted.size()) return found;
  return absl::InvalidArgumentError(
      absl::StrCat("Format specifier must contain ",
                   format.size() == 5 ? "D, H and W for 3D case" : "H and W for 2D case", ", is ", format));
}

template <typename T>
class DataFormatVecPermute final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(Formats formats, ReadFormats(construction));
    return std::make_unique<DataFormatVecPermute>(std::move(formats));
  }
  explicit DataFormatVecPermute(Formats formats) : formats_(std::move(formats)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    WEIR_RETURN_IF_ERROR(Check(x.shape()));
    Formats order = formats_;
    if (x.shape().dim(0) < static_cast<int64_t>(order.source.size())) {
      WEIR_ASSIGN_OR_RETURN(order.source, DimensionsOfSpace(formats_.source));
      WEIR_ASSIGN_OR_RETURN(order.target, DimensionsOfSpace(formats_.target));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * y, context.AllocateOutput(0, x.shape()));
    const int64_t per_row = x.shape().rank() == 2 ? 2 : 1;
    const T* rows = x.flat<T>().data();
    T* target = y->flat<T>().data();
    for (const char letter : order.target) {
      const T* row = rows + static_cast<int64_t>(order.source.find(letter)) * per_row;
      target = std::copy(row, row + per_row, target);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Check(const Shape& x) const {
    const auto rank = static_cast<int64_t>(formats_.source.size());
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(what, ", but got shape ", x.ToString()));
    };
    if (x.rank() != 1 && x.rank() != 2) return wrong("input must be a vector or 2D tensor");
    if (x.dim(0) != rank && x.dim(0) != rank - 2) {
      return wrong(absl::StrCat(x.rank() == 1 ? "1D input" : "First dimension of 2D input",
                                " must be of size ", rank - 2, " or ", rank));
    }
    if (x.rank() == 2 && x.dim(1) != 2) return wrong("Second dimension of 2D input must be of size 2");
    return absl::OkStatus();
  }

  const Formats formats_;
};

}  // namespace

void RegisterDataFormatsKernels(DeviceKernels& kernels) {
  kernels.Add<DataFormatDimMap>("DataFormatDimMap", Types<int32_t, int64_t>("T"));
  kernels.Add<DataFormatVecPermute>("DataFormatVecPermute", Types<int32_t, int64_t>("T"));
}

}  // namespace weir
