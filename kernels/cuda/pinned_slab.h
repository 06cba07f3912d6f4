// A few pieces of pinned memory by way of which tensors of any size are copied to a GPU and back.
//
// A GPU copies by itself only from and to pinned memory, and to pin a tensor's own costs more than most
// copies. So the host copies piece by piece through these: while one is on its way the next one is filled or
// emptied. Small copies to the GPU share a piece, so that thousands of them wait for nothing. They are pinned
// at the first use. Thread safety: all methods; copies take turns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/cuda_stream.h"

namespace weir {

class PinnedSlab {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 21;
  static constexpr int kNumPieces = 4;

  // The stream must outlive the slab.
  explicit PinnedSlab(CudaStream& stream) : stream_(stream) {}
  ~PinnedSlab();
  PinnedSlab(const PinnedSlab&) = delete;
  PinnedSlab& operator=(const PinnedSlab&) = delete;

  // Enqueues the copy on the stream; `from` may change as soon as this returns.
  absl::Status CopyToDevice(void* to, const void* from, size_t num_bytes);
  // Waits for what the stream has to do before, and for the copy.
  absl::Status CopyToHost(void* to, const void* from, size_t num_bytes);

 private:
  struct Piece {
    uint8_t* memory = nullptr;
    RefPtr<CudaEvent> last_use;  // null: free
    size_t used = 0;             // bytes from its beginning that are on their way to the GPU
  };
  absl::Status Pin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The piece being filled, or the next one when that has no room for so many bytes.
  absl::StatusOr<Piece*> PieceWithRoom(size_t num_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until nobody copies from or to it.
  absl::Status Await(Piece& piece) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CudaStream& stream_;
  absl::Mutex mutex_;
  uint8_t* memory_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::array<Piece, kNumPieces> pieces_ ABSL_GUARDED_BY(mutex_);
  int now_ ABSL_GUARDED_BY(mutex_) = 0;  // the piece that is being filled; the next one is the oldest
};

}  // namespace weir
