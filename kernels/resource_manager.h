// Resources of one device, shared by (container, type, name) between steps, sessions and workers.
//
// The type is part of the key, as in TensorFlow: a table and a variable may have the same name. A resource
// class says its type as `static constexpr char kTypeName[] = "Variable";`, which is also what its handles
// carry.
//
// Thread safety: all methods. Resources are reference counted: one that is deleted here lives on until the
// last handle or running kernel lets go.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
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

  // The T of that name, made by `create` if there is none. `create` runs under the lock and must be short.
  // Errors: those of `create`, which then leave nothing behind.
  template <typename T>
  absl::StatusOr<RefPtr<T>> LookupOrCreate(absl::string_view container, absl::string_view name,
                                           absl::FunctionRef<absl::StatusOr<RefPtr<T>>()> create);

  // NotFound names container, type and name, and the types that have that name.
  template <typename T>
  absl::StatusOr<RefPtr<T>> Lookup(absl::string_view container, absl::string_view name);

  // By what the handle says, whatever its `resource`. NotFound when there is none.
  absl::StatusOr<RefPtr<Resource>> LookupHandle(const ResourceHandle& handle);
  absl::Status Delete(const ResourceHandle& handle);

  // Drops every resource of the containers; all of the default container for an empty list.
  void ResetContainers(absl::Span<const std::string> containers);

  const std::string& default_container() const { return default_container_; }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // container, type, name
  Key MakeKey(absl::string_view container, absl::string_view type, absl::string_view name) const;
  absl::StatusOr<RefPtr<Resource>> Find(const Key& key);
  absl::StatusOr<RefPtr<Resource>> FindOrInsert(const Key& key,
                                                absl::FunctionRef<absl::StatusOr<RefPtr<Resource>>()> create);
  absl::Status NotFound(const Key& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename T>
  static absl::StatusOr<RefPtr<T>> Cast(absl::StatusOr<RefPtr<Resource>> found);

  const std::string default_container_;
  absl::Mutex mutex_;
  absl::flat_hash_map<Key, RefPtr<Resource>> resources_ ABSL_GUARDED_BY(mutex_);
};

template <typename T>
absl::StatusOr<RefPtr<T>> ResourceManager::Cast(absl::StatusOr<RefPtr<Resource>> found) {
  if (!found.ok()) return found.status();
  if (dynamic_cast<T*>(found->get()) == nullptr) {
    return absl::InternalError("two classes of resources say that their type is " +
                               std::string(T::kTypeName));
  }
  return RefPtr<T>(static_cast<T*>(found->release()));
}

template <typename T>
absl::StatusOr<RefPtr<T>> ResourceManager::LookupOrCreate(
    absl::string_view container, absl::string_view name,
    absl::FunctionRef<absl::StatusOr<RefPtr<T>>()> create) {
  return Cast<T>(FindOrInsert(MakeKey(container, T::kTypeName, name),
                              [&create]() -> absl::StatusOr<RefPtr<Resource>> { return create(); }));
}

template <typename T>
absl::StatusOr<RefPtr<T>> ResourceManager::Lookup(absl::string_view container, absl::string_view name) {
  return Cast<T>(Find(MakeKey(container, T::kTypeName, name)));
}

}  // namespace weir
