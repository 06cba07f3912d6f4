// What kernels prepare once for each shape that they are given: primitives, plans. The least recently used
// ones go when there are too many (steps of ever new shapes).
//
// An Entry is immutable and shared by the steps that run it. Thread safety: all methods.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace weir {

template <typename Key, typename Entry>
class PreparedForms {
 public:
  // `most`: that are kept; few enough to be looked through one by one.
  explicit PreparedForms(size_t most = 16) : most_(most) {}

  // The entry of `key`, made by create() (a StatusOr<std::shared_ptr<const Entry>>) when there is none. That
  // there can be none (Unimplemented) is kept too.
  template <typename Create>
  absl::StatusOr<std::shared_ptr<const Entry>> FindOrCreate(const Key& key, const Create& create) {
    absl::MutexLock lock(&mutex_);
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (!(it->first == key)) continue;
      if (it != entries_.begin()) entries_.splice(entries_.begin(), entries_, it);
      return entries_.front().second;
    }
    absl::StatusOr<std::shared_ptr<const Entry>> entry = create();
    if (!entry.ok() && !absl::IsUnimplemented(entry.status())) return entry;
    entries_.emplace_front(key, entry);
    if (entries_.size() > most_) entries_.pop_back();
    return entry;
  }

  void Clear() {
    absl::MutexLock lock(&mutex_);
    entries_.clear();
  }

 private:
  const size_t most_;
  absl::Mutex mutex_;
  std::list<std::pair<Key, absl::StatusOr<std::shared_ptr<const Entry>>>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
