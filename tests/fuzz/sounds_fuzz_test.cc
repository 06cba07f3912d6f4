// Damaged and hostile sound files must be errors, or sound that lies inside the file.
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/formats/wav.h"
#include "tests/fuzz/mutator.h"

namespace weir {
namespace {

std::vector<std::string> Samples() {
  std::vector<float> samples(60);
  for (size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<float>(i) / 30 - 1;
  std::vector<std::string> files;
  for (const int64_t channels : {1, 2, 5}) files.push_back(WriteWav(samples, channels, 8000).value());
  const std::string& plain = files[1];
  // With a longer header, and with chunks that nobody reads before and behind the samples.
  std::string longer = plain;
  longer[16] = 18;
  longer.insert(36, 2, '\0');
  files.push_back(longer);
  const std::string list("LIST\4\0\0\0INFO", 12);
  files.push_back(plain.substr(0, 36) + list + plain.substr(36) + list);
  return files;
}

TEST(SoundsFuzzTest, WavFiles) {
  Mutator mutator(Samples(), 5);
  int num_sounds = 0;
  for (int round = 0; round < 200'000; ++round) {
    const std::string file = mutator.Next();
    // An exact copy, so that a sanitizer sees each byte beyond it.
    const std::vector<char> bytes(file.begin(), file.end());
    const auto sound = ReadWav({bytes.data(), bytes.size()});
    if (!sound.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(sound.status())) << "round " << round << ": " << sound.status();
      continue;
    }
    ++num_sounds;
    ASSERT_GT(sound->channels, 0);
    ASSERT_LE(sound->frames * sound->channels * 2, static_cast<int64_t>(file.size()));
    for (int64_t i = 0; i < sound->frames; ++i) {
      for (int64_t c = 0; c < sound->channels; ++c) {
        const float sample = sound->sample(i, c);
        ASSERT_TRUE(sample >= -1 && sample < 1) << "round " << round;
      }
    }
  }
  EXPECT_GT(num_sounds, 10'000);
}

TEST(SoundsFuzzTest, WhatIsWrittenIsRead) {
  for (const std::string& file : Samples()) {
    const auto sound = ReadWav(file);
    ASSERT_TRUE(sound.ok()) << sound.status();
    EXPECT_EQ(sound->frames * sound->channels, 60);
    EXPECT_EQ(sound->rate, 8000u);
    EXPECT_EQ(sound->sample(0, 0), -1);
    EXPECT_NEAR(sound->sample(sound->frames - 1, sound->channels - 1), 59.0 / 30 - 1, 1.0 / (1 << 15));
  }
}

}  // namespace
}  // namespace weir
