// A variant that is a ragged tensor: its row splits, from the outermost dimension on, and its values. One
// without splits is a row.
//
// Immutable; safe from any thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/plain_value.h"

namespace weir {

class RaggedTensor final : public PlainValue {
 public:
  static constexpr char kTypeName[] = "RaggedTensor";

  RaggedTensor(std::vector<Tensor> splits, Tensor values)
      : splits_(std::move(splits)), values_(std::move(values)) {}

  std::string ToString() const override {
    return absl::StrCat("RaggedTensor of rank ", splits_.size(), " with values ",
                        TypeString(values_.dtype(), values_.shape()));
  }
  int depth() const override { return 1; }
  bool refers_to_nobody() const override { return IsPlain(values_.dtype()); }
  std::vector<Tensor> tensors() const override {
    std::vector<Tensor> all = splits_;
    all.push_back(values_);
    return all;
  }
  const std::vector<Tensor>& splits() const { return splits_; }
  const Tensor& values() const { return values_; }

  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext& context) const override {
    WEIR_ASSIGN_OR_RETURN(Tensor zeros, ZerosLikeTensor(values_, context));
    return RefPtr<VariantValue>(MakeRef<RaggedTensor>(splits_, std::move(zeros)));
  }

  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other, KernelContext& context) const override {
    const auto* const ragged = dynamic_cast<const RaggedTensor*>(&other);
    if (ragged == nullptr || ragged->splits_.size() != splits_.size() ||
        ragged->values_.dtype() != values_.dtype() || ragged->values_.shape() != values_.shape()) {
      return absl::InvalidArgumentError(absl::StrCat("cannot add ", other.ToString(), " to ", ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(Tensor sum, AddTensors(values_, ragged->values_, context));
    return RefPtr<VariantValue>(MakeRef<RaggedTensor>(splits_, std::move(sum)));
  }

 private:
  const std::vector<Tensor> splits_;
  const Tensor values_;
};

}  // namespace weir
