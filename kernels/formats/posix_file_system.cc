#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"
#include "kernels/formats/file_system.h"
#include "kernels/formats/standard_streams.h"

namespace weir {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
// One system call moves at most 0x7ffff000 bytes; smaller pieces also let writeback begin early.
constexpr size_t kMaxCallBytes = 16 << 20;
// What unbuffered writes begin at and consist of; a multiple of every disk's block.
constexpr size_t kBlockBytes = 4096;
constexpr size_t kStagingBytes = 4 << 20;

// What is wrong with the request or the machine's set-up; internal for errors that may pass.
absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EISDIR:
    case ENOTDIR:
    case ENOTEMPTY:
    case ELOOP:
    case EBUSY:
    case ETXTBSY:
      return absl::StatusCode::kFailedPrecondition;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case EINVAL:
    case ENAMETOOLONG:
    case EBADF:
    case EXDEV:
      return absl::StatusCode::kInvalidArgument;
    case ENOSYS:
    case EOPNOTSUPP:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::Status SystemError(absl::string_view attempt, absl::string_view path) {
  const int error = errno;
  absl::Status status(CodeOf(error), absl::StrCat("cannot ", attempt, " ", path, ": ", std::strerror(error)));
  // The disk fails (EIO), or the network to it (ESTALE, ENOTCONN, ENODEV...): it does not say that a file is
  // damaged or not there, and nobody shall go on without it. A new session would not mend that, but a new
  // start may (kExitRetryable of session/monitored/exit_code.h).
  if (absl::IsInternal(status)) status.SetPayload("exit code", absl::Cord("160"));
  return status;
}

// The system would take such a path for the part before the zero byte.
absl::Status CheckPath(absl::string_view attempt, const std::string& path) {
  if (!absl::StrContains(path, '\0')) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot ", attempt, " '", absl::CEscape(path), "': a path has no zero byte"));
}

absl::string_view KindOf(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a file";
}

// A FIFO would keep its reader waiting for a writer, and a device has no end.
absl::Status CheckIsFile(absl::string_view attempt, const std::string& path, int fd, struct stat* status) {
  if (fstat(fd, status) != 0) return SystemError(attempt, path);
  if (S_ISREG(status->st_mode)) return absl::OkStatus();
  if (S_ISDIR(status->st_mode)) {
    errno = EISDIR;
    return SystemError(attempt, path);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot ", attempt, " ", path, ": it is ", KindOf(status->st_mode)));
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

// Large appends go to the disk past the page cache (O_DIRECT), through an aligned staging block: filling
// fresh cache pages costs more than copying, and a later sync would find a gigabyte still to write. Whoever
// reads the file soon reads it from the disk. Where the file system refuses O_DIRECT, everything is written
// the ordinary way.
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
    WEIR_RETURN_IF_ERROR(WriteBuffer());
    if (data.size() >= kBufferBytes) return WriteLarge(data);
    buffer_.assign(data.data(), data.size());
    return absl::OkStatus();
  }

  absl::Status Flush() override {
    WEIR_RETURN_IF_ERROR(CheckUsable());
    WEIR_RETURN_IF_ERROR(WriteBuffer());
    return EndDirect();
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

  absl::Status WriteBuffer() {
    const absl::Status status = staging_ ? Stage(buffer_) : Write(buffer_);
    buffer_.clear();
    return status;
  }

  absl::Status WriteLarge(absl::string_view data) {
    if (!staging_ && data.size() > kBlockBytes) {
      const size_t head = (kBlockBytes - num_written_ % kBlockBytes) % kBlockBytes;
      WEIR_RETURN_IF_ERROR(Write(data.substr(0, head)));
      data.remove_prefix(head);
      BeginDirect();
    }
    return staging_ ? Stage(data) : Write(data);
  }

  // Leaves staging_ null where unbuffered writing is not to be had.
  void BeginDirect() {
    if (direct_refused_ || !SetDirect(true)) {
      direct_refused_ = true;
      return;
    }
    void* block = nullptr;
    if (posix_memalign(&block, kBlockBytes, kStagingBytes) == 0) staging_.reset(static_cast<char*>(block));
    if (!staging_) SetDirect(false);
  }

  absl::Status Stage(absl::string_view data) {
    while (!data.empty()) {
      const size_t part = std::min(data.size(), kStagingBytes - num_staged_);
      std::memcpy(staging_.get() + num_staged_, data.data(), part);
      num_staged_ += part;
      data.remove_prefix(part);
      if (num_staged_ < kStagingBytes) break;
      num_staged_ = 0;
      WEIR_RETURN_IF_ERROR(Write({staging_.get(), kStagingBytes}));
    }
    return absl::OkStatus();
  }

  // Writes the staged rest, which fills no block, the ordinary way.
  absl::Status EndDirect() {
    if (!staging_) return absl::OkStatus();
    SetDirect(false);
    const absl::Status status = Write({staging_.get(), num_staged_});
    staging_.reset();
    num_staged_ = 0;
    return status;
  }

  bool SetDirect(bool on) {
    const int flags = fcntl(fd_, F_GETFL);
    return flags >= 0 && fcntl(fd_, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
  }

  absl::Status Write(absl::string_view data) {
    while (!data.empty()) {
      const ssize_t result = write(fd_, data.data(), std::min(data.size(), kMaxCallBytes));
      if (result < 0 && errno == EINTR) continue;
      // O_DIRECT that is refused only now, or after a write that was cut short: go on the ordinary way.
      if (result < 0 && errno == EINVAL && !direct_refused_ && SetDirect(false)) {
        direct_refused_ = true;
        continue;
      }
      if (result < 0) return Fail("write");
      data.remove_prefix(result);
      num_written_ += result;
    }
    return absl::OkStatus();
  }

  struct FreeBlock {
    void operator()(char* block) const { std::free(block); }
  };

  const std::string path_;
  int fd_;
  std::string buffer_;
  size_t num_written_ = 0;                    // since the file was opened
  std::unique_ptr<char, FreeBlock> staging_;  // set while writing past the page cache
  size_t num_staged_ = 0;
  bool direct_refused_ = false;
  absl::Status error_;
};

// What open says of a socket, or of a FIFO that nobody reads, does not tell what it is.
absl::Status OpenError(absl::string_view attempt, const std::string& path) {
  const int error = errno;
  struct stat status;
  if (error == ENXIO && stat(path.c_str(), &status) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot ", attempt, " ", path, ": it is ", KindOf(status.st_mode)));
  }
  errno = error;
  return SystemError(attempt, path);
}

class PosixFiles final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForReading(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(CheckPath("read", path));
    // Opening a FIFO would wait for its writer.
    const int fd = OpenAboveStandardStreams(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return OpenError("read", path);
    struct stat status;
    if (absl::Status is_file = CheckIsFile("read", path, fd, &status); !is_file.ok()) {
      close(fd);
      return is_file;
    }
    return std::make_unique<PosixReadableFile>(path, fd, static_cast<uint64_t>(status.st_size));
  }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return Open(path, O_TRUNC);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> CreateNew(const std::string& path) override {
    return Open(path, O_EXCL);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppending(const std::string& path) override {
    return Open(path, O_APPEND);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    WEIR_RETURN_IF_ERROR(CheckPath("rename", from));
    WEIR_RETURN_IF_ERROR(CheckPath("rename a file to", to));
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return SystemError(absl::StrCat("rename ", from, " to"), to);
  }

  absl::Status Remove(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(CheckPath("remove", path));
    if (unlink(path.c_str()) == 0) return absl::OkStatus();
    return SystemError("remove", path);
  }

  absl::Status CreateDirectories(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(CheckPath("create the folder", path));
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

  absl::Status RemoveEmptyDirectory(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(CheckPath("remove the folder", path));
    if (rmdir(path.c_str()) == 0) return absl::OkStatus();
    return SystemError("remove the folder", path);
  }

  absl::Status SyncDirectory(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(CheckPath("sync the folder", path));
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return SystemError("sync the folder", path);
    // Some file systems cannot sync folders and say EINVAL; there is nothing more to do there.
    const bool failed = fsync(fd) != 0 && errno != EINVAL;
    const absl::Status status = failed ? SystemError("sync the folder", path) : absl::OkStatus();
    close(fd);
    return status;
  }

  absl::StatusOr<uint64_t> FileSize(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(CheckPath("find", path));
    struct stat status;
    if (stat(path.c_str(), &status) != 0) return SystemError("find", path);
    return static_cast<uint64_t>(status.st_size);
  }

  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    WEIR_RETURN_IF_ERROR(CheckPath("list", path));
    DIR* directory = opendir(path.c_str());
    if (directory == nullptr) return SystemError("list", path);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = readdir(directory)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    // A list that breaks off says nothing of what is not in it.
    const absl::Status listed = errno == 0 ? absl::OkStatus() : SystemError("list", path);
    closedir(directory);
    WEIR_RETURN_IF_ERROR(listed);
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  static absl::StatusOr<std::unique_ptr<WritableFile>> Open(const std::string& path, int mode) {
    WEIR_RETURN_IF_ERROR(CheckPath("write", path));
    // Opening a FIFO would wait for its reader. Character devices may be written to: /dev/null.
    const int fd = OpenAboveStandardStreams(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | mode);
    if (fd < 0) return OpenError("write", path);
    struct stat status;
    const absl::Status is_file = CheckIsFile("write", path, fd, &status);
    if (is_file.ok() || S_ISCHR(status.st_mode)) return std::make_unique<PosixWritableFile>(path, fd);
    close(fd);
    return is_file;
  }
};

}  // namespace

FileSystem& PosixFileSystem() {
  static PosixFiles* const files = new PosixFiles;
  return *files;
}

}  // namespace weir
