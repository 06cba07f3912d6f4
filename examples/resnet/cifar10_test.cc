#include "examples/resnet/cifar10.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace weir::examples {
namespace {

// Images whose pixels tell where they are: image, channel, row and column.
LabeledImages TellingImages(int64_t count) {
  LabeledImages data = {Tensor(DType::kUint8, Shape({count, 3, 32, 32})),
                        Tensor(DType::kUint8, Shape({count}))};
  uint8_t* pixel = data.images.flat<uint8_t>().data();
  for (int64_t i = 0; i < count; ++i) {
    data.labels.flat<uint8_t>()[i] = static_cast<uint8_t>(i % 10);
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < 32; ++y) {
        for (int x = 0; x < 32; ++x) *pixel++ = static_cast<uint8_t>(20 * i + 70 * c + 2 * y + x);
      }
    }
  }
  return data;
}

ChannelMoments NoMoments() { return {{0, 0, 0}, {1, 1, 1}}; }

std::string Folder(const char* name) { return absl::StrCat(testing::TempDir(), "/", name); }

void Append(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
}

TEST(Cifar10Test, WhatIsWrittenIsRead) {
  const Cifar10 data = {TellingImages(12), TellingImages(3)};
  const std::string folder = Folder("written");
  ASSERT_TRUE(WriteCifar10(folder, data).ok());
  EXPECT_EQ(std::ifstream(folder + "/data_batch_1.bin", std::ios::ate).tellg(), 2 * 3073);
  EXPECT_EQ(std::ifstream(folder + "/data_batch_5.bin", std::ios::ate).tellg(), 3 * 3073);
  const auto read = ReadCifar10(folder);
  ASSERT_TRUE(read.ok()) << read.status();
  for (const auto& [written, found] : {std::pair(&data.train, &read->train), {&data.test, &read->test}}) {
    EXPECT_EQ(found->images.shape(), written->images.shape());
    EXPECT_TRUE(std::ranges::equal(found->images.flat<uint8_t>(), written->images.flat<uint8_t>()));
    EXPECT_TRUE(std::ranges::equal(found->labels.flat<uint8_t>(), written->labels.flat<uint8_t>()));
  }
}

TEST(Cifar10Test, DamagedFilesAreNamed) {
  const std::string folder = Folder("damaged");
  EXPECT_TRUE(absl::IsNotFound(ReadCifar10(folder).status()));
  ASSERT_TRUE(WriteCifar10(folder, {TellingImages(10), TellingImages(1)}).ok());
  Append(folder + "/data_batch_3.bin", std::string(3073, '\x0a'));
  absl::Status status = ReadCifar10(folder).status();
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "data_batch_3.bin: the label at byte 6146 is 10"))
      << status;
  ASSERT_TRUE(WriteCifar10(folder, {TellingImages(10), TellingImages(1)}).ok());
  Append(folder + "/test_batch.bin", "x");
  status = ReadCifar10(folder).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "test_batch.bin: 3074 bytes are no whole records"))
      << status;
}

TEST(Cifar10Test, BatchesAreNormalizedWithChannelsLast) {
  const LabeledImages data = TellingImages(3);
  const ChannelMoments moments = {{10, 80, 150}, {2, 4, 8}};
  const Batch batch = NormalizedBatch(data, moments, {2, 0});
  EXPECT_EQ(batch.images.shape(), Shape({2, 32, 32, 3}));
  EXPECT_EQ(batch.labels.flat<int32_t>()[0], 2);
  const auto pixel = batch.images.flat<float>();
  // Row 3, column 5 of image 2, then of image 0.
  const int64_t at = (3 * 32 + 5) * 3, image = 32 * 32 * 3;
  EXPECT_FLOAT_EQ(pixel[at], (40 + 6 + 5 - 10) / 2.0f);
  EXPECT_FLOAT_EQ(pixel[at + 2], (40 + 140 + 6 + 5 - 150) / 8.0f);
  EXPECT_FLOAT_EQ(pixel[image + at + 1], (70 + 6 + 5 - 80) / 4.0f);
}

TEST(Cifar10Test, MomentsAreThoseOfEachChannel) {
  LabeledImages data = TellingImages(1);
  auto pixels = data.images.flat<uint8_t>();
  std::fill(pixels.begin(), pixels.begin() + 1024, 7);
  for (int i = 0; i < 1024; ++i) pixels[1024 + i] = i % 2 == 0 ? 100 : 140;
  const ChannelMoments moments = MomentsOf(data);
  EXPECT_FLOAT_EQ(moments.mean[0], 7);
  EXPECT_FLOAT_EQ(moments.deviation[0], 1);  // not 0, by which nothing could be divided
  EXPECT_FLOAT_EQ(moments.mean[1], 120);
  EXPECT_FLOAT_EQ(moments.deviation[1], 20);
}

// Every view is the image shifted by up to 4, with zeros where it was outside, and mirrored or not; and all
// of these come.
TEST(Cifar10Test, AugmentedImagesAreViewsOfTheImage) {
  const LabeledImages data = TellingImages(1);
  const Batch plain = NormalizedBatch(data, NoMoments(), {0});
  const auto image = plain.images.flat<float>();
  AugmentedBatches batches(data, NoMoments(), 1, 5);
  std::set<std::tuple<int, int, bool>> seen;
  for (int i = 0; i < 3000; ++i) {
    const Batch batch = batches.Next();
    const auto view = batch.images.flat<float>();
    // Two pixels of the middle tell the view; red is 2 * row + column.
    const float middle = view[(16 * 32 + 16) * 3], right = view[(16 * 32 + 17) * 3];
    const bool is_mirrored = right < middle;
    bool found = false;
    for (int dy = -4; dy <= 4 && !found; ++dy) {
      const int dx = static_cast<int>(middle) - 2 * (16 + dy) - (is_mirrored ? 15 : 16);
      if (dx < -4 || dx > 4) continue;
      found = true;
      for (int y = 0; y < 32 && found; ++y) {
        for (int x = 0; x < 32 && found; ++x) {
          const int from_y = y + dy, from_x = (is_mirrored ? 31 - x : x) + dx;
          const bool is_inside = from_y >= 0 && from_y < 32 && from_x >= 0 && from_x < 32;
          found = view[(y * 32 + x) * 3 + 1] == (is_inside ? image[(from_y * 32 + from_x) * 3 + 1] : 0);
        }
      }
      if (found) seen.insert({dy, dx, is_mirrored});
    }
    ASSERT_TRUE(found);
  }
  EXPECT_EQ(seen.size(), 9u * 9u * 2u);
}

TEST(ShuffledOrderTest, EveryImageOnceInAnEpoch) {
  ShuffledOrder order(10, 3, 1);
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::set<int32_t> seen;
    for (int i = 0; i < 3; ++i) {
      for (int32_t index : order.Next()) seen.insert(index);
    }
    EXPECT_EQ(seen.size(), 9u);
  }
  EXPECT_EQ(ShuffledOrder(2, 5, 1).Next().size(), 2u);
}

}  // namespace
}  // namespace weir::examples
