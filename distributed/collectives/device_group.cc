#include "distributed/collectives/device_group.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "distributed/collectives/reduction.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::Status WithName(const Communicator::Call& call, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("collective '", call.name, "': ", status.message()));
}

bool IsFloatingPoint(DType dtype) { return dtype != DType::kInt32 && dtype != DType::kInt64; }

// A device that has come to a collective.
struct Arrival {
  Communicator::Call call;
  Tensor input;  // none where it only receives
  Communicator::Done done;
  uint64_t callback = 0;  // of the cancellation
};

// What the devices of the process do with all inputs, by rank; `tell` is called once, maybe later.
using Finish = std::function<void(const Communicator::Call& call, const std::vector<Tensor>& inputs,
                                  Communicator::Done tell)>;

absl::StatusOr<Tensor> ReduceAll(const Communicator::Call& call, const std::vector<Tensor>& inputs,
                                 Reduction reduction, int64_t divisor) {
  WEIR_ASSIGN_OR_RETURN(Tensor output,
                        Tensor::Allocate(inputs[0].dtype(), inputs[0].shape(), *call.allocator));
  std::vector<const char*> contributions;
  for (const Tensor& input : inputs) contributions.push_back(static_cast<const char*>(input.data()));
  ReduceContributions(inputs[0].dtype(), reduction, contributions, divisor, inputs[0].num_elements(),
                      static_cast<char*>(output.data()));
  return output;
}

absl::StatusOr<Tensor> GatherAll(const Communicator::Call& call, const std::vector<Tensor>& inputs) {
  Dims dims(inputs[0].shape().dims().begin(), inputs[0].shape().dims().end());
  dims[0] = 0;
  for (const Tensor& input : inputs) {
    const absl::Span<const int64_t> own = input.shape().dims();
    if (!std::equal(dims.begin() + 1, dims.end(), own.begin() + 1, own.end())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an all-gather joins tensors along dimension 0: their other dimensions must be the same, but one "
          "device has ",
          inputs[0].shape().ToString(), " and another ", input.shape().ToString()));
    }
    if (__builtin_add_overflow(dims[0], own[0], &dims[0])) {
      return absl::InvalidArgumentError("an all-gather has more rows than can be counted");
    }
  }
  WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  WEIR_ASSIGN_OR_RETURN(Tensor output, Tensor::Allocate(inputs[0].dtype(), shape, *call.allocator));
  char* next = static_cast<char*>(output.data());
  for (const Tensor& input : inputs) {
    if (input.num_bytes() > 0) {
      next = std::copy_n(static_cast<const char*>(input.data()), input.num_bytes(), next);
    }
  }
  return output;
}

// What the devices of a group share.
class Meetings {
 public:
  Meetings(std::vector<std::string> devices, RefPtr<Communicator> processes)
      : devices_(std::move(devices)), processes_(std::move(processes)) {}

  const std::vector<std::string>& devices() const { return devices_; }
  int num_devices() const { return static_cast<int>(devices_.size()); }
  Communicator* processes() const { return processes_.get(); }

  // The device has come. The last one runs `finish`, which is the same for all of them when their signatures
  // are.
  void Join(int device, Arrival arrival, std::string signature, const Finish& finish) {
    const Id id = {arrival.call.cancellation, arrival.call.key};
    const Communicator::Call call = arrival.call;
    if (call.cancellation != nullptr) {
      arrival.callback = call.cancellation->OnCancel([this, id](const absl::Status& reason) {
        End(id, absl::CancelledError(absl::StrCat("the step is over: ", reason.message())));
      });
    }
    absl::Status wrong;
    std::map<int, Arrival> all;
    {
      absl::MutexLock lock(&mutex_);
      Meeting& meeting = meetings_[id];
      if (meeting.arrivals.empty()) {
        meeting.signature = std::move(signature);
        meeting.name = call.name;
      } else if (meeting.signature != signature) {
        const int other = meeting.arrivals.begin()->first;
        wrong = absl::InvalidArgumentError(absl::StrCat(
            "the devices do not compute the same: ", devices_[other], " has '", meeting.name, "', ",
            meeting.signature, "; ", devices_[device], " has '", call.name, "', ", signature));
      }
      if (wrong.ok() && meeting.arrivals.contains(device)) {
        wrong = absl::InvalidArgumentError(absl::StrCat(devices_[device], " has begun the collective '",
                                                        meeting.name, "' twice in one step, also as '",
                                                        call.name, "'"));
      }
      if (!wrong.ok()) {
        // Not under its number, which may be another's.
        all = std::move(meeting.arrivals);
        all.emplace(num_devices(), std::move(arrival));
        meetings_.erase(id);
      } else {
        meeting.arrivals.emplace(device, std::move(arrival));
        if (meeting.arrivals.size() == devices_.size()) {
          all = std::move(meeting.arrivals);
          meetings_.erase(id);
        }
      }
    }
    if (!wrong.ok()) return Tell(all, wrong);
    if (!all.empty()) return FinishAll(call, std::move(all), finish);
    // The notice may have come before the device was listed.
    if (call.cancellation != nullptr && call.cancellation->is_cancelled()) {
      End(id, absl::CancelledError("the step is over"));
    }
  }

 private:
  // The step, and the collective within it.
  using Id = std::tuple<const Cancellation*, Communicator::Key>;
  struct Meeting {
    std::string signature;
    std::string name;  // of the first node that came
    std::map<int, Arrival> arrivals;
  };

  void End(const Id& id, const absl::Status& reason) {
    std::map<int, Arrival> all;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = meetings_.find(id);
      if (found == meetings_.end()) return;
      all = std::move(found->second.arrivals);
      meetings_.erase(found);
    }
    Tell(all, reason);
  }

  static void FinishAll(const Communicator::Call& call, std::map<int, Arrival> all, const Finish& finish) {
    // From now on `finish` is who watches the cancellation.
    std::vector<Tensor> inputs;
    for (auto& [device, arrival] : all) {
      if (arrival.call.cancellation != nullptr) arrival.call.cancellation->Remove(arrival.callback);
      arrival.callback = 0;
      inputs.push_back(std::move(arrival.input));
    }
    finish(call, inputs,
           [all = std::make_shared<std::map<int, Arrival>>(std::move(all))](absl::StatusOr<Tensor> result) {
             Tell(*all, result);
           });
  }

  static void Tell(const std::map<int, Arrival>& all, const absl::StatusOr<Tensor>& result) {
    for (const auto& [device, arrival] : all) {
      if (arrival.call.cancellation != nullptr) arrival.call.cancellation->Remove(arrival.callback);
    }
    // The step may be over after each of these.
    for (const auto& [device, arrival] : all) {
      arrival.done(result.ok() ? result : absl::StatusOr<Tensor>(WithName(arrival.call, result.status())));
    }
  }

  const std::vector<std::string> devices_;
  const RefPtr<Communicator> processes_;
  absl::Mutex mutex_;
  absl::flat_hash_map<Id, Meeting> meetings_ ABSL_GUARDED_BY(mutex_);
};

// One device's side.
class DeviceRank final : public Communicator {
 public:
  DeviceRank(int device, std::shared_ptr<Meetings> meetings)
      : device_(device), meetings_(std::move(meetings)) {}

  int rank() const override {
    Communicator* const processes = meetings_->processes();
    return (processes == nullptr ? 0 : processes->rank() * meetings_->num_devices()) + device_;
  }
  int size() const override {
    Communicator* const processes = meetings_->processes();
    return (processes == nullptr ? 1 : processes->size()) * meetings_->num_devices();
  }

  void AllReduce(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) override {
    absl::Status wrong = CheckReducible(input.dtype());
    if (reduction == Reduction::kAdasum) wrong = absl::UnimplementedError("a group of devices has no Adasum");
    if (!wrong.ok()) return done(WithName(call, wrong));
    const std::string signature =
        absl::StrCat("all-reduce(", static_cast<int>(reduction), divides ? ", divided" : "", ") of ",
                     TypeString(input.dtype(), input.shape()));
    // Integers are divided once, at the end: each division rounds.
    const bool divides_early =
        divides && (meetings_->processes() == nullptr || IsFloatingPoint(input.dtype()));
    const int64_t early = divides_early ? meetings_->num_devices() : 1;
    const int64_t late = divides && !divides_early ? size() : 1;
    Join(call, std::move(input), signature, std::move(done),
         [processes = meetings_->processes(), reduction, divides_early, early, late](
             const Call& last, const std::vector<Tensor>& inputs, const Done& tell) {
           absl::StatusOr<Tensor> here = ReduceAll(last, inputs, reduction, early);
           if (!here.ok() || processes == nullptr) return tell(std::move(here));
           processes->AllReduce(last, *std::move(here), reduction, divides_early,
                                [last, late, tell](absl::StatusOr<Tensor> all) {
                                  // Not in place: it may still be on its way to others.
                                  if (all.ok() && late > 1) {
                                    all = ReduceAll(last, {*all}, Reduction::kSum, late);
                                  }
                                  tell(std::move(all));
                                });
         });
  }

  void AllGather(const Call& call, Tensor input, Done done) override {
    if (!IsPlainBytes(input.dtype()) || input.shape().rank() == 0) {
      return done(absl::InvalidArgumentError(absl::StrCat(
          "collective '", call.name, "': an all-gather joins tensors of numbers along dimension ",
          "0, but this is ", TypeString(input.dtype(), input.shape()))));
    }
    const std::string signature =
        absl::StrCat("all-gather of ", DTypeName(input.dtype()), " of rank ", input.shape().rank());
    Join(call, std::move(input), signature, std::move(done),
         [processes = meetings_->processes()](const Call& last, const std::vector<Tensor>& inputs,
                                              const Done& tell) {
           absl::StatusOr<Tensor> here = GatherAll(last, inputs);
           if (!here.ok() || processes == nullptr) return tell(std::move(here));
           processes->AllGather(last, *std::move(here), tell);
         });
  }

  void Broadcast(const Call& call, int root, DType dtype, Tensor input, Done done) override {
    absl::Status wrong;
    if (root < 0 || root >= size()) {
      wrong = absl::InvalidArgumentError(absl::StrCat("collective '", call.name, "': a broadcast from rank ",
                                                      root, " of a group of ", size()));
    } else if (root == rank() && input.dtype() != dtype) {
      wrong =
          absl::InvalidArgumentError(absl::StrCat("collective '", call.name, "': a broadcast of ",
                                                  DTypeName(dtype), " is given ", DTypeName(input.dtype())));
    }
    if (!wrong.ok()) return done(wrong);
    const int num_devices = meetings_->num_devices();
    const int first = rank() - device_;
    Join(call, std::move(input), absl::StrCat("broadcast of ", DTypeName(dtype), " from rank ", root),
         std::move(done),
         [processes = meetings_->processes(), num_devices, first, root, dtype](
             const Call& last, const std::vector<Tensor>& inputs, const Done& tell) {
           const bool is_here = root >= first && root < first + num_devices;
           const Tensor value = is_here ? inputs[root - first] : Tensor();
           if (processes == nullptr) return tell(value);
           processes->Broadcast(last, root / num_devices, dtype, value, tell);
         });
  }

  void BeginUpdates(const Call& call) override {
    if (meetings_->processes() != nullptr) meetings_->processes()->BeginUpdates(call);
  }
  void EndUpdates(const Call& call) override {
    if (meetings_->processes() != nullptr) meetings_->processes()->EndUpdates(call);
  }

  std::string ToString() const override {
    return absl::StrCat("rank ", rank(), " of ", size(), ", ", meetings_->devices()[device_]);
  }

 private:
  void Join(const Call& call, Tensor input, std::string signature, Done done, const Finish& finish) {
    meetings_->Join(device_, {call, std::move(input), std::move(done), 0}, std::move(signature), finish);
  }

  const int device_;
  const std::shared_ptr<Meetings> meetings_;
};

}  // namespace

std::vector<RefPtr<Communicator>> MakeDeviceGroup(std::vector<std::string> devices,
                                                  RefPtr<Communicator> processes) {
  const auto meetings = std::make_shared<Meetings>(std::move(devices), std::move(processes));
  std::vector<RefPtr<Communicator>> ranks;
  for (int device = 0; device < meetings->num_devices(); ++device) {
    ranks.push_back(RefPtr<Communicator>(new DeviceRank(device, meetings)));
  }
  return ranks;
}

}  // namespace weir
