// Writes Fashion-MNIST in the binary format of CIFAR-10, for machines that have no CIFAR-10.
//
//   fashion_mnist_as_cifar10 --data_dir=/tmp/cifar-10-batches-bin
//
// Images of 28 x 28 become 32 x 32 with a black border; their one channel becomes all three.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "distributed/command/flag_parser.h"
#include "examples/fashion_mnist/dataset.h"
#include "examples/resnet/cifar10.h"
#include "graph/types/status_macros.h"

namespace weir::examples {
namespace {

// The first `count` images.
LabeledImages InColor(const LabeledImages& data, int64_t count) {
  constexpr int64_t kFrom = 28, kTo = 32, kBorder = (kTo - kFrom) / 2;
  count = std::min(count, data.count());
  LabeledImages result = {Tensor(DType::kUint8, Shape({count, 3, kTo, kTo})),
                          Tensor(DType::kUint8, Shape({count}))};
  std::copy_n(data.labels.flat<uint8_t>().begin(), count, result.labels.flat<uint8_t>().begin());
  const uint8_t* from = data.images.flat<uint8_t>().data();
  uint8_t* to = result.images.flat<uint8_t>().data();
  std::memset(to, 0, result.images.num_elements());
  for (int64_t plane = 0; plane < 3 * count; ++plane) {
    for (int64_t y = 0; y < kFrom; ++y) {
      std::memcpy(to + (plane * kTo + y + kBorder) * kTo + kBorder, from + (plane / 3 * kFrom + y) * kFrom,
                  kFrom);
    }
  }
  return result;
}

absl::Status Main(const std::vector<std::string>& args) {
  std::string from = "/usr/share/datasets/fashion-mnist", to = "/tmp/cifar-10-batches-bin";
  int limit = 60'000;
  FlagParser parser("fashion_mnist_as_cifar10", "[flags]", "Writes Fashion-MNIST in the format of CIFAR-10.");
  parser.Add("fashion_mnist_dir", &from, "folder with the four idx files, plain or .gz");
  parser.Add("data_dir", &to, "folder to write data_batch_1.bin to data_batch_5.bin and test_batch.bin to");
  parser.Add("limit", &limit, "at most so many images for training, and for testing", {.least = 5});
  WEIR_RETURN_IF_ERROR(parser.Parse(args));
  if (parser.wants_help()) return std::fputs(parser.Help().c_str(), stdout), absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(const Dataset data, ReadDataset(from));
  return WriteCifar10(to, {InColor(data.train, limit), InColor(data.test, limit)});
}

}  // namespace
}  // namespace weir::examples

int main(int argc, char** argv) {
  const absl::Status status = weir::examples::Main({argv + 1, argv + argc});
  if (!status.ok()) {
    std::fprintf(stderr, "fashion_mnist_as_cifar10: %s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
