#include "kernels/formats/allowed_files.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

// What there is of the path with all links resolved, and the rest as it will be created. Empty when the path
// cannot be resolved (a circle of links, a folder that may not be read, a link to nothing).
std::string ResolvedPath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error || path.empty()) return "";
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(absolute, error);
  if (error) return "";
  // A link to nothing does not count as being there, but creating a file would follow it.
  for (std::filesystem::path part = resolved; part.has_relative_path(); part = part.parent_path()) {
    if (std::filesystem::is_symlink(std::filesystem::symlink_status(part, error))) return "";
  }
  std::string text = resolved.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
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
    resolved.push_back(ResolvedPath(folder));
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
  std::error_code error;
  if (path.empty() || !ResolvedPath(path).empty()) return "";
  std::filesystem::path part = std::filesystem::absolute(path, error);
  // The first part that cannot be resolved.
  while (!error && part.has_relative_path() && ResolvedPath(part.parent_path().string()).empty()) {
    part = part.parent_path();
  }
  if (error || !part.has_relative_path()) return "";
  // Of other folders nothing is told.
  if (!IsAllowed(ResolvedPath(part.parent_path().string()))) return "";
  const std::filesystem::file_status found = std::filesystem::symlink_status(part, error);
  if (std::filesystem::is_symlink(found)) {
    return absl::StrCat("leads over the symbolic link '", part.string(), "', which leads nowhere");
  }
  return absl::StrCat("cannot be looked at beyond '", part.parent_path().string(), "'",
                      error ? absl::StrCat(" (", error.message(), ")") : "");
}

absl::StatusOr<std::string> AllowedFiles::Resolve(const std::string& path) const {
  std::string resolved = ResolvedPath(path);
  if (resolved.empty() || !IsAllowed(resolved)) return Refusal(path);
  return resolved;
}

absl::StatusOr<std::string> AllowedFiles::ResolveEntry(const std::string& path) const {
  const std::string name = FileNameOf(path);
  if (name.empty() || name == "." || name == "..") return Resolve(path);
  const std::string folder = ResolvedPath(DirectoryOf(path));
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
