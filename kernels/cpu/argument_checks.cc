#include "kernels/cpu/argument_checks.h"

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/integer_input.h"

namespace weir {

absl::Status ShapesDiffer(absl::string_view a_name, const Shape& a, absl::string_view b_name,
                          const Shape& b) {
  return absl::InvalidArgumentError(
      absl::StrCat(a_name, " is ", a.ToString(), " but ", b_name, " is ", b.ToString()));
}

absl::Status CheckLabelShape(const Shape& logits, const Shape& labels) {
  if (logits.rank() == 2 && labels.rank() == 1 && logits.dim(0) == labels.dim(0)) return absl::OkStatus();
  return ShapesDiffer("logits must be [batch,classes] and labels [batch]: logits", logits, "labels", labels);
}

namespace {

template <typename Label>
absl::Status CheckClasses(absl::Span<const Label> labels, int64_t classes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= 0 && labels[i] < classes) continue;
    return absl::InvalidArgumentError(absl::StrCat("Received a label value of ", labels[i],
                                                   " which is outside the valid range of [0, ", classes,
                                                   "), at example ", i));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLabels(const Shape& logits, const Tensor& labels) {
  const int64_t classes = logits.dim(1);
  return labels.dtype() == DType::kInt64 ? CheckClasses(labels.flat<int64_t>(), classes)
                                         : CheckClasses(labels.flat<int32_t>(), classes);
}

absl::Status NotFinite(absl::string_view message, bool has_nan, bool has_infinity, const Tensor& tensor) {
  return absl::InvalidArgumentError(absl::StrCat(message, " : Tensor had ",
                                                 has_nan && has_infinity ? "Inf and NaN"
                                                 : has_nan               ? "NaN"
                                                                         : "Inf",
                                                 " values: ", tensor.ToString()));
}

absl::StatusOr<ChannelView> ViewChannels(const Shape& shape, bool channels_first) {
  if (shape.rank() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the input needs a batch and a channel dimension, is ", shape.ToString()));
  }
  const int axis = channels_first ? 1 : shape.rank() - 1;
  ChannelView view;
  view.channels = shape.dim(axis);
  for (int i = 0; i < axis; ++i) view.outer *= shape.dim(i);
  for (int i = axis + 1; i < shape.rank(); ++i) view.inner *= shape.dim(i);
  return view;
}

absl::Status CheckBias(const ChannelView& view, const Shape& value, const Shape& bias) {
  if (bias == Shape({view.channels})) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the bias must be [", view.channels, "] for an input ",
                                                 value.ToString(), ", is ", bias.ToString()));
}

absl::StatusOr<ProductShape> ProductOf(const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
  if (a.rank() != 2 || b.rank() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("both inputs must be matrices: a is ", a.ToString(), ", b is ", b.ToString()));
  }
  const ProductShape product = {.m = a.dim(transpose_a ? 1 : 0),
                                .k = a.dim(transpose_a ? 0 : 1),
                                .n = b.dim(transpose_b ? 0 : 1),
                                .transpose_a = transpose_a,
                                .transpose_b = transpose_b};
  if (product.k == b.dim(transpose_b ? 1 : 0)) return product;
  return absl::InvalidArgumentError(
      absl::StrCat("Matrix size-incompatible: In[0]: ", a.ToString(), ", In[1]: ", b.ToString(),
                   ": inner dimensions differ (transpose_a=", transpose_a ? "true" : "false",
                   ", transpose_b=", transpose_b ? "true" : "false", ")"));
}

absl::StatusOr<std::vector<bool>> ReadReducedAxes(const Tensor& axes, int rank) {
  std::vector<bool> reduced(rank, false);
  for (int64_t i = 0; i < axes.num_elements(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const int axis,
                          ResolveAxis(IntegerAt(axes, i), rank, absl::StrCat("reduction_indices[", i, "]")));
    if (reduced[axis]) {
      return absl::InvalidArgumentError(
          absl::StrCat("reduction_indices name dimension ", axis, " twice: ", axes.ToString()));
    }
    reduced[axis] = true;
  }
  return reduced;
}

Reduced ReducedDims(const Shape& shape, const std::vector<bool>& reduced, bool keep_dims) {
  Reduced result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (reduced[i]) result.count *= shape.dim(i);
    if (!reduced[i])
      result.dims.push_back(shape.dim(i));
    else if (keep_dims)
      result.dims.push_back(1);
  }
  return result;
}

MergedDims MergeDims(const Shape& shape, const std::vector<bool>& reduced) {
  MergedDims merged;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.dim(i) == 1) continue;
    if (!merged.sizes.empty() && merged.reduced.back() == reduced[i]) {
      merged.sizes.back() *= shape.dim(i);
    } else {
      merged.sizes.push_back(shape.dim(i));
      merged.reduced.push_back(reduced[i]);
    }
  }
  return merged;
}

}  // namespace weir
