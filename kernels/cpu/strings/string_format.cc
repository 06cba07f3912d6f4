// StringFormat: tensors as people read them, long dimensions shortened.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// The shortest of two lengths that gives the number back, without the zeros at its end.
template <typename T>
std::string FloatText(T value) {
  constexpr int kDigits = std::is_same_v<T, float> ? 6 : 15;
  constexpr int kAllDigits = std::is_same_v<T, float> ? 9 : 17;
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", kDigits, static_cast<double>(value));
  T read = 0;
  if constexpr (std::is_same_v<T, float>) {
    (void)absl::SimpleAtof(text, &read);
  } else {
    (void)absl::SimpleAtod(text, &read);
  }
  if (read != value && value == value) {
    std::snprintf(text, sizeof(text), "%.*g", kAllDigits, static_cast<double>(value));
  }
  return text;
}

std::string ElementText(const Tensor& tensor, int64_t index) {
  if (tensor.dtype() == DType::kString) {
    return absl::StrCat("\"", absl::CEscape(tensor.flat<std::string>()[index]), "\"");
  }
  if (tensor.dtype() == DType::kBool) return tensor.flat<bool>()[index] ? "1" : "0";
  std::string text = "?";
  WithNumericType(tensor.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_same_v<T, double>) {
      text = FloatText(tensor.flat<T>()[index]);
    } else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> ||
                         std::is_same_v<T, Bfloat16>) {
      text = FloatText(static_cast<float>(tensor.flat<T>()[index]));
    } else if constexpr (std::is_integral_v<T>) {
      text = absl::StrCat(+tensor.flat<T>()[index]);
    }
  });
  return text;
}

// Writes a tensor with at most `limit` elements at both ends of each dimension.
class TensorText {
 public:
  TensorText(const Tensor& tensor, int64_t limit, StringBudget& budget)
      : tensor_(tensor), shape_(tensor.shape()), budget_(budget) {
    limit_ = std::min(limit < 0 ? tensor.num_elements() : limit, tensor.num_elements());
  }

  absl::Status AppendTo(std::string& text) {
    if (!shape_.is_scalar()) return AppendDimension(0, 0, text);
    if (limit_ == 0) return Append("...", text);
    return Append(ElementText(tensor_, 0), text);
  }

 private:
  absl::Status Append(absl::string_view part, std::string& text) {
    WEIR_RETURN_IF_ERROR(budget_.Take(static_cast<int64_t>(part.size())));
    absl::StrAppend(&text, part);
    return absl::OkStatus();
  }

  // What stands between two elements of a dimension: a blank between numbers, line ends further out.
  std::string Spacing(int dim) const {
    if (dim == shape_.rank() - 1) return " ";
    return std::string(shape_.rank() - dim - 1, '\n') + std::string(dim + 1, ' ');
  }

  absl::Status AppendDimension(int dim, int64_t begin, std::string& text) {
    if (dim == shape_.rank()) return Append(ElementText(tensor_, begin), text);
    int64_t stride = 1;
    for (int i = dim + 1; i < shape_.rank(); ++i) stride *= shape_.dim(i);
    const int64_t count = shape_.dim(dim);
    WEIR_RETURN_IF_ERROR(Append("[", text));
    for (int64_t i = 0; i < std::min(limit_, count); ++i) {
      if (i > 0) WEIR_RETURN_IF_ERROR(Append(Spacing(dim), text));
      WEIR_RETURN_IF_ERROR(AppendDimension(dim + 1, begin + i * stride, text));
    }
    if (count / 2 > limit_ || (count / 2 == limit_ && count % 2 == 1)) {
      WEIR_RETURN_IF_ERROR(Append(Spacing(dim) + "...", text));
    }
    for (int64_t i = std::max(limit_, count - limit_); i < count; ++i) {
      WEIR_RETURN_IF_ERROR(Append(Spacing(dim), text));
      WEIR_RETURN_IF_ERROR(AppendDimension(dim + 1, begin + i * stride, text));
    }
    return Append("]", text);
  }

  const Tensor& tensor_;
  const Shape& shape_;
  StringBudget& budget_;
  int64_t limit_;
};

class StringFormat final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    // An empty placeholder stands between all letters.
    std::vector<std::string> parts = absl::StrSplit(construction.attr<std::string>("template"),
                                                    construction.attr<std::string>("placeholder"));
    const int num_inputs = construction.node().num_inputs();
    if (static_cast<int>(parts.size()) != num_inputs + 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "num placeholders in template and num inputs must match: ", parts.size() - 1, " vs. ", num_inputs));
    }
    return std::unique_ptr<Kernel>(
        new StringFormat(std::move(parts), construction.attr<int64_t>("summarize")));
  }

  absl::Status Compute(KernelContext& context) override {
    StringBudget budget(context);
    std::string text = parts_[0];
    for (int i = 0; i < context.num_inputs(); ++i) {
      WEIR_RETURN_IF_ERROR(TensorText(context.input(i), summarize_, budget).AppendTo(text));
      text += parts_[i + 1];
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
    output->flat<std::string>()[0] = std::move(text);
    return absl::OkStatus();
  }

 private:
  StringFormat(std::vector<std::string> parts, int64_t summarize)
      : parts_(std::move(parts)), summarize_(summarize) {}

  const std::vector<std::string> parts_;
  const int64_t summarize_;
};

}  // namespace

void RegisterStringFormatKernels(DeviceKernels& kernels) { kernels.Add<StringFormat>("StringFormat"); }

}  // namespace weir
