// What a collective computes: what must be the same on all ranks, and what a rank that has joined needs to
// know to take part.
//
// Values. Decoding is safe against hostile bytes; what it gives is bounded by kMaxDims.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "distributed/transport/wire.h"
#include "graph/types/dtype.h"
#include "graph/types/shape.h"
#include "graph/types/tensor.h"
#include "kernels/communicator.h"

namespace weir {

struct CollectiveSignature {
  enum class Kind : uint8_t {
    kAllReduce,
    kReduceScatter,
    kAllGather,
    kAllToAll,
    kBroadcast,
    kBarrier,
    kJoin,
  };
  static constexpr size_t kMaxDims = 254;  // as TensorFlow's shapes

  Kind kind = Kind::kBarrier;
  DType dtype = DType::kInvalid;
  Dims dims;  // of a reduction; of a row where rows are moved; else none
  Reduction reduction = Reduction::kSum;
  bool divides = false;
  DType wire = DType::kInvalid;
  int root = 0;

  // "all-reduce(sum, divided) of float[10]"
  std::string ToString() const;

  void EncodeTo(WireWriter* writer) const;
  // What cannot be read is of no known kind or type, or fails the reader.
  static CollectiveSignature DecodeFrom(WireReader* reader);

  friend bool operator==(const CollectiveSignature&, const CollectiveSignature&) = default;
};

// What Communicator says of each: InvalidArgument for tensors that cannot be sent, reductions that are none,
// scalars where there should be rows (`what` is "an all-gather").
absl::Status CheckPlain(DType dtype);
absl::Status CheckReduction(const CollectiveSignature& signature);
absl::Status CheckRows(absl::string_view what, const Tensor& input);

// Of an all-gather or all-to-all. Precondition: CheckRows.
CollectiveSignature SignatureOfRows(CollectiveSignature::Kind kind, const Tensor& input);

}  // namespace weir
