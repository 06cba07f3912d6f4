// Fashion-MNIST (or MNIST, whose files have the same names and format) as batches.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/types/tensor.h"

namespace weir::examples {

struct LabeledImages {
  Tensor images;  // uint8 [count, 28, 28]
  Tensor labels;  // uint8 [count]
  int64_t count() const { return images.shape().dim(0); }
};

struct Dataset {
  LabeledImages train;  // 60,000
  LabeledImages test;   // 10,000
};

// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte, with or without .gz. NotFound names the missing file
// and the Debian package that brings the data; DataLoss the damaged one.
absl::StatusOr<Dataset> ReadDataset(const std::string& directory);

struct Batch {
  Tensor images;  // float [size, 784], 0 to 1
  Tensor labels;  // int32 [size]
};

// Images [begin, end) in the order of `order`.
Batch MakeBatch(const LabeledImages& data, const std::vector<int32_t>& order, int64_t begin, int64_t end);

// Batches without end: every image once per epoch, in a new random order each time. Thread safety: none.
class ShuffledBatches {
 public:
  ShuffledBatches(const LabeledImages& data, int64_t batch_size, uint64_t seed);
  Batch Next();

 private:
  const LabeledImages& data_;
  const int64_t batch_size_;
  std::mt19937_64 random_;
  std::vector<int32_t> order_;
  int64_t next_ = 0;
};

}  // namespace weir::examples
