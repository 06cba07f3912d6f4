// The right of one life of a job's chief to write checkpoints to a folder, against earlier lives that do not
// know yet that they are over.
//
// A chief that was stopped, cut off and replaced may go on in the middle of a save. The parameter servers
// refuse what it asks for, but not what it has read already. So each chief leaves its life in the folder, as
// the name of a file ".claim-<16 hexadecimal digits>", before it saves, and whatever becomes visible
// there is renamed or removed only after a look for a later life's file. TensorFlow and other readers do not
// mind the file. directory_lock.h guards against another job on one machine; this works on every file system,
// for the chiefs of one job, whose lives grow (distributed/authority.h).
//
// A chief that dies leaves its claim: an earlier one may still be asleep. When it ends in good order, the
// file becomes ".claim-<life>.ended". That still stops the earlier chiefs of its job, for a chief that takes
// the folder removes the files of earlier ones, and who finds its own file gone and a later life's file of
// either kind is over. It does not stop a chief of another job that has waited for the folder and takes it
// now, though its life may be an earlier one: it has a file of its own. (To name the job in the file would
// not do: a job that is started again with another token or other addresses would no longer stop what sleeps
// from before.) Where somebody empties the folder while a job writes to it, the file is made again.
//
// A process that stops between the look and the system call that follows is not noticed here. Readers do not
// believe what it writes: beside its claim each chief has a file ".manifest-<life>" (checkpoint_manifest.h),
// and readers take that of the life whose claim is there. It is a file of its own because a claim must never
// be renamed to: that would bring back one that a later chief has removed.
//
// Not guaranteed: that the one system call of such a process does nothing. A rename finds no file, as the
// later chief has removed what was temporary (CheckpointSaverHook), but a removal may take an old checkpoint
// that the later one has kept. It takes no file of a new one: a checkpoint that is saved again under its name
// has another number of shards than those that lie there (bundle_writer.cc).
//
// Nor: that a process is noticed that had not taken the folder yet when a later chief of its job
// ended in good order.
//
// Thread safety: all methods.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/forwarding_file_system.h"

namespace weir {

// A file system in which only the newest life renames and removes; everything else is as below it.
class CheckpointClaim final : public ForwardingFileSystem {
 public:
  // Leaves the claim in the folder, which must exist, and removes those of earlier lives. An error for which
  // IsSuperseded (exit_code.h) holds when there is one of a later life; else errors of the disk. `files` is
  // borrowed.
  static absl::StatusOr<std::shared_ptr<CheckpointClaim>> Take(FileSystem& files,
                                                               const std::string& directory, uint64_t life);

  // The manifest of the chief that has the folder, or had it last. Of one that has none, because it was just
  // taking the folder, or died in that: that of the chief before. The path is empty when there is none.
  // Errors of the disk; DataLoss, naming the file, when it is longer than a manifest may be.
  struct Manifest {
    std::string path, text;
  };
  // `but_for`: of another life than that one.
  static absl::StatusOr<Manifest> LatestManifestIn(FileSystem& files, const std::string& directory,
                                                   uint64_t but_for = 0);

  // The life of the chief that had the folder last, when it has ended in good order, and no other one has
  // taken the folder since; otherwise 0. Errors of the disk.
  static absl::StatusOr<uint64_t> EndedLifeIn(FileSystem& files, const std::string& directory);

  // The latest life that has the folder, as far as is known; 0: none. Errors of the disk.
  static absl::StatusOr<uint64_t> HolderIn(FileSystem& files, const std::string& directory);

  // Whether a chief has taken the folder and, as far as is known, not ended in good order: it trains, has
  // just been lost, or died long ago. (Where the power failed while it ended, its claim may be gone, and its
  // manifest is there.) Errors of the disk.
  static absl::StatusOr<bool> IsHeldIn(FileSystem& files, const std::string& directory);

  uint64_t life() const { return life_; }
  const std::string& directory() const { return directory_; }
  // Replaces the manifest, which is at first that of the chief before. Also the error of Take: a later chief
  // may then have gone on from what was there before. When it is OK the next one will find this manifest.
  absl::Status Note(absl::string_view text);

  // In good order: nothing is written to the folder through this claim any more. Errors of the disk; the
  // claim then stays.
  absl::Status End();

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  // Both: also the error of Take. What was created here and not renamed, a temporary file, may be removed
  // always.
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;

 private:
  CheckpointClaim(FileSystem& files, std::string directory, uint64_t life)
      : ForwardingFileSystem(files), files_(files), directory_(std::move(directory)), life_(life) {}
  struct Found {
    bool is_own = false;            // its own file
    bool has_manifest = false;      // of its own
    uint64_t later = 0, ended = 0;  // the greatest lives of others that claim the folder, and that have ended
    std::vector<std::string> earlier;  // files of earlier lives, of all kinds
  };
  absl::StatusOr<Found> Look();
  absl::Status LeaveFile();
  // Its file is there; `before`: what was there before that.
  absl::Status TakeOver(const Found& before);
  absl::Status InheritManifest();
  // Whether this life may still change what is visible in the folder.
  absl::Status CheckStillHeld();
  absl::Status Superseded(const std::string& by) const;

  FileSystem& files_;
  const std::string directory_;
  const uint64_t life_;
  absl::Mutex mutex_;
  // Files of a save that goes on: temporary ones, and empty shards under their own names.
  std::set<std::string> own_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace weir
