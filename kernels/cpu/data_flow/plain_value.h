// A value of a variant that may be made of numbers and strings alone, as ragged and sparse tensors, lists and
// optionals are. Such a one refers to nobody, so that whoever holds it cannot come to hold itself.
#pragma once

#include <vector>

#include "kernels/cpu/data_flow/variant_value.h"

namespace weir {

class PlainValue : public VariantValue {
 public:
  // In constant time: values may lie in one another in more ways than can be counted (variant_value.h).
  virtual bool refers_to_nobody() const = 0;
  // What it is made of. They share their buffers with it.
  virtual std::vector<Tensor> tensors() const = 0;
};

inline bool IsPlain(DType dtype) { return dtype != DType::kResource && dtype != DType::kVariant; }

// Whether no element of `tensor` refers to anybody.
inline bool RefersToNobody(const Tensor& tensor) {
  if (tensor.dtype() != DType::kVariant) return IsPlain(tensor.dtype());
  for (const ResourceHandle& element : tensor.flat<ResourceHandle>()) {
    if (element.resource == nullptr) continue;
    const auto* const value = dynamic_cast<const PlainValue*>(element.resource.get());
    if (value == nullptr || !value->refers_to_nobody()) return false;
  }
  return true;
}

}  // namespace weir
