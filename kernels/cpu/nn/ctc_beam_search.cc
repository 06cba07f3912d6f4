// CTCBeamSearchDecoder: the most probable label sequences, by prefixes of which the best are followed.
//
// Graves and Jaitly, "Towards End-to-End Speech Recognition with Recurrent Neural Networks" (2014), section
// 4. A prefix is said with a blank or with its last label at the end: the probabilities of both are kept, as
// logarithms, before the present time and after it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/nn/ctc_sequences.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

constexpr double kCost = 20;                       // nanoseconds of a prefix and a class on one core
constexpr size_t kMostPrefixes = size_t{1} << 20;  // of a sequence at a time: some hundred megabytes

template <typename T>
constexpr T kNever = -std::numeric_limits<T>::infinity();  // the logarithm of 0

template <typename T>
T LogAdd(T a, T b) {
  if (a < b) std::swap(a, b);
  return b == kNever<T> ? a : a + std::log1p(std::exp(b - a));
}

template <typename T>
struct Probability {
  T total = kNever<T>, blank = kNever<T>, label = kNever<T>;
};

template <typename T>
struct Prefix {
  // One of the best: those that are not are there for the sake of longer ones.
  bool is_followed() const { return now.total != kNever<T>; }

  Prefix* shorter = nullptr;
  int64_t label = -1;
  absl::flat_hash_map<int64_t, Prefix*> longer;  // by the label that is added
  Probability<T> before, now;
};

// The search in one sequence.
template <typename T>
class Beam {
 public:
  explicit Beam(int64_t width) : width_(static_cast<size_t>(width)) {
    prefixes_.emplace_back().now = {.total = 0, .blank = 0};
    best_.insert(&prefixes_.front());
  }

  // x: the activations of the next time; the last class is the blank one.
  absl::Status Step(const T* x, int64_t classes, const Cancellation& cancellation) {
    const T scale = LogOfSum(x, classes);
    const std::vector<Prefix<T>*> branches(best_.begin(), best_.end());
    best_.clear();
    for (Prefix<T>* b : branches) b->before = b->now;
    for (Prefix<T>* b : branches) {
      Prolong(*b, x, classes - 1, scale);
      best_.insert(b);
    }
    std::vector<Prefix<T>*> dropped;
    for (Prefix<T>* b : branches) {
      if (cancellation.is_cancelled()) return cancellation.reason();
      if (!IsCandidate(b->before)) continue;
      for (int64_t label = 0; label + 1 < classes; ++label) {
        const T previous = label == b->label ? b->before.blank : b->before.total;
        Add(*b, label, x[label] - scale + previous, dropped);
        if (prefixes_.size() - unused_.size() <= kMostPrefixes) continue;
        return absl::ResourceExhaustedError(absl::StrCat(
            "beam_width ", width_, " needs more than ", kMostPrefixes, " prefixes at a time for a sequence"));
      }
    }
    for (Prefix<T>* each : dropped) Forget(each);
    return absl::OkStatus();
  }

  // The best prefixes, from the most probable one on.
  std::vector<Prefix<T>*> best() const { return {best_.begin(), best_.end()}; }

  static std::vector<int64_t> LabelsOf(const Prefix<T>* prefix, bool merges_repeated) {
    std::vector<int64_t> labels;
    int64_t last = -1;
    for (; prefix->shorter != nullptr; prefix = prefix->shorter) {
      if (!merges_repeated || prefix->label != last) labels.push_back(prefix->label);
      last = prefix->label;
    }
    std::reverse(labels.begin(), labels.end());
    return labels;
  }

 private:
  // One that is not a number is behind all others.
  struct IsBetter {
    bool operator()(const Prefix<T>* a, const Prefix<T>* b) const {
      return std::isnan(b->now.total) ? !std::isnan(a->now.total) : a->now.total > b->now.total;
    }
  };

  static T LogOfSum(const T* x, int64_t classes) {
    const T largest = *std::max_element(x, x + classes);
    T sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[c] - largest);
    return largest + std::log(sum);
  }

  // The prefix stays as it is: a blank is said, or its last label again, or only now.
  static void Prolong(Prefix<T>& b, const T* x, int64_t blank, T scale) {
    if (b.shorter != nullptr) {
      if (b.shorter->is_followed()) {
        b.now.label = LogAdd(b.now.label,
                             b.label == b.shorter->label ? b.shorter->before.blank : b.shorter->before.total);
      }
      b.now.label += x[b.label] - scale;
    }
    b.now.blank = b.before.total + x[blank] - scale;
    b.now.total = LogAdd(b.now.blank, b.now.label);
  }

  bool IsCandidate(const Probability<T>& probability) const {
    return probability.total > kNever<T> &&
           (best_.size() < width_ || probability.total > (*best_.rbegin())->now.total);
  }

  // The prefix with a label more, unless it is followed already.
  void Add(Prefix<T>& shorter, int64_t label, T probability, std::vector<Prefix<T>*>& dropped) {
    const auto found = shorter.longer.find(label);
    Prefix<T>* longer = found == shorter.longer.end() ? nullptr : found->second;
    if (longer != nullptr && longer->is_followed()) return;
    const Probability<T> now = {.total = probability, .label = probability};
    if (!IsCandidate(now)) {
      if (longer != nullptr) longer->before = longer->now = {};
      return;
    }
    if (longer == nullptr) longer = Make(shorter, label);
    longer->now = now;
    if (best_.size() == width_) {
      const auto last = std::prev(best_.end());
      dropped.push_back(*last);
      best_.erase(last);
      dropped.back()->now = {};
    }
    best_.insert(longer);
  }

  Prefix<T>* Make(Prefix<T>& shorter, int64_t label) {
    Prefix<T>* made = nullptr;
    if (unused_.empty()) {
      made = &prefixes_.emplace_back();
    } else {
      made = unused_.back();
      unused_.pop_back();
      *made = Prefix<T>();
    }
    made->shorter = &shorter;
    made->label = label;
    shorter.longer[label] = made;
    return made;
  }

  // Those that nobody follows, up to one that is needed.
  void Forget(Prefix<T>* prefix) {
    while (prefix->shorter != nullptr && !prefix->is_followed() && prefix->longer.empty()) {
      Prefix<T>* const shorter = prefix->shorter;
      shorter->longer.erase(prefix->label);
      prefix->shorter = nullptr;  // it may have been dropped twice
      unused_.push_back(prefix);
      prefix = shorter;
    }
  }

  const size_t width_;
  std::deque<Prefix<T>> prefixes_;  // the first one is that without labels
  std::vector<Prefix<T>*> unused_;
  std::multiset<Prefix<T>*, IsBetter> best_;  // at most width_, the most probable one first
};

template <typename T>
class CtcBeamSearchDecoder final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    const auto width = construction.attr<int64_t>("beam_width"),
               paths = construction.attr<int64_t>("top_paths");
    if (paths > width) {
      return absl::InvalidArgumentError(absl::StrCat(
          "requested more paths than the beam width. top_paths is ", paths, ", beam_width ", width));
    }
    return std::make_unique<CtcBeamSearchDecoder>(width, paths, construction.attr<bool>("merge_repeated"));
  }

  CtcBeamSearchDecoder(int64_t width, int64_t paths, bool merges_repeated)
      : width_(width), paths_(paths), merges_(merges_repeated) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& inputs = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const Sequences sequences, ReadDecoded(inputs, context.input(1)));
    WEIR_ASSIGN_OR_RETURN(
        Tensor * probabilities,
        context.AllocateOutput(static_cast<int>(3 * paths_), Shape({sequences.batch_size, paths_})));
    // Of path p of sequence b: number b * paths + p.
    std::vector<std::vector<int64_t>> labels(sequences.batch_size * paths_);
    absl::Mutex mutex;
    absl::Status failure;
    const double cost = kCost * static_cast<double>(sequences.max_time) *
                        static_cast<double>(sequences.num_classes) *
                        static_cast<double>(std::min<int64_t>(width_, 1000));
    context.threads().ParallelFor(sequences.batch_size, cost, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        absl::Status status =
            Decode(sequences, inputs.flat<T>().data() + b * sequences.num_classes, sequences.lengths[b],
                   context.cancellation(), &labels[b * paths_], &probabilities->flat<T>()[b * paths_]);
        if (status.ok()) continue;
        const absl::MutexLock lock(&mutex);
        failure.Update(std::move(status));
        return;
      }
    });
    WEIR_RETURN_IF_ERROR(failure);
    for (int64_t p = 0; p < paths_; ++p)
      WEIR_RETURN_IF_ERROR(WritePath(context, sequences.batch_size, p, labels));
    return absl::OkStatus();
  }

 private:
  absl::Status Decode(const Sequences& sequences, const T* x, int64_t length,
                      const Cancellation& cancellation, std::vector<int64_t>* labels,
                      T* probabilities) const {
    Beam<T> beam(width_);
    for (int64_t t = 0; t < length; ++t, x += sequences.batch_size * sequences.num_classes)
      WEIR_RETURN_IF_ERROR(beam.Step(x, sequences.num_classes, cancellation));
    const std::vector<Prefix<T>*> best = beam.best();
    if (static_cast<int64_t>(best.size()) < paths_) {
      return absl::InvalidArgumentError(
          absl::StrCat("Less leaves in the beam search than requested. top_paths is ", paths_, ", found are ",
                       best.size()));
    }
    for (int64_t p = 0; p < paths_; ++p) {
      labels[p] = Beam<T>::LabelsOf(best[p], merges_);
      probabilities[p] = best[p]->now.total;
    }
    return absl::OkStatus();
  }

  // A sparse matrix [batch, longest].
  absl::Status WritePath(KernelContext& context, int64_t batch, int64_t path,
                         const std::vector<std::vector<int64_t>>& labels) const {
    int64_t total = 0, longest = 0;
    for (int64_t b = 0; b < batch; ++b) {
      const auto count = static_cast<int64_t>(labels[b * paths_ + path].size());
      total += count;
      longest = std::max(longest, count);
    }
    const auto output = [&](int64_t list) { return static_cast<int>(list * paths_ + path); };
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(output(0), Shape({total, 2})));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(output(1), Shape({total})));
    WEIR_ASSIGN_OR_RETURN(Tensor * shape, context.AllocateOutput(output(2), Shape({2})));
    int64_t at = 0;
    for (int64_t b = 0; b < batch; ++b) {
      int64_t place = 0;
      for (const int64_t label : labels[b * paths_ + path]) {
        indices->flat<int64_t>()[2 * at] = b;
        indices->flat<int64_t>()[2 * at + 1] = place++;
        values->flat<int64_t>()[at++] = label;
      }
    }
    shape->flat<int64_t>()[0] = batch;
    shape->flat<int64_t>()[1] = longest;
    return absl::OkStatus();
  }

  const int64_t width_, paths_;
  const bool merges_;
};

}  // namespace

void RegisterCtcBeamSearchKernels(DeviceKernels& kernels) {
  kernels.Add<CtcBeamSearchDecoder>("CTCBeamSearchDecoder", Types<float, double>("T"));
}

}  // namespace weir
