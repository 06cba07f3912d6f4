#include "session/executor/applied_updates.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace weir {
namespace {

constexpr size_t kNumberBytes = 8;

void Put(uint64_t number, std::string* text) {
  for (size_t i = 0; i < kNumberBytes; ++i) text->push_back(static_cast<char>(number >> (8 * i)));
}

// Takes numbers from a text that has none too few.
class Numbers {
 public:
  explicit Numbers(absl::string_view text) : text_(text) {}

  size_t num_left() const { return (text_.size() - at_) / kNumberBytes; }
  uint64_t Next() {
    uint64_t number = 0;
    for (size_t i = kNumberBytes; i > 0; --i) {
      number = number << 8 | static_cast<unsigned char>(text_[at_ + i - 1]);
    }
    at_ += kNumberBytes;
    return number;
  }
  // How many pairs follow; false when there are not so many.
  bool TakeCount(uint64_t* num_pairs) {
    if (num_left() < 1) return false;
    *num_pairs = Next();
    return *num_pairs > 0 && *num_pairs <= num_left() / 2;
  }

 private:
  const absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<AppliedUpdates> AppliedUpdates::Decode(absl::string_view text) {
  const auto malformed = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("a text of ", text.size(), " bytes, of updates that were applied, ", what));
  };
  if (text.size() % kNumberBytes != 0) return malformed("is no sequence of numbers of 8 bytes");
  AppliedUpdates applied;
  Numbers numbers(text);
  while (numbers.num_left() > 0) {
    uint64_t count = 0;
    if (!numbers.TakeCount(&count)) return malformed("ends before the updates of a group");
    Updates updates;
    for (; count > 0; --count) {
      const uint64_t key = numbers.Next(), times = numbers.Next();
      if (key == 0 || times == 0 || times > INT32_MAX) return malformed("has an update that no step applies");
      updates[key] = static_cast<int32_t>(times);
    }
    if (!numbers.TakeCount(&count)) return malformed("ends before the steps of a group");
    const uint32_t index = applied.IndexOf(updates);
    for (; count > 0; --count) {
      const uint64_t writer = numbers.Next();
      const auto number = static_cast<int64_t>(numbers.Next());
      if (writer == 0) return malformed("has a step that belongs to no training loop");
      applied.steps_[{writer, number}].insert(index);
    }
  }
  return applied;
}

std::string AppliedUpdates::Encode(size_t max_steps) const {
  std::map<Updates, std::vector<Step>> groups;
  size_t num_steps = 0;
  for (const auto& [step, indices] : steps_) {
    if (++num_steps > max_steps) break;
    for (const uint32_t index : indices) groups[*updates_[index]].push_back(step);
  }
  std::string text;
  for (const auto& [updates, steps] : groups) {
    Put(updates.size(), &text);
    for (const auto& [key, times] : updates) {
      Put(key, &text);
      Put(static_cast<uint64_t>(times), &text);
    }
    Put(steps.size(), &text);
    for (const auto& [writer, number] : steps) {
      Put(writer, &text);
      Put(static_cast<uint64_t>(number), &text);
    }
  }
  return text;
}

void AppliedUpdates::Add(uint64_t writer, int64_t number, const Updates& updates) {
  if (!updates.empty()) steps_[{writer, number}].insert(IndexOf(updates));
}

uint32_t AppliedUpdates::IndexOf(const Updates& updates) {
  const auto [known, is_new] = indices_.try_emplace(updates, static_cast<uint32_t>(updates_.size()));
  if (is_new) updates_.push_back(&known->first);
  return known->second;
}

AppliedUpdates::Updates AppliedUpdates::Take(uint64_t writer, int64_t number) {
  Updates all;
  const auto step = steps_.find({writer, number});
  if (step == steps_.end()) return all;
  for (const uint32_t index : step->second) {
    for (const auto& [key, times] : *updates_[index]) all[key] = std::max(all[key], times);
  }
  steps_.erase(step);
  return all;
}

void AppliedUpdates::Settle(uint64_t writer, int64_t below) {
  steps_.erase(steps_.lower_bound({writer, INT64_MIN}), steps_.lower_bound({writer, below}));
}

AppliedUpdates AppliedUpdates::Renumbered(uint64_t writer, int64_t first, uint64_t other,
                                          int64_t other_first) const {
  AppliedUpdates renumbered;
  for (auto step = steps_.lower_bound({writer, first}); step != steps_.end(); ++step) {
    const auto& [of, number] = step->first;
    if (of != writer) break;
    // As unsigned numbers, for a text may have any; where that goes beyond the largest no step is of the
    // number.
    const uint64_t distance = static_cast<uint64_t>(number) - static_cast<uint64_t>(first);
    const auto other_number = static_cast<int64_t>(static_cast<uint64_t>(other_first) + distance);
    for (const uint32_t index : step->second) renumbered.Add(other, other_number, *updates_[index]);
  }
  return renumbered;
}

}  // namespace weir
