// EditDistance: how many insertions, deletions and substitutions make a sequence of a sparse tensor that of
// another one.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellation.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// A sparse tensor in three inputs, as sequences along its last dimension: elements next to each other whose
// other coordinates are equal.
class SparseSequences {
 public:
  // `name` stands in errors: "truth".
  static absl::StatusOr<SparseSequences> Read(const KernelContext& context, int first,
                                              absl::string_view name) {
    const Tensor &indices = context.input(first), &values = context.input(first + 1);
    const Tensor& shape = context.input(first + 2);
    const auto wrong = [&](absl::string_view what, absl::string_view wanted, const Tensor& found) {
      return absl::InvalidArgumentError(absl::StrCat(name, "_", what, " should be a ", wanted,
                                                     ", but got shape: ", found.shape().ToString()));
    };
    if (indices.shape().rank() != 2) return wrong("indices", "matrix", indices);
    if (values.shape().rank() != 1) return wrong("values", "vector", values);
    if (shape.shape().rank() != 1) return wrong("shape", "vector", shape);
    const auto differ = [&](absl::string_view what, absl::string_view of_indices, const Tensor& found) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Expected ", name, "_", what, ".NumElements == ", of_indices, "(", name,
          "_indices), their shapes are: ", found.shape().ToString(), " and ", indices.shape().ToString()));
    };
    if (values.num_elements() != indices.shape().dim(0)) return differ("values", "#rows", values);
    if (shape.num_elements() != indices.shape().dim(1)) return differ("shape", "#cols", shape);
    if (shape.num_elements() < 2) {
      return absl::InvalidArgumentError(absl::StrCat("Input SparseTensors must have rank at least 2, but ",
                                                     name, "_shape rank is: ", shape.num_elements()));
    }
    return SparseSequences(indices, shape);
  }

  int rank() const { return static_cast<int>(dims_.size()); }
  absl::Span<const int64_t> dims() const { return dims_; }

  // Of the sequence that begins with element `begin`: its place, and where it ends.
  absl::Span<const int64_t> place(int64_t begin) const {
    return indices_.subspan(begin * rank(), rank() - 1);
  }
  int64_t End(int64_t begin) const {
    int64_t end = begin + 1;
    while (!is_end(end) && place(end) == place(begin)) ++end;
    return end;
  }
  bool is_end(int64_t element) const { return element * rank() >= static_cast<int64_t>(indices_.size()); }

 private:
  SparseSequences(const Tensor& indices, const Tensor& shape)
      : indices_(indices.flat<int64_t>()), dims_(shape.flat<int64_t>()) {}

  absl::Span<const int64_t> indices_, dims_;
};

// Wagner and Fischer, "The String-to-String Correction Problem" (1974), a row at a time. `row` has room for
// m + 1 elements.
template <typename T>
int64_t Distance(const T* a, int64_t n, const T* b, int64_t m, int64_t* row,
                 const Cancellation& cancellation) {
  for (int64_t j = 0; j <= m; ++j) row[j] = j;
  for (int64_t i = 1; i <= n && !cancellation.is_cancelled(); ++i) {
    int64_t diagonal = row[0];
    row[0] = i;
    for (int64_t j = 1; j <= m; ++j) {
      const int64_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[m];
}

template <typename T>
class EditDistance final : public Kernel {
 public:
  explicit EditDistance(const KernelConstruction& construction)
      : normalizes_(construction.attr<bool>("normalize")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const auto hypotheses, SparseSequences::Read(context, 0, "hypothesis"));
    WEIR_ASSIGN_OR_RETURN(const auto truths, SparseSequences::Read(context, 3, "truth"));
    if (hypotheses.rank() != truths.rank()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected truth and hypothesis to have matching ranks, but their shapes are: [",
                       truths.rank(), "] and [", hypotheses.rank(), "]"));
    }
    Dims dims(truths.rank() - 1);
    for (size_t i = 0; i < dims.size(); ++i) {
      dims[i] = std::max(hypotheses.dims()[i], truths.dims()[i]);
      if (dims[i] < 0)
        return absl::InvalidArgumentError(absl::StrCat("Dimension ", dims[i], " must be >= 0"));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    if (shape.num_elements() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("Got output shape ", shape.ToString(), " which has 0 elements"));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    std::fill_n(output->flat<float>().data(), output->num_elements(), 0.0f);
    return Compare(context, hypotheses, truths, *output);
  }

 private:
  // Walks through both in order, as TensorFlow does also where they are in none.
  absl::Status Compare(KernelContext& context, const SparseSequences& hypotheses,
                       const SparseSequences& truths, Tensor& output) const {
    const T* const hypothesis = context.input(1).flat<T>().data();
    const T* const truth = context.input(4).flat<T>().data();
    std::vector<int64_t> row;
    int64_t h = 0, t = 0;
    while (!hypotheses.is_end(h) || !truths.is_end(t)) {
      if (context.cancellation().is_cancelled()) return absl::CancelledError("the step was cancelled");
      const bool takes_hypothesis =
          !hypotheses.is_end(h) && (truths.is_end(t) || hypotheses.place(h) <= truths.place(t));
      const bool takes_truth =
          !truths.is_end(t) && (hypotheses.is_end(h) || truths.place(t) <= hypotheses.place(h));
      const auto place = takes_hypothesis ? hypotheses.place(h) : truths.place(t);
      WEIR_ASSIGN_OR_RETURN(float* const to, ElementAt(output, place));
      const int64_t h_end = takes_hypothesis ? hypotheses.End(h) : h;
      const int64_t t_end = takes_truth ? truths.End(t) : t;
      int64_t distance = h_end - h + (t_end - t);
      if (takes_hypothesis && takes_truth) {
        row.resize(h_end - h + 1);
        distance =
            Distance(truth + t, t_end - t, hypothesis + h, h_end - h, row.data(), context.cancellation());
      }
      *to = Normalized(distance, t_end - t);
      h = h_end;
      t = t_end;
    }
    return absl::OkStatus();
  }

  // By the length of the truth; infinite where there is none.
  float Normalized(int64_t distance, int64_t length) const {
    if (!normalizes_) return static_cast<float>(distance);
    if (length == 0) return std::numeric_limits<float>::infinity();
    return static_cast<float>(distance) / static_cast<float>(length);
  }

  static absl::StatusOr<float*> ElementAt(Tensor& output, absl::Span<const int64_t> place) {
    __int128 at = 0;
    for (size_t i = 0; i < place.size(); ++i) at = at * output.shape().dim(static_cast<int>(i)) + place[i];
    if (at >= 0 && at < output.num_elements()) return output.flat<float>().data() + static_cast<int64_t>(at);
    const auto shown = static_cast<int64_t>(
        std::clamp<__int128>(at, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
    return absl::InvalidArgumentError(absl::StrCat(
        "Got an inner product ", shown,
        " which would require writing to outside of the buffer for the output tensor (max elements ",
        output.num_elements(), ")"));
  }

  const bool normalizes_;
};

}  // namespace

void RegisterEditDistanceKernels(DeviceKernels& kernels) {
  kernels.Add<EditDistance>("EditDistance",
                            Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t,
                                  uint16_t, uint32_t, uint64_t, bool, std::string>("T"));
}

}  // namespace weir
