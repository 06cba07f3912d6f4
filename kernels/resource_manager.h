// Resources of one device, shared by (container, name) between steps, sessions and workers.
//
// Thread safety: all methods. Resources are reference counted: one that is deleted here lives on until the
// last handle or running kernel lets go.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "graph/types/resource_handle.h"

namespace weir {

class ResourceManager {
 public:
  // `default_container` stands in for an empty container name.
  explicit ResourceManager(std::string default_container)
      : default_container_(std::move(default_container)) {}

  // The resource of that name, made by `create` if there is none; `create` runs under the lock and must be
  // short. InvalidArgument when one of another C++ type has the name (both types are named).
  template <typename T>
  absl::StatusOr<RefPtr<T>> LookupOrCreate(absl::string_view container, absl::string_view name,
                                           const std::function<RefPtr<T>()>& create);

  // NotFound names container and resource.
  template <typename T>
  absl::StatusOr<RefPtr<T>> Lookup(absl::string_view container, absl::string_view name);

  // NotFound when there was none.
  absl::Status Delete(absl::string_view container, absl::string_view name);

  // Drops every resource of the containers; all of the default container for an empty list.
  void ResetContainers(absl::Span<const std::string> containers);

  const std::string& default_container() const { return default_container_; }

 private:
  using Key = std::pair<std::string, std::string>;
  Key MakeKey(absl::string_view container, absl::string_view name) const;
  absl::StatusOr<RefPtr<Resource>> LookupAny(const Key& key);
  RefPtr<Resource> FindOrInsert(const Key& key, const std::function<RefPtr<Resource>()>& create);
  absl::Status WrongType(const Key& key, const Resource& found) const;

  const std::string default_container_;
  absl::Mutex mutex_;
  absl::flat_hash_map<Key, RefPtr<Resource>> resources_ ABSL_GUARDED_BY(mutex_);
};

template <typename T>
absl::StatusOr<RefPtr<T>> ResourceManager::LookupOrCreate(absl::string_view container, absl::string_view name,
                                                          const std::function<RefPtr<T>()>& create) {
  const Key key = MakeKey(container, name);
  RefPtr<Resource> found = FindOrInsert(key, [&create]() -> RefPtr<Resource> { return create(); });
  if (dynamic_cast<T*>(found.get()) == nullptr) return WrongType(key, *found);
  return RefPtr<T>(static_cast<T*>(found.release()));
}

template <typename T>
absl::StatusOr<RefPtr<T>> ResourceManager::Lookup(absl::string_view container, absl::string_view name) {
  const Key key = MakeKey(container, name);
  absl::StatusOr<RefPtr<Resource>> found = LookupAny(key);
  if (!found.ok()) return found.status();
  if (dynamic_cast<T*>(found->get()) == nullptr) return WrongType(key, **found);
  return RefPtr<T>(static_cast<T*>(found->release()));
}

}  // namespace weir
