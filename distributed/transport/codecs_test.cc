// What is in messages: tensors, frames, numbers.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "distributed/transport/bundle.h"
#include "distributed/transport/frame.h"
#include "distributed/transport/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

Tensor RoundTrip(const Tensor& tensor) {
  WireWriter writer;
  std::vector<Payload> payloads;
  EXPECT_TRUE(EncodeTensor(tensor, &writer, &payloads).ok());
  const std::string header = writer.Take();
  WireReader reader(header);
  size_t next = 0;
  return DecodeTensor(&reader, payloads, &next).value();
}

TEST(Bundle, TensorsOfAllKindsRoundTrip) {
  const Tensor floats = Tensor::From<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_TRUE(RoundTrip(floats).SharesBufferWith(floats));
  EXPECT_EQ(RoundTrip(floats.Slice(1, 2)).ToString(), "float[1,2] {3, 4}");
  EXPECT_EQ(
      RoundTrip(Tensor::Vector<std::string>({"", "a", std::string(300, 'x')})).flat<std::string>()[2].size(),
      300u);
  EXPECT_EQ(RoundTrip(Tensor(DType::kFloat32, {0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(RoundTrip(Tensor(DType::kString, {0})).num_elements(), 0);
  EXPECT_FALSE(RoundTrip(Tensor()).is_valid());
  Tensor handle(DType::kResource, {});
  handle.flat<ResourceHandle>()[0] = {"/job:ps/replica:0/task:0/device:CPU:0", "c", "var", "Variable",
                                      nullptr};
  EXPECT_EQ(RoundTrip(handle).scalar<ResourceHandle>().name, "var");
}

TEST(Bundle, EntriesKeepEdgeTurnAndDeadness) {
  WireWriter writer;
  std::vector<Payload> payloads;
  const std::vector<EdgeTensor> entries = {{7, false, Tensor::Scalar<int32_t>(5), 300},
                                           {INT32_MAX, true, Tensor(), INT64_MAX},
                                           {0, false, Tensor::Scalar("s")}};
  ASSERT_TRUE(EncodeBundle(entries, &writer, &payloads).ok());
  const std::string header = writer.Take();
  WireReader reader(header);
  const auto decoded = DecodeBundle(&reader, payloads).value();
  ASSERT_EQ(decoded.size(), 3u);
  EXPECT_EQ(decoded[0].edge, 7);
  EXPECT_EQ(decoded[0].tensor.scalar<int32_t>(), 5);
  EXPECT_EQ(decoded[0].turn, 300);
  EXPECT_EQ(decoded[1].edge, INT32_MAX);
  EXPECT_EQ(decoded[1].turn, INT64_MAX);
  EXPECT_EQ(decoded[2].turn, -1);
  EXPECT_TRUE(decoded[1].is_dead);
  EXPECT_EQ(decoded[2].tensor.scalar<std::string>(), "s");

  payloads.push_back(Payload::OfString("belongs to no tensor"));
  WireReader again(header);
  EXPECT_THAT(std::string(DecodeBundle(&again, payloads).status().message()),
              HasSubstr("a bundle of 3 tensors came with 3 payloads"));
}

TEST(Bundle, VariantsAreRefused) {
  WireWriter writer;
  std::vector<Payload> payloads;
  // A variant tensor cannot be made yet, so the dtype is smuggled into the header.
  writer.Unsigned(static_cast<uint64_t>(DType::kVariant));
  writer.Unsigned(0);
  const std::string header = writer.Take();
  WireReader reader(header);
  size_t next = 0;
  EXPECT_THAT(Text(DecodeTensor(&reader, payloads, &next).status()), HasSubstr("unknown dtype 21"));
}

TEST(Bundle, LyingHeadersAreRefusedBeforeAllocation) {
  struct Case {
    std::vector<uint64_t> numbers;  // dtype, rank, dims...
    size_t payload_bytes;
    const char* error;
  };
  const Case cases[] = {
      {{1, 1, uint64_t{1} << 62}, 4, "float[4611686018427387904] came with 4 bytes"},
      {{1, 2, uint64_t{1} << 40, uint64_t{1} << 40}, 4, ""},
      {{1, 1, 2}, 4, "float[2] came with 4 bytes"},
      {{7, 1, uint64_t{1} << 40}, 4, "came with 4 bytes"},
      {{20, 1, 2}, 4, "came with 4 bytes"},
      {{1, 255}, 4, "shape of a tensor is malformed"},
      {{99, 0}, 4, "unknown dtype 99"},
      {{1, 3, 1}, 4, "shape of a tensor is malformed"},
  };
  for (const Case& c : cases) {
    WireWriter writer;
    for (uint64_t number : c.numbers) writer.Unsigned(number);
    const std::string header = writer.Take();
    WireReader reader(header);
    size_t next = 0;
    const auto result =
        DecodeTensor(&reader, {Payload::OfString(std::string(c.payload_bytes, '\x7f'))}, &next);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(result.status()), HasSubstr(c.error));
  }
}

TEST(Bundle, HostileBoolsBecomeTrue) {
  WireWriter writer;
  for (uint64_t number : {uint64_t{10}, uint64_t{1}, uint64_t{2}}) writer.Unsigned(number);
  const std::string header = writer.Take();
  WireReader reader(header);
  size_t next = 0;
  const Tensor tensor = DecodeTensor(&reader, {Payload::OfString(std::string("\x00\xff", 2))}, &next).value();
  EXPECT_EQ(static_cast<const uint8_t*>(tensor.data())[1], 1);
}

absl::StatusOr<Frame> DecodeBytes(const std::string& bytes) {
  size_t position = 0;
  const auto read = [&](char* to, size_t n) {
    EXPECT_LE(position + n, bytes.size());
    memcpy(to, bytes.data() + position, std::min(n, bytes.size() - position));
    position += n;
  };
  return DecodeFrame(bytes.size(), read, AnyPlace);
}

std::string EncodeBytes(const Frame& frame) {
  std::string bytes = FramePrologue::Encode(frame) + frame.header;
  for (const Payload& payload : frame.payloads) bytes.append(payload.data(), payload.num_bytes());
  return bytes;
}

TEST(Frame, EveryTruncationAndRandomDamageIsSurvived) {
  WireWriter writer;
  Frame frame;
  ASSERT_TRUE(EncodeBundle({{1, false, Tensor::Vector<float>({1, 2, 3})},
                            {2, false, Tensor::Vector<std::string>({"ab", "c"})}},
                           &writer, &frame.payloads)
                  .ok());
  frame.header = writer.Take();
  const std::string good = EncodeBytes(frame);
  EXPECT_EQ(good.size(), frame.num_wire_bytes());
  ASSERT_TRUE(DecodeBytes(good).ok());
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(DecodeBytes(good.substr(0, n)).ok()) << n;
  EXPECT_FALSE(DecodeBytes(good + "x").ok());
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string bad = good;
    for (int flips = 1 + random() % 3; flips > 0; --flips) bad[random() % bad.size()] ^= 1 << random() % 8;
    auto decoded = DecodeBytes(bad);
    if (!decoded.ok()) continue;
    WireReader reader(decoded->header);
    (void)DecodeBundle(&reader, decoded->payloads);  // either way, but no crash and no runaway allocation
  }
}

TEST(Wire, NumbersAtTheirLimits) {
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1000);
  WireWriter writer;
  for (uint64_t v : {uint64_t{0}, uint64_t{127}, uint64_t{128}, UINT64_MAX}) writer.Unsigned(v);
  for (int64_t v : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) writer.Signed(v);
  writer.Fixed64(UINT64_MAX - 1);
  writer.StatusValue(absl::NotFoundError("gone"));
  writer.StatusValue(absl::OkStatus());
  writer.Deadline(absl::InfiniteFuture(), now);
  writer.Deadline(now + absl::Seconds(100), now);
  writer.Deadline(now - absl::Seconds(100), now);
  for (const int64_t years : {200, 300, 1'000'000}) writer.Deadline(now + absl::Hours(8766 * years), now);
  const std::string bytes = writer.Take();
  WireReader reader(bytes);
  for (uint64_t v : {uint64_t{0}, uint64_t{127}, uint64_t{128}, UINT64_MAX}) EXPECT_EQ(reader.Unsigned(), v);
  for (int64_t v : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) EXPECT_EQ(reader.Signed(), v);
  EXPECT_EQ(reader.Fixed64(), UINT64_MAX - 1);
  EXPECT_EQ(reader.StatusValue(), absl::NotFoundError("gone"));
  EXPECT_TRUE(reader.StatusValue().ok());
  EXPECT_EQ(reader.Deadline(now), absl::InfiniteFuture());
  EXPECT_EQ(reader.Deadline(now + absl::Seconds(7)), now + absl::Seconds(107));  // the reader's clock
  EXPECT_EQ(reader.Deadline(now), now);                                          // over
  for (int i = 0; i < 3; ++i) EXPECT_GT(reader.Deadline(now), now + absl::Hours(8766 * 100));
  EXPECT_TRUE(reader.Finish("test").ok());
  EXPECT_EQ(reader.Unsigned(), 0u);
  EXPECT_THAT(Text(reader.Finish("test")), HasSubstr("test: malformed or cut short"));
  WireReader endless("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
  endless.Unsigned();
  EXPECT_FALSE(endless.ok());
}

}  // namespace
}  // namespace weir
