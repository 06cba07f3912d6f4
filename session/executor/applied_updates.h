// What steps that may be tried again had applied to variables at one moment (update_ledger.h): for each step,
// its updates and how often each was applied. As a text it is part of a checkpoint.
//
// The text: groups, each of which says that several steps have applied the same updates, for training loops
// run the same graph. Each number has 8 bytes, the lowest first:
//
//   number of updates, (update, times)..., number of steps, (writer, number of the step)...
//
// Texts one after the other are a text: that of all of them. What is said twice counts once.
//
// Memory: proportional to the text. Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

class AppliedUpdates {
 public:
  using Updates = std::map<uint64_t, int32_t>;  // UpdateKey, and how often: 1 to INT32_MAX

  AppliedUpdates() = default;
  AppliedUpdates(AppliedUpdates&&) = default;
  AppliedUpdates& operator=(AppliedUpdates&&) = default;

  // InvalidArgument: no text that Encode writes.
  static absl::StatusOr<AppliedUpdates> Decode(absl::string_view text);
  // The same text whatever the order in which steps were added. At most so many steps, any of them.
  std::string Encode(size_t max_steps) const;

  void Add(uint64_t writer, int64_t number, const Updates& updates);
  // What is known of the step, which is then forgotten; empty: nothing.
  Updates Take(uint64_t writer, int64_t number);
  // Forgets the writer's steps below this one.
  void Settle(uint64_t writer, int64_t below);

  // What is known of the writer's steps from `first` on, as steps of another writer from `other_first` on.
  AppliedUpdates Renumbered(uint64_t writer, int64_t first, uint64_t other, int64_t other_first) const;

  bool empty() const { return steps_.empty(); }
  size_t num_steps() const { return steps_.size(); }

 private:
  using Step = std::pair<uint64_t, int64_t>;  // writer and number

  uint32_t IndexOf(const Updates& updates);

  // Different ones; a step that is known from several texts has several.
  std::map<Updates, uint32_t> indices_;
  std::vector<const Updates*> updates_;
  std::map<Step, std::set<uint32_t>> steps_;
};

}  // namespace weir
