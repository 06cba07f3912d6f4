// Iterators: their handles, the elements they give, their names as strings, their positions.
//
// Kernels that ask an iterator for something run on threads that may wait (Kernel::may_block).
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/iterator_resource.h"
#include "kernels/cpu/data/saved_position.h"
#include "kernels/cpu/data_flow/optional.h"
#include "kernels/cpu/session_environment.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

// An iterator without a shared name is its session's. Its pass ends with the session, also where the dataset
// holds a handle of the iterator itself.
class PrivateIterator final : public NodeState {
 public:
  explicit PrivateIterator(RefPtr<IteratorResource> iterator) : iterator(std::move(iterator)) {}
  ~PrivateIterator() override { iterator->End(); }
  const RefPtr<IteratorResource> iterator;
};

ResourceHandle HandleOf(const Device& device, const std::string& container, const std::string& name,
                        RefPtr<IteratorResource> iterator) {
  ResourceHandle handle;
  handle.device = device.name().ToString();
  handle.container = container;
  handle.name = name;
  handle.type_name = IteratorResource::kTypeName;
  handle.resource = std::move(iterator);
  return handle;
}

// What the session of a kernel gives its iterators.
class Session {
 public:
  explicit Session(const KernelConstruction& construction) {
    if (construction.session() == nullptr) return;
    functions_ = construction.session()->functions();
    files_ = construction.session()->files();
  }
  IteratorResource::Caller CallerOf(KernelContext& context) const {
    return {context.device(), context.cancellation(), context.step_threads(), functions_, files_};
  }

 private:
  std::shared_ptr<FunctionCaller> functions_;
  std::shared_ptr<FileSystem> files_;
};

// IteratorV2, Iterator and OneShotIterator: the iterator is there as long as the session, or its shared name.
class IteratorHandle final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const KernelConstruction& construction) {
    WEIR_ASSIGN_OR_RETURN(const Dataset::Signature signature, SignatureOf(construction));
    IteratorResource::Factory factory;
    if (construction.node().FindAttr("dataset_factory") != nullptr) {
      WEIR_ASSIGN_OR_RETURN(factory, FactoryOf(construction));
    }
    WEIR_ASSIGN_OR_RETURN(RefPtr<IteratorResource> iterator,
                          FindOrCreate(construction, signature, std::move(factory)));
    WEIR_RETURN_IF_ERROR(CheckFits(signature, iterator->signature()));
    return std::make_unique<IteratorHandle>(HandleOf(construction.device(),
                                                     construction.attr<std::string>("container"),
                                                     construction.node().name(), std::move(iterator)));
  }

  explicit IteratorHandle(ResourceHandle handle) : handle_(Tensor::Scalar(std::move(handle))) {}

  absl::Status Compute(KernelContext& context) override {
    context.set_output(0, handle_);
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<IteratorResource::Factory> FactoryOf(const KernelConstruction& construction) {
    const FunctionOfNode function(construction, "dataset_factory");
    WEIR_RETURN_IF_ERROR(function.Check());
    return [function](IteratorContext& context) -> absl::StatusOr<DatasetPtr> {
      WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<Function> factory,
                            context.run.Prepare(function.body(), function.files()));
      WEIR_ASSIGN_OR_RETURN(const Element results, factory->Run({}, context.cancellation));
      if (results.size() == 1) return DatasetIn(results[0]);
      return absl::InvalidArgumentError("The `dataset_factory` function must return a single dataset.");
    };
  }

  static absl::StatusOr<RefPtr<IteratorResource>> FindOrCreate(const KernelConstruction& construction,
                                                               const Dataset::Signature& signature,
                                                               IteratorResource::Factory factory) {
    const std::string& shared_name = construction.attr<std::string>("shared_name");
    const std::string& container = construction.attr<std::string>("container");
    if (!shared_name.empty()) {
      return construction.device().resources().LookupOrCreate<IteratorResource>(
          container, shared_name, [&]() -> absl::StatusOr<RefPtr<IteratorResource>> {
            return MakeRef<IteratorResource>(IteratorResource::Owner::kSessionOrContainer, signature,
                                             std::move(factory), container, shared_name);
          });
    }
    if (construction.session() == nullptr) {
      return MakeRef<IteratorResource>(IteratorResource::Owner::kSessionOrContainer, signature,
                                       std::move(factory));
    }
    WEIR_ASSIGN_OR_RETURN(
        const std::shared_ptr<PrivateIterator> state,
        construction.session()->FindOrCreate<PrivateIterator>(
            construction.device().name().ToString(), construction.node().name(), [&] {
              return std::make_shared<PrivateIterator>(MakeRef<IteratorResource>(
                  IteratorResource::Owner::kSessionOrContainer, signature, std::move(factory)));
            }));
    return state->iterator;
  }

  const Tensor handle_;
};

// A new iterator in every step, which is there as long as its handle. V2 has a deleter, for DeleteIterator.
class AnonymousIterator final : public Kernel {
 public:
  explicit AnonymousIterator(const KernelConstruction& construction)
      : signature_(SignatureOf(construction)), name_(construction.node().name()) {}

  absl::Status Compute(KernelContext& context) override {
    if (!signature_.ok()) return signature_.status();
    context.set_output(0, Tensor::Scalar(HandleOf(context.device(), "", name_,
                                                  MakeRef<IteratorResource>(IteratorResource::Owner::kHandles,
                                                                            *signature_, nullptr))));
    if (context.num_outputs() > 1) {
      WEIR_ASSIGN_OR_RETURN(RefPtr<Optional> nothing, MakeOptional({}));
      context.set_output(1, VariantOf(std::move(nothing)));
    }
    return absl::OkStatus();
  }

 private:
  const absl::StatusOr<Dataset::Signature> signature_;
  const std::string name_;
};

class MakeIterator final : public Kernel {
 public:
  explicit MakeIterator(const KernelConstruction& construction) : session_(construction) {}
  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(const RefPtr<IteratorResource> iterator,
                          LookupResource<IteratorResource>(context, 1));
    return iterator->Initialize(session_.CallerOf(context), dataset);
  }

 private:
  const Session session_;
};

class GetNext : public Kernel {
 public:
  explicit GetNext(const KernelConstruction& construction)
      : session_(construction), signature_(SignatureOf(construction)) {}
  bool may_block() const final { return true; }

 protected:
  // False at the end.
  absl::StatusOr<bool> Next(KernelContext& context, Element* element) const {
    if (!signature_.ok()) return signature_.status();
    WEIR_ASSIGN_OR_RETURN(const RefPtr<IteratorResource> iterator,
                          LookupResource<IteratorResource>(context, 0));
    WEIR_RETURN_IF_ERROR(CheckFits(*signature_, iterator->signature()));
    return iterator->Next(session_.CallerOf(context), element);
  }
  const Dataset::Signature& signature() const { return *signature_; }

 private:
  const Session session_;
  const absl::StatusOr<Dataset::Signature> signature_;
};

class GetNextElement final : public GetNext {
 public:
  using GetNext::GetNext;
  absl::Status Compute(KernelContext& context) override {
    Element element;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, Next(context, &element));
    if (!has_element) return absl::OutOfRangeError("End of sequence");
    return SetElement(context, signature(), std::move(element));
  }
};

class GetNextAsOptional final : public GetNext {
 public:
  using GetNext::GetNext;
  absl::Status Compute(KernelContext& context) override {
    Element element;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, Next(context, &element));
    RefPtr<Optional> optional = MakeRef<Optional>();
    if (has_element) {
      WEIR_RETURN_IF_ERROR(CheckElement(signature(), element));
      WEIR_ASSIGN_OR_RETURN(optional, MakeOptional(std::move(element)));
    }
    context.set_output(0, VariantOf(std::move(optional)));
    return absl::OkStatus();
  }
};

// The strings of a device's iterators that have no shared name. Who gave a string takes it back.
//
// Thread safety: all methods.
class IteratorStrings final : public Resource {
 public:
  static constexpr char kTypeName[] = "IteratorStrings";
  static constexpr char kContainer[] = "_iterators";
  static constexpr char kName[] = "strings";

  std::string ToString() const override { return kTypeName; }

  // `iterator` must live until Remove.
  void Add(const std::string& text, IteratorResource* iterator) {
    absl::MutexLock lock(&mutex_);
    iterators_.emplace(text, iterator);
  }
  void Remove(const std::string& text) {
    absl::MutexLock lock(&mutex_);
    iterators_.erase(text);
  }
  // Null where there is none.
  RefPtr<IteratorResource> Find(const std::string& text) const {
    absl::MutexLock lock(&mutex_);
    const auto found = iterators_.find(text);
    return found == iterators_.end() ? RefPtr<IteratorResource>()
                                     : RefPtr<IteratorResource>::Share(found->second);
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, IteratorResource*> iterators_ ABSL_GUARDED_BY(mutex_);
};

// The strings that one session, or one function that a kernel calls, has given. A shared iterator's string
// has its container and name, so that everybody finds it; any other's is a number that nobody guesses, and
// keeps the iterator until the session, or the function, ends. So functions find iterators of one another.
class IteratorNames final : public NodeState {
 public:
  static constexpr size_t kMaxNames = 100'000;

  IteratorNames(RefPtr<IteratorStrings> strings, Environment* environment)
      : strings_(std::move(strings)), environment_(environment) {}
  ~IteratorNames() override {
    for (const auto& [text, iterator] : iterators_) strings_->Remove(text);
  }

  absl::StatusOr<std::string> NameOf(const RefPtr<IteratorResource>& iterator) {
    if (!iterator->shared_name().empty()) {
      return absl::StrCat(kShared, iterator->container(), ":", iterator->shared_name());
    }
    absl::MutexLock lock(&mutex_);
    const auto known = names_.find(iterator.get());
    if (known != names_.end()) return known->second;
    if (names_.size() == kMaxNames) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a session has strings for ", kMaxNames, " iterators already"));
    }
    std::string name = absl::StrCat(kPrivate, absl::Hex(environment_->Random(), absl::kZeroPad16),
                                    absl::Hex(environment_->Random(), absl::kZeroPad16));
    names_.emplace(iterator.get(), name);
    iterators_.emplace(name, iterator);
    strings_->Add(name, iterator.get());
    return name;
  }

  absl::StatusOr<RefPtr<IteratorResource>> Find(const std::string& text, ResourceManager& resources) const {
    absl::string_view name = text;
    if (absl::ConsumePrefix(&name, kShared)) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(name, absl::MaxSplits(':', 1));
      return resources.Lookup<IteratorResource>(parts.first, parts.second);
    }
    if (!absl::StartsWith(name, kPrivate)) {
      return absl::InvalidArgumentError(
          "Could not parse string_handle as a valid ResourceHandle: it is not what IteratorToStringHandle "
          "gives");
    }
    RefPtr<IteratorResource> found = strings_->Find(text);
    if (found != nullptr) return found;
    return absl::NotFoundError(
        "the string_handle is of an iterator of another session, or of one that is gone");
  }

 private:
  static constexpr char kShared[] = "weir.iterator.shared:";
  static constexpr char kPrivate[] = "weir.iterator:";

  const RefPtr<IteratorStrings> strings_;
  Environment* const environment_;
  absl::Mutex mutex_;
  std::map<const IteratorResource*, std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, RefPtr<IteratorResource>> iterators_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::shared_ptr<IteratorNames>> NamesOf(const KernelConstruction& construction) {
  WEIR_ASSIGN_OR_RETURN(
      RefPtr<IteratorStrings> strings,
      construction.device().resources().LookupOrCreate<IteratorStrings>(
          IteratorStrings::kContainer, IteratorStrings::kName,
          []() -> absl::StatusOr<RefPtr<IteratorStrings>> { return MakeRef<IteratorStrings>(); }));
  SessionState* const session = construction.session();
  Environment* const environment = &EnvironmentOf(construction);
  const auto create = [&] { return std::make_shared<IteratorNames>(strings, environment); };
  if (session == nullptr) return create();
  return session->FindOrCreate<IteratorNames>(construction.device().name().ToString(), "_iterator_names",
                                              create);
}

class ToStringHandle final : public Kernel {
 public:
  explicit ToStringHandle(const KernelConstruction& construction) : names_(NamesOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    if (!names_.ok()) return names_.status();
    WEIR_ASSIGN_OR_RETURN(const RefPtr<IteratorResource> iterator,
                          LookupResource<IteratorResource>(context, 0));
    WEIR_ASSIGN_OR_RETURN(std::string name, (*names_)->NameOf(iterator));
    context.set_output(0, Tensor::Scalar(std::move(name)));
    return absl::OkStatus();
  }

 private:
  const absl::StatusOr<std::shared_ptr<IteratorNames>> names_;
};

class FromStringHandle final : public Kernel {
 public:
  explicit FromStringHandle(const KernelConstruction& construction)
      : names_(NamesOf(construction)), signature_(SignatureOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    if (!names_.ok()) return names_.status();
    if (!signature_.ok()) return signature_.status();
    const Tensor& name = context.input(0);
    if (!name.shape().is_scalar()) return absl::InvalidArgumentError("string_handle must be a scalar");
    WEIR_ASSIGN_OR_RETURN(RefPtr<IteratorResource> iterator,
                          (*names_)->Find(name.scalar<std::string>(), context.resources()));
    if (!signature_->types.empty()) WEIR_RETURN_IF_ERROR(CheckFits(*signature_, iterator->signature()));
    context.set_output(0, Tensor::Scalar(HandleOf(context.device(), iterator->container(),
                                                  name.scalar<std::string>(), iterator)));
    return absl::OkStatus();
  }

 private:
  const absl::StatusOr<std::shared_ptr<IteratorNames>> names_;
  const absl::StatusOr<Dataset::Signature> signature_;
};

// The handle's iterator goes with its last handle.
absl::Status DeleteIterator(KernelContext& context) {
  return LookupResource<IteratorResource>(context, 0).status();
}

class SerializeIterator final : public Kernel {
 public:
  explicit SerializeIterator(const KernelConstruction& construction) : session_(construction) {}
  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const RefPtr<IteratorResource> iterator,
                          LookupResource<IteratorResource>(context, 0));
    WEIR_ASSIGN_OR_RETURN(std::vector<Tensor> position, iterator->Save(session_.CallerOf(context)));
    context.set_output(0, VariantOf(MakeRef<SavedPosition>(std::move(position))));
    return absl::OkStatus();
  }

 private:
  const Session session_;
};

class DeserializeIterator final : public Kernel {
 public:
  explicit DeserializeIterator(const KernelConstruction& construction) : session_(construction) {}
  bool may_block() const override { return true; }

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const RefPtr<IteratorResource> iterator,
                          LookupResource<IteratorResource>(context, 0));
    WEIR_ASSIGN_OR_RETURN(const SavedPosition* position, VariantInput<SavedPosition>(context, 1));
    return iterator->Restore(session_.CallerOf(context), position->tensors());
  }

 private:
  const Session session_;
};

}  // namespace

void RegisterIteratorsKernels(DeviceKernels& kernels) {
  for (const char* op : {"IteratorV2", "Iterator", "OneShotIterator"}) kernels.Add<IteratorHandle>(op);
  kernels.Add<AnonymousIterator>("AnonymousIterator");
  kernels.Add<AnonymousIterator>("AnonymousIteratorV2");
  kernels.Add<AnonymousIterator>("AnonymousIteratorV3");
  kernels.Add<MakeIterator>("MakeIterator");
  kernels.Add<GetNextElement>("IteratorGetNext");
  kernels.Add<GetNextElement>("IteratorGetNextSync");
  kernels.Add<GetNextAsOptional>("IteratorGetNextAsOptional");
  kernels.Add<ToStringHandle>("IteratorToStringHandle");
  kernels.Add<FromStringHandle>("IteratorFromStringHandle");
  kernels.Add<FromStringHandle>("IteratorFromStringHandleV2");
  kernels.Add<&DeleteIterator>("DeleteIterator");
  kernels.Add<SerializeIterator>("SerializeIterator");
  kernels.Add<DeserializeIterator>("DeserializeIterator");
}

}  // namespace weir
