#include "kernels/formats/idx.h"

#include <sys/resource.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/formats/test_files.h"

namespace weir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kImages("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\3abcdef", 22);
const std::string kLabels("\0\0\x08\x01\0\0\0\3\7\0\xff", 11);

std::string Gzipped(const std::string& bytes) {
  const std::string path = NewTestDirectory() + "/file.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), bytes.size());
  gzclose(file);
  return ReadBytes(path);
}

absl::StatusOr<Tensor> Read(const std::string& bytes) {
  const std::string path = NewTestDirectory() + "/file-idx";
  WriteBytes(path, bytes);
  return ReadIdx(path);
}

TEST(IdxTest, ReadsPlainAndGzip) {
  for (const std::string& bytes : {kImages, Gzipped(kImages)}) {
    const absl::StatusOr<Tensor> images = Read(bytes);
    ASSERT_TRUE(images.ok()) << images.status();
    EXPECT_EQ(images->shape(), Shape({2, 1, 3}));
    EXPECT_THAT(images->flat<uint8_t>(), ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  }
  EXPECT_THAT(Read(kLabels)->flat<uint8_t>(), ElementsAre(7, 0, 255));
}

TEST(IdxTest, EveryTruncationIsAnError) {
  const std::string gzipped = Gzipped(kImages);
  for (const std::string& bytes : {kImages, gzipped}) {
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_EQ(Read(bytes.substr(0, length)).status().code(), absl::StatusCode::kDataLoss) << length;
    }
  }
  // gzip's own checksum finds flipped elements.
  std::string flipped = gzipped;
  flipped[flipped.size() - 12] ^= 4;
  EXPECT_EQ(Read(flipped).status().code(), absl::StatusCode::kDataLoss);
}

// Before memory is taken: of a gzip file a byte may stand for a thousand.
TEST(IdxTest, AHeaderThatClaimsMoreThanTheFileCanHoldIsRefused) {
  const std::string huge("\0\0\x08\x02\x7f\xff\xff\xff\x7f\xff\xff\xff abc", 16);
  EXPECT_THAT(std::string(Read(huge).status().message()),
              HasSubstr("4611686014132420609 bytes, more than a file of 16 bytes can hold"));
  const std::string gzipped = Gzipped(huge);
  EXPECT_THAT(std::string(Read(gzipped).status().message()),
              HasSubstr(absl::StrCat("more than a gzip file of ", gzipped.size(), " bytes can hold")));
}

TEST(IdxTest, ElementsThatMemoryDoesNotHoldAreAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space of their own";
#endif
  const std::string path = NewTestDirectory() + "/images.gz";
  {
    gzFile file = gzopen(path.c_str(), "wb1");
    gzwrite(file, "\0\0\x08\1\x10\0\0\0", 8);  // 2^28 elements
    const std::string piece(1 << 20, '\0');
    for (int i = 0; i < 256; ++i) gzwrite(file, piece.data(), piece.size());
    gzclose(file);
  }
  const uint64_t file_bytes = PosixFileSystem().FileSize(path).value();
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  uint64_t num_pages = 0;
  std::ifstream("/proc/self/statm") >> num_pages;
  const rlimit limit = {num_pages * sysconf(_SC_PAGESIZE) + (128 << 20), before.rlim_max};
  setrlimit(RLIMIT_AS, &limit);
  const absl::Status status = ReadIdx(path).status();
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("a gzip file of ", file_bytes,
                                     " bytes: out of memory allocating a tensor of uint8[268435456]")));
}

TEST(IdxTest, GarbledHeadersAreClearErrors) {
  const auto error = [](std::string bytes, size_t at, char value) {
    bytes[at] = value;
    return std::string(Read(bytes).status().message());
  };
  EXPECT_THAT(error(kImages, 0, 1), HasSubstr("is no idx file"));
  EXPECT_THAT(error(kImages, 2, 0x0d), HasSubstr("elements of idx type 13"));
  EXPECT_THAT(error(kImages, 3, 0), HasSubstr("rank is 0"));
  EXPECT_THAT(error(kImages, 7, 3), HasSubstr("its header says [3,1,3], 9 bytes, and 6 follow"));
  EXPECT_THAT(error(kImages, 4, 0x7f), HasSubstr("is truncated"));
  EXPECT_THAT(error(kImages, 7, 1), HasSubstr("longer than its header says"));
  EXPECT_THAT(std::string(Read(std::string("\0\0\x08\x03", 4) + std::string(12, '\xff')).status().message()),
              HasSubstr("malformed header"));
  EXPECT_EQ(ReadIdx("/nowhere/train-images").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace weir
