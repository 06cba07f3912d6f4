#include "kernels/cpu/io/matching_paths.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr char kSigns[] = "*?[\\";

std::string Below(const std::string& folder, absl::string_view name) {
  return absl::EndsWith(folder, "/") ? absl::StrCat(folder, name) : absl::StrCat(folder, "/", name);
}

// Whether there is one of that kind. PermissionDenied when nobody may know.
absl::StatusOr<bool> IsThere(FileSystem& files, const std::string& path, PathKinds kinds) {
  const absl::Status status = files.FileSize(path).status();
  if (absl::IsPermissionDenied(status)) return status;
  const bool is_folder = files.ListDirectory(path).ok();
  return kinds == PathKinds::kFilesAndDirectories ? status.ok() || is_folder : status.ok() && !is_folder;
}

// Takes off what one path takes.
absl::Status Charge(const std::string& path, const std::string& pattern, int64_t num_bytes_at_first,
                    int64_t* num_bytes_left) {
  *num_bytes_left -= static_cast<int64_t>(sizeof(std::string) + path.size());
  if (*num_bytes_left >= 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the paths that match '", pattern, "' take more than the ",
                                                   num_bytes_at_first, " bytes that are left"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> MatchingPaths(FileSystem& files, const std::string& pattern,
                                                       PathKinds kinds, int64_t* num_bytes_left,
                                                       Cancellation& cancellation) {
  if (pattern.empty()) return std::vector<std::string>();
  const size_t first_sign = pattern.find_first_of(kSigns);
  if (first_sign == std::string::npos) {
    WEIR_ASSIGN_OR_RETURN(const bool is_there, IsThere(files, pattern, kinds));
    if (!is_there) return std::vector<std::string>();
    int64_t num_left = *num_bytes_left;
    WEIR_RETURN_IF_ERROR(Charge(pattern, pattern, *num_bytes_left, &num_left));
    *num_bytes_left = num_left;
    return std::vector<std::string>{pattern};
  }
  const size_t slash = pattern.rfind('/', first_sign);
  std::string root = ".";
  if (slash != std::string::npos) root = slash == 0 ? "/" : pattern.substr(0, slash);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  const std::vector<std::string> parts = absl::StrSplit(pattern.substr(begin), '/', absl::SkipEmpty());

  std::vector<std::string> paths = {root};
  int64_t num_left = *num_bytes_left;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    std::vector<std::string> below;
    num_left = *num_bytes_left;
    for (const std::string& folder : paths) {
      if (cancellation.is_cancelled()) return cancellation.reason();
      const absl::StatusOr<std::vector<std::string>> names = files.ListDirectory(folder);
      const bool is_none = absl::IsNotFound(names.status()) || absl::IsFailedPrecondition(names.status());
      if (is_none || (i > 0 && absl::IsPermissionDenied(names.status()))) continue;
      if (!names.ok()) return names.status();
      for (const std::string& name : *names) {
        if (fnmatch(parts[i].c_str(), name.c_str(), FNM_PATHNAME) != 0) continue;
        std::string path = Below(folder, name);
        // A link that may not be followed is no file for who asks.
        if (is_last && kinds == PathKinds::kFiles && !IsThere(files, path, kinds).value_or(false)) continue;
        WEIR_RETURN_IF_ERROR(Charge(path, pattern, *num_bytes_left, &num_left));
        below.push_back(std::move(path));
      }
    }
    paths = std::move(below);
  }
  *num_bytes_left = num_left;
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace weir
