// Tensors and shapes to and from TensorFlow's messages: how values travel in GraphDefs and between
// TensorFlow's clients and a master. (Tensors between Weir's own processes and in checkpoints never take this
// form.)
//
// Messages may be hostile: every function that reads one checks it wholly and returns InvalidArgument naming
// the dtype, the shape and what is wrong. Nothing aborts, and memory is allocated only for sizes that were
// checked.
//
// Format: TensorProto of tensor.proto (proto/graph.proto). A tensor's elements come in one of three forms:
// raw little-endian bytes (tensor_content; strings as all lengths in varints and then all bytes), a typed
// list with one value per element, or a shorter list whose last value stands for all the remaining elements
// ("splat"). An empty list means zeros.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types/allocator.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"

namespace tensorflow {
class ResourceHandleProto;
class TensorProto;
class TensorShapeProto;
}  // namespace tensorflow

namespace weir {

// A tensor whose elements the message does not spell out one by one takes at most this many bytes: a few
// bytes on the wire must not make a reader fill all its memory. The largest message TensorFlow can send is as
// long.
inline constexpr size_t kMaxSplatBytes = size_t{1} << 31;

// The tensor in `proto`. Resource handles are read by name, their `resource` is null.
// InvalidArgument: a dtype Weir lacks (quantised, variant, references), an unknown or overflowing shape, a
// count of values that does not fit the shape, a value out of its dtype's range. ResourceExhausted: no
// memory, or a splat above kMaxSplatBytes.
absl::StatusOr<Tensor> TensorFromProto(const tensorflow::TensorProto& proto,
                                       Allocator& allocator = HostAllocator());

// The same for a serialized message. The content is copied once, from `bytes` into the tensor.
absl::StatusOr<Tensor> TensorFromProtoBytes(absl::string_view bytes, Allocator& allocator = HostAllocator());

// Asked with what a tensor will take in memory, about, before it does; its error is the reader's.
using AdmitTensor = absl::FunctionRef<absl::Status(int64_t num_bytes)>;
absl::StatusOr<Tensor> TensorFromProtoBytes(absl::string_view bytes, AdmitTensor admit,
                                            Allocator& allocator = HostAllocator());

// What TensorFromProto takes for that message, about; 0 for one that it refuses for its dtype or its shape.
// The greatest int64_t when it is more.
int64_t NumTensorBytes(const tensorflow::TensorProto& proto);

// `tensor` as TensorFlow's clients send and expect it in feeds and fetches: all elements in tensor_content,
// resource handles in their list. InvalidArgument for "no tensor" and above 2 GiB, which no message can hold.
absl::Status TensorToProto(const Tensor& tensor, tensorflow::TensorProto* proto);

// The same message, serialized, but for its end: the bytes of the tensor itself (IsPlainBytes), which follow
// as they are. Of other dtypes all of it. Same errors.
absl::StatusOr<std::string> TensorProtoBytesBeforeContent(const Tensor& tensor);

// `tensor` as TensorFlow writes attributes of nodes: one value if all elements are equal (bit for bit),
// otherwise tensor_content; strings, bools and single elements in their typed list, readable in a text
// GraphDef. Same errors.
absl::Status TensorToAttrProto(const Tensor& tensor, tensorflow::TensorProto* proto);

// InvalidArgument for an unknown dimension or rank, more than 254 dimensions, or too many elements.
absl::StatusOr<Shape> ShapeFromProto(const tensorflow::TensorShapeProto& proto);
// InvalidArgument for a dimension below -1, more than 254 dimensions, or too many elements.
absl::StatusOr<PartialShape> PartialShapeFromProto(const tensorflow::TensorShapeProto& proto);
void ShapeToProto(const PartialShape& shape, tensorflow::TensorShapeProto* proto);

ResourceHandle ResourceHandleFromProto(const tensorflow::ResourceHandleProto& proto);
void ResourceHandleToProto(const ResourceHandle& handle, tensorflow::ResourceHandleProto* proto);

}  // namespace weir
