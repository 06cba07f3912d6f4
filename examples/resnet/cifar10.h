// Images in the binary format of CIFAR-10 (Krizhevsky, Learning Multiple Layers of Features from Tiny Images,
// 2009), as batches.
//
// Five files data_batch_1.bin to data_batch_5.bin for training and test_batch.bin, each a sequence of records
// of 3073 bytes: the label, 0 to 9, then 32 x 32 bytes of red, of green and of blue, row by row.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "examples/classification.h"
#include "examples/shuffled_order.h"

namespace weir::examples {

struct Cifar10 {
  LabeledImages train, test;  // uint8 [count, 3, 32, 32]
};

// NotFound names the missing file; DataLoss one that is damaged: empty, cut off within a record, or with a
// label above 9.
absl::StatusOr<Cifar10> ReadCifar10(const std::string& directory);

// The files of that format; training images are spread over the five. Creates the folder.
absl::Status WriteCifar10(const std::string& directory, const Cifar10& data);

// The mean and standard deviation of each channel, 0 to 255. The deviation is at least 1.
struct ChannelMoments {
  std::array<float, 3> mean, deviation;
};
ChannelMoments MomentsOf(const LabeledImages& data);

// The images that `indices` name, float [size, 32, 32, 3], each channel less its mean, divided by its
// deviation.
Batch NormalizedBatch(const LabeledImages& data, const ChannelMoments& moments,
                      absl::Span<const int32_t> indices);

// Batches without end, in random order, every image as another view of itself each time: padded with 4 means
// on each side, cropped at random to 32 x 32 again, and mirrored half of the time.
class AugmentedBatches {
 public:
  AugmentedBatches(const LabeledImages& data, const ChannelMoments& moments, int64_t batch_size,
                   uint64_t seed)
      : data_(data), moments_(moments), order_(data.count(), batch_size, seed), random_(~seed) {}
  Batch Next();

 private:
  const LabeledImages& data_;
  const ChannelMoments moments_;
  ShuffledOrder order_;
  std::mt19937_64 random_;
};

}  // namespace weir::examples
