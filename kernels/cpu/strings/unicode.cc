// UnicodeTranscode, UnicodeDecode, UnicodeEncode and UnicodeScript: texts in other encodings, and as numbers.
//
// The encodings of Unicode, ASCII and Latin-1 are read and written here, without a library. What is no text
// is cut as Unicode recommends ("maximal subparts", Unicode 15.0, section 3.9): the longest beginning of a
// character is one error, any other byte is one too. That is what ICU gives, which TensorFlow uses.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/cpu/strings/unicode_script_table.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// ---- Characters ----

enum class UnicodeEncoding { kUtf8, kUtf16, kUtf16Be, kUtf16Le, kUtf32, kUtf32Be, kUtf32Le, kAscii, kLatin1 };

struct UnicodeCharacter {
  static constexpr int32_t kReplacement = 0xfffd;

  int32_t code = kReplacement;  // kReplacement for what is no character
  size_t num_bytes = 0;
  bool is_malformed = false;
};

// The characters of a text. A mark of the byte order at the beginning of UTF-16 or UTF-32 belongs to the
// first character; without one the order is big-endian.
class UnicodeReader {
 public:
  // Borrows the text.
  UnicodeReader(UnicodeEncoding encoding, absl::string_view text);

  // False at the end.
  bool Next(UnicodeCharacter& character);

 private:
  UnicodeCharacter ReadUtf8() const;
  UnicodeCharacter ReadUtf16() const;
  UnicodeCharacter ReadUtf32() const;
  uint32_t UnitAt(size_t position, size_t width) const;

  UnicodeEncoding encoding_;
  absl::string_view text_;
  bool is_little_endian_;
  size_t num_bytes_of_mark_ = 0;
};

UnicodeCharacter Malformed(size_t num_bytes) { return {UnicodeCharacter::kReplacement, num_bytes, true}; }

bool IsLead(uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool IsTrail(uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

void AppendBigEndian(uint32_t unit, int num_bytes, std::string* text) {
  for (int shift = 8 * (num_bytes - 1); shift >= 0; shift -= 8)
    text->push_back(static_cast<char>(unit >> shift & 0xff));
}

void AppendUtf8(uint32_t code, std::string* text) {
  if (code < 0x80) return text->push_back(static_cast<char>(code));
  const int num_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
  text->push_back(static_cast<char>(kLead[num_more] | code >> 6 * num_more));
  for (int i = num_more - 1; i >= 0; --i) text->push_back(static_cast<char>(0x80 | (code >> 6 * i & 0x3f)));
}

// By a name such as "UTF-8", "utf16le" or "US-ASCII". Nullopt for any other.
std::optional<UnicodeEncoding> ParseUnicodeEncoding(absl::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c != '-' && c != '_' && c != ' ') plain.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
  }
  using E = UnicodeEncoding;
  constexpr struct {
    const char* name;
    E encoding;
  } kNames[] = {{"utf8", E::kUtf8},       {"utf16", E::kUtf16},   {"utf16be", E::kUtf16Be},
                {"utf16le", E::kUtf16Le}, {"utf32", E::kUtf32},   {"utf32be", E::kUtf32Be},
                {"utf32le", E::kUtf32Le}, {"usascii", E::kAscii}, {"ascii", E::kAscii},
                {"iso88591", E::kLatin1}, {"latin1", E::kLatin1}};
  for (const auto& known : kNames) {
    if (plain == known.name) return known.encoding;
  }
  return std::nullopt;
}

// A code that a text may have: no surrogate, at most 0x10ffff.
bool IsUnicodeCharacter(int32_t code) {
  return code >= 0 && code <= 0x10ffff && !IsLead(static_cast<uint32_t>(code)) &&
         !IsTrail(static_cast<uint32_t>(code));
}

UnicodeReader::UnicodeReader(UnicodeEncoding encoding, absl::string_view text)
    : encoding_(encoding),
      text_(text),
      is_little_endian_(encoding == UnicodeEncoding::kUtf16Le || encoding == UnicodeEncoding::kUtf32Le) {
  if (encoding_ == UnicodeEncoding::kUtf16Le) encoding_ = UnicodeEncoding::kUtf16Be;
  if (encoding_ == UnicodeEncoding::kUtf32Le) encoding_ = UnicodeEncoding::kUtf32Be;
  const bool may_have_mark = encoding == UnicodeEncoding::kUtf16 || encoding == UnicodeEncoding::kUtf32;
  if (!may_have_mark) return;
  const bool is_wide = encoding == UnicodeEncoding::kUtf32;
  encoding_ = is_wide ? UnicodeEncoding::kUtf32Be : UnicodeEncoding::kUtf16Be;
  constexpr absl::string_view kBig("\0\0\xfe\xff", 4), kLittle("\xff\xfe\0\0", 4);
  is_little_endian_ = absl::StartsWith(text, is_wide ? kLittle : kLittle.substr(0, 2));
  if (is_little_endian_ || absl::StartsWith(text, is_wide ? kBig : kBig.substr(2))) {
    num_bytes_of_mark_ = is_wide ? 4 : 2;
    text_.remove_prefix(num_bytes_of_mark_);
  }
}

bool UnicodeReader::Next(UnicodeCharacter& character) {
  if (text_.empty()) return false;
  switch (encoding_) {
    case UnicodeEncoding::kUtf8:
      character = ReadUtf8();
      break;
    case UnicodeEncoding::kUtf16Be:
      character = ReadUtf16();
      break;
    case UnicodeEncoding::kUtf32Be:
      character = ReadUtf32();
      break;
    default: {
      const auto byte = static_cast<unsigned char>(text_[0]);
      const bool is_ascii = encoding_ == UnicodeEncoding::kAscii;
      character = is_ascii && byte >= 0x80 ? Malformed(1) : UnicodeCharacter{byte, 1, false};
    }
  }
  text_.remove_prefix(character.num_bytes);
  character.num_bytes += num_bytes_of_mark_;
  num_bytes_of_mark_ = 0;
  return true;
}

// Table 3-7 of the standard: what may follow the first byte is narrower where the code would be too small, a
// surrogate or too large.
UnicodeCharacter UnicodeReader::ReadUtf8() const {
  const auto byte = [this](size_t i) { return static_cast<unsigned char>(text_[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {static_cast<int32_t>(lead), 1, false};
  if (lead < 0xc2 || lead > 0xf4) return Malformed(1);
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  uint32_t code = lead & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    unsigned low = 0x80, high = 0xbf;
    if (i == 1 && lead == 0xe0) low = 0xa0;
    if (i == 1 && lead == 0xed) high = 0x9f;
    if (i == 1 && lead == 0xf0) low = 0x90;
    if (i == 1 && lead == 0xf4) high = 0x8f;
    if (i == text_.size() || byte(i) < low || byte(i) > high) return Malformed(i);
    code = code << 6 | (byte(i) & 0x3f);
  }
  return {static_cast<int32_t>(code), length, false};
}

uint32_t UnicodeReader::UnitAt(size_t position, size_t width) const {
  uint32_t unit = 0;
  for (size_t i = 0; i < width; ++i) {
    const size_t at = position + (is_little_endian_ ? width - 1 - i : i);
    unit = unit << 8 | static_cast<unsigned char>(text_[at]);
  }
  return unit;
}

UnicodeCharacter UnicodeReader::ReadUtf16() const {
  if (text_.size() < 2) return Malformed(text_.size());
  const uint32_t unit = UnitAt(0, 2);
  if (!IsLead(unit))
    return IsTrail(unit) ? Malformed(2) : UnicodeCharacter{static_cast<int32_t>(unit), 2, false};
  if (text_.size() < 4) return Malformed(text_.size());
  const uint32_t next = UnitAt(2, 2);
  if (!IsTrail(next)) return Malformed(2);
  return {static_cast<int32_t>(0x10000 + ((unit & 0x3ff) << 10) + (next & 0x3ff)), 4, false};
}

UnicodeCharacter UnicodeReader::ReadUtf32() const {
  if (text_.size() < 4) return Malformed(text_.size());
  const auto code = static_cast<int32_t>(UnitAt(0, 4));
  return IsUnicodeCharacter(code) ? UnicodeCharacter{code, 4, false} : Malformed(4);
}

// Behind `text`, in UTF-8, UTF-16 or UTF-32, the latter two big-endian without a mark. What is no character
// is written as kReplacement.
void AppendUnicode(int32_t code, UnicodeEncoding encoding, std::string* text) {
  const auto unit = static_cast<uint32_t>(IsUnicodeCharacter(code) ? code : UnicodeCharacter::kReplacement);
  if (encoding == UnicodeEncoding::kUtf8) return AppendUtf8(unit, text);
  if (encoding == UnicodeEncoding::kUtf32Be) return AppendBigEndian(unit, 4, text);
  if (unit < 0x10000) return AppendBigEndian(unit, 2, text);
  AppendBigEndian(0xd800 + ((unit - 0x10000) >> 10), 2, text);
  AppendBigEndian(0xdc00 + (unit & 0x3ff), 2, text);
}

// ---- Kernels ----

// What becomes of what is no text: attrs `errors` and its kin.
class ErrorHandling {
 public:
  // `refuses_controls`: "strict" refuses the control characters that would be replaced too.
  static absl::StatusOr<ErrorHandling> Read(const KernelConstruction& construction,
                                            bool refuses_controls = false) {
    ErrorHandling handling;
    handling.refuses_controls_ = refuses_controls;
    const auto& errors = construction.attr<std::string>("errors");
    handling.is_strict_ = errors == "strict";
    handling.ignores_ = errors == "ignore";
    const auto replacement = construction.attr<int64_t>("replacement_char");
    if (replacement < 0 || replacement > 0x10ffff) {
      return absl::InvalidArgumentError(
          absl::StrCat("replacement_char out of unicode codepoint range: ", replacement));
    }
    handling.replacement_ = static_cast<int32_t>(replacement);
    const AttrValue* controls = construction.node().FindAttr("replace_control_characters");
    handling.replaces_controls_ = controls != nullptr && controls->get<bool>();
    return handling;
  }

  // Calls visit(code, position of its first byte) for what a text has, is read as, or is replaced by. An
  // error when the step is over: a text may be long.
  template <typename Visit>
  absl::Status ForEachCharacter(const Cancellation& cancellation, UnicodeEncoding encoding,
                                const std::string& text, Visit&& visit) const {
    constexpr int64_t kBetweenLooks = 1 << 16;  // bytes
    UnicodeReader reader(encoding, text);
    int64_t position = 0, next_look = 0;
    for (UnicodeCharacter next; reader.Next(next); position += static_cast<int64_t>(next.num_bytes)) {
      if (position >= next_look) {
        if (cancellation.is_cancelled()) return cancellation.reason();
        next_look = position + kBetweenLooks;
      }
      const bool is_control = replaces_controls_ && next.code <= 0x1f;
      if (is_strict_ && (next.is_malformed || (is_control && refuses_controls_))) {
        return absl::InvalidArgumentError(
            absl::StrCat("Invalid formatting on input string, at byte ", position));
      }
      const bool is_handled = next.is_malformed || is_control;
      if (is_handled && ignores_) continue;
      visit(is_handled ? replacement_ : next.code, position);
    }
    return absl::OkStatus();
  }

  // Nullopt for one that is left out.
  absl::StatusOr<std::optional<int32_t>> Written(int32_t code) const {
    if (IsUnicodeCharacter(code)) return code;
    if (is_strict_) {
      return absl::InvalidArgumentError(
          absl::StrCat("Code point is out of range for Unicode, or is a surrogate: ", code));
    }
    if (ignores_) return std::nullopt;
    return replacement_;
  }

 private:
  bool is_strict_ = false, ignores_ = false, replaces_controls_ = false, refuses_controls_ = false;
  int32_t replacement_ = UnicodeCharacter::kReplacement;
};

absl::StatusOr<UnicodeEncoding> EncodingOf(const KernelConstruction& construction, absl::string_view attr,
                                           absl::string_view what) {
  const auto& name = construction.attr<std::string>(attr);
  if (const auto encoding = ParseUnicodeEncoding(name)) return *encoding;
  return absl::InvalidArgumentError(
      absl::StrCat("Could not create converter for ", what, " encoding: ", name,
                   "; known are UTF-8, UTF-16, UTF-32, US-ASCII and ISO-8859-1"));
}

class UnicodeTranscode final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const UnicodeEncoding from, EncodingOf(construction, "input_encoding", "input"));
    WEIR_ASSIGN_OR_RETURN(const UnicodeEncoding to, EncodingOf(construction, "output_encoding", "output"));
    WEIR_ASSIGN_OR_RETURN(const ErrorHandling errors,
                          ErrorHandling::Read(construction, /*refuses_controls=*/true));
    return std::make_unique<UnicodeTranscode>(from, to, errors);
  }
  UnicodeTranscode(UnicodeEncoding from, UnicodeEncoding to, ErrorHandling errors)
      : from_(from), to_(to), errors_(errors) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    StringBudget budget(context);
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& text = input.flat<std::string>()[i];
      // No byte becomes more than four.
      WEIR_RETURN_IF_ERROR(budget.Take(4 * static_cast<int64_t>(text.size())));
      std::string result;
      WEIR_RETURN_IF_ERROR(
          errors_.ForEachCharacter(context.cancellation(), from_, text,
                                   [&](int32_t code, int64_t) { AppendUnicode(code, to_, &result); }));
      output->flat<std::string>()[i] = std::move(result);
    }
    return absl::OkStatus();
  }

 private:
  const UnicodeEncoding from_, to_;
  const ErrorHandling errors_;
};

// The codes of all texts, one behind the other, and where each text begins among them. `I`: of these places.
template <typename I>
class UnicodeDecode final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const UnicodeEncoding encoding,
                          EncodingOf(construction, "input_encoding", "input"));
    WEIR_ASSIGN_OR_RETURN(const ErrorHandling errors, ErrorHandling::Read(construction));
    return std::make_unique<UnicodeDecode>(encoding, errors);
  }
  UnicodeDecode(UnicodeEncoding encoding, ErrorHandling errors) : encoding_(encoding), errors_(errors) {}

  absl::Status Compute(KernelContext& context) override {
    const auto texts = context.input(0).flat<std::string>();
    WEIR_ASSIGN_OR_RETURN(Tensor * splits,
                          context.AllocateOutput(0, Shape({static_cast<int64_t>(texts.size()) + 1})));
    int64_t count = 0;
    splits->flat<I>()[0] = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      WEIR_RETURN_IF_ERROR(errors_.ForEachCharacter(context.cancellation(), encoding_, texts[i],
                                                    [&](int32_t, int64_t) { ++count; }));
      if (count > std::numeric_limits<I>::max()) {
        return absl::InvalidArgumentError(
            absl::StrCat("row_splits of ", count, " characters do not fit in ", DTypeName(DTypeOf<I>)));
      }
      splits->flat<I>()[i + 1] = static_cast<I>(count);
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * codes, context.AllocateOutput(1, Shape({count})));
    int64_t* next_start = nullptr;
    if (context.num_outputs() == 3) {
      WEIR_ASSIGN_OR_RETURN(Tensor * starts, context.AllocateOutput(2, Shape({count})));
      next_start = starts->flat<int64_t>().data();
    }
    int32_t* next = codes->flat<int32_t>().data();
    for (const std::string& text : texts) {
      WEIR_RETURN_IF_ERROR(errors_.ForEachCharacter(context.cancellation(), encoding_, text,
                                                    [&](int32_t code, int64_t position) {
                                                      *next++ = code;
                                                      if (next_start != nullptr) *next_start++ = position;
                                                    }));
    }
    return absl::OkStatus();
  }

 private:
  const UnicodeEncoding encoding_;
  const ErrorHandling errors_;
};

class UnicodeEncode final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const UnicodeEncoding to, EncodingOf(construction, "output_encoding", "output"));
    WEIR_ASSIGN_OR_RETURN(const ErrorHandling errors, ErrorHandling::Read(construction));
    return std::make_unique<UnicodeEncode>(to, errors);
  }
  UnicodeEncode(UnicodeEncoding to, ErrorHandling errors) : to_(to), errors_(errors) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& codes = context.input(0);
    const Tensor& splits = context.input(1);
    WEIR_RETURN_IF_ERROR(CheckSplits(codes, splits));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({splits.num_elements() - 1})));
    StringBudget budget(context);
    WEIR_RETURN_IF_ERROR(budget.Take(4 * codes.num_elements()));
    for (int64_t i = 0; i < output->num_elements(); ++i) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      std::string text;
      for (int64_t k = IntegerAt(splits, i); k < IntegerAt(splits, i + 1); ++k) {
        WEIR_ASSIGN_OR_RETURN(const std::optional<int32_t> code, errors_.Written(codes.flat<int32_t>()[k]));
        if (code) AppendUnicode(*code, to_, &text);
      }
      output->flat<std::string>()[i] = std::move(text);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status CheckSplits(const Tensor& codes, const Tensor& splits) {
    const auto refuse = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(what, " input_values are ", codes.shape().ToString(),
                                                     ", input_splits ", splits.ToString()));
    };
    if (codes.shape().rank() != 1 || splits.shape().rank() != 1) {
      return refuse("Both the input_tensor and input_splits should be of rank 1.");
    }
    const int64_t last = splits.num_elements() - 1;
    if (last < 0) return refuse("Input_splits should contain elements.");
    if (IntegerAt(splits, 0) != 0) return refuse("First value in input_splits must be zero.");
    if (IntegerAt(splits, last) != codes.num_elements()) {
      return refuse("Last value in input_splits must be equal to length of input_tensor.");
    }
    for (int64_t i = 0; i < last; ++i) {
      if (IntegerAt(splits, i) > IntegerAt(splits, i + 1)) {
        return refuse("Values in input_splits must be equal or in ascending order.");
      }
    }
    return absl::OkStatus();
  }

  const UnicodeEncoding to_;
  const ErrorHandling errors_;
};

// ---- Scripts ----

int32_t ScriptOf(int32_t code) {
  if (code < 0 || code > 0x10ffff) return -1;
  const auto* const next =
      std::upper_bound(std::begin(kScriptRanges), std::end(kScriptRanges), code,
                       [](int32_t wanted, const ScriptRange& range) { return wanted < range.first; });
  return next[-1].script;
}

absl::Status UnicodeScript(KernelContext& context) {
  const Tensor& codes = context.input(0);
  WEIR_ASSIGN_OR_RETURN(Tensor * scripts, context.ForwardOrAllocateOutput({0}, 0, codes.shape()));
  std::transform(codes.flat<int32_t>().begin(), codes.flat<int32_t>().end(), scripts->flat<int32_t>().begin(),
                 ScriptOf);
  return absl::OkStatus();
}

}  // namespace

void RegisterUnicodeKernels(DeviceKernels& kernels) {
  kernels.Add<UnicodeTranscode>("UnicodeTranscode");
  kernels.Add<UnicodeDecode>("UnicodeDecode", Types<int32_t, int64_t>("Tsplits"));
  kernels.Add<UnicodeDecode>("UnicodeDecodeWithOffsets", Types<int32_t, int64_t>("Tsplits"));
  kernels.Add<UnicodeEncode>("UnicodeEncode", {{"Tsplits", {DType::kInt32, DType::kInt64}}});
  kernels.Add<&UnicodeScript>("UnicodeScript");
}

}  // namespace weir
