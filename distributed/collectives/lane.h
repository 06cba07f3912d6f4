// What one collective sends to one rank: parts that wait until the receiver can take them.
//
// Credit. A receiver that has not begun the collective answers when it does, and keeps what has come until
// then. So no more than kFirstBytes leave before a part has been answered, and kOpenBytes may be under way
// afterwards. All collectives together send a rank that has begun none of them no more than
// ByteBudget::kEagerBytes: beyond that one only announces itself, and its parts follow the answer, of which
// no more than kFirstBytes before one of them is answered. So nobody is refused for the bytes that it is
// ahead, and what is kept of a rank is bounded.
//
// Thread safety: none of Lane, all methods of ByteBudget.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "distributed/collectives/collective.h"

namespace weir {

// Bytes that may be taken and are given back: those under way to a rank that is not known to expect them, at
// most kEagerBytes.
class ByteBudget {
 public:
  static constexpr int64_t kEagerBytes = int64_t{256} << 20;

  explicit ByteBudget(int64_t max_bytes = kEagerBytes) : max_bytes_(max_bytes) {}

  bool Take(int64_t num_bytes) {
    if (num_bytes_.fetch_add(num_bytes) + num_bytes <= max_bytes_) return true;
    num_bytes_ -= num_bytes;
    return false;
  }
  void GiveBack(int64_t num_bytes) { num_bytes_ -= num_bytes; }

 private:
  const int64_t max_bytes_;
  std::atomic<int64_t> num_bytes_{0};
};

class Lane {
 public:
  static constexpr int64_t kFirstBytes = 4 << 20;
  static constexpr int64_t kOpenBytes = 64 << 20;

  // One that may leave now. Its answer is told to OnAnswer.
  struct Sent {
    Collective::Outgoing part;
    int64_t num_bytes = 0;
    bool is_eager = false;  // its bytes were taken from the budget
    bool is_announcement = false;
  };

  void Push(Collective::Outgoing part) { waiting_.push_back(std::move(part)); }

  std::optional<Sent> Next(ByteBudget* budget) {
    if (waiting_.empty()) return std::nullopt;
    Sent sent;
    sent.num_bytes = static_cast<int64_t>(waiting_.front().bytes.num_bytes());
    const int64_t window = is_open_ ? kOpenBytes : kFirstBytes;
    if (num_bytes_ > 0 && num_bytes_ + sent.num_bytes > window) return std::nullopt;
    sent.is_eager = !has_begun_ && sent.num_bytes > 0;
    if (sent.is_eager && !budget->Take(sent.num_bytes)) {
      if (num_under_way_ > 0) return std::nullopt;  // its answer says that the receiver has begun
      sent = {{waiting_.front().to, {CollectivePart::kAnnouncement, 0, {}}, Payload()}, 0, false, true};
    } else {
      sent.part = std::move(waiting_.front());
      waiting_.pop_front();
    }
    num_bytes_ += sent.num_bytes;
    ++num_under_way_;
    return sent;
  }

  // The receiver has begun, and has taken the part in if it was one.
  void OnAnswer(const Sent& sent) {
    has_begun_ = true;
    is_open_ |= !sent.is_announcement;
    num_bytes_ -= sent.num_bytes;
    --num_under_way_;
  }

  // Whether nothing waits for its turn or its answer.
  bool is_idle() const { return waiting_.empty() && num_under_way_ == 0; }

  // Nothing more is sent.
  void Close() { waiting_.clear(); }

 private:
  std::deque<Collective::Outgoing> waiting_;
  int64_t num_bytes_ = 0;  // under way
  int64_t num_under_way_ = 0;
  bool has_begun_ = false;  // the receiver
  bool is_open_ = false;
};

}  // namespace weir
