#include "kernels/cpu/data/saved_position.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/interchange/serialized_tensor.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/held_tensor.h"

namespace weir {
namespace {

constexpr absl::string_view kMagic = "WeirPosition1";
constexpr size_t kLengthBytes = 8;
constexpr uint64_t kVariantsFollow = uint64_t{1} << 63;
// Of variants in each other.
constexpr int kMostDepth = 4;
// A string of no characters is a byte or two of the message, and an object in memory.
constexpr int64_t kMostBytesForOne = 64;
// Of what one call writes, counted as in memory.
constexpr int64_t kMostBytesOfStrings = INT32_MAX;

void AppendLength(uint64_t length, std::string* to) {
  for (size_t i = 0; i < kLengthBytes; ++i) to->push_back(static_cast<char>(length >> (8 * i)));
}

uint64_t TakeLength(absl::string_view* from) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{static_cast<unsigned char>((*from)[i])} << (8 * i);
  }
  from->remove_prefix(kLengthBytes);
  return length;
}

absl::Status NotHeld(const Tensor& tensor) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the iterator holds elements of dtype ", DTypeName(tensor.dtype()), ", which no checkpoint can hold"));
}

// What a tensor of variants is made of is counted as often as it is referred to, which is how often it would
// be written: a few tiles in each other are billions of tensors.
absl::Status Charge(const Tensor& tensor, int64_t* num_bytes_left) {
  auto num_bytes = static_cast<uint64_t>(kMostBytesForOne) + tensor.num_bytes();
  if (tensor.dtype() == DType::kString) {
    for (const std::string& text : tensor.flat<std::string>()) num_bytes += text.size();
  }
  if (num_bytes > static_cast<uint64_t>(*num_bytes_left)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the positions of iterators would be strings of more than ", kMostBytesOfStrings, " bytes"));
  }
  *num_bytes_left -= static_cast<int64_t>(num_bytes);
  if (tensor.dtype() != DType::kVariant) return absl::OkStatus();
  for (const ResourceHandle& variant : tensor.flat<ResourceHandle>()) {
    const auto* const held = dynamic_cast<const HeldTensor*>(variant.resource.get());
    if (held == nullptr) return NotHeld(tensor);
    WEIR_RETURN_IF_ERROR(Charge(held->tensor(), num_bytes_left));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> StringOf(const std::vector<Tensor>& tensors, int depth);

// Of the shape, and the tensors that the variants are.
absl::StatusOr<std::string> StringOfVariants(const Tensor& variants, int depth) {
  const absl::Span<const int64_t> dims = variants.shape().dims();
  std::vector<Tensor> parts = {Tensor::FromSpan<int64_t>(Shape({static_cast<int64_t>(dims.size())}), dims)};
  for (const ResourceHandle& variant : variants.flat<ResourceHandle>()) {
    const auto* const held = dynamic_cast<const HeldTensor*>(variant.resource.get());
    if (held == nullptr || depth == kMostDepth) return NotHeld(variants);
    parts.push_back(held->tensor());
  }
  return StringOf(parts, depth + 1);
}

absl::StatusOr<std::string> StringOf(const std::vector<Tensor>& tensors, int depth) {
  std::string text(kMagic);
  for (const Tensor& tensor : tensors) {
    const bool has_variants = tensor.dtype() == DType::kVariant;
    if (!has_variants && !IsPlainBytes(tensor.dtype()) && tensor.dtype() != DType::kString) {
      return NotHeld(tensor);
    }
    WEIR_ASSIGN_OR_RETURN(const std::string bytes,
                          has_variants ? StringOfVariants(tensor, depth) : SerializeTensor(tensor));
    AppendLength(bytes.size() | (has_variants ? kVariantsFollow : 0), &text);
    text += bytes;
  }
  return text;
}

absl::Status NoPosition(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("the string is no saved position of an iterator: ", why));
}

absl::StatusOr<std::vector<Tensor>> TensorsOf(absl::string_view text, int depth, int64_t* num_bytes_left);

absl::StatusOr<Tensor> VariantsOf(absl::string_view text, int depth, int64_t* num_bytes_left) {
  if (depth == kMostDepth) return NoPosition("variants lie too deep in each other");
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> parts, TensorsOf(text, depth + 1, num_bytes_left));
  if (parts.empty() || parts[0].dtype() != DType::kInt64 || parts[0].shape().rank() != 1) {
    return NoPosition("variants have no shape");
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(parts[0].flat<int64_t>()));
  if (shape.num_elements() != static_cast<int64_t>(parts.size()) - 1) {
    return NoPosition(absl::StrCat(parts.size() - 1, " variants have the shape ", shape.ToString()));
  }
  Tensor variants(DType::kVariant, shape);
  for (size_t i = 1; i < parts.size(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const int held_depth, DepthAround(parts[i]));
    variants.flat<ResourceHandle>()[i - 1].resource = MakeRef<HeldTensor>(std::move(parts[i]), held_depth);
  }
  return variants;
}

absl::StatusOr<std::vector<Tensor>> TensorsOf(absl::string_view text, int depth, int64_t* num_bytes_left) {
  if (!absl::ConsumePrefix(&text, kMagic)) return NoPosition("it does not begin as one");
  std::vector<Tensor> tensors;
  while (!text.empty()) {
    if (text.size() < kLengthBytes) return NoPosition("it ends in the middle");
    const uint64_t field = TakeLength(&text), length = field & ~kVariantsFollow;
    if (length > text.size()) return NoPosition("it ends in the middle");
    const absl::string_view part = text.substr(0, length);
    text.remove_prefix(length);
    WEIR_ASSIGN_OR_RETURN(Tensor tensor, (field & kVariantsFollow) != 0
                                             ? VariantsOf(part, depth, num_bytes_left)
                                             : ParseTensor(part));
    *num_bytes_left -= static_cast<int64_t>(tensor.num_bytes());
    if (*num_bytes_left < 0) return NoPosition("few bytes stand for very many");
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<RefPtr<SavedPosition>> PositionOf(const std::string& text) {
  int64_t num_bytes_left = (int64_t{1} << 20) + kMostBytesForOne * static_cast<int64_t>(text.size());
  WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, TensorsOf(text, 0, &num_bytes_left));
  return MakeRef<SavedPosition>(std::move(tensors));
}

}  // namespace

absl::StatusOr<RefPtr<VariantValue>> SavedPosition::ZerosLike(KernelContext&) const {
  return absl::InvalidArgumentError("the position of an iterator has no zeros");
}

absl::StatusOr<RefPtr<VariantValue>> SavedPosition::Add(const VariantValue&, KernelContext&) const {
  return absl::InvalidArgumentError("positions of iterators cannot be added");
}

absl::StatusOr<Tensor> StringsOfPositions(const Tensor& variants) {
  WEIR_ASSIGN_OR_RETURN(Tensor strings, Tensor::Allocate(DType::kString, variants.shape()));
  int64_t num_bytes_left = kMostBytesOfStrings;
  for (int64_t i = 0; i < variants.num_elements(); ++i) {
    const Resource* const value = variants.flat<ResourceHandle>()[i].resource.get();
    const auto* const position = dynamic_cast<const SavedPosition*>(value);
    if (position == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("a checkpoint holds no variants but positions of iterators; this is ",
                       value == nullptr ? "none" : value->ToString()));
    }
    for (const Tensor& tensor : position->tensors()) {
      WEIR_RETURN_IF_ERROR(Charge(tensor, &num_bytes_left));
    }
    WEIR_ASSIGN_OR_RETURN(strings.flat<std::string>()[i], StringOf(position->tensors(), 0));
  }
  return strings;
}

absl::StatusOr<Tensor> PositionsOfStrings(const Tensor& strings) {
  Tensor variants(DType::kVariant, strings.shape());
  for (int64_t i = 0; i < strings.num_elements(); ++i) {
    WEIR_ASSIGN_OR_RETURN(variants.flat<ResourceHandle>()[i].resource,
                          PositionOf(strings.flat<std::string>()[i]));
  }
  return variants;
}

}  // namespace weir
