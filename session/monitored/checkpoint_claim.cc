#include "session/monitored/checkpoint_claim.h"

#include <algorithm>
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
constexpr char kEnded[] = ".ended";
constexpr char kManifestPrefix[] = ".manifest-";
constexpr uint64_t kMaxManifestBytes = 8 << 20;  // more than what `checkpoint` may name

std::string NameOf(uint64_t life) { return absl::StrFormat("%s%016x", kPrefix, life); }
std::string EndedNameOf(uint64_t life) { return NameOf(life) + kEnded; }
std::string ManifestNameOf(uint64_t life) { return absl::StrFormat("%s%016x", kManifestPrefix, life); }

// 0 for a file without that prefix.
uint64_t LifeAfter(absl::string_view prefix, absl::string_view name) {
  uint64_t life = 0;
  const bool is_one =
      absl::ConsumePrefix(&name, prefix) && name.size() == 16 && absl::SimpleHexAtoi(name, &life);
  return is_one ? life : 0;
}

// 0 for a file that is no claim.
uint64_t LifeOf(absl::string_view name, bool* has_ended) {
  *has_ended = absl::ConsumeSuffix(&name, kEnded);
  return LifeAfter(kPrefix, name);
}

// The latest lives whose claims are there, 0 for none, and whether somebody has left a manifest.
struct Claims {
  uint64_t holder = 0, ended = 0;
  bool some_wrote = false;
};
absl::StatusOr<Claims> ClaimsIn(FileSystem& files, const std::string& directory) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.ListDirectory(directory));
  Claims claims;
  for (const std::string& name : names) {
    bool has_ended = false;
    const uint64_t life = LifeOf(name, &has_ended);
    uint64_t& latest = has_ended ? claims.ended : claims.holder;
    latest = std::max(latest, life);
    claims.some_wrote |= LifeAfter(kManifestPrefix, name) != 0;
  }
  return claims;
}

}  // namespace

absl::StatusOr<std::shared_ptr<CheckpointClaim>> CheckpointClaim::Take(FileSystem& files,
                                                                       const std::string& directory,
                                                                       uint64_t life) {
  std::shared_ptr<CheckpointClaim> claim(new CheckpointClaim(files, directory, life));
  WEIR_ASSIGN_OR_RETURN(const Found found, claim->Look());
  if (found.later != 0) return claim->Superseded(NameOf(found.later));
  WEIR_RETURN_IF_ERROR(claim->LeaveFile());
  const absl::Status taken = claim->TakeOver(found);
  // Else the folder would look as if somebody had it, when the later one has ended.
  if (IsSuperseded(taken) && !found.is_own) files.Remove(JoinPath(directory, NameOf(life))).IgnoreError();
  WEIR_RETURN_IF_ERROR(taken);
  return claim;
}

absl::Status CheckpointClaim::TakeOver(const Found& before) {
  // An earlier attempt may have failed before it had one.
  if (!before.is_own || !before.has_manifest) WEIR_RETURN_IF_ERROR(InheritManifest());
  // A later one may have looked before the file was there.
  WEIR_ASSIGN_OR_RETURN(const Found found, Look());
  if (found.later != 0) return Superseded(NameOf(found.later));
  for (const std::string& name : found.earlier) {
    const absl::Status removed = files_.Remove(JoinPath(directory_, name));
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointClaim::Manifest> CheckpointClaim::LatestManifestIn(FileSystem& files,
                                                                            const std::string& directory,
                                                                            uint64_t but_for) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.ListDirectory(directory));
  // A claim that has not ended is of whoever has the folder: earlier ones are removed once it has a manifest.
  std::vector<std::pair<bool, uint64_t>> chiefs;
  for (const std::string& name : names) {
    bool has_ended = false;
    const uint64_t life = LifeOf(name, &has_ended);
    if (life != 0 && life != but_for) chiefs.emplace_back(!has_ended, life);
  }
  std::sort(chiefs.rbegin(), chiefs.rend());
  for (const auto& [has_folder, life] : chiefs) {
    const std::string path = JoinPath(directory, ManifestNameOf(life));
    absl::StatusOr<std::string> text = ReadWholeFile(files, path, kMaxManifestBytes);
    if (text.ok()) return Manifest{path, *std::move(text)};
    if (!absl::IsNotFound(text.status())) return text.status();
  }
  return Manifest();
}

absl::StatusOr<uint64_t> CheckpointClaim::EndedLifeIn(FileSystem& files, const std::string& directory) {
  WEIR_ASSIGN_OR_RETURN(const Claims claims, ClaimsIn(files, directory));
  return claims.holder != 0 ? 0 : claims.ended;
}

absl::StatusOr<uint64_t> CheckpointClaim::HolderIn(FileSystem& files, const std::string& directory) {
  WEIR_ASSIGN_OR_RETURN(const Claims claims, ClaimsIn(files, directory));
  return claims.holder;
}

absl::StatusOr<bool> CheckpointClaim::IsHeldIn(FileSystem& files, const std::string& directory) {
  WEIR_ASSIGN_OR_RETURN(const Claims claims, ClaimsIn(files, directory));
  return claims.holder != 0 || (claims.some_wrote && claims.ended == 0);
}

absl::Status CheckpointClaim::InheritManifest() {
  const absl::StatusOr<Manifest> before = LatestManifestIn(files_, directory_, life_);
  // What is damaged is of no use to the next one either.
  if (!before.ok()) return absl::IsDataLoss(before.status()) ? absl::OkStatus() : before.status();
  return before->path.empty() ? absl::OkStatus() : Note(before->text);
}

absl::Status CheckpointClaim::Note(absl::string_view text) {
  WEIR_RETURN_IF_ERROR(CheckStillHeld());
  WEIR_RETURN_IF_ERROR(WriteFileAtomically(files_, JoinPath(directory_, ManifestNameOf(life_)), text));
  // A later chief leaves its claim before it reads this manifest: without one, it will read this one.
  return CheckStillHeld();
}

absl::Status CheckpointClaim::LeaveFile() {
  absl::StatusOr<std::unique_ptr<WritableFile>> file = files_.CreateNew(JoinPath(directory_, NameOf(life_)));
  if (file.ok()) return (*file)->Close();
  // Another session of this process.
  return absl::IsAlreadyExists(file.status()) ? absl::OkStatus() : file.status();
}

absl::StatusOr<CheckpointClaim::Found> CheckpointClaim::Look() {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.ListDirectory(directory_));
  Found found;
  for (const std::string& name : names) {
    bool has_ended = false;
    const uint64_t life = LifeOf(name, &has_ended);
    const uint64_t any_life = life != 0 ? life : LifeAfter(kManifestPrefix, name);
    found.has_manifest |= life == 0 && any_life == life_;
    if (life > life_) {
      uint64_t& greatest = has_ended ? found.ended : found.later;
      greatest = std::max(greatest, life);
    } else if (life == life_) {
      found.is_own |= !has_ended;
    } else if (any_life != 0 && any_life < life_) {
      found.earlier.push_back(name);
    }
  }
  return found;
}

absl::Status CheckpointClaim::CheckStillHeld() {
  WEIR_ASSIGN_OR_RETURN(Found found, Look());
  if (!found.is_own && found.later == 0 && found.ended == 0) {
    // A list of a folder may miss a file that is just being renamed, as that of a later one that ends.
    WEIR_ASSIGN_OR_RETURN(found, Look());
  }
  if (found.later != 0) return Superseded(NameOf(found.later));
  if (found.is_own) return absl::OkStatus();
  if (found.ended != 0) return Superseded(EndedNameOf(found.ended));
  return LeaveFile();
}

absl::Status CheckpointClaim::Superseded(const std::string& by) const {
  return SupersededError(
      absl::StrCat("a later chief writes checkpoints to ", directory_, ": ", JoinPath(directory_, by),
                   " is of a later life than ", NameOf(life_),
                   " (if no such process runs, because a clock was wrong, remove the file)"),
      NameOf(life_));
}

absl::Status CheckpointClaim::End() {
  WEIR_ASSIGN_OR_RETURN(const Found found, Look());
  if (!found.is_own) return absl::OkStatus();
  // The latest is enough: it stops all that are earlier, and says what this one has said.
  const uint64_t ended = std::max(found.ended, life_);
  if (ended != life_) {
    const absl::Status moved = files_.Rename(JoinPath(directory_, ManifestNameOf(life_)),
                                             JoinPath(directory_, ManifestNameOf(ended)));
    if (!moved.ok() && !absl::IsNotFound(moved)) return moved;
  }
  return files_.Rename(JoinPath(directory_, NameOf(life_)), JoinPath(directory_, EndedNameOf(ended)));
}

absl::StatusOr<std::unique_ptr<WritableFile>> CheckpointClaim::Create(const std::string& path) {
  {
    absl::MutexLock lock(&mutex_);
    own_.insert(path);
  }
  return files_.Create(path);
}

absl::Status CheckpointClaim::Rename(const std::string& from, const std::string& to) {
  WEIR_RETURN_IF_ERROR(CheckStillHeld());
  WEIR_RETURN_IF_ERROR(files_.Rename(from, to));
  {
    absl::MutexLock lock(&mutex_);
    own_.erase(from);
  }
  // It may have been stopped before the system call: then readers do not believe what is there now.
  return CheckStillHeld();
}

absl::Status CheckpointClaim::Remove(const std::string& path) {
  const bool is_own = [&] {
    absl::MutexLock lock(&mutex_);
    return own_.erase(path) > 0;
  }();
  if (!is_own) WEIR_RETURN_IF_ERROR(CheckStillHeld());
  return files_.Remove(path);
}

}  // namespace weir
