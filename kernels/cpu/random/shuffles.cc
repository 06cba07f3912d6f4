// RandomShuffle, StatelessShuffle and RandomIndexShuffle: TensorFlow's orders for the same seeds.
//
// StatelessShuffle draws an order as RandomShuffle does, from a stream that its inputs name.
// RandomIndexShuffle computes one place of an order without the others: it encrypts the index with the Simon
// cipher, whose words are half of the smallest even number of bits, from 16 on, that holds the largest index,
// and does so again while the result is larger than that.
//
// Sources: R. Beaulieu et al., "The SIMON and SPECK families of lightweight block ciphers", 2013; J. Black,
// P. Rogaway, "Ciphers with arbitrary finite domains", 2002; TensorFlow's
// core/kernels/random_index_shuffle.cc for rounds, key words and the size of words.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/cpu/random/shuffle.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// The order of Fisher and Yates: each place in turn gets one of the slices of input 0 that are left. `draw`
// gives a stream with that many words; it is not called where there is nothing to shuffle.
absl::Status ShuffleSlices(KernelContext& context, absl::FunctionRef<Philox(int64_t num_words)> draw) {
  const Tensor& value = context.input(0);
  if (value.num_elements() <= 1 || value.shape().dim(0) <= 1) {
    context.set_output(0, value);
    return absl::OkStatus();
  }
  const int64_t size = value.shape().dim(0);
  WEIR_ASSIGN_OR_RETURN(Tensor order, context.AllocateTemporary(DType::kInt64, Shape({size})));
  const absl::Span<int64_t> from = order.flat<int64_t>();
  std::iota(from.begin(), from.end(), int64_t{0});
  // The last place takes what is left, so there are size - 1 numbers to draw: of a word, the first of two
  // where more than a word can name are left.
  Philox bits = draw(size - 1 + std::max<int64_t>(size - int64_t{UINT32_MAX}, 0));
  WEIR_RETURN_IF_ERROR(Shuffle(bits, from, context.cancellation()));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, value.shape()));
  const int64_t inner = value.num_elements() / size;
  for (int64_t i = 0; i < size; ++i) {
    if (i % kPlacesBetweenQuestions == 0 && context.cancellation().is_cancelled()) {
      return context.cancellation().reason();
    }
    CopyElements(value, from[i] * inner, *output, i * inner, inner);
  }
  return absl::OkStatus();
}

class RandomShuffle final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<RandomShuffle>(std::move(stream));
  }

  explicit RandomShuffle(std::shared_ptr<RandomStream> stream) : stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    return ShuffleSlices(context, [this](int64_t num_words) {
      return stream_->ReserveBlocks(static_cast<uint64_t>((num_words + 3) / 4));
    });
  }

 private:
  const std::shared_ptr<RandomStream> stream_;
};

// Inputs: value, key, counter, alg.
absl::Status StatelessShuffle(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Philox bits, StreamOfKey(context.input(1), context.input(2), context.input(3)));
  return ShuffleSlices(context, [&bits](int64_t) { return bits; });
}

// Encrypts words pairs of `bits` bits each. Precondition: 8 <= bits <= 32, rounds even, from 4 on.
class Simon {
 public:
  Simon(const std::array<uint32_t, 3>& key, int bits, int rounds)
      : bits_(bits), mask_((uint64_t{1} << bits) - 1) {
    uint64_t constants = 0x7369f885192c0ef5u & mask_;
    for (const uint32_t word : key) keys_.push_back(word & mask_);
    for (int i = 3; i < rounds; ++i) {
      keys_.push_back((0xfffffffcu & mask_) ^ (constants & 1) ^ keys_[i - 3] ^ Left(keys_[i - 1], bits_ - 3) ^
                      Left(keys_[i - 1], bits_ - 4));
      constants >>= 1;
    }
  }

  uint64_t Encrypted(uint64_t value) const {
    uint64_t left = (value >> bits_) & mask_, right = value & mask_;
    for (size_t i = 0; i < keys_.size(); i += 2) {
      left ^= Mixed(right) ^ keys_[i];
      right ^= Mixed(left) ^ keys_[i + 1];
    }
    return left << bits_ | right;
  }

 private:
  uint64_t Left(uint64_t word, int by) const { return (word << by | word >> (bits_ - by)) & mask_; }
  uint64_t Mixed(uint64_t word) const { return (Left(word, 1) & Left(word, 8 % bits_)) ^ Left(word, 2); }

  const int bits_;
  const uint64_t mask_;
  std::vector<uint64_t> keys_;
};

uint64_t PlaceOf(uint64_t index, const std::array<uint32_t, 3>& key, uint64_t max_index, int rounds) {
  if (max_index == 0) return 0;
  const int needed = static_cast<int>(std::ceil(std::log2(static_cast<double>(max_index))));
  const int block_bits = std::clamp(needed + needed % 2, 16, 64);
  const Simon cipher(key, block_bits / 2, rounds);
  uint64_t place = index;
  do place = cipher.Encrypted(place);
  while (place > max_index);
  return place;
}

uint64_t UnsignedAt(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kUint32:
      return tensor.flat<uint32_t>()[i];
    case DType::kUint64:
      return tensor.flat<uint64_t>()[i];
    default:
      return static_cast<uint64_t>(IntegerAt(tensor, i));
  }
}

bool IsNegative(const Tensor& tensor, int64_t i) {
  const bool is_signed = tensor.dtype() == DType::kInt32 || tensor.dtype() == DType::kInt64;
  return is_signed && IntegerAt(tensor, i) < 0;
}

// Inputs: index, seed, max_index; each one, or one for each of the others.
class RandomIndexShuffle final : public Kernel {
 public:
  explicit RandomIndexShuffle(const KernelConstruction& construction)
      : rounds_(construction.attr<int64_t>("rounds")) {}

  absl::Status Compute(KernelContext& context) override {
    constexpr int64_t kMostRounds = 1024;
    if (rounds_ < 4 || rounds_ % 2 != 0 || rounds_ > kMostRounds) {
      return absl::InvalidArgumentError(
          absl::StrCat("rounds must be even and in [4, ", kMostRounds, "], is ", rounds_));
    }
    const Tensor &indices = context.input(0), &seeds = context.input(1), &limits = context.input(2);
    const Shape& seed_shape = seeds.shape();
    if (seed_shape.rank() < 1 || seed_shape.rank() > 2 || seed_shape.dim(seed_shape.rank() - 1) != 3) {
      return absl::InvalidArgumentError(
          absl::StrCat("seed must have shape [3] or [n,3], has ", seed_shape.ToString()));
    }
    if (indices.shape().rank() > 1 || limits.shape().rank() > 1) {
      return absl::InvalidArgumentError(absl::StrCat("index and max_index must be scalars or vectors, are ",
                                                     indices.shape().ToString(), " and ",
                                                     limits.shape().ToString()));
    }
    const bool has_rows = seed_shape.rank() == 2;
    int64_t count = 1;
    bool is_scalar = true, fits = true;
    const auto add = [&](bool is_vector, int64_t size) {
      if (!is_vector) return;
      fits &= is_scalar || size == count;
      count = size;
      is_scalar = false;
    };
    add(!indices.shape().is_scalar(), indices.num_elements());
    add(has_rows, has_rows ? seed_shape.dim(0) : 0);
    add(!limits.shape().is_scalar(), limits.num_elements());
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat("index, seed and max_index must be as many, are ",
                                                     indices.shape().ToString(), ", ", seed_shape.ToString(),
                                                     " and ", limits.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, is_scalar ? Shape() : Shape({count})));
    for (int64_t i = 0; i < count; ++i) {
      // One place is up to 2^16 encryptions of up to 2^10 rounds.
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      const int64_t index_at = indices.shape().is_scalar() ? 0 : i,
                    limit_at = limits.shape().is_scalar() ? 0 : i;
      WEIR_RETURN_IF_ERROR(Check(indices, index_at, limits, limit_at));
      std::array<uint32_t, 3> key;
      for (int k = 0; k < 3; ++k)
        key[k] = static_cast<uint32_t>(UnsignedAt(seeds, (has_rows ? i * 3 : 0) + k));
      Set(*output, i,
          PlaceOf(UnsignedAt(indices, index_at), key, UnsignedAt(limits, limit_at),
                  static_cast<int>(rounds_)));
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Check(const Tensor& indices, int64_t i, const Tensor& limits, int64_t k) {
    if (IsNegative(indices, i)) {
      return absl::InvalidArgumentError(absl::StrCat("index must be >= 0 but was ", IntegerAt(indices, i)));
    }
    if (IsNegative(limits, k)) {
      return absl::InvalidArgumentError(
          absl::StrCat("max_index must be >= 0 but was ", IntegerAt(limits, k)));
    }
    if (UnsignedAt(indices, i) <= UnsignedAt(limits, k)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("max_index must be >= index, but ", UnsignedAt(limits, k),
                                                   " < ", UnsignedAt(indices, i)));
  }

  static void Set(Tensor& output, int64_t i, uint64_t value) {
    switch (output.dtype()) {
      case DType::kInt32:
        output.flat<int32_t>()[i] = static_cast<int32_t>(value);
        break;
      case DType::kUint32:
        output.flat<uint32_t>()[i] = static_cast<uint32_t>(value);
        break;
      case DType::kInt64:
        output.flat<int64_t>()[i] = static_cast<int64_t>(value);
        break;
      default:
        output.flat<uint64_t>()[i] = value;
    }
  }

  const int64_t rounds_;
};

}  // namespace

void RegisterShufflesKernels(DeviceKernels& kernels) {
  const std::vector<DType> integers = {DType::kInt32, DType::kUint32, DType::kInt64, DType::kUint64};
  kernels.Add<RandomShuffle>("RandomShuffle", {{"T", AllDTypes()}});
  kernels.Add<&StatelessShuffle>("StatelessShuffle", {{"T", AllDTypes()}});
  kernels.Add<RandomIndexShuffle>("RandomIndexShuffle", {{"dtype", integers}, {"Tseed", integers}});
}

}  // namespace weir
