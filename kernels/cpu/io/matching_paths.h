// The paths that a pattern names: those of MatchingFiles and MatchingFilesDataset.
//
// A pattern is a path whose parts may have *, ?, [...] and \, as fnmatch reads them with FNM_PATHNAME: none
// of them stands for a slash. A pattern whose part before the first of them has no folder is below ".", and
// so are the paths ("./a").
//
// Thread safety: of the file system. May wait for it, so only from threads that may; Cancelled soon after
// `cancellation` is cancelled. Errors: those of the folder before the first part with a sign, but not that it
// is none; of folders below it, all but PermissionDenied: what may not be listed matches nothing.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cancellation.h"
#include "kernels/formats/file_system.h"

namespace weir {

enum class PathKinds { kFiles, kFilesAndDirectories };

// Sorted.
absl::StatusOr<std::vector<std::string>> MatchingPaths(FileSystem& files, const std::string& pattern,
                                                       PathKinds kinds, Cancellation& cancellation);

}  // namespace weir
