#include "tests/simulation/simulated_disk.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "graph/types/status_macros.h"

namespace weir {

class SimulatedDisk::Writable final : public WritableFile {
 public:
  Writable(SimulatedDisk& disk, std::unique_ptr<WritableFile> written, std::shared_ptr<File> file)
      : disk_(disk), written_(std::move(written)), file_(std::move(file)) {}

  const std::string& path() const override { return written_->path(); }
  absl::Status Append(absl::string_view data) override {
    const absl::Status failed = disk_.Fail("write", path());
    if (!failed.ok()) data = data.substr(0, data.size() / 2);
    file_->bytes.append(data.data(), data.size());
    WEIR_RETURN_IF_ERROR(written_->Append(data));
    return failed;
  }
  absl::Status Flush() override { return written_->Flush(); }
  absl::Status Sync() override {
    WEIR_RETURN_IF_ERROR(disk_.Fail("sync", path()));
    WEIR_RETURN_IF_ERROR(written_->Flush());
    disk_.AwaitSync();
    file_->safe = file_->bytes;
    return absl::OkStatus();
  }
  absl::Status Close() override { return written_->Close(); }

 private:
  SimulatedDisk& disk_;
  const std::unique_ptr<WritableFile> written_;
  const std::shared_ptr<File> file_;
};

void SimulatedDisk::AwaitSync() {
  if (sync_time_ == absl::ZeroDuration()) return;
  absl::Mutex mutex;
  absl::MutexLock lock(&mutex);
  bool never = false;
  scheduler_.Await(mutex, absl::Condition(&never), scheduler_.now() + sync_time_);
}

absl::Status SimulatedDisk::Fail(absl::string_view what, const std::string& path) {
  constexpr size_t kFailsOneIn = 3;
  if (state_ == State::kGood) return absl::OkStatus();
  if (state_ == State::kFull) {
    if (what != "write" && what != "create") return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot ", what, " ", path, ": No space left on device ", kInjected));
  }
  if (scheduler_.Below(kFailsOneIn) != 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot ", what, " ", path, ": Input/output error ", kInjected));
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimulatedDisk::Create(const std::string& path) {
  WEIR_RETURN_IF_ERROR(Fail("create", path));
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> written, files_.Create(path));
  // One that was there is emptied, which is a change of its bytes.
  std::shared_ptr<File>& file = now_[path];
  if (file == nullptr) file = std::make_shared<File>();
  file->bytes.clear();
  return std::make_unique<Writable>(*this, std::move(written), file);
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimulatedDisk::CreateNew(const std::string& path) {
  WEIR_RETURN_IF_ERROR(Fail("create", path));
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> written, files_.CreateNew(path));
  const auto file = std::make_shared<File>();
  now_[path] = file;
  return std::make_unique<Writable>(*this, std::move(written), file);
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimulatedDisk::OpenForAppending(const std::string& path) {
  WEIR_RETURN_IF_ERROR(Fail("open", path));
  return files_.OpenForAppending(path);
}

absl::Status SimulatedDisk::Rename(const std::string& from, const std::string& to) {
  WEIR_RETURN_IF_ERROR(Fail("rename", from));
  WEIR_RETURN_IF_ERROR(files_.Rename(from, to));
  auto moved = now_.extract(from);
  now_.erase(to);
  if (!moved.empty()) {
    moved.key() = to;
    now_.insert(std::move(moved));
  }
  return absl::OkStatus();
}

absl::Status SimulatedDisk::Remove(const std::string& path) {
  WEIR_RETURN_IF_ERROR(Fail("remove", path));
  WEIR_RETURN_IF_ERROR(files_.Remove(path));
  now_.erase(path);
  return absl::OkStatus();
}

absl::Status SimulatedDisk::SyncDirectory(const std::string& path) {
  WEIR_RETURN_IF_ERROR(Fail("sync", path));
  std::erase_if(safe_, [&](const auto& entry) { return DirectoryOf(entry.first) == path; });
  for (const auto& [name, file] : now_) {
    if (DirectoryOf(name) == path) safe_.emplace(name, file);
  }
  return absl::OkStatus();
}

std::string SimulatedDisk::BytesAfterPowerLoss(const File& file) {
  if (file.bytes == file.safe) return file.safe;
  switch (scheduler_.Below(3)) {
    case 0:
      return file.safe;
    case 1:
      return file.bytes;
    default:
      return file.bytes.substr(0, scheduler_.Below(file.bytes.size() + 1));
  }
}

void SimulatedDisk::LosePower() {
  std::set<std::string> names;
  for (const auto& [name, file] : now_) names.insert(name);
  for (const auto& [name, file] : safe_) names.insert(name);
  Entries left;
  for (const std::string& name : names) {
    const auto now = now_.find(name), safe = safe_.find(name);
    const auto file_of = [](const Entries& entries, Entries::const_iterator at) {
      return at == entries.end() ? nullptr : at->second;
    };
    const std::shared_ptr<File> new_file = file_of(now_, now), old_file = file_of(safe_, safe);
    const bool keeps_new = new_file == old_file || scheduler_.Below(2) == 0;
    if (const auto& file = keeps_new ? new_file : old_file; file != nullptr) left.emplace(name, file);
  }
  std::map<const File*, std::string> bytes;  // one file may have two names
  for (const auto& [name, file] : left) {
    if (!bytes.contains(file.get())) bytes.emplace(file.get(), BytesAfterPowerLoss(*file));
  }
  for (const std::string& name : names) files_.Remove(name).IgnoreError();
  now_.clear();
  for (const auto& [name, file] : left) {
    const std::string& kept = bytes.at(file.get());
    auto written = files_.Create(name);
    if (written.ok()) (*written)->Append(kept).IgnoreError();
    if (written.ok()) (*written)->Close().IgnoreError();
    now_.emplace(name, std::make_shared<File>(File{kept, kept}));
  }
  safe_ = now_;
}

}  // namespace weir
