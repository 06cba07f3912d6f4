// StringFormat: tensors as people read them, long dimensions shortened.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/cpu/value_text.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Strings of a tensor stand in quotes.
std::string Quoted(const Tensor& tensor, int64_t index) {
  const std::string text = ElementText(tensor, index);
  return tensor.dtype() == DType::kString ? absl::StrCat("\"", text, "\"") : text;
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
    return Append(Quoted(tensor_, 0), text);
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
    if (dim == shape_.rank()) return Append(Quoted(tensor_, begin), text);
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
