#include "session/monitored/ended_job.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "session/monitored/checkpoint_claim.h"
#include "session/monitored/checkpoint_step.h"
#include "session/monitored/saver.h"

namespace weir {

std::string EndedJob::WhyOver() {
  if (options_.directory.empty()) return "";
  const uint64_t ended =
      CheckpointClaim::EndedLifeIn(*options_.files, options_.directory).value_or(uint64_t{0});
  const std::string at_end = ended == 0 ? ""
                                        : CheckpointAtEnd(options_.directory, *options_.files,
                                                          options_.latest_filename, options_.is_at_end);
  const absl::Time now = options_.environment->SteadyNow();
  absl::MutexLock lock(&mutex_);
  if (at_end.empty() || ended != ended_) since_ = now;
  ended_ = at_end.empty() ? 0 : ended;
  if (ended_ == 0) return "";
  const uint64_t met = options_.met_chief ? options_.met_chief() : 0;
  if (met > ended_) return "";
  if (met != 0) {
    return absl::StrCat(at_end, " is of the last step, and the chief of this job has ended in good order");
  }
  if (now - since_ < options_.patience) return "";
  return absl::StrCat(at_end,
                      " is of the last step, its chief has ended in good order, and none has come for ",
                      absl::FormatDuration(absl::Trunc(now - since_, absl::Seconds(1))));
}

std::string CheckpointAtEnd(const std::string& directory, FileSystem& files,
                            absl::string_view latest_filename,
                            const std::function<bool(int64_t step)>& is_at_end) {
  if (directory.empty()) return "";
  const absl::StatusOr<std::vector<std::string>> checkpoints =
      CheckpointsIn(directory, files, latest_filename);
  if (!checkpoints.ok() || checkpoints->empty()) return "";
  const absl::StatusOr<int64_t> step = GlobalStepOf(checkpoints->front(), files);
  return step.ok() && is_at_end(*step) ? checkpoints->front() : "";
}

}  // namespace weir
