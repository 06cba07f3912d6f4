#include "distributed/master/answered_requests.h"

#include "absl/strings/str_cat.h"

namespace weir {
namespace {

bool IsLarge(const absl::StatusOr<Frame>& reply) {
  return reply.ok() && reply->num_wire_bytes() > AnsweredRequests::kSmallBytes;
}

// A small answer must not keep the buffers of tensors: a variable that is held is copied when it is updated.
absl::StatusOr<Frame> Own(const absl::StatusOr<Frame>& reply) {
  if (!reply.ok()) return reply;
  std::string bytes;
  for (const Payload& payload : reply->payloads) absl::StrAppend(&bytes, payload.bytes());
  Frame own;
  own.payloads.push_back(Payload::OfString(std::move(bytes)));
  return own;
}

}  // namespace

bool AnsweredRequests::Begin(const Key& key, const std::shared_ptr<IncomingCall>& call) {
  Reply answer, dropped;  // destroyed without the lock
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    const auto [known, is_first] = requests_.try_emplace(key);
    if (is_first) {
      const auto large = large_.find(key.first);
      if (large == large_.end()) return true;
      if (const auto before = requests_.find(large->second); before != requests_.end()) {
        dropped.swap(before->second.answer);
      }
      large_.erase(large);
      return true;
    }
    Request& request = known->second;
    answer = request.answer;
    if (!request.is_over && request.waiting.size() < kMaxWaiting) {
      request.waiting.push_back(call);
      return false;
    }
    refusal = absl::AbortedError(absl::StrCat("The same request (id ", key.second, ") was received twice. ",
                                              request.is_over
                                                  ? "It was answered, and the answer is not kept any more"
                                                  : "It is under way, and was repeated too often"));
  }
  call->Reply(answer != nullptr ? *answer : absl::StatusOr<Frame>(refusal));
  return false;
}

void AnsweredRequests::Answer(const Key& key, IncomingCall& call, absl::StatusOr<Frame> reply) {
  const bool is_large = IsLarge(reply);
  Reply kept = std::make_shared<const absl::StatusOr<Frame>>(is_large ? reply : Own(reply));
  std::vector<std::shared_ptr<IncomingCall>> waiting;
  Reply dropped;
  {
    absl::MutexLock lock(&mutex_);
    Request& request = requests_[key];
    waiting.swap(request.waiting);
    request.is_over = true;
    request.answer = kept;
    if (is_large) {
      const auto [large, is_only] = large_.try_emplace(key.first, key);
      if (!is_only) {
        if (const auto before = requests_.find(large->second); before != requests_.end()) {
          dropped.swap(before->second.answer);
        }
        large->second = key;
      }
    }
    over_.push_back(key);
    if (over_.size() > kMaxRequests) {
      requests_.erase(over_.front());
      over_.pop_front();
    }
  }
  for (const auto& repetition : waiting) repetition->Reply(*kept);
  call.Reply(std::move(reply));
}

void AnsweredRequests::Forget(const std::string& session) {
  Reply dropped;  // declared first: destroyed without the lock
  absl::MutexLock lock(&mutex_);
  const auto large = large_.find(session);
  if (large == large_.end()) return;
  if (const auto known = requests_.find(large->second); known != requests_.end()) {
    dropped.swap(known->second.answer);
  }
  large_.erase(large);
}

}  // namespace weir
