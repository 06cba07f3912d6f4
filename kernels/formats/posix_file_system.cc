#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"

namespace weir {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
// One system call moves at most 0x7ffff000 bytes; smaller pieces also let writeback begin early.
constexpr size_t kMaxCallBytes = 16 << 20;

absl::Status SystemError(absl::string_view attempt, absl::string_view path) {
  const int error = errno;
  const std::string message = absl::StrCat("cannot ", attempt, " ", path);
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(absl::StrCat(message, ": ", std::strerror(error)));
    case EISDIR:
    case ENOTDIR:
      return absl::FailedPreconditionError(absl::StrCat(message, ": ", std::strerror(error)));
    case EROFS:
      return absl::PermissionDeniedError(absl::StrCat(message, ": ", std::strerror(error)));
    case EIO:
      return absl::DataLossError(absl::StrCat(message, ": ", std::strerror(error)));
    default:
      return absl::ErrnoToStatus(error, message);
  }
}

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(std::string path, int fd, uint64_t num_bytes)
      : path_(std::move(path)), fd_(fd), num_bytes_(num_bytes) {}
  ~PosixReadableFile() override { close(fd_); }

  const std::string& path() const override { return path_; }
  uint64_t num_bytes() const override { return num_bytes_; }

  absl::StatusOr<size_t> Read(uint64_t offset, size_t num_bytes, void* destination) const override {
    size_t done = 0;
    while (done < num_bytes) {
      const size_t wanted = std::min(num_bytes - done, kMaxCallBytes);
      const ssize_t result = pread(fd_, static_cast<char*>(destination) + done, wanted, offset + done);
      if (result < 0 && errno == EINTR) continue;
      if (result < 0) return SystemError("read", path_);
      if (result == 0) break;
      done += result;
    }
    return done;
  }

 private:
  const std::string path_;
  const int fd_;
  const uint64_t num_bytes_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PosixWritableFile() override { Close().IgnoreError(); }

  const std::string& path() const override { return path_; }

  absl::Status Append(absl::string_view data) override {
    WEIR_RETURN_IF_ERROR(CheckUsable());
    if (buffer_.size() + data.size() <= kBufferBytes) {
      buffer_.append(data.data(), data.size());
      return absl::OkStatus();
    }
    WEIR_RETURN_IF_ERROR(Flush());
    if (data.size() >= kBufferBytes) return Write(data);
    buffer_.assign(data.data(), data.size());
    return absl::OkStatus();
  }

  absl::Status Flush() override {
    WEIR_RETURN_IF_ERROR(CheckUsable());
    const absl::Status status = Write(buffer_);
    buffer_.clear();
    return status;
  }

  absl::Status Sync() override {
    WEIR_RETURN_IF_ERROR(Flush());
    if (fdatasync(fd_) != 0) return Fail("sync");
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (fd_ < 0) return error_;
    if (error_.ok()) Flush().IgnoreError();  // kept in error_
    if (close(fd_) != 0 && error_.ok()) error_ = SystemError("close", path_);
    fd_ = -1;
    return error_;
  }

 private:
  absl::Status CheckUsable() const {
    if (!error_.ok()) return error_;
    if (fd_ < 0) return absl::FailedPreconditionError(absl::StrCat(path_, " is closed"));
    return absl::OkStatus();
  }

  absl::Status Fail(absl::string_view attempt) {
    error_ = SystemError(attempt, path_);
    return error_;
  }

  absl::Status Write(absl::string_view data) {
    while (!data.empty()) {
      const ssize_t result = write(fd_, data.data(), std::min(data.size(), kMaxCallBytes));
      if (result < 0 && errno == EINTR) continue;
      if (result < 0) return Fail("write");
      data.remove_prefix(result);
    }
    return absl::OkStatus();
  }

  const std::string path_;
  int fd_;
  std::string buffer_;
  absl::Status error_;
};

class PosixFiles final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return SystemError("read", path);
    struct stat status;
    if (fstat(fd, &status) != 0 || S_ISDIR(status.st_mode)) {
      if (S_ISDIR(status.st_mode)) errno = EISDIR;
      const absl::Status error = SystemError("read", path);
      close(fd);
      return error;
    }
    return std::make_unique<PosixReadableFile>(path, fd, static_cast<uint64_t>(status.st_size));
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return Open(path, O_TRUNC);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    return Open(path, O_APPEND);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return SystemError(absl::StrCat("rename ", from, " to"), to);
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return absl::OkStatus();
    return SystemError("remove", path);
  }

  absl::Status CreateDirectories(const std::string& path) override {
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string parent = path.substr(0, end);
      if (!parent.empty() && mkdir(parent.c_str(), 0777) != 0 && errno != EEXIST) {
        // A read-only or foreign parent is no obstacle as long as it exists.
        const int error = errno;
        struct stat status;
        if (stat(parent.c_str(), &status) != 0) {
          errno = error;
          return SystemError("create the folder", parent);
        }
      }
      if (end == std::string::npos) break;
    }
    struct stat status;
    if (stat(path.c_str(), &status) != 0) return SystemError("create the folder", path);
    if (S_ISDIR(status.st_mode)) return absl::OkStatus();
    errno = ENOTDIR;
    return SystemError("create the folder", path);
  }

  absl::Status SyncDirectory(const std::string& path) override {
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return SystemError("sync the folder", path);
    // Some file systems cannot sync folders and say EINVAL; there is nothing more to do there.
    const bool failed = fsync(fd) != 0 && errno != EINVAL;
    const absl::Status status = failed ? SystemError("sync the folder", path) : absl::OkStatus();
    close(fd);
    return status;
  }

  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    struct stat status;
    if (stat(path.c_str(), &status) != 0) return SystemError("find", path);
    return static_cast<uint64_t>(status.st_size);
  }

  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    DIR* directory = opendir(path.c_str());
    if (directory == nullptr) return SystemError("list", path);
    std::vector<std::string> names;
    while (const dirent* entry = readdir(directory)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    closedir(directory);
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  static absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path, int mode) {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | mode, 0666);
    if (fd < 0) return SystemError("write", path);
    return std::make_unique<PosixWritableFile>(path, fd);
  }
};

}  // namespace

FileSystem& PosixFileSystem() {
  static PosixFiles* const files = new PosixFiles;
  return *files;
}

}  // namespace weir
