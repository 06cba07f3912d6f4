// The steps of a rank that are updating variables just now, and those that were cancelled while they did
// (Communicator::BeginUpdates).
//
// A section is open, and has begun when its step can be told so: what is cancelled before has updated
// nothing. One that is not ended within kLongest, because its step did not run the end, keeps nobody waiting
// any more. Thread safety: none; its owner locks.
#pragma once

#include <cstdint>
#include <map>

#include "absl/time/time.h"
#include "kernels/communicator.h"

namespace weir {

class UpdateSections {
 public:
  static constexpr absl::Duration kLongest = absl::Seconds(10);

  struct Section {
    Communicator::Key key;
    const Cancellation* step = nullptr;
    absl::Time begin;
    uint64_t callback = 0;  // of the step's cancellation; 0: the section has not begun, or has none
  };

  uint64_t Open(const Section& section) {
    sections_[++last_] = section;
    return last_;
  }
  // It begins. False when it is not there any more.
  bool SetCallback(uint64_t id, uint64_t callback) {
    const auto it = sections_.find(id);
    if (it == sections_.end()) return false;
    it->second.callback = callback;
    return true;
  }
  // 0: there is none.
  uint64_t Find(const Communicator::Key& key, const Cancellation* step) const {
    for (const auto& [id, section] : sections_) {
      if (section.key == key && section.step == step) return id;
    }
    return 0;
  }
  // The callback of the section; 0 when there is no such section any more.
  uint64_t Close(uint64_t id) {
    const auto it = sections_.find(id);
    if (it == sections_.end()) return 0;
    const uint64_t callback = it->second.callback;
    sections_.erase(it);
    return callback;
  }
  // Its step is cancelled.
  void Tear(uint64_t id) { is_torn_ |= Close(id) != 0; }

  // Whether a failure has to wait.
  bool AreUnderWay(absl::Time now) const {
    for (const auto& [id, section] : sections_) {
      if (now < section.begin + kLongest) return true;
    }
    return false;
  }

  bool is_torn() const { return is_torn_; }
  void ForgetTears() { is_torn_ = false; }

 private:
  uint64_t last_ = 0;
  std::map<uint64_t, Section> sections_;
  bool is_torn_ = false;
};

}  // namespace weir
