// A variant that is a tensor: a part of a sparse tensor on its way through batches and input pipelines.
//
// Immutable; safe from any thread.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/data_flow/plain_value.h"

namespace weir {

class HeldTensor final : public PlainValue {
 public:
  static constexpr char kTypeName[] = "Tensor";

  HeldTensor(Tensor tensor, int depth) : tensor_(std::move(tensor)), depth_(depth) {}

  std::string ToString() const override { return absl::StrCat("Tensor ", tensor_.ToString(4)); }
  int depth() const override { return depth_; }
  bool refers_to_nobody() const override { return IsPlain(tensor_.dtype()); }
  std::vector<Tensor> tensors() const override { return {tensor_}; }
  const Tensor& tensor() const { return tensor_; }

  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext& context) const override {
    WEIR_ASSIGN_OR_RETURN(Tensor zeros, ZerosLikeTensor(tensor_, context));
    return RefPtr<VariantValue>(MakeRef<HeldTensor>(std::move(zeros), depth_));
  }
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other, KernelContext& context) const override {
    const auto* const held = dynamic_cast<const HeldTensor*>(&other);
    if (held == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("cannot add ", other.ToString(), " to ", ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor sum, AddTensors(tensor_, held->tensor_, context));
    return RefPtr<VariantValue>(MakeRef<HeldTensor>(std::move(sum), std::max(depth_, held->depth_)));
  }

 private:
  const Tensor tensor_;
  const int depth_;
};

}  // namespace weir
