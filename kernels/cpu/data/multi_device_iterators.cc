// MultiDeviceIterator: one pass over a dataset whose elements go to several devices ("shards") in turn.
//
// Nothing is computed ahead: who asks for an element takes those before it, too, and leaves them for their
// shards. Where one of these has as many waiting as max_buffer_size says, or all of them hold kMaxAheadBytes,
// who asks waits until they are taken, as in TensorFlow.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"
#include "kernels/cancellable_wait.h"
#include "kernels/cpu/data/captured_function.h"
#include "kernels/cpu/data/pipeline.h"
#include "kernels/cpu/data_flow/held_resource.h"
#include "kernels/cpu/data_flow/named_resource.h"
#include "kernels/cpu/integer_input.h"
#include "kernels/device_kernels.h"
#include "kernels/session_state.h"

namespace weir {
namespace {

// What a step brings.
struct Caller {
  Device& device;
  Cancellation& cancellation;
  Threads* threads = nullptr;
  std::shared_ptr<FunctionCaller> functions;
  std::shared_ptr<FileSystem> files;
};

// One pass. Thread safety: all methods; Next may wait.
class ShardedPass {
 public:
  ShardedPass(std::shared_ptr<IteratorRun> run, DatasetPtr dataset, IteratorPtr iterator, int num_shards,
              int64_t max_buffered)
      : run_(std::move(run)),
        dataset_(std::move(dataset)),
        iterator_(std::move(iterator)),
        max_buffered_(static_cast<size_t>(std::max<int64_t>(max_buffered, 1))),
        shards_(num_shards) {}
  ~ShardedPass() { run_->Cancel(); }

  // False at the end. Precondition: 0 <= shard < num_shards.
  absl::StatusOr<bool> Next(const Caller& caller, int64_t shard, Element* element);
  // Who waits hears that the pass is over, and so does everybody after it.
  void End();

 private:
  using Outcome = absl::StatusOr<Element>;
  // What a shard may do: take what another one has left for it, end, or else ask the iterator (is_busy_).
  struct Turn {
    std::optional<Outcome> left_for_it;
    bool is_over = false;
  };

  absl::StatusOr<Turn> AwaitTurn(const Caller& caller, size_t shard);
  // Whether the next element may be taken, for whatever shard it is.
  bool has_room() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return shards_[next_].size() < max_buffered_ && num_bytes_ < kMaxAheadBytes;
  }

  const std::shared_ptr<IteratorRun> run_;
  const DatasetPtr dataset_;
  const IteratorPtr iterator_;  // of who has made is_busy_ true
  const size_t max_buffered_;
  absl::Mutex mutex_;
  std::vector<std::deque<Outcome>> shards_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // the shard of the next element
  int64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<ShardedPass::Turn> ShardedPass::AwaitTurn(const Caller& caller, size_t shard) {
  Turn turn;
  const auto is_ready = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return !shards_[shard].empty() || is_over_ || (!is_busy_ && (next_ == shard || has_room()));
  };
  const auto take = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::deque<Outcome>& own = shards_[shard];
    if (!own.empty()) {
      turn.left_for_it = std::move(own.front());
      own.pop_front();
      num_bytes_ -= NumBytes(*turn.left_for_it);
    } else if (is_over_) {
      turn.is_over = true;
    } else {
      is_busy_ = true;
    }
  };
  WEIR_RETURN_IF_ERROR(
      AwaitUnlessCancelled(run_->environment(), mutex_, caller.cancellation, is_ready, take));
  return turn;
}

absl::StatusOr<bool> ShardedPass::Next(const Caller& caller, int64_t shard, Element* element) {
  while (true) {
    WEIR_ASSIGN_OR_RETURN(Turn turn, AwaitTurn(caller, static_cast<size_t>(shard)));
    if (turn.is_over) return false;
    if (turn.left_for_it.has_value()) {
      if (!turn.left_for_it->ok()) return turn.left_for_it->status();
      *element = **std::move(turn.left_for_it);
      return true;
    }
    IteratorContext context = {*run_, caller.cancellation, caller.threads};
    Element next;
    const absl::StatusOr<bool> has_element = AskTop(*iterator_, context, &next);
    absl::MutexLock lock(&mutex_);
    is_busy_ = false;
    // The element that a cancelled step would have got is nobody's; one for another shard is that shard's.
    // The callback may not have been called yet.
    const bool gives_up = caller.cancellation.is_cancelled();
    if (gives_up && (!has_element.ok() || next_ == static_cast<size_t>(shard))) {
      return caller.cancellation.reason();
    }
    if (has_element.ok() && !*has_element) {
      is_over_ = true;
      continue;
    }
    Outcome outcome = has_element.ok() ? Outcome(std::move(next)) : Outcome(has_element.status());
    num_bytes_ += NumBytes(outcome);
    shards_[next_].push_back(std::move(outcome));
    next_ = (next_ + 1) % shards_.size();
  }
}

void ShardedPass::End() {
  run_->Cancel();
  absl::MutexLock lock(&mutex_);
  is_over_ = true;
}

class MultiDeviceIterator final : public HoldingResource {
 public:
  static constexpr char kTypeName[] = "MultiDeviceIterator";

  struct Spec {
    std::string name;
    int num_shards = 1;
    Dataset::Signature signature;
  };

  explicit MultiDeviceIterator(Spec spec) : spec_(std::move(spec)) {}

  std::string ToString() const override { return absl::StrCat(kTypeName, " '", spec_.name, "'"); }
  // It is its session's, or its container's.
  bool is_anonymous() const override { return false; }

  absl::Status CheckIsA(const Spec& spec) const {
    if (spec.num_shards != spec_.num_shards) {
      return absl::InvalidArgumentError(absl::StrCat(ToString(), " is of ", spec_.num_shards,
                                                     " devices, asked for with ", spec.num_shards));
    }
    return CheckFits(spec.signature, spec_.signature);
  }
  const Dataset::Signature& signature() const { return spec_.signature; }

  // Gives the number of the pass that begins.
  absl::StatusOr<int64_t> Begin(const Caller& caller, const DatasetPtr& dataset, int64_t max_buffered) {
    WEIR_RETURN_IF_ERROR(CheckFits(spec_.signature, dataset->signature()));
    auto run = std::make_shared<IteratorRun>(caller.device, caller.functions);
    IteratorContext context = {*run, caller.cancellation, caller.threads};
    WEIR_ASSIGN_OR_RETURN(DatasetPtr prepared, Finalized(dataset, context, caller.files));
    WEIR_ASSIGN_OR_RETURN(IteratorPtr iterator, prepared->MakeIterator(context));
    auto pass = std::make_shared<ShardedPass>(std::move(run), std::move(prepared), std::move(iterator),
                                              spec_.num_shards, max_buffered);
    int64_t number = 0;
    {
      absl::MutexLock lock(&mutex_);
      std::swap(pass_, pass);
      number = ++num_passes_;
    }
    if (pass != nullptr) pass->End();
    return number;
  }

  absl::StatusOr<bool> Next(const Caller& caller, int64_t shard, int64_t pass_number, Element* element) {
    if (shard < 0 || shard >= spec_.num_shards) {
      return absl::InvalidArgumentError(
          absl::StrCat("shard_num is ", shard, ", must be in [0, ", spec_.num_shards, ")"));
    }
    std::shared_ptr<ShardedPass> pass;
    {
      absl::MutexLock lock(&mutex_);
      if (pass_ == nullptr) {
        return absl::FailedPreconditionError(
            absl::StrCat(ToString(), " has not been initialized: MultiDeviceIteratorInit has not run"));
      }
      if (pass_number != num_passes_) {
        return absl::InvalidArgumentError(
            absl::StrCat("Invalid incarnation id. Provided: ", pass_number, "; Expected: ", num_passes_));
      }
      pass = pass_;
    }
    return pass->Next(caller, shard, element);
  }

 private:
  const Spec spec_;
  absl::Mutex mutex_;
  std::shared_ptr<ShardedPass> pass_ ABSL_GUARDED_BY(mutex_);
  int64_t num_passes_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::StatusOr<std::unique_ptr<Kernel>> CreateHandle(const KernelConstruction& construction) {
  constexpr size_t kMaxDevices = 1024;
  const std::string& shared = construction.attr<std::string>("shared_name");
  const size_t num_devices = construction.attr<std::vector<std::string>>("devices").size();
  if (num_devices > kMaxDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat("an iterator for ", num_devices, " devices; at most ", kMaxDevices, " are possible"));
  }
  WEIR_ASSIGN_OR_RETURN(Dataset::Signature signature, SignatureOf(construction));
  return NamedResourceHandle<MultiDeviceIterator>::Create(
      construction, {shared.empty() ? construction.node().name() : shared, static_cast<int>(num_devices),
                     std::move(signature)});
}

class IteratorKernel : public Kernel {
 public:
  explicit IteratorKernel(const KernelConstruction& construction) {
    if (construction.session() == nullptr) return;
    functions_ = construction.session()->functions();
    files_ = construction.session()->files();
  }
  bool may_block() const final { return true; }

 protected:
  Caller CallerOf(KernelContext& context) const {
    return {context.device(), context.cancellation(), context.step_threads(), functions_, files_};
  }

 private:
  std::shared_ptr<FunctionCaller> functions_;
  std::shared_ptr<FileSystem> files_;
};

class Init final : public IteratorKernel {
 public:
  using IteratorKernel::IteratorKernel;

  absl::Status Compute(KernelContext& context) override {
    WEIR_ASSIGN_OR_RETURN(const DatasetPtr dataset, DatasetInput(context, 0));
    WEIR_ASSIGN_OR_RETURN(const auto iterator, LookupResource<MultiDeviceIterator>(context, 1));
    WEIR_ASSIGN_OR_RETURN(const int64_t max_buffered, ReadInteger(context.input(2), "max_buffer_size"));
    WEIR_ASSIGN_OR_RETURN(const int64_t pass, iterator->Begin(CallerOf(context), dataset, max_buffered));
    context.set_output(0, Tensor::Scalar<int64_t>(pass));
    return absl::OkStatus();
  }
};

class GetNextFromShard final : public IteratorKernel {
 public:
  explicit GetNextFromShard(const KernelConstruction& construction)
      : IteratorKernel(construction), signature_(SignatureOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    if (!signature_.ok()) return signature_.status();
    WEIR_ASSIGN_OR_RETURN(const auto iterator, LookupResource<MultiDeviceIterator>(context, 0));
    WEIR_ASSIGN_OR_RETURN(const int64_t shard, ReadInteger(context.input(1), "shard_num"));
    WEIR_ASSIGN_OR_RETURN(const int64_t pass, ReadInteger(context.input(2), "incarnation_id"));
    WEIR_RETURN_IF_ERROR(CheckFits(*signature_, iterator->signature()));
    Element element;
    WEIR_ASSIGN_OR_RETURN(const bool has_element, iterator->Next(CallerOf(context), shard, pass, &element));
    if (!has_element) return absl::OutOfRangeError("End of sequence");
    return SetElement(context, *signature_, std::move(element));
  }

 private:
  const absl::StatusOr<Dataset::Signature> signature_;
};

// The string of an iterator: its container and its name, under which its device has it.
constexpr char kStringPrefix[] = "weir.multi_device_iterator:";

absl::Status ToStringHandle(KernelContext& context) {
  WEIR_RETURN_IF_ERROR(LookupResource<MultiDeviceIterator>(context, 0).status());
  WEIR_ASSIGN_OR_RETURN(const ResourceHandle* handle, HandleInput(context, 0));
  context.set_output(0, Tensor::Scalar(absl::StrCat(kStringPrefix, handle->container, ":", handle->name)));
  return absl::OkStatus();
}

class FromStringHandle final : public Kernel {
 public:
  explicit FromStringHandle(const KernelConstruction& construction) : signature_(SignatureOf(construction)) {}

  absl::Status Compute(KernelContext& context) override {
    if (!signature_.ok()) return signature_.status();
    const Tensor& name = context.input(0);
    if (!name.shape().is_scalar()) return absl::InvalidArgumentError("string_handle must be a scalar");
    absl::string_view text = name.scalar<std::string>();
    if (!absl::ConsumePrefix(&text, kStringPrefix)) {
      return absl::InvalidArgumentError(
          "Could not parse string_handle as a valid ResourceHandle: it is not what "
          "MultiDeviceIteratorToStringHandle gives");
    }
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
    WEIR_ASSIGN_OR_RETURN(RefPtr<MultiDeviceIterator> iterator,
                          context.resources().Lookup<MultiDeviceIterator>(parts.first, parts.second));
    if (!signature_->types.empty()) WEIR_RETURN_IF_ERROR(CheckFits(*signature_, iterator->signature()));
    ResourceHandle handle;
    handle.device = context.device().name().ToString();
    handle.container = parts.first;
    handle.name = parts.second;
    handle.type_name = MultiDeviceIterator::kTypeName;
    handle.resource = std::move(iterator);
    context.set_output(0, Tensor::Scalar(std::move(handle)));
    return absl::OkStatus();
  }

 private:
  const absl::StatusOr<Dataset::Signature> signature_;
};

}  // namespace

void RegisterMultiDeviceIteratorsKernels(DeviceKernels& kernels) {
  kernels.Register("MultiDeviceIterator", {}, &CreateHandle);
  kernels.Add<Init>("MultiDeviceIteratorInit");
  kernels.Add<GetNextFromShard>("MultiDeviceIteratorGetNextFromShard");
  kernels.Add<&ToStringHandle>("MultiDeviceIteratorToStringHandle");
  kernels.Add<FromStringHandle>("MultiDeviceIteratorFromStringHandle");
}

}  // namespace weir
