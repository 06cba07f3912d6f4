#include "distributed/master/client_call.h"

#include <algorithm>

namespace weir {
namespace {

absl::Duration TimeToAnswer(absl::Duration left) {
  return std::clamp(left / 50, absl::ZeroDuration(), absl::Duration(absl::Milliseconds(200)));
}

// A client that goes so short before its deadline has run out of time: it does not ask again, and its next
// call may be on the way. Its clock began earlier than this server's; on a busy machine, much earlier.
constexpr absl::Duration kLastMoment = absl::Seconds(1);

absl::Duration PatienceLeft(absl::Duration patience, absl::Time deadline, absl::Time now) {
  return deadline - now < kLastMoment ? absl::ZeroDuration() : patience;
}

}  // namespace

ClientCall::ClientCall(Environment& environment, OpenWork& work, absl::Time deadline)
    : environment_(environment),
      work_(work),
      deadline_(deadline == absl::InfiniteFuture() ? deadline
                                                   : deadline - TimeToAnswer(deadline - environment.Now())) {}

void ClientCall::Outlives(absl::Duration patience) {
  bool has_gone = false;
  int64_t departure = 0;
  {
    absl::MutexLock lock(&mutex_);
    patience_ = patience;
    departure = num_departures_;
    // The client went before its request was read; nothing has heard of that yet.
    has_gone = is_given_up_;
    is_given_up_ = false;
  }
  if (has_gone) {
    const absl::Time now = environment_.Now();
    work_.Later(now + PatienceLeft(patience, deadline_, now),
                [self = shared_from_this(), departure] { self->GiveUpIfAlone(departure); });
  }
}

void ClientCall::Repeats(std::shared_ptr<ClientCall> first) {
  first->Join();
  bool has_gone = false;
  {
    absl::MutexLock lock(&mutex_);
    first_ = first;
    has_gone = is_gone_;
  }
  if (has_gone) first->Leave();
}

void ClientCall::Gone() {
  std::shared_ptr<ClientCall> first;
  {
    absl::MutexLock lock(&mutex_);
    if (is_gone_) return;
    is_gone_ = true;
    first = first_;
  }
  (first != nullptr ? *first : *this).Leave();
}

void ClientCall::Join() {
  absl::MutexLock lock(&mutex_);
  ++num_waiting_;
}

void ClientCall::Leave() {
  const absl::Time now = environment_.Now();
  absl::Duration patience;
  int64_t departure = 0;
  std::shared_ptr<Step> step;
  {
    absl::MutexLock lock(&mutex_);
    if (--num_waiting_ > 0) return;
    patience = PatienceLeft(patience_, deadline_, now);
    departure = ++num_departures_;
    // With the same lock as the patience was read, so that Outlives sees it.
    is_given_up_ = is_given_up_ || patience <= absl::ZeroDuration();
    if (is_given_up_) step = step_;
  }
  if (step != nullptr) step->Cancel(GivenUp());
  if (patience <= absl::ZeroDuration()) return;
  work_.Later(now + patience, [self = shared_from_this(), departure] { self->GiveUpIfAlone(departure); });
}

void ClientCall::GiveUpIfAlone(int64_t departure) {
  std::shared_ptr<Step> step;
  {
    absl::MutexLock lock(&mutex_);
    if (num_waiting_ > 0 || departure != num_departures_) return;
    is_given_up_ = true;
    step = step_;
  }
  if (step != nullptr) step->Cancel(GivenUp());
}

void ClientCall::SetStep(std::shared_ptr<Step> step) {
  {
    absl::MutexLock lock(&mutex_);
    step_.swap(step);
    if (!is_given_up_ || step_ == nullptr) return;
    step = step_;
  }
  step->Cancel(GivenUp());
}

bool ClientCall::is_given_up() const {
  absl::MutexLock lock(&mutex_);
  return is_given_up_;
}

}  // namespace weir
