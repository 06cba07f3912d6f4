// The paths that a pattern names: those of MatchingFiles and MatchingFilesDataset.
//
// A pattern is a path whose parts may have *, ?, [...] and \, as fnmatch reads them with FNM_PATHNAME: none
// of them stands for a slash. A pattern whose part before the first of them has no folder is below ".", and
// so are the paths ("./a").
//
// Memory: the paths of one part of the pattern, and those of the next one; ResourceExhausted where they would
// be more than the caller allows. Links may lead back, so that there are more paths than files.
//
// Thread safety: of the file system. May wait for it, so only from threads that may; Cancelled soon after
// `cancellation` is cancelled. Errors: those of the folder before the first part with a sign, but not that it
// is none; of folders below it, all but PermissionDenied: what may not be listed matches nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cancellation.h"
#include "kernels/formats/file_system.h"

namespace weir {

enum class PathKinds { kFiles, kFilesAndDirectories };

// What the paths of one call may take, with the objects that they are.
inline constexpr int64_t kMostBytesOfPaths = int64_t{1} << 28;

// Sorted. What they take is taken off `*num_bytes_left`, whether the pattern has signs or not.
absl::StatusOr<std::vector<std::string>> MatchingPaths(FileSystem& files, const std::string& pattern,
                                                       PathKinds kinds, int64_t* num_bytes_left,
                                                       Cancellation& cancellation);

}  // namespace weir
