#include "kernels/cpu/value_text.h"

#include <algorithm>
#include <complex>
#include <cstdio>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "graph/types/float8.h"
#include "kernels/cpu/with_dtype.h"

namespace weir {
namespace {

constexpr int64_t kMostElements = 1000;
constexpr size_t kMostBytes = 64 << 10;

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

template <typename T>
std::string NumberText(T value) {
  if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return absl::StrCat("(", FloatText(value.real()), ",", FloatText(value.imag()), ")");
  } else if constexpr (std::is_same_v<T, double>) {
    return FloatText(value);
  } else if constexpr (std::is_integral_v<T>) {
    return absl::StrCat(+value);
  } else {
    return FloatText(static_cast<float>(value));
  }
}

std::string StringText(absl::string_view value) { return absl::Utf8SafeCEscape(value); }

// Writes the elements of a tensor as they come, until so many are written.
class Writer {
 public:
  Writer(const Tensor& tensor, int64_t limit)
      : tensor_(tensor),
        limit_(std::min({limit < 0 ? kMostElements : limit, kMostElements, tensor.num_elements()})) {}

  std::string Write() {
    text_ = "[";
    if (!tensor_.shape().is_scalar()) {
      WriteDimension(0);
    } else if (limit_ > 0) {
      WriteElement();
    }
    absl::StrAppend(&text_, tensor_.num_elements() > next_ ? "...]" : "]");
    return std::move(text_);
  }

 private:
  void WriteElement() {
    if (tensor_.dtype() == DType::kString) {
      text_ += StringText(absl::string_view(tensor_.flat<std::string>()[next_]).substr(0, kMostBytes));
    } else {
      text_ += ElementText(tensor_, next_);
    }
    ++next_;
    if (text_.size() > kMostBytes) limit_ = next_;
  }

  void WriteDimension(int dim) {
    const bool is_last = dim == tensor_.shape().rank() - 1;
    for (int64_t i = 0; i < tensor_.shape().dim(dim) && next_ < limit_; ++i) {
      if (is_last) {
        if (i > 0) text_ += " ";
        WriteElement();
        if (dim > 0 && next_ == limit_ && i + 1 < tensor_.shape().dim(dim)) text_ += "...";
      } else {
        text_ += "[";
        WriteDimension(dim + 1);
        text_ += "]";
      }
    }
  }

  const Tensor& tensor_;
  int64_t limit_;
  int64_t next_ = 0;
  std::string text_;
};

}  // namespace

std::string ElementText(const Tensor& tensor, int64_t index) {
  if (tensor.dtype() == DType::kString) {
    return StringText(tensor.flat<std::string>()[index]);
  }
  if (tensor.dtype() == DType::kBool) return tensor.flat<bool>()[index] ? "1" : "0";
  if (IsFloat8(tensor.dtype())) {
    return FloatText(Float8ToFloat(tensor.dtype(), tensor.flat<uint8_t>()[index]));
  }
  std::string text = "?";
  WithNumericType(StoredAs(tensor.dtype()),
                  [&](auto tag) { text = NumberText(tensor.flat<typename decltype(tag)::Type>()[index]); });
  return text;
}

std::string ValueText(const Tensor& tensor, int64_t limit) { return Writer(tensor, limit).Write(); }

}  // namespace weir
