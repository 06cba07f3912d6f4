// Counts on a device what many elements take beside their tensors' buffers: an element of one number takes
// more than its number, and elements may share one buffer.
//
// Thread safety: none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "graph/types/allocator.h"
#include "graph/types/buffer.h"
#include "graph/types/ref_counted.h"
#include "graph/types/tensor.h"

namespace weir {

class ElementRooms {
 public:
  // Fewer elements take little.
  static constexpr int64_t kElementsOfRoom = 64;

  // Of elements with that many tensors.
  explicit ElementRooms(size_t num_components)
      : num_bytes_(kElementsOfRoom * (sizeof(std::vector<Tensor>) + kBytesOfBuffer +
                                      num_components * (sizeof(Tensor) + kBytesOfBuffer))) {}

  // There are `count` elements now. ResourceExhausted, naming `what` holds them, when the device has no
  // memory for these; then nothing changes.
  absl::Status Hold(int64_t count, Allocator& allocator, absl::string_view what) {
    const auto needed = static_cast<size_t>(count / kElementsOfRoom);
    const size_t before = rooms_.size();
    while (rooms_.size() < needed) {
      RefPtr<Buffer> room = allocator.Allocate(num_bytes_);
      if (!room) {
        rooms_.resize(before);
        return absl::ResourceExhaustedError(absl::StrCat("out of memory for ", kElementsOfRoom,
                                                         " more elements of ", what, ", which take ",
                                                         num_bytes_, " bytes"));
      }
      rooms_.push_back(std::move(room));
    }
    Free(count);
    return absl::OkStatus();
  }
  // There are no more than `count` elements now. Room for a few more stays: their number may go up and down.
  void Free(int64_t count) {
    rooms_.resize(std::min(rooms_.size(), static_cast<size_t>(count / kElementsOfRoom) + 1));
  }

 private:
  static constexpr size_t kBytesOfBuffer = 64;

  size_t num_bytes_;
  std::vector<RefPtr<Buffer>> rooms_;  // one for each kElementsOfRoom elements; nothing is in it
};

}  // namespace weir
