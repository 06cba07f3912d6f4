// Fashion-MNIST (or MNIST, whose files have the same names and format) as batches.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/classification.h"
#include "examples/shuffled_order.h"
#include "graph/types/tensor.h"

namespace weir::examples {

// Of LabeledImages, images are uint8 [count, 28, 28]; of a Batch, float [size, 784], 0 to 1.
struct Dataset {
  LabeledImages train;  // 60,000
  LabeledImages test;   // 10,000
};

// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte, with or without .gz. NotFound names the missing file
// and the Debian package that brings the data; DataLoss the damaged one.
absl::StatusOr<Dataset> ReadDataset(const std::string& directory);

// The images that `indices` name, in this order.
Batch MakeBatch(const LabeledImages& data, absl::Span<const int32_t> indices);

// Batches without end, in random order.
class ShuffledBatches {
 public:
  ShuffledBatches(const LabeledImages& data, int64_t batch_size, uint64_t seed)
      : data_(data), order_(data.count(), batch_size, seed) {}
  Batch Next() { return MakeBatch(data_, order_.Next()); }

 private:
  const LabeledImages& data_;
  ShuffledOrder order_;
};

}  // namespace weir::examples
