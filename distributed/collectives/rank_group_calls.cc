// The collectives of a RankGroup by name: what is checked, what their signatures are, and what a rank that
// has joined does in their place.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "distributed/collectives/rank_group.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

using Kind = CollectiveSignature::Kind;

absl::Status Named(const Communicator::Call& call, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("collective '", call.name, "': ", status.message()));
}

// Passes the result on.
Exchange::Done Into(Communicator::Done done) {
  return [done = std::move(done)](const absl::Status& status, const Collective& collective) {
    done(status.ok() ? collective.result() : absl::StatusOr<Tensor>(status));
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<Collective>> RankGroup::MakeReduction(const CollectiveSignature& signature,
                                                                     Tensor input,
                                                                     Allocator& allocator) const {
  const RankOf self = {rank_, size(), ranks_per_host_};
  const auto make = [&](Tensor tensor) {
    if (signature.reduction == Reduction::kAdasum) return MakeAdasum(self, std::move(tensor), allocator);
    return signature.kind == Kind::kReduceScatter
               ? MakeReduceScatter(self, std::move(tensor), signature.reduction, signature.divides, allocator)
               : MakeAllReduce(self, std::move(tensor), signature.reduction, signature.divides, allocator);
  };
  if (signature.wire == DType::kInvalid) return make(std::move(input));
  return MakeWired(signature.wire, input, allocator, make);
}

void RankGroup::Reduce(Kind kind, const Call& call, Tensor input, Reduction reduction, bool divides,
                       Done done) {
  CollectiveSignature signature = {.kind = kind,
                                   .dtype = input.dtype(),
                                   .dims = {input.shape().dims().begin(), input.shape().dims().end()},
                                   .reduction = reduction,
                                   .divides = divides,
                                   .wire = call.wire};
  absl::Status status = CheckReduction(signature);
  if (status.ok() && kind == Kind::kReduceScatter) status = CheckRows("a reduce-scatter", input);
  if (!status.ok()) return done(Named(call, status));
  if (kind == Kind::kAllReduce && alone().has_value()) return done(std::move(input));
  Run(
      call, signature, [&] { return MakeReduction(signature, input, *call.allocator); }, {},
      Into(std::move(done)));
}

void RankGroup::AllReduce(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) {
  Reduce(Kind::kAllReduce, call, std::move(input), reduction, divides, std::move(done));
}

void RankGroup::ReduceScatter(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) {
  Reduce(Kind::kReduceScatter, call, std::move(input), reduction, divides, std::move(done));
}

void RankGroup::AllGather(const Call& call, Tensor input, Done done) {
  if (absl::Status status = CheckRows("an all-gather", input); !status.ok()) return done(Named(call, status));
  Run(
      call, SignatureOfRows(Kind::kAllGather, input),
      [&]() -> absl::StatusOr<std::unique_ptr<Collective>> {
        return MakeAllGather({rank_, size()}, input, *call.allocator);
      },
      {}, Into(std::move(done)));
}

void RankGroup::AllToAll(const Call& call, Tensor input, std::vector<int64_t> splits, ExchangedDone done) {
  if (absl::Status status = CheckRows("an all-to-all", input); !status.ok()) {
    return done(Named(call, status));
  }
  absl::StatusOr<std::unique_ptr<Collective>> collective =
      MakeAllToAll({rank_, size()}, input, std::move(splits), *call.allocator);
  if (!collective.ok()) return done(Named(call, collective.status()));
  Run(
      call, SignatureOfRows(Kind::kAllToAll, input), [&] { return std::move(collective); }, {},
      [done = std::move(done)](const absl::Status& status, const Collective& collective) {
        absl::StatusOr<Tensor> rows = status.ok() ? collective.result() : absl::StatusOr<Tensor>(status);
        if (!rows.ok()) return done(rows.status());
        done(Exchanged{*std::move(rows), collective.splits()});
      });
}

void RankGroup::Broadcast(const Call& call, int root, DType dtype, Tensor input, Done done) {
  absl::Status status = CheckPlain(dtype);
  if (status.ok() && (root < 0 || root >= size())) {
    status =
        absl::InvalidArgumentError(absl::StrCat("a broadcast from rank ", root, " of a group of ", size()));
  }
  if (status.ok() && root == rank_ && input.dtype() != dtype) {
    status = absl::InvalidArgumentError(
        absl::StrCat("a broadcast of ", DTypeName(dtype), " is given ", DTypeName(input.dtype())));
  }
  if (!status.ok()) return done(Named(call, status));
  Run(
      call, {.kind = Kind::kBroadcast, .dtype = dtype, .root = root},
      [&]() -> absl::StatusOr<std::unique_ptr<Collective>> {
        return MakeBroadcast({rank_, size()}, root, dtype, input, *call.allocator);
      },
      {.waits_for_receivers = true}, Into(std::move(done)));
}

void RankGroup::Barrier(const Call& call, std::function<void(absl::Status)> done) {
  if (alone().has_value()) return done(absl::OkStatus());
  Run(
      call, {.kind = Kind::kBarrier, .dtype = DType::kInt32},
      [&]() -> absl::StatusOr<std::unique_ptr<Collective>> {
        return MakeAllGather({rank_, size()}, Tensor(DType::kInt32, Shape({0})), *call.allocator);
      },
      {}, [done = std::move(done)](const absl::Status& status, const Collective&) { done(status); });
}

void RankGroup::Join(const Call& call, std::function<void(absl::StatusOr<int>)> done) {
  if (const std::optional<int> newest = alone()) return done(*newest);
  int64_t num_begun = 0;
  std::string under_way;
  {
    absl::MutexLock lock(&mutex_);
    num_begun = num_begun_;
    for (const auto& [id, exchange] : exchanges_) {
      if (!exchange->options.is_proxy) under_way = exchange->name;
    }
  }
  if (!under_way.empty()) {
    return done(
        Named(call, absl::FailedPreconditionError(absl::StrCat(
                        "a rank joins when it has nothing else to do, but '", under_way, "' is under way"))));
  }
  Run(
      call, {.kind = Kind::kJoin},
      [&]() -> absl::StatusOr<std::unique_ptr<Collective>> {
        return MakeJoin({rank_, size()}, num_begun);
      },
      {},
      [done = std::move(done)](const absl::Status& status, const Collective& collective) {
        const absl::StatusOr<Tensor> last =
            status.ok() ? collective.result() : absl::StatusOr<Tensor>(status);
        if (!last.ok()) return done(last.status());
        done(last->scalar<int32_t>());
      });
  // What comes from here on begins its proxies itself.
  std::vector<Key> keys;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, parts] : early_) keys.push_back(id.second.first);
  }
  std::sort(keys.begin(), keys.end());  // so that a simulation repeats it
  for (const Key& key : keys) BeginProxies(key);
}

void RankGroup::BeginProxies(const Key& key) {
  while (true) {
    CollectiveSignature signature;
    Call call = {.key = key};
    ExchangeId id;
    {
      absl::MutexLock lock(&mutex_);
      if (!has_joined_ || generation_ == 0) return;
      id = {generation_, {key, next_sequence_[key]}};
      const auto it = early_.find(id);
      if (it == early_.end() || it->second[0].message.round != round_) return;
      signature = it->second[0].message.signature;
      call.name = it->second[0].message.name;
    }
    std::shared_ptr<void> bytes;
    absl::StatusOr<std::unique_ptr<Collective>> collective = MakeProxy(signature, &bytes);
    if (!collective.ok()) {
      // Its sender is told with the others.
      return EndGeneration(
          id.first, absl::Status(collective.status().code(),
                                 absl::StrCat(NameOf(rank_), " has joined, but '", call.name, "', ",
                                              signature.ToString(), ": ", collective.status().message())));
    }
    Run(
        call, signature, [&] { return std::move(collective); }, {.is_proxy = true},
        [bytes = std::move(bytes)](const absl::Status&, const Collective&) {}, &id);
  }
}

absl::Status RankGroup::TakeProxyBytes(const CollectiveSignature& signature, const Shape& shape,
                                       std::shared_ptr<void>* bytes) {
  const auto element = static_cast<int64_t>(DTypeSize(signature.dtype));
  const bool is_wired = signature.wire != DType::kInvalid;
  const int64_t travelling = is_wired ? static_cast<int64_t>(DTypeSize(signature.wire)) : element;
  // The zeros and the result, and both as they travel; what all ranks send of this one's share, maybe as
  // floats; and what a host's ranks have come to.
  const int64_t each = 2 * element + (is_wired ? 2 * travelling : 0) +
                       std::max<int64_t>(travelling, sizeof(float)) + (ranks_per_host_ > 1 ? travelling : 0);
  const int64_t num_bytes =
      shape.num_elements() <= max_proxy_bytes_ / each ? shape.num_elements() * each : -1;
  if (num_bytes < 0 || !proxy_budget_->Take(num_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "what the others compute, with zeros of this rank, takes more than ", max_proxy_bytes_, " bytes"));
  }
  *bytes = std::shared_ptr<void>(nullptr,
                                 [budget = proxy_budget_, num_bytes](void*) { budget->GiveBack(num_bytes); });
  return absl::OkStatus();
}

// Shapes and types are those that other ranks say.
absl::StatusOr<std::unique_ptr<Collective>> RankGroup::MakeProxy(const CollectiveSignature& signature,
                                                                 std::shared_ptr<void>* bytes) {
  const RankOf self = {rank_, size(), ranks_per_host_};
  const auto no_rows = [&]() -> absl::StatusOr<Tensor> {
    WEIR_RETURN_IF_ERROR(CheckPlain(signature.dtype));
    std::vector<int64_t> dims = {0};
    dims.insert(dims.end(), signature.dims.begin(), signature.dims.end());
    WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    return Tensor::Allocate(signature.dtype, shape);
  };
  switch (signature.kind) {
    case Kind::kAllReduce:
    case Kind::kReduceScatter: {
      WEIR_RETURN_IF_ERROR(CheckReduction(signature));
      if (signature.reduction != Reduction::kSum && signature.reduction != Reduction::kAdasum) {
        return absl::InvalidArgumentError("zeros would change it");
      }
      WEIR_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(signature.dims));
      WEIR_RETURN_IF_ERROR(TakeProxyBytes(signature, shape, bytes));
      WEIR_ASSIGN_OR_RETURN(Tensor zeros, Tensor::Allocate(signature.dtype, shape));
      if (signature.kind == Kind::kReduceScatter) WEIR_RETURN_IF_ERROR(CheckRows("a reduce-scatter", zeros));
      std::fill_n(static_cast<char*>(zeros.data()), zeros.num_bytes(), 0);
      return MakeReduction(signature, std::move(zeros), HostAllocator());
    }
    case Kind::kAllGather: {
      WEIR_ASSIGN_OR_RETURN(Tensor rows, no_rows());
      return MakeAllGather(self, std::move(rows), HostAllocator());
    }
    case Kind::kAllToAll: {
      WEIR_ASSIGN_OR_RETURN(Tensor rows, no_rows());
      return MakeAllToAll(self, std::move(rows), std::vector<int64_t>(self.size), HostAllocator());
    }
    case Kind::kBroadcast:
      WEIR_RETURN_IF_ERROR(CheckPlain(signature.dtype));
      if (signature.root == rank_ || signature.root < 0 || signature.root >= size()) {
        return absl::InvalidArgumentError("it has nothing to send");
      }
      return MakeBroadcast(self, signature.root, signature.dtype, Tensor(), HostAllocator());
    case Kind::kBarrier:
      return MakeAllGather(self, Tensor(DType::kInt32, Shape({0})), HostAllocator());
    case Kind::kJoin:
      return absl::InvalidArgumentError("the ranks join in different nodes");
  }
  return absl::InvalidArgumentError("no such collective");
}

}  // namespace weir
