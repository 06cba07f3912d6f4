#include "distributed/collectives/rank_group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/collectives/reduction.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

absl::string_view NameOfReduction(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kProduct:
      return "product";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kAdasum:
      return "Adasum";
  }
  return "?";
}

absl::Status CheckPlain(const Communicator::Call& call, DType dtype) {
  if (IsKnownDType(static_cast<int>(dtype)) && IsPlainBytes(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("collective '", call.name, "': tensors of ",
                                                 DTypeName(dtype), " cannot be sent to other ranks"));
}

absl::Status WithName(const Communicator::Call& call, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("collective '", call.name, "': ", status.message()));
}

}  // namespace

// A collective that this rank has begun.
class RankGroup::Exchange {
 public:
  Exchange(ExchangeId id, const Call& call, std::string signature, std::unique_ptr<Collective> collective,
           bool waits_for_receivers, absl::Time begin, Done done)
      : id(id),
        name(call.name),
        signature(std::move(signature)),
        begin(begin),
        waits_for_receivers(waits_for_receivers),
        collective(std::move(collective)),
        cancellation_(call.cancellation),
        done_(std::move(done)) {}

  // The first outcome counts. It is told when Register has returned at the latest: the step, and with it the
  // cancellation, lives until then.
  void Finish(absl::StatusOr<Tensor> outcome) {
    Done done;
    uint64_t callback = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (done_ == nullptr || outcome_.has_value()) return;
      if (!is_registered_) {
        outcome_ = std::move(outcome);
        return;
      }
      done = std::exchange(done_, nullptr);
      callback = std::exchange(callback_, 0);
    }
    if (cancellation_ != nullptr) cancellation_->Remove(callback);
    done(std::move(outcome));
  }

  // Once. `end` is called when the step is cancelled.
  void Register(std::function<void(const absl::Status&)> end) {
    const uint64_t callback = cancellation_ == nullptr ? 0 : cancellation_->OnCancel(std::move(end));
    std::optional<absl::StatusOr<Tensor>> outcome;
    {
      absl::MutexLock lock(&mutex_);
      callback_ = callback;
      is_registered_ = true;
      outcome = std::exchange(outcome_, std::nullopt);
    }
    if (outcome) Finish(*std::move(outcome));
  }

  void AddUnacknowledged(int64_t count) {
    absl::MutexLock lock(&mutex_);
    num_unacknowledged_ += count;
  }

  bool is_complete() const {
    if (!collective->is_complete()) return false;
    absl::MutexLock lock(&mutex_);
    return has_started_ && (!waits_for_receivers || num_unacknowledged_ == 0);
  }

  // Start and all that came early have been dealt with.
  void SetStarted() {
    absl::MutexLock lock(&mutex_);
    has_started_ = true;
  }

  const ExchangeId id;
  const std::string name;
  const std::string signature;
  const absl::Time begin;
  const bool waits_for_receivers;
  const std::unique_ptr<Collective> collective;

 private:
  Cancellation* const cancellation_;
  mutable absl::Mutex mutex_;
  int64_t num_unacknowledged_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_started_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_registered_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t callback_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::StatusOr<Tensor>> outcome_ ABSL_GUARDED_BY(mutex_);  // before it was registered
  Done done_ ABSL_GUARDED_BY(mutex_);                                      // null when it is over
};

RankGroup::RankGroup(int rank, std::vector<std::string> names, RankLinks& links, Environment& environment)
    : rank_(rank),
      names_(std::move(names)),
      links_(links),
      environment_(environment),
      has_left_(names_.size()),
      num_early_(names_.size()),
      num_early_bytes_(names_.size()) {}

RankGroup::~RankGroup() = default;

std::string RankGroup::NameOf(int rank) const { return absl::StrCat("rank ", rank, " (", names_[rank], ")"); }

void RankGroup::AllReduce(const Call& call, Tensor input, Reduction reduction, bool divides, Done done) {
  if (absl::Status status = CheckReducible(input.dtype()); !status.ok()) return done(WithName(call, status));
  if (reduction == Reduction::kAdasum || call.wire != DType::kInvalid) {
    return done(WithName(call, absl::UnimplementedError("this group knows neither Adasum nor other types on "
                                                        "the way")));
  }
  if (is_alone()) return done(std::move(input));
  const std::string signature =
      absl::StrCat("all-reduce(", NameOfReduction(reduction), divides ? ", divided" : "", ") of ",
                   TypeString(input.dtype(), input.shape()));
  Run(
      call, signature,
      [&] {
        return MakeAllReduce({rank_, size()}, input, reduction, divides, *call.allocator);
      },
      false, std::move(done));
}

void RankGroup::AllGather(const Call& call, Tensor input, Done done) {
  absl::Status status = CheckPlain(call, input.dtype());
  if (status.ok() && input.shape().rank() == 0) {
    status = absl::InvalidArgumentError(absl::StrCat(
        "collective '", call.name, "': an all-gather joins tensors along dimension 0, but this is a scalar"));
  }
  if (!status.ok()) return done(status);
  const std::string signature =
      absl::StrCat("all-gather of ", DTypeName(input.dtype()), "[?",
                   absl::StrJoin(input.shape().dims().subspan(1), "",
                                 [](std::string* out, int64_t dim) { absl::StrAppend(out, ",", dim); }),
                   "]");
  Run(
      call, signature,
      [&]() -> absl::StatusOr<std::unique_ptr<Collective>> {
        return MakeAllGather({rank_, size()}, input, *call.allocator);
      },
      false, std::move(done));
}

void RankGroup::Broadcast(const Call& call, int root, DType dtype, Tensor input, Done done) {
  absl::Status status = CheckPlain(call, dtype);
  if (status.ok() && (root < 0 || root >= size())) {
    status = absl::InvalidArgumentError(absl::StrCat("collective '", call.name, "': a broadcast from rank ",
                                                     root, " of a group of ", size()));
  }
  if (status.ok() && root == rank_ && input.dtype() != dtype) {
    status =
        absl::InvalidArgumentError(absl::StrCat("collective '", call.name, "': a broadcast of ",
                                                DTypeName(dtype), " is given ", DTypeName(input.dtype())));
  }
  if (!status.ok()) return done(status);
  Run(
      call, absl::StrCat("broadcast of ", DTypeName(dtype), " from rank ", root),
      [&]() -> absl::StatusOr<std::unique_ptr<Collective>> {
        return MakeBroadcast({rank_, size()}, root, dtype, input);
      },
      /*waits_for_receivers=*/true, std::move(done));
}

absl::Status RankGroup::NotFormedLocked() const {
  if (!status_.ok()) return status_;
  return absl::FailedPreconditionError(
      absl::StrCat(NameOf(rank_), ": the group of ", size(), " ranks has not been formed"));
}

void RankGroup::Run(const Call& call, std::string signature,
                    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Collective>>()> make,
                    bool waits_for_receivers, Done done) {
  absl::StatusOr<std::unique_ptr<Collective>> collective = make();
  std::shared_ptr<Exchange> exchange;
  std::vector<Early> early;
  absl::Status refused = collective.status();
  std::optional<int> left;
  {
    absl::MutexLock lock(&mutex_);
    if (is_alone_) {
      refused = absl::FailedPreconditionError("the others have done this step already, without this rank");
    } else if (generation_ == 0) {
      refused = NotFormedLocked();
    }
    if (refused.ok()) {
      const ExchangeId id = {generation_, {call.key, next_sequence_[call.key]++}};
      exchange = std::make_shared<Exchange>(id, call, std::move(signature), *std::move(collective),
                                            waits_for_receivers, environment_.Now(), std::move(done));
      exchanges_[id] = exchange;
      if (auto it = early_.find(id); it != early_.end()) {
        early = std::move(it->second);
        early_.erase(it);
        for (const Early& part : early) {
          --num_early_[part.from];
          num_early_bytes_[part.from] -= part.bytes.num_bytes();
        }
      }
      const auto it = std::find(has_left_.begin(), has_left_.end(), true);
      if (it != has_left_.end()) left = static_cast<int>(it - has_left_.begin());
    }
  }
  if (!refused.ok()) {
    // The others would wait for this rank.
    if (!collective.ok()) End(absl::AbortedError(WithName(call, refused).message()));
    return done(WithName(call, refused));
  }
  const uint64_t generation = exchange->id.first;
  exchange->Register([this, generation, name = call.name](const absl::Status& reason) {
    EndGeneration(generation, absl::AbortedError(absl::StrCat(NameOf(rank_), " has given up collective '",
                                                              name, "': ", reason.message())));
  });
  if (left) {
    return EndGeneration(
        generation, absl::AbortedError(
                        absl::StrCat(NameOf(*left), " has left before collective '", exchange->name, "'")));
  }
  SendAll(exchange, exchange->collective->Start());
  for (Early& part : early) Take(exchange, std::move(part));
  exchange->SetStarted();
  FinishIfComplete(exchange);
}

void RankGroup::SendAll(const std::shared_ptr<Exchange>& exchange, std::vector<Collective::Outgoing> parts) {
  exchange->AddUnacknowledged(static_cast<int64_t>(parts.size()));
  for (Collective::Outgoing& part : parts) {
    CollectiveMessage message = {
        exchange->id.first,         exchange->id.second.first,
        exchange->id.second.second, exchange->name.substr(0, CollectiveMessage::kMaxText),
        exchange->signature,        std::move(part.part)};
    const int to = part.to;
    links_.Send(to, std::move(message), std::move(part.bytes),
                [this, exchange, to](const absl::Status& status) {
                  exchange->AddUnacknowledged(-1);
                  if (status.ok()) return FinishIfComplete(exchange);
                  // InvalidArgument stays what it is: another try is no use.
                  const bool is_in_vain = absl::IsInvalidArgument(status);
                  EndGeneration(exchange->id.first,
                                absl::Status(is_in_vain ? status.code() : absl::StatusCode::kAborted,
                                             absl::StrCat("collective '", exchange->name, "' with ",
                                                          NameOf(to), ": ", status.message())));
                });
  }
}

void RankGroup::Take(const std::shared_ptr<Exchange>& exchange, Early part) {
  absl::Status status;
  if (part.message.signature != exchange->signature) {
    status = absl::InvalidArgumentError(absl::StrCat("the ranks do not compute the same: ", NameOf(rank_),
                                                     " has '", exchange->name, "', ", exchange->signature,
                                                     "; ", NameOf(part.from), " has '", part.message.name,
                                                     "', ", part.message.signature));
  } else {
    absl::StatusOr<std::vector<Collective::Outgoing>> next =
        exchange->collective->Receive(part.from, part.message.part, std::move(part.bytes));
    status = next.status();
    if (next.ok()) SendAll(exchange, *std::move(next));
  }
  part.reply(status);
  if (!status.ok()) {
    EndGeneration(exchange->id.first, status);
  }
}

void RankGroup::FinishIfComplete(const std::shared_ptr<Exchange>& exchange) {
  if (!exchange->is_complete()) return;
  {
    absl::MutexLock lock(&mutex_);
    // Acknowledgements come afterwards, too.
    if (exchanges_.erase(exchange->id) == 0) return;
  }
  exchange->Finish(exchange->collective->result());
}

void RankGroup::Begin(uint64_t generation) {
  std::vector<Early> dropped;
  absl::Status ended;
  {
    absl::MutexLock lock(&mutex_);
    generation_ = last_generation_ = generation;
    status_ = absl::OkStatus();
    next_sequence_.clear();
    has_left_.assign(names_.size(), false);
    for (auto it = early_.begin(); it != early_.end();) {
      if (it->first.first == generation) {
        ++it;
        continue;
      }
      for (Early& part : it->second) {
        --num_early_[part.from];
        num_early_bytes_[part.from] -= part.bytes.num_bytes();
        dropped.push_back(std::move(part));
      }
      early_.erase(it++);
    }
    for (const auto& [early, reason] : early_ends_) {
      if (early == generation) ended = reason;
    }
    early_ends_.clear();
  }
  for (Early& part : dropped) part.reply(absl::AbortedError("the group has been formed anew"));
  if (!ended.ok()) EndGeneration(generation, ended);
}

void RankGroup::End(absl::Status reason) { EndGeneration(generation(), std::move(reason)); }

void RankGroup::EndGeneration(uint64_t generation, absl::Status reason) {
  std::vector<std::shared_ptr<Exchange>> exchanges;
  std::vector<Early> early;
  {
    absl::MutexLock lock(&mutex_);
    if (generation == 0) return;
    if (generation != generation_) {
      if (generation_ == 0 && generation != last_generation_) early_ends_.push_back({generation, reason});
      if (early_ends_.size() > kRememberedEnds) early_ends_.pop_front();
      return;
    }
    generation_ = 0;
    status_ = reason;
    for (auto& [id, exchange] : exchanges_) exchanges.push_back(exchange);
    exchanges_.clear();
    for (auto& [id, parts] : early_) {
      for (Early& part : parts) early.push_back(std::move(part));
    }
    early_.clear();
    num_early_.assign(names_.size(), 0);
    num_early_bytes_.assign(names_.size(), 0);
  }
  // In the order of their keys, so that a simulation repeats it.
  std::sort(exchanges.begin(), exchanges.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  links_.OnEnd(generation, reason);
  for (Early& part : early) part.reply(reason);
  for (const auto& exchange : exchanges) exchange->Finish(reason);
}

void RankGroup::OnLeave(int rank, uint64_t generation) {
  bool is_awaited = false;
  {
    absl::MutexLock lock(&mutex_);
    if (generation != generation_ || generation == 0) return;
    has_left_[rank] = true;
    for (const auto& [id, exchange] : exchanges_) is_awaited |= exchange->collective->Awaits(rank);
  }
  if (is_awaited) {
    EndGeneration(generation, absl::AbortedError(
                                  absl::StrCat(NameOf(rank), " has left while a collective still needs it")));
  }
}

uint64_t RankGroup::generation() const {
  absl::MutexLock lock(&mutex_);
  return generation_;
}

absl::Status RankGroup::status() const {
  absl::MutexLock lock(&mutex_);
  return generation_ != 0 ? absl::OkStatus() : NotFormedLocked();
}

absl::Status RankGroup::CheckEarlyLocked(int from, const CollectiveMessage& message, size_t num_bytes) const {
  if (num_early_[from] >= kMaxEarlyParts ||
      num_early_bytes_[from] + static_cast<int64_t>(num_bytes) > kMaxEarlyBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        NameOf(rank_), " keeps ", num_early_[from], " parts (", num_early_bytes_[from], " bytes) of ",
        NameOf(from), ", which is ahead of it, and takes no more: '", message.name, "'"));
  }
  return absl::OkStatus();
}

void RankGroup::Receive(int from, CollectiveMessage message, Payload bytes, Reply reply) {
  if (from < 0 || from >= size() || from == rank_) {
    return reply(absl::InvalidArgumentError(absl::StrCat("a collective's part from rank ", from)));
  }
  const ExchangeId id = {message.generation, {message.key, message.sequence}};
  std::shared_ptr<Exchange> exchange;
  absl::Status status;
  bool is_over = false;
  {
    absl::MutexLock lock(&mutex_);
    if (auto it = exchanges_.find(id); it != exchanges_.end()) {
      exchange = it->second;
    } else if (message.generation == generation_ && generation_ != 0) {
      const auto next = next_sequence_.find(message.key);
      const int64_t first_open = next == next_sequence_.end() ? 0 : next->second;
      // A repetition, after it was over here.
      is_over = message.sequence >= 0 && message.sequence < first_open;
      if (!is_over) status = CheckEarlyLocked(from, message, bytes.num_bytes());
    } else if (generation_ == 0 && message.generation != last_generation_) {
      // The group is being formed, and its first message may be on its way yet.
      status = CheckEarlyLocked(from, message, bytes.num_bytes());
    } else {
      status = absl::Status(status_.ok() ? absl::StatusCode::kAborted : status_.code(),
                            absl::StrCat(NameOf(rank_), ": that generation of the group is over",
                                         status_.ok() ? "" : ": ", status_.message()));
    }
    if (exchange == nullptr && status.ok() && !is_over) {
      ++num_early_[from];
      num_early_bytes_[from] += bytes.num_bytes();
      early_[id].push_back({from, std::move(message), std::move(bytes), std::move(reply)});
      return;
    }
  }
  if (exchange == nullptr) return reply(status);
  Take(exchange, {from, std::move(message), std::move(bytes), std::move(reply)});
  FinishIfComplete(exchange);
}

void RankGroup::SetIsAlone(bool is_alone) {
  absl::MutexLock lock(&mutex_);
  is_alone_ = is_alone;
}

bool RankGroup::is_alone() const {
  absl::MutexLock lock(&mutex_);
  return is_alone_;
}

Payload RankGroup::Place(int from, const CollectiveMessage& message, size_t num_bytes) {
  std::shared_ptr<Exchange> exchange;
  {
    absl::MutexLock lock(&mutex_);
    auto it = exchanges_.find({message.generation, {message.key, message.sequence}});
    if (it == exchanges_.end()) return Payload();
    exchange = it->second;
  }
  return exchange->collective->Place(from, message.part, num_bytes);
}

std::vector<std::string> RankGroup::DescribeWaits(absl::Duration at_least) const {
  std::vector<std::string> lines;
  absl::MutexLock lock(&mutex_);
  const absl::Time now = environment_.Now();
  for (const auto& [id, exchange] : exchanges_) {
    const absl::Duration waited = now - exchange->begin;
    if (waited < at_least) continue;
    std::vector<std::string> awaited;
    for (int rank = 0; rank < size(); ++rank) {
      if (rank != rank_ && exchange->collective->Awaits(rank)) awaited.push_back(NameOf(rank));
    }
    lines.push_back(absl::StrCat(NameOf(rank_), " waits for ", absl::StrJoin(awaited, ", "), " in '",
                                 exchange->name, "', ", exchange->signature, ", for ",
                                 absl::FormatDuration(absl::Trunc(waited, absl::Seconds(1)))));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace weir
