// How the kernels of one type of device get into a registry. Each file FILE.cc of kernels ends with a
// function that registers them. The build finds the file and calls the function (kernels/cpu/family.bzl):
//
//   void RegisterFileKernels(DeviceKernels& kernels) {
//     kernels.Add<SoftmaxKernel>("Softmax", Types<float, double>("T"));   // a class template
//     kernels.Add<Assert>("Assert");                                      // a class
//     kernels.Add<Cast>("Cast", {{"SrcT", dtypes}, {"DstT", dtypes}});    // chosen at run time
//     kernels.Add<&ComputeRank>("Rank");                                  // a function
//   }
//
// A kernel class has a constructor from KernelConstruction; one that may refuse its attrs has instead
//   static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction&).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernel_registry.h"

namespace weir {

// The C++ types of the elements of a type attr: one kernel is registered for each.
template <typename... T>
struct Types {
  explicit Types(std::string attr) : attr(std::move(attr)) {}
  std::string attr;
};

class DeviceKernels {
 public:
  using TypeAttrs = std::map<std::string, std::vector<DType>>;

  // Borrows the registry.
  DeviceKernels(KernelRegistry& registry, absl::string_view device_type)
      : registry_(registry), device_type_(device_type) {}

  // One kernel for all dtypes that `types` lists (an attr that it does not list is unconstrained).
  template <typename K>
  void Add(absl::string_view op, TypeAttrs types = {}) {
    Register(op, std::move(types), &Make<K>);
  }
  // The same for a function without state.
  template <absl::Status (*compute)(KernelContext&)>
  void Add(absl::string_view op, TypeAttrs types = {}) {
    Register(op, std::move(types), &Make<FunctionKernel<compute>>);
  }

  // K<T> for each T.
  template <template <typename> class K, typename... T>
  void Add(absl::string_view op, const Types<T...>& types, const TypeAttrs& others = {}) {
    (Register(op, With(others, {{types.attr, DTypeOf<T>}}), &Make<K<T>>), ...);
  }
  // K<T, I> for each T and I.
  template <template <typename, typename> class K, typename... T, typename... I>
  void Add(absl::string_view op, const Types<T...>& types, const Types<I...>& index_types) {
    (AddPairs<K, T>(op, types.attr, index_types), ...);
  }

  // For a factory of another kind.
  void Register(absl::string_view op, TypeAttrs types, KernelFactory create) {
    registry_.Register(
        {.op = std::string(op), .device_type = device_type_, .types = std::move(types), .create = create});
  }

  KernelRegistry& registry() { return registry_; }
  const std::string& device_type() const { return device_type_; }

 private:
  template <typename K>
  static absl::StatusOr<std::unique_ptr<Kernel>> Make(const KernelConstruction& construction) {
    if constexpr (requires { K::Create(construction); }) {
      return K::Create(construction);
    } else {
      return std::make_unique<K>(construction);
    }
  }

  static TypeAttrs With(TypeAttrs types, const std::vector<std::pair<std::string, DType>>& more) {
    for (const auto& [attr, dtype] : more) types[attr] = {dtype};
    return types;
  }

  template <template <typename, typename> class K, typename T, typename... I>
  void AddPairs(absl::string_view op, const std::string& attr, const Types<I...>& index_types) {
    (Register(op, With({}, {{attr, DTypeOf<T>}, {index_types.attr, DTypeOf<I>}}), &Make<K<T, I>>), ...);
  }

  KernelRegistry& registry_;
  const std::string device_type_;
};

}  // namespace weir
