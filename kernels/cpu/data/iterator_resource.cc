#include "kernels/cpu/data/iterator_resource.h"

#include "absl/cleanup/cleanup.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellable_wait.h"
#include "kernels/cpu/data/pipeline.h"

namespace weir {
namespace {

// What is left of a pass, in the order in which it may not go: the last comes first.
struct Remains {
  std::shared_ptr<IteratorRun> run;
  DatasetPtr dataset;
  IteratorPtr iterator;
};

// A dataset may hold the handle of another iterator, whose dataset holds the next one's: a chain as long as a
// graph. Those that come up while the first one goes wait until it is gone, so the stack does not grow with
// it.
void LetGo(Remains remains) {
  thread_local std::vector<Remains>* waiting = nullptr;
  if (waiting != nullptr) {
    waiting->push_back(std::move(remains));
    return;
  }
  std::vector<Remains> all;
  waiting = &all;
  all.push_back(std::move(remains));
  while (!all.empty()) {
    const Remains next = std::move(all.back());
    all.pop_back();
  }
  waiting = nullptr;
}

}  // namespace

IteratorResource::Pass::~Pass() {
  run->Cancel();
  LetGo({std::move(run), std::move(dataset), std::move(iterator)});
}

absl::Status IteratorResource::Pass::Enter(const Caller& caller) {
  return AwaitUnlessCancelled(
      run->environment(), mutex_, caller.cancellation,
      [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !is_busy_; },
      [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { is_busy_ = true; });
}

void IteratorResource::Pass::Leave() {
  absl::MutexLock lock(&mutex_);
  is_busy_ = false;
}

absl::StatusOr<std::shared_ptr<IteratorResource::Pass>> IteratorResource::Begin(const Caller& caller,
                                                                                DatasetPtr dataset) {
  auto pass = std::make_shared<Pass>(caller, std::move(dataset));
  IteratorContext context = {*pass->run, caller.cancellation, caller.threads};
  WEIR_ASSIGN_OR_RETURN(pass->iterator, pass->dataset->MakeIterator(context));
  return pass;
}

absl::StatusOr<DatasetPtr> IteratorResource::Prepared(const Caller& caller, DatasetPtr dataset) {
  WEIR_RETURN_IF_ERROR(CheckFits(signature_, dataset->signature()));
  const auto run = std::make_shared<IteratorRun>(caller.device, caller.functions);
  IteratorContext context = {*run, caller.cancellation, caller.threads};
  return Finalized(std::move(dataset), context, caller.files);
}

absl::Status IteratorResource::Initialize(const Caller& caller, const DatasetPtr& dataset) {
  WEIR_ASSIGN_OR_RETURN(DatasetPtr prepared, Prepared(caller, dataset));
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<Pass> pass, Begin(caller, std::move(prepared)));
  {
    absl::MutexLock lock(&mutex_);
    std::swap(pass_, pass);
  }
  if (pass == nullptr) return absl::OkStatus();
  // A generator's last call may set back what the next pass begins with.
  const std::shared_ptr<IteratorRun> before = pass->run;
  pass = nullptr;
  return before->AwaitLastCalls(caller.cancellation);
}

absl::StatusOr<std::shared_ptr<IteratorResource::Pass>> IteratorResource::Current(const Caller& caller) {
  {
    absl::MutexLock lock(&mutex_);
    if (pass_ != nullptr) return pass_;
  }
  if (factory_ == nullptr) {
    return absl::FailedPreconditionError(
        "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
        "initializer operation for this iterator before getting the next element.");
  }
  // Two steps may make the dataset at once; the first is taken.
  const auto run = std::make_shared<IteratorRun>(caller.device, caller.functions);
  IteratorContext context = {*run, caller.cancellation, caller.threads};
  WEIR_ASSIGN_OR_RETURN(DatasetPtr made, factory_(context));
  WEIR_ASSIGN_OR_RETURN(DatasetPtr dataset, Prepared(caller, std::move(made)));
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<Pass> pass, Begin(caller, std::move(dataset)));
  absl::MutexLock lock(&mutex_);
  if (pass_ == nullptr) pass_ = std::move(pass);
  return pass_;
}

absl::StatusOr<bool> IteratorResource::Next(const Caller& caller, Element* element) {
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<Pass> pass, Current(caller));
  WEIR_RETURN_IF_ERROR(pass->Enter(caller));
  const absl::Cleanup leave = [&] { pass->Leave(); };
  IteratorContext context = {*pass->run, caller.cancellation, caller.threads};
  return AskTop(*pass->iterator, context, element);
}

void IteratorResource::End() {
  std::shared_ptr<Pass> pass;
  absl::MutexLock lock(&mutex_);
  std::swap(pass_, pass);
}

absl::StatusOr<std::vector<Tensor>> IteratorResource::Save(const Caller& caller) {
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<Pass> pass, Current(caller));
  WEIR_RETURN_IF_ERROR(pass->Enter(caller));
  const absl::Cleanup leave = [&] { pass->Leave(); };
  IteratorContext context = {*pass->run, caller.cancellation, caller.threads};
  PositionWriter position;
  WEIR_RETURN_IF_ERROR(pass->iterator->Save(context, position));
  return position.Take();
}

absl::Status IteratorResource::Restore(const Caller& caller, std::vector<Tensor> saved) {
  WEIR_ASSIGN_OR_RETURN(const std::shared_ptr<Pass> before, Current(caller));
  WEIR_ASSIGN_OR_RETURN(std::shared_ptr<Pass> pass, Begin(caller, before->dataset));
  IteratorContext context = {*pass->run, caller.cancellation, caller.threads};
  PositionReader position(std::move(saved));
  WEIR_RETURN_IF_ERROR(pass->iterator->Restore(context, position));
  WEIR_RETURN_IF_ERROR(position.Accept());
  absl::MutexLock lock(&mutex_);
  std::swap(pass_, pass);
  return absl::OkStatus();
}

}  // namespace weir
