// NonMaxSuppression, its versions up to V5, and NonMaxSuppressionWithOverlaps.
//
// Boxes are taken by falling score. A box that overlaps a chosen one by more than a threshold is left out;
// or, with a sigma above 0, its score is multiplied by exp(-overlap^2 / 2 sigma) for each chosen box, and it
// has another turn: N. Bodla and others, "Soft-NMS: improving object detection with one line of code", 2017.
#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/image/box_overlap.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// Half numbers are kept as what they are between steps, as sums of halves in TensorFlow are.
template <typename T>
T Product(T a, T b) {
  return static_cast<T>(static_cast<float>(a) * static_cast<float>(b));
}

template <typename T>
struct Choice {
  int64_t most = 0;  // boxes
  T overlap_threshold = T(0), score_threshold = T(0), sigma = T(0);
};

template <typename T>
struct Candidate {
  int64_t box;
  T score;
  size_t num_compared;  // with chosen boxes

  // Of equal scores the first box comes first.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.score == b.score ? a.box > b.box : a.score < b.score;
  }
};

template <typename T>
struct Chosen {
  std::vector<int64_t> boxes;
  std::vector<T> scores;
};

template <typename T>
class Suppression {
 public:
  Suppression(const Cancellation& cancellation, const Choice<T>& choice,
              absl::FunctionRef<float(int64_t, int64_t)> overlap)
      : cancellation_(cancellation),
        choice_(choice),
        overlap_(overlap),
        is_soft_(choice.sigma > T(0)),
        scale_(is_soft_ ? static_cast<T>(-0.5f / static_cast<float>(choice.sigma)) : T(0)) {}

  absl::StatusOr<Chosen<T>> Choose(absl::Span<const T> scores) {
    std::vector<Candidate<T>> all;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] > choice_.score_threshold) all.push_back({static_cast<int64_t>(i), scores[i], 0});
    }
    std::priority_queue<Candidate<T>> candidates(std::less<Candidate<T>>(), std::move(all));
    while (static_cast<int64_t>(chosen_.boxes.size()) < choice_.most && !candidates.empty()) {
      if (cancellation_.is_cancelled()) return cancellation_.reason();
      Candidate<T> next = candidates.top();
      candidates.pop();
      const T score = next.score;
      if (!Survives(next)) continue;
      if (next.score == score) {
        chosen_.boxes.push_back(next.box);
        chosen_.scores.push_back(score);
      } else if (next.score > choice_.score_threshold) {
        candidates.push(next);
      }
    }
    return std::move(chosen_);
  }

 private:
  // Compares with the boxes chosen since the last time, latest first, and lowers the score.
  bool Survives(Candidate<T>& next) const {
    for (size_t i = chosen_.boxes.size(); i > next.num_compared; --i) {
      const T overlap = static_cast<T>(overlap_(next.box, chosen_.boxes[i - 1]));
      if (is_soft_) {
        next.score = Product(next.score, Weight(overlap));
        if (next.score <= choice_.score_threshold) break;
      } else if (overlap > choice_.overlap_threshold) {
        return false;
      }
    }
    next.num_compared = chosen_.boxes.size();
    return true;
  }

  T Weight(T overlap) const {
    return static_cast<T>(std::exp(static_cast<float>(Product(Product(scale_, overlap), overlap))));
  }

  const Cancellation& cancellation_;
  const Choice<T> choice_;
  const absl::FunctionRef<float(int64_t, int64_t)> overlap_;
  const bool is_soft_;
  const T scale_;
  Chosen<T> chosen_;
};

absl::Status CheckScalar(const Tensor& tensor, absl::string_view name) {
  if (tensor.shape().is_scalar()) return absl::OkStatus();
  return InvalidArgumentError(StrCat(name, " must be 0-D, got shape ", tensor.shape().ToString(),
                                     " (Shape must be rank 0 but is rank ", tensor.shape().rank(), ")"));
}

template <typename T>
absl::StatusOr<T> ReadNumber(const Tensor& tensor, absl::string_view name) {
  WEIR_RETURN_IF_ERROR(CheckScalar(tensor, name));
  if (tensor.dtype() == DType::kHalf) return static_cast<T>(static_cast<float>(tensor.scalar<Half>()));
  return static_cast<T>(tensor.scalar<float>());
}

absl::StatusOr<int64_t> ReadMost(const Tensor& tensor) {
  WEIR_RETURN_IF_ERROR(CheckScalar(tensor, "max_output_size"));
  const int64_t most = tensor.scalar<int32_t>();
  if (most < 0) return InvalidArgumentError(StrCat("output size must be non-negative, is ", most));
  return most;
}

absl::Status CheckScores(const Shape& scores, int64_t num_boxes) {
  if (scores.rank() != 1) {
    return InvalidArgumentError(StrCat("scores must be 1-D", scores.ToString(),
                                       " (Shape must be rank 1 but is rank ", scores.rank(), ")"));
  }
  if (scores.dim(0) == num_boxes) return absl::OkStatus();
  return InvalidArgumentError(StrCat("scores has incompatible shape (Dimensions must be equal, but are ",
                                     num_boxes, " and ", scores.dim(0), ")"));
}

absl::Status CheckBoxes(const Shape& boxes) {
  if (boxes.rank() != 2) {
    return InvalidArgumentError(StrCat("boxes must be 2-D", boxes.ToString(),
                                       " (Shape must be rank 2 but is rank ", boxes.rank(), ")"));
  }
  if (boxes.dim(1) == 4) return absl::OkStatus();
  return InvalidArgumentError(
      StrCat("boxes must have 4 columns (Dimension must be 4 but is ", boxes.dim(1), ")"));
}

absl::Status SetIndices(KernelContext& context, const std::vector<int64_t>& boxes, int64_t size) {
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({size})));
  const absl::Span<int32_t> to = output->flat<int32_t>();
  std::fill(to.begin(), to.end(), 0);
  std::transform(boxes.begin(), boxes.end(), to.begin(),
                 [](int64_t box) { return static_cast<int32_t>(box); });
  return absl::OkStatus();
}

// Any version: inputs boxes, scores, max_output_size, and what the version has of iou_threshold,
// score_threshold and soft_nms_sigma.
template <typename T>
class NonMaxSuppression final : public Kernel {
 public:
  explicit NonMaxSuppression(const KernelConstruction& construction) {
    const Node& node = construction.node();
    if (const AttrValue* threshold = node.FindAttr("iou_threshold")) threshold_ = threshold->get<float>();
    if (const AttrValue* pads = node.FindAttr("pad_to_max_output_size")) pads_ = pads->get<bool>();
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Choice<T> choice, ReadChoice(context));
    const Tensor &boxes = context.input(0), &scores = context.input(1);
    WEIR_RETURN_IF_ERROR(CheckBoxes(boxes.shape()));
    WEIR_RETURN_IF_ERROR(CheckScores(scores.shape(), boxes.shape().dim(0)));
    const T* const corners = boxes.flat<T>().data();
    const auto overlap = [corners](int64_t i, int64_t j) {
      return Overlap(Box::Of(corners + 4 * i), Box::Of(corners + 4 * j));
    };
    WEIR_ASSIGN_OR_RETURN(const Chosen<T> chosen,
                          Suppression<T>(context.cancellation(), choice, overlap).Choose(scores.flat<T>()));
    const auto count = static_cast<int64_t>(chosen.boxes.size());
    const int64_t size = pads_ ? choice.most : count;
    WEIR_RETURN_IF_ERROR(SetIndices(context, chosen.boxes, size));
    if (context.num_outputs() == 3) {
      WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(1, Shape({size})));
      const absl::Span<T> to = output->flat<T>();
      std::fill(to.begin(), to.end(), T(0));
      std::copy(chosen.scores.begin(), chosen.scores.end(), to.begin());
    }
    if (context.num_outputs() > 1) {
      WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(context.num_outputs() - 1, Shape()));
      output->flat<int32_t>()[0] = static_cast<int32_t>(count);
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Choice<T>> ReadChoice(const KernelContext& context) const {
    Choice<T> choice;
    WEIR_ASSIGN_OR_RETURN(choice.most, ReadMost(context.input(2)));
    choice.overlap_threshold = static_cast<T>(threshold_);
    if (context.num_inputs() > 3) {
      WEIR_ASSIGN_OR_RETURN(choice.overlap_threshold, ReadNumber<T>(context.input(3), "iou_threshold"));
    }
    if (!(choice.overlap_threshold >= T(0) && choice.overlap_threshold <= T(1))) {
      return InvalidArgumentError(
          StrCat("iou_threshold must be in [0, 1], is ", static_cast<float>(choice.overlap_threshold)));
    }
    choice.score_threshold = std::is_same_v<T, Half> ? static_cast<T>(-65504.0f)
                                                     : static_cast<T>(std::numeric_limits<float>::lowest());
    if (context.num_inputs() > 4) {
      WEIR_ASSIGN_OR_RETURN(choice.score_threshold, ReadNumber<T>(context.input(4), "score_threshold"));
    }
    if (context.num_inputs() > 5) {
      WEIR_ASSIGN_OR_RETURN(choice.sigma, ReadNumber<T>(context.input(5), "soft_nms_sigma"));
      if (!(choice.sigma >= T(0))) {
        return InvalidArgumentError(
            StrCat("soft_nms_sigma_val must be >= 0.0, is ", static_cast<float>(choice.sigma)));
      }
    }
    return choice;
  }

  float threshold_ = 0;
  bool pads_ = false;
};

// Inputs: overlaps [n, n], scores [n], max_output_size, overlap_threshold, score_threshold.
absl::Status SuppressByOverlaps(KernelContext& context) {
  const Tensor &overlaps = context.input(0), &scores = context.input(1);
  if (overlaps.shape().rank() != 2) {
    return InvalidArgumentError(StrCat("overlaps must be 2-D", overlaps.shape().ToString()));
  }
  const int64_t num_boxes = overlaps.shape().dim(0);
  if (overlaps.shape().dim(1) != num_boxes) {
    return InvalidArgumentError(StrCat("overlaps must be square", overlaps.shape().ToString()));
  }
  WEIR_RETURN_IF_ERROR(CheckScores(scores.shape(), num_boxes));
  Choice<float> choice;
  WEIR_ASSIGN_OR_RETURN(choice.most, ReadMost(context.input(2)));
  WEIR_ASSIGN_OR_RETURN(choice.overlap_threshold, ReadNumber<float>(context.input(3), "overlap_threshold"));
  WEIR_ASSIGN_OR_RETURN(choice.score_threshold, ReadNumber<float>(context.input(4), "score_threshold"));
  const float* const table = overlaps.flat<float>().data();
  const auto overlap = [&](int64_t i, int64_t j) { return table[i * num_boxes + j]; };
  WEIR_ASSIGN_OR_RETURN(
      const Chosen<float> chosen,
      Suppression<float>(context.cancellation(), choice, overlap).Choose(scores.flat<float>()));
  return SetIndices(context, chosen.boxes, static_cast<int64_t>(chosen.boxes.size()));
}

}  // namespace

void RegisterNonMaxSuppressionKernels(DeviceKernels& kernels) {
  kernels.Add<NonMaxSuppression<float>>("NonMaxSuppression");
  for (const char* op : {"NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4"}) {
    kernels.Add<NonMaxSuppression>(op, Types<float, Half>("T"));
  }
  kernels.Add<NonMaxSuppression>("NonMaxSuppressionV5", Types<float, Half>("T"));
  kernels.Add<&SuppressByOverlaps>("NonMaxSuppressionWithOverlaps");
}

}  // namespace weir
