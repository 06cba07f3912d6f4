// Ops that move the elements of sparse tensors: reordering, reshaping, joining, splitting, slicing, filling
// empty rows.
#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/sparse/sparse_view.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/string_room.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

absl::Status SparseReorder(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const SparseView input, SparseView::Read(context, 0));
  const std::vector<int64_t> order = RowMajorOrder(input);
  WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, input.indices().shape()));
  WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, input.values().shape()));
  int64_t* next = indices->flat<int64_t>().data();
  for (const int64_t i : order) next = std::copy(input.index(i).begin(), input.index(i).end(), next);
  GatherValues(input.values(), order, *values);
  return absl::OkStatus();
}

// ---- SparseReshape ----

absl::StatusOr<int64_t> CountOf(absl::Span<const int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) {
    int64_t product = 0;
    if (!MultiplyWithoutOverflow(count, dim, &product)) {
      return absl::InvalidArgumentError(absl::StrCat("Encountered overflow when multiplying ", count,
                                                     " with ", dim, ": the shape is ", IndexText(dims)));
    }
    count = product;
  }
  return count;
}

// new_shape with what stands for -1.
absl::StatusOr<Dims> NewDims(absl::Span<const int64_t> old_dims, absl::Span<const int64_t> asked) {
  WEIR_ASSIGN_OR_RETURN(const int64_t count, CountOf(old_dims));
  Dims dims(asked.begin(), asked.end());
  int unknown = -1;
  for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
    if (dims[d] == -1) {
      if (unknown >= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("only one output dimension may be -1, not both ", unknown, " and ", d));
      }
      unknown = d;
      dims[d] = 1;
    } else if (dims[d] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("size ", d, " must be non-negative, not ", dims[d]));
    }
  }
  WEIR_ASSIGN_OR_RETURN(const int64_t known, CountOf(dims));
  if (unknown >= 0) {
    if (known == 0) {
      return absl::InvalidArgumentError(
          "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes "
          "are non-zero");
    }
    if (count % known != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input to reshape is a SparseTensor with ", count,
                       " dense values, but the requested shape requires a multiple of ", known,
                       ". input_shape=", IndexText(old_dims), " output_shape=", IndexText(dims)));
    }
    dims[unknown] = count / known;
  } else if (known != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Input to reshape is a tensor with ", count, " dense values, but the requested shape has ", known,
        ". input_shape=", IndexText(old_dims), " output_shape=", IndexText(dims)));
  }
  return dims;
}

absl::Status SparseReshape(KernelContext& context) {
  const Tensor& indices = context.input(0);
  const Tensor& old_shape = context.input(1);
  const Tensor& new_shape = context.input(2);
  if (indices.shape().rank() != 2) return absl::InvalidArgumentError("Input must be a matrix.");
  for (const Tensor* shape : {&old_shape, &new_shape}) {
    if (shape->shape().rank() == 1 && shape->num_elements() <= 254) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "Input shape must be a vector of at most 254 dimensions, is ", shape->shape().ToString()));
  }
  if (indices.shape().dim(1) != old_shape.num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Input tensor rank must match input shape length: indices is ",
                     indices.shape().ToString(), ", input_shape ", old_shape.shape().ToString()));
  }
  const auto old_dims = old_shape.flat<int64_t>();
  WEIR_ASSIGN_OR_RETURN(const Dims dims, NewDims(old_dims, new_shape.flat<int64_t>()));
  const int64_t count = indices.shape().dim(0);
  const auto rank = static_cast<int64_t>(dims.size());
  WEIR_RETURN_IF_ERROR(SetShapeOutput(context, 1, dims));
  if (absl::MakeConstSpan(dims) == absl::MakeConstSpan(old_dims)) {
    context.set_output(0, indices);  // as they are, also those that are outside of the shape
    return absl::OkStatus();
  }
  // Indices of rank 0 take no memory, so that there may be more than fit with a column each.
  WEIR_ASSIGN_OR_RETURN(const Shape new_indices, Shape::FromDims({count, rank}));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, new_indices));
  // Indices that are outside of the shape wrap around, and stay without a meaning.
  const auto from = indices.flat<int64_t>();
  const auto to = output->flat<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    uint64_t position = 0;
    for (size_t d = 0; d < old_dims.size(); ++d) {
      position =
          position * static_cast<uint64_t>(old_dims[d]) +
          static_cast<uint64_t>(from[i * static_cast<int64_t>(old_dims.size()) + static_cast<int64_t>(d)]);
    }
    auto rest = static_cast<int64_t>(position);
    for (int64_t d = rank - 1; d > 0; --d) {
      to[i * rank + d] = dims[d] == 0 ? 0 : rest % dims[d];
      rest = dims[d] == 0 ? 0 : rest / dims[d];
    }
    if (rank > 0) to[i * rank] = rest;
  }
  return absl::OkStatus();
}

// ---- SparseConcat and SparseSplit ----

class SparseConcat final : public Kernel {
 public:
  explicit SparseConcat(const KernelConstruction& construction)
      : count_(static_cast<int>(construction.attr<int64_t>("N"))),
        axis_(construction.attr<int64_t>("concat_dim")) {}

  absl::Status Compute(KernelContext& context) override {
    std::vector<SparseView> inputs;
    int64_t count = 0;
    for (int i = 0; i < count_; ++i) {
      WEIR_ASSIGN_OR_RETURN(SparseView input, SparseView::Read(context.input(i), context.input(count_ + i),
                                                               context.input(2 * count_ + i)));
      count += input.count();
      inputs.push_back(std::move(input));
    }
    const int rank = inputs[0].rank();
    if (axis_ < -rank || axis_ >= rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("Concat dimension must be in range [", -rank, ", ", rank, "), got ", axis_));
    }
    const auto axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    WEIR_ASSIGN_OR_RETURN(const Dims dims, JoinedDims(inputs, axis));

    WEIR_ASSIGN_OR_RETURN(Tensor joined, context.AllocateTemporary(DType::kInt64, Shape({count, rank})));
    WEIR_ASSIGN_OR_RETURN(Tensor joined_values,
                          context.AllocateTemporary(context.output_type(1), Shape({count})));
    int64_t* next = joined.flat<int64_t>().data();
    int64_t offset = 0, position = 0;
    for (const SparseView& input : inputs) {
      // Many shapes want their indices in order.
      const std::vector<int64_t> order = RowMajorOrder(input);
      for (const int64_t i : order) {
        next = std::copy(input.index(i).begin(), input.index(i).end(), next);
        int64_t& moved = *(next - rank + axis);
        moved = static_cast<int64_t>(static_cast<uint64_t>(moved) + static_cast<uint64_t>(offset));
        CopyElements(input.values(), i, joined_values, position++, 1);
      }
      offset += input.dims()[axis];
    }

    Tensor shape(DType::kInt64, Shape({rank}));
    std::copy(dims.begin(), dims.end(), shape.flat<int64_t>().begin());
    WEIR_ASSIGN_OR_RETURN(const SparseView all, SparseView::Read(joined, joined_values, shape));
    const std::vector<int64_t> order = RowMajorOrder(all);
    WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, joined.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, joined_values.shape()));
    next = indices->flat<int64_t>().data();
    for (const int64_t i : order) next = std::copy(all.index(i).begin(), all.index(i).end(), next);
    GatherValues(joined_values, order, *values);
    return SetShapeOutput(context, 2, dims);
  }

 private:
  static absl::StatusOr<Dims> JoinedDims(const std::vector<SparseView>& inputs, int axis) {
    Dims dims = inputs[0].dims();
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (inputs[i].rank() != inputs[0].rank()) {
        return absl::InvalidArgumentError(absl::StrCat("Ranks of all input tensors must match: expected ",
                                                       inputs[0].rank(), " but got ", inputs[i].rank(),
                                                       " at position ", i));
      }
      for (int d = 0; d < inputs[0].rank(); ++d) {
        if (d == axis) {
          if (dims[d] > std::numeric_limits<int64_t>::max() - inputs[i].dims()[d]) {
            return absl::InvalidArgumentError(
                absl::StrCat("dimension ", d, " of the result is more than 2^63 at position ", i));
          }
          dims[d] += inputs[i].dims()[d];
        } else if (inputs[i].dims()[d] != dims[d]) {
          return absl::InvalidArgumentError(absl::StrCat("Input shapes must match: expected ", dims[d],
                                                         " for dimension ", d, " but got ",
                                                         inputs[i].dims()[d], " at position ", i));
        }
      }
    }
    return dims;
  }

  const int count_;
  const int64_t axis_;
};

class SparseSplit final : public Kernel {
 public:
  explicit SparseSplit(const KernelConstruction& construction)
      : num_split_(construction.attr<int64_t>("num_split")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& split_dim = context.input(0);
    if (!split_dim.shape().is_scalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input axis should be a scalar but received shape ", split_dim.shape().ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const SparseView input, SparseView::Read(context, 1));
    const int rank = input.rank();
    int64_t axis = split_dim.scalar<int64_t>();
    if (axis < -rank || axis >= rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input axis should be in range [", -rank, ", ", rank, "), got ", axis));
    }
    if (axis < 0) axis += rank;
    const int64_t size = input.dims()[axis];
    if (num_split_ > size) {
      return absl::InvalidArgumentError(
          absl::StrCat("Input num_split should be between 1 and the splitting dimension size (", size,
                       "), got ", num_split_));
    }
    WEIR_RETURN_IF_ERROR(input.CheckInBounds());
    // The first `rest` pieces have one more.
    const int64_t piece = size / num_split_, rest = size % num_split_;
    const auto piece_of = [&](int64_t at) {
      const int64_t border = rest * (piece + 1);
      return at < border ? at / (piece + 1) : rest + (at - border) / piece;
    };
    const auto begin_of = [&](int64_t k) { return k * piece + std::min(k, rest); };
    std::vector<std::vector<int64_t>> elements(num_split_);
    for (int64_t i = 0; i < input.count(); ++i) elements[piece_of(input.index(i)[axis])].push_back(i);
    for (int64_t k = 0; k < num_split_; ++k) {
      const auto count = static_cast<int64_t>(elements[k].size());
      const int at = static_cast<int>(k), splits = static_cast<int>(num_split_);
      WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(at, Shape({count, rank})));
      WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(splits + at, Shape({count})));
      int64_t* next = indices->flat<int64_t>().data();
      for (const int64_t i : elements[k]) {
        next = std::copy(input.index(i).begin(), input.index(i).end(), next);
        *(next - rank + axis) -= begin_of(k);
      }
      GatherValues(input.values(), elements[k], *values);
      Dims dims = input.dims();
      dims[axis] = begin_of(k + 1) - begin_of(k);
      WEIR_RETURN_IF_ERROR(SetShapeOutput(context, 2 * splits + at, dims));
    }
    return absl::OkStatus();
  }

 private:
  const int64_t num_split_;
};

// ---- SparseSlice ----

absl::Status CheckVectorOf(const Tensor& tensor, int length, absl::string_view name) {
  if (tensor.shape().rank() == 1 && tensor.num_elements() == length) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Expected ", name, " to be a vector of length ", length,
                                                 " but got shape ", tensor.shape().ToString()));
}

absl::Status SparseSlice(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const SparseView input, SparseView::Read(context, 0));
  const int rank = input.rank();
  WEIR_RETURN_IF_ERROR(CheckVectorOf(context.input(3), rank, "start"));
  WEIR_RETURN_IF_ERROR(CheckVectorOf(context.input(4), rank, "size"));
  const auto start = context.input(3).flat<int64_t>();
  const auto size = context.input(4).flat<int64_t>();
  Dims dims(rank);
  for (int d = 0; d < rank; ++d) {
    if (size[d] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("Expected a non-negative size, got ", size[d]));
    }
    if (start[d] < 0) {
      return absl::InvalidArgumentError(absl::StrCat("start must not be negative, is ", IndexText(start)));
    }
    dims[d] = std::max<int64_t>(0, std::min(size[d], input.dims()[d] - std::min(start[d], input.dims()[d])));
  }
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < input.count(); ++i) {
    bool is_inside = true;
    for (int d = 0; d < rank && is_inside; ++d) {
      is_inside = input.index(i)[d] >= start[d] && input.index(i)[d] - start[d] < size[d];
    }
    if (is_inside) kept.push_back(i);
  }
  const auto count = static_cast<int64_t>(kept.size());
  WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, Shape({count, rank})));
  WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({count})));
  int64_t* next = indices->flat<int64_t>().data();
  for (const int64_t i : kept) {
    for (int d = 0; d < rank; ++d) *next++ = input.index(i)[d] - start[d];
  }
  GatherValues(input.values(), kept, *values);
  return SetShapeOutput(context, 2, dims);
}

// The elements that the slice has, where they came from; zeros elsewhere.
absl::Status SparseSliceGrad(KernelContext& context) {
  const Tensor& grads = context.input(0);
  const Tensor& from = context.input(1);
  const Tensor& start = context.input(2);
  const Tensor& to = context.input(3);
  if (grads.shape().rank() != 1 || from.shape().rank() != 2 || to.shape().rank() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "backprop_val_grad must be a vector, input_indices and output_indices matrices, are ",
        grads.shape().ToString(), ", ", from.shape().ToString(), " and ", to.shape().ToString()));
  }
  const int64_t rank = from.shape().dim(1);
  if (to.shape().dim(1) != rank || to.shape().dim(0) != grads.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "# elements of backprop_val_grad and # rows of output_indices should match (#nnz of "
        "sum): got ",
        grads.num_elements(), " and ", to.shape().dim(0), ", of rank ", to.shape().dim(1), " and ", rank));
  }
  WEIR_RETURN_IF_ERROR(CheckVectorOf(start, static_cast<int>(rank), "input_start"));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({from.shape().dim(0)})));
  ClearElements(*output, 0, output->num_elements());
  int64_t used = 0;
  for (int64_t i = 0; i < from.shape().dim(0) && used < grads.num_elements(); ++i) {
    bool is_it = true;
    for (int64_t d = 0; d < rank && is_it; ++d) {
      const auto moved = static_cast<uint64_t>(to.flat<int64_t>()[used * rank + d]) +
                         static_cast<uint64_t>(start.flat<int64_t>()[d]);
      is_it = from.flat<int64_t>()[i * rank + d] == static_cast<int64_t>(moved);
    }
    if (is_it) CopyElements(grads, used++, *output, i, 1);
  }
  if (used == grads.num_elements()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Elements of backprop_val_grad aren't all propagated. Num elements:", grads.num_elements(),
                   ", used: ", used));
}

// ---- SparseFillEmptyRows ----

absl::Status CheckFillEmptyRows(const SparseView& input, const Tensor& default_value) {
  if (input.rank() == 0) return absl::InvalidArgumentError("Dense shape cannot be empty.");
  if (!default_value.shape().is_scalar()) {
    return absl::InvalidArgumentError(
        absl::StrCat("default_value must be a scalar, saw: ", default_value.shape().ToString()));
  }
  const int64_t num_rows = input.dims()[0];
  if (num_rows == 0 && input.count() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = ", input.count()));
  }
  for (int64_t i = 0; i < input.count(); ++i) {
    const int64_t row = input.index(i)[0];
    if (row >= 0 && row < num_rows) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("indices(", i, ", 0) is invalid: ", row, " >= ", num_rows));
  }
  return absl::OkStatus();
}

absl::Status SparseFillEmptyRows(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const SparseView input, SparseView::Read(context, 0));
  const Tensor& default_value = context.input(3);
  WEIR_RETURN_IF_ERROR(CheckFillEmptyRows(input, default_value));
  const int64_t num_rows = input.dims()[0];
  WEIR_ASSIGN_OR_RETURN(Tensor * is_empty, context.AllocateOutput(2, Shape({num_rows})));
  WEIR_ASSIGN_OR_RETURN(Tensor * places, context.AllocateOutput(3, Shape({input.count()})));

  // First the number of elements of each row, then where its next element goes.
  WEIR_ASSIGN_OR_RETURN(Tensor next, context.AllocateTemporary(DType::kInt64, Shape({num_rows})));
  const auto next_of = next.flat<int64_t>();
  std::fill(next_of.begin(), next_of.end(), 0);
  for (int64_t i = 0; i < input.count(); ++i) ++next_of[input.index(i)[0]];
  int64_t total = 0, num_empty = 0;
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t count = next_of[row];
    is_empty->flat<bool>()[row] = count == 0;
    num_empty += count == 0;
    next_of[row] = total;
    total += std::max<int64_t>(count, 1);
  }
  WEIR_RETURN_IF_ERROR(CheckRoomForStrings(context, default_value, num_empty));
  WEIR_ASSIGN_OR_RETURN(const Shape indices_shape, Shape::FromDims({total, input.rank()}));
  WEIR_ASSIGN_OR_RETURN(Tensor * indices, context.AllocateOutput(0, indices_shape));
  WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(1, Shape({total})));
  const auto at = [&](int64_t place) { return indices->flat<int64_t>().data() + place * input.rank(); };
  for (int64_t row = 0; row < num_rows; ++row) {
    if (!is_empty->flat<bool>()[row]) continue;
    std::fill_n(at(next_of[row]), input.rank(), 0);
    *at(next_of[row]) = row;
    CopyElements(default_value, 0, *values, next_of[row], 1);
  }
  for (int64_t i = 0; i < input.count(); ++i) {
    const int64_t place = next_of[input.index(i)[0]]++;
    std::copy(input.index(i).begin(), input.index(i).end(), at(place));
    CopyElements(input.values(), i, *values, place, 1);
    places->flat<int64_t>()[i] = place;
  }
  return absl::OkStatus();
}

template <typename T>
class SparseFillEmptyRowsGrad final : public Kernel {
 public:
  explicit SparseFillEmptyRowsGrad(const KernelConstruction&) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& places = context.input(0);
    const Tensor& grads = context.input(1);
    for (int i = 0; i < 2; ++i) {
      if (context.input(i).shape().rank() == 1) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(i == 0 ? "reverse_index_map" : "grad_values",
                       " must be a vector, saw: ", context.input(i).shape().ToString()));
    }
    const int64_t count = grads.num_elements();
    WEIR_ASSIGN_OR_RETURN(Tensor * d_values, context.AllocateOutput(0, places.shape()));
    WEIR_ASSIGN_OR_RETURN(Tensor * d_default, context.AllocateOutput(1, Shape()));
    std::vector<bool> is_used(count);
    for (int64_t i = 0; i < places.num_elements(); ++i) {
      const int64_t place = places.flat<int64_t>()[i];
      if (place < 0 || place >= count) {
        return absl::InvalidArgumentError(
            absl::StrCat("Elements in reverse index must be in [0, ", count, ") but got ", place));
      }
      d_values->flat<T>()[i] = grads.flat<T>()[place];
      is_used[place] = true;
    }
    T sum = T(0);
    for (int64_t i = 0; i < count; ++i) {
      if (!is_used[i]) sum = static_cast<T>(sum + grads.flat<T>()[i]);
    }
    d_default->flat<T>()[0] = sum;
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterSparseLayoutKernels(DeviceKernels& kernels) {
  kernels.Add<&SparseReorder>("SparseReorder");
  kernels.Add<&SparseReshape>("SparseReshape");
  kernels.Add<SparseConcat>("SparseConcat");
  kernels.Add<SparseSplit>("SparseSplit");
  kernels.Add<&SparseSlice>("SparseSlice");
  kernels.Add<&SparseSliceGrad>("SparseSliceGrad");
  kernels.Add<&SparseFillEmptyRows>("SparseFillEmptyRows");
  kernels.Add<SparseFillEmptyRowsGrad>(
      "SparseFillEmptyRowsGrad",
      Types<float, double, Half, Bfloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
            uint64_t, std::complex<float>, std::complex<double>>("T"));
}

}  // namespace weir
