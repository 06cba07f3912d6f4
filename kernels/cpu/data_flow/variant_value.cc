#include "kernels/cpu/data_flow/variant_value.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "kernels/cpu/data_flow/held_resource.h"
#include "kernels/cpu/math/arithmetic.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/cpu/widened.h"
#include "kernels/cpu/with_dtype.h"

namespace weir {
namespace {

const VariantValue* ValueOf(const ResourceHandle& element) {
  return dynamic_cast<const VariantValue*>(element.resource.get());
}

// What has been computed within the outermost ZerosLikeTensor or AddTensors of this thread: values call them
// for what lies in them. A value that lies in several places is computed once, and the result shares as its
// inputs do: a list that was pushed into itself n times has 2^n places, and n lists.
class KnownValues {
 public:
  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(const VariantValue& value, KernelContext& context) {
    return Find({&value, nullptr}, context, [&] { return value.ZerosLike(context); });
  }
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& a, const VariantValue& b,
                                           KernelContext& context) {
    return Find({&a, &b}, context, [&] { return a.Add(b, context); });
  }

 private:
  // The call's inputs hold them.
  using Operands = std::pair<const VariantValue*, const VariantValue*>;

  template <typename Compute>
  absl::StatusOr<RefPtr<VariantValue>> Find(Operands operands, KernelContext& context, Compute compute) {
    if (const auto known = values_.find(operands); known != values_.end()) return known->second;
    if (context.cancellation().is_cancelled()) return context.cancellation().reason();
    WEIR_ASSIGN_OR_RETURN(RefPtr<VariantValue> value, compute());
    values_.emplace(operands, value);
    return value;
  }

  absl::flat_hash_map<Operands, RefPtr<VariantValue>> values_;
};

thread_local KnownValues* outermost_values = nullptr;

// What is known in the outermost call of this thread, which may be this one.
class ValuesOfCall {
 public:
  ValuesOfCall() : is_outermost_(outermost_values == nullptr) {
    if (is_outermost_) outermost_values = &own_;
  }
  ~ValuesOfCall() {
    if (is_outermost_) outermost_values = nullptr;
  }
  ValuesOfCall(const ValuesOfCall&) = delete;
  ValuesOfCall& operator=(const ValuesOfCall&) = delete;

  KnownValues* operator->() const { return outermost_values; }

 private:
  const bool is_outermost_;
  KnownValues own_;
};

template <typename T>
T Sum(T x, T y) {
  return T(elementwise::Add()(ComputeType<T>(x), ComputeType<T>(y)));
}

}  // namespace

absl::Status CheckMayBeHeld(const Tensor& tensor) {
  if (tensor.dtype() != DType::kResource) return absl::OkStatus();
  for (const ResourceHandle& handle : tensor.flat<ResourceHandle>()) {
    const auto* const resource = dynamic_cast<const HoldingResource*>(handle.resource.get());
    if (resource == nullptr || !resource->is_anonymous()) continue;
    return absl::UnimplementedError(
        absl::StrCat("datasets, lists and optionals hold no handle of an anonymous iterator (of '",
                     handle.name, "'); they do of one with a name"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> DepthAround(const Tensor& tensor) {
  WEIR_RETURN_IF_ERROR(CheckMayBeHeld(tensor));
  int depth = 1;
  if (tensor.dtype() != DType::kVariant) return depth;
  for (const ResourceHandle& element : tensor.flat<ResourceHandle>()) {
    if (const VariantValue* value = ValueOf(element)) depth = std::max(depth, value->depth() + 1);
  }
  if (depth <= VariantValue::kMaxDepth) return depth;
  return absl::InvalidArgumentError(
      absl::StrCat("lists and optionals lie in each other more than ", VariantValue::kMaxDepth, " deep"));
}

Tensor VariantOf(RefPtr<VariantValue> value) {
  Tensor tensor(DType::kVariant, Shape());
  tensor.flat<ResourceHandle>()[0].resource = std::move(value);
  return tensor;
}

absl::StatusOr<Tensor> ZerosLikeTensor(const Tensor& tensor, KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(Tensor zeros, context.AllocateTemporary(tensor.dtype(), tensor.shape()));
  if (tensor.dtype() != DType::kVariant) {
    ClearElements(zeros, 0, zeros.num_elements());
    return zeros;
  }
  const ValuesOfCall known;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const VariantValue* const value = ValueOf(tensor.flat<ResourceHandle>()[i]);
    if (value == nullptr) continue;
    WEIR_ASSIGN_OR_RETURN(zeros.flat<ResourceHandle>()[i].resource, known->ZerosLike(*value, context));
  }
  return zeros;
}

absl::StatusOr<Tensor> AddTensors(const Tensor& a, const Tensor& b, KernelContext& context) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) {
    return absl::InvalidArgumentError(absl::StrCat("cannot add ", TypeString(a.dtype(), a.shape()), " and ",
                                                   TypeString(b.dtype(), b.shape())));
  }
  WEIR_ASSIGN_OR_RETURN(Tensor sum, context.AllocateTemporary(a.dtype(), a.shape()));
  if (a.dtype() == DType::kVariant) {
    const ValuesOfCall known;
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      const VariantValue* const x = ValueOf(a.flat<ResourceHandle>()[i]);
      const VariantValue* const y = ValueOf(b.flat<ResourceHandle>()[i]);
      if (x == nullptr || y == nullptr)
        return absl::InvalidArgumentError("cannot add a variant without a value");
      WEIR_ASSIGN_OR_RETURN(sum.flat<ResourceHandle>()[i].resource, known->Add(*x, *y, context));
    }
    return sum;
  }
  const bool is_number = WithNumericType(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::transform(a.flat<T>().begin(), a.flat<T>().end(), b.flat<T>().begin(), sum.flat<T>().begin(),
                   &Sum<T>);
  });
  if (is_number) return sum;
  return absl::InvalidArgumentError(absl::StrCat("cannot add tensors of ", DTypeName(a.dtype())));
}

}  // namespace weir
