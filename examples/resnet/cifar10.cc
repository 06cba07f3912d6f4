#include "examples/resnet/cifar10.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"

namespace weir::examples {
namespace {

constexpr int64_t kSide = 32, kChannels = 3, kPlane = kSide * kSide, kPixels = kChannels * kPlane;
constexpr int64_t kRecordBytes = 1 + kPixels;
constexpr int kTrainingFiles = 5;
constexpr int kPadding = 4;

std::string TrainingFile(const std::string& directory, int i) {
  return absl::StrCat(directory, "/data_batch_", i + 1, ".bin");
}
std::string TestFile(const std::string& directory) { return absl::StrCat(directory, "/test_batch.bin"); }

absl::StatusOr<LabeledImages> ReadFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> contents;
  int64_t count = 0;
  for (const std::string& path : paths) {
    WEIR_ASSIGN_OR_RETURN(std::string content, ReadWholeFile(PosixFileSystem(), path));
    if (content.empty() || content.size() % kRecordBytes != 0) {
      return absl::DataLossError(absl::StrCat(path, ": ", content.size(), " bytes are no whole records of ",
                                              kRecordBytes, " (a label and 3 x 32 x 32 pixels)"));
    }
    count += static_cast<int64_t>(content.size()) / kRecordBytes;
    contents.push_back(std::move(content));
  }
  LabeledImages data = {Tensor(DType::kUint8, Shape({count, kChannels, kSide, kSide})),
                        Tensor(DType::kUint8, Shape({count}))};
  uint8_t* image = data.images.flat<uint8_t>().data();
  uint8_t* label = data.labels.flat<uint8_t>().data();
  for (size_t file = 0; file < paths.size(); ++file) {
    for (size_t at = 0; at < contents[file].size(); at += kRecordBytes) {
      *label = static_cast<uint8_t>(contents[file][at]);
      if (*label > 9) {
        return absl::DataLossError(
            absl::StrCat(paths[file], ": the label at byte ", at, " is ", *label, ", must be from 0 to 9"));
      }
      std::memcpy(image, &contents[file][at + 1], kPixels);
      ++label;
      image += kPixels;
    }
  }
  return data;
}

absl::Status WriteFile(const std::string& path, const LabeledImages& data, int64_t begin, int64_t end) {
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, PosixFileSystem().Create(path));
  const auto* labels = reinterpret_cast<const char*>(data.labels.flat<uint8_t>().data());
  const auto* images = reinterpret_cast<const char*>(data.images.flat<uint8_t>().data());
  for (int64_t i = begin; i < end; ++i) {
    WEIR_RETURN_IF_ERROR(file->Append({labels + i, 1}));
    WEIR_RETURN_IF_ERROR(file->Append({images + i * kPixels, kPixels}));
  }
  return file->Close();
}

// Where an image is cropped from its padded self.
struct View {
  int shift_y = 0, shift_x = 0;
  bool is_mirrored = false;
};

// Channels first to channels last; what lies outside of the image is the mean, and becomes 0.
void WriteView(const uint8_t* image, const ChannelMoments& moments, const View& view, float* out) {
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int from_y = y + view.shift_y;
      const int from_x = (view.is_mirrored ? static_cast<int>(kSide) - 1 - x : x) + view.shift_x;
      const bool is_inside = from_y >= 0 && from_y < kSide && from_x >= 0 && from_x < kSide;
      for (int c = 0; c < kChannels; ++c) {
        *out++ = is_inside
                     ? (image[c * kPlane + from_y * kSide + from_x] - moments.mean[c]) / moments.deviation[c]
                     : 0;
      }
    }
  }
}

template <typename NextView>
Batch MakeBatch(const LabeledImages& data, const ChannelMoments& moments, absl::Span<const int32_t> indices,
                const NextView& next_view) {
  const auto size = static_cast<int64_t>(indices.size());
  Batch batch = {Tensor(DType::kFloat32, Shape({size, kSide, kSide, kChannels})),
                 Tensor(DType::kInt32, Shape({size}))};
  const uint8_t* images = data.images.flat<uint8_t>().data();
  float* out = batch.images.flat<float>().data();
  for (int64_t i = 0; i < size; ++i) {
    WriteView(images + indices[i] * kPixels, moments, next_view(), out + i * kPixels);
    batch.labels.flat<int32_t>()[i] = data.labels.flat<uint8_t>()[indices[i]];
  }
  return batch;
}

}  // namespace

absl::StatusOr<Cifar10> ReadCifar10(const std::string& directory) {
  std::vector<std::string> training;
  for (int i = 0; i < kTrainingFiles; ++i) training.push_back(TrainingFile(directory, i));
  Cifar10 data;
  WEIR_ASSIGN_OR_RETURN(data.train, ReadFiles(training));
  WEIR_ASSIGN_OR_RETURN(data.test, ReadFiles({TestFile(directory)}));
  return data;
}

absl::Status WriteCifar10(const std::string& directory, const Cifar10& data) {
  WEIR_RETURN_IF_ERROR(PosixFileSystem().CreateDirectories(directory));
  const int64_t count = data.train.count();
  for (int i = 0; i < kTrainingFiles; ++i) {
    WEIR_RETURN_IF_ERROR(WriteFile(TrainingFile(directory, i), data.train, count * i / kTrainingFiles,
                                   count * (i + 1) / kTrainingFiles));
  }
  return WriteFile(TestFile(directory), data.test, 0, data.test.count());
}

ChannelMoments MomentsOf(const LabeledImages& data) {
  std::array<double, 3> sums{}, squares{};
  const uint8_t* pixel = data.images.flat<uint8_t>().data();
  for (int64_t plane = 0; plane < data.count() * kChannels; ++plane) {
    int64_t sum = 0, square = 0;
    for (const uint8_t* const end = pixel + kPlane; pixel != end; ++pixel) {
      sum += *pixel;
      square += *pixel * *pixel;
    }
    sums[plane % kChannels] += static_cast<double>(sum);
    squares[plane % kChannels] += static_cast<double>(square);
  }
  const double pixels = static_cast<double>(data.count() * kPlane);
  ChannelMoments moments;
  for (int c = 0; c < kChannels; ++c) {
    const double mean = sums[c] / pixels;
    moments.mean[c] = static_cast<float>(mean);
    moments.deviation[c] = static_cast<float>(std::sqrt(std::max(1.0, squares[c] / pixels - mean * mean)));
  }
  return moments;
}

Batch NormalizedBatch(const LabeledImages& data, const ChannelMoments& moments,
                      absl::Span<const int32_t> indices) {
  return MakeBatch(data, moments, indices, [] { return View(); });
}

Batch AugmentedBatches::Next() {
  return MakeBatch(data_, moments_, order_.Next(), [this] {
    std::uniform_int_distribution<int> shift(-kPadding, kPadding);
    View view;
    view.shift_y = shift(random_);
    view.shift_x = shift(random_);
    view.is_mirrored = std::bernoulli_distribution(0.5)(random_);
    return view;
  });
}

}  // namespace weir::examples
