// Kernels of TensorArrays. The flow, a float, only orders them.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/tensor_array.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class MakeArray final : public Kernel {
 public:
  explicit MakeArray(const KernelConstruction& construction)
      : device_(construction.device().name().ToString()) {
    const std::string& name = construction.attr<std::string>("tensor_array_name");
    spec_.name = name.empty() ? construction.node().name() : name;
    spec_.dtype = construction.attr<DType>("dtype");
    spec_.element_shape = construction.attr<PartialShape>("element_shape");
    spec_.is_dynamic = construction.attr<bool>("dynamic_size");
    spec_.clear_after_read = construction.attr<bool>("clear_after_read");
    spec_.has_identical_shapes = construction.attr<bool>("identical_element_shapes");
  }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const int64_t length, ReadInteger(context.input(0), "size"));
    WEIR_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, TensorArray::Create(spec_, length, context));
    context.set_output(0,
                       HandleOfStepResource(device_, spec_.name, TensorArray::kTypeName, std::move(array)));
    WEIR_ASSIGN_OR_RETURN(Tensor * flow, context.AllocateOutput(1, Shape()));
    flow->flat<float>()[0] = 0;
    return absl::OkStatus();
  }

 private:
  const std::string device_;
  TensorArraySpec spec_;
};

class Gradient final : public Kernel {
 public:
  explicit Gradient(const KernelConstruction& construction)
      : device_(construction.device().name().ToString()), source_(construction.attr<std::string>("source")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, LookupResource<TensorArray>(context, 0));
    Dims leading;
    if (context.num_inputs() == 3) {  // TensorArrayGradWithShape
      WEIR_ASSIGN_OR_RETURN(const Shape shape, ReadShape(context.input(2), "shape_to_prepend"));
      leading.assign(shape.dims().begin(), shape.dims().end());
    }
    WEIR_ASSIGN_OR_RETURN(RefPtr<TensorArray> gradient, array->Gradient(source_, leading, context));
    const std::string name = gradient->spec().name;
    context.set_output(0, HandleOfStepResource(device_, name, TensorArray::kTypeName, std::move(gradient)));
    context.set_output(1, context.input(1));
    return absl::OkStatus();
  }

 private:
  const std::string device_;
  const std::string source_;
};

absl::StatusOr<RefPtr<TensorArray>> ArrayOf(const KernelContext& context, DType dtype) {
  WEIR_ASSIGN_OR_RETURN(RefPtr<TensorArray> array, LookupResource<TensorArray>(context, 0));
  if (array->spec().dtype == dtype) return array;
  return absl::InvalidArgumentError(absl::StrCat("TensorArray dtype is ", DTypeName(array->spec().dtype),
                                                 " but Op requested dtype ", DTypeName(dtype), "."));
}

absl::Status Write(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, LookupResource<TensorArray>(context, 0));
  WEIR_ASSIGN_OR_RETURN(const int64_t index, ReadInteger(context.input(1), "index"));
  WEIR_RETURN_IF_ERROR(array->Write(index, context.input(2), context));
  context.set_output(0, context.input(3));
  return absl::OkStatus();
}

absl::Status Read(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, ArrayOf(context, context.output_type(0)));
  WEIR_ASSIGN_OR_RETURN(const int64_t index, ReadInteger(context.input(1), "index"));
  WEIR_ASSIGN_OR_RETURN(Tensor value, array->Read(index, context));
  context.set_output(0, std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<Shape> ShapeBehind(int64_t first, const PartialShape& rest) {
  Dims dims = {first};
  dims.insert(dims.end(), rest.dims().begin(), rest.dims().end());
  return Shape::FromDims(dims);
}

class Gather final : public Kernel {
 public:
  explicit Gather(const KernelConstruction& construction)
      : element_shape_(construction.attr<PartialShape>("element_shape")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, ArrayOf(context, context.output_type(0)));
    WEIR_ASSIGN_OR_RETURN(PartialShape shape, element_shape_.MergeWith(array->element_shape()));
    std::vector<Tensor> values;
    for (const int32_t index : context.input(1).flat<int32_t>()) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      WEIR_ASSIGN_OR_RETURN(Tensor value, array->Read(index, context));
      if (!shape.IsCompatibleWith(PartialShape(value.shape()))) {
        return absl::InvalidArgumentError(absl::StrCat("TensorArray has inconsistent shapes.  Index ", index,
                                                       " has shape ", value.shape().ToString(),
                                                       ", others or element_shape: ", shape.ToString()));
      }
      shape = value.shape();
      values.push_back(std::move(value));
    }
    if (!shape.is_fully_known()) {
      return absl::UnimplementedError(absl::StrCat("TensorArray has size zero, but element shape ",
                                                   shape.ToString(), " is not fully defined"));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape whole, ShapeBehind(static_cast<int64_t>(values.size()), shape));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, whole));
    const int64_t count = shape.ToShape().num_elements();
    for (size_t i = 0; i < values.size(); ++i) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      CopyElements(values[i], 0, *output, i * count, count);
    }
    return absl::OkStatus();
  }

 private:
  const PartialShape element_shape_;
};

// Rows [begin, begin + length) of `value` become element `index`; `is_row`: without the first dimension.
absl::Status WriteRows(TensorArray& array, int64_t index, const Tensor& value, int64_t begin, int64_t length,
                       bool is_row, KernelContext& context) {
  Dims dims(value.shape().dims().begin(), value.shape().dims().end());
  dims[0] = length;
  const Shape rows(dims);
  if (is_row) dims.erase(dims.begin());
  WEIR_ASSIGN_OR_RETURN(Tensor element, context.AllocateTemporary(value.dtype(), Shape(dims)));
  const int64_t row_size = length == 0 ? 0 : rows.num_elements() / length;
  CopyElements(value, begin * row_size, element, 0, rows.num_elements());
  return array.Write(index, element, context);
}

absl::Status Scatter(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, LookupResource<TensorArray>(context, 0));
  const Tensor& indices = context.input(1);
  const Tensor& value = context.input(2);
  if (indices.shape().rank() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected indices to be a vector, but received shape: ", indices.shape().ToString()));
  }
  if (value.shape().rank() == 0 || value.shape().dim(0) != indices.num_elements()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected len(indices) == values.shape[0], but saw: ", indices.num_elements(), " vs. ",
                     value.shape().ToString()));
  }
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    WEIR_RETURN_IF_ERROR(
        WriteRows(*array, indices.flat<int32_t>()[i], value, i, 1, /*is_row=*/true, context));
  }
  context.set_output(0, context.input(3));
  return absl::OkStatus();
}

absl::Status Split(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, LookupResource<TensorArray>(context, 0));
  const Tensor& value = context.input(1);
  const Tensor& lengths = context.input(2);
  if (lengths.shape().rank() != 1 || value.shape().rank() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected lengths to be a vector and value to be at least one, received shapes: ",
                     lengths.shape().ToString(), ", ", value.shape().ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const int64_t size, array->Length());
  if (size != lengths.num_elements() && !array->may_grow()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TensorArray's size is not equal to the size of lengths (", size, " vs. ", lengths.num_elements(),
        "), and the TensorArray is not marked as dynamically resizeable"));
  }
  int64_t begin = 0;
  for (int64_t i = 0; i < lengths.num_elements(); ++i) {
    const int64_t length = lengths.flat<int64_t>()[i];
    if (length < 0 || length > value.shape().dim(0) - begin) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected sum of lengths to be equal to values.shape[0], but lengths[", i, "] is ",
                       length, " and value's shape is: ", value.shape().ToString()));
    }
    WEIR_RETURN_IF_ERROR(WriteRows(*array, i, value, begin, length, /*is_row=*/false, context));
    begin += length;
  }
  if (begin != value.shape().dim(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected sum of lengths to be equal to values.shape[0], but sum of lengths is ", begin,
                     " and value's shape is: ", value.shape().ToString()));
  }
  context.set_output(0, context.input(3));
  return absl::OkStatus();
}

// All elements, one behind the other along their first dimension.
class Concat final : public Kernel {
 public:
  explicit Concat(const KernelConstruction& construction)
      : row_shape_(construction.attr<PartialShape>("element_shape_except0")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, ArrayOf(context, context.output_type(0)));
    WEIR_ASSIGN_OR_RETURN(const int64_t count, array->Length());
    PartialShape row = row_shape_;
    std::vector<Tensor> values;
    std::vector<int64_t> lengths;
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
      WEIR_ASSIGN_OR_RETURN(Tensor value, array->Read(i, context));
      if (value.shape().rank() == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("Concat saw a scalar shape at index ", i, " but requires at least vectors."));
      }
      const Shape rest(value.shape().dims().subspan(1));
      if (!row.IsCompatibleWith(PartialShape(rest))) {
        return absl::InvalidArgumentError(absl::StrCat(
            "TensorArray has inconsistent shapes.  Index ", i,
            " has (excepting dimension 0) shape: ", rest.ToString(), ", others: ", row.ToString()));
      }
      row = rest;
      if (value.shape().dim(0) > std::numeric_limits<int64_t>::max() - total) {
        return absl::InvalidArgumentError("the elements have together more rows than an int64 can count");
      }
      total += value.shape().dim(0);
      lengths.push_back(value.shape().dim(0));
      values.push_back(std::move(value));
    }
    if (!row.is_fully_known()) {
      return absl::UnimplementedError(absl::StrCat("TensorArray has size zero, but element_shape_except0 ",
                                                   row.ToString(), " is not fully defined."));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape whole, ShapeBehind(total, row));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, whole));
    int64_t begin = 0;
    for (const Tensor& value : values) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      CopyElements(value, 0, *output, begin, value.num_elements());
      begin += value.num_elements();
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * lengths_of_parts, context.AllocateOutput(1, Shape({count})));
    std::copy(lengths.begin(), lengths.end(), lengths_of_parts->flat<int64_t>().begin());
    return absl::OkStatus();
  }

 private:
  const PartialShape row_shape_;
};

absl::Status Size(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, LookupResource<TensorArray>(context, 0));
  WEIR_ASSIGN_OR_RETURN(const int64_t length, array->Length());
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  output->flat<int32_t>()[0] = static_cast<int32_t>(length);
  return absl::OkStatus();
}

absl::Status Close(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const RefPtr<TensorArray> array, LookupResource<TensorArray>(context, 0));
  array->Close();
  return absl::OkStatus();
}

}  // namespace

void RegisterTensorArraysKernels(DeviceKernels& kernels) {
  kernels.Add<MakeArray>("TensorArrayV3");
  kernels.Add<Gradient>("TensorArrayGradV3");
  kernels.Add<Gradient>("TensorArrayGradWithShape");
  kernels.Add<&Write>("TensorArrayWriteV3");
  kernels.Add<&Read>("TensorArrayReadV3");
  kernels.Add<Gather>("TensorArrayGatherV3");
  kernels.Add<&Scatter>("TensorArrayScatterV3");
  kernels.Add<Concat>("TensorArrayConcatV3");
  kernels.Add<&Split>("TensorArraySplitV3");
  kernels.Add<&Size>("TensorArraySizeV3");
  kernels.Add<&Close>("TensorArrayCloseV3");
}

}  // namespace weir
