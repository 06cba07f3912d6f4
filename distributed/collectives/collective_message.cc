#include "distributed/collectives/collective_message.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "graph/types/shape.h"
#include "graph/types/status_macros.h"

namespace weir {

void CollectiveMessage::EncodeTo(WireWriter* writer) const {
  writer->Fixed64(generation);
  writer->Unsigned(round);
  writer->Signed(key.first);
  writer->Signed(key.second);
  writer->Signed(sequence);
  writer->String(name);
  signature.EncodeTo(writer);
  writer->Unsigned(part.phase);
  writer->Signed(part.segment);
  writer->Unsigned(part.dims.size());
  for (const int64_t dim : part.dims) writer->Signed(dim);
}

absl::StatusOr<CollectiveMessage> CollectiveMessage::DecodeFrom(WireReader* reader) {
  CollectiveMessage message;
  message.generation = reader->Fixed64();
  message.round = reader->Unsigned();
  message.key.first = reader->Signed();
  message.key.second = reader->Signed();
  message.sequence = reader->Signed();
  message.name = std::string(reader->String());
  message.signature = CollectiveSignature::DecodeFrom(reader);
  message.part.phase = static_cast<CollectivePart::Phase>(reader->UnsignedUpTo(CollectivePart::kLastPhase));
  message.part.segment = reader->Signed();
  const size_t num_dims = reader->Count();
  if (message.name.size() > kMaxText || message.signature.dims.size() > kMaxDims || num_dims > kMaxDims) {
    return absl::InvalidArgumentError("a part of a collective has too long a name, signature or shape");
  }
  for (size_t i = 0; i < num_dims; ++i) message.part.dims.push_back(reader->Signed());
  WEIR_RETURN_IF_ERROR(reader->Finish("a part of a collective"));
  return message;
}

bool IsSmall(const CollectiveSignature& signature) {
  if (signature.kind != CollectiveSignature::Kind::kAllReduce || signature.reduction == Reduction::kAdasum) {
    return false;
  }
  const DType dtype = signature.wire == DType::kInvalid ? signature.dtype : signature.wire;
  const absl::StatusOr<Shape> shape = Shape::FromDims(signature.dims);
  const auto element_bytes = static_cast<int64_t>(std::max<size_t>(1, DTypeSize(dtype)));
  return shape.ok() && shape->num_elements() <= Collective::kWholeBytes / element_bytes;
}

}  // namespace weir
