// Lists of hosts as schedulers and people write them, expanded.
//
// Names: letters, digits, '.', '-' (not first: it would be an option of ssh) and '_'; a name may have ranges
// in brackets, "rack[1-2]n[001-003,007].lan", of which the last one counts fastest and each number has at
// least as many digits as the first of its range. An IPv6 address stands in brackets of its own, "[::1]"; it
// is returned without them.
//
// Pure functions. Every error is InvalidArgument, quotes what is wrong, and says what the list is for
// (`what`, as in "SLURM_JOB_NODELIST"). A list of more than kMaxHostListEntries names or slots is refused
// before it is expanded.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

inline constexpr int kMaxHostListEntries = 10'000;

struct HostSlots {
  std::string host;
  int num_slots = 1;  // tasks that it runs
};

// "n[001-003,007],gpu1" -> n001 n002 n003 n007 gpu1 (Slurm's hostlist). The order is kept, and so is a name
// that is there twice.
absl::StatusOr<std::vector<std::string>> ExpandHostList(absl::string_view what, absl::string_view list);

// "2(x3),1" -> 2 2 2 1 (SLURM_TASKS_PER_NODE).
absl::StatusOr<std::vector<int>> ExpandTaskCounts(absl::string_view what, absl::string_view list);

// "gpu[1-2]:4,login" -> {gpu1, 4} {gpu2, 4} {login, 1}. A host may not be there twice.
absl::StatusOr<std::vector<HostSlots>> ParseHostSlots(absl::string_view what, absl::string_view list);

// The text of a host file: a host a line, as "gpu1", "gpu1:4" (MPICH) or "gpu1 slots=4" (Open MPI, Horovod);
// '#' begins a comment. A host may not be there twice.
absl::StatusOr<std::vector<HostSlots>> ParseHostFile(absl::string_view what, absl::string_view text);

// Reads and parses it. Also NotFound: the file cannot be read.
absl::StatusOr<std::vector<HostSlots>> ReadHostFile(const std::string& path);

}  // namespace weir
