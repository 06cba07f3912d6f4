// Strings that hold the bytes of tensors: raw, in base 64, as TensorProto.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/interchange/serialized_tensor.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/saved_position.h"
#include "kernels/cpu/strings/string_budget.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// Bytes of strings to numbers of a dtype.
class RawDecoder {
 public:
  explicit RawDecoder(const KernelConstruction& construction)
      : dtype_(construction.attr<DType>("out_type")),
        // Processors that Weir runs on are little-endian.
        reverses_(!construction.attr<bool>("little_endian")) {}

  DType dtype() const { return dtype_; }
  int64_t width() const { return static_cast<int64_t>(DTypeSize(dtype_)); }

  // Precondition: as many bytes as whole numbers.
  void Decode(absl::string_view bytes, char* numbers) const {
    if (dtype_ == DType::kBool) {
      for (size_t i = 0; i < bytes.size(); ++i) numbers[i] = static_cast<char>(bytes[i] != 0);
      return;
    }
    std::memcpy(numbers, bytes.data(), bytes.size());
    const size_t part = DTypeSize(dtype_) / (IsComplex(dtype_) ? 2 : 1);
    if (!reverses_ || part == 1) return;
    for (size_t i = 0; i < bytes.size(); i += part) std::reverse(numbers + i, numbers + i + part);
  }

 private:
  const DType dtype_;
  const bool reverses_;
};

absl::StatusOr<Shape> WithInner(const Shape& shape, int64_t inner) {
  Dims dims(shape.dims().begin(), shape.dims().end());
  dims.push_back(inner);
  return Shape::FromDims(dims);
}

class DecodeRaw final : public Kernel {
 public:
  explicit DecodeRaw(const KernelConstruction& construction) : decoder_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const auto strings = input.flat<std::string>();
    const size_t size = strings.empty() ? 0 : strings[0].size();
    for (size_t i = 1; i < strings.size(); ++i) {
      if (strings[i].size() == size) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("DecodeRaw requires input strings to all be the same size, but element ", i,
                       " has size ", size, " != ", strings[i].size()));
    }
    if (static_cast<int64_t>(size) % decoder_.width() != 0) {
      return absl::InvalidArgumentError(absl::StrCat("Input to DecodeRaw has length ", size,
                                                     " that is not a multiple of ", decoder_.width(),
                                                     ", the size of ", DTypeName(decoder_.dtype())));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape,
                          WithInner(input.shape(), static_cast<int64_t>(size) / decoder_.width()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    char* numbers = static_cast<char*>(output->data());
    for (size_t i = 0; i < strings.size() && size > 0; ++i) decoder_.Decode(strings[i], numbers + i * size);
    return absl::OkStatus();
  }

 private:
  const RawDecoder decoder_;
};

class DecodePaddedRaw final : public Kernel {
 public:
  explicit DecodePaddedRaw(const KernelConstruction& construction) : decoder_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Tensor& fixed_length = context.input(1);
    if (!fixed_length.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("fixed_length must be a scalar, is ", fixed_length.shape().ToString()));
    }
    const int64_t length = fixed_length.scalar<int32_t>();
    if (length <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("fixed_length (", length, ") must be greater than zero."));
    }
    if (length % decoder_.width() != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "fixed_length (", length, ") must be a multiple of the size of out_type (", decoder_.width(), ")"));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, WithInner(input.shape(), length / decoder_.width()));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    std::string padded;
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      padded.assign(input.flat<std::string>()[i], 0, length);
      padded.resize(length, '\0');
      decoder_.Decode(padded, static_cast<char*>(output->data()) + i * length);
    }
    return absl::OkStatus();
  }

 private:
  const RawDecoder decoder_;
};

// RFC 4648, section 5: base 64 for URLs.
constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr char kPad = '=';

std::string ToBase64(absl::string_view bytes, bool is_padded) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < count + 1; ++j) text.push_back(kAlphabet[group >> (18 - 6 * j) & 63]);
    if (is_padded) text.append(3 - count, kPad);
  }
  return text;
}

absl::StatusOr<std::string> FromBase64(absl::string_view text) {
  // Two letters at least are left of the last four.
  for (int i = 0; i < 2 && text.size() % 4 == (i == 0 ? 0 : 3) && !text.empty() && text.back() == kPad; ++i) {
    text.remove_suffix(1);
  }
  if (text.size() % 4 == 1) {
    return absl::InvalidArgumentError("Base64 string length cannot be 1 modulo 4.");
  }
  static constexpr auto kValues = [] {
    std::array<int8_t, 256> values{};
    for (int8_t& value : values) value = -1;
    for (int i = 0; i < 64; ++i) values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
    return values;
  }();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  for (size_t i = 0; i < text.size(); i += 4) {
    const size_t count = std::min<size_t>(4, text.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 4; ++j) {
      const int value = j < count ? kValues[static_cast<unsigned char>(text[i + j])] : 0;
      if (value < 0) return absl::InvalidArgumentError("Invalid character found in base64.");
      group = group << 6 | static_cast<uint32_t>(value);
    }
    for (size_t j = 0; j + 1 < count; ++j) bytes.push_back(static_cast<char>(group >> (16 - 8 * j) & 255));
  }
  return bytes;
}

class EncodeBase64 final : public Kernel {
 public:
  explicit EncodeBase64(const KernelConstruction& construction)
      : is_padded_(construction.attr<bool>("pad")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
    StringBudget budget(context);
    for (int64_t i = 0; i < input.num_elements(); ++i) {
      const std::string& bytes = input.flat<std::string>()[i];
      WEIR_RETURN_IF_ERROR(budget.Take(static_cast<int64_t>(bytes.size()) / 3 * 4));
      output->flat<std::string>()[i] = ToBase64(bytes, is_padded_);
    }
    return absl::OkStatus();
  }

 private:
  const bool is_padded_;
};

absl::Status DecodeBase64(KernelContext& context) {
  const Tensor& input = context.input(0);
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, input.shape()));
  for (int64_t i = 0; i < input.num_elements(); ++i) {
    WEIR_ASSIGN_OR_RETURN(output->flat<std::string>()[i], FromBase64(input.flat<std::string>()[i]));
  }
  return absl::OkStatus();
}

// Positions of iterators are the only variants that have a form of bytes: TensorFlow's checkpoints of objects
// write them with this op.
absl::Status SerializeOneTensor(KernelContext& context) {
  Tensor tensor = context.input(0);
  if (tensor.dtype() == DType::kVariant) {
    WEIR_ASSIGN_OR_RETURN(tensor, StringsOfPositions(tensor));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  WEIR_ASSIGN_OR_RETURN(output->flat<std::string>()[0], SerializeTensor(tensor));
  return absl::OkStatus();
}

absl::Status ParseOneTensor(KernelContext& context) {
  const Tensor& serialized = context.input(0);
  if (!serialized.shape().is_scalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected `serialized` to be a scalar, got shape: ", serialized.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, ParseTensor(serialized.scalar<std::string>(), context.allocator()));
  if (tensor.dtype() == DType::kString && context.output_type(0) == DType::kVariant) {
    WEIR_ASSIGN_OR_RETURN(tensor, PositionsOfStrings(tensor));
  }
  if (tensor.dtype() != context.output_type(0)) {
    return absl::InvalidArgumentError(absl::StrCat("Type mismatch between parsed tensor (",
                                                   DTypeName(tensor.dtype()), ") and dtype (",
                                                   DTypeName(context.output_type(0)), ")"));
  }
  context.set_output(0, std::move(tensor));
  return absl::OkStatus();
}

}  // namespace

void RegisterBytesKernels(DeviceKernels& kernels) {
  kernels.Add<DecodeRaw>("DecodeRaw");
  kernels.Add<DecodePaddedRaw>("DecodePaddedRaw");
  kernels.Add<EncodeBase64>("EncodeBase64");
  kernels.Add<&DecodeBase64>("DecodeBase64");
  kernels.Add<&SerializeOneTensor>("SerializeTensor");
  kernels.Add<&ParseOneTensor>("ParseTensor");
}

}  // namespace weir
