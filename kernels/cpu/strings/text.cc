// AsString and StringToNumber.
#include <algorithm>
#include <complex>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strings/number_text.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// A format of printf without its letter, and the letter for floating numbers.
struct TextFormat {
  std::string prefix;
  char letter = 'f';
  // For strings, which take no zeros or signs: -1 where the attr is not given.
  int64_t width = -1, precision = -1;
  bool is_left = false;
};

// As printf's %*.*s, but that only a width makes a difference, as in TensorFlow.
std::string Padded(const TextFormat& format, const std::string& value) {
  if (format.width <= 0) return value;
  const std::string kept = format.precision < 0 ? value : value.substr(0, format.precision);
  const auto width = static_cast<size_t>(format.width);
  const std::string blanks(width > kept.size() ? width - kept.size() : 0, ' ');
  return format.is_left ? kept + blanks : blanks + kept;
}

template <typename... Arguments>
std::string Print(const std::string& format, Arguments... arguments) {
  std::string text(std::snprintf(nullptr, 0, format.c_str(), arguments...), '\0');
  std::snprintf(text.data(), text.size() + 1, format.c_str(), arguments...);
  return text;
}

template <typename T>
std::string AsText(const TextFormat& format, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return Padded(format, value);
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return absl::StrCat("(", AsText(format, value.real()), ",", AsText(format, value.imag()), ")");
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) return Print(format.prefix + "lld", static_cast<long long>(value));
    return Print(format.prefix + "llu", static_cast<unsigned long long>(value));
  } else {
    return Print(format.prefix + format.letter, static_cast<double>(value));
  }
}

template <typename T>
class AsString final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto precision = construction.attr<int64_t>("precision");
    const auto width = construction.attr<int64_t>("width");
    const bool is_scientific = construction.attr<bool>("scientific");
    const bool is_shortest = construction.attr<bool>("shortest");
    const auto& fill = construction.attr<std::string>("fill");
    const absl::string_view dtype = DTypeName(DTypeOf<T>);
    if (is_scientific && is_shortest) {
      return absl::InvalidArgumentError("Cannot select both scientific and shortest notation");
    }
    if (fill.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("Fill string must be one or fewer characters, is \"", fill, "\""));
    }
    if (!fill.empty() && !absl::StrContains(" +-0#", fill)) {
      return absl::InvalidArgumentError(absl::StrCat("Fill argument not supported: \"", fill, "\""));
    }
    constexpr bool kIsWhole = std::is_integral_v<T>;  // bool too
    if (kIsWhole && (is_scientific || is_shortest)) {
      return absl::InvalidArgumentError(
          absl::StrCat("scientific and shortest format not supported for datatype ", dtype));
    }
    if (kIsWhole && precision >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("precision not supported for datatype ", dtype));
    }
    // printf cannot count further.
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 2;
    if (width > kMost || precision > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat("width is ", width, " and precision ", precision, ", must not exceed ", kMost));
    }
    TextFormat format{"%", is_shortest ? 'g' : is_scientific ? 'e' : 'f', width, precision, fill == "-"};
    if (width >= 0) absl::StrAppend(&format.prefix, fill, width);
    if (precision >= 0) absl::StrAppend(&format.prefix, ".", precision);
    constexpr int64_t kLongestNumber = 330;
    const int64_t longest = kLongestNumber + std::max<int64_t>(width, 0) + std::max<int64_t>(precision, 0);
    return std::unique_ptr<Kernel>(new AsString(std::move(format), longest));
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    StringBudget budget(context);
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const T& value = input.flat<T>()[i];
      int64_t num_bytes = std::is_same_v<T, bool> ? 5 : longest_;
      if constexpr (std::is_same_v<T, std::string>) num_bytes += static_cast<int64_t>(value.size());
      const bool is_long = num_bytes > kLong;
      if (is_long) WEIR_RETURN_IF_ERROR(budget.Take(num_bytes));
      std::string& text = output->flat<std::string>()[i];
      text = AsText(format_, value);
      // Of short ones what they take in fact: most are much shorter than they may be.
      if (!is_long) WEIR_RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(text.size())));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kLong = 1024;

  AsString(TextFormat format, int64_t longest) : format_(std::move(format)), longest_(longest) {}

  const TextFormat format_;
  const int64_t longest_;  // bytes of a number
};

template <typename T>
class StringToNumber final : public Kernel {
 public:
  explicit StringToNumber(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& text = input.flat<std::string>()[i];
      if (ParseNumber(text, output->flat<T>()[i])) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("StringToNumberOp could not correctly convert string: ", text));
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterTextKernels(DeviceKernels& kernels) {
  kernels.Add<AsString>(
      "AsString",
      Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
            uint64_t, std::complex<float>, std::complex<double>, bool, std::string>("T"));
  kernels.Add<StringToNumber>("StringToNumber",
                              Types<float, double, int32_t, int64_t, uint32_t, uint64_t>("out_type"));
}

}  // namespace weir
