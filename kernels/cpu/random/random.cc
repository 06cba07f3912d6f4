// RandomUniform, RandomStandardNormal, TruncatedNormal, RandomUniformInt.
//
// Implementation notes. One block of Philox gives a group of outputs: four of 32 bits or less, two of 64.
// Group g of a run uses block g after the run's start, whatever thread computes it. TruncatedNormal needs a
// varying number of blocks, so each of its groups has 256 of them per four outputs to itself. Every run moves
// the node's stream on by 256 blocks per output. These are TensorFlow's choices: they make equal seeds give
// equal values in every step.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <type_traits>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/random/philox.h"
#include "kernels/cpu/register_kernels.h"
#include "kernels/kernel_registry.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

constexpr uint64_t kReservedBlocksPerOutput = 256;

// A node's stream, which all plans of a session go on with. Thread safe: concurrent steps get different
// stretches of it.
class RandomStream final : public NodeState {
 public:
  RandomStream(int64_t seed, int64_t seed2) : next_(Seeded(seed, seed2)) {}

  // The stream of the node in its session; outside of one, a new stream.
  static absl::StatusOr<std::shared_ptr<RandomStream>> Of(const KernelConstruction& construction) {
    const auto create = [&construction] {
      return std::make_shared<RandomStream>(construction.attr<int64_t>("seed"),
                                            construction.attr<int64_t>("seed2"));
    };
    if (construction.session() == nullptr) return create();
    return construction.session()->FindOrCreate<RandomStream>(construction.device().name().ToString(),
                                                              construction.node().name(), create);
  }

  Philox Reserve(int64_t num_outputs) {
    absl::MutexLock lock(&mutex_);
    Philox start = next_;
    next_.Skip(static_cast<uint64_t>(num_outputs) * kReservedBlocksPerOutput);
    return start;
  }

 private:
  static Philox Seeded(int64_t seed, int64_t seed2) {
    if (seed != 0 || seed2 != 0) return Philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(seed2));
    std::random_device entropy;  // no seed asked for: another stream for every node
    const auto word = [&] { return uint64_t{entropy()} << 32 | entropy(); };
    return Philox(word(), word());
  }

  absl::Mutex mutex_;
  Philox next_ ABSL_GUARDED_BY(mutex_);
};

template <typename T>
inline constexpr int kGroup = sizeof(T) == 8 ? 2 : 4;  // outputs of one block

template <typename T>
struct Uniform {
  void operator()(Philox& bits, T* group) const {
    const Philox::Block block = bits.Next();
    if constexpr (std::is_same_v<T, double>) {
      group[0] = UniformDouble(block[0], block[1]);
      group[1] = UniformDouble(block[2], block[3]);
    } else {
      for (int i = 0; i < 4; ++i) {
        if constexpr (std::is_same_v<T, float>)
          group[i] = UniformFloat(block[i]);
        else if constexpr (std::is_same_v<T, Half>)
          group[i] = UniformHalf(block[i]);
        else
          group[i] = UniformBfloat16(block[i]);
      }
    }
  }
  static constexpr double kCost = 4;
};

template <typename T>
struct Normal {
  void operator()(Philox& bits, T* group) const {
    const Philox::Block block = bits.Next();
    if constexpr (std::is_same_v<T, double>) {
      const auto pair = NormalDoubles(block[0], block[1], block[2], block[3]);
      std::copy_n(pair.begin(), 2, group);
    } else {
      for (int i = 0; i < 4; i += 2) {
        const auto pair = NormalFloats(block[i], block[i + 1]);
        group[i] = T(pair[0]);
        group[i + 1] = T(pair[1]);
      }
    }
  }
  static constexpr double kCost = 15;
};

// The words of a stream one by one.
class Words {
 public:
  explicit Words(Philox& bits) : bits_(bits) {}
  uint32_t Next() {
    if (used_ == 4) {
      block_ = bits_.Next();
      used_ = 0;
    }
    return block_[used_++];
  }

 private:
  Philox& bits_;
  Philox::Block block_;
  int used_ = 4;
};

// Normal numbers of magnitude below 2; others are thrown away.
template <typename T>
struct TruncatedNormal {
  void operator()(Philox& bits, T* group) const {
    constexpr double kLimit = 2;
    Words words(bits);
    int count = 0;
    while (count < kGroup<T>) {
      for (const auto value : NextPair(words)) {
        if (count < kGroup<T> && std::abs(value) < kLimit) group[count++] = T(value);
      }
    }
  }
  static constexpr double kCost = 25;

 private:
  static auto NextPair(Words& words) {
    const uint32_t a = words.Next(), b = words.Next();
    if constexpr (std::is_same_v<T, double>) {
      const uint32_t c = words.Next(), d = words.Next();
      return NormalDoubles(a, b, c, d);
    } else {
      return NormalFloats(a, b);
    }
  }
};

// Integers in [low, low + range).
template <typename T>
struct UniformInt {
  using Unsigned = std::make_unsigned_t<T>;
  Unsigned low;
  Unsigned range;

  void operator()(Philox& bits, T* group) const {
    const Philox::Block block = bits.Next();
    for (int i = 0; i < kGroup<T>; ++i) {
      const Unsigned word =
          sizeof(T) == 8
              ? static_cast<Unsigned>(uint64_t{block[2 * i % 4]} | uint64_t{block[(2 * i + 1) % 4]} << 32)
              : static_cast<Unsigned>(block[i]);
      group[i] = static_cast<T>(low + word % range);
    }
  }
  static constexpr double kCost = 6;
};

// Fills `output` with groups; group g starts g * blocks_per_group blocks after `start`.
template <typename T, typename Distribution>
void Fill(ThreadPool& threads, const Philox& start, uint64_t blocks_per_group,
          const Distribution& distribution, absl::Span<T> output) {
  const int64_t size = static_cast<int64_t>(output.size());
  const int64_t groups = (size + kGroup<T> - 1) / kGroup<T>;
  threads.ParallelFor(groups, Distribution::kCost * kGroup<T>, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      Philox bits = start;
      bits.Skip(static_cast<uint64_t>(g) * blocks_per_group);
      T group[kGroup<T>];
      distribution(bits, group);
      std::copy_n(group, std::min<int64_t>(kGroup<T>, size - g * kGroup<T>), &output[g * kGroup<T>]);
    }
  });
}

absl::StatusOr<Shape> ShapeInput(const Tensor& tensor) {
  if (tensor.shape().rank() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("shape must be a vector, is ", tensor.shape().ToString()));
  }
  return ReadShape(tensor, "shape");
}

template <typename T, typename Distribution, uint64_t blocks_per_group>
class RandomFill final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<RandomFill>(std::move(stream));
  }

  explicit RandomFill(std::shared_ptr<RandomStream> stream) : stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(context.input(0)));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    const Philox start = stream_->Reserve(shape.num_elements());
    Fill(context.threads(), start, blocks_per_group, Distribution(), output->flat<T>());
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<RandomStream> stream_;
};

template <typename T>
class RandomUniformInt final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<RandomUniformInt>(std::move(stream));
  }

  explicit RandomUniformInt(std::shared_ptr<RandomStream> stream) : stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Shape shape, ShapeInput(context.input(0)));
    for (int i : {1, 2}) {
      if (context.input(i).num_elements() == 1) continue;
      return absl::InvalidArgumentError(absl::StrCat(i == 1 ? "minval" : "maxval", " must be a scalar, is ",
                                                     context.input(i).shape().ToString()));
    }
    const T low = context.input(1).scalar<T>();
    const T high = context.input(2).scalar<T>();
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    if (low >= high) {
      return absl::InvalidArgumentError(absl::StrCat("minval must be less than maxval: ", low, " >= ", high));
    }
    using Unsigned = std::make_unsigned_t<T>;
    const UniformInt<T> distribution = {static_cast<Unsigned>(low),
                                        static_cast<Unsigned>(high) - static_cast<Unsigned>(low)};
    Fill(context.threads(), stream_->Reserve(shape.num_elements()), 1, distribution, output->flat<T>());
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<RandomStream> stream_;
};

template <typename T>
void RegisterFills(KernelRegistry& registry, const std::string& device) {
  const auto add = [&](const char* op, KernelFactory create) {
    registry.Register(
        {.op = op, .device_type = device, .types = {{"dtype", {DTypeOf<T>}}}, .create = create});
  };
  add("RandomUniform", CreateCheckedKernel<RandomFill<T, Uniform<T>, 1>>);
  add("RandomStandardNormal", CreateCheckedKernel<RandomFill<T, Normal<T>, 1>>);
  add("TruncatedNormal",
      CreateCheckedKernel<RandomFill<T, TruncatedNormal<T>, kGroup<T> * kReservedBlocksPerOutput / 4>>);
}

template <typename T>
void RegisterIntegers(KernelRegistry& registry, const std::string& device) {
  registry.Register({.op = "RandomUniformInt",
                     .device_type = device,
                     .types = {{"Tout", {DTypeOf<T>}}},
                     .create = CreateCheckedKernel<RandomUniformInt<T>>});
}

}  // namespace

void RegisterRandomKernels(DeviceKernels& kernels) {
  KernelRegistry& registry = kernels.registry();
  const std::string& device_type = kernels.device_type();
  const std::string device(device_type);
  RegisterFills<float>(registry, device);
  RegisterFills<double>(registry, device);
  RegisterFills<Half>(registry, device);
  RegisterFills<Bfloat16>(registry, device);
  RegisterIntegers<int32_t>(registry, device);
  RegisterIntegers<int64_t>(registry, device);
}

}  // namespace weir
