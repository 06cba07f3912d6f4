#include "distributed/transport/bundle.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/resource_handle.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr uint64_t kMaxRank = 254;  // TensorFlow's

std::string EncodeStrings(const Tensor& tensor) {
  WireWriter writer;
  for (const std::string& element : tensor.flat<std::string>()) writer.String(element);
  return writer.Take();
}

std::string EncodeHandles(const Tensor& tensor) {
  WireWriter writer;
  for (const ResourceHandle& handle : tensor.flat<ResourceHandle>()) {
    writer.String(handle.device);
    writer.String(handle.container);
    writer.String(handle.name);
    writer.String(handle.type_name);
  }
  return writer.Take();
}

absl::Status DecodeStrings(WireReader reader, Tensor* tensor) {
  for (std::string& element : tensor->flat<std::string>()) element = std::string(reader.String());
  return reader.Finish("the strings of a tensor");
}

absl::Status DecodeHandles(WireReader reader, Tensor* tensor) {
  for (ResourceHandle& handle : tensor->flat<ResourceHandle>()) {
    handle.device = std::string(reader.String());
    handle.container = std::string(reader.String());
    handle.name = std::string(reader.String());
    handle.type_name = std::string(reader.String());
  }
  return reader.Finish("the resource handles of a tensor");
}

absl::StatusOr<Shape> DecodeShape(WireReader* header) {
  const uint64_t rank = header->UnsignedUpTo(kMaxRank);
  Dims dims;
  for (uint64_t i = 0; i < rank && header->ok(); ++i) {
    dims.push_back(static_cast<int64_t>(header->UnsignedUpTo(INT64_MAX)));
  }
  if (!header->ok()) return absl::InvalidArgumentError("the shape of a tensor is malformed");
  return Shape::FromDims(dims);
}

absl::StatusOr<Tensor> DecodePlain(DType dtype, const Shape& shape, const Payload& payload) {
  int64_t num_bytes = 0;
  if (!MultiplyWithoutOverflow(shape.num_elements(), static_cast<int64_t>(DTypeSize(dtype)), &num_bytes) ||
      num_bytes != static_cast<int64_t>(payload.num_bytes())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor ", TypeString(dtype, shape), " came with ", payload.num_bytes(), " bytes"));
  }
  Tensor tensor(dtype, shape, payload.buffer(), payload.byte_offset());
  NormalizeBools(&tensor);
  return tensor;
}

absl::StatusOr<Tensor> DecodeObjects(DType dtype, const Shape& shape, const Payload& payload,
                                     const AdmitObjects& admit) {
  // Every string takes a length of at least one byte.
  const int64_t least_bytes = dtype == DType::kResource ? 4 : 1;
  if (shape.num_elements() > static_cast<int64_t>(payload.num_bytes()) / least_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor ", TypeString(dtype, shape), " came with ", payload.num_bytes(), " bytes"));
  }
  if (admit) WEIR_RETURN_IF_ERROR(admit(shape.num_elements() * static_cast<int64_t>(DTypeSize(dtype))));
  WEIR_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Allocate(dtype, shape));
  const WireReader reader(payload.bytes());
  WEIR_RETURN_IF_ERROR(dtype == DType::kString ? DecodeStrings(reader, &tensor)
                                               : DecodeHandles(reader, &tensor));
  return tensor;
}

}  // namespace

void NormalizeBools(Tensor* tensor) {
  if (tensor->dtype() != DType::kBool) return;
  uint8_t* bytes = static_cast<uint8_t*>(tensor->data());
  for (size_t i = 0; i < tensor->num_bytes(); ++i) {
    if (bytes[i] > 1) bytes[i] = 1;
  }
}

void EncodeTensorType(DType dtype, const Shape& shape, WireWriter* header) {
  header->Unsigned(static_cast<uint64_t>(dtype));
  header->Unsigned(shape.rank());
  for (const int64_t dim : shape.dims()) header->Unsigned(dim);
}

absl::StatusOr<TensorType> DecodeTensorType(WireReader* header) {
  const uint64_t dtype_value = header->UnsignedUpTo(255);
  if (!header->ok()) return absl::InvalidArgumentError("a tensor is missing");
  if (dtype_value == 0) return TensorType();
  if (!IsKnownDType(static_cast<int>(dtype_value)) || dtype_value == static_cast<uint64_t>(DType::kVariant)) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor came with the unknown dtype ", dtype_value));
  }
  WEIR_ASSIGN_OR_RETURN(Shape shape, DecodeShape(header));
  return TensorType{static_cast<DType>(dtype_value), std::move(shape)};
}

absl::Status EncodeTensor(const Tensor& tensor, WireWriter* header, std::vector<Payload>* payloads) {
  if (!tensor.is_valid()) {
    header->Unsigned(static_cast<uint64_t>(tensor.dtype()));
    return absl::OkStatus();
  }
  EncodeTensorType(tensor.dtype(), tensor.shape(), header);
  if (tensor.dtype() == DType::kVariant) {
    return absl::UnimplementedError(absl::StrCat("a ", TypeString(tensor.dtype(), tensor.shape()),
                                                 " tensor cannot be sent to another task"));
  }
  if (tensor.dtype() == DType::kString) {
    payloads->push_back(Payload::OfString(EncodeStrings(tensor)));
  } else if (tensor.dtype() == DType::kResource) {
    payloads->push_back(Payload::OfString(EncodeHandles(tensor)));
  } else {
    payloads->push_back(Payload::OfTensor(tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> DecodeTensor(WireReader* header, const std::vector<Payload>& payloads,
                                    size_t* next_payload, const AdmitObjects& admit) {
  WEIR_ASSIGN_OR_RETURN(const TensorType type, DecodeTensorType(header));
  const auto& [dtype, shape] = type;
  if (dtype == DType::kInvalid) return Tensor();
  if (*next_payload >= payloads.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor ", TypeString(dtype, shape), " came without its elements"));
  }
  const Payload& payload = payloads[(*next_payload)++];
  return IsPlainBytes(dtype) ? DecodePlain(dtype, shape, payload)
                             : DecodeObjects(dtype, shape, payload, admit);
}

absl::Status EncodeBundle(const std::vector<EdgeTensor>& entries, WireWriter* header,
                          std::vector<Payload>* payloads) {
  header->Unsigned(entries.size());
  for (const EdgeTensor& entry : entries) {
    header->Unsigned(static_cast<uint64_t>(entry.edge) << 2 | uint64_t{entry.turn >= 0} << 1 |
                     uint64_t{entry.is_dead});
    if (entry.turn >= 0) header->Unsigned(static_cast<uint64_t>(entry.turn));
    WEIR_RETURN_IF_ERROR(EncodeTensor(entry.tensor, header, payloads));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> DecodeTensorCount(WireReader* header, size_t num_payloads) {
  const size_t count = header->Count();
  if (!header->ok()) return absl::InvalidArgumentError("a message ends within its tensors");
  if (count <= num_payloads + kMaxAbsentTensors) return count;
  return absl::InvalidArgumentError(
      absl::StrCat("a message with ", num_payloads, " payloads cannot have ", count, " tensors"));
}

absl::StatusOr<std::vector<EdgeTensor>> DecodeEntries(WireReader* header,
                                                      const std::vector<Payload>& payloads,
                                                      size_t* next_payload, const AdmitObjects& admit) {
  WEIR_ASSIGN_OR_RETURN(const size_t count, DecodeTensorCount(header, payloads.size()));
  std::vector<EdgeTensor> entries;
  entries.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t edge_and_flags = header->UnsignedUpTo(uint64_t{INT32_MAX} << 2 | 3);
    EdgeTensor entry;
    entry.edge = static_cast<int>(edge_and_flags >> 2);
    entry.is_dead = (edge_and_flags & 1) != 0;
    if ((edge_and_flags & 2) != 0) entry.turn = static_cast<int64_t>(header->UnsignedUpTo(INT64_MAX));
    WEIR_ASSIGN_OR_RETURN(entry.tensor, DecodeTensor(header, payloads, next_payload, admit));
    entries.push_back(std::move(entry));
  }
  return entries;
}

absl::StatusOr<std::vector<EdgeTensor>> DecodeBundle(WireReader* header, const std::vector<Payload>& payloads,
                                                     const AdmitObjects& admit) {
  size_t next_payload = 0;
  WEIR_ASSIGN_OR_RETURN(std::vector<EdgeTensor> entries,
                        DecodeEntries(header, payloads, &next_payload, admit));
  WEIR_RETURN_IF_ERROR(header->Finish("a bundle of tensors"));
  if (next_payload == payloads.size()) return entries;
  return absl::InvalidArgumentError(
      absl::StrCat("a bundle of ", entries.size(), " tensors came with ", payloads.size(), " payloads"));
}

}  // namespace weir
