#include "distributed/collectives/rank_group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "distributed/collectives/reduction.h"
#include "graph/types/status_macros.h"
#include "kernels/done_by_others.h"
#include "kernels/long_wait.h"

namespace weir {
namespace {

absl::Status WithText(const absl::Status& status, const std::string& text) {
  absl::Status other(status.code(), text);
  // That a rank was superseded decides its exit code.
  status.ForEachPayload(
      [&other](absl::string_view key, const absl::Cord& value) { other.SetPayload(key, value); });
  return other;
}

absl::Status WithName(const Communicator::Call& call, const absl::Status& status) {
  return WithText(status, absl::StrCat("collective '", call.name, "': ", status.message()));
}

absl::Status DoneByOthers() {
  return DoneByOthersError("the others have done this step already, without this rank");
}

}  // namespace

RankGroup::RankGroup(int rank, std::vector<std::string> names, RankLinks& links, Environment& environment,
                     int64_t max_proxy_bytes, int ranks_per_host)
    : rank_(rank),
      ranks_per_host_(ranks_per_host),
      names_(std::move(names)),
      links_(links),
      environment_(environment),
      presence_(names_.size(), Presence::kHere),
      gone_since_(names_.size(), absl::InfiniteFuture()),
      num_early_(names_.size()),
      num_early_bytes_(names_.size()),
      budgets_(names_.size()),
      max_proxy_bytes_(max_proxy_bytes),
      proxy_budget_(std::make_shared<ByteBudget>(max_proxy_bytes)) {}

RankGroup::~RankGroup() = default;

std::string RankGroup::NameOf(int rank) const { return absl::StrCat("rank ", rank, " (", names_[rank], ")"); }

absl::Status RankGroup::NotFormedLocked() const {
  if (!status_.ok()) return status_;
  return absl::FailedPreconditionError(
      absl::StrCat(NameOf(rank_), ": the group of ", size(), " ranks has not been formed"));
}

std::vector<RankGroup::Early> RankGroup::TakeEarlyLocked(const ExchangeId& id) {
  std::vector<Early> early;
  const auto it = early_.find(id);
  if (it == early_.end()) return early;
  early = std::move(it->second);
  early_.erase(it);
  for (const Early& part : early) {
    --num_early_[part.from];
    num_early_bytes_[part.from] -= part.bytes.num_bytes();
  }
  return early;
}

void RankGroup::Refuse(const Call& call, const absl::Status& status, const Exchange::Done& done) {
  struct Nothing final : Collective {
    std::vector<Outgoing> Start() override { return {}; }
    absl::StatusOr<std::vector<Outgoing>> Receive(int, const CollectivePart&, Payload) override {
      return std::vector<Outgoing>();
    }
    bool Awaits(int) const override { return false; }
    bool is_complete() const override { return false; }
    absl::StatusOr<Tensor> result() const override { return absl::InternalError("a refused collective"); }
  };
  done(WithName(call, status), Nothing());
}

void RankGroup::Run(const Call& call, CollectiveSignature signature, Make make, Exchange::Options options,
                    Exchange::Done done, const ExchangeId* proxied) {
  absl::StatusOr<std::unique_ptr<Collective>> collective = make();
  std::shared_ptr<Exchange> exchange;
  std::vector<Early> early;
  absl::Status refused = collective.status();
  absl::Status gone;
  bool is_deferred = false;
  const bool is_join = signature.kind == CollectiveSignature::Kind::kJoin;
  {
    absl::MutexLock lock(&mutex_);
    int64_t& next = next_sequence_[call.key];
    const ExchangeId id = {generation_, {call.key, next}};
    // Since it was seen, another may have begun it, or the round or the generation may have ended.
    if (proxied != nullptr && (!has_joined_ || id != *proxied)) return;
    progress_.num_collectives += !options.is_proxy;
    progress_.num_joins += is_join;
    if (alone_.has_value()) {
      refused = DoneByOthers();
    } else if (generation_ == 0) {
      refused = NotFormedLocked();
    } else if (has_joined_ && !options.is_proxy && !is_join) {
      refused =
          absl::FailedPreconditionError(absl::StrCat(NameOf(rank_), " has joined, and others have not"));
    }
    if (refused.ok()) {
      ++next;
      num_begun_ += !options.is_proxy;
      has_joined_ |= is_join;
      options.round = round_;
      exchange = std::make_shared<Exchange>(id, call, std::move(signature), *std::move(collective), options,
                                            size(), environment_.Now(), std::move(done));
      exchanges_[id] = exchange;
      early = TakeEarlyLocked(id);
      gone = WhyInVainLocked(*exchange, early);
    } else if (updates_.AreUnderWay(environment_.Now())) {
      is_deferred = true;
      deferred_.push_back([call, refused, done = std::move(done)] { Refuse(call, refused, done); });
    }
  }
  if (!refused.ok()) {
    // The others would wait for this rank.
    if (!collective.ok()) End(absl::AbortedError(WithName(call, refused).message()));
    if (!is_deferred) Refuse(call, refused, done);
    return;
  }
  const uint64_t generation = exchange->id.first;
  exchange->Register([this, generation, name = call.name](const absl::Status& reason) {
    EndGeneration(generation, absl::AbortedError(absl::StrCat(NameOf(rank_), " has given up collective '",
                                                              name, "': ", reason.message())));
  });
  if (!gone.ok()) {
    for (Early& part : early) part.reply(gone);
    return EndGeneration(generation, gone);
  }
  const bool looks = !options.is_proxy && IsSmall(exchange->signature) && links_.BeginLook(generation);
  SendAll(exchange, exchange->collective->Start());
  for (Early& part : early) Take(exchange, std::move(part));
  exchange->SetStarted();
  if (!options.is_proxy) EndIfSomebodyIsGone(*exchange);
  FinishIfComplete(exchange);
  if (!looks) return;
  links_.Look(generation, [this, &exchange] {
    absl::MutexLock lock(&mutex_);
    return !exchanges_.contains(exchange->id);
  });
}

void RankGroup::SendAll(const std::shared_ptr<Exchange>& exchange, std::vector<Collective::Outgoing> parts) {
  std::vector<int> receivers;
  for (Collective::Outgoing& part : parts) {
    if (std::find(receivers.begin(), receivers.end(), part.to) == receivers.end()) {
      receivers.push_back(part.to);
    }
    exchange->Push(std::move(part));
  }
  for (const int to : receivers) Pump(exchange, to);
}

void RankGroup::Pump(const std::shared_ptr<Exchange>& exchange, int to) {
  while (std::optional<Lane::Sent> sent = exchange->NextTo(to, &budgets_[to])) {
    CollectiveMessage message = {exchange->id.first,
                                 exchange->options.round,
                                 exchange->id.second.first,
                                 exchange->id.second.second,
                                 exchange->name.substr(0, CollectiveMessage::kMaxText),
                                 exchange->signature,
                                 std::move(sent->part.part)};
    Payload bytes = std::move(sent->part.bytes);
    links_.Send(to, std::move(message), std::move(bytes),
                [this, exchange, to, sent = *std::move(sent)](const absl::Status& status) {
                  OnAnswer(exchange, to, sent, status);
                });
  }
}

void RankGroup::OnAnswer(const std::shared_ptr<Exchange>& exchange, int to, const Lane::Sent& sent,
                         const absl::Status& status) {
  if (sent.is_eager) budgets_[to].GiveBack(sent.num_bytes);
  exchange->OnAnswer(to, sent);
  if (status.ok()) {
    Pump(exchange, to);
    return FinishIfComplete(exchange);
  }
  exchange->CloseLanes();
  // InvalidArgument stays what it is: another try is no use.
  const bool is_in_vain = absl::IsInvalidArgument(status);
  EndGeneration(exchange->id.first, absl::Status(is_in_vain ? status.code() : absl::StatusCode::kAborted,
                                                 absl::StrCat("collective '", exchange->name, "' with ",
                                                              NameOf(to), ": ", status.message())));
}

void RankGroup::Take(const std::shared_ptr<Exchange>& exchange, Early part) {
  // What is announced comes after the answer: one that is held would never come.
  const bool is_announcement = part.message.part.phase == CollectivePart::kAnnouncement;
  absl::Status status;
  exchange->BeginTake();
  if (!(part.message.signature == exchange->signature)) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the ranks do not compute the same: ", NameOf(rank_), " has '", exchange->name, "', ",
                     exchange->signature.ToString(), "; ", NameOf(part.from), " has '", part.message.name,
                     "', ", part.message.signature.ToString()));
  } else if (!is_announcement) {
    absl::StatusOr<std::vector<Collective::Outgoing>> next =
        exchange->collective->Receive(part.from, part.message.part, std::move(part.bytes));
    status = next.status();
    if (next.ok()) SendAll(exchange, *std::move(next));
  }
  exchange->EndTake();
  const bool is_held = status.ok() && !is_announcement && exchange->collective->keeps_what_comes() &&
                       exchange->Hold(&part.reply);
  if (!is_held) part.reply(status);
  // Looked at again, for another thread may have made the result's place before the answer was held.
  if (!exchange->collective->keeps_what_comes()) AnswerHeld(*exchange, absl::OkStatus());
  if (!status.ok()) EndGeneration(exchange->id.first, status);
}

void RankGroup::AnswerHeld(Exchange& exchange, const absl::Status& status) {
  for (Reply& reply : exchange.TakeHeld()) reply(status);
}

void RankGroup::FinishIfComplete(const std::shared_ptr<Exchange>& exchange) {
  if (!exchange->is_complete()) return;
  std::vector<std::shared_ptr<Exchange>> needless;
  {
    absl::MutexLock lock(&mutex_);
    // Acknowledgements come afterwards, too.
    if (exchanges_.erase(exchange->id) == 0) return;
    if (exchange->signature.kind == CollectiveSignature::Kind::kJoin) {
      has_joined_ = false;
      ++round_;
      num_begun_ = 0;
      needless = TakeProxiesLocked();
    }
  }
  for (const auto& proxy : needless) {
    proxy->CloseLanes();
    AnswerHeld(*proxy, absl::OkStatus());
    proxy->Finish(absl::OkStatus());
  }
  exchange->Finish(absl::OkStatus());
}

// All have joined, so each that needed a result has it: what is still under way is between proxies alone.
std::vector<std::shared_ptr<Exchange>> RankGroup::TakeProxiesLocked() {
  std::vector<std::shared_ptr<Exchange>> proxies;
  absl::erase_if(exchanges_, [&](const auto& entry) {
    if (entry.second->options.is_proxy) proxies.push_back(entry.second);
    return entry.second->options.is_proxy;
  });
  return proxies;
}

void RankGroup::Begin(uint64_t generation) {
  std::vector<Early> dropped;
  absl::Status ended;
  {
    absl::MutexLock lock(&mutex_);
    generation_ = last_generation_ = generation;
    status_ = absl::OkStatus();
    next_sequence_.clear();
    has_joined_ = false;
    round_ = 0;
    num_begun_ = 0;
    presence_.assign(names_.size(), Presence::kHere);
    gone_since_.assign(names_.size(), absl::InfiniteFuture());
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
  if (reason.message().size() > kMaxReasonText) {
    reason = WithText(reason, absl::StrCat(reason.message().substr(0, kMaxReasonText), "..."));
  }
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
    has_joined_ = false;
  }
  // In the order of their keys, so that a simulation repeats it.
  std::sort(exchanges.begin(), exchanges.end(), [](const auto& a, const auto& b) { return a->id < b->id; });
  for (const auto& exchange : exchanges) exchange->CloseLanes();
  links_.OnEnd(generation, reason);
  for (Early& part : early) part.reply(reason);
  for (const auto& exchange : exchanges) AnswerHeld(*exchange, reason);
  std::vector<Telling> told;
  {
    absl::MutexLock lock(&mutex_);
    deferred_.push_back([exchanges = std::move(exchanges), reason = std::move(reason)] {
      for (const auto& exchange : exchanges) exchange->Finish(reason);
    });
    told = TakeDeferredLocked();
  }
  Tell(told);
}

std::vector<RankGroup::Telling> RankGroup::TakeDeferredLocked() {
  if (updates_.AreUnderWay(environment_.Now())) return {};
  return std::exchange(deferred_, {});
}

void RankGroup::Tell(const std::vector<Telling>& told) {
  for (const Telling& tell : told) tell();
}

absl::Status RankGroup::BeginUpdates(const Call& call) {
  EndUpdates(call);  // of a step that did not come to its end
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (alone_.has_value()) return DoneByOthers();
    id = updates_.Open({call.key, call.cancellation, environment_.Now()});
  }
  if (call.cancellation == nullptr) return absl::OkStatus();
  const uint64_t callback = call.cancellation->OnCancel([this, id](const absl::Status&) {
    std::vector<Telling> told;
    {
      absl::MutexLock lock(&mutex_);
      updates_.Tear(id);
      told = TakeDeferredLocked();
    }
    Tell(told);
  });
  {
    absl::MutexLock lock(&mutex_);
    if (updates_.SetCallback(id, callback)) return absl::OkStatus();
  }
  return call.cancellation->reason();  // it has updated nothing
}

void RankGroup::EndUpdates(const Call& call) {
  std::vector<Telling> told;
  uint64_t callback = 0;
  {
    absl::MutexLock lock(&mutex_);
    callback = updates_.Close(updates_.Find(call.key, call.cancellation));
    told = TakeDeferredLocked();
  }
  if (callback != 0) call.cancellation->Remove(callback);
  Tell(told);
}

void RankGroup::TellOverdue() {
  std::vector<Telling> told;
  {
    absl::MutexLock lock(&mutex_);
    told = TakeDeferredLocked();
  }
  Tell(told);
}

bool RankGroup::has_torn_updates() const {
  absl::MutexLock lock(&mutex_);
  return updates_.is_torn();
}

void RankGroup::ForgetTornUpdates() {
  absl::MutexLock lock(&mutex_);
  updates_.ForgetTears();
}

absl::Status RankGroup::WhyGone(int rank, Presence presence, absl::string_view needed_by) const {
  if (presence == Presence::kLeft) {
    return absl::AbortedError(
        absl::StrCat(NameOf(rank), " has left while collective '", needed_by, "' still needs it"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(NameOf(rank), " is done, while collective '", needed_by,
                   "' still needs it: every rank must run as many steps as the others, or Join"));
}

// Of a rank that has gone, and from which nothing has come for it. A receiver of a broadcast may have it, and
// have gone, before this one begins.
absl::Status RankGroup::WhyInVainLocked(const Exchange& exchange, absl::Span<const Early> early) const {
  const CollectiveSignature& signature = exchange.signature;
  const bool needs_root_only =
      signature.kind == CollectiveSignature::Kind::kBroadcast && signature.root != rank_;
  for (int rank = 0; rank < size(); ++rank) {
    const auto is_from = [rank](const Early& part) { return part.from == rank; };
    if (presence_[rank] == Presence::kHere || std::any_of(early.begin(), early.end(), is_from)) continue;
    if (needs_root_only && rank != signature.root) continue;
    return WhyGone(rank, presence_[rank], exchange.name);
  }
  return absl::OkStatus();
}

void RankGroup::EndIfSomebodyIsGone(const Exchange& exchange) {
  absl::Status why;
  {
    absl::MutexLock lock(&mutex_);
    for (int rank = 0; rank < size() && why.ok(); ++rank) {
      if (presence_[rank] == Presence::kHere || !exchange.collective->Awaits(rank)) continue;
      why = WhyGone(rank, presence_[rank], exchange.name);
    }
  }
  if (!why.ok()) EndGeneration(exchange.id.first, why);
}

void RankGroup::NoteGone(int rank, uint64_t generation, Presence presence) {
  absl::Status why;
  {
    absl::MutexLock lock(&mutex_);
    if (generation != generation_ || generation == 0) return;
    // One that is done leaves, too.
    if (presence_[rank] == Presence::kHere) {
      presence_[rank] = presence;
      gone_since_[rank] = environment_.Now();
    }
    for (const auto& [id, exchange] : exchanges_) {
      // It may have gone because all have joined: this rank is about to hear of it.
      if (exchange->options.is_proxy) continue;
      // What came early may be all that it needs: it looks itself when it has taken that.
      if (!exchange->has_started()) continue;
      if (why.ok() && exchange->collective->Awaits(rank)) {
        why = WhyGone(rank, presence_[rank], exchange->name);
      }
    }
  }
  if (!why.ok()) EndGeneration(generation, why);
}

void RankGroup::EndVainProxies(absl::Time now) {
  absl::Status why;
  uint64_t generation = 0;
  {
    absl::MutexLock lock(&mutex_);
    generation = generation_;
    for (const auto& [id, exchange] : exchanges_) {
      if (!exchange->options.is_proxy) continue;
      for (int rank = 0; rank < size() && why.ok(); ++rank) {
        if (presence_[rank] == Presence::kHere || now - gone_since_[rank] < kProxyPatience) continue;
        if (exchange->collective->Awaits(rank)) why = WhyGone(rank, presence_[rank], exchange->name);
      }
    }
  }
  if (!why.ok()) EndGeneration(generation, why);
}

void RankGroup::OnLeave(int rank, uint64_t generation) { NoteGone(rank, generation, Presence::kLeft); }

void RankGroup::OnFinish(int rank, uint64_t generation) { NoteGone(rank, generation, Presence::kDone); }

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
  const Key key = message.key;
  std::shared_ptr<Exchange> exchange;
  absl::Status status;
  bool is_over = false;
  bool is_kept = false;
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
      if (!has_joined_) return;
      is_kept = true;
    }
  }
  if (is_kept) return BeginProxies(key);
  if (exchange == nullptr) return reply(status);
  Take(exchange, {from, std::move(message), std::move(bytes), std::move(reply)});
  FinishIfComplete(exchange);
}

RankGroup::Progress RankGroup::progress() const {
  absl::MutexLock lock(&mutex_);
  return progress_;
}

void RankGroup::SetAlone(std::optional<int> newest) {
  absl::MutexLock lock(&mutex_);
  alone_ = newest;
}

std::optional<int> RankGroup::alone() const {
  absl::MutexLock lock(&mutex_);
  return alone_;
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

std::vector<std::string> RankGroup::TakeWords(absl::Duration soon) {
  std::vector<std::string> lines;
  absl::MutexLock lock(&mutex_);
  const absl::Time now = environment_.Now();
  for (const auto& [id, exchange] : exchanges_) {
    if (now + soon < exchange->next_word) continue;
    exchange->next_word = now + LongWait::kSilence;
    std::vector<std::string> awaited;
    for (int rank = 0; rank < size(); ++rank) {
      if (rank == rank_ || !exchange->collective->MayBeLate(rank)) continue;
      const auto [first, last] = exchange->collective->SpeaksFor(rank);
      awaited.push_back(first == last ? NameOf(rank)
                                      : absl::StrCat(NameOf(rank), " with what ", NameOf(first), " to ",
                                                     NameOf(last), " have given"));
    }
    const char* to_take = "";
    if (exchange->collective->is_complete()) {
      for (const int rank : exchange->Receivers()) awaited.push_back(NameOf(rank));
      to_take = " to take what it sent";
    }
    if (awaited.empty()) continue;  // it is about to be over
    lines.push_back(absl::StrCat(NameOf(rank_), " waits for ", absl::StrJoin(awaited, ", "), to_take, " in '",
                                 exchange->name, "', ", exchange->signature.ToString(), ", for ",
                                 absl::FormatDuration(absl::Trunc(now - exchange->begin, absl::Seconds(1)))));
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace weir
