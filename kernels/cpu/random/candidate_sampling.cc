// Candidate samplers: classes drawn for losses over very many of them, and how often each is expected to be
// drawn. TensorFlow's classes for the same seeds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/allocator.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/cpu/session_files.h"
#include "kernels/device_kernels.h"
#include "kernels/formats/text_lines.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

// Numbers below a limit without favour to small ones: bits in which the limit does not fit evenly are thrown
// away. The lower word is drawn first.
uint32_t Draw32(Words& words, uint32_t limit) {
  if ((limit & (limit - 1)) == 0) return words.Next() & (limit - 1);
  const uint32_t unfair = std::numeric_limits<uint32_t>::max() % limit + 1;
  while (true) {
    const uint32_t bits = words.Next();
    if (bits >= unfair) return bits % limit;
  }
}
uint64_t Draw64(Words& words, uint64_t limit) {
  const auto next = [&words] {
    const uint64_t low = words.Next();
    return low | uint64_t{words.Next()} << 32;
  };
  if ((limit & (limit - 1)) == 0) return next() & (limit - 1);
  const uint64_t unfair = std::numeric_limits<uint64_t>::max() % limit + 1;
  while (true) {
    const uint64_t bits = next();
    if (bits >= unfair) return bits % limit;
  }
}

// A distribution over the classes [0, range).
class Classes {
 public:
  virtual ~Classes() = default;
  virtual int64_t Sample(Words& words) const = 0;
  virtual float Probability(int64_t value) const = 0;
};

class UniformClasses final : public Classes {
 public:
  explicit UniformClasses(int64_t range) : range_(range) {}
  int64_t Sample(Words& words) const override {
    return static_cast<int64_t>(Draw64(words, static_cast<uint64_t>(range_)));
  }
  float Probability(int64_t) const override { return static_cast<float>(1.0 / static_cast<double>(range_)); }

 private:
  const int64_t range_;
};

// P(k) = log((k + 2) / (k + 1)) / log(range + 1): about as often as words in the order of their frequency.
class LogUniformClasses final : public Classes {
 public:
  explicit LogUniformClasses(int64_t range)
      : range_(range), log_range_(std::log1p(static_cast<double>(range))) {}
  int64_t Sample(Words& words) const override {
    const uint32_t first = words.Next(), second = words.Next();
    return (static_cast<int64_t>(std::exp(UniformDouble(first, second) * log_range_)) - 1) % range_;
  }
  float Probability(int64_t value) const override {
    const auto k = static_cast<double>(value);
    return static_cast<float>(std::log((k + 2) / (k + 1)) / log_range_);
  }

 private:
  const int64_t range_;
  const double log_range_;
};

// As often as each class was a true one so far, and once more. The sums of a Fenwick tree (P. Fenwick, "A new
// data structure for cumulative frequency tables", 1994) find a class in the logarithm of the range.
class LearnedClasses final : public Classes {
 public:
  static absl::StatusOr<std::unique_ptr<LearnedClasses>> Create(int64_t range, Allocator& allocator) {
    if (range >= std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat("range_max is ", range, ", must be below 2^31 - 1"));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor weights, Tensor::Allocate(DType::kInt32, Shape({range}), allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor sums, Tensor::Allocate(DType::kInt32, Shape({range}), allocator));
    return std::make_unique<LearnedClasses>(std::move(weights), std::move(sums));
  }

  LearnedClasses(Tensor weights, Tensor sums)
      : weights_(std::move(weights)), sums_(std::move(sums)), total_(static_cast<int32_t>(range())) {
    for (int64_t i = 0; i < range(); ++i) {
      weights_.flat<int32_t>()[i] = 1;
      sums_.flat<int32_t>()[i] = static_cast<int32_t>((i + 1) & -(i + 1));
    }
  }

  int64_t range() const { return weights_.num_elements(); }
  int64_t Sample(Words& words) const override {
    auto rest = static_cast<int32_t>(Draw32(words, static_cast<uint32_t>(total_)));
    int64_t position = 0, step = 1;
    while (step * 2 <= range()) step *= 2;
    for (; step > 0; step /= 2) {
      if (position + step > range() || sums_.flat<int32_t>()[position + step - 1] > rest) continue;
      position += step;
      rest -= sums_.flat<int32_t>()[position - 1];
    }
    return position;
  }
  float Probability(int64_t value) const override {
    if (value < 0 || value >= range()) return 0;
    return static_cast<float>(weights_.flat<int32_t>()[value]) / static_cast<float>(total_);
  }

  // Precondition: in range. Counts end where their sum would be too large.
  void Add(int64_t value) {
    if (total_ == std::numeric_limits<int32_t>::max()) return;
    ++weights_.flat<int32_t>()[value];
    ++total_;
    for (int64_t i = value + 1; i <= range(); i += i & -i) ++sums_.flat<int32_t>()[i - 1];
  }

 private:
  Tensor weights_, sums_;
  int32_t total_;
};

// Given weights, by A. Walker's alias method ("An efficient method for generating discrete random variables
// with general distributions", 1977): of two classes that share a place of equal width one is taken.
class WeightedClasses final : public Classes {
 public:
  // `weights` is float [range]. InvalidArgument where there is nothing to draw.
  static absl::StatusOr<std::unique_ptr<WeightedClasses>> Create(Tensor weights, Allocator& allocator) {
    double sum = 0;
    for (const float weight : weights.flat<float>()) {
      sum += weight;
      if (weight >= 0 && std::isfinite(sum)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("weights of classes must not be negative, and have a sum; one of them is ", weight));
    }
    if (sum == 0) return absl::InvalidArgumentError("all weights of classes are 0");
    const Shape& shape = weights.shape();
    WEIR_ASSIGN_OR_RETURN(Tensor shares, Tensor::Allocate(DType::kFloat32, shape, allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor others, Tensor::Allocate(DType::kInt32, shape, allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor widths, Tensor::Allocate(DType::kFloat64, shape, allocator));
    WEIR_ASSIGN_OR_RETURN(Tensor room, Tensor::Allocate(DType::kInt32, shape, allocator));
    auto classes =
        std::make_unique<WeightedClasses>(std::move(weights), sum, std::move(shares), std::move(others));
    classes->Share(widths.flat<double>(), room.flat<int32_t>());
    return classes;
  }

  // Of what Create makes.
  WeightedClasses(Tensor weights, double sum, Tensor shares, Tensor others)
      : weights_(std::move(weights)), sum_(sum), shares_(std::move(shares)), others_(std::move(others)) {}

  int64_t Sample(Words& words) const override {
    const float place = UniformFloat(words.Next());
    const int64_t i = Draw32(words, static_cast<uint32_t>(range()));
    return place < shares_.flat<float>()[i] ? i : others_.flat<int32_t>()[i];
  }
  float Probability(int64_t value) const override {
    if (value < 0 || value >= range()) return 0;
    return static_cast<float>(weights_.flat<float>()[value] / sum_);
  }
  int64_t range() const { return weights_.num_elements(); }
  // How many can be drawn.
  int64_t count() const {
    const absl::Span<const float> weights = weights_.flat<float>();
    return std::count_if(weights.begin(), weights.end(), [](float weight) { return weight > 0; });
  }

 private:
  // `room` holds two stacks: narrow classes from its begin on, wide ones from its end back.
  void Share(absl::Span<double> widths, absl::Span<int32_t> room) {
    const absl::Span<float> shares = shares_.flat<float>();
    const absl::Span<int32_t> others = others_.flat<int32_t>();
    int64_t narrow = 0, wide = range();
    for (int64_t i = 0; i < range(); ++i) {
      widths[i] = weights_.flat<float>()[i] * static_cast<float>(range()) / sum_;
      shares[i] = 1;
      others[i] = static_cast<int32_t>(i);
      room[widths[i] < 1 ? narrow++ : --wide] = static_cast<int32_t>(i);
    }
    while (wide < range() && narrow > 0) {
      const int32_t small = room[--narrow], large = room[wide];
      shares[small] = static_cast<float>(widths[small]);
      others[small] = large;
      widths[large] -= 1 - widths[small];
      if (widths[large] >= 1) continue;
      ++wide;
      room[narrow++] = large;
    }
  }

  Tensor weights_;
  const double sum_;
  Tensor shares_, others_;  // how much of a place is its own, and whose the rest is
};

// Attrs and the input of a sampler.
struct Request {
  explicit Request(const KernelConstruction& construction)
      : num_true(construction.attr<int64_t>("num_true")),
        num_sampled(construction.attr<int64_t>("num_sampled")),
        unique(construction.attr<bool>("unique")) {}

  absl::Status Check(const Tensor& true_classes) const {
    if (true_classes.shape().rank() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("true_classes must be a matrix, is ", true_classes.shape().ToString()));
    }
    if (true_classes.shape().dim(1) == num_true) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("true_classes must have num_true columns, expected: ",
                                                   true_classes.shape().dim(1), " was: ", num_true));
  }

  const int64_t num_true, num_sampled;
  const bool unique;
};

// How often a class of that probability is expected among the sampled ones.
float ExpectedCount(float probability, int64_t num_sampled, int64_t num_tries) {
  if (num_tries == num_sampled) return probability * static_cast<float>(num_sampled);
  return static_cast<float>(
      -std::expm1(static_cast<double>(num_tries) * std::log1p(-static_cast<double>(probability))));
}

// Outputs 0 to 2.
absl::Status SampleInto(KernelContext& context, const Request& request, const Classes& classes,
                        const Philox& stream) {
  constexpr int64_t kMostTries = std::numeric_limits<int32_t>::max();
  const Tensor& true_classes = context.input(0);
  const Shape sampled_shape({request.num_sampled});
  WEIR_ASSIGN_OR_RETURN(Tensor * sampled, context.AllocateOutput(0, sampled_shape));
  WEIR_ASSIGN_OR_RETURN(Tensor * true_expected, context.AllocateOutput(1, true_classes.shape()));
  WEIR_ASSIGN_OR_RETURN(Tensor * sampled_expected, context.AllocateOutput(2, sampled_shape));
  Philox bits = stream;
  Words words(bits);
  const absl::Span<int64_t> batch = sampled->flat<int64_t>();
  absl::flat_hash_set<int64_t> seen;
  int64_t num_tries = 0;
  for (int64_t i = 0; i < request.num_sampled; ++num_tries) {
    if (num_tries == kMostTries) {
      return absl::ResourceExhaustedError(absl::StrCat("after ", num_tries, " tries only ", i, " of ",
                                                       request.num_sampled, " different classes were found"));
    }
    if ((num_tries & 0xffff) == 0xffff && context.cancellation().is_cancelled()) {
      return context.cancellation().reason();
    }
    const int64_t value = classes.Sample(words);
    if (!request.unique || seen.insert(value).second) batch[i++] = value;
  }
  const auto expect = [&](const Tensor& of, Tensor& counts) {
    for (int64_t i = 0; i < of.num_elements(); ++i) {
      counts.flat<float>()[i] =
          ExpectedCount(classes.Probability(of.flat<int64_t>()[i]), request.num_sampled, num_tries);
    }
  };
  expect(*sampled, *sampled_expected);
  expect(true_classes, *true_expected);
  return absl::OkStatus();
}

absl::Status CheckRange(const Request& request, int64_t range) {
  if (!request.unique || request.num_sampled <= range) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Sampler's range is too small: ", request.num_sampled, " different classes of ", range));
}

absl::Status CheckTrueClasses(const Tensor& true_classes, int64_t range) {
  for (const int64_t value : true_classes.flat<int64_t>()) {
    if (value >= 0 && value < range) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a true class is ", value, ", must be in [0, ", range, ")"));
  }
  return absl::OkStatus();
}

// The blocks that TensorFlow reserves for a run.
Philox Reserve(RandomStream& stream, int64_t num_sampled) {
  return stream.ReserveBlocks(static_cast<uint64_t>(num_sampled) * (2048 / 4));
}

template <typename Distribution>
class Sampler final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto range = construction.attr<int64_t>("range_max");
    WEIR_RETURN_IF_ERROR(CheckRange(Request(construction), range));
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<Sampler>(construction, range, std::move(stream));
  }

  Sampler(const KernelConstruction& construction, int64_t range, std::shared_ptr<RandomStream> stream)
      : request_(construction), range_(range), classes_(range), stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(request_.Check(context.input(0)));
    WEIR_RETURN_IF_ERROR(CheckTrueClasses(context.input(0), range_));
    return SampleInto(context, request_, classes_, Reserve(*stream_, request_.num_sampled));
  }

 private:
  const Request request_;
  const int64_t range_;
  const Distribution classes_;
  const std::shared_ptr<RandomStream> stream_;
};

// The classes that FixedUnigramCandidateSampler's attrs describe.
class UnigramReader {
 public:
  explicit UnigramReader(const KernelConstruction& construction)
      : construction_(construction),
        range_(construction.attr<int64_t>("range_max")),
        shards_(construction.attr<int64_t>("num_shards")),
        shard_(construction.attr<int64_t>("shard")),
        distortion_(construction.attr<float>("distortion")) {}

  absl::StatusOr<std::unique_ptr<WeightedClasses>> Read() {
    const auto& path = construction_.attr<std::string>("vocab_file");
    const auto& unigrams = construction_.attr<std::vector<float>>("unigrams");
    if (path.empty() && unigrams.empty())
      return absl::InvalidArgumentError("Must provide either vocab_file or unigrams.");
    if (!path.empty() && !unigrams.empty())
      return absl::InvalidArgumentError("Must only provide one of vocab_file and unigrams.");
    if (range_ > std::numeric_limits<int32_t>::max())
      return absl::InvalidArgumentError(absl::StrCat("range_max is ", range_, ", must be below 2^31"));
    Allocator& allocator = construction_.device().host_allocator();
    WEIR_ASSIGN_OR_RETURN(weights_, Tensor::Allocate(DType::kFloat32, Shape({range_}), allocator));
    WEIR_RETURN_IF_ERROR(AddReserved(construction_.attr<int64_t>("num_reserved_ids")));
    if (!path.empty()) WEIR_RETURN_IF_ERROR(AddFile(path));
    for (const float weight : unigrams) WEIR_RETURN_IF_ERROR(Add(weight));
    if (size_ != range_) {
      return absl::InvalidArgumentError(
          absl::StrCat("range is ", range_, " must be equal to weights size  ", size_));
    }
    return WeightedClasses::Create(std::move(weights_), allocator);
  }

 private:
  // Ids that are never drawn. Those of other shards are not this sampler's.
  absl::Status AddReserved(int64_t count) {
    if (count < 0 || count / shards_ > range_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "num_reserved_ids is ", count, ", must be in [0, range_max * num_shards], with range_max ", range_,
          " and num_shards ", shards_));
    }
    for (int64_t id = shard_; id < count; id += shards_) WEIR_RETURN_IF_ERROR(Append(0));
    // As in TensorFlow: ids go on with the number of those that this shard has.
    next_id_ = size_;
    return absl::OkStatus();
  }

  absl::Status Add(float weight) {
    if (next_id_++ % shards_ != shard_) return absl::OkStatus();
    return Append(std::pow(weight, distortion_));
  }

  absl::Status Append(float weight) {
    if (size_ == range_) {
      return absl::InvalidArgumentError(
          absl::StrCat("range is ", range_, " must be equal to weights size, but there are more weights"));
    }
    weights_.flat<float>()[size_++] = weight;
    return absl::OkStatus();
  }

  // The weight of a line is what is behind its last comma; empty lines are none.
  absl::Status AddFile(const std::string& path) {
    WEIR_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, FilesOf(construction_)->OpenForReading(path));
    TextLines lines(std::move(file));
    std::string line;
    while (true) {
      WEIR_ASSIGN_OR_RETURN(const bool is_there, lines.Next(line));
      if (!is_there) return absl::OkStatus();
      if (line.empty()) continue;
      float weight = 0;
      if (!absl::SimpleAtof(absl::string_view(line).substr(line.rfind(',') + 1), &weight)) {
        return absl::InvalidArgumentError(
            absl::StrCat("Wrong vocabulary format at line: ", line, ", of ", path));
      }
      WEIR_RETURN_IF_ERROR(Add(weight));
    }
  }

  const KernelConstruction& construction_;
  const int64_t range_, shards_, shard_;
  const float distortion_;
  int64_t next_id_ = 0;
  Tensor weights_;  // [range], of which there are `size_` so far
  int64_t size_ = 0;
};

class FixedSampler final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_RETURN_IF_ERROR(CheckRange(Request(construction), construction.attr<int64_t>("range_max")));
    WEIR_ASSIGN_OR_RETURN(auto classes, UnigramReader(construction).Read());
    WEIR_RETURN_IF_ERROR(CheckRange(Request(construction), classes->count()));
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<FixedSampler>(construction, std::move(classes), std::move(stream));
  }

  FixedSampler(const KernelConstruction& construction, std::unique_ptr<WeightedClasses> classes,
               std::shared_ptr<RandomStream> stream)
      : request_(construction), classes_(std::move(classes)), stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& true_classes = context.input(0);
    WEIR_RETURN_IF_ERROR(request_.Check(true_classes));
    WEIR_RETURN_IF_ERROR(CheckTrueClasses(true_classes, classes_->range()));
    return SampleInto(context, request_, *classes_, Reserve(*stream_, request_.num_sampled));
  }

 private:
  const Request request_;
  const std::unique_ptr<WeightedClasses> classes_;
  const std::shared_ptr<RandomStream> stream_;
};

// What a learned sampler keeps between the steps of its session: counts, and its stream.
struct LearnedState final : public NodeState {
  LearnedState(absl::StatusOr<std::unique_ptr<LearnedClasses>> classes, int64_t seed, int64_t seed2)
      : stream(seed, seed2), classes(std::move(classes)) {}
  RandomStream stream;
  absl::Mutex mutex;
  absl::StatusOr<std::unique_ptr<LearnedClasses>> classes ABSL_GUARDED_BY(mutex);
};

class LearnedSampler final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto range = construction.attr<int64_t>("range_max");
    WEIR_RETURN_IF_ERROR(CheckRange(Request(construction), range));
    const auto create = [&construction, range] {
      return std::make_shared<LearnedState>(
          LearnedClasses::Create(range, construction.device().host_allocator()),
          construction.attr<int64_t>("seed"), construction.attr<int64_t>("seed2"));
    };
    std::shared_ptr<LearnedState> state;
    if (construction.session() == nullptr) {
      state = create();
    } else {
      WEIR_ASSIGN_OR_RETURN(
          state, construction.session()->FindOrCreate<LearnedState>(construction.device().name().ToString(),
                                                                    construction.node().name(), create));
    }
    return std::make_unique<LearnedSampler>(construction, std::move(state));
  }

  LearnedSampler(const KernelConstruction& construction, std::shared_ptr<LearnedState> state)
      : request_(construction), state_(std::move(state)) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& true_classes = context.input(0);
    WEIR_RETURN_IF_ERROR(request_.Check(true_classes));
    const absl::MutexLock lock(&state_->mutex);
    WEIR_RETURN_IF_ERROR(state_->classes.status());
    LearnedClasses& classes = **state_->classes;
    WEIR_RETURN_IF_ERROR(CheckTrueClasses(true_classes, classes.range()));
    WEIR_RETURN_IF_ERROR(
        SampleInto(context, request_, classes, Reserve(state_->stream, request_.num_sampled)));
    for (const int64_t value : true_classes.flat<int64_t>()) classes.Add(value);
    return absl::OkStatus();
  }

 private:
  const Request request_;
  const std::shared_ptr<LearnedState> state_;
};

// All classes, each once.
class AllClasses final : public Kernel {
 public:
  explicit AllClasses(const KernelConstruction& construction) : request_(construction) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& true_classes = context.input(0);
    WEIR_RETURN_IF_ERROR(request_.Check(true_classes));
    WEIR_RETURN_IF_ERROR(CheckTrueClasses(true_classes, request_.num_sampled));
    const Shape sampled_shape({request_.num_sampled});
    WEIR_ASSIGN_OR_RETURN(Tensor * sampled, context.AllocateOutput(0, sampled_shape));
    for (int64_t i = 0; i < request_.num_sampled; ++i) sampled->flat<int64_t>()[i] = i;
    for (const int output : {1, 2}) {
      WEIR_ASSIGN_OR_RETURN(Tensor * counts, context.AllocateOutput(
                                                 output, output == 1 ? true_classes.shape() : sampled_shape));
      const absl::Span<float> each = counts->flat<float>();
      std::fill(each.begin(), each.end(), 1.0f);
    }
    return absl::OkStatus();
  }

 private:
  const Request request_;
};

// Where a sampled class is a true one: the row of the true class, the place of the sampled one, and a weight
// that takes it out of a sum of exponentials.
class AccidentalHits final : public Kernel {
 public:
  explicit AccidentalHits(const KernelConstruction& construction)
      : num_true_(construction.attr<int64_t>("num_true")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& true_classes = context.input(0);
    const Tensor& sampled = context.input(1);
    if (true_classes.shape().rank() != 2 || true_classes.shape().dim(1) != num_true_) {
      return absl::InvalidArgumentError(
          absl::StrCat("true_candidates must be a batch_size * num_true matrix, num_true is ", num_true_,
                       ", true_candidates ", true_classes.shape().ToString()));
    }
    if (sampled.shape().rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("sampled_candidates must be a vector, is ", sampled.shape().ToString()));
    }
    absl::flat_hash_map<int64_t, int64_t> places;
    for (int64_t i = 0; i < sampled.num_elements(); ++i) places[sampled.flat<int64_t>()[i]] = i;
    std::vector<std::pair<int32_t, int64_t>> hits;
    for (int64_t i = 0; i < true_classes.num_elements(); ++i) {
      const auto found = places.find(true_classes.flat<int64_t>()[i]);
      if (found != places.end()) hits.emplace_back(static_cast<int32_t>(i / num_true_), found->second);
    }
    const Shape shape({static_cast<int64_t>(hits.size())});
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(Tensor * ids, context.AllocateOutput(1, shape));
    WEIR_ASSIGN_OR_RETURN(Tensor * weights, context.AllocateOutput(2, shape));
    for (size_t i = 0; i < hits.size(); ++i) {
      indices->flat<int32_t>()[i] = hits[i].first;
      ids->flat<int64_t>()[i] = hits[i].second;
      weights->flat<float>()[i] = -std::numeric_limits<float>::max();
    }
    return absl::OkStatus();
  }

 private:
  const int64_t num_true_;
};

}  // namespace

void RegisterCandidateSamplingKernels(DeviceKernels& kernels) {
  kernels.Add<Sampler<UniformClasses>>("UniformCandidateSampler");
  kernels.Add<Sampler<LogUniformClasses>>("LogUniformCandidateSampler");
  kernels.Add<FixedSampler>("FixedUnigramCandidateSampler");
  kernels.Add<LearnedSampler>("LearnedUnigramCandidateSampler");
  kernels.Add<LearnedSampler>("ThreadUnsafeUnigramCandidateSampler");
  kernels.Add<AllClasses>("AllCandidateSampler");
  kernels.Add<AccidentalHits>("ComputeAccidentalHits");
}

}  // namespace weir
