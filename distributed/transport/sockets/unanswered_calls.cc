#include "distributed/transport/sockets/unanswered_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace weir {

absl::Status UnansweredCalls::Admit(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  if (!is_open_) {
    return absl::CancelledError(absl::StrCat("call ", number, " came when the connection had been closed"));
  }
  if (calls_.contains(number)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "call ", number, " came again before it was answered: a number is used for one call at a time"));
  }
  if (calls_.size() >= max_calls_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("call ", number, " came when ", calls_.size(),
                     " calls of its connection had no answer yet, the limit is ", max_calls_));
  }
  calls_.emplace(number, Call());
  return absl::OkStatus();
}

bool UnansweredCalls::Begin(uint64_t number, const std::shared_ptr<PendingReply>& reply) {
  bool is_given_up = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto call = calls_.find(number);
    if (call == calls_.end()) return false;
    call->second.reply = reply;
    is_given_up = call->second.is_given_up;
  }
  if (is_given_up) reply->GiveUp();
  return true;
}

void UnansweredCalls::GiveUp(uint64_t number) {
  std::shared_ptr<PendingReply> reply;
  {
    absl::MutexLock lock(&mutex_);
    const auto call = calls_.find(number);
    if (call == calls_.end()) return;
    call->second.is_given_up = true;
    reply = call->second.reply.lock();
  }
  if (reply != nullptr) reply->GiveUp();
}

void UnansweredCalls::Remove(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(number);
}

void UnansweredCalls::Close() {
  absl::flat_hash_map<uint64_t, Call> given_up;
  {
    absl::MutexLock lock(&mutex_);
    is_open_ = false;
    given_up.swap(calls_);
  }
  for (const auto& [number, call] : given_up) {
    if (const auto reply = call.reply.lock()) reply->GiveUp();
  }
}

}  // namespace weir
