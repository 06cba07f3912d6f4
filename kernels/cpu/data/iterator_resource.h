// An iterator of a client: what IteratorV2, OneShotIterator and AnonymousIterator give handles of.
//
// It has no dataset until it is initialized, and begins again whenever it is. A step that asks for an element
// while another one does waits for its turn. A new beginning does not wait for steps that began before it,
// which still get elements of the pass before, but for the last calls of that pass's generators, if nobody
// uses it.
//
// Thread safety: all methods. Initialize, Next, Save and Restore may wait, so only from threads that may;
// what waits ends with Cancelled when the caller's step is cancelled.
//
// Errors: FailedPrecondition before it is initialized; InvalidArgument for a dataset whose elements are not
// what the signature says; those of the dataset.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cpu/data/dataset.h"
#include "kernels/cpu/data_flow/held_resource.h"

namespace weir {

class IteratorResource final : public HoldingResource {
 public:
  static constexpr char kTypeName[] = "Iterator";
  // Makes the dataset when the first element is asked for.
  using Factory = std::function<absl::StatusOr<DatasetPtr>(IteratorContext& context)>;

  // A step that uses the iterator; borrowed for the call.
  struct Caller {
    Device& device;
    Cancellation& cancellation;
    Threads* threads = nullptr;
    std::shared_ptr<FunctionCaller> functions;
    std::shared_ptr<FileSystem> files;  // of its session
  };

  enum class Owner { kHandles, kSessionOrContainer };

  // `factory` may be null. `container` and `shared_name`: where other sessions find it; empty if they do not.
  IteratorResource(Owner owner, Dataset::Signature signature, Factory factory, std::string container = "",
                   std::string shared_name = "")
      : owner_(owner),
        container_(std::move(container)),
        shared_name_(std::move(shared_name)),
        signature_(std::move(signature)),
        factory_(std::move(factory)) {}

  absl::Status Initialize(const Caller& caller, const DatasetPtr& dataset);
  // False at the end.
  absl::StatusOr<bool> Next(const Caller& caller, Element* element);
  // As before it was initialized. Steps that have begun still get elements.
  void End();
  absl::StatusOr<std::vector<Tensor>> Save(const Caller& caller);
  absl::Status Restore(const Caller& caller, std::vector<Tensor> position);

  const Dataset::Signature& signature() const { return signature_; }
  bool is_anonymous() const override { return owner_ == Owner::kHandles; }
  const std::string& container() const { return container_; }
  const std::string& shared_name() const { return shared_name_; }
  std::string ToString() const override { return "Iterator"; }

 private:
  // From one initialization to the next. Used by one step at a time.
  class Pass {
   public:
    Pass(const Caller& caller, DatasetPtr dataset)
        : dataset(std::move(dataset)), run(std::make_shared<IteratorRun>(caller.device, caller.functions)) {}
    // What it holds may hold other iterators: see LetGo.
    ~Pass();

    // Waits for the caller's turn; Cancelled when its step is before.
    absl::Status Enter(const Caller& caller);
    void Leave();

    DatasetPtr dataset;                // constant until the pass goes
    std::shared_ptr<IteratorRun> run;  // the same
    IteratorPtr iterator;              // of who has entered

   private:
    absl::Mutex mutex_;
    bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
  };

  // Of a dataset that is finalized (pipeline.h).
  absl::StatusOr<std::shared_ptr<Pass>> Begin(const Caller& caller, DatasetPtr dataset);
  absl::StatusOr<DatasetPtr> Prepared(const Caller& caller, DatasetPtr dataset);
  absl::StatusOr<std::shared_ptr<Pass>> Current(const Caller& caller);

  const Owner owner_;
  const std::string container_;
  const std::string shared_name_;
  const Dataset::Signature signature_;
  const Factory factory_;
  absl::Mutex mutex_;
  std::shared_ptr<Pass> pass_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
