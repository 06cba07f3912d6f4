#include "kernels/cpu/data_flow/tensor_list.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/strided_copy.h"

namespace weir {
namespace {

absl::StatusOr<PartialShape> Merged(const PartialShape& a, const PartialShape& b) {
  absl::StatusOr<PartialShape> both = a.MergeWith(b);
  if (both.ok()) return both;
  return absl::InvalidArgumentError(
      absl::StrCat("Incompatible shapes of a list's elements: ", a.ToString(), " vs. ", b.ToString()));
}

}  // namespace

std::vector<Tensor> TensorList::tensors() const {
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < length_; ++i) {
    if ((*this)[i].is_valid()) tensors.push_back((*this)[i]);
  }
  return tensors;
}

std::string TensorList::ToString() const {
  return absl::StrCat("TensorList of ", length(), " ", TypeString(dtype_, element_shape_));
}

int64_t TensorList::NumBytes(int64_t length) {
  const int64_t num_chunks = (length + kChunkLength - 1) / kChunkLength;
  return static_cast<int64_t>(sizeof(TensorList)) + length * static_cast<int64_t>(sizeof(Tensor)) +
         num_chunks * static_cast<int64_t>(sizeof(Chunk) + sizeof(RefPtr<Chunk>));
}

int64_t TensorList::NumBytesOfLongerCopy() const {
  return NumBytes(length_ % kChunkLength + 1) +
         length_ / kChunkLength * static_cast<int64_t>(sizeof(RefPtr<Chunk>));
}

absl::Status TensorList::CheckIs(DType dtype) const {
  if (dtype == dtype_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Invalid data types; op elements ", DTypeName(dtype),
                                                 " but list elements ", DTypeName(dtype_)));
}

absl::Status TensorList::CheckFits(const Tensor& element) const {
  WEIR_RETURN_IF_ERROR(CheckIs(element.dtype()));
  if (element_shape_.IsCompatibleWith(PartialShape(element.shape()))) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Tried to set or append a tensor with incompatible shape to a list. Op element shape: ",
                   element.shape().ToString(), " list shape: ", element_shape_.ToString()));
}

absl::Status TensorList::CheckIndex(int64_t index) const {
  if (index >= 0 && index < length()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("Trying to access element ", index, " in a list with ", length(), " elements."));
}

absl::Status TensorList::Resize(int64_t length) {
  if (length < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("TensorList expects a length of at least 0, is asked for ", length));
  }
  if (length > kMaxLength) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a list of ", length, " elements; at most ", kMaxLength, " are possible"));
  }
  SetLength(length);
  return absl::OkStatus();
}

TensorList::Chunk& TensorList::MutableChunk(int64_t chunk) {
  RefPtr<Chunk>& held = chunks_[chunk];
  if (!held->has_one_owner()) {
    RefPtr<Chunk> copy = MakeRef<Chunk>();
    copy->elements = held->elements;
    held = std::move(copy);
  }
  return *held;
}

void TensorList::SetLength(int64_t length) {
  const auto num_chunks = static_cast<size_t>((length + kChunkLength - 1) / kChunkLength);
  const size_t num_whole = std::min(chunks_.size(), num_chunks);
  chunks_.resize(num_chunks);
  for (size_t i = num_whole; i < num_chunks; ++i) chunks_[i] = MakeRef<Chunk>();
  for (size_t i = num_whole == 0 ? 0 : num_whole - 1; i < num_chunks; ++i) {
    const int64_t begin = static_cast<int64_t>(i) * kChunkLength;
    const auto wanted = static_cast<size_t>(std::min(kChunkLength, length - begin));
    if (chunks_[i]->elements.size() != wanted) MutableChunk(static_cast<int64_t>(i)).elements.resize(wanted);
  }
  length_ = length;
}

absl::Status TensorList::Set(int64_t index, Tensor element) {
  WEIR_RETURN_IF_ERROR(CheckIndex(index));
  WEIR_RETURN_IF_ERROR(CheckFits(element));
  WEIR_ASSIGN_OR_RETURN(const int depth, DepthAround(element));
  depth_ = std::max(depth_, depth);
  refers_to_nobody_ = refers_to_nobody_ && RefersToNobody(element);
  Mutable(index) = std::move(element);
  return absl::OkStatus();
}

absl::Status TensorList::PushBack(Tensor element) {
  WEIR_RETURN_IF_ERROR(CheckFits(element));
  if (max_length_ >= 0 && length() >= max_length_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Tried to push item into a full list list size: ", length(), " max_num_elements: ", max_length_));
  }
  WEIR_RETURN_IF_ERROR(Resize(length() + 1));
  return Set(length() - 1, std::move(element));
}

absl::StatusOr<Tensor> TensorList::PopBack() {
  if (length_ == 0) return absl::InvalidArgumentError("Trying to pop from an empty list.");
  Tensor last = (*this)[length_ - 1];
  SetLength(length_ - 1);
  return last;
}

absl::StatusOr<PartialShape> TensorList::ShapeOfElements(const PartialShape& asked) const {
  return Merged(element_shape_, asked);
}

absl::StatusOr<PartialShape> TensorList::ShapeOfElements(const PartialShape& asked,
                                                         absl::Span<const int64_t> indices) const {
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, ShapeOfElements(asked));
  for (const int64_t index : indices) {
    const Tensor& element = (*this)[index];
    if (!element.is_valid()) continue;
    WEIR_ASSIGN_OR_RETURN(shape, Merged(shape, PartialShape(element.shape())));
  }
  return shape;
}

absl::StatusOr<Tensor> TensorList::Element(int64_t index, const PartialShape& asked,
                                           KernelContext& context) const {
  WEIR_RETURN_IF_ERROR(CheckIndex(index));
  if (const Tensor& element = (*this)[index]; element.is_valid()) return element;
  WEIR_ASSIGN_OR_RETURN(PartialShape shape, ShapeOfElements(asked));
  if (!shape.is_fully_known()) {
    for (int64_t i = 0; i < length_; ++i) {
      const Tensor& other = (*this)[i];
      if (!other.is_valid()) continue;
      WEIR_ASSIGN_OR_RETURN(shape, Merged(shape, PartialShape(other.shape())));
    }
  }
  if (!shape.is_fully_known()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Trying to read an uninitialized tensor but element_shape is not fully defined: element ", index,
        " of ", ToString()));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor zeros, context.AllocateTemporary(dtype_, shape.ToShape()));
  ClearElements(zeros, 0, zeros.num_elements());
  return zeros;
}

absl::StatusOr<RefPtr<VariantValue>> TensorList::ZerosLike(KernelContext& context) const {
  RefPtr<TensorList> zeros = MakeRef<TensorList>(*this);
  for (int64_t i = 0; i < length_; ++i) {
    const Tensor& element = (*this)[i];
    if (!element.is_valid()) continue;
    WEIR_ASSIGN_OR_RETURN(zeros->Mutable(i), ZerosLikeTensor(element, context));
  }
  return RefPtr<VariantValue>(std::move(zeros));
}

absl::StatusOr<RefPtr<VariantValue>> TensorList::Add(const VariantValue& other,
                                                     KernelContext& context) const {
  const auto* const list = dynamic_cast<const TensorList*>(&other);
  if (list == nullptr || list->dtype_ != dtype_ || list->length() != length()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot add ", other.ToString(), " to ", ToString()));
  }
  RefPtr<TensorList> sum = MakeRef<TensorList>(*this);
  WEIR_ASSIGN_OR_RETURN(sum->element_shape_, element_shape_.MergeWith(list->element_shape_));
  for (int64_t i = 0; i < length_; ++i) {
    const Tensor& element = (*this)[i];
    const Tensor& more = (*list)[i];
    if (!more.is_valid()) continue;  // zeros
    if (element.is_valid()) {
      WEIR_ASSIGN_OR_RETURN(sum->Mutable(i), AddTensors(element, more, context));
    } else {
      sum->Mutable(i) = more;
    }
  }
  sum->depth_ = std::max(depth_, list->depth_);
  sum->refers_to_nobody_ = refers_to_nobody_ && list->refers_to_nobody_;
  return RefPtr<VariantValue>(std::move(sum));
}

}  // namespace weir
