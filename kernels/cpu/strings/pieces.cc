// Parts of strings, their lengths and letters.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/broadcast.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/cpu/strings/utf8.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

bool CountsCharacters(const KernelConstruction& construction) {
  return construction.attr<std::string>("unit") == "UTF8_CHAR";
}

// The bytes at `pos`, `len` of them; all the rest for a negative `len`. False when there is no such position.
bool CutBytes(absl::string_view text, int64_t pos, int64_t len, absl::string_view& part) {
  const auto size = static_cast<int64_t>(text.size());
  if (pos < -size || pos > size) return false;
  part = text.substr(pos < 0 ? pos + size : pos);
  if (len >= 0) part = part.substr(0, static_cast<size_t>(len));
  return true;
}

// The same in characters; none for a negative `len`, which is then no position to count back from either.
bool CutCharacters(absl::string_view text, int64_t pos, int64_t len, absl::string_view& part) {
  if (pos < 0) {
    const bool begins_within = !text.empty() && IsUtf8Continuation(text[0]);
    const int64_t count = CountUtf8Characters(text) + begins_within;
    if (pos < -count || len < 0) return false;
    pos += count;
  }
  size_t begin = 0;
  for (; pos > 0; --pos) {
    if (begin == text.size()) return false;
    begin = NextUtf8Character(text, begin);
  }
  size_t end = begin;
  for (; len > 0 && end < text.size(); --len) end = NextUtf8Character(text, end);
  part = text.substr(begin, end - begin);
  return true;
}

class Substr final : public Kernel {
 public:
  explicit Substr(const KernelConstruction& construction) : in_characters_(CountsCharacters(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    const Shape& input = context.input(0).shape();
    const Tensor& pos = context.input(1);
    const Tensor& len = context.input(2);
    if (pos.shape() != len.shape()) {
      return absl::InvalidArgumentError(
          absl::StrCat("pos and len should have the same shape, got: ", pos.shape().ToString(), " vs. ",
                       len.shape().ToString()));
    }
    const Shape* const operands[] = {&input, &pos.shape()};
    WEIR_ASSIGN_OR_RETURN(const Shape shape, BroadcastShapes(operands));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const BroadcastLoops loops = MakeBroadcastLoops(shape, operands);
    absl::Status status;
    StringBudget budget(context);
    // One long text may be walked along for each of many positions.
    const Cancellation& cancellation = context.cancellation();
    ForEachRow(loops, 2, 0, loops.num_rows(), [&](int64_t row, const int64_t* offsets) {
      for (int64_t i = 0; i < loops.inner_size() && status.ok(); ++i) {
        const int64_t place = offsets[1] + i * loops.strides[1].back();
        if (cancellation.is_cancelled()) {
          status = cancellation.reason();
          break;
        }
        status =
            Cut(context.input(0).flat<std::string>()[offsets[0] + i * loops.strides[0].back()],
                IntegerAt(pos, place), IntegerAt(len, place), row * loops.inner_size() + i, budget, *output);
      }
    });
    return status;
  }

 private:
  absl::Status Cut(const std::string& text, int64_t pos, int64_t len, int64_t index, StringBudget& budget,
                   Tensor& output) const {
    absl::string_view part;
    const bool is_there =
        in_characters_ ? CutCharacters(text, pos, len, part) : CutBytes(text, pos, len, part);
    if (!is_there) {
      const std::string which = in_characters_ ? "" : absl::StrCat(" b'", text, "'");
      return absl::InvalidArgumentError(
          absl::StrCat("pos ", pos, " out of range for string", which, " at index ", index));
    }
    WEIR_RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(part.size())));
    output.flat<std::string>()[index] = std::string(part);
    return absl::OkStatus();
  }

  const bool in_characters_;
};

// The pieces of each string, as a sparse matrix.
class SplitStrings : public Kernel {
 public:
  // The room for very many pieces is asked for; where there is none, the rest is left out.
  class Pieces {
   public:
    explicit Pieces(KernelContext& context) : budget_(context) {}

    void push_back(absl::string_view piece) {
      if (!status_.ok()) return;
      constexpr size_t kMany = 1 << 16;
      if (pieces_.size() % kMany == kMany - 1) {
        status_.Update(budget_.Take(static_cast<int64_t>(kMany * sizeof(absl::string_view))));
      }
      if (status_.ok()) pieces_.push_back(piece);
    }
    size_t size() const { return pieces_.size(); }
    absl::string_view operator[](size_t i) const { return pieces_[i]; }
    const absl::Status& status() const { return status_; }

   private:
    StringBudget budget_;
    std::vector<absl::string_view> pieces_;
    absl::Status status_;
  };

  absl::Status Compute(KernelContext& context) final {
    const Tensor& input = context.input(0);
    const Tensor& separator = context.input(1);
    if (input.shape().rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("input must be a vector, got shape: ", input.shape().ToString()));
    }
    if (!separator.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat(SeparatorName(), " must be a scalar, got shape: ", separator.shape().ToString()));
    }
    Pieces pieces(context);
    std::vector<int64_t> ends;  // of the pieces of each string
    size_t widest = 0;
    for (const std::string& text : input.flat<std::string>()) {
      const size_t begin = pieces.size();
      Split(text, separator.scalar<std::string>(), pieces);
      WEIR_RETURN_IF_ERROR(pieces.status());
      widest = std::max(widest, pieces.size() - begin);
      ends.push_back(static_cast<int64_t>(pieces.size()));
    }

    const auto count = static_cast<int64_t>(pieces.size());
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, Shape({count, 2})));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({count})));
    WEIR_ASSIGN_OR_RETURN(Tensor * shape, context.AllocateOutput(2, Shape({2})));
    int64_t k = 0;
    for (size_t row = 0; row < ends.size(); ++row) {
      for (int64_t column = 0; k < ends[row]; ++column, ++k) {
        indices->flat<int64_t>()[2 * k] = static_cast<int64_t>(row);
        indices->flat<int64_t>()[2 * k + 1] = column;
        values->flat<std::string>()[k] = std::string(pieces[k]);
      }
    }
    shape->flat<int64_t>()[0] = static_cast<int64_t>(ends.size());
    shape->flat<int64_t>()[1] = static_cast<int64_t>(widest);
    return absl::OkStatus();
  }

 private:
  virtual absl::string_view SeparatorName() const = 0;
  virtual void Split(absl::string_view text, absl::string_view separator, Pieces& pieces) const = 0;
};

// Every byte of the delimiter separates; an empty one separates all bytes.
class StringSplit final : public SplitStrings {
 public:
  explicit StringSplit(const KernelConstruction& construction)
      : skips_empty_(construction.attr<bool>("skip_empty")) {}

 private:
  absl::string_view SeparatorName() const override { return "delimiter"; }

  void Split(absl::string_view text, absl::string_view separators, Pieces& pieces) const override {
    if (separators.empty()) {
      for (size_t i = 0; i < text.size(); ++i) pieces.push_back(text.substr(i, 1));
      return;
    }
    if (text.empty()) return;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find_first_of(separators, begin), text.size());
      if (end > begin || !skips_empty_) pieces.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }

  const bool skips_empty_;
};

class StringSplitV2 final : public SplitStrings {
 public:
  explicit StringSplitV2(const KernelConstruction& construction)
      : max_splits_(construction.attr<int64_t>("maxsplit")) {}

 private:
  absl::string_view SeparatorName() const override { return "sep"; }

  bool IsSplitOften(int64_t num_splits) const { return max_splits_ >= 0 && num_splits >= max_splits_; }

  void Split(absl::string_view text, absl::string_view separator, Pieces& pieces) const override {
    if (max_splits_ == 0) {
      pieces.push_back(text);
    } else if (separator.empty()) {
      SplitAtWhiteSpace(text, pieces);
    } else {
      SplitAt(text, separator, pieces);
    }
  }

  // What is left after the last split begins without white space, and keeps that at its end.
  void SplitAtWhiteSpace(absl::string_view text, Pieces& pieces) const {
    text = absl::StripLeadingAsciiWhitespace(text);
    for (int64_t num_splits = 0; !text.empty(); ++num_splits) {
      if (IsSplitOften(num_splits)) {
        pieces.push_back(text);
        return;
      }
      const auto end = std::find_if(text.begin(), text.end(), absl::ascii_isspace);
      const auto size = static_cast<size_t>(end - text.begin());
      pieces.push_back(text.substr(0, size));
      text = absl::StripLeadingAsciiWhitespace(text.substr(size));
      if (text.empty() && IsSplitOften(num_splits + 1)) pieces.push_back(text);
    }
  }

  void SplitAt(absl::string_view text, absl::string_view separator, Pieces& pieces) const {
    for (int64_t num_splits = 0;; ++num_splits) {
      const size_t end = IsSplitOften(num_splits) ? absl::string_view::npos : text.find(separator);
      pieces.push_back(text.substr(0, end));
      if (end == absl::string_view::npos) return;
      text.remove_prefix(end + separator.size());
    }
  }

  const int64_t max_splits_;
};

class StringLength final : public Kernel {
 public:
  explicit StringLength(const KernelConstruction& construction)
      : in_characters_(CountsCharacters(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    std::transform(input.flat<std::string>().begin(), input.flat<std::string>().end(),
                   output->flat<int32_t>().begin(), [&](const std::string& text) {
                     return static_cast<int32_t>(in_characters_ ? CountUtf8Characters(text) : text.size());
                   });
    return absl::OkStatus();
  }

 private:
  const bool in_characters_;
};

absl::Status StripStrings(KernelContext& context) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
  std::transform(input.flat<std::string>().begin(), input.flat<std::string>().end(),
                 output->flat<std::string>().begin(),
                 [](const std::string& text) { return std::string(absl::StripAsciiWhitespace(text)); });
  return absl::OkStatus();
}

// StringUpper and StringLower.
class ChangeCase final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const std::string& encoding = construction.attr<std::string>("encoding");
    if (!encoding.empty() && encoding != "utf-8") {
      return absl::InvalidArgumentError(
          absl::StrCat("only utf-8 or '' (no encoding) is supported, received ", encoding));
    }
    return std::unique_ptr<Kernel>(
        new ChangeCase(construction.node().op_name() == "StringUpper", !encoding.empty()));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& text = input.flat<std::string>()[i];
      if (is_utf8_ && !std::all_of(text.begin(), text.end(), absl::ascii_isascii)) {
        return absl::UnimplementedError(
            absl::StrCat("letters beyond ASCII have no capitals here; string ", i, " has some"));
      }
      output->flat<std::string>()[i] = to_upper_ ? absl::AsciiStrToUpper(text) : absl::AsciiStrToLower(text);
    }
    return absl::OkStatus();
  }

 private:
  ChangeCase(bool to_upper, bool is_utf8) : to_upper_(to_upper), is_utf8_(is_utf8) {}

  const bool to_upper_;
  const bool is_utf8_;
};

}  // namespace

void RegisterPiecesKernels(DeviceKernels& kernels) {
  kernels.Add<Substr>("Substr");
  kernels.Add<StringSplit>("StringSplit");
  kernels.Add<StringSplitV2>("StringSplitV2");
  kernels.Add<StringLength>("StringLength");
  kernels.Add<&StripStrings>("StringStrip");
  kernels.Add<ChangeCase>("StringUpper");
  kernels.Add<ChangeCase>("StringLower");
}

}  // namespace weir
