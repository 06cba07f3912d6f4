// WeirTemporaryVariable and WeirDestroyTemporaryVariable: variables of one step, which TensorFlow 1's
// TemporaryVariable and DestroyTemporaryVariable become (graph/interchange/references.h).
//
// A variable goes with its last handle. Its name is one of its step's until it is destroyed: a session keeps
// the names of the last steps that left some behind.
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/strided_copy.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"
#include "kernels/variable.h"

namespace weir {
namespace {

// Steps of two plans may have one number, but not one cancellation while both run.
using StepKey = std::pair<int64_t, const Cancellation*>;

StepKey StepOf(const KernelContext& context) { return {context.step_id(), &context.cancellation()}; }

// Thread safety: all methods.
class TemporaryNames final : public NodeState {
 public:
  // AlreadyExists when another node of the step has made one of that name. The same node may make it again,
  // in the next iteration of a loop.
  absl::Status Add(const StepKey& step, const std::string& name, const std::string& node) {
    const absl::MutexLock lock(&mutex_);
    const auto [known, is_new] = makers_.try_emplace({step, name}, Maker{node, num_made_});
    if (!is_new) {
      if (known->second.node == node) return absl::OkStatus();
      return absl::AlreadyExistsError(absl::StrCat("TemporaryVariable ", name,
                                                   " already exists in this step: '", known->second.node,
                                                   "' has made it"));
    }
    in_order_.emplace(num_made_++, known->first);
    if (in_order_.size() > kMaxNames) {
      makers_.erase(in_order_.begin()->second);
      in_order_.erase(in_order_.begin());
    }
    return absl::OkStatus();
  }
  // NotFound when there is none.
  absl::Status Remove(const StepKey& step, const std::string& name) {
    const absl::MutexLock lock(&mutex_);
    const auto known = makers_.find({step, name});
    if (known == makers_.end()) {
      return absl::NotFoundError(absl::StrCat("there is no TemporaryVariable ", name, " in this step"));
    }
    in_order_.erase(known->second.number);
    makers_.erase(known);
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kMaxNames = 10'000;
  using Key = std::pair<StepKey, std::string>;
  struct Maker {
    std::string node;
    uint64_t number = 0;
  };

  absl::Mutex mutex_;
  std::map<Key, Maker> makers_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, Key> in_order_ ABSL_GUARDED_BY(mutex_);  // by number
  uint64_t num_made_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::StatusOr<std::shared_ptr<TemporaryNames>> NamesOf(const KernelConstruction& construction) {
  if (construction.session() == nullptr) return std::make_shared<TemporaryNames>();
  return construction.session()->FindOrCreate<TemporaryNames>(
      construction.device().name().ToString(), "_temporary_variables",
      [] { return std::make_shared<TemporaryNames>(); });
}

class MakeTemporary final : public Kernel {
 public:
  explicit MakeTemporary(const KernelConstruction& construction)
      : names_(NamesOf(construction)),
        device_(construction.device().name().ToString()),
        node_(construction.node().name()),
        dtype_(construction.attr<DType>("dtype")),
        shape_(construction.attr<PartialShape>("shape")) {
    const std::string& name = construction.attr<std::string>("var_name");
    name_ = name.empty() ? node_ : name;
  }

  absl::Status Compute(KernelContext& context) override {
    if (!names_.ok()) return names_.status();
    if (!shape_.is_fully_known()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a TemporaryVariable has a shape that is known, not ", shape_.ToString()));
    }
    WEIR_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::FromDims(Dims(shape_.dims().begin(), shape_.dims().end())));
    WEIR_ASSIGN_OR_RETURN(Tensor value, Tensor::Allocate(dtype_, shape, context.device().allocator()));
    ClearElements(value, 0, value.num_elements());
    WEIR_RETURN_IF_ERROR((*names_)->Add(StepOf(context), name_, node_));
    RefPtr<Variable> variable = MakeRef<Variable>(dtype_);
    {
      const absl::MutexLock lock(&variable->mutex);
      variable->tensor = std::move(value);
    }
    ResourceHandle handle;
    handle.device = device_;
    handle.name = name_;
    handle.type_name = Variable::kTypeName;
    handle.resource = std::move(variable);
    context.set_output(0, Tensor::Scalar(std::move(handle)));
    return absl::OkStatus();
  }

 private:
  const absl::StatusOr<std::shared_ptr<TemporaryNames>> names_;
  const std::string device_, node_;
  std::string name_;
  const DType dtype_;
  const PartialShape shape_;
};

class DestroyTemporary final : public Kernel {
 public:
  explicit DestroyTemporary(const KernelConstruction& construction)
      : names_(NamesOf(construction)), name_(construction.attr<std::string>("var_name")) {}

  absl::Status Compute(KernelContext& context) override {
    if (!names_.ok()) return names_.status();
    WEIR_ASSIGN_OR_RETURN(const RefPtr<Variable> variable, LookupResource<Variable>(context, 0));
    WEIR_RETURN_IF_ERROR((*names_)->Remove(StepOf(context), name_));
    const absl::MutexLock lock(&variable->mutex);
    if (variable->tensor.dtype() != context.output_type(0)) {
      return absl::InvalidArgumentError(absl::StrCat("TemporaryVariable ", name_, " holds ",
                                                     DTypeName(variable->tensor.dtype()), ", not ",
                                                     DTypeName(context.output_type(0))));
    }
    context.set_output(0, variable->tensor);
    return absl::OkStatus();
  }

 private:
  const absl::StatusOr<std::shared_ptr<TemporaryNames>> names_;
  const std::string name_;
};

}  // namespace

void RegisterTemporaryVariablesKernels(DeviceKernels& kernels) {
  kernels.Add<MakeTemporary>("WeirTemporaryVariable");
  kernels.Add<DestroyTemporary>("WeirDestroyTemporaryVariable");
}

}  // namespace weir
