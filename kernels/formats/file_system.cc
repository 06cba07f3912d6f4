#include "kernels/formats/file_system.h"

#include <unistd.h>

#include <atomic>
#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/memory_probe.h"

namespace weir {
namespace {

constexpr char kTemporaryMark[] = ".tempstate";

}  // namespace

absl::Status ReadableFile::ReadExactly(uint64_t offset, size_t num_bytes, void* destination) const {
  WEIR_ASSIGN_OR_RETURN(const size_t num_read, Read(offset, num_bytes, destination));
  if (num_read == num_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path(), " is truncated: bytes [", offset, ", ", offset + num_bytes,
                                          ") are wanted, but it ends at ", offset + num_read));
}

absl::StatusOr<std::string> ReadWholeFile(FileSystem& file_system, const std::string& path,
                                          uint64_t max_bytes) {
  WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, file_system.OpenForReading(path));
  if (file->num_bytes() > max_bytes) {
    return absl::DataLossError(absl::StrCat(path, " has ", file->num_bytes(), " bytes, at most ", max_bytes,
                                            " make sense for such a file"));
  }
  WEIR_RETURN_IF_ERROR(ProbeMemory(path, file->num_bytes()));
  std::string content(file->num_bytes(), '\0');
  WEIR_RETURN_IF_ERROR(file->ReadExactly(0, content.size(), content.data()));
  return content;
}

absl::Status WriteFileAtomically(FileSystem& file_system, const std::string& path,
                                 absl::string_view content) {
  const std::string temporary = TemporaryPathFor(path);
  const auto write = [&]() -> absl::Status {
    WEIR_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, file_system.Create(temporary));
    WEIR_RETURN_IF_ERROR(file->Append(content));
    WEIR_RETURN_IF_ERROR(file->Sync());
    WEIR_RETURN_IF_ERROR(file->Close());
    WEIR_RETURN_IF_ERROR(file_system.Rename(temporary, path));
    return file_system.SyncDirectory(DirectoryOf(path));
  };
  const absl::Status status = write();
  if (!status.ok()) file_system.Remove(temporary).IgnoreError();
  return status;
}

std::string TemporaryPathFor(absl::string_view path) {
  static std::atomic<uint64_t> counter{0};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const uint64_t ticks = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return absl::StrCat(path, kTemporaryMark, getpid(), "-", absl::Hex(ticks), "-", counter.fetch_add(1));
}

absl::Status CreateDurableDirectories(FileSystem& file_system, const std::string& path) {
  std::vector<std::string> changed;  // innermost first
  for (std::string folder = path; !file_system.Exists(folder); folder = changed.back()) {
    const std::string parent = DirectoryOf(folder);
    if (parent == folder) break;
    changed.push_back(parent);
  }
  WEIR_RETURN_IF_ERROR(file_system.CreateDirectories(path));
  for (auto folder = changed.rbegin(); folder != changed.rend(); ++folder) {
    WEIR_RETURN_IF_ERROR(file_system.SyncDirectory(*folder));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RemoveTemporaryFiles(FileSystem& file_system, const std::string& directory) {
  WEIR_ASSIGN_OR_RETURN(const std::vector<std::string> names, file_system.ListDirectory(directory));
  int num_removed = 0;
  for (const std::string& name : names) {
    if (!absl::StrContains(name, kTemporaryMark)) continue;
    const absl::Status removed = file_system.Remove(JoinPath(directory, name));
    // Whoever writes it may have finished, or removed it, since it was listed.
    if (absl::IsNotFound(removed)) continue;
    WEIR_RETURN_IF_ERROR(removed);
    ++num_removed;
  }
  return num_removed;
}

std::string DirectoryOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

std::string FileNameOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

std::string JoinPath(absl::string_view directory, absl::string_view name) {
  if (directory.empty() || directory == "." || absl::StartsWith(name, "/")) return std::string(name);
  return absl::StrCat(directory, absl::EndsWith(directory, "/") ? "" : "/", name);
}

}  // namespace weir
