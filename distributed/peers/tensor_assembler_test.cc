#include "distributed/peers/tensor_assembler.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "distributed/peers/worker_protocol.h"
#include "distributed/transport/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weir {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPieceBytes = kMinPieceBytes;
const Envelope kSender{{"worker", 0}, 7};

std::string Text(const absl::Status& status) { return std::string(status.message()); }

Tensor Numbered(int64_t num_elements) {
  Tensor tensor(DType::kInt32, {num_elements});
  for (int64_t i = 0; i < num_elements; ++i) tensor.flat<int32_t>()[i] = static_cast<int32_t>(i);
  return tensor;
}

TensorPiece PieceOf(const Tensor& tensor, int64_t index, uint64_t transfer = 1) {
  TensorPiece piece;
  piece.transfer.number = transfer;
  piece.plan = 5;
  piece.step_id = 3;
  piece.edge = 2;
  piece.type = {tensor.dtype(), tensor.shape()};
  piece.piece_bytes = kPieceBytes;
  piece.index = index;
  return piece;
}

// A copy, as what comes from the network.
Payload BytesOf(const Tensor& tensor, int64_t index) {
  const int64_t begin = index * kPieceBytes;
  const int64_t size = std::min<int64_t>(kPieceBytes, tensor.num_bytes() - begin);
  return Payload::OfString(std::string(static_cast<const char*>(tensor.data()) + begin, size));
}

// Holds what an assembler keeps until the step ends.
struct Step {
  TensorAssembler::Keep Keep() {
    return [this](const Envelope&, const TensorPiece&, std::shared_ptr<void> memory) -> absl::StatusOr<bool> {
      if (is_over) return false;
      held.push_back(std::move(memory));
      return true;
    };
  }
  void End() {
    is_over = true;
    held.clear();
  }
  bool is_over = false;
  std::vector<std::shared_ptr<void>> held;
};

class TensorAssemblerTest : public ::testing::Test {
 protected:
  absl::StatusOr<TensorAssembler::Added> Add(const TensorPiece& piece, Payload bytes) {
    return assembler_.Add(kSender, piece, std::move(bytes));
  }
  absl::StatusOr<TensorAssembler::Added> Add(int64_t index, uint64_t transfer = 1) {
    return Add(PieceOf(tensor_, index, transfer), BytesOf(tensor_, index));
  }

  Step step_;
  TensorAssembler assembler_{step_.Keep(), 1 << 20};
  const Tensor tensor_ = Numbered(50'000);  // 200,000 bytes: four pieces, the last one short
};

TEST_F(TensorAssemblerTest, PiecesComeInAnyOrderAndTheLastGivesTheTensor) {
  for (const int64_t index : {2, 0, 3}) {
    const auto added = Add(index);
    ASSERT_TRUE(added.ok()) << added.status();
    EXPECT_TRUE(added->is_wanted);
    EXPECT_FALSE(added->whole.is_valid());
    EXPECT_EQ(assembler_.num_bytes(), 200'000);
  }
  const auto last = Add(1);
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->whole.shape(), tensor_.shape());
  EXPECT_EQ(std::memcmp(last->whole.data(), tensor_.data(), tensor_.num_bytes()), 0);
  EXPECT_TRUE(last->whole.has_exclusive_buffer());  // a kernel may reuse it
  EXPECT_EQ(assembler_.num_bytes(), 0);
}

TEST_F(TensorAssemblerTest, BytesThatWereReadIntoTheirPlaceAreNotCopied) {
  for (const int64_t index : {3, 1, 0, 2}) {
    const Payload bytes = BytesOf(tensor_, index);
    Payload place = assembler_.Place(kSender, PieceOf(tensor_, index), bytes.num_bytes());
    ASSERT_EQ(place.num_bytes(), bytes.num_bytes());
    // Nobody else gets that place, and a repetition that comes meanwhile changes nothing.
    EXPECT_EQ(assembler_.Place(kSender, PieceOf(tensor_, index), bytes.num_bytes()).num_bytes(), 0u);
    EXPECT_FALSE(Add(PieceOf(tensor_, index), Payload::OfString(std::string(bytes.num_bytes(), 'x')))
                     ->whole.is_valid());
    std::memcpy(place.mutable_data(), bytes.data(), bytes.num_bytes());
    const auto added = Add(PieceOf(tensor_, index), std::move(place));
    ASSERT_TRUE(added.ok()) << added.status();
    if (index != 2) continue;
    EXPECT_EQ(std::memcmp(added->whole.data(), tensor_.data(), tensor_.num_bytes()), 0);
    EXPECT_TRUE(added->whole.has_exclusive_buffer());
  }
}

TEST_F(TensorAssemblerTest, APlaceThatIsGivenBackIsFilledByTheRepetition) {
  const auto place = [&] {
    return assembler_.Place(kSender, PieceOf(tensor_, 0), BytesOf(tensor_, 0).num_bytes());
  };
  Payload first = place();
  ASSERT_GT(first.num_bytes(), 0u);
  EXPECT_EQ(place().num_bytes(), 0u);  // somebody has it
  EXPECT_TRUE(Add(0)->is_on_its_way) << "to be sent again: the first copy will break off";
  for (int64_t i = 1; i < PieceOf(tensor_, 0).num_pieces(); ++i) EXPECT_FALSE(Add(i)->whole.is_valid());
  std::memset(first.mutable_data(), 0x55, first.num_bytes() / 2);
  first = Payload();  // the connection broke
  const Tensor whole = Add(0)->whole;
  ASSERT_TRUE(whole.is_valid());
  EXPECT_FALSE(Add(0)->is_on_its_way);
  EXPECT_EQ(std::memcmp(whole.data(), tensor_.data(), tensor_.num_bytes()), 0);
}

TEST_F(TensorAssemblerTest, RepeatedPiecesChangeNothing) {
  for (int64_t index = 0; index < 4; ++index) {
    ASSERT_TRUE(Add(index).ok());
    EXPECT_FALSE(
        Add(PieceOf(tensor_, 0), Payload::OfString(std::string(kPieceBytes, 'x')))->whole.is_valid());
  }
  // Not even when all have come: no second tensor is begun.
  EXPECT_TRUE(Add(1).ok());
  EXPECT_EQ(assembler_.Place(kSender, PieceOf(tensor_, 1), kPieceBytes).num_bytes(), 0u);
  EXPECT_EQ(assembler_.num_bytes(), 0);
  // The same number of another life is another tensor.
  EXPECT_TRUE(assembler_.Add({{"worker", 0}, 8}, PieceOf(tensor_, 1), BytesOf(tensor_, 1)).ok());
  EXPECT_EQ(assembler_.num_bytes(), 200'000);
}

TEST_F(TensorAssemblerTest, TheMemoryGoesWithTheStep) {
  ASSERT_TRUE(Add(0).ok());
  ASSERT_TRUE(Add(0, /*transfer=*/2).ok());
  Payload place = assembler_.Place(kSender, PieceOf(tensor_, 1), kPieceBytes);
  EXPECT_EQ(assembler_.num_bytes(), 400'000);
  step_.End();
  EXPECT_EQ(assembler_.num_bytes(), 0);
  std::memset(place.mutable_data(), 1, place.num_bytes());  // whoever reads from the network still may
  const auto late = Add(PieceOf(tensor_, 1), std::move(place));
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_FALSE(late->is_wanted);
  EXPECT_FALSE(late->whole.is_valid());
  EXPECT_EQ(assembler_.Place(kSender, PieceOf(tensor_, 2), kPieceBytes).num_bytes(), 0u);
  EXPECT_EQ(assembler_.num_bytes(), 0);
}

TEST_F(TensorAssemblerTest, PiecesOfTheWrongSizeAreErrors) {
  for (const size_t size : {size_t{0}, size_t{kPieceBytes - 1}, size_t{kPieceBytes + 1}}) {
    const absl::Status status = Add(PieceOf(tensor_, 1), Payload::OfString(std::string(size, 'x'))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(status),
                HasSubstr(absl::StrCat("piece 1 of a tensor int32[50000] in pieces of 65536 bytes for "
                                       "edge 2 of step 3 came with ",
                                       size, " bytes instead of 65536")));
    EXPECT_EQ(assembler_.Place(kSender, PieceOf(tensor_, 1), size).num_bytes(), 0u);
  }
  EXPECT_THAT(Text(Add(PieceOf(tensor_, 3), BytesOf(tensor_, 0)).status()), HasSubstr("instead of 3392"));
  EXPECT_EQ(assembler_.num_bytes(), 0);  // nothing was allocated for them
}

TEST_F(TensorAssemblerTest, PiecesOfAnotherTensorAreErrorsAndHarmless) {
  ASSERT_TRUE(Add(0).ok());
  const std::vector<std::function<void(TensorPiece*)>> changes = {
      [](TensorPiece* piece) { piece->type.dtype = DType::kFloat32; },
      [](TensorPiece* piece) {
        piece->type.shape = Shape{50, 1000};
      },
      [](TensorPiece* piece) { piece->type.shape = Shape{60'000}; },
      [](TensorPiece* piece) { piece->piece_bytes *= 2; },
      [](TensorPiece* piece) { piece->edge = 0; },
      [](TensorPiece* piece) { piece->step_id = 4; },
      [](TensorPiece* piece) { piece->plan = 6; },
  };
  for (const auto& change : changes) {
    TensorPiece other = PieceOf(tensor_, 1);
    change(&other);
    const std::string bytes(std::min(other.piece_bytes, other.tensor_bytes() - other.piece_bytes), 'x');
    const absl::Status status = Add(other, Payload::OfString(bytes)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(status), HasSubstr("came in transfer 1 after piece 0 of a tensor int32[50000]"));
    EXPECT_EQ(assembler_.Place(kSender, other, bytes.size()).num_bytes(), 0u);
  }
  for (int64_t index = 1; index < 3; ++index) ASSERT_TRUE(Add(index).ok());
  const Tensor whole = Add(3)->whole;
  EXPECT_EQ(std::memcmp(whole.data(), tensor_.data(), tensor_.num_bytes()), 0);
}

TEST_F(TensorAssemblerTest, RoomIsBounded) {
  for (uint64_t transfer = 1; transfer <= 5; ++transfer) ASSERT_TRUE(Add(0, transfer).ok());
  const absl::Status full = Add(0, 6).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(full),
              HasSubstr("its 200000 bytes and 1000000 of other tensors that are not whole are above the "
                        "limit of 1048576"));
  EXPECT_TRUE(Add(1, 5).ok());  // those that have room go on
  const Tensor huge = Numbered(1);
  TensorPiece piece = PieceOf(huge, 0);
  piece.transfer.number = 9;
  piece.type.shape = Shape{int64_t{1} << 40};
  EXPECT_EQ(Add(piece, Payload::OfString(std::string(kPieceBytes, 'x'))).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(assembler_.num_bytes(), 1'000'000);
}

TEST_F(TensorAssemblerTest, ManyThreadsAndTransfersAtOnce) {
  constexpr int kTransfers = 5, kThreads = 4;
  std::atomic<int> num_whole{0};
  absl::Mutex mutex;
  TensorAssembler assembler(
      [&](const Envelope& sender, const TensorPiece& piece, std::shared_ptr<void> held) {
        absl::MutexLock lock(&mutex);
        return step_.Keep()(sender, piece, std::move(held));
      });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<int> order;
      for (int i = 0; i < kTransfers * 4; ++i) order.push_back(i);
      std::shuffle(order.begin(), order.end(), random);
      for (const int i : order) {  // every thread sends everything: most are repetitions
        const TensorPiece piece = PieceOf(tensor_, i % 4, 1 + i / 4);
        Payload bytes = BytesOf(tensor_, i % 4);
        if (Payload place = assembler.Place(kSender, piece, bytes.num_bytes()); place.num_bytes() > 0) {
          std::memcpy(place.mutable_data(), bytes.data(), bytes.num_bytes());
          bytes = std::move(place);
        }
        const auto added = assembler.Add(kSender, piece, std::move(bytes));
        ASSERT_TRUE(added.ok()) << added.status();
        if (!added->whole.is_valid()) continue;
        ++num_whole;
        EXPECT_EQ(std::memcmp(added->whole.data(), tensor_.data(), tensor_.num_bytes()), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_whole, kTransfers);
  EXPECT_EQ(assembler.num_bytes(), 0);
}

TEST(TensorPiece, HostileHeadersAreRefused) {
  struct Case {
    uint64_t dtype;
    std::vector<uint64_t> dims;
    uint64_t piece_bytes, index;
    const char* error;
  };
  const Case cases[] = {
      {1, {1 << 20}, kPieceBytes, 64, "piece 64 of 65536 bytes is outside a tensor float[1048576]"},
      {1, {1 << 20}, kPieceBytes, INT64_MAX, "is outside a tensor float[1048576]"},
      {1, {0}, kPieceBytes, 0, "is outside a tensor float[0]"},
      {1, {1 << 20}, 1, 0, "came in pieces of 1 bytes"},
      {1, {1 << 20}, 0, 0, "came in pieces of 0 bytes"},
      {1, {1 << 20}, INT64_MAX, 0, "came in pieces of 9223372036854775807 bytes"},
      {1, {uint64_t{1} << 62}, kPieceBytes, 0, "float[4611686018427387904] cannot come in pieces"},
      {1, {uint64_t{1} << 40, uint64_t{1} << 40}, kPieceBytes, 0, ""},
      {7, {1 << 20}, kPieceBytes, 0, "string[1048576] cannot come in pieces"},
      {20, {1 << 20}, kPieceBytes, 0, "cannot come in pieces"},
      {21, {1 << 20}, kPieceBytes, 0, "unknown dtype 21"},
      {0, {1 << 20}, kPieceBytes, 0, ""},
      {1, {1 << 20}, UINT64_MAX, 0, "malformed or cut short"},
  };
  for (const Case& c : cases) {
    WireWriter writer;
    writer.Unsigned(1);
    writer.Unsigned(0);
    writer.Fixed64(5);
    writer.Signed(3);
    writer.Unsigned(2);
    writer.Unsigned(0);  // no turn
    writer.Unsigned(c.dtype);
    writer.Unsigned(c.dims.size());
    for (const uint64_t dim : c.dims) writer.Unsigned(dim);
    writer.Unsigned(c.piece_bytes);
    writer.Unsigned(c.index);
    const std::string bytes = writer.Take();
    WireReader reader(bytes);
    const absl::Status status = DecodePiece(&reader).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.error;
    EXPECT_THAT(Text(status), HasSubstr(c.error));
  }
}

// Whatever comes, every answer is an error or harmless, and room stays bounded.
TEST(TensorPiece, RandomDamageIsSurvived) {
  Step step;
  TensorAssembler assembler(step.Keep(), 1 << 20);
  const Tensor tensor = Numbered(50'000);
  std::mt19937 random(4);
  int num_decoded = 0;
  for (int i = 0; i < 20'000; ++i) {
    WireWriter writer;
    EncodePiece(PieceOf(tensor, random() % 4, random() % 6), &writer);
    std::string bytes = writer.Take();
    for (int flips = random() % 3; flips > 0; --flips) bytes[random() % bytes.size()] ^= 1 << random() % 8;
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    WireReader reader(bytes);
    const auto piece = DecodePiece(&reader);
    if (!piece.ok()) continue;
    ++num_decoded;
    Payload payload = BytesOf(tensor, random() % 4);
    if (random() % 2 == 0) {
      Payload place = assembler.Place(kSender, *piece, payload.num_bytes());
      if (place.num_bytes() == payload.num_bytes()) payload = std::move(place);
    }
    const auto added = assembler.Add(kSender, *piece, std::move(payload));
    if (added.ok() && added->whole.is_valid()) {
      EXPECT_EQ(static_cast<int64_t>(added->whole.num_bytes()), piece->tensor_bytes());
    }
    EXPECT_LE(assembler.num_bytes(), 1 << 20);
    if (random() % 100 == 0) step.held.clear();
  }
  EXPECT_GT(num_decoded, 1000);
}

}  // namespace
}  // namespace weir
