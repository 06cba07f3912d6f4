// The sequences of connectionist temporal classification, as its loss and its decoders read them.
//
// Thread safety: pure functions. `lengths` points into the tensor that was read.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "graph/types/tensor.h"

namespace weir {

// inputs [max_time, batch_size, num_classes], and how many of its times each sequence has.
struct Sequences {
  int64_t max_time, batch_size, num_classes;
  absl::Span<const int32_t> lengths;
};

inline absl::StatusOr<Sequences> ReadSequences(const Tensor& inputs, const Tensor& lengths,
                                               absl::StatusCode too_long) {
  const Shape& shape = inputs.shape();
  if (shape.rank() != 3)
    return absl::InvalidArgumentError(absl::StrCat("inputs is not a 3-Tensor, is ", shape.ToString()));
  if (lengths.shape().rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence_length is not a vector, is ", lengths.shape().ToString()));
  }
  const Sequences sequences = {shape.dim(0), shape.dim(1), shape.dim(2), lengths.flat<int32_t>()};
  if (lengths.num_elements() != sequences.batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("len(sequence_length) != batch_size.  len(sequence_length):  ", lengths.num_elements(),
                     " batch_size: ", sequences.batch_size));
  }
  for (int64_t b = 0; b < sequences.batch_size; ++b) {
    if (sequences.lengths[b] <= sequences.max_time) continue;
    return absl::Status(too_long, absl::StrCat("sequence_length(", b, ") <= ", sequences.max_time,
                                               ", but it is ", sequences.lengths[b]));
  }
  return sequences;
}

// The same of a decoder, which refuses empty inputs.
inline absl::StatusOr<Sequences> ReadDecoded(const Tensor& inputs, const Tensor& lengths) {
  if (inputs.shape().rank() == 3 && inputs.num_elements() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("inputs must not be empty, is ", inputs.shape().ToString()));
  }
  return ReadSequences(inputs, lengths, absl::StatusCode::kFailedPrecondition);
}

}  // namespace weir
