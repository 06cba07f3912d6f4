// The disk that a job writes its checkpoints to, with what is wrong with disks: it is full, it fails, or it
// loses its power.
//
// Over the files of this machine, where whatever does not ask this object (the kernels that restore) finds
// what it would find. As long as all is well it is just those. A disk that is full takes half of a write and
// no more; one that fails does that with every third call that changes something, by chance. When the power
// is lost, what was not synced may be there or not: of a file its bytes, all, a part or none, of a folder its
// entries, each by itself (as in kernels/formats/failing_power.h, with chance in place of every combination).
// What was written past this object stays. Where it is slow, who syncs a file waits, on a thread of the
// simulation.
//
// Thread safety: as the scheduler's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "kernels/formats/file_system.h"
#include "kernels/simulation/scheduler.h"

namespace weir {

class SimulatedDisk final : public FileSystem {
 public:
  enum class State { kGood, kFull, kFails };
  // In the message of every error that this disk makes up.
  static constexpr absl::string_view kInjected = "(simulated disk)";

  explicit SimulatedDisk(Scheduler& scheduler) : scheduler_(scheduler) {}

  void set_state(State state) { state_ = state; }
  // How long a file takes to be safe.
  void set_sync_time(absl::Duration sync_time) { sync_time_ = sync_time; }
  // Of whoever writes: after that nothing of it may write any more.
  void LosePower();

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    return files_.OpenForReading(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status CreateDirectories(const std::string& path) override { return files_.CreateDirectories(path); }
  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    return files_.RemoveEmptyDirectory(path);
  }
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<uint64_t> FileSize(const std::string& path) override { return files_.FileSize(path); }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    return files_.ListDirectory(path);
  }

 private:
  class Writable;
  // What was written to a file, whatever its name is by now, and what of it is safe.
  struct File {
    std::string bytes;
    std::string safe;
  };
  using Entries = std::map<std::string, std::shared_ptr<File>>;

  void AwaitSync();
  // An error where the disk has one for this call.
  absl::Status Fail(absl::string_view what, const std::string& path);
  std::string BytesAfterPowerLoss(const File& file);

  Scheduler& scheduler_;
  FileSystem& files_ = PosixFileSystem();
  State state_ = State::kGood;
  absl::Duration sync_time_ = absl::ZeroDuration();
  Entries now_, safe_;  // of the files that were created here
};

}  // namespace weir
