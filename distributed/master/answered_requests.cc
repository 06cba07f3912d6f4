#include "distributed/master/answered_requests.h"

#include <algorithm>

#include "absl/hash/hash.h"
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

size_t AnsweredRequests::FingerprintOf(absl::string_view message) {
  constexpr size_t kLookedAt = 4 << 10;
  const size_t end = message.size() - std::min(message.size(), kLookedAt);
  return absl::HashOf(message.size(), message.substr(0, kLookedAt), message.substr(end));
}

bool AnsweredRequests::Begin(const Key& key, size_t fingerprint, const std::shared_ptr<IncomingCall>& call,
                             const std::shared_ptr<ClientCall>& client) {
  Reply answer, dropped;  // destroyed without the lock
  absl::Status refusal;
  std::shared_ptr<ClientCall> first;
  bool is_first = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto [known, is_new] = requests_.try_emplace(key);
    Request& request = known->second;
    is_first = is_new;
    if (is_first) {
      request.fingerprint = fingerprint;
      request.client = client;
      dropped = DropLarge(key.session);
    } else if (request.fingerprint != fingerprint) {
      refusal =
          absl::AbortedError(absl::StrCat("The request id ", key.request_id,
                                          " was received twice, with different requests: each needs an id of "
                                          "its own"));
    } else if (!request.is_over && request.waiting.size() < kMaxWaiting) {
      request.waiting.push_back(call);
      first = request.client;
    } else {
      answer = request.answer;
      refusal = absl::AbortedError(
          absl::StrCat("The same request (id ", key.request_id, ") was received twice. ",
                       request.is_over ? "It was answered, and the answer is not kept any more"
                                       : "It is under way, and was repeated too often"));
    }
  }
  if (is_first) {
    client->Outlives(ClientCall::kPatience);
  } else if (first != nullptr) {
    client->Repeats(std::move(first));
  } else {
    call->Reply(answer != nullptr ? answer->reply : absl::StatusOr<Frame>(refusal));
  }
  return is_first;
}

AnsweredRequests::Reply AnsweredRequests::DropLarge(const std::string& session) {
  const auto large = large_of_.find(session);
  if (large == large_of_.end()) return nullptr;
  Reply dropped;
  if (const auto known = requests_.find(*large->second); known != requests_.end()) {
    dropped.swap(known->second.answer);
  }
  large_.erase(large->second);
  large_of_.erase(large);
  return dropped;
}

void AnsweredRequests::Answer(const Key& key, IncomingCall& call, absl::StatusOr<Frame> reply) {
  const bool is_large = IsLarge(reply);
  Reply kept;
  if (is_large) {
    absl::StatusOr<PeerUse::Share> room = take_room_(static_cast<int64_t>(reply->num_wire_bytes()));
    if (room.ok()) kept = std::make_shared<const Kept>(Kept{reply, *std::move(room)});
  } else {
    kept = std::make_shared<const Kept>(Kept{Own(reply), PeerUse::Share()});
  }
  std::vector<std::shared_ptr<IncomingCall>> waiting;
  Reply dropped, forgotten, too_old;  // destroyed without the lock
  std::shared_ptr<ClientCall> client;
  {
    absl::MutexLock lock(&mutex_);
    Request& request = requests_[key];
    waiting.swap(request.waiting);
    client.swap(request.client);
    request.is_over = true;
    if (is_large && request.is_forgotten) forgotten.swap(kept);
    request.answer = kept;
    if (is_large && kept != nullptr) {
      dropped = DropLarge(key.session);
      large_of_.emplace(key.session, large_.insert(large_.end(), key));
    }
    over_.push_back(key);
    if (over_.size() > kMaxRequests) {
      const Key oldest = std::move(over_.front());
      over_.pop_front();
      const auto large = large_of_.find(oldest.session);
      if (large != large_of_.end() && *large->second == oldest) too_old = DropLarge(oldest.session);
      requests_.erase(oldest);
    }
  }
  for (const auto& repetition : waiting) repetition->Reply(reply);
  call.Reply(std::move(reply));
}

void AnsweredRequests::Forget(const std::string& session) {
  Reply dropped;  // declared first: destroyed without the lock
  absl::MutexLock lock(&mutex_);
  dropped = DropLarge(session);
  for (auto& [key, request] : requests_) {
    if (!request.is_over && key.session == session) request.is_forgotten = true;
  }
}

bool AnsweredRequests::DropOldest() {
  Reply dropped;  // declared first: destroyed without the lock
  absl::MutexLock lock(&mutex_);
  if (large_.empty()) return false;
  const std::string session = large_.front().session;
  dropped = DropLarge(session);
  return true;
}

}  // namespace weir
