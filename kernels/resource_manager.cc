#include "kernels/resource_manager.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace weir {

ResourceManager::Key ResourceManager::MakeKey(absl::string_view container, absl::string_view type,
                                              absl::string_view name) const {
  return {container.empty() ? default_container_ : std::string(container), std::string(type),
          std::string(name)};
}

absl::Status ResourceManager::NotFound(const Key& key) const {
  const auto& [container, type, name] = key;
  std::vector<std::string> others;
  for (const auto& [other, resource] : resources_) {
    if (std::get<0>(other) == container && std::get<2>(other) == name) others.push_back(std::get<1>(other));
  }
  std::sort(others.begin(), others.end());
  return absl::NotFoundError(absl::StrCat(
      "no resource '", name, "' of type ", type, " in container '", container, "'",
      others.empty() ? "" : absl::StrCat("; of that name there is: ", absl::StrJoin(others, ", "))));
}

absl::StatusOr<RefPtr<Resource>> ResourceManager::Find(const Key& key) {
  absl::MutexLock lock(&mutex_);
  auto found = resources_.find(key);
  if (found == resources_.end()) return NotFound(key);
  return found->second;
}

absl::StatusOr<RefPtr<Resource>> ResourceManager::FindOrInsert(
    const Key& key, absl::FunctionRef<absl::StatusOr<RefPtr<Resource>>()> create) {
  absl::MutexLock lock(&mutex_);
  auto found = resources_.find(key);
  if (found != resources_.end()) return found->second;
  absl::StatusOr<RefPtr<Resource>> created = create();
  if (created.ok()) resources_.emplace(key, *created);
  return created;
}

absl::StatusOr<RefPtr<Resource>> ResourceManager::LookupHandle(const ResourceHandle& handle) {
  return Find(MakeKey(handle.container, handle.type_name, handle.name));
}

absl::Status ResourceManager::Delete(const ResourceHandle& handle) {
  const Key key = MakeKey(handle.container, handle.type_name, handle.name);
  RefPtr<Resource> old;  // freed after the lock
  absl::MutexLock lock(&mutex_);
  auto found = resources_.find(key);
  if (found == resources_.end()) return NotFound(key);
  old = std::move(found->second);
  resources_.erase(found);
  return absl::OkStatus();
}

void ResourceManager::ResetContainers(absl::Span<const std::string> containers) {
  std::vector<RefPtr<Resource>> dropped;  // freed after the lock
  absl::MutexLock lock(&mutex_);
  for (auto it = resources_.begin(); it != resources_.end();) {
    const std::string& container = std::get<0>(it->first);
    const bool reset = containers.empty()
                           ? container == default_container_
                           : std::find(containers.begin(), containers.end(), container) != containers.end();
    if (reset) {
      dropped.push_back(std::move(it->second));
      resources_.erase(it++);
    } else {
      ++it;
    }
  }
}

}  // namespace weir
