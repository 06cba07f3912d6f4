#include "graph/types/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "graph/types/float8.h"

namespace weir {
namespace {

// Holds C++ objects in another buffer: constructs them, and destroys them when it goes.
template <typename T>
class ObjectBuffer final : public Buffer {
 public:
  // Precondition: `memory` has room for `count` objects.
  ObjectBuffer(RefPtr<Buffer> memory, int64_t count)
      : Buffer(memory->data(), memory->num_bytes()), memory_(std::move(memory)), count_(count) {
    std::uninitialized_value_construct_n(objects(), count_);
  }
  ~ObjectBuffer() override { std::destroy_n(objects(), count_); }

 private:
  T* objects() const { return static_cast<T*>(data_); }

  const RefPtr<Buffer> memory_;
  const int64_t count_;
};

// Null when memory runs out. Precondition: the bytes of all elements can be counted.
RefPtr<Buffer> AllocateElements(DType dtype, int64_t count, Allocator& allocator) {
  RefPtr<Buffer> memory = allocator.Allocate(static_cast<size_t>(count) * DTypeSize(dtype));
  if (!memory || IsPlainBytes(dtype)) return memory;
  if (dtype == DType::kString) return MakeRef<ObjectBuffer<std::string>>(std::move(memory), count);
  // A variant is a handle without a name: its value has no other holder than tensors.
  return MakeRef<ObjectBuffer<ResourceHandle>>(std::move(memory), count);
}

template <typename T>
void AppendElement(const T& value, std::string* out) {
  if constexpr (std::is_same_v<T, std::string>) {
    absl::StrAppend(out, "\"", absl::CHexEscape(value.substr(0, 40)), value.size() > 40 ? "...\"" : "\"");
  } else if constexpr (std::is_same_v<T, ResourceHandle>) {
    absl::StrAppend(out, value.container, "/", value.name);
  } else if constexpr (std::is_same_v<T, bool>) {
    absl::StrAppend(out, value ? "true" : "false");
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    absl::StrAppend(out, "(", value.real(), ",", value.imag(), ")");
  } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>) {
    absl::StrAppend(out, static_cast<float>(value));
  } else {
    absl::StrAppend(out, value);
  }
}

template <typename T>
void AppendElements(const Tensor& tensor, int max_elements, std::string* out) {
  const absl::Span<const T> values = tensor.flat<T>();
  const size_t shown = std::min<size_t>(values.size(), max_elements);
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) out->append(", ");
    AppendElement(values[i], out);
  }
  if (shown < values.size()) out->append(", ...");
}

void AppendFloat8s(const Tensor& tensor, int max_elements, std::string* out) {
  Tensor wide(DType::kFloat32, tensor.shape());
  const absl::Span<const uint8_t> bytes = tensor.flat<uint8_t>();
  std::transform(bytes.begin(), bytes.end(), wide.flat<float>().begin(),
                 [&](uint8_t bits) { return Float8ToFloat(tensor.dtype(), bits); });
  AppendElements<float>(wide, max_elements, out);
}

void AppendVariants(const Tensor& tensor, int max_elements, std::string* out) {
  const absl::Span<const ResourceHandle> values = tensor.flat<ResourceHandle>();
  for (size_t i = 0; i < std::min<size_t>(values.size(), max_elements); ++i) {
    const RefPtr<Resource>& value = values[i].resource;
    absl::StrAppend(out, i > 0 ? ", " : "", value ? value->ToString() : "nothing");
  }
  if (values.size() > static_cast<size_t>(max_elements)) out->append(", ...");
}

}  // namespace

absl::StatusOr<Tensor> Tensor::Allocate(DType dtype, const Shape& shape, Allocator& allocator) {
  if (DTypeSize(dtype) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("no tensor can have the dtype ", DTypeName(dtype)));
  }
  int64_t num_bytes = 0;
  const bool fits = MultiplyWithoutOverflow(shape.num_elements(), DTypeSize(dtype), &num_bytes);
  Tensor result;
  if (fits) result.buffer_ = AllocateElements(dtype, shape.num_elements(), allocator);
  if (!result.buffer_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory allocating a tensor of ", TypeString(dtype, shape)));
  }
  result.dtype_ = dtype;
  result.shape_ = shape;
  return result;
}

Tensor::Tensor(DType dtype, const Shape& shape)
    : dtype_(dtype), shape_(shape), buffer_(AllocateElements(dtype, shape.num_elements(), HostAllocator())) {
  if (!buffer_) std::abort();
}

Tensor::Tensor(DType dtype, const Shape& shape, RefPtr<Buffer> buffer, size_t byte_offset)
    : dtype_(dtype), shape_(shape), buffer_(std::move(buffer)), byte_offset_(byte_offset) {}

Tensor Tensor::WithShape(const Shape& shape) const {
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::Slice(int64_t begin, int64_t end) const {
  Dims dims(shape_.dims().begin(), shape_.dims().end());
  const int64_t rows = dims[0];
  dims[0] = end - begin;
  Tensor result = WithShape(Shape(dims));
  result.byte_offset_ += rows == 0 ? 0 : num_bytes() / rows * begin;
  return result;
}

Tensor Tensor::Clone() const {
  if (!is_valid()) return Tensor();
  Tensor result(dtype_, shape_);
  if (dtype_ == DType::kString) {
    std::copy_n(flat<std::string>().begin(), num_elements(), result.flat<std::string>().begin());
  } else if (!IsPlainBytes(dtype_)) {
    std::copy_n(flat<ResourceHandle>().begin(), num_elements(), result.flat<ResourceHandle>().begin());
  } else if (num_bytes() > 0) {
    std::memcpy(result.data(), data(), num_bytes());
  }
  return result;
}

std::string TypeString(DType dtype, const PartialShape& shape) {
  return absl::StrCat(DTypeName(dtype), shape.has_rank() ? "" : " of shape ", shape.ToString());
}

std::string Tensor::ToString(int max_elements) const {
  if (!is_valid()) return "no tensor";
  std::string out = absl::StrCat(TypeString(dtype_, shape_), " {");
  if (IsFloat8(dtype_)) {
    AppendFloat8s(*this, max_elements, &out);
    return out + "}";
  }
  switch (StoredAs(dtype_)) {
    case DType::kFloat32:
      AppendElements<float>(*this, max_elements, &out);
      break;
    case DType::kFloat64:
      AppendElements<double>(*this, max_elements, &out);
      break;
    case DType::kInt32:
      AppendElements<int32_t>(*this, max_elements, &out);
      break;
    case DType::kUint8:
      AppendElements<uint8_t>(*this, max_elements, &out);
      break;
    case DType::kInt16:
      AppendElements<int16_t>(*this, max_elements, &out);
      break;
    case DType::kInt8:
      AppendElements<int8_t>(*this, max_elements, &out);
      break;
    case DType::kString:
      AppendElements<std::string>(*this, max_elements, &out);
      break;
    case DType::kComplex64:
      AppendElements<std::complex<float>>(*this, max_elements, &out);
      break;
    case DType::kInt64:
      AppendElements<int64_t>(*this, max_elements, &out);
      break;
    case DType::kBool:
      AppendElements<bool>(*this, max_elements, &out);
      break;
    case DType::kBfloat16:
      AppendElements<Bfloat16>(*this, max_elements, &out);
      break;
    case DType::kUint16:
      AppendElements<uint16_t>(*this, max_elements, &out);
      break;
    case DType::kComplex128:
      AppendElements<std::complex<double>>(*this, max_elements, &out);
      break;
    case DType::kHalf:
      AppendElements<Half>(*this, max_elements, &out);
      break;
    case DType::kResource:
      AppendElements<ResourceHandle>(*this, max_elements, &out);
      break;
    case DType::kVariant:
      AppendVariants(*this, max_elements, &out);
      break;
    case DType::kUint32:
      AppendElements<uint32_t>(*this, max_elements, &out);
      break;
    case DType::kUint64:
      AppendElements<uint64_t>(*this, max_elements, &out);
      break;
    default:
      out.append("?");
      break;
  }
  return out + "}";
}

}  // namespace weir
