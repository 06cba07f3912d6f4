// Multinomial, StatelessMultinomial: TensorFlow's choices for the same seeds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/random/distributions.h"
#include "kernels/cpu/random/random_stream.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// What Multinomial draws from: rows of logits.
struct MultinomialSizes {
  int64_t batch_size, num_classes, num_samples;
  // A sample takes a double of two words, and TensorFlow rounds the samples of a row up to whole blocks.
  int64_t num_reserved() const { return batch_size * 2 * ((num_samples + 3) / 4 * 4); }
};

absl::StatusOr<MultinomialSizes> ReadSizes(const Tensor& logits, const Tensor& num_samples) {
  if (logits.shape().rank() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("logits must be a matrix, is ", logits.shape().ToString()));
  }
  if (!num_samples.shape().is_scalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_samples must be a scalar, is ", num_samples.shape().ToString()));
  }
  const MultinomialSizes sizes = {logits.shape().dim(0), logits.shape().dim(1), IntegerAt(num_samples, 0)};
  if (sizes.num_samples < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_samples must not be negative, is ", sizes.num_samples));
  }
  if (sizes.num_classes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("logits must have a class, is ", logits.shape().ToString()));
  }
  return sizes;
}

// Sums of probabilities up to each class, up to a factor. Classes whose logit is not finite have none.
template <typename T>
void SumProbabilities(absl::Span<const T> logits, absl::Span<double> sums) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const T logit : logits) {
    const double value = static_cast<double>(logit);
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double value = static_cast<double>(logits[i]);
    if (std::isfinite(value)) sum += std::exp(value - largest);
    sums[i] = sum;
  }
}

constexpr int64_t kSamplesBetweenQuestions = 1 << 16;

// The samples of a row are drawn one after the other, those of the next row behind them. Where no class has a
// finite logit the answer is num_classes, as in TensorFlow.
template <typename T>
absl::Status DrawClasses(KernelContext& context, const MultinomialSizes& sizes, const Philox& start) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({sizes.batch_size, sizes.num_samples}));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
  if (shape.num_elements() == 0) return absl::OkStatus();
  const absl::Span<const T> logits = context.input(0).flat<T>();
  WEIR_ASSIGN_OR_RETURN(Tensor sums, context.AllocateTemporary(DType::kFloat64, context.input(0).shape()));
  const int64_t n = sizes.num_classes;
  const double cost = 10.0 * static_cast<double>(n) +
                      static_cast<double>(sizes.num_samples) * (20 + 5 * std::log2(static_cast<double>(n)));
  context.threads().ParallelFor(sizes.batch_size, cost, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const absl::Span<double> row_sums = sums.flat<double>().subspan(row * n, n);
      SumProbabilities<T>(logits.subspan(row * n, n), row_sums);
      Philox bits = start;
      Words words(bits);
      words.Skip(static_cast<uint64_t>(row) * 2 * static_cast<uint64_t>(sizes.num_samples));
      for (int64_t i = row * sizes.num_samples; i < (row + 1) * sizes.num_samples; ++i) {
        // A row may be all there is.
        if (i % kSamplesBetweenQuestions == 0 && context.cancellation().is_cancelled()) return;
        const uint32_t high = words.Next(), low = words.Next();
        const double place = UniformDouble(high, low) * row_sums.back();
        const int64_t found = std::upper_bound(row_sums.begin(), row_sums.end(), place) - row_sums.begin();
        if (output->dtype() == DType::kInt64) {
          output->flat<int64_t>()[i] = found;
        } else {
          output->flat<int32_t>()[i] = static_cast<int32_t>(found);
        }
      }
    }
  });
  return context.cancellation().reason();
}

// Classes are written into int32 tensors too.
absl::Status CheckClassesFit(KernelContext& context, const MultinomialSizes& sizes) {
  if (context.output_type(0) == DType::kInt64) return absl::OkStatus();
  if (sizes.num_classes <= std::numeric_limits<int32_t>::max()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("logits has ", sizes.num_classes, " classes, too many for int32"));
}

template <typename T>
class Multinomial final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(auto stream, RandomStream::Of(construction));
    return std::make_unique<Multinomial>(std::move(stream));
  }

  explicit Multinomial(std::shared_ptr<RandomStream> stream) : stream_(std::move(stream)) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const MultinomialSizes sizes, ReadSizes(context.input(0), context.input(1)));
    WEIR_RETURN_IF_ERROR(CheckClassesFit(context, sizes));
    return DrawClasses<T>(context, sizes, stream_->Reserve(sizes.num_reserved()));
  }

 private:
  const std::shared_ptr<RandomStream> stream_;
};

template <typename T>
class StatelessMultinomial final : public Kernel {
 public:
  explicit StatelessMultinomial(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const MultinomialSizes sizes, ReadSizes(context.input(0), context.input(1)));
    WEIR_RETURN_IF_ERROR(CheckClassesFit(context, sizes));
    WEIR_ASSIGN_OR_RETURN(const Philox stream, StreamOfSeed(context.input(2)));
    return DrawClasses<T>(context, sizes, stream);
  }
};

}  // namespace

void RegisterChoicesKernels(DeviceKernels& kernels) {
  const auto floats = Types<float, double, Half, Bfloat16>("T");
  kernels.Add<Multinomial>("Multinomial", floats);
  kernels.Add<StatelessMultinomial>("StatelessMultinomial", floats);
}

}  // namespace weir
