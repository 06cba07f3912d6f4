// TensorLists: what loops of functions keep of their iterations, and read backwards for their gradients.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/tensor_list.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

// A vector of dimensions, -1 for unknown ones; the scalar -1 stands for an unknown rank.
absl::StatusOr<PartialShape> ReadElementShape(const Tensor& tensor) {
  if (tensor.shape().rank() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("element_shape must be a vector, or the scalar -1, is ", tensor.ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(const Dims dims, ReadIntegers(tensor, "element_shape"));
  if (tensor.shape().is_scalar()) {
    if (dims[0] == -1) return PartialShape();
    return absl::InvalidArgumentError(absl::StrCat(
        "The only valid scalar shape tensor is the fully unknown shape specified as -1, is ", dims[0]));
  }
  return PartialShape::FromDims(dims);
}

absl::StatusOr<PartialShape> ShapeInput(const KernelContext& context, int index) {
  return ReadElementShape(context.input(index));
}

absl::StatusOr<const TensorList*> ListInput(const KernelContext& context, int index, DType dtype) {
  WEIR_ASSIGN_OR_RETURN(const TensorList* list, VariantInput<TensorList>(context, index));
  WEIR_RETURN_IF_ERROR(list->CheckIs(dtype));
  return list;
}

Shape WithLeading(int64_t count, const Shape& shape) {
  Dims dims = {count};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(dims);
}

// The shape of elements [0, count) of a tensor. InvalidArgument for a scalar.
absl::StatusOr<Shape> RowShape(const Tensor& tensor) {
  if (tensor.shape().rank() > 0) return Shape(tensor.shape().dims().subspan(1));
  return absl::InvalidArgumentError(
      absl::StrCat("Tensor must be at least a vector, but saw shape: ", tensor.shape().ToString()));
}

// Rows [begin, end) of `tensor`, of which a row has that many elements, in a tensor of their own.
absl::StatusOr<Tensor> CopyRows(const Tensor& tensor, int64_t begin, int64_t row_size, const Shape& shape,
                                KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(Tensor rows, context.AllocateTemporary(tensor.dtype(), shape));
  CopyElements(tensor, begin * row_size, rows, 0, shape.num_elements());
  return rows;
}

std::vector<int64_t> AllOf(const TensorList& list) {
  std::vector<int64_t> indices(list.length());
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Elements of one shape as one tensor. Precondition: valid indices.
absl::Status Stack(const TensorList& list, absl::Span<const int64_t> indices, const PartialShape& asked,
                   KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const PartialShape shape, list.ShapeOfElements(asked, indices));
  if (!shape.is_fully_known()) {
    return absl::InvalidArgumentError(
        absl::StrCat(indices.empty() ? "Tried to stack elements of an empty list with non-fully-defined "
                                     : "Tried to stack list which only contains uninitialized tensors and "
                                       "has a non-fully-defined ",
                     "element_shape: ", shape.ToString()));
  }
  const Shape element = shape.ToShape();
  Dims dims = {static_cast<int64_t>(indices.size())};
  dims.insert(dims.end(), element.dims().begin(), element.dims().end());
  WEIR_ASSIGN_OR_RETURN(const Shape whole, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, whole));
  const int64_t count = element.num_elements();
  for (size_t i = 0; i < indices.size(); ++i) {
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    const Tensor& from = list[indices[i]];
    if (from.is_valid()) {
      CopyElements(from, 0, *output, i * count, count);
    } else {
      ClearElements(*output, i * count, count);
    }
  }
  return absl::OkStatus();
}

absl::Status SetOutput(KernelContext& context, RefPtr<TensorList> list) {
  context.set_output(0, VariantOf(std::move(list)));
  return absl::OkStatus();
}

// A few bytes may ask for lists that take far more than they: these count on the device, as tensors do.
absl::StatusOr<RefPtr<Buffer>> RoomFor(KernelContext& context, int64_t num_bytes) {
  RefPtr<Buffer> room = context.device().host_allocator().Allocate(static_cast<size_t>(num_bytes));
  if (room) return room;
  return absl::ResourceExhaustedError(
      absl::StrCat("out of memory for lists that take ", num_bytes, " bytes"));
}

// Of that many elements, with room for them.
absl::Status ResizeWithRoom(KernelContext& context, int64_t length, TensorList* list) {
  if (length > list->length() && length <= TensorList::kMaxLength) {
    WEIR_ASSIGN_OR_RETURN(RefPtr<Buffer> room, RoomFor(context, TensorList::NumBytes(length)));
    list->HoldRoom(std::move(room));
  }
  return list->Resize(length);
}

class ListKernel : public Kernel {
 public:
  explicit ListKernel(const KernelConstruction& construction)
      : dtype_(construction.attr<DType>("element_dtype")) {}

 protected:
  const DType dtype_;
};

class Empty final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, ShapeInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(const int64_t maximum, ReadInteger(context.input(1), "max_num_elements"));
    RefPtr<TensorList> list = MakeRef<TensorList>(dtype_, shape);
    list->set_max_length(maximum);
    return SetOutput(context, std::move(list));
  }
};

class Reserve final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, ShapeInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(const int64_t length, ReadInteger(context.input(1), "num_elements"));
    RefPtr<TensorList> list = MakeRef<TensorList>(dtype_, shape);
    WEIR_RETURN_IF_ERROR(ResizeWithRoom(context, length, list.get()));
    return SetOutput(context, std::move(list));
  }
};

class PushBack final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(ListInput(context, 0, dtype_).status());
    WEIR_ASSIGN_OR_RETURN(TensorList * list, MutableVariant<TensorList>(context, 0, 0));
    return list->PushBack(context.input(1));
  }
};

// The list that an element of a tensor of variants is. InvalidArgument when it is none, or of other elements.
absl::StatusOr<const TensorList*> ListAt(const Tensor& lists, int64_t i, DType dtype) {
  const auto* list = dynamic_cast<const TensorList*>(lists.flat<ResourceHandle>()[i].resource.get());
  if (list == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("Input handle at index ", i, " is not a list: the handles are ", lists.ToString(4)));
  }
  WEIR_RETURN_IF_ERROR(list->CheckIs(dtype));
  return list;
}

class PushBackBatch final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    const Tensor &lists = context.input(0), &tensor = context.input(1);
    WEIR_RETURN_IF_ERROR(Check(lists.shape(), tensor.shape()));
    const Shape row(tensor.shape().dims().subspan(1));
    int64_t num_bytes = 0;
    for (int64_t i = 0; i < lists.num_elements(); ++i) {
      WEIR_ASSIGN_OR_RETURN(const TensorList* given, ListAt(lists, i, dtype_));
      num_bytes += given->NumBytesOfLongerCopy();
    }
    WEIR_ASSIGN_OR_RETURN(const RefPtr<Buffer> room, RoomFor(context, num_bytes));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, lists.shape()));
    for (int64_t i = 0; i < lists.num_elements(); ++i) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      WEIR_ASSIGN_OR_RETURN(const TensorList* given, ListAt(lists, i, dtype_));
      WEIR_ASSIGN_OR_RETURN(Tensor element, CopyRows(tensor, i, row.num_elements(), row, context));
      RefPtr<TensorList> list = MakeRef<TensorList>(*given);
      list->HoldRoom(room);
      WEIR_RETURN_IF_ERROR(list->PushBack(std::move(element)));
      output->flat<ResourceHandle>()[i].resource = std::move(list);
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status Check(const Shape& lists, const Shape& tensor) {
    if (tensor.rank() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected tensor to be at least a vector, but saw shape: ", tensor.ToString()));
    }
    if (lists.rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected input_handles to be a vector, but saw shape: ", lists.ToString()));
    }
    if (lists.dim(0) == tensor.dim(0)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("Expected tensor.shape[0] == input_handles.size, but saw ",
                                                   tensor.dim(0), " vs. ", lists.dim(0)));
  }
};

class PopBack final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const TensorList* given, ListInput(context, 0, dtype_));
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, ShapeInput(context, 1));
    if (given->length() == 0) return absl::InvalidArgumentError("Trying to pop from an empty list.");
    WEIR_ASSIGN_OR_RETURN(Tensor last, given->Element(given->length() - 1, shape, context));
    WEIR_ASSIGN_OR_RETURN(TensorList * list, MutableVariant<TensorList>(context, 0, 0));
    WEIR_RETURN_IF_ERROR(list->PopBack().status());
    context.set_output(1, std::move(last));
    return absl::OkStatus();
  }
};

class SetItem final : public ListKernel {
 public:
  explicit SetItem(const KernelConstruction& construction)
      : ListKernel(construction), grows_(construction.attr<bool>("resize_if_index_out_of_bounds")) {}
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const TensorList* given, ListInput(context, 0, dtype_));
    WEIR_ASSIGN_OR_RETURN(const int64_t index, ReadInteger(context.input(1), "index"));
    const bool must_grow = grows_ && index >= given->length();
    if (!must_grow) WEIR_RETURN_IF_ERROR(given->CheckIndex(index));
    WEIR_ASSIGN_OR_RETURN(TensorList * list, MutableVariant<TensorList>(context, 0, 0));
    if (must_grow) WEIR_RETURN_IF_ERROR(ResizeWithRoom(context, index + 1, list));
    return list->Set(index, context.input(2));
  }

 private:
  const bool grows_;
};

class GetItem final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const TensorList* list, ListInput(context, 0, dtype_));
    WEIR_ASSIGN_OR_RETURN(const int64_t index, ReadInteger(context.input(1), "index"));
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, ShapeInput(context, 2));
    WEIR_ASSIGN_OR_RETURN(Tensor element, list->Element(index, shape, context));
    context.set_output(0, std::move(element));
    return absl::OkStatus();
  }
};

class StackAll final : public ListKernel {
 public:
  explicit StackAll(const KernelConstruction& construction)
      : ListKernel(construction), length_(construction.attr<int64_t>("num_elements")) {}
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const TensorList* list, ListInput(context, 0, dtype_));
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, ShapeInput(context, 1));
    if (length_ >= 0 && list->length() != length_) {
      return absl::InvalidArgumentError(absl::StrCat("Operation expected a list with ", length_,
                                                     " elements but got a list with ", list->length(),
                                                     " elements."));
    }
    return Stack(*list, AllOf(*list), shape, context);
  }

 private:
  const int64_t length_;
};

class Gather final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const TensorList* list, ListInput(context, 0, dtype_));
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, ShapeInput(context, 2));
    std::vector<int64_t> indices;
    for (const int32_t index : context.input(1).flat<int32_t>()) {
      WEIR_RETURN_IF_ERROR(list->CheckIndex(index));
      indices.push_back(index);
    }
    return Stack(*list, indices, shape, context);
  }
};

class FromTensor final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    const Tensor& tensor = context.input(0);
    WEIR_ASSIGN_OR_RETURN(const Shape row, RowShape(tensor));
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, ShapeInput(context, 1));
    RefPtr<TensorList> list = MakeRef<TensorList>(dtype_, shape);
    WEIR_RETURN_IF_ERROR(ResizeWithRoom(context, tensor.shape().dim(0), list.get()));
    for (int64_t i = 0; i < list->length(); ++i) {
      WEIR_ASSIGN_OR_RETURN(Tensor element, CopyRows(tensor, i, row.num_elements(), row, context));
      WEIR_RETURN_IF_ERROR(list->Set(i, std::move(element)));
    }
    return SetOutput(context, std::move(list));
  }
};

absl::Status Length(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const TensorList* list, VariantInput<TensorList>(context, 0));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  output->flat<int32_t>()[0] = static_cast<int32_t>(list->length());
  return absl::OkStatus();
}

absl::Status ElementShape(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const TensorList* list, VariantInput<TensorList>(context, 0));
  const PartialShape& shape = list->element_shape();
  const Dims dims = shape.has_rank() ? Dims(shape.dims().begin(), shape.dims().end()) : Dims{-1};
  if (context.output_type(0) == DType::kInt32 && std::any_of(dims.begin(), dims.end(), [](int64_t dim) {
        return dim > std::numeric_limits<int32_t>::max();
      })) {
    return absl::InvalidArgumentError(
        absl::StrCat("element shape ", shape.ToString(), " has a dimension that is no int32"));
  }
  WEIR_ASSIGN_OR_RETURN(
      Tensor * output,
      context.AllocateOutput(0, shape.has_rank() ? Shape({static_cast<int64_t>(dims.size())}) : Shape()));
  WriteIntegers(dims, *output);
  return absl::OkStatus();
}

absl::Status ResizeList(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const int64_t length, ReadInteger(context.input(1), "size"));
  WEIR_ASSIGN_OR_RETURN(TensorList * list, MutableVariant<TensorList>(context, 0, 0));
  return ResizeWithRoom(context, length, list);
}

// Row i of `tensor` becomes element indices[i].
absl::Status ScatterRows(const Tensor& tensor, const Tensor& indices, KernelContext& context,
                         TensorList* list) {
  WEIR_ASSIGN_OR_RETURN(const Shape row, RowShape(tensor));
  if (indices.shape().rank() != 1 || tensor.shape().dim(0) != indices.num_elements()) {
    return absl::InvalidArgumentError(absl::StrCat("Specified ", indices.num_elements(), " indices in ",
                                                   indices.shape().ToString(), ", but tensor is ",
                                                   tensor.shape().ToString()));
  }
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    WEIR_ASSIGN_OR_RETURN(Tensor element, CopyRows(tensor, i, row.num_elements(), row, context));
    WEIR_RETURN_IF_ERROR(list->Set(indices.flat<int32_t>()[i], std::move(element)));
  }
  return absl::OkStatus();
}

template <bool has_length>
class Scatter final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    const Tensor& indices = context.input(1);
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, ShapeInput(context, 2));
    int64_t length = -1, highest = -1;
    for (const int32_t index : indices.flat<int32_t>()) {
      if (index < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("Indices in TensorListScatter must all be non-negative, one is ", index));
      }
      highest = std::max<int64_t>(highest, index);
    }
    if (has_length) {
      WEIR_ASSIGN_OR_RETURN(length, ReadInteger(context.input(3), "num_elements"));
      if (length < -1 || (length >= 0 && highest >= length)) {
        return absl::InvalidArgumentError(
            absl::StrCat("TensorListScatter: index ", highest, " in a list of num_elements ", length));
      }
    }
    RefPtr<TensorList> list = MakeRef<TensorList>(dtype_, shape);
    WEIR_RETURN_IF_ERROR(ResizeWithRoom(context, length >= 0 ? length : highest + 1, list.get()));
    WEIR_RETURN_IF_ERROR(ScatterRows(context.input(0), indices, context, list.get()));
    return SetOutput(context, std::move(list));
  }
};

class ScatterIntoExisting final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const TensorList* given, ListInput(context, 0, dtype_));
    int64_t highest = given->length() - 1;
    for (const int32_t index : context.input(2).flat<int32_t>()) highest = std::max<int64_t>(highest, index);
    WEIR_ASSIGN_OR_RETURN(TensorList * list, MutableVariant<TensorList>(context, 0, 0));
    WEIR_RETURN_IF_ERROR(ResizeWithRoom(context, highest + 1, list));
    return ScatterRows(context.input(1), context.input(2), context, list);
  }
};

// Elements one behind the other along their first dimension, and how long each is there.
class Concat final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const TensorList* list, ListInput(context, 0, dtype_));
    WEIR_ASSIGN_OR_RETURN(const Parts parts, PartsOf(context, *list));
    Dims dims = {parts.total};
    dims.insert(dims.end(), parts.row.dims().begin(), parts.row.dims().end());
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, shape));
    const int64_t row_size = parts.row.num_elements();
    int64_t begin = 0;
    for (int64_t i = 0; i < list->length(); ++i) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      const Tensor& element = (*list)[i];
      const int64_t length = parts.lengths[i];
      if (element.is_valid()) {
        CopyElements(element, 0, *output, begin * row_size, length * row_size);
      } else {
        ClearElements(*output, begin * row_size, length * row_size);
      }
      begin += length;
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * lengths, context.AllocateOutput(1, Shape({list->length()})));
    std::copy(parts.lengths.begin(), parts.lengths.end(), lengths->flat<int64_t>().begin());
    return absl::OkStatus();
  }

 private:
  struct Parts {
    Shape row;
    std::vector<int64_t> lengths;
    int64_t total = 0;
  };

  // An element that is missing is as long as leading_dims says or, where that says nothing, as element_shape
  // and the other elements.
  static absl::StatusOr<Parts> PartsOf(KernelContext& context, const TensorList& list) {
    WEIR_ASSIGN_OR_RETURN(const PartialShape asked, ShapeInput(context, 1));
    WEIR_ASSIGN_OR_RETURN(const PartialShape element_shape, list.ShapeOfElements(asked));
    const Tensor& leading = context.input(2);
    int64_t usual_length = -1;
    PartialShape row;
    if (element_shape.has_rank()) {
      if (element_shape.rank() == 0)
        return absl::InvalidArgumentError("Concat requires elements to be at least vectors");
      usual_length = element_shape.dim(0);
      WEIR_ASSIGN_OR_RETURN(row, PartialShape::FromDims(element_shape.dims().subspan(1)));
    }
    Parts parts;
    for (int64_t i = 0; i < list.length(); ++i) {
      const Tensor& element = list[i];
      int64_t length = usual_length;
      if (element.is_valid()) {
        WEIR_ASSIGN_OR_RETURN(const Shape rest, RowShape(element));
        WEIR_ASSIGN_OR_RETURN(row, row.MergeWith(PartialShape(rest)));
        length = element.shape().dim(0);
      } else if (i < leading.num_elements() && leading.flat<int64_t>()[i] >= 0) {
        length = leading.flat<int64_t>()[i];
      } else if (length < 0) {
        WEIR_ASSIGN_OR_RETURN(const PartialShape usual, list.ShapeOfElements(asked, AllOf(list)));
        if (usual.has_rank() && usual.rank() > 0) length = usual_length = usual.dim(0);
      }
      if (length < 0) {
        return absl::InvalidArgumentError(absl::StrCat("List contains uninitialized tensor at index ", i,
                                                       " but leading_dims has no length for it"));
      }
      if (length > std::numeric_limits<int64_t>::max() - parts.total) {
        return absl::InvalidArgumentError("leading_dims are together more than an int64 can count");
      }
      parts.total += length;
      parts.lengths.push_back(length);
    }
    if (!row.is_fully_known()) {
      return absl::InvalidArgumentError(
          absl::StrCat("All except the first dimension must be fully defined when concating an empty tensor "
                       "list. element_shape: ",
                       row.ToString()));
    }
    parts.row = row.ToShape();
    return parts;
  }
};

class Split final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    const Tensor& tensor = context.input(0);
    const Tensor& lengths = context.input(2);
    WEIR_ASSIGN_OR_RETURN(const Shape row, RowShape(tensor));
    WEIR_ASSIGN_OR_RETURN(const PartialShape shape, ShapeInput(context, 1));
    if (lengths.shape().rank() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected lengths to be a vector, received shape: ", lengths.shape().ToString()));
    }
    RefPtr<TensorList> list = MakeRef<TensorList>(dtype_, shape);
    WEIR_RETURN_IF_ERROR(ResizeWithRoom(context, lengths.num_elements(), list.get()));
    int64_t begin = 0;
    for (int64_t i = 0; i < list->length(); ++i) {
      const int64_t length = lengths.flat<int64_t>()[i];
      if (length < 0 || length > tensor.shape().dim(0) - begin) {
        return absl::InvalidArgumentError(absl::StrCat("Attempting to slice [", begin, ", +", length,
                                                       ") from tensor with ", tensor.shape().dim(0),
                                                       " rows"));
      }
      WEIR_ASSIGN_OR_RETURN(Tensor element,
                            CopyRows(tensor, begin, row.num_elements(), WithLeading(length, row), context));
      WEIR_RETURN_IF_ERROR(list->Set(i, std::move(element)));
      begin += length;
    }
    if (begin != tensor.shape().dim(0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Unused values in tensor. Length of tensor: ", tensor.shape().dim(0), " Values used: ", begin));
    }
    return SetOutput(context, std::move(list));
  }
};

class ConcatLists final : public ListKernel {
 public:
  using ListKernel::ListKernel;
  absl::Status Compute(KernelContext& context) override {
    WEIR_RETURN_IF_ERROR(Check(context.input(0), context.input(1)));
    std::vector<const TensorList*> given;
    for (int64_t i = 0; i < context.input(0).num_elements(); ++i) {
      WEIR_ASSIGN_OR_RETURN(const TensorList* list, ListAt(context.input(0), i, dtype_));
      given.push_back(list);
    }
    WEIR_ASSIGN_OR_RETURN(Tensor * output, context.ForwardOrAllocateOutput({0}, 0, context.input(0).shape()));
    for (size_t i = 0; i < given.size(); ++i) {
      if (context.cancellation().is_cancelled()) return context.cancellation().reason();
      WEIR_ASSIGN_OR_RETURN(const TensorList* more,
                            ListAt(context.input(1), static_cast<int64_t>(i), dtype_));
      RefPtr<Resource>& held = output->flat<ResourceHandle>()[static_cast<int64_t>(i)].resource;
      // In place, the list is there already.
      if (held.get() != given[i])
        held = context.input(0).flat<ResourceHandle>()[static_cast<int64_t>(i)].resource;
      WEIR_RETURN_IF_ERROR(Join(context, *more, held));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Check(const Tensor& lists, const Tensor& more) const {
    if (!(lists.shape() == more.shape())) {
      return absl::InvalidArgumentError(
          absl::StrCat("Incompatible input TensorList tensor shapes: ", lists.shape().ToString(), " vs. ",
                       more.shape().ToString()));
    }
    for (int64_t i = 0; i < lists.num_elements(); ++i) {
      WEIR_ASSIGN_OR_RETURN(const TensorList* a, ListAt(lists, i, dtype_));
      WEIR_ASSIGN_OR_RETURN(const TensorList* b, ListAt(more, i, dtype_));
      if (a->element_shape() == b->element_shape()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("input_a and input_b TensorList element shapes are not identical at index ", i,
                       ".  Saw ", a->element_shape().ToString(), " vs. ", b->element_shape().ToString()));
    }
    return absl::OkStatus();
  }

  // `held`: a list, which is changed when nobody else has it. `more` may be the list itself, which is then
  // shared, so that the longer one is a copy.
  static absl::Status Join(KernelContext& context, const TensorList& more, RefPtr<Resource>& held) {
    const auto* const list = static_cast<const TensorList*>(held.get());
    const int64_t begin = list->length(), count = more.length();
    if (count == 0) return absl::OkStatus();
    if (!held->has_one_owner()) held = MakeRef<TensorList>(*list);
    auto* const longer = static_cast<TensorList*>(held.get());
    WEIR_RETURN_IF_ERROR(ResizeWithRoom(context, begin + count, longer));
    for (int64_t i = 0; i < count; ++i) {
      const Tensor& element = more[i];
      if (element.is_valid()) WEIR_RETURN_IF_ERROR(longer->Set(begin + i, element));
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterTensorListsKernels(DeviceKernels& kernels) {
  kernels.Add<Empty>("EmptyTensorList");
  kernels.Add<Reserve>("TensorListReserve");
  kernels.Add<PushBack>("TensorListPushBack");
  kernels.Add<PushBackBatch>("TensorListPushBackBatch");
  kernels.Add<PopBack>("TensorListPopBack");
  kernels.Add<SetItem>("TensorListSetItem");
  kernels.Add<GetItem>("TensorListGetItem");
  kernels.Add<StackAll>("TensorListStack");
  kernels.Add<Gather>("TensorListGather");
  kernels.Add<FromTensor>("TensorListFromTensor");
  kernels.Add<&Length>("TensorListLength");
  kernels.Add<&ElementShape>("TensorListElementShape");
  kernels.Add<&ResizeList>("TensorListResize");
  kernels.Add<Scatter</*has_length=*/false>>("TensorListScatter");
  kernels.Add<Scatter</*has_length=*/true>>("TensorListScatterV2");
  kernels.Add<ScatterIntoExisting>("TensorListScatterIntoExistingList");
  kernels.Add<Concat>("TensorListConcatV2");
  kernels.Add<Split>("TensorListSplit");
  kernels.Add<ConcatLists>("TensorListConcatLists");
}

}  // namespace weir
