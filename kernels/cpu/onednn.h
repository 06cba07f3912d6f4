// How kernels use oneDNN: on one thread of the caller's at a time, without exceptions, primitives made once
// per shape.
//
// Kernels split their work with ThreadPool::ParallelFor and call oneDNN for each piece under
// SingleThreadedOneDnn, so that the device's pool alone decides how many cores are at work.
#pragma once

#include <list>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "dnnl.hpp"

namespace weir {

// While it lives, oneDNN calls of this thread (creation of primitives too) use this thread only.
class SingleThreadedOneDnn {
 public:
  SingleThreadedOneDnn();
  ~SingleThreadedOneDnn();
  SingleThreadedOneDnn(const SingleThreadedOneDnn&) = delete;
  SingleThreadedOneDnn& operator=(const SingleThreadedOneDnn&) = delete;

 private:
  const int max_threads_before_;
};

// The host's engine and the calling thread's stream, made at first use.
const dnnl::engine& HostEngine();
dnnl::stream& ThreadStream();

// Throws dnnl::error where oneDNN cannot change the one layout into the other.
dnnl::reorder MakeReorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);

// What body() returns, or the error that oneDNN threw as a Status: Unimplemented where it has no
// implementation.
template <typename Body>
auto CatchOneDnnErrors(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    const auto message = absl::StrCat("oneDNN: ", error.what());
    if (error.status == dnnl_unimplemented) return absl::UnimplementedError(message);
    if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(message);
    return absl::InternalError(message);
  }
}

// The prepared forms of one kernel, by shape; the least recently used ones go when there are too many (steps
// of ever new shapes). An Entry is immutable and shared by the steps that run it. Thread safety: all methods.
template <typename Key, typename Entry>
class PreparedForms {
 public:
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
    if (entries_.size() > kMaxEntries) entries_.pop_back();
    return entry;
  }

 private:
  static constexpr size_t kMaxEntries = 16;
  absl::Mutex mutex_;
  std::list<std::pair<Key, absl::StatusOr<std::shared_ptr<const Entry>>>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
