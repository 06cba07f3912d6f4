// Which kernels exist: (op, device type, dtypes) -> how to make one. The placer asks it which devices can run
// a node.
//
// Filled by explicit calls (kernels/cpu/register_kernels.h ...), then only read; safe to read concurrently.
//
//   registry.Register({.op = "MatMul",
//                      .device_type = "CPU",
//                      .types = {{"T", {DType::kFloat32, DType::kFloat64}}},
//                      .create = CreateKernel<MatMul>});
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/kernel.h"
#include "kernels/memory_kind.h"

namespace weir {

using KernelFactory =
    std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const KernelConstruction& construction)>;

struct KernelDef {
  std::string op;
  std::string device_type;
  // Type attrs and the dtypes this kernel takes; an attr not listed is unconstrained.
  std::map<std::string, std::vector<DType>> types;
  KernelFactory create = nullptr;
  // For devices with memory of their own: what the kernel wants, and gives, in the host's memory all the
  // same, by the names of the schema. All of it where `is_on_host`. Strings and handles need not be named.
  std::vector<std::string> host_inputs = {}, host_outputs = {};
  bool is_on_host = false;
};

// Where the arguments of a kernel of that definition are for the node.
ArgumentKinds KindsOf(const KernelDef& def, const Node& node);

// For `create`: a kernel class with a constructor from KernelConstruction.
template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> CreateKernel(const KernelConstruction& construction) {
  return std::make_unique<T>(construction);
}

// For `create`: a kernel class whose static Create(const KernelConstruction&) checks attrs.
template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> CreateCheckedKernel(const KernelConstruction& construction) {
  return T::Create(construction);
}

// For `create`: a function without state of its own.
template <absl::Status (*compute)(KernelContext&)>
class FunctionKernel final : public Kernel {
 public:
  explicit FunctionKernel(const KernelConstruction&) {}
  absl::Status Compute(KernelContext& context) override { return compute(context); }
};

class KernelRegistry {
 public:
  KernelRegistry() = default;
  KernelRegistry(const KernelRegistry&) = delete;
  KernelRegistry& operator=(const KernelRegistry&) = delete;

  // Two definitions must not accept the same node; the first one registered wins.
  void Register(KernelDef def);

  // Calls `change` for each definition of that type of device, which may change all but op and device type.
  void Change(absl::string_view device_type, absl::FunctionRef<void(KernelDef& def)> change);

  // True when a kernel takes the node (op and dtypes) on that kind of device.
  bool HasKernel(const Node& node, absl::string_view device_type) const;
  // Device types that can run the node, in alphabetical order.
  std::vector<std::string> DeviceTypesFor(const Node& node) const;

  // NotFound naming the device type, the dtypes asked for and those that exist; the factory's errors. All
  // name the node.
  absl::StatusOr<std::unique_ptr<Kernel>> Create(const Node& node, Device& device,
                                                 SessionState* session = nullptr) const;

  // The same with a kernel of another type of device, one that computes in the host's memory.
  absl::StatusOr<std::unique_ptr<Kernel>> CreateOf(absl::string_view device_type, const Node& node,
                                                   Device& device, SessionState* session = nullptr) const;

  // Where the arguments of the node's kernel are on devices of that type, if they have memory of their own.
  // All are on the host when it has no kernel.
  ArgumentKinds KindsOf(const Node& node, absl::string_view device_type) const;

  // Every definition of an op, for the conformance suite's meta-test.
  std::vector<const KernelDef*> DefsFor(absl::string_view op) const;

 private:
  const KernelDef* Find(const Node& node, absl::string_view device_type) const;

  std::map<std::string, std::vector<KernelDef>, std::less<>> defs_;  // by op
};

}  // namespace weir
