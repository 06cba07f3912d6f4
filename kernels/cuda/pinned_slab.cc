#include "kernels/cuda/pinned_slab.h"

#include <algorithm>
#include <cstring>

#include "graph/types/status_macros.h"

namespace weir {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

PinnedSlab::~PinnedSlab() {
  absl::MutexLock lock(&mutex_);
  // Errors are those of a lost device, which copies no more.
  for (Piece& piece : pieces_) Await(piece).IgnoreError();
  if (memory_ != nullptr) stream_.api().FreePinned(memory_).IgnoreError();
}

absl::Status PinnedSlab::Pin() {
  if (memory_ != nullptr) return absl::OkStatus();
  WEIR_ASSIGN_OR_RETURN(void* const memory, stream_.api().AllocatePinned(kNumPieces * kPieceBytes));
  memory_ = static_cast<uint8_t*>(memory);
  for (int i = 0; i < kNumPieces; ++i) pieces_[i].memory = memory_ + i * kPieceBytes;
  return absl::OkStatus();
}

absl::Status PinnedSlab::Await(Piece& piece) {
  piece.used = 0;
  if (!piece.last_use) return absl::OkStatus();
  const RefPtr<CudaEvent> last_use = std::move(piece.last_use);
  return last_use->Wait();
}

absl::StatusOr<PinnedSlab::Piece*> PinnedSlab::PieceWithRoom(size_t num_bytes) {
  if (pieces_[now_].used + num_bytes > kPieceBytes) {
    now_ = (now_ + 1) % kNumPieces;
    WEIR_RETURN_IF_ERROR(Await(pieces_[now_]));
  }
  return &pieces_[now_];
}

absl::Status PinnedSlab::CopyToDevice(void* to, const void* from, size_t num_bytes) {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Pin());
  for (size_t done = 0; done < num_bytes; done += kPieceBytes) {
    const size_t count = std::min(kPieceBytes, num_bytes - done);
    WEIR_ASSIGN_OR_RETURN(Piece* const piece, PieceWithRoom(count));
    uint8_t* const memory = piece->memory + piece->used;
    std::memcpy(memory, static_cast<const uint8_t*>(from) + done, count);
    WEIR_RETURN_IF_ERROR(stream_.Copy(CudaCopy::kToDevice, static_cast<uint8_t*>(to) + done, memory, count));
    // Aligned, as copies of whole words want it.
    piece->used = std::min(kPieceBytes, (piece->used + count + kAlignment - 1) / kAlignment * kAlignment);
    WEIR_ASSIGN_OR_RETURN(piece->last_use, stream_.Record());
  }
  return absl::OkStatus();
}

absl::Status PinnedSlab::CopyToHost(void* to, const void* from, size_t num_bytes) {
  absl::MutexLock lock(&mutex_);
  WEIR_RETURN_IF_ERROR(Pin());
  const size_t num_pieces = (num_bytes + kPieceBytes - 1) / kPieceBytes;
  const auto bytes_of = [&](size_t piece) { return std::min(kPieceBytes, num_bytes - piece * kPieceBytes); };
  // Piece i is emptied when kNumPieces are on their way.
  for (size_t i = 0; i < num_pieces + kNumPieces; ++i) {
    Piece& piece = pieces_[i % kNumPieces];
    WEIR_RETURN_IF_ERROR(Await(piece));
    if (i >= kNumPieces && i - kNumPieces < num_pieces) {
      const size_t arrived = i - kNumPieces;
      std::memcpy(static_cast<uint8_t*>(to) + arrived * kPieceBytes, piece.memory, bytes_of(arrived));
    }
    if (i < num_pieces) {
      WEIR_RETURN_IF_ERROR(stream_.Copy(CudaCopy::kToHost, piece.memory,
                                        static_cast<const uint8_t*>(from) + i * kPieceBytes, bytes_of(i)));
      WEIR_ASSIGN_OR_RETURN(piece.last_use, stream_.Record());
    }
  }
  return absl::OkStatus();
}

}  // namespace weir
