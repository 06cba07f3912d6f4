// Ragged tensors as variants: one for the whole of it, or one for each of its rows, and back.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/ragged_tensor.h"
#include "kernels/cpu/dtype_lists.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/row_splits.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/string_room.h"
#include "kernels/cpu/with_dtype.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

using Splits = std::vector<int64_t>;

int64_t RowSize(const Shape& shape) {
  int64_t size = 1;
  for (int i = 1; i < shape.rank(); ++i) size *= shape.dim(i);
  return size;
}

// Rows [begin, end) of values. Those that are plain bytes share the buffer.
absl::StatusOr<Tensor> RowsOf(KernelContext& context, const Tensor& values, int64_t begin, int64_t end) {
  if (values.dtype() != DType::kString) return values.Slice(begin, end);
  Dims dims(values.shape().dims().begin(), values.shape().dims().end());
  dims[0] = end - begin;
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  const int64_t row = RowSize(values.shape());
  WEIR_RETURN_IF_ERROR(CheckRoom(context, BytesOutside(values, begin * row, end * row), 1));
  WEIR_ASSIGN_OR_RETURN(Tensor rows, context.AllocateTemporary(values.dtype(), shape));
  std::copy_n(values.flat<std::string>().begin() + begin * row, (end - begin) * row,
              rows.flat<std::string>().begin());
  return rows;
}

// ---- RaggedTensorToVariant ----

class RaggedTensorToVariant final : public Kernel {
 public:
  explicit RaggedTensorToVariant(const KernelConstruction& construction)
      : is_batched_(construction.attr<bool>("batched_input")) {}

  absl::Status Compute(KernelContext& context) override {
    const int ragged_rank = context.num_inputs() - 1;
    const Tensor& values = context.input(ragged_rank);
    if (!is_batched_ || ragged_rank > 0) {
      if (values.shape().rank() == 0 && ragged_rank > 0)
        return absl::InvalidArgumentError("rt_dense_values must have rank 1 or more, is a scalar");
    } else if (values.shape().rank() == 0) {
      return absl::InvalidArgumentError("Can't unbatch rank-0 tensor.");
    }
    std::vector<const Tensor*> tensors;
    for (int i = 0; i < ragged_rank; ++i) tensors.push_back(&context.input(i));
    WEIR_ASSIGN_OR_RETURN(const std::vector<Splits> nested,
                          ReadNestedSplits(tensors, ragged_rank == 0 ? 0 : values.shape().dim(0)));
    if (!is_batched_) {
      std::vector<Tensor> splits;
      for (const Tensor* tensor : tensors) splits.push_back(*tensor);
      context.set_output(0, VariantOf(MakeRef<RaggedTensor>(std::move(splits), values)));
      return absl::OkStatus();
    }
    const int64_t rows =
        ragged_rank == 0 ? values.shape().dim(0) : static_cast<int64_t>(nested[0].size()) - 1;
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape({rows})));
    for (int64_t i = 0; i < rows; ++i) {
      WEIR_ASSIGN_OR_RETURN(output->flat<ResourceHandle>()[i].resource, Row(context, nested, values, i));
    }
    return absl::OkStatus();
  }

 private:
  // Row i as a ragged tensor of one rank less; a row of dense values as what it is.
  static absl::StatusOr<RefPtr<Resource>> Row(KernelContext& context, const std::vector<Splits>& nested,
                                              const Tensor& values, int64_t i) {
    if (nested.empty()) {
      WEIR_ASSIGN_OR_RETURN(const Tensor row, RowsOf(context, values, i, i + 1));
      const Dims dims(values.shape().dims().begin() + 1, values.shape().dims().end());
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
      return RefPtr<Resource>(MakeRef<RaggedTensor>(std::vector<Tensor>(), row.WithShape(shape)));
    }
    int64_t begin = nested[0][i], end = nested[0][i + 1];
    std::vector<Tensor> splits;
    for (size_t d = 1; d < nested.size(); ++d) {
      Splits own;
      for (int64_t k = begin; k <= end; ++k) own.push_back(nested[d][k] - nested[d][begin]);
      WEIR_ASSIGN_OR_RETURN(
          Tensor tensor,
          context.AllocateTemporary(context.input(0).dtype(), Shape({static_cast<int64_t>(own.size())})));
      WEIR_RETURN_IF_ERROR(WriteRowSplits(own, tensor));
      splits.push_back(std::move(tensor));
      const int64_t first = nested[d][begin];
      end = nested[d][end];
      begin = first;
    }
    WEIR_ASSIGN_OR_RETURN(Tensor rows, RowsOf(context, values, begin, end));
    return RefPtr<Resource>(MakeRef<RaggedTensor>(std::move(splits), std::move(rows)));
  }

  const bool is_batched_;
};

// ---- RaggedTensorFromVariant, RaggedTensorToVariantGradient ----

using Components = std::vector<const RaggedTensor*>;

// With may_be_empty: null for a variant that holds nothing.
absl::StatusOr<Components> ComponentsOf(const Tensor& encoded, DType values, bool may_be_empty = false) {
  Components components;
  for (const ResourceHandle& handle : encoded.flat<ResourceHandle>()) {
    if (may_be_empty && handle.resource == nullptr) {
      components.push_back(nullptr);
      continue;
    }
    const auto* const ragged = dynamic_cast<const RaggedTensor*>(handle.resource.get());
    if (ragged == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Input Variant element at index ", components.size(), " doesn't hold a RaggedTensorVariant: it is ",
          handle.resource ? handle.resource->ToString() : "empty"));
    }
    if (ragged->values().dtype() != values) {
      return absl::InvalidArgumentError(absl::StrCat("Expected values Tensor dtype: ", DTypeName(values),
                                                     ", found: ", DTypeName(ragged->values().dtype())));
    }
    components.push_back(ragged);
  }
  return components;
}

// Writes the values of all components one after the other. `to` must have room for them.
void CopyValues(const Components& components, Tensor& to) {
  int64_t at = 0;
  for (const RaggedTensor* component : components) {
    const Tensor& values = component->values();
    WithElementType(to.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::Type;
      std::copy_n(static_cast<const T*>(values.data()), values.num_elements(),
                  static_cast<T*>(to.data()) + at);
    });
    at += values.num_elements();
  }
}

absl::Status CheckRoomForValues(KernelContext& context, const Components& components) {
  int64_t bytes = 0;
  for (const RaggedTensor* component : components) {
    if (component == nullptr) continue;
    bytes += BytesOutside(component->values(), 0, component->values().num_elements());
  }
  return CheckRoom(context, bytes, 1);
}

// Few components can stand for many rows: whether the device has memory for their splits.
absl::Status CheckRoomForSplits(KernelContext& context, int64_t rows) {
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({rows}));
  return context.AllocateTemporary(DType::kInt64, shape).status();
}

class RaggedTensorFromVariant final : public Kernel {
 public:
  explicit RaggedTensorFromVariant(const KernelConstruction& construction)
      : input_rank_(construction.attr<int64_t>("input_ragged_rank")),
        output_rank_(construction.attr<int64_t>("output_ragged_rank")),
        values_type_(construction.attr<DType>("Tvalues")),
        splits_type_(construction.attr<DType>("Tsplits")) {}

  absl::Status Compute(KernelContext& context) override {
    const Tensor& encoded = context.input(0);
    const int rank = encoded.shape().rank();
    const int64_t input_rank = input_rank_ == -1 ? output_rank_ - rank : input_rank_;
    if (input_rank < 0 || input_rank + rank != output_rank_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output_ragged_rank must be equal to input_ragged_rank + encoded_ragged.dims(); "
          "output_ragged_rank: ",
          output_rank_, ", input_ragged_rank: ", input_rank, ", encoded_variant.dims(): ", rank, "."));
    }
    WEIR_ASSIGN_OR_RETURN(const Components components, ComponentsOf(encoded, values_type_));
    for (const RaggedTensor* component : components) {
      WEIR_RETURN_IF_ERROR(Check(*component, input_rank, rank > 0));
    }
    if (rank == 0) {
      for (int i = 0; i < input_rank; ++i) context.set_output(i, components[0]->splits()[i]);
      context.set_output(static_cast<int>(input_rank), components[0]->values());
      return absl::OkStatus();
    }
    WEIR_RETURN_IF_ERROR(WriteOuter(context, encoded.shape(), components));
    for (int i = 0; i < input_rank; ++i) WEIR_RETURN_IF_ERROR(WriteInner(context, components, i, rank + i));
    return WriteValues(context, components);
  }

 private:
  absl::Status Check(const RaggedTensor& component, int64_t input_rank, bool is_stacked) const {
    if (static_cast<int64_t>(component.splits().size()) != input_rank) {
      return absl::InvalidArgumentError(
          absl::StrCat("Encoded input RaggedTensorVariant has ragged_rank=", component.splits().size(),
                       ".  Expected ragged_rank=", input_rank, "."));
    }
    for (const Tensor& splits : component.splits()) {
      if (splits.dtype() == splits_type_) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Expected row_splits Tensor dtype: ", DTypeName(splits_type_),
                       ", found: ", DTypeName(splits.dtype())));
    }
    if (is_stacked && component.values().shape().rank() == 0) {
      return absl::InvalidArgumentError(
          "Ragged values must have rank >= 1 for encoded scalars to be stacked; found a scalar");
    }
    return absl::OkStatus();
  }

  // Rows of a component in its outermost dimension.
  static int64_t RowsOf(const RaggedTensor& component) {
    return component.splits().empty() ? component.values().shape().dim(0)
                                      : component.splits()[0].num_elements() - 1;
  }

  absl::Status Write(KernelContext& context, const Splits& values, int64_t output) const {
    WEIR_ASSIGN_OR_RETURN(
        Tensor * splits,
        context.AllocateOutput(static_cast<int>(output), Shape({static_cast<int64_t>(values.size())})));
    return WriteRowSplits(values, *splits);
  }

  // The dimensions of `encoded`: all rows but those of the last one are equally long.
  absl::Status WriteOuter(KernelContext& context, const Shape& encoded, const Components& components) const {
    int64_t rows = 1;
    for (int d = 0; d + 1 < encoded.rank(); ++d) {
      WEIR_RETURN_IF_ERROR(Shape::FromDims({rows, encoded.dim(d), encoded.dim(d + 1)}).status());
      rows *= encoded.dim(d);
      WEIR_RETURN_IF_ERROR(CheckRoomForSplits(context, rows));
      Splits splits;
      for (int64_t i = 0; i <= rows; ++i) splits.push_back(i * encoded.dim(d + 1));
      WEIR_RETURN_IF_ERROR(Write(context, splits, d));
    }
    Splits splits = {0};
    for (const RaggedTensor* component : components) {
      WEIR_ASSIGN_OR_RETURN(const int64_t end, AddRows(splits.back(), RowsOf(*component)));
      splits.push_back(end);
    }
    return Write(context, splits, encoded.rank() - 1);
  }

  absl::Status WriteInner(KernelContext& context, const Components& components, int dimension,
                          int64_t output) const {
    int64_t count = 0;
    for (const RaggedTensor* component : components) count += component->splits()[dimension].num_elements();
    WEIR_RETURN_IF_ERROR(CheckRoomForSplits(context, count));
    Splits all = {0};
    for (const RaggedTensor* component : components) {
      WEIR_ASSIGN_OR_RETURN(const Splits own, ReadRowSplits(component->splits()[dimension]));
      const int64_t begin = all.back();
      WEIR_RETURN_IF_ERROR(AddRows(begin, own.back()).status());
      for (size_t i = 1; i < own.size(); ++i) all.push_back(begin + own[i]);
    }
    return Write(context, all, output);
  }

  absl::Status WriteValues(KernelContext& context, const Components& components) const {
    Dims dims = {0};
    if (!components.empty()) {
      const Shape& first = components[0]->values().shape();
      dims.assign(first.dims().begin(), first.dims().end());
      dims[0] = 0;
    }
    for (const RaggedTensor* component : components) {
      const Shape& shape = component->values().shape();
      if (!std::equal(dims.begin() + 1, dims.end(), shape.dims().begin() + 1, shape.dims().end())) {
        return absl::InvalidArgumentError(
            absl::StrCat("All flat_values must have compatible shapes.  Shape at index 0: ",
                         components[0]->values().shape().ToString(), ".  Another one: ", shape.ToString()));
      }
      WEIR_ASSIGN_OR_RETURN(dims[0], AddRows(dims[0], shape.dim(0)));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_RETURN_IF_ERROR(CheckRoomForValues(context, components));
    WEIR_ASSIGN_OR_RETURN(Tensor * values, context.AllocateOutput(static_cast<int>(output_rank_), shape));
    CopyValues(components, *values);
    return absl::OkStatus();
  }

  const int64_t input_rank_, output_rank_;
  const DType values_type_, splits_type_;
};

// The values of all gradients, one after the other. A row that nobody used has no gradient: its variant is
// empty, and its values are zeros.
class ToVariantGradient final : public Kernel {
 public:
  explicit ToVariantGradient(const KernelConstruction& construction)
      : values_type_(construction.attr<DType>("Tvalues")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Components components,
                          ComponentsOf(context.input(0), values_type_, /*may_be_empty=*/true));
    const Tensor& dims = context.input(2);
    if (dims.shape().rank() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("dense_values_shape must be a vector, is ", dims.shape().ToString()));
    }
    const Dims wanted(dims.flat<int32_t>().begin(), dims.flat<int32_t>().end());
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(wanted));
    WEIR_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, SizesOf(components, context.input(1), shape));
    WEIR_RETURN_IF_ERROR(CheckRoomForValues(context, components));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    int64_t at = 0;
    for (size_t i = 0; i < components.size(); ++i) {
      if (components[i] == nullptr) {
        ClearElements(*output, at, sizes[i]);
      } else {
        CopyElements(components[i]->values(), 0, *output, at, sizes[i]);
      }
      at += sizes[i];
    }
    return absl::OkStatus();
  }

 private:
  // How many values each component has. InvalidArgument unless together they are those of the shape.
  static absl::StatusOr<std::vector<int64_t>> SizesOf(const Components& components, const Tensor& row_splits,
                                                      const Shape& shape) {
    std::vector<int64_t> sizes;
    int64_t left = shape.num_elements();
    for (size_t i = 0; i < components.size(); ++i) {
      int64_t size = 0;
      if (components[i] != nullptr) {
        size = components[i]->values().num_elements();
      } else {
        WEIR_ASSIGN_OR_RETURN(const int64_t rows, RowsAt(row_splits, components.size(), i));
        // More rows than all that there are cannot be, and might have more values than can be counted.
        const int64_t row_size = RowSize(shape);
        size = row_size == 0 ? 0 : rows > left / row_size ? left + 1 : rows * row_size;
      }
      if (size > left) return WrongCount(shape, "more");
      left -= size;
      sizes.push_back(size);
    }
    if (left > 0) return WrongCount(shape, "fewer");
    return sizes;
  }

  static absl::Status WrongCount(const Shape& shape, absl::string_view how_many) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the gradients have ", how_many, " values than dense_values_shape, which is ", shape.ToString()));
  }

  static absl::StatusOr<int64_t> RowsAt(const Tensor& row_splits, size_t count, size_t i) {
    const auto index = static_cast<int64_t>(i);
    if (row_splits.num_elements() == static_cast<int64_t>(count) + 1) {
      const int64_t begin = IntegerAt(row_splits, index), end = IntegerAt(row_splits, index + 1);
      if (begin >= 0 && end >= begin) return end - begin;
    }
    return absl::InvalidArgumentError(absl::StrCat("row_splits do not say how many rows gradient ", i, " of ",
                                                   count, " has, which is empty: ", row_splits.ToString(8)));
  }

  const DType values_type_;
};

}  // namespace

void RegisterRaggedVariantsKernels(DeviceKernels& kernels) {
  std::vector<DType> types = CountableDTypes();
  types.push_back(DType::kString);
  kernels.Add<RaggedTensorToVariant>("RaggedTensorToVariant", {{"Tvalues", types}});
  kernels.Add<RaggedTensorFromVariant>("RaggedTensorFromVariant", {{"Tvalues", types}});
  kernels.Add<ToVariantGradient>("RaggedTensorToVariantGradient", {{"Tvalues", types}});
}

}  // namespace weir
