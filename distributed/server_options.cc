#include "distributed/server_options.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "graph/types/status_macros.h"

namespace weir {

namespace {

absl::Status CheckDuration(absl::string_view name, absl::Duration duration, absl::Duration least,
                           absl::Duration most) {
  if (duration >= least && duration <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a server's ", name, " is ", absl::FormatDuration(duration),
                                                 ": it must be from ", absl::FormatDuration(least), " to ",
                                                 absl::FormatDuration(most)));
}

absl::Status CheckAllowedDirs(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (!folder.empty()) continue;
    return absl::InvalidArgumentError(
        "ServerOptions::allowed_dirs, or WEIR_ALLOWED_DIRS, is set but names no folder: name one, or leave "
        "it "
        "unset to allow all files");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckServerOptions(const ServerOptions& options) {
  WEIR_RETURN_IF_ERROR(
      CheckDuration("lease", options.lease, ServerOptions::kMinLease, ServerOptions::kMaxLease));
  WEIR_RETURN_IF_ERROR(CheckDuration("termination grace", options.termination_grace, absl::ZeroDuration(),
                                     ServerOptions::kMaxTerminationGrace));
  WEIR_RETURN_IF_ERROR(
      CheckDuration("chief grace", options.chief_grace, absl::ZeroDuration(), ServerOptions::kMaxChiefGrace));
  WEIR_RETURN_IF_ERROR(CheckAllowedDirs(options.allowed_dirs));
  if (options.max_workers < 0 || options.max_workers > ServerOptions::kMostWorkers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a server's max_workers, or WEIR_MAX_WORKERS, must be from 0 to ", ServerOptions::kMostWorkers));
  }
  return absl::OkStatus();
}

std::string TextFromEnvironment(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

int MaxWorkersFromEnvironment() {
  const char* value = std::getenv("WEIR_MAX_WORKERS");
  int max_workers = 0;
  if (value == nullptr || *value == '\0') return 0;
  return absl::SimpleAtoi(value, &max_workers) ? max_workers : -1;
}

std::vector<std::string> AllowedDirsFromEnvironment() {
  const char* value = std::getenv("WEIR_ALLOWED_DIRS");
  if (value == nullptr) return {};
  std::vector<std::string> folders = absl::StrSplit(value, ':', absl::SkipEmpty());
  if (folders.empty()) folders.emplace_back();  // CheckAllowedDirs refuses it: it must not allow everything
  return folders;
}

}  // namespace weir
