#include "session/monitored/checkpoint_iterator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/environment.h"
#include "kernels/formats/bundle_reader.h"
#include "kernels/notice.h"
#include "session/monitored/checkpoint_manifest.h"

namespace weir {

CheckpointIterator::CheckpointIterator(std::string directory, CheckpointIteratorOptions options)
    : directory_(std::move(directory)), options_(std::move(options)) {}

absl::StatusOr<std::optional<std::string>> CheckpointIterator::Newest() {
  FileSystem& files = *options_.file_system;
  absl::StatusOr<CheckpointState> state = ReadNewestState(directory_, files, options_.latest_filename);
  if (absl::IsNotFound(state.status())) {
    const bool is_there = files.ListDirectory(directory_).ok();
    why_none_ = is_there ? absl::StrCat("it has no file '", options_.latest_filename, "'")
                         : "the folder does not exist";
    return std::optional<std::string>();
  }
  if (!state.ok()) return state.status();
  if (!BundleExists(state->newest, files)) {
    why_none_ = absl::StrCat("its file '", options_.latest_filename, "' names ", state->newest,
                             ", which is not there");
    return std::optional<std::string>();
  }
  if (state->newest != last_) {
    WEIR_ASSIGN_OR_RETURN(const CheckpointManifest manifest, ReadManifest(directory_, files));
    const absl::Status own = CheckNotReplaced(state->newest, manifest, files);
    if (absl::IsDataLoss(own)) {
      why_none_ = absl::StrCat("its newest one, ", state->newest, ", is left out: ", own.message());
      if (std::exchange(left_out_, state->newest) != state->newest) {
        PrintNotice(absl::StrCat(state->newest, " is left out: ", own.message()));
      }
      return std::optional<std::string>();
    }
    WEIR_RETURN_IF_ERROR(own);
  }
  return std::optional<std::string>(std::move(state->newest));
}

absl::StatusOr<std::optional<std::string>> CheckpointIterator::Next() {
  if (options_.file_system == nullptr) {
    return absl::InvalidArgumentError("a checkpoint iterator needs a file system, got null");
  }
  if (!Sleep(last_time_ + options_.min_interval - RealEnvironment().Now()))
    return std::optional<std::string>();
  absl::Time deadline = RealEnvironment().Now() + options_.timeout;
  while (true) {
    WEIR_ASSIGN_OR_RETURN(std::optional<std::string> newest, Newest());
    if (newest.has_value() && *newest != last_) {
      last_ = *newest;
      last_time_ = RealEnvironment().Now();
      return newest;
    }
    if (RealEnvironment().Now() + options_.poll_interval > deadline) {
      if (options_.timeout_fn) {
        if (options_.timeout_fn()) return std::optional<std::string>();
        deadline = RealEnvironment().Now() + options_.timeout;
      } else if (last_.empty()) {
        return absl::DeadlineExceededError(absl::StrCat("no checkpoint in ", directory_, " after ",
                                                        absl::FormatDuration(options_.timeout), ": ",
                                                        why_none_));
      } else {
        return std::optional<std::string>();
      }
    }
    if (last_.empty()) SayOnceThatNoneIsThere();
    if (!Sleep(options_.poll_interval)) return std::optional<std::string>();
  }
}

void CheckpointIterator::SayOnceThatNoneIsThere() {
  if (std::exchange(has_said_so_, true)) return;
  PrintNotice(absl::StrCat("waiting for the first checkpoint in ", directory_, ": ", why_none_));
}

bool CheckpointIterator::Sleep(absl::Duration duration) {
  Environment& environment = RealEnvironment();
  const absl::Time end = environment.Now() + std::max(duration, absl::ZeroDuration());
  absl::MutexLock lock(&mutex_);
  return !environment.Await(mutex_, absl::Condition(&stop_requested_), end);
}

void CheckpointIterator::RequestStop() {
  absl::MutexLock lock(&mutex_);
  stop_requested_ = true;
}

}  // namespace weir
