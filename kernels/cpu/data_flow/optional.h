// An optional: some tensors, or none. What the branches of a conditional keep for its gradient, and what an
// iterator gives that may be at its end.
//
// Immutable; safe from any thread.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/data_flow/plain_value.h"

namespace weir {

class Optional final : public PlainValue {
 public:
  static constexpr char kTypeName[] = "Optional";

  Optional() = default;
  // `depth`: 1, or the largest of DepthAround the components.
  Optional(std::vector<Tensor> components, int depth)
      : has_value_(true),
        components_(std::move(components)),
        depth_(depth),
        refers_to_nobody_(std::all_of(components_.begin(), components_.end(), RefersToNobody)) {}

  std::string ToString() const override;
  int depth() const override { return depth_; }
  bool refers_to_nobody() const override { return refers_to_nobody_; }
  std::vector<Tensor> tensors() const override { return components_; }
  bool has_value() const { return has_value_; }
  const std::vector<Tensor>& components() const { return components_; }

  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext& context) const override;
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other, KernelContext& context) const override;

 private:
  bool has_value_ = false;
  std::vector<Tensor> components_;
  int depth_ = 1;
  bool refers_to_nobody_ = true;
};

// An optional of the tensors. InvalidArgument when values of variants would lie too deep in each other.
absl::StatusOr<RefPtr<Optional>> MakeOptional(std::vector<Tensor> components);

}  // namespace weir
