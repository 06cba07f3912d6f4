#include "distributed/transport/host/shared_memory.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr char kName[] = "weir-ranks";
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string LinkAt(const std::string& path) {
  char target[256];
  const ssize_t size = readlink(path.c_str(), target, sizeof(target));
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : "";
}

absl::Status NotThatMemory(const SharedMemory::Place& place, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("descriptor ", place.descriptor, " of process ", place.process, " is ", why));
}

// Opened by its number: what it is must be looked at afterwards.
absl::Status CheckOpened(int fd, const SharedMemory::Place& place, size_t num_bytes) {
  struct stat file {};
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode) || file.st_ino != place.file) {
    return NotThatMemory(place, "not the memory that was offered");
  }
  if (file.st_uid != geteuid()) {
    return absl::UnavailableError(absl::StrCat("process ", place.process, " is of another user"));
  }
  if (static_cast<size_t>(file.st_size) != num_bytes) {
    return NotThatMemory(place, absl::StrCat("of ", file.st_size, " bytes, must be of ", num_bytes));
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return NotThatMemory(place, "memory whose size may change");
  return absl::OkStatus();
}

}  // namespace

std::string SharedMemory::MachineId() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  const std::string processes = LinkAt("/proc/self/ns/pid");
  return boot.empty() || processes.empty() ? "" : absl::StrCat(boot, " ", processes, " ", geteuid());
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Make(size_t num_bytes) {
  const int fd = memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("cannot make memory: ", strerror(errno)));
  struct stat file {};
  if (ftruncate(fd, static_cast<off_t>(num_bytes)) != 0 || fcntl(fd, F_ADD_SEALS, kSeals) != 0 ||
      fstat(fd, &file) != 0) {
    const int error = errno;
    close(fd);
    return absl::ResourceExhaustedError(absl::StrCat("cannot make memory: ", strerror(error)));
  }
  WEIR_ASSIGN_OR_RETURN(std::unique_ptr<SharedMemory> memory, Map(fd, num_bytes));
  memory->place_ = {MachineId(), getpid(), fd, file.st_ino};
  return memory;
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Open(const Place& place, size_t num_bytes) {
  if (place.machine.empty() || place.machine != MachineId()) {
    return absl::UnavailableError("the memory is of another machine, or of another user");
  }
  const std::string path = absl::StrCat("/proc/", place.process, "/fd/", place.descriptor);
  // Nothing else is opened: a pipe or a device might wait, or do something.
  if (!absl::StartsWith(LinkAt(path), absl::StrCat("/memfd:", kName))) {
    return absl::UnavailableError(absl::StrCat(path, " is not there, or out of reach"));
  }
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot open ", path, ": ", strerror(errno)));
  if (absl::Status status = CheckOpened(fd, place, num_bytes); !status.ok()) {
    close(fd);
    return status;
  }
  return Map(fd, num_bytes);
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Map(int fd, size_t num_bytes) {
  void* const data = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data != MAP_FAILED) {
    return std::unique_ptr<SharedMemory>(new SharedMemory(fd, static_cast<char*>(data), num_bytes));
  }
  const int error = errno;
  close(fd);
  return absl::ResourceExhaustedError(absl::StrCat("cannot map shared memory: ", strerror(error)));
}

SharedMemory::~SharedMemory() {
  munmap(data_, num_bytes_);
  close(fd_);
}

}  // namespace weir
