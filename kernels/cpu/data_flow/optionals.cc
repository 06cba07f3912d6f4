// Optionals: some tensors, or none. What the branches of a conditional keep for its gradient.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data_flow/variant_value.h"
#include "kernels/device_kernels.h"

namespace weir {
namespace {

class Optional final : public VariantValue {
 public:
  static constexpr char kTypeName[] = "Optional";

  Optional() = default;
  Optional(std::vector<Tensor> components, int depth)
      : has_value_(true), components_(std::move(components)), depth_(depth) {}

  std::string ToString() const override {
    return has_value_ ? absl::StrCat("Optional of ", components_.size(), " tensors") : "Optional of nothing";
  }
  int depth() const override { return depth_; }
  bool has_value() const { return has_value_; }
  const std::vector<Tensor>& components() const { return components_; }

  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(KernelContext& context) const override {
    if (!has_value_) return RefPtr<VariantValue>(MakeRef<Optional>());
    std::vector<Tensor> zeros;
    for (const Tensor& component : components_) {
      WEIR_ASSIGN_OR_RETURN(Tensor zero, ZerosLikeTensor(component, context));
      zeros.push_back(std::move(zero));
    }
    return RefPtr<VariantValue>(MakeRef<Optional>(std::move(zeros), depth_));
  }

  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other, KernelContext& context) const override {
    const auto* const optional = dynamic_cast<const Optional*>(&other);
    if (optional == nullptr || optional->has_value_ != has_value_ ||
        optional->components_.size() != components_.size()) {
      return absl::InvalidArgumentError(absl::StrCat("cannot add ", other.ToString(), " to ", ToString()));
    }
    if (!has_value_) return RefPtr<VariantValue>(MakeRef<Optional>());
    std::vector<Tensor> sums;
    for (size_t i = 0; i < components_.size(); ++i) {
      WEIR_ASSIGN_OR_RETURN(Tensor sum, AddTensors(components_[i], optional->components_[i], context));
      sums.push_back(std::move(sum));
    }
    return RefPtr<VariantValue>(MakeRef<Optional>(std::move(sums), std::max(depth_, optional->depth_)));
  }

 private:
  bool has_value_ = false;
  std::vector<Tensor> components_;
  int depth_ = 1;
};

absl::Status FromValue(KernelContext& context) {
  std::vector<Tensor> components;
  int depth = 1;
  for (int i = 0; i < context.num_inputs(); ++i) {
    WEIR_ASSIGN_OR_RETURN(const int around, DepthAround(context.input(i)));
    depth = std::max(depth, around);
    components.push_back(context.input(i));
  }
  context.set_output(0, VariantOf(MakeRef<Optional>(std::move(components), depth)));
  return absl::OkStatus();
}

absl::Status None(KernelContext& context) {
  context.set_output(0, VariantOf(MakeRef<Optional>()));
  return absl::OkStatus();
}

absl::Status HasValue(KernelContext& context) {
  WEIR_ASSIGN_OR_RETURN(const Optional* optional, VariantInput<Optional>(context, 0));
  WEIR_ASSIGN_OR_RETURN(Tensor * output, context.AllocateOutput(0, Shape()));
  output->flat<bool>()[0] = optional->has_value();
  return absl::OkStatus();
}

class GetValue final : public Kernel {
 public:
  explicit GetValue(const KernelConstruction& construction)
      : shapes_(construction.attr<std::vector<PartialShape>>("output_shapes")) {}

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const Optional* optional, VariantInput<Optional>(context, 0));
    if (!optional->has_value())
      return absl::InvalidArgumentError("The given optional does not have a value.");
    const std::vector<Tensor>& components = optional->components();
    if (static_cast<int>(components.size()) != context.num_outputs() || shapes_.size() != components.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the optional has ", components.size(), " components; ",
                                                     context.num_outputs(), " and ", shapes_.size(),
                                                     " shapes are asked for"));
    }
    for (size_t i = 0; i < components.size(); ++i) {
      const Tensor& component = components[i];
      if (component.dtype() != context.output_type(static_cast<int>(i)) ||
          !shapes_[i].IsCompatibleWith(PartialShape(component.shape()))) {
        return absl::InvalidArgumentError(absl::StrCat(
            "component ", i, " of the optional is ", TypeString(component.dtype(), component.shape()),
            ", not ", TypeString(context.output_type(static_cast<int>(i)), shapes_[i])));
      }
      context.set_output(static_cast<int>(i), component);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<PartialShape> shapes_;
};

}  // namespace

void RegisterOptionalsKernels(DeviceKernels& kernels) {
  kernels.Add<&FromValue>("OptionalFromValue");
  kernels.Add<&None>("OptionalNone");
  kernels.Add<&HasValue>("OptionalHasValue");
  kernels.Add<GetValue>("OptionalGetValue");
}

}  // namespace weir
