#include "distributed/collectives/gpu_group.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/collectives/collective_signature.h"
#include "distributed/collectives/meetings.h"
#include "graph/types/status_macros.h"
#include "kernels/cuda/gpu_clique.h"
#include "kernels/cuda/host_copy.h"
#include "kernels/notice.h"

namespace weir {
namespace {

using Call = Communicator::Call;
using Kind = CollectiveSignature::Kind;
using Rows = Meetings::Rows;
using Tensors = std::vector<Tensor>;

absl::Status WithName(const Call& call, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("collective '", call.name, "': ", status.message()));
}

// One tensor for each device.
absl::StatusOr<std::vector<Rows>> AsRows(absl::StatusOr<Tensors> tensors) {
  if (!tensors.ok()) return tensors.status();
  std::vector<Rows> rows;
  for (Tensor& tensor : *tensors) rows.push_back({.tensor = std::move(tensor)});
  return rows;
}

Meetings::Done Into(Communicator::Done done) {
  return [done = std::move(done)](absl::StatusOr<Rows> result) {
    done(result.ok() ? absl::StatusOr<Tensor>(std::move(result->tensor)) : result.status());
  };
}

// What the ranks share.
class Group {
 public:
  Group(std::vector<std::string> names, std::vector<RefPtr<GpuLinks>> gpus,
        std::vector<RefPtr<Communicator>> on_host)
      : meetings(std::move(names)), clique(std::move(gpus)), on_host_(std::move(on_host)) {}

  // Whether NCCL is there and connects the GPUs; says once if it does not.
  bool HasNccl() {
    const absl::Status status = clique.Connect();
    if (!status.ok() && !has_said_.exchange(true)) {
      PrintNotice(absl::StrCat("collectives between ", clique.ToString(),
                               " go through the host's memory: ", status.message()));
    }
    return status.ok();
  }

  // Copies the tensors to the host, lets `begin` do the collective of each rank there, and copies what comes
  // back. A tensor that is not valid is not copied.
  using Begin = std::function<void(Communicator& rank, const Call& call, Tensor input, Communicator::Done)>;
  void RunOnHost(const Call& call, const std::vector<Rows>& all, Begin begin, const Meetings::Tell& tell) {
    Call there = call;
    there.allocator = &HostAllocator();
    const int size = clique.size();
    const auto host = std::make_shared<Tensors>(size);
    const auto results = std::make_shared<Tensors>(size);
    const auto came_back = std::make_shared<AllParts>(size, [results, tell](const absl::Status& status) {
      tell(status.ok() ? AsRows(std::move(*results)) : status);
    });
    const auto are_there = std::make_shared<AllParts>(
        size,
        [this, there, host, results, came_back, begin = std::move(begin), tell](const absl::Status& status) {
          if (!status.ok()) return tell(status);
          for (int i = 0; i < clique.size(); ++i) {
            begin(*on_host_[i], there, std::move((*host)[i]), TakeBack(i, results, came_back));
          }
        });
    for (int i = 0; i < size; ++i) CopyOut(i, all[i].tensor, host, are_there);
  }

  Meetings meetings;
  GpuClique clique;

 private:
  void CopyOut(int i, const Tensor& tensor, const std::shared_ptr<Tensors>& host,
               const std::shared_ptr<AllParts>& are_there) {
    if (!tensor.is_valid()) return are_there->End(absl::OkStatus());
    CopyToHost(clique.device(i), tensor, [i, host, are_there](absl::StatusOr<Tensor> copy) {
      if (copy.ok()) (*host)[i] = *copy;
      are_there->End(copy.status());
    });
  }

  Communicator::Done TakeBack(int i, const std::shared_ptr<Tensors>& results,
                              const std::shared_ptr<AllParts>& came_back) {
    return [this, i, results, came_back](absl::StatusOr<Tensor> result) {
      if (result.ok()) result = clique.device(i).CopyIn(*result, [](const absl::Status&) {});
      if (result.ok()) (*results)[i] = *result;
      came_back->End(result.status());
    };
  }

  const std::vector<RefPtr<Communicator>> on_host_;
  std::atomic<bool> has_said_{false};
};

absl::StatusOr<NcclReduction> AsNccl(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return NcclReduction::kSum;
    case Reduction::kProduct:
      return NcclReduction::kProduct;
    case Reduction::kMin:
      return NcclReduction::kMin;
    case Reduction::kMax:
      return NcclReduction::kMax;
    case Reduction::kAdasum:
      break;
  }
  return absl::UnimplementedError("NCCL has no Adasum");
}

Tensors TensorsOf(std::vector<Rows> all) {
  Tensors tensors;
  for (Rows& rows : all) tensors.push_back(std::move(rows.tensor));
  return tensors;
}

class GpuRank final : public Communicator {
 public:
  GpuRank(int rank, std::shared_ptr<Group> group) : rank_(rank), group_(std::move(group)) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->clique.size(); }

  void AllReduce(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) override {
    const CollectiveSignature signature = {.kind = Kind::kAllReduce,
                                           .dtype = input.dtype(),
                                           .dims = {input.shape().dims().begin(), input.shape().dims().end()},
                                           .reduction = reduction,
                                           .divides = divides,
                                           .wire = call.wire};
    const absl::Status wrong = CheckReduction(signature);
    if (!wrong.ok()) return done(WithName(call, wrong));
    const auto finish = [group = group_, reduction, divides](const Call& last, std::vector<Rows> all,
                                                             const Meetings::Tell& tell) {
      const absl::StatusOr<NcclReduction> by_nccl = AsNccl(reduction);
      const bool is_plain = by_nccl.ok() && last.wire == DType::kInvalid &&
                            GpuClique::Reduces(all[0].tensor.dtype(), *by_nccl, divides);
      if (is_plain && group->HasNccl()) {
        return tell(AsRows(group->clique.AllReduce(TensorsOf(std::move(all)), *by_nccl, divides, last.name)));
      }
      group->RunOnHost(
          last, all,
          [reduction, divides](Communicator& rank, const Call& there, Tensor tensor, Done end) {
            rank.AllReduce(there, std::move(tensor), reduction, divides, std::move(end));
          },
          tell);
    };
    Come(call, signature, std::move(input), std::move(done), finish);
  }

  void AllGather(const Call& call, Tensor input, Done done) override {
    const absl::Status wrong = CheckRows("an all-gather", input);
    if (!wrong.ok()) return done(WithName(call, wrong));
    const CollectiveSignature signature = SignatureOfRows(Kind::kAllGather, input);
    const auto finish = [group = group_](const Call& last, std::vector<Rows> all,
                                         const Meetings::Tell& tell) {
      if (group->HasNccl())
        return tell(AsRows(group->clique.AllGather(TensorsOf(std::move(all)), last.name)));
      group->RunOnHost(
          last, all,
          [](Communicator& rank, const Call& there, Tensor tensor, Done end) {
            rank.AllGather(there, std::move(tensor), std::move(end));
          },
          tell);
    };
    Come(call, signature, std::move(input), std::move(done), finish);
  }

  void Broadcast(const Call& call, int root, DType dtype, Tensor input, Done done) override {
    absl::Status wrong;
    if (root < 0 || root >= size()) {
      wrong =
          absl::InvalidArgumentError(absl::StrCat("a broadcast from rank ", root, " of a group of ", size()));
    } else if (root == rank_ && input.dtype() != dtype) {
      wrong = absl::InvalidArgumentError(
          absl::StrCat("a broadcast of ", DTypeName(dtype), " is given ", DTypeName(input.dtype())));
    }
    if (!wrong.ok()) return done(WithName(call, wrong));
    const CollectiveSignature signature = {.kind = Kind::kBroadcast, .dtype = dtype, .root = root};
    const auto finish = [group = group_, root, dtype](const Call& last, std::vector<Rows> all,
                                                      const Meetings::Tell& tell) {
      if (group->HasNccl()) return tell(AsRows(group->clique.Broadcast(root, all[root].tensor, last.name)));
      for (size_t i = 0; i < all.size(); ++i) {
        if (static_cast<int>(i) != root) all[i].tensor = Tensor();
      }
      group->RunOnHost(
          last, all,
          [root, dtype](Communicator& rank, const Call& there, Tensor tensor, Done end) {
            rank.Broadcast(there, root, dtype, std::move(tensor), std::move(end));
          },
          tell);
    };
    Come(call, signature, std::move(input), std::move(done), finish);
  }

  std::string ToString() const override {
    return absl::StrCat("rank ", rank_, " of ", size(), ", ", group_->meetings.devices()[rank_],
                        ", on its memory");
  }

 private:
  void Come(const Call& call, const CollectiveSignature& signature, Tensor input, Done done,
            Meetings::Finish finish) {
    group_->meetings.Come(rank_, call, signature, {.tensor = std::move(input)}, Into(std::move(done)),
                          std::move(finish));
  }

  const int rank_;
  const std::shared_ptr<Group> group_;
};

}  // namespace

std::vector<RefPtr<Communicator>> MakeGpuGroup(std::vector<RefPtr<GpuLinks>> gpus,
                                               std::vector<RefPtr<Communicator>> on_host) {
  std::vector<std::string> names;
  for (const RefPtr<GpuLinks>& gpu : gpus) names.push_back(gpu->device.name().ToString());
  const auto group = std::make_shared<Group>(std::move(names), std::move(gpus), std::move(on_host));
  std::vector<RefPtr<Communicator>> ranks;
  for (int rank = 0; rank < group->clique.size(); ++rank) {
    ranks.push_back(RefPtr<Communicator>(new GpuRank(rank, group)));
  }
  return ranks;
}

}  // namespace weir
