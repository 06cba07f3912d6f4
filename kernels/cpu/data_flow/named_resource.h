// A resource whose handle is a vector of its container and its name, as TensorFlow's accumulators and
// barriers have it: one of all nodes of its shared_name, or, without one, of a single node of a single
// session, where others find it by a name that no other resource of its device has while it lives. In the
// form that is a resource the handle is what all handles are.
//
// R: a Resource with kTypeName, a Spec that has its `name`, a constructor from the Spec, and CheckIsA(spec),
// which is an error for one that was made as something else.
//
// Thread safety: all functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "graph/types/resource_handle.h"
#include "graph/types/status_macros.h"
#include "graph/types/tensor.h"
#include "kernels/kernel.h"
#include "kernels/session_state.h"

namespace weir {

// Of a node without shared_name.
template <typename R>
class PrivateResource final : public NodeState {
 public:
  // `handle` has the node's name, and gets one of its own.
  PrivateResource(ResourceManager& resources, ResourceHandle handle, const typename R::Spec& spec)
      : resources_(resources), handle_(std::move(handle)) {
    const RefPtr<R> resource = MakeRef<R>(spec);
    handle_.name =
        absl::StrCat("_", handle_.name, "_", absl::Hex(reinterpret_cast<uintptr_t>(resource.get())));
    handle_.resource = resource;
    made_ = resources_
                .LookupOrCreate<R>(handle_.container, handle_.name,
                                   [&resource]() -> absl::StatusOr<RefPtr<R>> { return resource; })
                .status();
  }
  ~PrivateResource() override { resources_.Delete(handle_).IgnoreError(); }

  absl::Status CheckIsA(const typename R::Spec& spec) const {
    WEIR_RETURN_IF_ERROR(made_);
    return static_cast<const R&>(*handle_.resource).CheckIsA(spec);
  }
  const ResourceHandle& handle() const { return handle_; }

 private:
  ResourceManager& resources_;
  ResourceHandle handle_;
  absl::Status made_;
};

// Gives the handle, which is made once.
template <typename R>
class NamedResourceHandle final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction,
                                                        const typename R::Spec& spec) {
    ResourceHandle handle;
    handle.device = construction.device().name().ToString();
    handle.container = construction.attr<std::string>("container");
    handle.name = spec.name;
    handle.type_name = R::kTypeName;
    std::shared_ptr<PrivateResource<R>> own;
    if (construction.attr<std::string>("shared_name").empty()) {
      WEIR_ASSIGN_OR_RETURN(own, FindOrCreatePrivate(construction, handle, spec));
      WEIR_RETURN_IF_ERROR(own->CheckIsA(spec));
      handle = own->handle();
    } else {
      WEIR_ASSIGN_OR_RETURN(RefPtr<R> shared,
                            construction.device().resources().LookupOrCreate<R>(
                                handle.container, handle.name,
                                [&spec]() -> absl::StatusOr<RefPtr<R>> { return MakeRef<R>(spec); }));
      WEIR_RETURN_IF_ERROR(shared->CheckIsA(spec));
      handle.resource = std::move(shared);
    }
    Tensor tensor = construction.output_type(0) == DType::kString
                        ? Tensor::Vector<std::string>({handle.container, handle.name})
                        : Tensor::Scalar(std::move(handle));
    return std::make_unique<NamedResourceHandle>(std::move(own), std::move(tensor));
  }

  NamedResourceHandle(std::shared_ptr<PrivateResource<R>> own, Tensor handle)
      : own_(std::move(own)), handle_(std::move(handle)) {}

  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, handle_);
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<std::shared_ptr<PrivateResource<R>>> FindOrCreatePrivate(
      const KernelConstruction& construction, const ResourceHandle& handle, const typename R::Spec& spec) {
    const auto create = [&] {
      return std::make_shared<PrivateResource<R>>(construction.device().resources(), handle, spec);
    };
    if (construction.session() == nullptr) return create();
    return construction.session()->FindOrCreate<PrivateResource<R>>(handle.device, construction.node().name(),
                                                                    create);
  }

  const std::shared_ptr<PrivateResource<R>> own_;  // null for a shared one
  const Tensor handle_;
};

// The resource that input 0 names. InvalidArgument for a vector that is none of container and name, NotFound
// where nothing has the name.
template <typename R>
absl::StatusOr<RefPtr<R>> LookupNamedResource(const KernelContext& context) {
  const Tensor& handle = context.input(0);
  if (handle.dtype() == DType::kResource) return LookupResource<R>(context, 0);
  if (!(handle.shape() == Shape({2}))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the handle must be a container and a name, is a string ", handle.shape().ToString()));
  }
  const auto names = handle.flat<std::string>();
  return context.resources().Lookup<R>(names[0], names[1]);
}

}  // namespace weir
