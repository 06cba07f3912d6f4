#include "kernels/resource_manager.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace weir {

ResourceManager::Key ResourceManager::MakeKey(absl::string_view container, absl::string_view name) const {
  return {container.empty() ? default_container_ : std::string(container), std::string(name)};
}

absl::StatusOr<RefPtr<Resource>> ResourceManager::LookupAny(const Key& key) {
  absl::MutexLock lock(&mutex_);
  auto found = resources_.find(key);
  if (found == resources_.end()) {
    return absl::NotFoundError(absl::StrCat("no resource '", key.second, "' in container '", key.first, "'"));
  }
  return found->second;
}

RefPtr<Resource> ResourceManager::FindOrInsert(const Key& key,
                                               const std::function<RefPtr<Resource>()>& create) {
  absl::MutexLock lock(&mutex_);
  RefPtr<Resource>& slot = resources_[key];
  if (!slot) slot = create();
  return slot;
}

absl::Status ResourceManager::WrongType(const Key& key, const Resource& found) const {
  return absl::InvalidArgumentError(absl::StrCat("resource '", key.second, "' in container '", key.first,
                                                 "' is of another type: ", found.ToString()));
}

absl::Status ResourceManager::Delete(absl::string_view container, absl::string_view name) {
  const Key key = MakeKey(container, name);
  absl::MutexLock lock(&mutex_);
  if (resources_.erase(key) == 0) {
    return absl::NotFoundError(absl::StrCat("no resource '", key.second, "' in container '", key.first, "'"));
  }
  return absl::OkStatus();
}

void ResourceManager::ResetContainers(absl::Span<const std::string> containers) {
  absl::MutexLock lock(&mutex_);
  for (auto it = resources_.begin(); it != resources_.end();) {
    const std::string& container = it->first.first;
    const bool reset = containers.empty()
                           ? container == default_container_
                           : std::find(containers.begin(), containers.end(), container) != containers.end();
    if (reset) {
      resources_.erase(it++);
    } else {
      ++it;
    }
  }
}

}  // namespace weir
