// An iterator whose elements are computed before they are asked for.
//
// At most `capacity` elements are held, and none is computed while those that are take more than
// kMaxAheadBytes. Whoever takes an element sees to it that a thread fills the buffer again when it is half
// empty. The thread is one that may wait (Threads::Block); it ends when the buffer is full, so idle iterators
// hold none. Where no thread can be had, the caller computes the element itself.
//
// Order and errors are the input's. The input is used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/data/dataset.h"

namespace weir {

class AheadIterator final : public Iterator {
 public:
  // Capacity 0: the caller computes all. `dataset` is kept as long as the input.
  AheadIterator(DatasetPtr dataset, IteratorPtr input, int64_t capacity);
  ~AheadIterator() override;

  absl::StatusOr<bool> Next(IteratorContext& context, Element* element) override;
  absl::Status Save(IteratorContext& context, PositionWriter& position) override;
  absl::Status Restore(IteratorContext& context, PositionReader& position) override;

  // Begins to fill the buffer.
  void Start(IteratorContext& context);

 private:
  struct Buffer;

  // Until `is_ready` gives true, with the buffer's mutex held; an error when the caller was cancelled before.
  absl::Status Await(IteratorContext& context, bool (*is_ready)(const Buffer&));
  static void Fill(const std::shared_ptr<Buffer>& buffer, IteratorRun& run, Threads* threads, int stages);

  const std::shared_ptr<Buffer> buffer_;  // shared with the thread that fills it
};

}  // namespace weir
