// Connectionist temporal classification: CTCLoss, with its gradient, and CTCGreedyDecoder.
//
// Graves, Fernandez, Gomez and Schmidhuber, "Connectionist Temporal Classification" (2006); the numbers of
// equations are those of its section 4. Everything is computed in logarithms and doubles. The last class is
// the blank one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/nn/ctc_sequences.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // the logarithm of 0
constexpr double kCost = 30;  // nanoseconds of one path's step on one core: exponentials and logarithms

double LogAdd(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

// ---- CTCLoss ----

using Labels = std::vector<int32_t>;

// The labels of each sequence, from the sparse matrix of inputs 1 and 2.
absl::StatusOr<std::vector<Labels>> ReadLabels(const Tensor& indices, const Tensor& values,
                                               int64_t batch_size) {
  if (indices.shape().rank() != 2 || indices.shape().dim(1) != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels_indices is not a matrix of 2 columns, is ", indices.shape().ToString()));
  }
  if (values.shape().rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels_values is not a vector, is ", values.shape().ToString()));
  }
  const int64_t count = values.num_elements();
  if (indices.shape().dim(0) != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "labels_indices and labels_values must contain the same number of rows, but saw shapes: ",
        indices.shape().ToString(), " vs. ", values.shape().ToString()));
  }
  const absl::Span<const int64_t> at = indices.flat<int64_t>();
  std::vector<Labels> labels(batch_size);
  for (int64_t i = 0; i < count; ++i) {
    const auto wrong = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("label SparseTensor is not valid: indices[", i, "] = [",
                                                     at[2 * i], ",", at[2 * i + 1], "] is ", why));
    };
    if (at[2 * i] < 0 || at[2 * i] >= batch_size || at[2 * i + 1] < 0)
      return wrong(absl::StrCat("out of bounds: there are ", batch_size, " sequences"));
    if (i > 0 && std::pair(at[2 * i - 2], at[2 * i - 1]) >= std::pair(at[2 * i], at[2 * i + 1])) {
      return wrong(at[2 * i - 2] == at[2 * i] && at[2 * i - 1] == at[2 * i + 1]
                       ? "repeated"
                       : "out of order. Many sparse ops require sorted indices.\n    Use `tf.sparse.reorder` "
                         "to create "
                         "a correctly ordered copy.\n\n");
    }
    labels[at[2 * i]].push_back(values.flat<int32_t>()[i]);
  }
  return labels;
}

struct LossOptions {
  bool collapse_repeated, merge_repeated, ignore_longer;
};

// The labels that count, each after a blank, and a blank: those after a label that is none are not allowed.
absl::StatusOr<Labels> WithBlanks(const Labels& labels, int64_t batch, int64_t num_classes,
                                  const LossOptions& options) {
  const auto blank = static_cast<int32_t>(num_classes - 1);
  Labels all = {blank};
  bool is_finished = false;
  for (size_t i = 0; i < labels.size(); ++i) {
    const int32_t label = labels[i];
    if (options.collapse_repeated && i > 0 && label == labels[i - 1]) continue;
    if (label < 0) {
      return absl::InvalidArgumentError(absl::StrCat("All labels must be nonnegative integers, batch: ",
                                                     batch, " labels: ", absl::StrJoin(labels, ",")));
    }
    if (label >= blank) {
      is_finished = true;
    } else if (is_finished) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Saw a non-null label (index >= num_classes - 1) following a null label, batch: ", batch,
          " num_classes: ", num_classes, " labels: ", absl::StrJoin(labels, ",")));
    } else {
      all.insert(all.end(), {label, blank});
    }
  }
  return all;
}

// One sequence: probabilities of all ways to say its labels. Room for it is [2, labels, times] and
// [times, classes] doubles.
class Paths {
 public:
  Paths(const Labels& labels, bool merge_repeated, int64_t times, int64_t classes, double* room)
      : labels_(labels),
        merges_(merge_repeated),
        times_(times),
        classes_(classes),
        count_(static_cast<int64_t>(labels.size())),
        before_(room),
        after_(room + count_ * times),
        log_y_(room + 2 * count_ * times) {}

  static int64_t Room(int64_t labels, int64_t times, int64_t classes) {
    return (2 * labels + classes) * times;
  }

  // x: the activations of time t from x + t * stride on.
  template <typename T>
  void ReadActivations(const T* x, int64_t stride) {
    for (int64_t t = 0; t < times_; ++t, x += stride) {
      double* const y = log_y_ + t * classes_;
      const double largest = static_cast<double>(*std::max_element(x, x + classes_));
      double sum = 0;
      for (int64_t c = 0; c < classes_; ++c) sum += std::exp(static_cast<double>(x[c]) - largest);
      for (int64_t c = 0; c < classes_; ++c) y[c] = static_cast<double>(x[c]) - largest - std::log(sum);
    }
  }

  // The logarithm of the probability of the labels: equations 5 to 8 forwards, 9 to 11 backwards.
  double Run(const Cancellation& cancellation) {
    std::fill(before_, before_ + 2 * count_ * times_, kNever);
    for (int64_t u = 0; u < std::min<int64_t>(2, count_); ++u) {
      Before(u, 0) = LogY(0, labels_[u]);
      After(count_ - 1 - u, times_ - 1) = 0;
    }
    for (int64_t t = 1; t < times_ && !cancellation.is_cancelled(); ++t)
      for (int64_t u = 0; u < count_; ++u) Before(u, t) = LogY(t, labels_[u]) + SumBefore(u, t - 1);
    for (int64_t t = times_ - 2; t >= 0 && !cancellation.is_cancelled(); --t)
      for (int64_t u = 0; u < count_; ++u) After(u, t) = SumAfter(u, t + 1);
    double sum = kNever;
    for (int64_t u = 0; u < count_; ++u) sum = LogAdd(sum, Before(u, 0) + After(u, 0));
    return sum;
  }

  // Of minus log_probability by the activations, equation 16. `sums` has room for the classes.
  template <typename T>
  void WriteGradient(double log_probability, double* sums, T* gradient, int64_t stride) const {
    for (int64_t t = 0; t < times_; ++t, gradient += stride) {
      std::fill_n(sums, classes_, kNever);
      for (int64_t u = 0; u < count_; ++u)
        sums[labels_[u]] = LogAdd(sums[labels_[u]], Before(u, t) + After(u, t));
      for (int64_t c = 0; c < classes_; ++c) {
        const double said = log_probability == kNever ? 0 : std::exp(sums[c] - log_probability);
        gradient[c] = static_cast<T>(std::exp(LogY(t, static_cast<int32_t>(c))) - said);
      }
    }
  }

 private:
  double& Before(int64_t u, int64_t t) const { return before_[t * count_ + u]; }
  double& After(int64_t u, int64_t t) const { return after_[t * count_ + u]; }
  double LogY(int64_t t, int32_t label) const { return log_y_[t * classes_ + label]; }
  bool IsBlank(int64_t u) const { return u % 2 == 0; }
  bool MayStay(int64_t u) const { return merges_ || IsBlank(u); }
  // From the label before to label u without the blank between them.
  bool MaySkip(int64_t u) const { return u > 1 && !IsBlank(u) && !(merges_ && labels_[u] == labels_[u - 2]); }

  double SumBefore(int64_t u, int64_t t) const {
    double sum = MayStay(u) ? Before(u, t) : kNever;
    if (u > 0) sum = LogAdd(sum, Before(u - 1, t));
    return MaySkip(u) ? LogAdd(sum, Before(u - 2, t)) : sum;
  }
  double SumAfter(int64_t u, int64_t t) const {
    const auto by_way_of = [&](int64_t next) { return After(next, t) + LogY(t, labels_[next]); };
    double sum = MayStay(u) ? by_way_of(u) : kNever;
    if (u + 1 < count_) sum = LogAdd(sum, by_way_of(u + 1));
    return u + 2 < count_ && MaySkip(u + 2) ? LogAdd(sum, by_way_of(u + 2)) : sum;
  }

  const Labels& labels_;  // with blanks
  const bool merges_;
  const int64_t times_, classes_, count_;
  double* const before_;  // forward variables, alpha
  double* const after_;   // backward variables, beta, without the activation of their own time
  double* const log_y_;
};

template <typename T>
class CtcLoss final : public Kernel {
 public:
  explicit CtcLoss(const KernelConstruction& construction)
      : options_{construction.attr<bool>("preprocess_collapse_repeated"),
                 construction.attr<bool>("ctc_merge_repeated"),
                 construction.attr<bool>("ignore_longer_outputs_than_inputs")} {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& inputs = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const Sequences sequences,
                          ReadSequences(inputs, context.input(3), absl::StatusCode::kInvalidArgument));
    WEIR_RETURN_IF_ERROR(CheckSizes(sequences));
    WEIR_ASSIGN_OR_RETURN(const std::vector<Labels> labels,
                          ReadLabels(context.input(1), context.input(2), sequences.batch_size));
    WEIR_ASSIGN_OR_RETURN(const std::vector<Labels> with_blanks, AllWithBlanks(sequences, labels));
    WEIR_ASSIGN_OR_RETURN(Tensor * loss, context.AllocateOutput(0, Shape({sequences.batch_size})));
    WEIR_ASSIGN_OR_RETURN(Tensor * gradient, context.AllocateOutput(1, inputs.shape()));
    std::fill_n(loss->flat<T>().data(), loss->num_elements(), T(0));
    std::fill_n(gradient->flat<T>().data(), gradient->num_elements(), T(0));
    return ComputeLosses(context, sequences, with_blanks, *loss, *gradient);
  }

 private:
  static absl::Status CheckSizes(const Sequences& sequences) {
    if (sequences.max_time == 0)
      return absl::InvalidArgumentError("Max time or first dimension of input cannot be 0.");
    if (sequences.batch_size == 0) return absl::InvalidArgumentError("batch_size must not be 0");
    if (sequences.num_classes == 0) return absl::InvalidArgumentError("num_classes must not be 0");
    if (sequences.num_classes > std::numeric_limits<int32_t>::max())
      return absl::InvalidArgumentError("num_classes must be an int32");
    for (int64_t b = 0; b < sequences.batch_size; ++b)
      if (sequences.lengths[b] < 0) return absl::InvalidArgumentError(absl::StrCat("seq_len(", b, ") < 0"));
    return absl::OkStatus();
  }

  // Empty for sequences that have neither loss nor gradient.
  absl::StatusOr<std::vector<Labels>> AllWithBlanks(const Sequences& sequences,
                                                    const std::vector<Labels>& labels) const {
    std::vector<Labels> all(labels.size());
    for (size_t b = 0; b < labels.size(); ++b) {
      const auto count = static_cast<int64_t>(labels[b].size());
      if (count == 0) return absl::InvalidArgumentError(absl::StrCat("Labels length is zero in batch ", b));
      WEIR_ASSIGN_OR_RETURN(Labels found,
                            WithBlanks(labels[b], static_cast<int64_t>(b), sequences.num_classes, options_));
      const int64_t available = sequences.lengths[b];
      if (count > available && !options_.ignore_longer) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Not enough time for target transition sequence (required: ", count, ", available: ", available,
            ")", b,
            "You can turn this error into a warning by using the flag ignore_longer_outputs_than_inputs"));
      }
      if (count <= available) all[b] = std::move(found);
    }
    return all;
  }

  absl::Status ComputeLosses(KernelContext& context, const Sequences& sequences,
                             const std::vector<Labels>& labels, Tensor& loss, Tensor& gradient) const {
    const int64_t classes = sequences.num_classes, stride = sequences.batch_size * classes;
    int64_t most = 1;
    for (const Labels& each : labels) most = std::max(most, static_cast<int64_t>(each.size()));
    const int64_t parts = std::min<int64_t>(sequences.batch_size, context.threads().num_threads());
    const int64_t room = Paths::Room(most, sequences.max_time, classes) + classes;
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({parts, room}));
    WEIR_ASSIGN_OR_RETURN(Tensor rooms, context.AllocateTemporary(DType::kFloat64, shape));
    const double cost = kCost * static_cast<double>(sequences.max_time) *
                        static_cast<double>(6 * most + 2 * classes) *
                        static_cast<double>(sequences.batch_size) / static_cast<double>(parts);
    context.threads().ParallelFor(parts, cost, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        double* const own = rooms.flat<double>().data() + part * room;
        for (int64_t b = part; b < sequences.batch_size && !context.cancellation().is_cancelled();
             b += parts) {
          if (labels[b].empty()) continue;
          Paths paths(labels[b], options_.merge_repeated, sequences.lengths[b], classes, own + classes);
          paths.ReadActivations(context.input(0).flat<T>().data() + b * classes, stride);
          const double log_probability = paths.Run(context.cancellation());
          loss.flat<T>()[b] = static_cast<T>(-log_probability);
          paths.WriteGradient(log_probability, own, gradient.flat<T>().data() + b * classes, stride);
        }
      }
    });
    if (context.cancellation().is_cancelled()) return absl::CancelledError("the step was cancelled");
    return absl::OkStatus();
  }

  const LossOptions options_;
};

// ---- CTCGreedyDecoder ----

template <typename T>
class CtcGreedyDecoder final : public Kernel {
 public:
  explicit CtcGreedyDecoder(const KernelConstruction& construction)
      : merges_(construction.attr<bool>("merge_repeated")),
        blank_(construction.attr<int64_t>("blank_index")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& inputs = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const Sequences sequences, ReadDecoded(inputs, context.input(1)));
    const int64_t classes = sequences.num_classes;
    if (blank_ < -classes || blank_ >= classes) {
      return absl::InvalidArgumentError(absl::StrCat("blank_index expected to be between ", -classes, " and ",
                                                     classes - 1, " but was ", blank_));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * probabilities,
                          context.AllocateOutput(3, Shape({sequences.batch_size, 1})));
    WEIR_ASSIGN_OR_RETURN(Tensor best, context.AllocateTemporary(
                                           DType::kInt64, Shape({sequences.batch_size, sequences.max_time})));
    std::vector<int64_t> counts(sequences.batch_size);
    const double cost = static_cast<double>(sequences.max_time * classes);
    context.threads().ParallelFor(sequences.batch_size, cost, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        counts[b] =
            Decode(sequences, inputs.flat<T>().data() + b * classes, sequences.lengths[b],
                   best.flat<int64_t>().data() + b * sequences.max_time, &probabilities->flat<T>()[b]);
      }
    });
    return WriteSparse(context, sequences, best.flat<int64_t>(), counts);
  }

 private:
  // Writes the classes that are said, and gives their number.
  int64_t Decode(const Sequences& sequences, const T* x, int64_t length, int64_t* said,
                 T* probability) const {
    const int64_t classes = sequences.num_classes, blank = blank_ < 0 ? blank_ + classes : blank_;
    int64_t count = 0, last = -1;
    *probability = 0;
    for (int64_t t = 0; t < length; ++t, x += sequences.batch_size * classes) {
      int64_t largest = 0;
      for (int64_t c = 1; c < classes; ++c)
        if (x[largest] < x[c]) largest = c;
      *probability -= x[largest];
      if (largest != blank && !(merges_ && largest == last)) said[count++] = largest;
      last = largest;
    }
    return count;
  }

  static absl::Status WriteSparse(KernelContext& context, const Sequences& sequences,
                                  absl::Span<const int64_t> best, const std::vector<int64_t>& counts) {
    int64_t total = 0, longest = 0;
    for (const int64_t count : counts) {
      total += count;
      longest = std::max(longest, count);
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, Shape({total, 2})));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({total})));
    WEIR_ASSIGN_OR_RETURN(Tensor * shape, context.AllocateOutput(2, Shape({2})));
    int64_t at = 0;
    for (int64_t b = 0; b < sequences.batch_size; ++b) {
      for (int64_t i = 0; i < counts[b]; ++i, ++at) {
        indices->flat<int64_t>()[2 * at] = b;
        indices->flat<int64_t>()[2 * at + 1] = i;
        values->flat<int64_t>()[at] = best[b * sequences.max_time + i];
      }
    }
    shape->flat<int64_t>()[0] = sequences.batch_size;
    shape->flat<int64_t>()[1] = longest;
    return absl::OkStatus();
  }

  const bool merges_;
  const int64_t blank_;
};

}  // namespace

void RegisterCtcKernels(DeviceKernels& kernels) {
  kernels.Add<CtcLoss>("CTCLoss", Types<float, double>("T"));
  kernels.Add<CtcGreedyDecoder>("CTCGreedyDecoder", Types<float, double>("T"));
}

}  // namespace weir
