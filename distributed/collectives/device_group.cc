#include "distributed/collectives/device_group.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/collectives/collective.h"
#include "distributed/collectives/collective_signature.h"
#include "distributed/collectives/device_rows.h"
#include "distributed/collectives/meetings.h"
#include "distributed/collectives/reduction.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using Kind = CollectiveSignature::Kind;
using Rows = Meetings::Rows;

absl::Status WithName(const Communicator::Call& call, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("collective '", call.name, "': ", status.message()));
}

bool IsFloatingPoint(DType dtype) { return dtype != DType::kInt32 && dtype != DType::kInt64; }

// One result for all devices.
Communicator::Done ForAll(Meetings::Tell tell) {
  return [tell = std::move(tell)](absl::StatusOr<Tensor> result) {
    if (!result.ok()) return tell(result.status());
    tell(std::vector<Rows>{{.tensor = *std::move(result)}});
  };
}

// Of a device: its tensor.
Meetings::Done Into(Communicator::Done done) {
  return [done = std::move(done)](absl::StatusOr<Rows> result) {
    done(result.ok() ? absl::StatusOr<Tensor>(std::move(result->tensor)) : result.status());
  };
}

absl::StatusOr<Tensor> Reduced(const Communicator::Call& call, const std::vector<Tensor>& inputs,
                               Reduction reduction, int64_t divisor) {
  WEIR_ASSIGN_OR_RETURN(Tensor output,
                        Tensor::Allocate(inputs[0].dtype(), inputs[0].shape(), *call.allocator));
  std::vector<const char*> contributions;
  for (const Tensor& input : inputs) contributions.push_back(static_cast<const char*>(input.data()));
  ReduceContributions(inputs[0].dtype(), reduction, contributions, divisor, inputs[0].num_elements(),
                      static_cast<char*>(output.data()));
  return output;
}

// Each device has the part of a rank of as many; what they send is there at once.
absl::StatusOr<Tensor> AdasumOf(const Communicator::Call& call, const std::vector<Tensor>& inputs) {
  struct Part {
    int from = 0;
    Collective::Outgoing outgoing;
  };
  std::deque<Part> under_way;
  const auto send = [&under_way](int from, std::vector<Collective::Outgoing> parts) {
    for (Collective::Outgoing& part : parts) under_way.push_back({from, std::move(part)});
  };
  const int size = static_cast<int>(inputs.size());
  std::vector<std::unique_ptr<Collective>> ranks(size);
  for (int rank = 0; rank < size; ++rank) {
    WEIR_ASSIGN_OR_RETURN(ranks[rank], MakeAdasum({rank, size}, inputs[rank], *call.allocator));
  }
  for (int rank = 0; rank < size; ++rank) send(rank, ranks[rank]->Start());
  while (!under_way.empty()) {
    Part part = std::move(under_way.front());
    under_way.pop_front();
    const int to = part.outgoing.to;
    WEIR_ASSIGN_OR_RETURN(std::vector<Collective::Outgoing> next,
                          ranks[to]->Receive(part.from, part.outgoing.part, std::move(part.outgoing.bytes)));
    send(to, std::move(next));
  }
  return ranks[0]->result();
}

absl::StatusOr<Tensor> ReduceHere(const Communicator::Call& call, const std::vector<Rows>& all,
                                  Reduction reduction, int64_t divisor) {
  std::vector<Tensor> inputs;
  for (const Rows& one : all) inputs.push_back(one.tensor);
  if (reduction == Reduction::kAdasum) return AdasumOf(call, inputs);
  return Reduced(call, inputs, reduction, divisor);
}

// `tensor` in the type in which it travels, and what comes back in its own.
absl::StatusOr<Tensor> Rounded(const Communicator::Call& call, const Tensor& tensor) {
  if (call.wire == DType::kInvalid) return tensor;
  WEIR_ASSIGN_OR_RETURN(Tensor rounded, Tensor::Allocate(call.wire, tensor.shape(), *call.allocator));
  ToWire(tensor.dtype(), tensor.data(), call.wire, tensor.num_elements(), rounded.data());
  return rounded;
}
Communicator::Done Widened(const Communicator::Call& call, DType dtype, Communicator::Done done) {
  if (call.wire == DType::kInvalid) return done;
  return [call, dtype, done = std::move(done)](const absl::StatusOr<Tensor>& result) {
    if (!result.ok()) return done(result.status());
    absl::StatusOr<Tensor> wide = Tensor::Allocate(dtype, result->shape(), *call.allocator);
    if (wide.ok()) FromWire(call.wire, result->data(), dtype, result->num_elements(), wide->data());
    done(std::move(wide));
  };
}

// How a mean is divided: floating-point ones by the number of devices first and of processes later; integers
// once, at the end, for each division rounds, and so are products, of which the processes multiply parts.
struct Division {
  Division(const DevicesOfProcess& devices, DType dtype, Reduction reduction, bool divides) {
    if (!divides) return;
    in_halves = devices.processes == nullptr || (IsFloatingPoint(dtype) && reduction == Reduction::kSum);
    early = in_halves ? devices.num_devices : 1;
    late = in_halves ? 1 : devices.processes->num_reduced() * devices.num_devices;
  }
  int64_t early = 1, late = 1;
  bool in_halves = false;
};

// Not in place: it may still be on its way to others.
absl::StatusOr<Tensor> Divided(const Communicator::Call& call, absl::StatusOr<Tensor> sum, int64_t divisor) {
  if (!sum.ok() || divisor == 1) return sum;
  return Reduced(call, {*sum}, Reduction::kSum, divisor);
}

// One device's side.
class DeviceRank final : public Communicator {
 public:
  DeviceRank(int device, std::shared_ptr<Meetings> meetings, RefPtr<Communicator> processes)
      : device_(device),
        meetings_(std::move(meetings)),
        processes_(std::move(processes)),
        devices_{processes_.get(), meetings_->num_devices()} {}

  int rank() const override { return devices_.first_rank() + device_; }
  int size() const override { return devices_.num_ranks(); }

  void AllReduce(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) override {
    const Division division(devices_, call.wire == DType::kInvalid ? input.dtype() : call.wire, reduction,
                            divides);
    const auto finish = [devices = devices_, reduction, division](
                            const Call& last, const std::vector<Rows>& all, const Meetings::Tell& tell) {
      absl::StatusOr<Tensor> here = ReduceHere(last, all, reduction, division.early);
      if (!here.ok() || devices.processes == nullptr) return ForAll(tell)(std::move(here));
      devices.processes->AllReduce(last, *std::move(here), reduction, division.in_halves,
                                   [last, division, tell](absl::StatusOr<Tensor> sum) {
                                     ForAll(tell)(Divided(last, std::move(sum), division.late));
                                   });
    };
    Reduce(Kind::kAllReduce, call, std::move(input), reduction, divides, std::move(done), finish);
  }

  void ReduceScatter(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) override {
    const Division division(devices_, call.wire == DType::kInvalid ? input.dtype() : call.wire, reduction,
                            divides);
    const auto finish = [devices = devices_, reduction, division](
                            const Call& last, const std::vector<Rows>& all, const Meetings::Tell& tell) {
      const absl::StatusOr<Tensor> here = ReduceHere(last, all, reduction, division.early);
      if (!here.ok()) return tell(here.status());
      const int64_t num_rows = here->shape().dim(0);
      const auto divide = [devices, last, division, num_rows, tell](absl::StatusOr<Tensor> own) {
        own = Divided(last, std::move(own), division.late);
        if (!own.ok()) return tell(own.status());
        tell(DivideRows(devices, num_rows, *own, *last.allocator));
      };
      if (devices.processes == nullptr) return divide(here);
      absl::StatusOr<Tensor> padded = PadRows(devices, *here, *last.allocator);
      if (!padded.ok()) return tell(padded.status());
      devices.processes->ReduceScatter(last, *std::move(padded), reduction, division.in_halves, divide);
    };
    Reduce(Kind::kReduceScatter, call, std::move(input), reduction, divides, std::move(done), finish);
  }

  void AllGather(const Call& call, Tensor input, Done done) override {
    absl::Status wrong = CheckRows("an all-gather", input);
    if (!wrong.ok()) return done(WithName(call, wrong));
    const CollectiveSignature signature = SignatureOfRows(Kind::kAllGather, input);
    meetings_->Come(device_, call, signature, {.tensor = std::move(input)}, Into(std::move(done)),
                    [processes = devices_.processes](const Call& last, const std::vector<Rows>& all,
                                                     const Meetings::Tell& tell) {
                      absl::StatusOr<Tensor> here = JoinRows(all, *last.allocator);
                      if (!here.ok() || processes == nullptr) return ForAll(tell)(std::move(here));
                      processes->AllGather(last, *std::move(here), ForAll(tell));
                    });
  }

  void Broadcast(const Call& call, int root, DType dtype, Tensor input, Done done) override {
    absl::Status wrong;
    if (root < 0 || root >= size()) {
      wrong =
          absl::InvalidArgumentError(absl::StrCat("a broadcast from rank ", root, " of a group of ", size()));
    } else if (root == rank() && input.dtype() != dtype) {
      wrong = absl::InvalidArgumentError(
          absl::StrCat("a broadcast of ", DTypeName(dtype), " is given ", DTypeName(input.dtype())));
    }
    if (!wrong.ok()) return done(WithName(call, wrong));
    const CollectiveSignature signature = {.kind = Kind::kBroadcast, .dtype = dtype, .root = root};
    meetings_->Come(device_, call, signature, {.tensor = std::move(input)}, Into(std::move(done)),
                    [devices = devices_, root, dtype](const Call& last, const std::vector<Rows>& all,
                                                      const Meetings::Tell& tell) {
                      const int at = root - devices.first_rank();
                      const bool is_here = at >= 0 && at < devices.num_devices;
                      if (is_here && !all[at].is_there) {
                        return tell(absl::InvalidArgumentError(
                            absl::StrCat("rank ", root, " has joined: it has nothing to send")));
                      }
                      const Tensor value = is_here ? all[at].tensor : Tensor();
                      if (devices.processes == nullptr) return ForAll(tell)(value);
                      devices.processes->Broadcast(last, root / devices.num_devices, dtype, value,
                                                   ForAll(tell));
                    });
  }

  void AllToAll(const Call& call, Tensor input, std::vector<int64_t> splits, ExchangedDone done) override {
    absl::Status wrong = CheckRows("an all-to-all", input);
    if (wrong.ok()) wrong = MakeAllToAll({rank(), size()}, input, splits, *call.allocator).status();
    if (!wrong.ok()) return done(WithName(call, wrong));
    if (splits.empty()) splits.assign(size(), input.shape().dim(0) / size());
    const CollectiveSignature signature = SignatureOfRows(Kind::kAllToAll, input);
    meetings_->Come(
        device_, call, signature, {std::move(input), std::move(splits)},
        [done = std::move(done)](absl::StatusOr<Rows> came) {
          if (!came.ok()) return done(came.status());
          done(Exchanged{std::move(came->tensor), std::move(came->splits)});
        },
        [devices = devices_](const Call& last, std::vector<Rows> all, const Meetings::Tell& tell) {
          ExchangeRows(devices, last, std::move(all), tell);
        });
  }

  void Barrier(const Call& call, std::function<void(absl::Status)> done) override {
    meetings_->Come(
        device_, call, {.kind = Kind::kBarrier}, {},
        [done = std::move(done)](const absl::StatusOr<Rows>& through) { done(through.status()); },
        [processes = devices_.processes](const Call& last, const std::vector<Rows>&,
                                         const Meetings::Tell& tell) {
          if (processes == nullptr) return tell(std::vector<Rows>(1));
          processes->Barrier(last, [tell](const absl::Status& status) {
            tell(status.ok() ? absl::StatusOr<std::vector<Rows>>(std::vector<Rows>(1)) : status);
          });
        });
  }

  void Join(const Call& call, std::function<void(absl::StatusOr<int>)> done) override {
    const auto finish = [devices = devices_](const Call& last, int last_device, const Meetings::Tell& tell) {
      if (devices.processes == nullptr) return ForAll(tell)(Tensor::Scalar<int32_t>(last_device));
      devices.processes->Join(last, [devices, last, last_device, tell](absl::StatusOr<int> process) {
        if (!process.ok()) return tell(process.status());
        // Only that process knows which of its devices it was.
        devices.processes->Broadcast(
            last, *process, DType::kInt32, Tensor::Scalar<int32_t>(devices.first_rank() + last_device),
            [size = devices.num_ranks(), tell](absl::StatusOr<Tensor> told) {
              const bool is_one = told.ok() && told->num_elements() == 1;
              const int32_t rank = is_one ? std::as_const(*told).flat<int32_t>()[0] : -1;
              if (told.ok() && (rank < 0 || rank >= size)) {
                told = absl::InvalidArgumentError(
                    absl::StrCat("the last rank to join must be told as one of ", size, ", came as ",
                                 told->shape().ToString(), is_one ? absl::StrCat(", ", rank) : ""));
              }
              ForAll(tell)(std::move(told));
            });
      });
    };
    meetings_->Join(
        device_, call,
        [done = std::move(done)](const absl::StatusOr<Rows>& last) {
          if (!last.ok()) return done(last.status());
          done(last->tensor.scalar<int32_t>());
        },
        finish);
  }

  absl::Status BeginUpdates(const Call& call) override {
    return processes_.get() != nullptr ? processes_->BeginUpdates(call) : absl::OkStatus();
  }
  void EndUpdates(const Call& call) override {
    if (processes_.get() != nullptr) processes_->EndUpdates(call);
  }

  std::string ToString() const override {
    return absl::StrCat("rank ", rank(), " of ", size(), ", ", meetings_->devices()[device_]);
  }

 private:
  void Reduce(Kind kind, const Call& call, const Tensor& input, Reduction reduction, bool divides, Done done,
              Meetings::Finish finish) {
    const CollectiveSignature signature = {.kind = kind,
                                           .dtype = input.dtype(),
                                           .dims = {input.shape().dims().begin(), input.shape().dims().end()},
                                           .reduction = reduction,
                                           .divides = divides,
                                           .wire = call.wire};
    absl::Status wrong = CheckReduction(signature);
    if (wrong.ok() && kind == Kind::kReduceScatter) wrong = CheckRows("a reduce-scatter", input);
    const absl::StatusOr<Tensor> rounded = wrong.ok() ? Rounded(call, input) : wrong;
    if (!rounded.ok()) return done(WithName(call, rounded.status()));
    Call plain = call;
    plain.wire = DType::kInvalid;
    meetings_->Come(device_, plain, signature, {.tensor = *rounded},
                    Into(Widened(call, input.dtype(), std::move(done))), std::move(finish));
  }

  const int device_;
  const std::shared_ptr<Meetings> meetings_;
  const RefPtr<Communicator> processes_;
  const DevicesOfProcess devices_;
};

}  // namespace

std::vector<RefPtr<Communicator>> MakeDeviceGroup(std::vector<std::string> devices,
                                                  RefPtr<Communicator> processes) {
  const auto meetings = std::make_shared<Meetings>(std::move(devices));
  std::vector<RefPtr<Communicator>> ranks;
  for (int device = 0; device < meetings->num_devices(); ++device) {
    ranks.push_back(RefPtr<Communicator>(new DeviceRank(device, meetings, processes)));
  }
  return ranks;
}

}  // namespace weir
