// Memory that two processes of one user and one machine share: made without a name (memfd), found by the
// other process at the maker's descriptor, and gone with the last of the two.
//
// Its size can never change (seals), so no access is ever outside of it, whatever the other process does.
// What is in it may change at any moment: readers copy before they look (memory_ring.h).
//
// Thread safety: all methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weir {

class SharedMemory {
 public:
  // Where the maker's is to be found: by a process that shares its kernel and sees its processes.
  struct Place {
    std::string machine;  // MachineId() of the maker
    int64_t process = 0;
    int64_t descriptor = 0;
    uint64_t file = 0;  // which the descriptor must be of
  };

  // All zeros. ResourceExhausted when the system gives none.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Make(size_t num_bytes);
  // That of another process. Possible errors: Unavailable (another machine, the process or its descriptor is
  // gone, another user), InvalidArgument (no such memory, of another size, or one that could shrink).
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Open(const Place& place, size_t num_bytes);

  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // Of one that was made. The other process opens it while this object lives.
  const Place& place() const { return place_; }
  char* data() const { return data_; }
  size_t num_bytes() const { return num_bytes_; }

  // The same for two processes if the one can find what the other has made: the kernel since its start, the
  // name space of process ids, and the user. Empty when the system does not say.
  static std::string MachineId();

 private:
  SharedMemory(int fd, char* data, size_t num_bytes) : fd_(fd), data_(data), num_bytes_(num_bytes) {}
  // Takes the descriptor over.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Map(int fd, size_t num_bytes);

  const int fd_;
  char* const data_;
  const size_t num_bytes_;
  Place place_;
};

}  // namespace weir
