#include "session/monitored/checkpoint_claim.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "graph/types/status_macros.h"
#include "session/monitored/exit_code.h"

namespace weir {
namespace {

constexpr char kPrefix[] = ".claim-";

std::string NameOf(uint64_t life) { return absl::StrFormat("%s%016x", kPrefix, life); }

// 0 for a file that is no claim.
uint64_t LifeOf(absl::string_view name) {
  uint64_t life = 0;
  return absl::ConsumePrefix(&name, kPrefix) && name.size() == 16 && absl::SimpleHexAtoi(name, &life) ? life
                                                                                                      : 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<CheckpointClaim>> CheckpointClaim::Take(FileSystem& files,
                                                                       const std::string& directory,
                                                                       uint64_t life) {
  std::shared_ptr<CheckpointClaim> claim(new CheckpointClaim(files, directory, life));
  std::vector<std::string> earlier;
  WEIR_RETURN_IF_ERROR(claim->LookForLater(&earlier));
  absl::StatusOr<std::unique_ptr<WritableFile>> file = files.CreateNew(JoinPath(directory, NameOf(life)));
  // Another session of this process.
  if (!file.ok() && !absl::IsAlreadyExists(file.status())) return file.status();
  if (file.ok()) WEIR_RETURN_IF_ERROR((*file)->Close());
  // A later one may have looked before the file was there.
  WEIR_RETURN_IF_ERROR(claim->LookForLater(&earlier));
  for (const std::string& name : earlier) files.Remove(JoinPath(directory, name)).IgnoreError();
  return claim;
}

absl::Status CheckpointClaim::LookForLater(std::vector<std::string>* earlier) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.ListDirectory(directory_));
  for (const std::string& name : names) {
    const uint64_t life = LifeOf(name);
    if (life > life_) {
      return SupersededError(
          absl::StrCat("a later chief writes checkpoints to ", directory_, ": ", JoinPath(directory_, name),
                       " is of a later life than ", NameOf(life_),
                       " (if no such process runs, because a clock was wrong, remove the file)"),
          NameOf(life_));
    }
    if (life != 0 && life < life_ && earlier != nullptr) earlier->push_back(name);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WritableFile>> CheckpointClaim::Create(const std::string& path) {
  {
    absl::MutexLock lock(&mutex_);
    own_.insert(path);
  }
  return files_.Create(path);
}

absl::Status CheckpointClaim::Rename(const std::string& from, const std::string& to) {
  WEIR_RETURN_IF_ERROR(LookForLater(nullptr));
  WEIR_RETURN_IF_ERROR(files_.Rename(from, to));
  absl::MutexLock lock(&mutex_);
  own_.erase(from);
  return absl::OkStatus();
}

absl::Status CheckpointClaim::Remove(const std::string& path) {
  const bool is_own = [&] {
    absl::MutexLock lock(&mutex_);
    return own_.erase(path) > 0;
  }();
  if (!is_own) WEIR_RETURN_IF_ERROR(LookForLater(nullptr));
  return files_.Remove(path);
}

}  // namespace weir
