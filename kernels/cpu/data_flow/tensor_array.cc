#include "kernels/cpu/data_flow/tensor_array.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/plain_value.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device.h"

namespace weir {

Tensor HandleOfStepResource(const std::string& device, const std::string& name, const std::string& type_name,
                            RefPtr<Resource> resource) {
  ResourceHandle handle;
  handle.device = device;
  handle.name = name;
  handle.type_name = type_name;
  handle.resource = std::move(resource);
  return Tensor::Scalar(std::move(handle));
}

absl::StatusOr<RefPtr<TensorArray>> TensorArray::Create(TensorArraySpec spec, int64_t length,
                                                        KernelContext& context) {
  RefPtr<TensorArray> array = MakeRef<TensorArray>(std::move(spec));
  const absl::MutexLock lock(&array->mutex_);
  WEIR_RETURN_IF_ERROR(array->GrowTo(length, context));
  return array;
}

std::string TensorArray::ToString() const {
  return absl::StrCat("TensorArray '", spec_.name, "' of ", DTypeName(spec_.dtype));
}

PartialShape TensorArray::element_shape() const {
  const absl::MutexLock lock(&mutex_);
  return element_shape_;
}

absl::Status TensorArray::CheckIsOpen() const {
  if (!is_closed_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("TensorArray ", spec_.name, " has already been closed."));
}

absl::Status TensorArray::GrowTo(int64_t length, KernelContext& context) {
  if (length < 0) {
    return absl::InvalidArgumentError(absl::StrCat("Size should be >= 0: ", ToString(), " of size ", length));
  }
  if (length > kMaxLength) {
    return absl::ResourceExhaustedError(
        absl::StrCat(ToString(), " would have ", length, " elements; at most ", kMaxLength, " are possible"));
  }
  if (length <= static_cast<int64_t>(elements_.size())) return absl::OkStatus();
  if (static_cast<size_t>(length) > elements_.capacity()) {
    const size_t capacity = std::max(static_cast<size_t>(length), 2 * elements_.capacity());
    RefPtr<Buffer> room = context.device().host_allocator().Allocate(capacity * sizeof(Element));
    if (!room) {
      return absl::ResourceExhaustedError(
          absl::StrCat("out of memory for the ", length, " elements of ", ToString()));
    }
    room_ = std::move(room);
    elements_.reserve(capacity);
  }
  elements_.resize(length);
  return absl::OkStatus();
}

absl::Status TensorArray::Write(int64_t index, const Tensor& value, KernelContext& context) {
  if (!RefersToNobody(value)) {
    return absl::UnimplementedError(absl::StrCat(
        ToString(), " holds numbers, strings and values made of these, not ", value.ToString(4)));
  }
  const absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(CheckIsOpen());
  const auto size = static_cast<int64_t>(elements_.size());
  const bool may_grow = spec_.is_dynamic && !is_fixed_;
  if (index < 0 || (index >= size && !may_grow)) {
    return absl::InvalidArgumentError(absl::StrCat("Tried to write to index ", index, " but array is not ",
                                                   "resizeable and size is: ", size));
  }
  if (value.dtype() != spec_.dtype) {
    return absl::InvalidArgumentError(absl::StrCat("TensorArray dtype is ", DTypeName(spec_.dtype),
                                                   " but Op is trying to write dtype ",
                                                   DTypeName(value.dtype()), "."));
  }
  const absl::string_view could_not = "Could not write to TensorArray index ";
  if (!element_shape_.IsCompatibleWith(PartialShape(value.shape()))) {
    return absl::InvalidArgumentError(absl::StrCat(
        could_not, index, " because the value shape is ", value.shape().ToString(),
        " which is incompatible with the TensorArray's inferred element shape: ", element_shape_.ToString(),
        " (consider setting infer_shape=False)."));
  }
  WEIR_RETURN_IF_ERROR(GrowTo(index + 1, context));
  Element& element = elements_[index];
  if (element.is_read) {
    return absl::InvalidArgumentError(absl::StrCat(could_not, index, " because it has already been read."));
  }
  if (!element.is_written) {
    element.value = value;
  } else if (adds_up_) {
    WEIR_ASSIGN_OR_RETURN(element.value, AddTensors(element.value, value, context));
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(could_not, index, " because it has already been written to."));
  }
  if (spec_.has_identical_shapes && !element_shape_.is_fully_known()) element_shape_ = value.shape();
  element.shape = value.shape();
  element.has_shape = element.is_written = true;
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorArray::Zeros(int64_t index, KernelContext& context) {
  const Element& element = elements_[index];
  if (!element.has_shape && !element_shape_.is_fully_known()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Could not read from TensorArray index ", index,
                     ", which was not written.  Furthermore, the element shape is not fully defined: ",
                     element_shape_.ToString()));
  }
  const Shape shape = element.has_shape ? element.shape : element_shape_.ToShape();
  WEIR_ASSIGN_OR_RETURN(Tensor zeros, context.AllocateTemporary(spec_.dtype, shape));
  ClearElements(zeros, 0, zeros.num_elements());
  return zeros;
}

absl::StatusOr<Tensor> TensorArray::Read(int64_t index, KernelContext& context) {
  const absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(CheckIsOpen());
  if (index < 0 || index >= static_cast<int64_t>(elements_.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("Tried to read from index ", index, " but array size is: ", elements_.size()));
  }
  Element& element = elements_[index];
  if (element.is_cleared) {
    return absl::InvalidArgumentError(absl::StrCat("Could not read index ", index,
                                                   " twice because it was cleared after a previous read ",
                                                   "(perhaps try setting clear_after_read = false?)."));
  }
  element.is_read = true;
  element.is_cleared = spec_.clear_after_read;
  if (!element.is_written) return Zeros(index, context);
  if (!spec_.clear_after_read) return element.value;
  return std::move(element.value);
}

bool TensorArray::may_grow() const {
  const absl::MutexLock lock(&mutex_);
  return spec_.is_dynamic && !is_fixed_;
}

absl::StatusOr<int64_t> TensorArray::Length() {
  const absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(CheckIsOpen());
  return static_cast<int64_t>(elements_.size());
}

void TensorArray::Close() {
  const absl::MutexLock lock(&mutex_);
  is_closed_ = true;
  elements_.clear();
  gradients_.clear();
}

namespace {

Dims WithLeading(absl::Span<const int64_t> leading, absl::Span<const int64_t> dims) {
  Dims all(leading.begin(), leading.end());
  all.insert(all.end(), dims.begin(), dims.end());
  return all;
}

}  // namespace

absl::StatusOr<RefPtr<TensorArray>> TensorArray::Gradient(const std::string& source,
                                                          absl::Span<const int64_t> leading,
                                                          KernelContext& context) {
  const absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(CheckIsOpen());
  if (const auto known = gradients_.find(source); known != gradients_.end()) return known->second;
  if (depth_ >= kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToString(), " is a gradient of gradients, ", depth_, " deep"));
  }
  TensorArraySpec spec = spec_;
  spec.name = absl::StrCat(spec_.name, "@", source);
  spec.element_shape = element_shape_;
  if (element_shape_.has_rank()) {
    WEIR_ASSIGN_OR_RETURN(spec.element_shape,
                          PartialShape::FromDims(WithLeading(leading, element_shape_.dims())));
  }
  spec.is_dynamic = false;
  spec.clear_after_read = true;
  RefPtr<TensorArray> gradient = MakeRef<TensorArray>(std::move(spec));
  gradient->adds_up_ = true;
  gradient->depth_ = depth_ + 1;
  {
    const absl::MutexLock gradient_lock(&gradient->mutex_);
    WEIR_RETURN_IF_ERROR(gradient->GrowTo(static_cast<int64_t>(elements_.size()), context));
    for (size_t i = 0; i < elements_.size(); ++i) {
      if (!elements_[i].has_shape) continue;
      gradient->elements_[i].has_shape = true;
      WEIR_ASSIGN_OR_RETURN(gradient->elements_[i].shape,
                            Shape::FromDims(WithLeading(leading, elements_[i].shape.dims())));
    }
  }
  is_fixed_ = true;
  gradients_.emplace(source, gradient);
  return gradient;
}

}  // namespace weir
