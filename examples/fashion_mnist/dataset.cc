#include "examples/fashion_mnist/dataset.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/idx.h"

namespace weir::examples {
namespace {

constexpr int64_t kPixels = 28 * 28;

absl::StatusOr<Tensor> ReadArray(const std::string& directory, const std::string& name) {
  const std::string path = absl::StrCat(directory, "/", name);
  absl::StatusOr<Tensor> tensor = ReadIdx(path + ".gz");
  if (absl::IsNotFound(tensor.status())) tensor = ReadIdx(path);
  if (!absl::IsNotFound(tensor.status())) return tensor;
  return absl::NotFoundError(absl::StrCat(
      "there is neither ", path, " nor ", path,
      ".gz (apt-get install dataset-fashion-mnist brings the data; --data_dir says where it is)"));
}

absl::StatusOr<LabeledImages> ReadPart(const std::string& directory, const std::string& part) {
  WEIR_ASSIGN_OR_RETURN(Tensor images, ReadArray(directory, part + "-images-idx3-ubyte"));
  WEIR_ASSIGN_OR_RETURN(Tensor labels, ReadArray(directory, part + "-labels-idx1-ubyte"));
  const bool fits = images.shape().rank() == 3 && images.shape().dim(0) > 0 &&
                    images.num_elements() / images.shape().dim(0) == kPixels && labels.shape().rank() == 1 &&
                    labels.shape().dim(0) == images.shape().dim(0);
  if (!fits) {
    return absl::DataLossError(absl::StrCat(directory, "/", part, "-*: images of ", images.shape().ToString(),
                                            " and labels of ", labels.shape().ToString(),
                                            "; expected [count,28,28] and [count]"));
  }
  const auto values = labels.flat<uint8_t>();
  if (std::any_of(values.begin(), values.end(), [](uint8_t label) { return label > 9; })) {
    return absl::DataLossError(absl::StrCat(directory, "/", part, "-labels: a label is above 9"));
  }
  return LabeledImages{std::move(images), std::move(labels)};
}

}  // namespace

absl::StatusOr<Dataset> ReadDataset(const std::string& directory) {
  Dataset dataset;
  WEIR_ASSIGN_OR_RETURN(dataset.train, ReadPart(directory, "train"));
  WEIR_ASSIGN_OR_RETURN(dataset.test, ReadPart(directory, "t10k"));
  return dataset;
}

Batch MakeBatch(const LabeledImages& data, absl::Span<const int32_t> indices) {
  const auto size = static_cast<int64_t>(indices.size());
  Batch batch = {Tensor(DType::kFloat32, Shape({size, kPixels})), Tensor(DType::kInt32, Shape({size}))};
  const uint8_t* pixels = data.images.flat<uint8_t>().data();
  float* out = batch.images.flat<float>().data();
  for (int64_t i = 0; i < size; ++i) {
    const uint8_t* image = pixels + indices[i] * kPixels;
    out = std::transform(image, image + kPixels, out, [](uint8_t pixel) { return pixel / 255.0f; });
    batch.labels.flat<int32_t>()[i] = data.labels.flat<uint8_t>()[indices[i]];
  }
  return batch;
}

}  // namespace weir::examples
