#include "kernels/formats/allowed_files.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// A path of more is refused: the system takes none that is longer, and no folders are nested so deep.
constexpr size_t kMaxPath = PATH_MAX - 1;
constexpr size_t kMaxParts = 256;
constexpr size_t kMaxShown = 200;

// Where a path leads.
struct Destination {
  std::string resolved;  // empty: it cannot be said, because of `obstacle`
  // The first part of the path that cannot be looked at (an absolute path), what is before it, resolved, and
  // why.
  std::string obstacle, folder;
  bool is_link = false;
  int error = 0;
};

std::string WithoutLastPart(const std::string& path) {
  return path.substr(0, std::min(path.size(), path.rfind('/')));
}

// Goes through the path once. What is not there counts as it will be created; a link to nothing, a circle of
// links and a folder that may not be read are obstacles.
Destination DestinationOf(const std::string& path) {
  Destination to;
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(path, error).string();
  if (error || path.empty()) return to;
  std::string seen, reached;  // of the path; where that leads, empty at the root
  size_t num_missing = 0;     // the last parts of `reached` that are not there
  for (const absl::string_view part : absl::StrSplit(absolute, '/', absl::SkipEmpty())) {
    absl::StrAppend(&seen, "/", part);
    if (part == ".") continue;
    if (part == "..") {
      reached = WithoutLastPart(reached);
      if (num_missing > 0) --num_missing;
      continue;
    }
    const std::string folder = reached;
    absl::StrAppend(&reached, "/", part);
    struct stat found {};
    if (num_missing > 0) {
      ++num_missing;
    } else if (lstat(reached.c_str(), &found) != 0) {
      if (errno != ENOENT && errno != ENOTDIR) return {"", seen, folder, false, errno};
      num_missing = 1;
    } else if (S_ISLNK(found.st_mode)) {
      const std::unique_ptr<char, decltype(&free)> target(realpath(reached.c_str(), nullptr), &free);
      if (target == nullptr) return {"", seen, folder, true, errno};
      reached = absl::string_view(target.get()) == "/" ? "" : target.get();
    }
  }
  to.resolved = reached.empty() ? "/" : reached;
  return to;
}

absl::Status CheckSize(const std::string& path) {
  const size_t num_parts = std::count(path.begin(), path.end(), '/');
  if (path.size() <= kMaxPath && num_parts <= kMaxParts) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the path '", path.substr(0, kMaxShown), "...' has ", path.size(), " characters and ", num_parts,
      " parts; ", kMaxPath, " characters and ", kMaxParts, " parts are possible here"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AllowedFiles>> AllowedFiles::In(const std::vector<std::string>& folders,
                                                               FileSystem& files) {
  std::vector<std::string> resolved;
  for (const std::string& folder : folders) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) {
      return absl::InvalidArgumentError(absl::StrCat("the allowed folder '", folder, "' is no folder",
                                                     error ? absl::StrCat(": ", error.message()) : ""));
    }
    resolved.push_back(DestinationOf(folder).resolved);
    if (resolved.back().empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the allowed folder '", folder, "' cannot be resolved"));
    }
  }
  return std::unique_ptr<AllowedFiles>(new AllowedFiles(std::move(resolved), files));
}

bool AllowedFiles::IsAllowed(const std::string& resolved) const {
  for (const std::string& folder : folders_) {
    if (resolved == folder || folder == "/" || absl::StartsWith(resolved, folder + "/")) return true;
  }
  return false;
}

absl::Status AllowedFiles::Refusal(const std::string& path) const {
  const std::string obstacle = ObstacleInside(path);
  if (!obstacle.empty()) {
    return absl::PermissionDeniedError(absl::StrCat("'", path, "' ", obstacle,
                                                    "; graphs of other tasks may use the folders ",
                                                    absl::StrJoin(folders_, ", "), " here"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("'", path, "' is outside of the folders that graphs of other tasks may use here: ",
                   absl::StrJoin(folders_, ", ")));
}

std::string AllowedFiles::ObstacleInside(const std::string& path) const {
  const Destination to = DestinationOf(path);
  // Of other folders nothing is told.
  if (to.obstacle.empty() || !IsAllowed(to.folder.empty() ? "/" : to.folder)) return "";
  if (to.is_link) {
    return absl::StrCat("leads over the symbolic link '", to.obstacle, "', which leads nowhere");
  }
  return absl::StrCat("cannot be looked at beyond '", WithoutLastPart(to.obstacle), "' (",
                      std::generic_category().message(to.error), ")");
}

absl::StatusOr<std::string> AllowedFiles::Resolve(const std::string& path) const {
  WEIR_RETURN_IF_ERROR(CheckSize(path));
  std::string resolved = DestinationOf(path).resolved;
  if (resolved.empty() || !IsAllowed(resolved)) return Refusal(path);
  return resolved;
}

absl::StatusOr<std::string> AllowedFiles::ResolveEntry(const std::string& path) const {
  const std::string name = FileNameOf(path);
  if (name.empty() || name == "." || name == "..") return Resolve(path);
  WEIR_RETURN_IF_ERROR(CheckSize(path));
  const std::string folder = DestinationOf(DirectoryOf(path)).resolved;
  if (folder.empty() || !IsAllowed(folder)) return Refusal(path);
  return JoinPath(folder, name);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> AllowedFiles::OpenForReading(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  return files_.OpenForReading(resolved);
}

absl::StatusOr<std::unique_ptr<WritableFile>> AllowedFiles::Create(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  return files_.Create(resolved);
}

absl::StatusOr<std::unique_ptr<WritableFile>> AllowedFiles::CreateNew(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  return files_.CreateNew(resolved);
}

absl::StatusOr<std::unique_ptr<WritableFile>> AllowedFiles::OpenForAppending(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  return files_.OpenForAppending(resolved);
}

absl::Status AllowedFiles::Rename(const std::string& from, const std::string& to) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved_from, ResolveEntry(from));
  WEIR_ASSIGN_OR_RETURN(const std::string resolved_to, ResolveEntry(to));
  return files_.Rename(resolved_from, resolved_to);
}

absl::Status AllowedFiles::Remove(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, ResolveEntry(path));
  return files_.Remove(resolved);
}

absl::Status AllowedFiles::CreateDirectories(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  return files_.CreateDirectories(resolved);
}

absl::Status AllowedFiles::RemoveEmptyDirectory(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, ResolveEntry(path));
  return files_.RemoveEmptyDirectory(resolved);
}

absl::Status AllowedFiles::SyncDirectory(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  return files_.SyncDirectory(resolved);
}

absl::StatusOr<uint64_t> AllowedFiles::FileSize(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  return files_.FileSize(resolved);
}

absl::StatusOr<std::vector<std::string>> AllowedFiles::ListDirectory(const std::string& path) {
  WEIR_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  return files_.ListDirectory(resolved);
}

}  // namespace weir
