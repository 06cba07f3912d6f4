// Tensors on their way from one worker to another, each with the edge it travels on: the codec of one
// message.
//
// Plain tensors travel as payloads of the frame that alias their buffers; strings and the names of resource
// handles are written into one payload per tensor. A tensor that comes out owns its payload's buffer.
//
// Decoding is safe against hostile bytes: shapes, lengths and counts are checked against what the frame
// really has before anything is allocated. Stateless; thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "distributed/transport/frame.h"
#include "distributed/transport/wire.h"
#include "graph/types/tensor.h"

namespace weir {

// Dtype and shape into the header, the elements into a payload. Unimplemented for kVariant, naming it; an
// invalid tensor ("no tensor") is allowed.
absl::Status EncodeTensor(const Tensor& tensor, WireWriter* header, std::vector<Payload>* payloads);

// Asked before the strings or resource handles of a tensor are made: a message takes a byte for an empty one,
// and memory many. Null: nobody is asked.
using AdmitObjects = std::function<absl::Status(int64_t num_bytes)>;

// The inverse; takes the next of the payloads. InvalidArgument when dtype, shape and payload do not fit
// together; errors of `admit`.
absl::StatusOr<Tensor> DecodeTensor(WireReader* header, const std::vector<Payload>& payloads,
                                    size_t* next_payload, const AdmitObjects& admit = nullptr);

// How many tensors follow. InvalidArgument when the message has not so many. Every byte of a header may say
// that there is no tensor, which takes some 80 bytes of memory: so of those there are only so many.
inline constexpr size_t kMaxAbsentTensors = 1 << 18;
absl::StatusOr<size_t> DecodeTensorCount(WireReader* header, size_t num_payloads);

// Dtype and shape alone, as EncodeTensor writes them. InvalidArgument for a dtype that cannot travel, a shape
// that is none.
void EncodeTensorType(DType dtype, const Shape& shape, WireWriter* header);
struct TensorType {
  DType dtype = DType::kInvalid;
  Shape shape;
};
absl::StatusOr<TensorType> DecodeTensorType(WireReader* header);

// For bytes from outside: a bool that is neither 0 nor 1 is undefined behaviour in C++. Nothing for a tensor
// of another dtype.
void NormalizeBools(Tensor* tensor);

struct EdgeTensor {
  int edge = 0;
  bool is_dead = false;
  Tensor tensor;
  int64_t turn = -1;  // which of the edge's tensors in the step; -1: the only one
};

absl::Status EncodeBundle(const std::vector<EdgeTensor>& entries, WireWriter* header,
                          std::vector<Payload>* payloads);
// The inverse within a longer message: takes the next of the payloads, and reads no further.
absl::StatusOr<std::vector<EdgeTensor>> DecodeEntries(WireReader* header,
                                                      const std::vector<Payload>& payloads,
                                                      size_t* next_payload,
                                                      const AdmitObjects& admit = nullptr);
// Of a message that is a bundle and nothing else.
absl::StatusOr<std::vector<EdgeTensor>> DecodeBundle(WireReader* header, const std::vector<Payload>& payloads,
                                                     const AdmitObjects& admit = nullptr);

}  // namespace weir
