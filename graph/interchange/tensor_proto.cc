#include "graph/interchange/tensor_proto.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/io/coded_stream.h"
#include "graph/interchange/message_form.h"
#include "graph/interchange/proto/graph.pb.h"
#include "graph/interchange/split_message.h"
#include "graph/types/float8.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using ::google::protobuf::io::CodedInputStream;
using ::google::protobuf::io::CodedOutputStream;
using ::tensorflow::TensorProto;

static_assert(std::endian::native == std::endian::little,
              "tensor_content is little-endian and copied as it is");

// Strings and handles are rarely equal, and each is an object to construct: less for them.
constexpr size_t kMaxObjectSplatBytes = kMaxSplatBytes / 32;
constexpr int kMaxRank = 254;                                  // TensorFlow's limit
constexpr size_t kMaxContentBytes = (size_t{1} << 31) - 1024;  // of a message that holds one tensor

absl::Status Malformed(DType dtype, const Shape& shape, absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("malformed tensor message for ", TypeString(dtype, shape), ": ", problem));
}

// Where the values of a C++ element type stand in the message, and how one of them converts. Out-of-range
// values of narrow types are refused, not wrapped.
template <typename T>
struct ListOf;

#define WEIR_LIST_OF(T, Wire, field)                                            \
  template <>                                                                   \
  struct ListOf<T> {                                                            \
    static const auto& Read(const TensorProto& proto) { return proto.field(); } \
    static auto* Write(TensorProto* proto) { return proto->mutable_##field(); } \
    static bool Convert(Wire wire, T* value) {                                  \
      *value = static_cast<T>(wire);                                            \
      return static_cast<Wire>(*value) == wire || wire != wire;                 \
    }                                                                           \
    static Wire ToWire(T value) { return static_cast<Wire>(value); }            \
  }
WEIR_LIST_OF(float, float, float_val);
WEIR_LIST_OF(double, double, double_val);
WEIR_LIST_OF(int32_t, int32_t, int_val);
WEIR_LIST_OF(uint8_t, int32_t, int_val);
WEIR_LIST_OF(int16_t, int32_t, int_val);
WEIR_LIST_OF(int8_t, int32_t, int_val);
WEIR_LIST_OF(uint16_t, int32_t, int_val);
WEIR_LIST_OF(int64_t, int64_t, int64_val);
WEIR_LIST_OF(bool, bool, bool_val);
WEIR_LIST_OF(uint32_t, uint32_t, uint32_val);
WEIR_LIST_OF(uint64_t, uint64_t, uint64_val);
#undef WEIR_LIST_OF

template <typename T>
struct SixteenBitList {
  static const auto& Read(const TensorProto& proto) { return proto.half_val(); }
  static auto* Write(TensorProto* proto) { return proto->mutable_half_val(); }
  static bool Convert(int32_t wire, T* value) {
    *value = T::FromBits(static_cast<uint16_t>(wire));
    return wire >= 0 && wire <= 0xffff;
  }
  static int32_t ToWire(T value) { return value.bits(); }
};
template <>
struct ListOf<Half> : SixteenBitList<Half> {};
template <>
struct ListOf<Bfloat16> : SixteenBitList<Bfloat16> {};

template <>
struct ListOf<std::string> {
  static const auto& Read(const TensorProto& proto) { return proto.string_val(); }
  static auto* Write(TensorProto* proto) { return proto->mutable_string_val(); }
  static bool Convert(const std::string& wire, std::string* value) {
    *value = wire;
    return true;
  }
  static const std::string& ToWire(const std::string& value) { return value; }
};

template <>
struct ListOf<ResourceHandle> {
  static const auto& Read(const TensorProto& proto) { return proto.resource_handle_val(); }
  static auto* Write(TensorProto* proto) { return proto->mutable_resource_handle_val(); }
  static bool Convert(const tensorflow::ResourceHandleProto& wire, ResourceHandle* value) {
    *value = ResourceHandleFromProto(wire);
    return true;
  }
  static tensorflow::ResourceHandleProto ToWire(const ResourceHandle& value) {
    tensorflow::ResourceHandleProto wire;
    ResourceHandleToProto(value, &wire);
    return wire;
  }
};

// Complex values stand as pairs (real, imaginary) in a list of their part type.
template <typename T>
const auto& ComplexList(const TensorProto& proto) {
  if constexpr (std::is_same_v<T, std::complex<float>>)
    return proto.scomplex_val();
  else
    return proto.dcomplex_val();
}

template <typename T>
auto* MutableComplexList(TensorProto* proto) {
  if constexpr (std::is_same_v<T, std::complex<float>>)
    return proto->mutable_scomplex_val();
  else
    return proto->mutable_dcomplex_val();
}

template <typename T>
inline constexpr bool kIsComplexType =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Calls visitor(T{}) with the C++ element type of `dtype`; false for dtypes without elements.
template <typename Visitor>
bool VisitElementType(DType dtype, Visitor visitor) {
  switch (StoredAs(dtype)) {
    case DType::kFloat32:
      return visitor(float{}), true;
    case DType::kFloat64:
      return visitor(double{}), true;
    case DType::kInt32:
      return visitor(int32_t{}), true;
    case DType::kUint8:
      return visitor(uint8_t{}), true;
    case DType::kInt16:
      return visitor(int16_t{}), true;
    case DType::kInt8:
      return visitor(int8_t{}), true;
    case DType::kString:
      return visitor(std::string{}), true;
    case DType::kComplex64:
      return visitor(std::complex<float>{}), true;
    case DType::kInt64:
      return visitor(int64_t{}), true;
    case DType::kBool:
      return visitor(bool{}), true;
    case DType::kBfloat16:
      return visitor(Bfloat16{}), true;
    case DType::kUint16:
      return visitor(uint16_t{}), true;
    case DType::kComplex128:
      return visitor(std::complex<double>{}), true;
    case DType::kHalf:
      return visitor(Half{}), true;
    case DType::kResource:
      return visitor(ResourceHandle{}), true;
    case DType::kUint32:
      return visitor(uint32_t{}), true;
    case DType::kUint64:
      return visitor(uint64_t{}), true;
    default:
      return false;
  }
}

// --- reading ---

absl::StatusOr<DType> DTypeOfProto(const TensorProto& proto) {
  const int value = proto.dtype();
  if (!IsKnownDType(value) || static_cast<DType>(value) == DType::kVariant) {
    const std::string name = tensorflow::DataType_Name(proto.dtype());
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor message of dtype ", name.empty() ? absl::StrCat(value) : name, ", which Weir cannot hold"));
  }
  return static_cast<DType>(value);
}

// `num_bytes_outside`: what each repetition of the last value takes outside of the tensor's buffer.
absl::Status CheckValueCount(DType dtype, const Shape& shape, int64_t num_values,
                             int64_t num_bytes_outside = 0) {
  const int64_t num_elements = shape.num_elements();
  if (num_values > num_elements) {
    return Malformed(dtype, shape, absl::StrCat(num_values, " values for ", num_elements, " elements"));
  }
  int64_t num_bytes = 0;
  const size_t max_bytes = IsPlainBytes(dtype) ? kMaxSplatBytes : kMaxObjectSplatBytes;
  if (num_values < num_elements &&
      (!MultiplyWithoutOverflow(num_elements, static_cast<int64_t>(DTypeSize(dtype)) + num_bytes_outside,
                                &num_bytes) ||
       num_bytes > static_cast<int64_t>(max_bytes))) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tensor message for ", TypeString(dtype, shape), " has only ", num_values,
                     " values and would expand to more than ", max_bytes, " bytes"));
  }
  return absl::OkStatus();
}

// What an element that repeats the last value takes beside its place in the tensor.
size_t NumBytesOutside(const TensorProto& proto) {
  if (proto.dtype() == tensorflow::DT_STRING && proto.string_val_size() > 0) {
    return proto.string_val(proto.string_val_size() - 1).size();
  }
  if (proto.dtype() == tensorflow::DT_RESOURCE && proto.resource_handle_val_size() > 0) {
    const auto& handle = proto.resource_handle_val(proto.resource_handle_val_size() - 1);
    return handle.device().size() + handle.container().size() + handle.name().size() +
           handle.maybe_type_name().size();
  }
  return 0;
}

// Elements [num_values, end) repeat the last value, or are zero when there is none.
template <typename T>
void Splat(int64_t num_values, absl::Span<T> elements) {
  const T last = num_values > 0 ? elements[num_values - 1] : T();
  std::fill(elements.begin() + num_values, elements.end(), last);
}

template <typename T>
absl::StatusOr<Tensor> FromList(const TensorProto& proto, DType dtype, const Shape& shape,
                                Allocator& allocator) {
  const auto& list = ListOf<T>::Read(proto);
  const auto num_bytes_outside = static_cast<int64_t>(NumBytesOutside(proto));
  // TensorFlow's clients write zeros of no elements as one value (tf.zeros([0], tf.string)).
  if (shape.num_elements() == 0 && list.size() == 1) return Tensor::Allocate(dtype, shape, allocator);
  WEIR_RETURN_IF_ERROR(CheckValueCount(dtype, shape, list.size(), num_bytes_outside));
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape, allocator));
  const absl::Span<T> elements = tensor.flat<T>();
  for (int i = 0; i < list.size(); ++i) {
    if (!ListOf<T>::Convert(list[i], &elements[i])) {
      return Malformed(dtype, shape, absl::StrCat("value ", i, " is out of range"));
    }
  }
  Splat(list.size(), elements);
  return tensor;
}

template <typename T>
absl::StatusOr<Tensor> FromComplexList(const TensorProto& proto, const Shape& shape, Allocator& allocator) {
  const DType dtype = DTypeOf<T>;
  const auto& list = ComplexList<T>(proto);
  if (list.size() % 2 != 0) return Malformed(dtype, shape, "an odd number of parts of complex values");
  const int64_t num_values = list.size() / 2;
  WEIR_RETURN_IF_ERROR(CheckValueCount(dtype, shape, num_values));
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape, allocator));
  const absl::Span<T> elements = tensor.flat<T>();
  for (int64_t i = 0; i < num_values; ++i) elements[i] = T(list[2 * i], list[2 * i + 1]);
  Splat(num_values, elements);
  return tensor;
}

// A byte for each value.
absl::StatusOr<Tensor> FromFloat8Bytes(absl::string_view bytes, DType dtype, const Shape& shape,
                                       Allocator& allocator) {
  const auto num_values = static_cast<int64_t>(bytes.size());
  WEIR_RETURN_IF_ERROR(CheckValueCount(dtype, shape, num_values));
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape, allocator));
  const absl::Span<uint8_t> elements = tensor.flat<uint8_t>();
  std::copy(bytes.begin(), bytes.end(), elements.begin());
  Splat(num_values, elements);
  return tensor;
}

absl::StatusOr<Tensor> StringsFromContent(absl::string_view content, const Shape& shape,
                                          Allocator& allocator) {
  // Each element has at least its length, so the content bounds the count before anything is allocated.
  const int64_t num_elements = shape.num_elements();
  if (num_elements > static_cast<int64_t>(content.size())) {
    return Malformed(DType::kString, shape, absl::StrCat("only ", content.size(), " bytes of content"));
  }
  if (content.size() > std::numeric_limits<int>::max()) return Malformed(DType::kString, shape, "too long");
  CodedInputStream in(reinterpret_cast<const uint8_t*>(content.data()), static_cast<int>(content.size()));
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(DType::kString, shape, allocator));
  std::vector<uint64_t> lengths(num_elements);
  uint64_t total = 0;
  for (uint64_t& length : lengths) {
    if (!in.ReadVarint64(&length) || length > content.size() || (total += length) > content.size()) {
      return Malformed(DType::kString, shape, "the lengths of its strings do not fit its content");
    }
  }
  size_t position = in.CurrentPosition();
  if (content.size() - position != total) {
    return Malformed(
        DType::kString, shape,
        absl::StrCat(total, " bytes of strings announced, ", content.size() - position, " there"));
  }
  const absl::Span<std::string> elements = tensor.flat<std::string>();
  for (int64_t i = 0; i < num_elements; ++i) {
    elements[i].assign(content.data() + position, lengths[i]);
    position += lengths[i];
  }
  return tensor;
}

absl::StatusOr<Tensor> FromContent(absl::string_view content, DType dtype, const Shape& shape,
                                   Allocator& allocator) {
  if (dtype == DType::kString) return StringsFromContent(content, shape, allocator);
  int64_t num_bytes = 0;
  if (!IsPlainBytes(dtype) || !MultiplyWithoutOverflow(shape.num_elements(), DTypeSize(dtype), &num_bytes) ||
      num_bytes != static_cast<int64_t>(content.size())) {
    return Malformed(dtype, shape, absl::StrCat("tensor_content has ", content.size(), " bytes"));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape, allocator));
  if (dtype == DType::kBool) {
    // A bool with a value other than 0 and 1 is undefined behaviour to read.
    std::transform(content.begin(), content.end(), tensor.flat<bool>().begin(),
                   [](char c) { return c != 0; });
  } else {
    std::memcpy(tensor.data(), content.data(), content.size());
  }
  return tensor;
}

// --- writing ---

absl::Status CheckWritable(const Tensor& tensor) {
  if (!tensor.is_valid()) return absl::InvalidArgumentError("no tensor to write into a message");
  if (tensor.dtype() == DType::kVariant) {
    return absl::UnimplementedError(absl::StrCat(tensor.ToString(4), " has no form outside of its process"));
  }
  size_t num_bytes = IsPlainBytes(tensor.dtype()) ? tensor.num_bytes() : 0;
  if (tensor.dtype() == DType::kString) {
    for (const std::string& value : tensor.flat<std::string>()) num_bytes += value.size() + 10;
  }
  if (num_bytes <= kMaxContentBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(TypeString(tensor.dtype(), tensor.shape()), " has ",
                                                 num_bytes, " bytes, more than a message can hold"));
}

std::string StringContent(absl::Span<const std::string> values) {
  std::string content;
  for (const std::string& value : values) {
    uint8_t varint[10];
    const uint8_t* end = CodedOutputStream::WriteVarint64ToArray(value.size(), varint);
    content.append(reinterpret_cast<const char*>(varint), end - varint);
  }
  for (const std::string& value : values) content.append(value);
  return content;
}

template <typename T>
void AppendToList(const T& value, TensorProto* proto) {
  if constexpr (kIsComplexType<T>) {
    MutableComplexList<T>(proto)->Add(value.real());
    MutableComplexList<T>(proto)->Add(value.imag());
  } else {
    *ListOf<T>::Write(proto)->Add() = ListOf<T>::ToWire(value);
  }
}
template <>
void AppendToList<bool>(const bool& value, TensorProto* proto) {
  proto->add_bool_val(value);
}

template <typename T>
void AppendAllToList(const Tensor& tensor, TensorProto* proto) {
  for (const T& value : tensor.flat<T>()) AppendToList(value, proto);
}

void WriteHeader(const Tensor& tensor, TensorProto* proto) {
  proto->Clear();
  proto->set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  ShapeToProto(tensor.shape(), proto->mutable_tensor_shape());
}

void WriteContent(const Tensor& tensor, TensorProto* proto) {
  if (tensor.dtype() == DType::kString) {
    proto->set_tensor_content(StringContent(tensor.flat<std::string>()));
  } else if (tensor.dtype() == DType::kResource) {
    AppendAllToList<ResourceHandle>(tensor, proto);
  } else if (tensor.num_bytes() > 0) {
    proto->set_tensor_content(tensor.data(), tensor.num_bytes());
  }
}

// Bit for bit, so that -0.0 and NaN come back as they were.
bool HasEqualElements(const Tensor& tensor) {
  if (!IsPlainBytes(tensor.dtype()) || tensor.num_elements() < 2) return false;
  const size_t element_bytes = DTypeSize(tensor.dtype());
  const char* bytes = static_cast<const char*>(tensor.data());
  return std::memcmp(bytes, bytes + element_bytes, tensor.num_bytes() - element_bytes) == 0;
}

}  // namespace

namespace {

absl::StatusOr<Tensor> FromProto(const TensorProto& proto, absl::string_view content, Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(const DType dtype, DTypeOfProto(proto));
  WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeFromProto(proto.tensor_shape()));
  if (!content.empty()) return FromContent(content, dtype, shape, allocator);
  if (IsFloat8(dtype)) return FromFloat8Bytes(proto.float8_val(), dtype, shape, allocator);
  absl::StatusOr<Tensor> result;
  VisitElementType(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (kIsComplexType<T>) {
      result = FromComplexList<T>(proto, shape, allocator);
    } else {
      result = FromList<T>(proto, dtype, shape, allocator);
    }
  });
  return result;
}

}  // namespace

absl::StatusOr<Tensor> TensorFromProto(const TensorProto& proto, Allocator& allocator) {
  return FromProto(proto, proto.tensor_content(), allocator);
}

absl::StatusOr<Tensor> TensorFromProtoBytes(absl::string_view bytes, AdmitTensor admit,
                                            Allocator& allocator) {
  WEIR_ASSIGN_OR_RETURN(const SplitMessage message,
                        SplitMessageBytes(bytes, TensorProto::kTensorContentFieldNumber));
  TensorProto proto;
  WEIR_RETURN_IF_ERROR(ParseMessageBytes(message.rest, "a tensor message", &proto));
  const absl::string_view content = message.pieces.empty() ? absl::string_view() : message.pieces.back();
  int64_t num_bytes = NumTensorBytes(proto);
  // The characters of strings are beside the tensor's elements.
  if (proto.dtype() == tensorflow::DT_STRING) {
    const auto num_characters = static_cast<int64_t>(content.size());
    num_bytes = std::min(num_bytes, std::numeric_limits<int64_t>::max() - num_characters) + num_characters;
  }
  WEIR_RETURN_IF_ERROR(admit(num_bytes));
  return FromProto(proto, content, allocator);
}

absl::StatusOr<Tensor> TensorFromProtoBytes(absl::string_view bytes, Allocator& allocator) {
  return TensorFromProtoBytes(
      bytes, [](int64_t) { return absl::OkStatus(); }, allocator);
}

int64_t NumTensorBytes(const TensorProto& proto) {
  const absl::StatusOr<DType> dtype = DTypeOfProto(proto);
  const absl::StatusOr<Shape> shape = ShapeFromProto(proto.tensor_shape());
  if (!dtype.ok() || !shape.ok()) return 0;
  // The last value may stand for many.
  const size_t each = DTypeSize(*dtype) + NumBytesOutside(proto);
  int64_t num_bytes = 0;
  if (MultiplyWithoutOverflow(shape->num_elements(), static_cast<int64_t>(each), &num_bytes)) {
    return num_bytes;
  }
  return std::numeric_limits<int64_t>::max();
}

absl::Status TensorToProto(const Tensor& tensor, TensorProto* proto) {
  WEIR_RETURN_IF_ERROR(CheckWritable(tensor));
  WriteHeader(tensor, proto);
  WriteContent(tensor, proto);
  return absl::OkStatus();
}

absl::StatusOr<std::string> TensorProtoBytesBeforeContent(const Tensor& tensor) {
  TensorProto proto;
  WEIR_RETURN_IF_ERROR(CheckWritable(tensor));
  WriteHeader(tensor, &proto);
  if (!IsPlainBytes(tensor.dtype())) WriteContent(tensor, &proto);
  std::string bytes = proto.SerializeAsString();
  if (IsPlainBytes(tensor.dtype()) && tensor.num_bytes() > 0) {
    AppendPieceHead(TensorProto::kTensorContentFieldNumber, tensor.num_bytes(), &bytes);
  }
  return bytes;
}

absl::Status TensorToAttrProto(const Tensor& tensor, TensorProto* proto) {
  WEIR_RETURN_IF_ERROR(CheckWritable(tensor));
  WriteHeader(tensor, proto);
  const bool is_splat = HasEqualElements(tensor);
  const bool is_list = tensor.num_elements() == 1 || tensor.dtype() == DType::kString ||
                       tensor.dtype() == DType::kBool || tensor.dtype() == DType::kResource;
  if (!is_splat && !is_list) {
    WriteContent(tensor, proto);
    return absl::OkStatus();
  }
  if (IsFloat8(tensor.dtype())) {
    proto->set_float8_val(tensor.data(), 1);
    return absl::OkStatus();
  }
  VisitElementType(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (is_splat) {
      AppendToList<T>(tensor.flat<T>()[0], proto);
    } else {
      AppendAllToList<T>(tensor, proto);
    }
  });
  return absl::OkStatus();
}

absl::StatusOr<PartialShape> PartialShapeFromProto(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) {
    if (proto.dim_size() == 0) return PartialShape();
    return absl::InvalidArgumentError("a shape message of unknown rank has dimensions");
  }
  if (proto.dim_size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("a shape message has ", proto.dim_size(),
                                                   " dimensions, at most ", kMaxRank, " are allowed"));
  }
  Dims dims;
  for (const auto& dim : proto.dim()) dims.push_back(dim.size());
  return PartialShape::FromDims(dims);
}

absl::StatusOr<Shape> ShapeFromProto(const tensorflow::TensorShapeProto& proto) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, PartialShapeFromProto(proto));
  if (shape.is_fully_known()) return shape.ToShape();
  return absl::InvalidArgumentError(
      absl::StrCat("the shape ", shape.ToString(), " is not fully known where a tensor needs one"));
}

void ShapeToProto(const PartialShape& shape, tensorflow::TensorShapeProto* proto) {
  proto->Clear();
  proto->set_unknown_rank(!shape.has_rank());
  for (int64_t dim : shape.dims()) proto->add_dim()->set_size(dim);
}

ResourceHandle ResourceHandleFromProto(const tensorflow::ResourceHandleProto& proto) {
  return {proto.device(), proto.container(), proto.name(), proto.maybe_type_name(), nullptr};
}

void ResourceHandleToProto(const ResourceHandle& handle, tensorflow::ResourceHandleProto* proto) {
  proto->Clear();
  proto->set_device(handle.device);
  proto->set_container(handle.container);
  proto->set_name(handle.name);
  proto->set_maybe_type_name(handle.type_name);
}

}  // namespace weir
