// CombinedNonMaxSuppression: boxes of each class by falling score, without those that overlap a chosen one of
// the class; then the best of all classes of an image.
#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/cpu/image/box_overlap.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

struct Detection {
  float score;
  int64_t box, object_class;
};

template <typename T>
absl::StatusOr<T> ReadScalar(const Tensor& tensor, absl::string_view name) {
  if (tensor.shape().is_scalar()) return tensor.scalar<T>();
  return InvalidArgumentError(StrCat(name, " must be 0-D, got shape ", tensor.shape().ToString()));
}

// Inputs: boxes [batch, n, 1 or classes, 4], scores [batch, n, classes], and four numbers.
struct Question {
  int64_t batch, num_boxes, num_classes, boxes_per_box;
  int64_t most_per_class, most;
  float overlap_threshold, score_threshold;

  static absl::StatusOr<Question> Read(const KernelContext& context) {
    const Shape &boxes = context.input(0).shape(), &scores = context.input(1).shape();
    if (boxes.rank() != 4) return InvalidArgumentError(StrCat("boxes must be 4-D", boxes.ToString()));
    if (scores.rank() != 3) return InvalidArgumentError(StrCat("scores must be 3-D", scores.ToString()));
    if (boxes.dim(0) != scores.dim(0) || boxes.dim(1) != scores.dim(1)) {
      return InvalidArgumentError(
          StrCat("boxes and scores must have the same batch size and number of boxes: ", boxes.ToString(),
                 " and ", scores.ToString()));
    }
    if (boxes.dim(3) != 4)
      return InvalidArgumentError(StrCat("boxes must have 4 columns, are ", boxes.ToString()));
    if (boxes.dim(2) != 1 && boxes.dim(2) != scores.dim(2)) {
      return InvalidArgumentError(StrCat("third dimension of boxes must be either 1 or num classes: ",
                                         boxes.ToString(), " and ", scores.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const int64_t per_class,
                          ReadScalar<int32_t>(context.input(2), "max_size_per_class"));
    if (per_class <= 0) {
      return InvalidArgumentError(StrCat("max_size_per_class must be positive, is ", per_class));
    }
    WEIR_ASSIGN_OR_RETURN(const int64_t total, ReadScalar<int32_t>(context.input(3), "max_total_size"));
    if (total <= 0) return InvalidArgumentError(StrCat("max_total_size must be > 0, is ", total));
    WEIR_ASSIGN_OR_RETURN(const float overlap, ReadScalar<float>(context.input(4), "iou_threshold"));
    if (!(overlap >= 0 && overlap <= 1)) {
      return InvalidArgumentError(StrCat("iou_threshold must be in [0, 1], is ", overlap));
    }
    WEIR_ASSIGN_OR_RETURN(const float score, ReadScalar<float>(context.input(5), "score_threshold"));
    return Question{boxes.dim(0), boxes.dim(1), scores.dim(2), boxes.dim(2),
                    per_class,    total,        overlap,       score};
  }

  int64_t BoxElements() const { return num_boxes * boxes_per_box * 4; }
  const float* CornersOf(const float* boxes, int64_t box, int64_t object_class) const {
    return boxes + (box * boxes_per_box + (boxes_per_box > 1 ? object_class : 0)) * 4;
  }
};

// Appends the boxes of one class of an image; not all of them when the step is cancelled.
void ChooseOfClass(const Cancellation& cancellation, const Question& q, const float* boxes,
                   const float* scores, int64_t object_class, std::vector<Detection>& chosen) {
  std::vector<Detection> candidates;
  for (int64_t i = 0; i < q.num_boxes; ++i) {
    const float score = scores[i * q.num_classes + object_class];
    if (score > q.score_threshold) candidates.push_back({score, i, object_class});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  const size_t first = chosen.size();
  for (const Detection& next : candidates) {
    if (static_cast<int64_t>(chosen.size() - first) >= q.most_per_class) return;
    if (cancellation.is_cancelled()) return;
    const Box box = Box::Of(q.CornersOf(boxes, next.box, object_class));
    const bool overlaps =
        std::any_of(chosen.begin() + static_cast<int64_t>(first), chosen.end(), [&](const Detection& other) {
          const float* corners = q.CornersOf(boxes, other.box, object_class);
          return Overlap(box, Box::Of(corners)) > q.overlap_threshold;
        });
    if (!overlaps) chosen.push_back(next);
  }
}

class CombinedNonMaxSuppression final : public Kernel {
 public:
  explicit CombinedNonMaxSuppression(const KernelConstruction& construction)
      : pads_per_class_(construction.attr<bool>("pad_per_class")),
        clips_(construction.attr<bool>("clip_boxes")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Question q, Question::Read(context));
    // Scores without elements may have any number of classes.
    int64_t of_classes = 0;
    const bool is_countable = MultiplyWithoutOverflow(q.most_per_class, q.num_classes, &of_classes);
    const int64_t size = pads_per_class_ && is_countable ? std::min(q.most, of_classes) : q.most;
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({q.batch, size, 4}));
    WEIR_ASSIGN_OR_RETURN(Tensor * boxes, context.AllocateOutput(0, shape));
    WEIR_ASSIGN_OR_RETURN(Tensor * scores, context.AllocateOutput(1, Shape({q.batch, size})));
    WEIR_ASSIGN_OR_RETURN(Tensor * classes, context.AllocateOutput(2, Shape({q.batch, size})));
    WEIR_ASSIGN_OR_RETURN(Tensor * counts, context.AllocateOutput(3, Shape({q.batch})));
    for (Tensor* output : {boxes, scores, classes}) {
      std::fill(output->flat<float>().begin(), output->flat<float>().end(), 0.0f);
    }
    if (context.input(1).num_elements() == 0) {
      std::fill(counts->flat<int32_t>().begin(), counts->flat<int32_t>().end(), 0);
      return absl::OkStatus();
    }
    const float* const all_boxes = context.input(0).flat<float>().data();
    const float* const all_scores = context.input(1).flat<float>().data();
    for (int64_t i = 0; i < q.batch; ++i) {
      const float* const corners = all_boxes + i * q.BoxElements();
      std::vector<Detection> chosen;
      for (int64_t c = 0; c < q.num_classes; ++c) {
        ChooseOfClass(context.cancellation(), q, corners, all_scores + i * q.num_boxes * q.num_classes, c,
                      chosen);
        WEIR_RETURN_IF_ERROR(context.cancellation().reason());
      }
      std::stable_sort(chosen.begin(), chosen.end(),
                       [](const Detection& a, const Detection& b) { return a.score > b.score; });
      chosen.resize(static_cast<size_t>(std::min(size, static_cast<int64_t>(chosen.size()))));
      for (size_t k = 0; k < chosen.size(); ++k) {
        const int64_t at = i * size + static_cast<int64_t>(k);
        const float* const box = q.CornersOf(corners, chosen[k].box, chosen[k].object_class);
        for (int64_t j = 0; j < 4; ++j) {
          boxes->flat<float>()[at * 4 + j] = clips_ ? std::max(std::min(box[j], 1.0f), 0.0f) : box[j];
        }
        scores->flat<float>()[at] = chosen[k].score;
        classes->flat<float>()[at] = static_cast<float>(chosen[k].object_class);
      }
      counts->flat<int32_t>()[i] = static_cast<int32_t>(chosen.size());
    }
    return absl::OkStatus();
  }

 private:
  const bool pads_per_class_, clips_;
};

}  // namespace

void RegisterCombinedNonMaxSuppressionKernels(DeviceKernels& kernels) {
  kernels.Add<CombinedNonMaxSuppression>("CombinedNonMaxSuppression");
}

}  // namespace weir
