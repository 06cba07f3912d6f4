// StringNGrams: runs of neighbouring words of each row, as one string each.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr int64_t kMostNGrams = int64_t{1} << 40;  // far more than there is memory for

template <typename T>
class StringNGrams final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    StringNGrams ngrams;
    ngrams.separator_ = construction.attr<std::string>("separator");
    ngrams.left_pad_ = construction.attr<std::string>("left_pad");
    ngrams.right_pad_ = construction.attr<std::string>("right_pad");
    ngrams.widths_ = construction.attr<std::vector<int64_t>>("ngram_widths");
    ngrams.pad_width_ = construction.attr<int64_t>("pad_width");
    ngrams.preserves_short_ = construction.attr<bool>("preserve_short_sequences");
    for (const int64_t width : ngrams.widths_) WEIR_RETURN_IF_ERROR(CheckInt("ngram_widths", width));
    WEIR_RETURN_IF_ERROR(CheckInt("pad_width", ngrams.pad_width_));
    if (std::any_of(ngrams.widths_.begin(), ngrams.widths_.end(), [](int64_t width) { return width <= 0; })) {
      return absl::InvalidArgumentError("ngram_widths must contain positive values");
    }
    return std::make_unique<StringNGrams>(std::move(ngrams));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& data = context.input(0);
    const absl::Span<const T> splits = context.input(1).flat<T>();
    WEIR_RETURN_IF_ERROR(CheckSplits(splits, data.num_elements()));
    WEIR_ASSIGN_OR_RETURN(Tensor * out_splits, context.AllocateOutput(1, context.input(1).shape()));
    if (splits.empty() || data.num_elements() == 0) {
      std::fill(out_splits->flat<T>().begin(), out_splits->flat<T>().end(), T(0));
      return context.AllocateOutput(0, data.shape()).status();
    }
    int64_t total = 0;
    out_splits->flat<T>()[0] = 0;
    for (size_t row = 1; row < splits.size(); ++row) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      for (const Run& run : RunsOf(splits[row] - splits[row - 1])) total += run.count;
      if (total > std::min<int64_t>(kMostNGrams, std::numeric_limits<T>::max())) {
        return absl::ResourceExhaustedError(absl::StrCat("has more than ", total, " n-grams"));
      }
      out_splits->flat<T>()[row] = static_cast<T>(total);
    }
    WEIR_RETURN_IF_ERROR(CheckShortRows(context, splits));
    WEIR_ASSIGN_OR_RETURN(Tensor * ngrams, context.AllocateOutput(0, Shape({total})));
    return WriteAll(context, splits, *ngrams);
  }

 private:
  // `count` n-grams of `width` words, of a row with `pad` words in front of it and behind it.
  struct Run {
    int64_t width, pad, count;
  };

  static absl::Status CheckInt(absl::string_view attr, int64_t value) {
    if (value == static_cast<int32_t>(value)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("Attr ", attr, " has value ", value, " out of range for an int32"));
  }

  static absl::Status CheckSplits(absl::Span<const T> splits, int64_t num_words) {
    if (splits.empty()) return absl::OkStatus();
    if (splits[0] != 0) {
      return absl::InvalidArgumentError(absl::StrCat("First split value must be 0, got ", splits[0]));
    }
    for (size_t i = 1; i < splits.size(); ++i) {
      if (splits[i] >= splits[i - 1] && splits[i] <= num_words) continue;
      return absl::InvalidArgumentError(absl::StrCat("Invalid split value ", splits[i], ", must be in [",
                                                     splits[i - 1], ", ", num_words, "]"));
    }
    if (splits.back() == num_words) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("Last split value must be data size. Expected ", num_words, ", got ", splits.back()));
  }

  // A row with words for which nothing but its own length gives an n-gram has one with all that it may have.
  bool IsShort(int64_t length) const {
    return preserves_short_ && length > 0 && std::all_of(widths_.begin(), widths_.end(), [&](int64_t width) {
             return CountOf(length, width) == 0;
           });
  }

  absl::Status CheckShortRows(const KernelContext& context, absl::Span<const T> splits) const {
    if (pad_width_ >= 0 || !preserves_short_) return absl::OkStatus();
    for (size_t row = 1; row < splits.size(); ++row) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      if (!IsShort(splits[row] - splits[row - 1])) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are "
                       "not provided, got ",
                       pad_width_));
    }
    return absl::OkStatus();
  }

  int64_t PadOf(int64_t width) const { return pad_width_ < 0 ? width - 1 : std::min(pad_width_, width - 1); }
  int64_t CountOf(int64_t length, int64_t width) const {
    return std::max<int64_t>(0, length + 2 * PadOf(width) - width + 1);
  }

  std::vector<Run> RunsOf(int64_t length) const {
    if (IsShort(length)) return {{length + 2 * pad_width_, pad_width_, 1}};
    std::vector<Run> runs;
    for (const int64_t width : widths_) runs.push_back({width, PadOf(width), CountOf(length, width)});
    return runs;
  }

  absl::Status WriteAll(KernelContext& context, absl::Span<const T> splits, Tensor& ngrams) const {
    const absl::Span<const std::string> words = context.input(0).flat<std::string>();
    StringBudget budget(context);
    std::string* next = ngrams.flat<std::string>().data();
    for (size_t row = 1; row < splits.size(); ++row) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      const auto words_of_row = words.subspan(splits[row - 1], splits[row] - splits[row - 1]);
      for (const Run& run : RunsOf(static_cast<int64_t>(words_of_row.size()))) {
        for (int64_t i = 0; i < run.count; ++i)
          WEIR_RETURN_IF_ERROR(Write(words_of_row, run, i, budget, next++));
      }
    }
    return absl::OkStatus();
  }

  // N-gram `i` of the row.
  absl::Status Write(absl::Span<const std::string> row, const Run& run, int64_t i, StringBudget& budget,
                     std::string* ngram) const {
    const auto length = static_cast<int64_t>(row.size());
    const int64_t num_left = std::clamp<int64_t>(run.pad - i, 0, run.width);
    const int64_t first = std::clamp<int64_t>(i - run.pad, 0, length);
    const int64_t num_words = std::clamp<int64_t>(i + run.width - run.pad - first, 0, length - first);
    const int64_t num_right = run.width - num_left - num_words;
    int64_t num_bytes = num_left * static_cast<int64_t>(left_pad_.size()) +
                        num_right * static_cast<int64_t>(right_pad_.size()) +
                        (run.width - 1) * static_cast<int64_t>(separator_.size());
    for (int64_t k = first; k < first + num_words; ++k) num_bytes += static_cast<int64_t>(row[k].size());
    WEIR_RETURN_IF_ERROR(budget.Take(num_bytes));
    ngram->reserve(num_bytes);
    bool is_first = true;
    const auto add = [&](const std::string& word) {
      if (!is_first) ngram->append(separator_);
      is_first = false;
      ngram->append(word);
    };
    for (int64_t k = 0; k < num_left; ++k) add(left_pad_);
    for (int64_t k = first; k < first + num_words; ++k) add(row[k]);
    for (int64_t k = 0; k < num_right; ++k) add(right_pad_);
    return absl::OkStatus();
  }

  std::string separator_, left_pad_, right_pad_;
  std::vector<int64_t> widths_;
  int64_t pad_width_ = 0;
  bool preserves_short_ = false;
};

}  // namespace

void RegisterNgramsKernels(DeviceKernels& kernels) {
  kernels.Add<StringNGrams>("StringNGrams", Types<int32_t, int64_t>("Tsplits"));
}

}  // namespace weir
